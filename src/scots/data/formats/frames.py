"""Data frames of pandas, in and out: a table like any other, but in memory."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from scots.core.errors import BadInput
from scots.data import formats
from scots.data.choices import NO_CHOICES, Choices, evenly
from scots.data.formats.fields import describe, parse_description
from scots.data.formats.foreign import Table, read_foreign
from scots.data.formats.tabular import check_names, columns_of, from_own_table
from scots.data.trajectories import Array, Trajectories

_ATTRIBUTE = "scots"  # of a frame: its columns as they were written, and the description of the dataset


def to_frame(data: Trajectories) -> pd.DataFrame:
    """One row per state, with the number of its episode; what else is known is in the frame's `attrs`."""
    frame = pd.DataFrame({"episode": np.repeat(np.arange(len(data)), data.lengths), **columns_of(data)})
    frame.attrs[_ATTRIBUTE] = {"columns": list(frame.columns), "description": describe(data)}
    return frame


def from_frame(frame: pd.DataFrame, choices: Choices = NO_CHOICES) -> Trajectories:
    """The inverse of `to_frame` for its frames, also after a selection of rows; any other is a table from elsewhere."""
    if not isinstance(frame, pd.DataFrame):
        raise BadInput(f"expected a pandas DataFrame, got {type(frame).__name__}; convert it first")
    written = frame.attrs.get(_ATTRIBUTE)
    if written and written["columns"] == list(frame.columns) and not choices.given():
        data = _own(frame, written["description"])
    else:
        table = _table(_spread_lists(_with_index(frame)))
        data = evenly(read_foreign([table], choices), choices)
    formats.check_finite(data)
    return data


def _own(frame: pd.DataFrame, description: str) -> Trajectories:
    meta, terminated = parse_description(description)
    data = from_own_table(_table(frame))
    if terminated is not None:
        terminated = terminated[_episode_numbers(frame["episode"].to_numpy()[data.offsets[:-1]], len(terminated))]
    return dataclasses.replace(data, meta=meta, terminated=terminated)


def _episode_numbers(episodes: Array, count: int) -> Array:
    if episodes.dtype.kind not in "iu" or not ((episodes >= 0) & (episodes < count)).all():
        raise BadInput(
            f"frame: column 'episode' does not number the {count} episodes it was made from; clear its attrs"
        )
    return episodes


def _table(frame: pd.DataFrame) -> Table:
    return Table(Path("frame"), frame, "frame", lambda row: f"row {row}")


def _with_index(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with its index as columns where that has names or times, and all column names as text."""
    if isinstance(frame.index, (pd.DatetimeIndex, pd.TimedeltaIndex)) and frame.index.name is None:
        frame = frame.rename_axis(index="time")
    frame = frame.reset_index(drop=all(name is None for name in frame.index.names))
    frame = frame.set_axis([str(name).strip() for name in frame.columns], axis=1)
    check_names("frame", list(frame.columns))
    return frame


def _spread_lists(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with every column of lists of one length as that many columns, numbered from 0."""
    parts: dict[str, Any] = {}
    for name in frame.columns:
        rows = _stacked(frame[name])
        parts |= {name: frame[name]} if rows is None else {f"{name}_{n}": values for n, values in enumerate(rows.T)}
    return pd.DataFrame(parts)


def _stacked(column: Any) -> Array | None:
    """A column of lists of numbers as an array (N, K), or None for any other column."""
    if column.dtype != object or not len(column) or not isinstance(column.iloc[0], (list, tuple, np.ndarray)):
        return None
    try:
        rows = np.stack([np.asarray(cell) for cell in column])
    except ValueError:  # of unequal length
        return None
    return rows if rows.ndim == 2 and rows.dtype.kind in "biuf" else None
