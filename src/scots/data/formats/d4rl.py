"""D4RL HDF5 files: flat rows, with `terminals` where the environment ended an episode and `timeouts` at time limits.

Files written by `scots` have checksums on all data and metadata, so reading detects damage.
"""

from __future__ import annotations

import re
from pathlib import Path

import h5py
import numpy as np

from scots.core.errors import BadInput
from scots.data.formats.fields import as_flags, describe, last_rows, parse_description, required_rows
from scots.data.formats.hdf5 import Hdf5Writer, check_size
from scots.data.trajectories import ROW_FIELDS, Array, Meta, Trajectories, offsets_from_last

_PATHS = {name: name for name in ROW_FIELDS} | {
    name: f"infos/{name}" for name in ("qpos", "qvel", "times", "source", "scores", "generated")
}
_DESCRIPTION = "metadata/scots"
_ID = re.compile(r"(hopper|walker2d)[-_](medium(?:[-_]replay)?)-v\d")
_SIGNATURE = b"\x89HDF\r\n\x1a\n"


def matches(path: Path) -> bool:
    """Whether this is an HDF5 file."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(_SIGNATURE)) == _SIGNATURE


def read(path: Path) -> Trajectories:
    """Read a D4RL file or one made by `write`. Rows after the last flag form one more episode."""
    with h5py.File(path, "r") as file:
        paths = {**_PATHS, "terminals": "terminals", "timeouts": "timeouts", "description": _DESCRIPTION}
        arrays = {name: _array(file, key) for name, key in paths.items() if key in file}
    observations = required_rows(arrays, "observations")
    flags = [as_flags(key, arrays[key], len(observations)) for key in ("terminals", "timeouts") if key in arrays]
    if not flags:
        raise BadInput("no episode boundaries; add 'terminals' or 'timeouts'")
    offsets = offsets_from_last(np.logical_or.reduce(flags))
    if "description" in arrays:
        meta, terminated = parse_description(bytes(arrays["description"].item()).decode())
    else:
        terminals = arrays.get("terminals")
        meta, terminated = _meta_of(path.stem), None if terminals is None else terminals[offsets[1:] - 1] != 0
    fields = {name: arrays[name] for name in ROW_FIELDS if name in arrays}
    return Trajectories(offsets=offsets, terminated=terminated, meta=meta, **fields)


def _meta_of(stem: str) -> Meta:
    """Metadata from the name of an original file, such as hopper_medium-v2; all versions have the same layout."""
    if (match := _ID.fullmatch(stem)) is None:
        return Meta()
    body, kind = match.groups()
    return Meta(f"{body}-{kind.replace('_', '-')}-v2", body, position=(0, 1), provenance=({"origin": "D4RL"},))


def _array(file: h5py.File, key: str) -> Array:
    dataset = file[key]
    if not isinstance(dataset, h5py.Dataset):
        raise BadInput(f"{key}: found a group, expected an array; store one under this key")
    check_size(dataset)
    return np.asarray(dataset[()])


def write(data: Trajectories, path: Path) -> None:
    """Write D4RL's keys; arrays without a D4RL key go under `infos`, the description under `metadata`."""
    ended = last_rows(data)
    terminals = np.zeros_like(ended)
    if data.terminated is not None:
        terminals[data.offsets[1:] - 1] = data.terminated
    arrays: dict[str, Array] = {_PATHS[name]: values for name, values in data.arrays()}
    arrays |= {"terminals": terminals, "timeouts": ended & ~terminals}
    arrays[_DESCRIPTION] = np.array([describe(data).encode()])
    with Hdf5Writer(path) as file:
        for key, values in arrays.items():
            file.put(key, values)
