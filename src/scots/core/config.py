"""Configs as frozen dataclasses with strict JSON and fingerprints, and named streams of randomness."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self, Union, get_args, get_origin, get_type_hints

import numpy as np

from scots.core.errors import BadInput

Profile = Literal["smoke", "laptop", "paper"]
"""The scale of a run: seconds (tests), minutes to an hour on two CPU cores, or the paper's own (a GPU)."""


_AFTER_TRAINING = "after training"


def after_training(default: Any) -> Any:
    """A field of a model's config that only matters once the model is trained, such as how it is sampled.

    It is no part of what identifies a training, so trying another value trains nothing again.
    """
    return dataclasses.field(default=default, metadata={_AFTER_TRAINING: True})


@dataclass(frozen=True)
class Config:
    """Base of every config: strict JSON both ways, checked copies by dotted path, a fingerprint of the content."""

    def to_dict(self) -> dict[str, Any]:
        """The config as plain JSON values."""
        return {field.name: _plain(getattr(self, field.name)) for field in dataclasses.fields(self)}

    def training_dict(self) -> dict[str, Any]:
        """The same without the fields, at any depth, that only matter after training."""
        fields = [field for field in dataclasses.fields(self) if _AFTER_TRAINING not in field.metadata]
        values = {field.name: getattr(self, field.name) for field in fields}
        return {
            name: value.training_dict() if isinstance(value, Config) else _plain(value)
            for name, value in values.items()
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """Rebuild from `to_dict`; an unknown key or a value of the wrong type is an error."""
        if not isinstance(values, dict):
            raise BadInput(f"{cls.__name__}: expected an object, got {values!r}")
        hints = _hints(cls)
        names = {field.name for field in dataclasses.fields(cls)}
        if unknown := sorted(set(values) - names):
            raise BadInput(f"{cls.__name__}: unknown key {unknown[0]!r}; known keys are {', '.join(sorted(names))}")
        try:
            return cls(**{name: _parse(hints[name], value, f"{cls.__name__}.{name}") for name, value in values.items()})
        except TypeError as error:  # a required key is missing
            raise BadInput(f"{cls.__name__}: {error}") from error

    def to_json(self) -> str:
        """Canonical JSON: sorted keys, so equal configs give equal text."""
        return json.dumps(self.to_dict(), sort_keys=True, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Rebuild from `to_json`."""
        try:
            return cls.from_dict(json.loads(text))
        except (json.JSONDecodeError, RecursionError) as error:
            raise BadInput(f"{cls.__name__}: not JSON: {error}") from error

    def fingerprint(self) -> str:
        """Twelve hex digits of the content; the class name counts, so two kinds of config never collide."""
        text = type(self).__name__ + self.to_json()
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def replace_at(self, path: str, value: Any) -> Self:
        """A copy with one field replaced, named by a dotted path: `config.replace_at("stitcher.depth", 4)`."""
        return self.replace_all({path: value})

    def replace_all(self, changes: Mapping[str, Any]) -> Self:
        """A copy with several fields replaced, each named by a dotted path.

        This is the only way configs are changed by name (command line, Python, recipes, tables), so values are checked
        here: against the type of the field, and by the checks of every config on the path. Those see all changes at
        once: some are possible only together.
        """
        hints = _hints(type(self))
        values: dict[str, Any] = {}
        inside: dict[str, dict[str, Any]] = {}  # field -> changes of its fields
        for path, value in changes.items():
            name, _, rest = path.partition(".")
            if name not in hints:
                known = ", ".join(field.name for field in dataclasses.fields(self))
                raise BadInput(f"{type(self).__name__} has no field {name!r}; it has {known}")
            if rest:
                inside.setdefault(name, {})[rest] = value
            else:
                values[name] = _parse(hints[name], value, f"{type(self).__name__}.{name}")
                inside.pop(name, None)
        for name, own in inside.items():
            if not isinstance(inner := values.get(name, getattr(self, name)), Config):
                raise BadInput(f"{type(self).__name__}.{name} has no fields, so {next(iter(own))!r} cannot be set")
            values[name] = inner.replace_all(own)
        return dataclasses.replace(self, **values)

    def changes_from(self, other: Self) -> dict[str, Any]:
        """Where this config differs from another of its class: dotted path -> plain value here."""
        changes: dict[str, Any] = {}
        for field in dataclasses.fields(self):
            here, there = getattr(self, field.name), getattr(other, field.name)
            if isinstance(here, Config) and type(here) is type(there):
                changes |= {f"{field.name}.{path}": value for path, value in here.changes_from(there).items()}
            elif here != there:
                changes[field.name] = _plain(here)
        return changes


def parse_changes(assignments: Sequence[str]) -> dict[str, Any]:
    """Turn `path=value` words of a command line into a dict; values are JSON, anything else is text."""
    changes = {}
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        if not equals or not path:
            raise BadInput(f"{assignment!r}: expected a setting and its value, such as stitching.novelty_weight=4")
        try:
            changes[path] = json.loads(text)
        except json.JSONDecodeError:
            changes[path] = text
        except RecursionError as error:
            raise BadInput(f"{path}: its value is nested too deeply") from error
    return changes


_HINTS: dict[type[Config], dict[str, Any]] = {}


def _hints(kind: type[Config]) -> dict[str, Any]:
    """The type hints of a class, evaluated from their text once: that is slow."""
    if kind not in _HINTS:
        _HINTS[kind] = get_type_hints(kind)
    return _HINTS[kind]


def _plain(value: Any) -> Any:
    if isinstance(value, Config):
        return value.to_dict()
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


def _parse(hint: Any, value: Any, where: str) -> Any:
    """Check a JSON value against a type hint and build what the hint names."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any or (isinstance(hint, type) and issubclass(hint, Config) and isinstance(value, hint)):
        return value
    if origin in (Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        options = [option for option in arguments if option is not type(None)]
        for option in options[:-1]:
            try:
                return _parse(option, value, where)
            except BadInput:
                continue
        return _parse(options[-1], value, where)
    if origin is Literal:
        if value in arguments:
            return value
        raise BadInput(f"{where}: {value!r} is not one of {', '.join(map(repr, arguments))}")
    if origin is tuple and isinstance(value, list | tuple):
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return tuple(_parse(arguments[0], item, where) for item in value)
        if len(value) == len(arguments):
            return tuple(_parse(inner, item, where) for inner, item in zip(arguments, value, strict=True))
    if origin is dict and isinstance(value, dict):
        return {key: _parse(arguments[1], item, where) for key, item in value.items()}
    if isinstance(hint, type):
        if issubclass(hint, Config):
            return hint.from_dict(value)
        if hint is float and type(value) is int:
            return float(value)
        if type(value) is hint:
            return value
    raise BadInput(f"{where}: expected {_name(hint)}, got {value!r}")


def _name(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) and not typing.get_args(hint) else str(hint)


LARGEST_SEED = 2**31 - 1
"""Some libraries take seeds of 31 bits."""


@dataclass(frozen=True)
class Seeds:
    """Randomness by name: `Seeds(0).stream("episode", 17)` is one generator, whatever else was drawn before.

    Streams are derived from the root seed, a name and indices, so adding a stage never shifts another and work
    split over any number of processes draws the same numbers.
    """

    root: int

    def __post_init__(self) -> None:
        if not 0 <= self.root <= LARGEST_SEED:
            raise BadInput(f"seed {self.root}: expected 0 to {LARGEST_SEED}")

    def stream(self, name: str, *indices: int) -> np.random.Generator:
        """The generator of this name and these indices."""
        words = np.frombuffer(hashlib.sha256(name.encode()).digest()[:16], dtype=np.uint32)
        return np.random.default_rng(np.random.SeedSequence([self.root, *words.tolist(), *indices]))

    def integer(self, name: str, *indices: int) -> int:
        """A 31-bit seed for a library that wants a number."""
        return int(self.stream(name, *indices).integers(2**31))
