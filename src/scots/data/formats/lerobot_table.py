"""LeRobot's columns in one Parquet file: `observation.state` and `action` are lists, `episode_index` tells the episode.

This is what `datasets.load_dataset("parquet", data_files=...)` of Hugging Face reads as it is. Files that `scots` wrote
come back exactly; those of others are tables from elsewhere, whose columns have roles by name.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from scots.core.errors import require
from scots.data.choices import Choices
from scots.data.formats.fields import describe, last_rows
from scots.data.formats.foreign import Table
from scots.data.formats.parquet_table import read_table, write_table
from scots.data.formats.roles import SINGLE
from scots.data.formats.tabular import read_tables
from scots.data.trajectories import Array, Trajectories

_SUFFIX = ".parquet"
_STATE, _EPISODE = "observation.state", "episode_index"
_NAMES = {"observations": _STATE, "actions": "action", "rewards": "next.reward", "times": "timestamp"} | {
    "qpos": "qpos",
    "qvel": "qvel",
    "scores": "stitch_score",
}
_OWN_NAMES = {_STATE: "obs", "next.reward": "reward", "timestamp": "time", _EPISODE: "episode"}
_DERIVED = ("frame_index", "index", "next.done")  # all of them follow from the episodes


def matches(path: Path) -> bool:
    """Whether this is a .parquet file, or a folder that contains one, with LeRobot's columns."""
    files = sorted(path.glob(f"*{_SUFFIX}"))[:1] if path.is_dir() else [path]
    if not files or files[0].suffix.lower() != _SUFFIX:
        return False
    try:
        return {_STATE, _EPISODE} <= set(require("pyarrow.parquet", "parquet").read_schema(files[0]).names)
    except (OSError, ValueError):  # not Parquet, which the reader of Parquet says better
        return False


def read(path: Path, choices: Choices) -> Trajectories:
    """Read a file, or a folder of them such as `data/chunk-000`."""
    return read_tables(path, (_SUFFIX,), _read_table, choices)


def write(data: Trajectories, path: Path) -> None:
    """Write one file."""
    frame = np.arange(data.rows) - np.repeat(data.offsets[:-1], data.lengths)
    columns: dict[str, Array] = {_NAMES.get(name) or SINGLE[name]: values for name, values in data.arrays()}
    columns |= {
        "frame_index": frame,
        _EPISODE: np.repeat(np.arange(len(data)), data.lengths),
        "index": np.arange(data.rows),
        "next.done": last_rows(data),
    }
    write_table(columns, path, describe(data))


def _read_table(path: Path, choices: Choices, own: bool) -> Table:
    return read_table(path, choices, own, _own_names)


def _own_names(table: Any) -> Any:
    table = table.drop_columns([name for name in _DERIVED if name in table.column_names])
    return table.rename_columns([_OWN_NAMES.get(name, name) for name in table.column_names])
