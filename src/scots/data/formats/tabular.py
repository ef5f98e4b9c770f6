"""Tables as trajectories: column names and their roles, and folders with one table per episode.

episode  time  x  y  v  action_0  reward        role by name; a column without a role is an observation
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from scots.core.errors import BadInput
from scots.data.formats.fields import describe, offsets_from_ids, parse_description
from scots.data.trajectories import Array, Meta, Trajectories, concat

_EPISODE = {"episode", "episode_id", "traj", "trajectory", "traj_id", "run"}
_TIME = {"time", "t", "timestamp", "stamp"}
_POSITION = (("x", "y"), ("pos_x", "pos_y"), ("position_x", "position_y"), ("px", "py"))
_SINGLE = {
    "times": "time",
    "rewards": "reward",
    "source": "source_row",
    "generated": "generated",
}  # fields stored in a single column
_PREFIXES = {"actions": "action", "qpos": "qpos_", "qvel": "qvel_", "scores": "stitch_score_"}
_DESCRIPTION = "meta.json"


@dataclass(frozen=True)
class Table:
    """Columns (N,) of one file, by name."""

    path: Path
    columns: dict[str, Array]
    description: str | None = None  # output of `describe`, if the file contains it


def role_of(column: str) -> str:
    """Role of a column by its name: a field of `Trajectories`, or "episode"."""
    name = column.strip().lower()
    if name in _EPISODE:
        return "episode"
    if name in _TIME:
        return "times"
    for field, single in _SINGLE.items():
        if name == single:
            return field
    return next((field for field, prefix in _PREFIXES.items() if name.startswith(prefix)), "observations")


def check_header(where: str, header: list[str]) -> None:
    """Check that column names are unique and that single-column roles appear at most once."""
    for number, name in enumerate(header):
        if not name.strip():
            raise BadInput(f"{where}: column {number} has no name; name it, or drop it if it is an index")
        if name in header[:number]:
            raise BadInput(f"{where}: column {name!r} appears twice; rename one")
    for role in ("episode", *_SINGLE):
        matches = [name for name in header if role_of(name) == role]
        if len(matches) > 1:
            raise BadInput(f"{where}: columns {matches[0]!r} and {matches[1]!r} both mean {role}; rename one")
    if all(role_of(name) != "observations" for name in header):
        found = ", ".join(map(repr, header)) or "no columns"
        raise BadInput(f"{where}: no observation columns; the header has {found}")


# ----------------------------------------------------------------------------------------------------------- reading


def has_tables(path: Path, suffix: str) -> bool:
    """Whether this is a table with this suffix, or a folder that contains one."""
    if path.is_dir():
        return any(True for _ in _tables_in(path, suffix))
    return path.suffix.lower() == suffix


def read_tables(path: Path, suffix: str, read_table: Callable[[Path], Table]) -> Trajectories:
    """Read one table, or a folder of them in natural order of their names."""
    if not path.is_dir():
        table = read_table(path)
        return _with_description(_from_table(table), table.description)
    files = sorted(_tables_in(path, suffix), key=_natural_key)
    if not files:
        raise BadInput(f"the folder has no {suffix} files; check the path")
    tables = [read_table(file) for file in files]
    for table in tables[1:]:
        if list(table.columns) != list(tables[0].columns):
            different = sorted(set(table.columns) ^ set(tables[0].columns))
            reason = f"column {different[0]!r} is not in both" if different else "the columns are in another order"
            raise BadInput(f"{table.path}: the header differs from {tables[0].path.name}: {reason}")
    data = concat([_from_table(table) for table in tables])
    description = path / _DESCRIPTION
    return _with_description(data, description.read_text() if description.exists() else None)


def _tables_in(folder: Path, suffix: str) -> Iterator[Path]:
    return (file for file in folder.iterdir() if file.suffix.lower() == suffix and not file.name.startswith("."))


def _natural_key(path: Path) -> list[str | int]:
    """Sort key that compares numbers in a name by value: episode_2 before episode_10."""
    parts = re.split(r"(\d+)", path.name)
    return [int(part) if number % 2 else part for number, part in enumerate(parts)]


def _from_table(table: Table) -> Trajectories:
    check_header(str(table.path), list(table.columns))
    rows = len(next(iter(table.columns.values())))
    if not rows:
        raise BadInput(f"{table.path}: no rows below the header; an episode needs at least one")
    by_role: dict[str, dict[str, Array]] = {}
    for name, values in table.columns.items():
        by_role.setdefault(role_of(name), {})[name] = values
    offsets = np.array([0, rows])
    for name, values in by_role.pop("episode", {}).items():
        try:
            offsets = offsets_from_ids(name, values)
        except BadInput as error:
            raise BadInput(f"{table.path}: {error}") from error
    fields: dict[str, Any] = {}
    for role, columns in by_role.items():
        arrays = list(columns.values())
        stacked = role not in _SINGLE
        fields[role] = np.stack([values.astype(np.float32) for values in arrays], axis=1) if stacked else arrays[0]
    names = tuple(name.strip() for name in by_role["observations"])
    return Trajectories(offsets=offsets, meta=Meta(columns=names, position=_position_columns(names)), **fields)


def _position_columns(names: tuple[str, ...]) -> tuple[int, ...]:
    lower = [name.lower() for name in names]
    pair = next((pair for pair in _POSITION if set(pair) <= set(lower)), ())
    return tuple(lower.index(name) for name in pair)


def _with_description(data: Trajectories, description: str | None) -> Trajectories:
    if description is None:
        return data
    meta, terminated = parse_description(description)
    return dataclasses.replace(data, meta=meta, terminated=terminated)


# ----------------------------------------------------------------------------------------------------------- writing


def columns_of(data: Trajectories) -> dict[str, Array]:
    """Columns of the table that represents these rows, without the episode column."""
    arrays = dict(data.arrays())
    columns: dict[str, Array] = {}
    for field, name in _SINGLE.items():
        if field in arrays:
            columns[name] = arrays[field]
    for name, values in zip(_observation_names(data), data.observations.T, strict=True):
        columns[name] = values
    for field, prefix in _PREFIXES.items():
        if field in arrays:
            columns |= {f"{prefix.rstrip('_')}_{i}": values for i, values in enumerate(arrays[field].T)}
    return columns


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
