"""File formats: one module each, detected by content when reading and by suffix when writing.

A format is a module with `matches(path) -> bool` (a cheap check), `read(path) -> Trajectories` and
`write(data, path)`, where `path` is a new file or, for a folder format, an empty folder. A line in `FORMATS` registers
it. Formats of tables read with the user's choices, `read(path, choices)`, because their columns have no fixed meaning;
a format without suffixes is only read. Format modules let the errors of their libraries through; `read` and `write`
here turn them into `BadInput`.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from scots.core.errors import BadInput
from scots.core.files import atomic, check_input, check_output
from scots.data.choices import NO_CHOICES, Choices, evenly, follow
from scots.data.npz import read_npz
from scots.data.trajectories import Array, Meta, Trajectories, offsets_from_last

_BLOCK = 1 << 16  # rows checked at a time
_READ_REMEDY = "check that the file is not damaged"


@dataclass(frozen=True)
class Format:
    """An entry of the registry."""

    module: str  # imported on first use: some formats need slow or optional packages
    suffixes: tuple[str, ...]  # of the paths it writes; "" is a folder
    min_rows: int = 1  # per episode
    tables: bool = False  # its columns have the meaning that the user chooses
    by_name: bool = False  # written only where it is asked for by name


FORMATS = {
    "ogbench": Format("scots.data.formats.ogbench", (".npz",)),
    "plain": Format("scots.data.formats.plain", (".npz",)),
    "d4rl": Format("scots.data.formats.d4rl", (".hdf5", ".h5")),
    "csv": Format("scots.data.formats.csv_table", (".csv", ""), tables=True),
    "lerobot": Format("scots.data.formats.lerobot_table", (".parquet",), tables=True, by_name=True),
    "parquet": Format("scots.data.formats.parquet_table", (".parquet", ""), tables=True),
    "minari": Format("scots.data.formats.minari_folder", ("",), min_rows=2),
    "gpx": Format("scots.data.formats.gpx", (), tables=True),
    "geojson": Format("scots.data.formats.geojson", (), tables=True),
}
"""Name -> format, in order of detection. The first with a suffix is its default, but for those asked for by name."""


_SHEETS = "save it as .csv in the program that made it, or in Python: pandas.read_excel(...).to_csv(...)"
_PACKED = "unpack it first; of packed files only .csv.gz, .tsv.gz and .txt.gz are read as they are"
_GEOLIFE = (
    "GeoLife's files have six lines before the rows and no header; make a table of it: "
    "(echo lat,lon,zero,feet,days,date,time; tail -n +7 {name}) > {stem}.csv, and read that with --ignore zero,days"
)
_REMEDIES = {
    **dict.fromkeys((".xlsx", ".xls", ".ods"), _SHEETS),
    **dict.fromkeys((".gz", ".bz2", ".xz", ".tar", ".7z", ".rar"), _PACKED),
    ".plt": _GEOLIFE,
    ".bag": "export its topics as .csv first",
    ".mcap": "export its topics as .csv first",
    ".kml": "convert it to .gpx or .geojson first, for example with ogr2ogr",
    ".shp": "convert it to .gpx or .geojson first, for example with ogr2ogr",
}
"""What to do with a file that people have and that no format reads, by its suffix."""


def detect(path: Path) -> str:
    """Name of the format of an existing file or folder."""
    if path.suffix.lower() in (".xlsx", ".ods"):  # zip files, as .npz is one
        raise _unreadable(path)
    for name in FORMATS:
        if _module(name).matches(path):
            return name
    raise _unreadable(path)


def _unreadable(path: Path) -> BadInput:
    """The error for what no format reads: what can be done with it."""
    none = f"matches none of the formats {', '.join(FORMATS)}"
    if not path.is_dir():
        remedy = _REMEDIES.get(path.suffix.lower(), _READ_REMEDY)
        return BadInput(f"{path}: {none}; {remedy.format(name=path.name, stem=path.stem)}")
    inside = sorted(file for file in path.iterdir() if not file.name.startswith("."))
    if not inside:
        return BadInput(f"{path}: the folder is empty; give one that holds .csv files, or another format's")
    folders = [file for file in inside if file.is_dir()]
    if len(folders) == len(inside):
        problem = "holds folders and no files, and folders in folders are not read"
        return BadInput(f"{path}: {problem}; give one of them, such as {folders[0]}, or put all files into one folder")
    first = next(file for file in inside if not file.is_dir())
    remedy = _REMEDIES.get(first.suffix.lower(), "a folder is read if it holds .csv, .tsv, .parquet, .gpx or .geojson")
    return BadInput(f"{path}: {none}: it holds {first.name}; {remedy.format(name=first.name, stem=first.stem)}")


def read(path: Path, format: str | None = None, *, finite: bool = True, choices: Choices = NO_CHOICES) -> Trajectories:
    """Read a dataset and check that all its numbers are finite. The format is detected unless given.

    `choices` say what columns mean where the file does not. `finite=False` skips the check, to inspect broken data.
    """
    with _as_bad_input(path, "cannot be read", _READ_REMEDY):
        if not path.is_dir():
            check_input(path)
        name = format or detect(path)
        module: Any = _module(name)
        # Numbers too large for float32 become infinite here, and the check below names their row.
        with np.errstate(over="ignore", invalid="ignore"):
            data: Trajectories = module.read(path, choices) if FORMATS[name].tables else module.read(path)
        (check_finite if finite or choices.every is not None else check_columns)(data)
        return evenly(data, choices) if FORMATS[name].tables else follow(data, choices, name)


def read_meta(path: Path) -> Meta:
    """Read the metadata of a dataset, without its arrays where the format allows that."""
    with _as_bad_input(path, "cannot be read", _READ_REMEDY):
        if not path.is_dir():
            check_input(path)
        if path.suffix == ".npz" and "meta" in (file := read_npz(path)):
            return Meta.from_json(str(file["meta"]))
        return read(path, finite=False).meta


def read_lengths(path: Path) -> Array:
    """Read the number of states of every episode, without other arrays where the format allows that."""
    with _as_bad_input(path, "cannot be read", _READ_REMEDY):
        check_input(path)
        if detect(path) == "ogbench":
            return np.diff(offsets_from_last(read_npz(path)["terminals"] != 0))
        return read(path, finite=False).lengths


def write(data: Trajectories, path: Path, format: str | None = None, *, geographic: bool = False) -> None:
    """Write a dataset atomically. The suffix decides the format unless it is given.

    A path without a suffix becomes a folder. A non-empty folder is never replaced. `geographic` writes a CSV file for
    other programs, with the position as latitude and longitude.
    """
    name = check_target(path, format, geographic=geographic)
    with _as_bad_input(path, "cannot be written", "try another format"):
        if path.is_dir() and any(path.iterdir()):
            raise BadInput("the folder is not empty and will not be replaced; remove it or choose another path")
        module = _module(name)
        check_finite(data)
        _check_lengths(data, name)
        with atomic(path) as temporary:
            if not path.suffix:
                temporary.mkdir()
            (module.write_geographic if geographic else module.write)(data, temporary)


def check_target(path: Path, format: str | None = None, *, geographic: bool = False) -> str:
    """The name of the format that a path is written in; refuses what `write` could not write, before the work."""
    with _as_bad_input(path, "cannot be written", "try another format"):
        suffix = path.suffix.lower()
        name = format or _default_format(suffix)
        _module(name)
        if not FORMATS[name].suffixes:
            raise BadInput(f"{name} is only read, not written; choose another format")
        if geographic and (name, suffix) != ("csv", ".csv"):
            raise BadInput("--geographic writes a .csv file; change the path")
        if suffix not in FORMATS[name].suffixes:
            raise BadInput(
                f"{name} is written to {_join(FORMATS[name].suffixes)}, not to {_join([suffix])}; change the path"
            )
        check_output(path, folder=not suffix)
    return name


@contextmanager
def _as_bad_input(path: Path, failure: str, remedy: str) -> Iterator[None]:
    """Turn every error into a one-line `BadInput` that starts with the path.

    Damaged files can make zipfile, h5py, pyarrow, json or minari raise nearly any exception, so all are caught; the
    original stays attached as the cause.
    """
    try:
        yield
    except BadInput as error:
        message = _one_line(error)
        raise BadInput(message if message.startswith(str(path)) else f"{path}: {message}") from error
    except Exception as error:
        reason = f"{type(error).__name__}: {_one_line(error)}"
        raise BadInput(f"{path}: {failure} ({reason}); {remedy}") from error


def _one_line(error: Exception) -> str:
    return " ".join(line.strip() for line in str(error).splitlines())


def _module(name: str) -> ModuleType:
    if name not in FORMATS:
        raise BadInput(f"unknown format {name!r}; choose from {', '.join(FORMATS)}")
    return importlib.import_module(FORMATS[name].module)


def _default_format(suffix: str) -> str:
    for name, format in FORMATS.items():
        if suffix in format.suffixes and not format.by_name:
            return name
    known = sorted({suffix for format in FORMATS.values() for suffix in format.suffixes}, reverse=True)
    raise BadInput(f"no format is written to {suffix} files; use {_join(known)}")


def _join(suffixes: Sequence[str]) -> str:
    return " or ".join(suffix or "a folder (no suffix)" for suffix in suffixes)


def check_columns(data: Trajectories) -> None:
    """Check that every array has columns."""
    for name, values in data.arrays():
        if 0 in values.shape[1:]:
            raise BadInput(f"{name}: no columns (shape {values.shape}); every array needs at least one")


def check_finite(data: Trajectories) -> None:
    """Check that every array has columns and holds only finite numbers; the error names the first bad row."""
    check_columns(data)
    for name, values in data.arrays():
        for start in range(0, len(values), _BLOCK):
            finite = np.isfinite(values[start : start + _BLOCK])
            if not finite.all():
                row, *column = np.argwhere(~finite)[0] + [start, 0][: values.ndim]
                where = f"row {row}{f', column {column[0]}' if column else ''} (episode {data.episode_of(row)})"
                value = values[(row, *column)]
                raise BadInput(f"{name}: {where} is {value}, not a finite number; fix or drop that episode")


def _check_lengths(data: Trajectories, name: str) -> None:
    short = np.flatnonzero(data.lengths < FORMATS[name].min_rows)
    if short.size:
        remedy = f"{name} needs at least {FORMATS[name].min_rows}; drop the episode or choose another format"
        raise BadInput(f"episode {short[0]} has {data.lengths[short[0]]} row(s), {remedy}")
