"""Npz files of any origin: observations plus episode boundaries in any of the common forms."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from scots.core.errors import BadInput
from scots.data.formats.fields import as_flags, offsets_from_ids, required_rows
from scots.data.npz import Blocks, read_npz, write_npz
from scots.data.trajectories import (
    ROW_FIELDS,
    Array,
    Meta,
    Trajectories,
    offsets_from_last,
    offsets_from_lengths,
)

_OBSERVATIONS = ("observations", "states", "obs")
_FLAGS = ("terminals", "dones", "timeouts", "truncations", "terminations")


def matches(path: Path) -> bool:
    """Whether this is a zip file; an npz without the right keys then gets an error that names them."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(4) == b"PK\x03\x04"


def read(path: Path) -> Trajectories:
    """Read observations of rank 2 with episode boundaries in any common form, or of rank 3 (E, T, O)."""
    file = read_npz(path)
    key = next((name for name in _OBSERVATIONS if name in file), _OBSERVATIONS[0])
    observations = required_rows(file, key, ranks=(2, 3))
    lead = observations.shape[:-1]

    def flat(values: Array) -> Array:
        """(E, T, ...) -> (N, ...) if the observations are stacked by episode."""
        stacked = len(lead) == 2 and values.shape[:2] == lead
        return values.reshape(lead[0] * lead[1], *values.shape[2:]) if stacked else values

    fields: dict[str, Any] = {name: flat(file[name]) for name in ROW_FIELDS if name in file and name != key}
    fields["observations"] = flat(observations)
    if "terminated" in file:
        fields["terminated"] = file["terminated"]
    meta = Meta.from_json(str(file["meta"])) if "meta" in file else Meta()
    return Trajectories(offsets=_offsets(file, lead, flat), meta=meta, **fields)


def write(data: Trajectories, path: Path) -> None:
    """Write every array under its own name, plus `offsets` and `meta`."""
    members: dict[str, Array | Blocks] = dict(data.arrays())
    members["offsets"] = data.offsets
    if data.terminated is not None:
        members["terminated"] = data.terminated
    members["meta"] = np.array(json.dumps(data.meta.to_dict(), sort_keys=True))
    write_npz(path, members)


# -------------------------------------------------------------------------------------------------------- boundaries


def _offsets(file: Mapping[str, Array], lead: tuple[int, ...], flat: Callable[[Array], Array]) -> Array:
    """Offsets that all boundary keys of the file agree on."""
    rows = int(np.prod(lead))
    candidates = {
        key: _checked(key, parse(key, flat(file[key]), rows), rows) for key, parse in _EXPLICIT.items() if key in file
    }
    if len(lead) == 2:
        candidates["the shape of the observations"] = np.arange(0, rows + 1, lead[1])
    flags = _last_flags(file, rows, flat)
    if not candidates:
        if flags is None:
            raise BadInput(f"no episode boundaries; add one of {', '.join([*_FLAGS, *_EXPLICIT])}")
        return offsets_from_last(flags)
    (first, offsets), *others = candidates.items()
    for other, other_offsets in others:
        if not np.array_equal(offsets, other_offsets):
            raise BadInput(f"{first} and {other} give different episode boundaries; keep only the correct one")
    # A flag may be missing, as for an episode that ended at a time limit, but none may be inside an episode.
    stray = np.setdiff1d(np.flatnonzero(flags), offsets[1:] - 1) if flags is not None else np.empty(0)
    if stray.size:
        raise BadInput(f"the flags end an episode at row {stray[0]} but {first} does not; keep only the correct one")
    return offsets


def _last_flags(file: Mapping[str, Array], rows: int, flat: Callable[[Array], Array]) -> Array | None:
    """True on the last row of each episode (N,), or None if the file has no flags.

    Compact OGBench data sets `terminals` on the last two rows of an episode but clears `valids` only on the last row,
    so `valids` takes precedence.
    """
    if "valids" in file:
        return ~as_flags("valids", flat(file["valids"]), rows)
    present = [as_flags(key, flat(file[key]), rows) for key in _FLAGS if key in file]
    return np.logical_or.reduce(present) if present else None


def _from_offsets(key: str, values: Array, rows: int) -> Array:
    return _integers(key, values)


def _from_ends(key: str, values: Array, rows: int) -> Array:
    return np.concatenate([[0], _integers(key, values)])


def _from_lengths(key: str, values: Array, rows: int) -> Array:
    return offsets_from_lengths(_integers(key, values))


def _from_starts(key: str, values: Array, rows: int) -> Array:
    """Offsets from the first rows of the episodes, given as indices or as one flag per row."""
    if values.dtype == bool:
        values = np.flatnonzero(as_flags(key, values, rows))
    return np.append(_integers(key, values), rows)


def _from_ids(key: str, values: Array, rows: int) -> Array:
    if values.shape != (rows,):
        raise BadInput(f"{key}: expected one id for each of the {rows} rows, got shape {values.shape}")
    return offsets_from_ids(key, values)


_EXPLICIT: dict[str, Callable[[str, Array, int], Array]] = {
    "offsets": _from_offsets,
    "episode_ends": _from_ends,
    "episode_lengths": _from_lengths,
    "lengths": _from_lengths,
    "episode_starts": _from_starts,
    "episode_ids": _from_ids,
    "episodes": _from_ids,
    "episode": _from_ids,
}
"""Keys that fully determine the boundaries -> function that converts them to offsets."""


def _integers(key: str, values: Array) -> Array:
    if values.ndim != 1 or values.dtype.kind not in "iu":
        raise BadInput(f"{key}: expected a list of integers, got shape {values.shape} of {values.dtype}")
    return values.astype(np.int64)


def _checked(key: str, offsets: Array, rows: int) -> Array:
    empty = np.flatnonzero(np.diff(offsets) < 1)
    if empty.size:
        raise BadInput(f"{key}: episode {empty[0]} is empty; every episode needs at least one row")
    if offsets.size < 2 or offsets[0] != 0 or offsets[-1] != rows:
        found = f"{offsets[0]} to {offsets[-1]}" if offsets.size else "none"
        raise BadInput(f"{key}: expected episodes that cover rows 0 to {rows}, got {found}")
    return offsets
