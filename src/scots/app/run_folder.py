"""A run folder: what belongs together, such as the demo's data, planner and episodes, named in its run.json."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from scots.core.config import Config
from scots.core.errors import BadInput
from scots.core.files import write_text

_NAME = "run.json"


@dataclass(frozen=True)
class RunFolder(Config):
    """Paths inside the folder; nothing outside of it is read."""

    home: str  # what $SCOTS_HOME was: its caches have the embedding and the segments
    data: str  # augmented data
    planner: str
    rollouts: str  # recorded episodes

    @staticmethod
    def is_at(folder: Path) -> bool:
        """Whether a folder is the folder of a run."""
        return (folder / _NAME).is_file()

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read what `save` wrote; a path that leads out of the folder is refused."""
        try:
            found = cls.from_json((folder / _NAME).read_text(encoding="utf-8"))
        except (BadInput, OSError, UnicodeDecodeError) as error:
            raise BadInput(f"{folder / _NAME}: does not describe a run ({error}); make the run again") from error
        for name, value in found.to_dict().items():
            if not (folder / value).resolve().is_relative_to(folder.resolve()):
                raise BadInput(
                    f"{folder / _NAME}: {name} {value!r} lies outside the folder; only what is inside is read"
                )
        return found

    def save(self, folder: Path) -> None:
        """Write run.json."""
        write_text(folder / _NAME, self.to_json())
