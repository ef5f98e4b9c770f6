"""Minari datasets on disk: a folder with `data/metadata.json` and `data/main_data.hdf5`.

A Minari episode of T transitions has T actions and rewards and T + 1 observations, which are our T + 1 rows. Minari
cannot store the action and reward of an episode's last row, so `infos` holds a full copy of every optional array.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from scots.core.errors import BadInput, require
from scots.data.formats.fields import describe, parse_description
from scots.data.formats.hdf5 import Hdf5Writer, check_size
from scots.data.trajectories import ROW_FIELDS, Array, Meta, Trajectories, offsets_from_lengths

_DESCRIPTION = "scots"  # key in metadata.json that marks a dataset written by `scots`
_MAIN = "main_data.hdf5"
_OPTIONAL = tuple(ROW_FIELDS)[1:]
_ID = re.compile(r"([\w-]+/)*[\w-]+-v\d+")


def matches(path: Path) -> bool:
    """Whether this folder contains Minari's `data/metadata.json`."""
    return (path / "data" / "metadata.json").is_file()


# ----------------------------------------------------------------------------------------------------------- reading


def read(path: Path) -> Trajectories:
    """Read a dataset without creating its environment."""
    minari = require("minari", "minari")
    metadata = json.loads((path / "data" / "metadata.json").read_text())
    for key in ("observation_space", "action_space"):  # without them minari would create the environment
        if key not in metadata:
            raise BadInput(f"metadata.json: no key {key!r}; write the dataset again with a current Minari")
    is_own = _DESCRIPTION in metadata
    main = path / "data" / _MAIN
    if not is_own and main.exists():  # our files have checksums; Minari may also store Arrow files instead
        _check_sizes(main)
    dataset = minari.MinariDataset(path / "data")
    nested = _is_nested(dataset)
    fields: dict[str, list[Array]] = {}
    terminations = []
    for episode in dataset.iterate_episodes():
        for name, values in _own_rows(episode, nested) if is_own else _foreign_rows(episode, nested):
            fields.setdefault(name, []).append(values)
        terminations.append(bool(episode.terminations[-1]))
    if not terminations:
        raise BadInput("no episodes; a dataset needs at least one")
    if is_own:
        meta, terminated = parse_description(metadata[_DESCRIPTION])
    else:
        environment = None if dataset.env_spec is None else dataset.env_spec.id
        meta, terminated = Meta(dataset=dataset.id, environment=environment), np.array(terminations)
    # Keep only the arrays that every episode has.
    arrays = {name: np.concatenate(parts) for name, parts in fields.items() if len(parts) == len(terminations)}
    offsets = offsets_from_lengths([len(values) for values in fields["observations"]])
    return Trajectories(offsets=offsets, terminated=terminated, meta=meta, **arrays)


def _check_sizes(path: Path) -> None:
    def visit(_: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            check_size(item)

    with h5py.File(path, "r") as file:
        file.visititems(visit)


def _is_nested(dataset: Any) -> bool:
    """Whether observations are dictionaries with the array under "observation". Only flat Box spaces are accepted."""
    spaces = require("gymnasium.spaces", "minari")
    observation = dataset.observation_space
    nested = isinstance(observation, spaces.Dict) and "observation" in observation.spaces
    for name, space in (
        ("observation", observation["observation"] if nested else observation),
        ("action", dataset.action_space),
    ):
        if not isinstance(space, spaces.Box) or len(space.shape) != 1:
            found = f"the {name} space is {type(space).__name__} of shape {space.shape}"
            raise BadInput(f"{found}; only a Box of rank 1 is supported, so flatten it first")
    return nested


def _observations(episode: Any, nested: bool) -> Array:
    observations: Array = episode.observations["observation"] if nested else episode.observations
    if len(observations) < 2 or len(observations) != len(episode.actions) + 1:
        counts = f"{len(observations)} observations and {len(episode.actions)} actions"
        raise BadInput(f"episode {episode.id}: {counts}; expected one more observation than actions")
    return observations


def _own_rows(episode: Any, nested: bool) -> list[tuple[str, Array]]:
    infos = episode.infos or {}
    return [("observations", _observations(episode, nested)), *((k, infos[k]) for k in _OPTIONAL if k in infos)]


def _foreign_rows(episode: Any, nested: bool) -> list[tuple[str, Array]]:
    """Rows of a dataset that `scots` did not write; the last row has no action or reward, so both are zero."""
    observations = _observations(episode, nested)
    infos = episode.infos or {}
    padding = np.zeros_like(episode.actions[:1]), np.zeros_like(episode.rewards[:1])
    rows = [
        ("observations", observations),
        ("actions", np.concatenate([episode.actions, padding[0]])),
        ("rewards", np.concatenate([episode.rewards, padding[1]])),
    ]
    for name in ("qpos", "qvel"):
        values = infos.get(name)
        if isinstance(values, np.ndarray) and values.ndim == 2 and len(values) == len(observations):
            rows.append((name, values))
    return rows


# ----------------------------------------------------------------------------------------------------------- writing


def write(data: Trajectories, path: Path) -> None:
    """Fill a folder with a dataset that `minari.MinariDataset(path / "data")` can load.

    Missing actions and rewards are written as zeros, because Minari requires both.
    """
    folder = path / "data"
    folder.mkdir()
    main = folder / _MAIN
    with Hdf5Writer(main) as file:
        for number, episode in enumerate(data.episodes()):
            _write_episode(file, f"episode_{number}", number, episode)
    (folder / "metadata.json").write_text(json.dumps(_metadata(data, main.stat().st_size)))


def _write_episode(file: Hdf5Writer, group: str, number: int, episode: Trajectories) -> None:
    steps = episode.rows - 1
    terminated = episode.terminated is not None and bool(episode.terminated[0])
    last = np.arange(steps) == steps - 1
    file.put_attributes(group, {"id": number, "total_steps": steps})
    file.put(f"{group}/observations", episode.observations)
    file.put(f"{group}/actions", np.zeros((steps, 1), np.float32) if episode.actions is None else episode.actions[:-1])
    file.put(f"{group}/rewards", np.zeros(steps, np.float32) if episode.rewards is None else episode.rewards[:-1])
    file.put(f"{group}/terminations", last & terminated)
    file.put(f"{group}/truncations", last & (not terminated))
    for name, values in episode.arrays():
        if name in _OPTIONAL:
            file.put(f"{group}/infos/{name}", values)


def _metadata(data: Trajectories, size: int) -> dict[str, Any]:
    minari = require("minari", "minari")
    name = data.meta.dataset or ""
    return {
        "dataset_id": name if _ID.fullmatch(name) else "scots/trajectories-v0",
        "total_episodes": len(data),
        "total_steps": data.rows - len(data),
        "data_format": "hdf5",
        "observation_space": _box(data.observations.shape[1]),
        "action_space": _box(1 if data.actions is None else data.actions.shape[1]),
        "minari_version": minari.__version__,
        "dataset_size": round(size / 1e6, 1),
        _DESCRIPTION: describe(data),
    }


def _box(width: int) -> str:
    spaces = require("gymnasium.spaces", "minari")
    box = spaces.Box(-np.inf, np.inf, (width,), np.float32)
    return str(require("minari.serialization", "minari").serialize_space(box))
