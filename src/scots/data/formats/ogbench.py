"""OGBench npz files: flat rows, with `terminals` set on the last row of each episode.

Arrays without an OGBench key (rewards, times, lineage, terminated, meta) are stored under keys that its loader ignores.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np

from scots.core.errors import BadInput
from scots.data.formats.fields import as_flags, last_rows, required, required_rows
from scots.data.npz import Blocks, read_npz, write_npz
from scots.data.trajectories import ROW_FIELDS, Array, Meta, Trajectories, offsets_from_last

_REQUIRED = ("observations", "actions", "terminals")
_OPTIONAL = (*(name for name in ROW_FIELDS if name not in _REQUIRED), "terminated")
_KEYS = {*_REQUIRED, *_OPTIONAL, "button_states", "meta"}
_ID = re.compile(r"((?:pointmaze|antmaze|humanoidmaze|antsoccer|cube|scene|puzzle)-[\w-]+-v\d+)(-val)?")


def matches(path: Path) -> bool:
    """Whether this npz has OGBench's keys and no unknown ones, which could change the meaning of the flags."""
    try:
        keys = set(read_npz(path)) if path.is_file() else set()
    except BadInput:
        return False
    return keys.issuperset(_REQUIRED) and keys <= _KEYS


def read(path: Path) -> Trajectories:
    """Read an OGBench file or one made by `write`."""
    file = read_npz(path)
    if "valids" in file:
        raise BadInput("found key 'valids', so this is data from OGBench's compact loader; read it as 'plain'")
    observations = required_rows(file, "observations")
    terminals = as_flags("terminals", required(file, "terminals"), len(observations))
    actions = required(file, "actions")
    return Trajectories(
        observations=observations,
        offsets=offsets_from_last(terminals),
        actions=None if actions.shape == (len(observations), 0) else actions,
        meta=Meta.from_json(str(file["meta"])) if "meta" in file else _meta_of(path.stem),
        **{key: file[key] for key in _OPTIONAL if key in file},
    )


def write(data: Trajectories, path: Path) -> None:
    """Write a file that `ogbench.utils.load_dataset` can load; missing actions become an array with no columns."""
    members: dict[str, Array | Blocks] = dict(data.arrays())
    members.setdefault("actions", np.empty((data.rows, 0), dtype=np.float32))
    members["terminals"] = last_rows(data)
    if data.terminated is not None:
        members["terminated"] = data.terminated
    members["meta"] = np.array(json.dumps(data.meta.to_dict(), sort_keys=True))
    write_npz(path, members)


def _meta_of(stem: str) -> Meta:
    """Metadata from the name of an original file; the validation split has the id of its dataset."""
    match = _ID.fullmatch(stem)
    if match is None:
        return Meta()
    family = match[1].split("-")[0]
    return Meta(
        dataset=match[1],
        position=(0, 1) if family.endswith("maze") else (),
        quaternions=(3,) if family == "antmaze" else (),
    )
