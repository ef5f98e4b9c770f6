"""Helpers of the format modules: arrays by key, episode flags and ids, and the JSON description of a dataset."""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np

from scots.core.errors import BadInput
from scots.data.trajectories import Array, Meta, Trajectories


def required(file: Mapping[str, Array], key: str) -> Array:
    """The array under a required key."""
    if key not in file:
        raise BadInput(f"no key {key!r}; the file has {', '.join(sorted(file)) or 'no keys'}")
    return file[key]


def required_rows(file: Mapping[str, Array], key: str, ranks: tuple[int, ...] = (2,)) -> Array:
    """The array under a required key, which must have one of these ranks and at least one row."""
    values = required(file, key)
    if values.ndim not in ranks:
        expected = " or ".join(map(str, ranks))
        raise BadInput(f"{key}: expected rank {expected}, got shape {values.shape}")
    if 0 in values.shape[:-1]:
        raise BadInput(f"{key}: no rows (shape {values.shape}); a dataset needs at least one episode")
    return values


def as_flags(key: str, values: Array, rows: int) -> Array:
    """One boolean per row (N,), from booleans or numbers."""
    if values.shape != (rows,):
        raise BadInput(f"{key}: expected one flag for each of the {rows} rows, got shape {values.shape}")
    if values.dtype.kind not in "biuf" or not np.isfinite(values).all():
        raise BadInput(f"{key}: expected flags of 0 and 1, got {values.dtype} or non-finite values")
    return values != 0


def last_rows(data: Trajectories) -> Array:
    """True on the last row of each episode (N,)."""
    flags = np.zeros(data.rows, dtype=bool)
    flags[data.offsets[1:] - 1] = True
    return flags


def offsets_from_ids(key: str, ids: Array) -> Array:
    """Episode id of each row (N,) -> offsets. The rows of an episode must be consecutive."""
    starts = np.flatnonzero(np.concatenate([[True], ids[1:] != ids[:-1]]))
    seen = set()
    for row, episode in zip(starts.tolist(), ids[starts].tolist(), strict=True):
        if episode in seen:
            raise BadInput(f"{key}: episode {episode} starts a second time at row {row}; sort the rows by episode")
        seen.add(episode)
    return np.append(starts, len(ids))


def describe(data: Trajectories) -> str:
    """Metadata and the termination of each episode as one line of JSON, for formats that cannot store them natively."""
    terminated = None if data.terminated is None else data.terminated.tolist()
    return json.dumps({"meta": data.meta.to_dict(), "terminated": terminated}, sort_keys=True)


def parse_description(text: str) -> tuple[Meta, Array | None]:
    """The inverse of `describe`."""
    try:
        values = json.loads(text)
    except json.JSONDecodeError as error:
        raise BadInput(f"meta: not valid JSON ({error}); write the file again") from error
    if not isinstance(values, dict) or not {"meta", "terminated"} <= set(values):
        raise BadInput("meta: expected an object with 'meta' and 'terminated'; write the file again")
    terminated = values["terminated"]
    if terminated is None:
        return Meta.from_dict(values["meta"]), None
    if not isinstance(terminated, list) or not all(isinstance(flag, bool) for flag in terminated):
        raise BadInput("meta: expected 'terminated' to be a list of true and false; write the file again")
    return Meta.from_dict(values["meta"]), np.array(terminated, dtype=bool)
