"""Types of command-line arguments that are checked before the work starts: seeds, counts, and where output goes."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

from scots.core.config import LARGEST_SEED, Profile
from scots.core.errors import BadInput
from scots.core.files import check_output

_MOST_WORKERS = 1024  # processes, more than any machine has cores for


class Check(ABC):
    """What an argument must be; it is in the annotation of the field that holds the argument."""

    @abstractmethod
    def __call__(self, name: str, value: Any) -> None:
        """Raise `BadInput` unless the value, which is never None, will do."""


@dataclass(frozen=True)
class Range(Check):
    """A number, or several, none of them smaller or larger than these."""

    least: int
    most: int | None = None

    def __call__(self, name: str, value: Any) -> None:
        """Name the flag and the number that is out of range."""
        expected = f"{self.least} or more" if self.most is None else f"{self.least} to {self.most}"
        for number in value if isinstance(value, tuple) else (value,):
            if number < self.least or (self.most is not None and number > self.most):
                raise BadInput(f"--{name.replace('_', '-')} {number}: expected {expected}")


class WritableFile(Check):
    """A path that a file can be written to."""

    def __call__(self, name: str, value: Any) -> None:
        """Say why nothing can be written there."""
        check_output(value)


class WritableFolder(Check):
    """A folder that can be made or written to."""

    def __call__(self, name: str, value: Any) -> None:
        """Say why nothing can be written there."""
        check_output(value, folder=True)


class WritableData(Check):
    """A path that a dataset can be written to, in a format that its name tells."""

    def __call__(self, name: str, value: Any) -> None:
        """Say why nothing can be written there."""
        from scots.data import formats

        formats.check_target(value)


class WritableFigure(Check):
    """A path that a picture can be written to."""

    def __call__(self, name: str, value: Any) -> None:
        """Say why nothing can be written there."""
        from scots.reporting.maps import check_figure

        check_figure(value)


Seed = Annotated[int, Range(0, LARGEST_SEED)]
Seeds = Annotated[tuple[int, ...], Range(0, LARGEST_SEED)]
Workers = Annotated[int | None, Range(1, _MOST_WORKERS)]
Port = Annotated[int, Range(0, 65535)]
Count = Annotated[int, Range(1)]
OptionalCount = Annotated[int | None, Range(1)]
Folder = Annotated[Path, WritableFolder()]
DataFile = Annotated[Path, WritableData()]
OptionalDataFile = Annotated[Path | None, WritableData()]
OptionalFile = Annotated[Path | None, WritableFile()]
OptionalFigure = Annotated[Path | None, WritableFigure()]


def default_profile() -> Profile:
    """The scale where no --profile is given: that of `$SCOTS_PROFILE`, by default laptop."""
    name = os.environ.get("SCOTS_PROFILE") or "laptop"
    for profile in get_args(Profile):
        if name == profile:
            return profile
    raise BadInput(f"SCOTS_PROFILE: {name!r} is not one of {', '.join(get_args(Profile))}")


def check_words(words: Sequence[str]) -> None:
    """Refuse empty words of a command line: an empty path would silently be the current folder."""
    for before, word in zip(("scots", *words), words, strict=False):
        if not word or (word.startswith("--") and word.endswith("=")):
            raise BadInput(f"the value after {before!r} is empty; give one, or leave the argument out")


def check_arguments(command: Any) -> None:
    """Run the checks of all fields of a command, and of the command inside it."""
    hints = get_type_hints(type(command), include_extras=True)
    for field in fields(command):
        value = getattr(command, field.name)
        if value is not None:
            for check in get_args(hints[field.name])[1:]:
                if isinstance(check, Check):
                    check(field.name, value)
        if is_dataclass(value):
            check_arguments(value)
