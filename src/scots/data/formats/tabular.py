"""Tables as trajectories: our own tables, strictly, and folders with one table per episode."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from scots.core.errors import BadInput
from scots.core.files import check_input
from scots.data import geography
from scots.data.choices import Choices, apply, refuse_table_choices
from scots.data.formats.fields import describe, offsets_from_ids, parse_description
from scots.data.formats.foreign import Table, read_foreign
from scots.data.formats.roles import PREFIXES, SINGLE, role_of
from scots.data.trajectories import Array, Trajectories, concat

_DESCRIPTION = "meta.json"


def check_header(where: str, header: list[str]) -> None:
    """Check that the columns of an own table have unique names and that single-column roles appear at most once."""
    check_names(where, header)
    for number, name in enumerate(header):
        if not name.strip():
            raise BadInput(f"{where}: column {number} has no name; name it, or drop it if it is an index")
    for role in ("episode", *SINGLE):
        matches = [name for name in header if role_of(name) == role]
        if len(matches) > 1:
            raise BadInput(f"{where}: columns {matches[0]!r} and {matches[1]!r} both mean {role}; rename one")
    if all(role_of(name) != "observations" for name in header):
        found = ", ".join(map(repr, header)) or "no columns"
        raise BadInput(f"{where}: no observation columns; the header has {found}")


def check_names(where: str, header: list[str]) -> None:
    """Check that no two columns have the same name."""
    for number, name in enumerate(header):
        if name.strip() and name in header[:number]:
            raise BadInput(f"{where}: column {name!r} appears twice; rename one")


# ----------------------------------------------------------------------------------------------------------- reading


def has_tables(path: Path, *suffixes: str) -> bool:
    """Whether this is a table with one of these suffixes, or a folder that contains one."""
    if path.is_dir():
        return any(True for _ in _tables_in(path, suffixes))
    return path.name.lower().endswith(suffixes)


def read_tables(
    path: Path, suffixes: tuple[str, ...], read_table: Callable[[Path, Choices, bool], Table], choices: Choices
) -> Trajectories:
    """Read one table, or a folder of them in natural order of their names.

    `read_table` is told whether the folder is our own; a single file says so itself, by a description.
    """
    if not path.is_dir():
        table = read_table(path, choices, False)
        if table.description is None:
            return read_foreign([table], choices)
        return _own([table], table.description, choices)
    files = sorted(_tables_in(path, suffixes), key=_natural_key)
    if not files:
        raise BadInput(f"the folder has no {suffixes[0]} files; check the path")
    description = path / _DESCRIPTION
    for file in files:
        check_input(file)
    tables = [read_table(file, choices, description.exists()) for file in files]
    for table in tables[1:]:
        _check_same_header(table, tables[0])
    return _own(tables, description.read_text(), choices) if description.exists() else read_foreign(tables, choices)


def _tables_in(folder: Path, suffixes: tuple[str, ...]) -> Iterator[Path]:
    return (file for file in folder.iterdir() if file.name.lower().endswith(suffixes) and not file.name.startswith("."))


def _natural_key(path: Path) -> list[str | int]:
    """Sort key that compares numbers in a name by value: episode_2 before episode_10."""
    parts = re.split(r"(\d+)", path.name)
    return [int(part) if number % 2 else part for number, part in enumerate(parts)]


def _check_same_header(table: Table, first: Table) -> None:
    own, expected = list(table.frame.columns), list(first.frame.columns)
    if own != expected:
        different = sorted(set(own) ^ set(expected))
        reason = f"column {different[0]!r} is not in both" if different else "the columns are in another order"
        raise BadInput(f"{table.path}: the header differs from {first.path.name}: {reason}")


def _own(tables: list[Table], description: str, choices: Choices) -> Trajectories:
    """Tables that `scots` wrote: complete, in order, and described."""
    refuse_table_choices(choices, "a table that scots wrote")
    data = concat([from_own_table(table) for table in tables])
    meta, terminated = parse_description(description)
    return apply(dataclasses.replace(data, meta=meta, terminated=terminated), choices)


def from_own_table(table: Table) -> Trajectories:
    """The rows of a table with our own column names; its description is left to the caller."""
    columns = {str(name): table.frame[name].to_numpy() for name in table.frame.columns}
    rows = len(table.frame)
    if not rows:
        raise BadInput(f"{table.path}: no rows below the header; an episode needs at least one")
    by_role: dict[str, dict[str, Array]] = {}
    for name, values in columns.items():
        by_role.setdefault(role_of(name), {})[name] = values
    offsets = np.array([0, rows])
    for name, values in by_role.pop("episode", {}).items():
        try:
            offsets = offsets_from_ids(name, values)
        except BadInput as error:
            raise BadInput(f"{table.path}: {error}") from error
    fields: dict[str, Any] = {}
    for role, members in by_role.items():
        arrays = list(members.values())
        stacked = role not in SINGLE
        fields[role] = np.stack([values.astype(np.float32) for values in arrays], axis=1) if stacked else arrays[0]
    return Trajectories(offsets=offsets, **fields)


# ----------------------------------------------------------------------------------------------------------- writing


def columns_of(data: Trajectories, geographic: bool = False) -> dict[str, Array]:
    """Columns of the table that represents these rows, without the episode column.

    `geographic` writes the position as latitude and longitude in double precision.
    """
    arrays = dict(data.arrays())
    columns: dict[str, Array] = {}
    for field, name in SINGLE.items():
        if field in arrays:
            columns[name] = arrays[field]
    degrees = _degrees(data) if geographic else {}
    for number, name in enumerate(_observation_names(data)):
        columns |= degrees.get(number, {name: data.observations[:, number]})
    for field, prefix in PREFIXES.items():
        if field in arrays:
            columns |= {f"{prefix.rstrip('_')}_{i}": values for i, values in enumerate(arrays[field].T)}
    return columns


def _degrees(data: Trajectories) -> dict[int, dict[str, Array]]:
    """The columns in degrees that stand for the two position columns."""
    if not data.meta.geo_origin:
        raise BadInput("--geographic needs data that was read with latitude and longitude; this has no origin")
    east, north = data.meta.position
    latitude, longitude = geography.to_degrees(data.positions[:, 0], data.positions[:, 1], data.meta.geo_origin)
    return {east: {"longitude": longitude}, north: {"latitude": latitude}}


def _observation_names(data: Trajectories) -> list[str]:
    """The data's own column names, unless one of them would be read back in another role."""
    names = list(data.meta.columns)
    distinct = len({name.strip() for name in names}) == len(names) > 0
    if distinct and all(name.strip() and name.isprintable() and role_of(name) == "observations" for name in names):
        return names
    return [f"obs_{column}" for column in range(data.observations.shape[1])]


def write_tables(
    data: Trajectories, folder: Path, suffix: str, write_table: Callable[[Trajectories, Path], None]
) -> None:
    """Fill a folder with one table per episode, and a JSON file with the description of the dataset."""
    for number, episode in enumerate(data.episodes()):
        write_table(episode, folder / f"episode_{number:06d}{suffix}")
    (folder / _DESCRIPTION).write_text(describe(data) + "\n")
