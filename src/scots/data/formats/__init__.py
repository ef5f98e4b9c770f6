"""File formats: one module each, found by content when reading and by suffix when writing.

A format is a module with `matches(path) -> bool` (a cheap look at the file), `read(path) -> Trajectories` and
`write(data, path)`, where `path` is a new file or, for a folder format, an empty folder. Its line in `FORMATS` is all
that registers it. Modules raise whatever their library raises: `read` and `write` here turn it into `BadInput`.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np

from scots.core.errors import BadInput
from scots.core.files import atomic
from scots.data.npz import read_npz
from scots.data.trajectories import Meta, Trajectories

_BLOCK = 1 << 16  # rows checked at a time


@dataclass(frozen=True)
class Format:
    """A line of the registry."""

    module: str  # imported when first needed: some formats stand on slow or optional packages
    suffixes: tuple[str, ...]  # of the paths it writes; "" is a folder
    shortest: int = 1  # rows of the shortest episode it can hold


FORMATS = {
    "ogbench": Format("scots.data.formats.ogbench", (".npz",)),
    "plain": Format("scots.data.formats.plain", (".npz",)),
    "d4rl": Format("scots.data.formats.d4rl", (".hdf5", ".h5")),
    "csv": Format("scots.data.formats.csv_table", (".csv", "")),
    "parquet": Format("scots.data.formats.parquet_table", (".parquet", "")),
    "minari": Format("scots.data.formats.minari_folder", ("",), shortest=2),
}
"""Name -> format. The order is that of detection; of the formats that share a suffix the first is its default."""


def detect(path: Path) -> str:
    """The name of the format of an existing file or folder."""
    for name in FORMATS:
        if _module(name).matches(path):
            return name
    raise BadInput(f"{path}: not recognised as any of {', '.join(FORMATS)}; is it damaged?")


def read(path: Path, format: str | None = None, *, finite: bool = True) -> Trajectories:
    """Read a dataset and check that every number in it is finite. The format is detected unless it is named.

    `finite=False` leaves the numbers unchecked, for looking at broken data.
    """
    with _explained(path, "cannot be read"):
        if not path.exists():
            raise BadInput("no such file or folder; check the path")
        # A number too large for float32 becomes infinite here, and the check below names its row.
        with np.errstate(over="ignore", invalid="ignore"):
            data: Trajectories = _module(format or detect(path)).read(path)
        if finite:
            _check(data)
    return data


def read_meta(path: Path) -> Meta:
    """What a file says about itself; its arrays are not touched where that can be told without them."""
    with _explained(path, "cannot be read"):
        if path.suffix == ".npz" and "meta" in (file := read_npz(path)):
            return Meta.from_json(str(file["meta"]))
        return read(path, finite=False).meta


def write(data: Trajectories, path: Path, format: str | None = None) -> None:
    """Write a dataset whole or not at all. The format follows from the suffix unless it is named.

    A path without a suffix becomes a folder. A folder that has content is never replaced.
    """
    with _explained(path, "cannot be written"):
        suffix = path.suffix.lower()
        name = format or _default(suffix)
        module = _module(name)
        if suffix not in FORMATS[name].suffixes:
            raise BadInput(f"{name} is written to {_listed(FORMATS[name].suffixes)}, not to {_listed([suffix])}")
        if path.is_dir() and any(path.iterdir()):
            raise BadInput("a folder with content is not replaced; remove it or choose another place")
        _check(data)
        _check_shortest(data, name)
        with atomic(path) as temporary:
            if not suffix:
                temporary.mkdir()
            module.write(data, temporary)


@contextmanager
def _explained(path: Path, failure: str) -> Iterator[None]:
    """Make every failure one line that begins with the path.

    Foreign bytes can make zipfile, h5py, pyarrow, json or minari raise nearly anything, so nearly anything is caught;
    the cause stays attached.
    """
    try:
        yield
    except BadInput as error:
        message = _one_line(error)
        raise BadInput(message if message.startswith(str(path)) else f"{path}: {message}") from error
    except Exception as error:
        raise BadInput(f"{path}: {failure} ({type(error).__name__}: {_one_line(error)}); is it damaged?") from error


def _one_line(error: Exception) -> str:
    return " ".join(line.strip() for line in str(error).splitlines())


def _module(name: str) -> ModuleType:
    if name not in FORMATS:
        raise BadInput(f"format {name!r} is not one of {', '.join(FORMATS)}")
    return importlib.import_module(FORMATS[name].module)


def _default(suffix: str) -> str:
    for name, format in FORMATS.items():
        if suffix in format.suffixes:
            return name
    known = sorted({suffix for format in FORMATS.values() for suffix in format.suffixes}, reverse=True)
    raise BadInput(f"no format is written to {suffix}; choose {_listed(known)}")


def _listed(suffixes: Sequence[str]) -> str:
    return " or ".join(suffix or "a folder (no suffix)" for suffix in suffixes)


def _check(data: Trajectories) -> None:
    """Every array has columns and only finite numbers; the first row that has not is named."""
    for name, values in data.arrays():
        if 0 in values.shape[1:]:
            raise BadInput(f"{name}: no columns")
        for begin in range(0, len(values), _BLOCK):
            finite = np.isfinite(values[begin : begin + _BLOCK])
            if not finite.all():
                row, *column = np.argwhere(~finite)[0] + [begin, 0][: values.ndim]
                place = f"row {row}{f', column {column[0]}' if column else ''} (episode {data.episode_of(row)})"
                value = values[(row, *column)]
                raise BadInput(f"{name}: {place} is {value}, not a finite number; repair or drop that episode")


def _check_shortest(data: Trajectories, name: str) -> None:
    short = np.flatnonzero(data.lengths < FORMATS[name].shortest)
    if short.size:
        needed = f"{name} needs at least {FORMATS[name].shortest}; drop the episode or choose another format"
        raise BadInput(f"episode {short[0]} has {data.lengths[short[0]]} row(s), {needed}")
