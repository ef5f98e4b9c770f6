"""The toy dataset: short walks in the corridor maze, made in a second from a seed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from scots.core.config import Seeds
from scots.core.errors import BadInput
from scots.core.resources import check_memory
from scots.data import formats
from scots.data.trajectories import Meta, Trajectories, offsets_from_lengths
from scots.envs.toy import EPISODE_STATES, ToyCorridor

ID = "toy-corridor-stitch-v0"
ENVIRONMENT = "toy-corridor-v0"
EPISODES = 400
META = Meta(dataset=ID, environment=ENVIRONMENT, columns=("x", "y"), position=(0, 1))

_VALIDATION_SEED = 1_000_000
_ROW_BYTES = 16  # two columns of states and two of actions


def make(episodes: int = EPISODES, seed: int = 0) -> Trajectories:
    """The toy dataset: short walks of at most four cells, like the stitch datasets of the real mazes."""
    world = ToyCorridor()
    walks = [world.episode(Seeds(seed).stream("toy episode", index)) for index in range(episodes)]
    return Trajectories(
        observations=np.concatenate([observations for observations, _ in walks]),
        actions=np.concatenate([actions for _, actions in walks]),
        offsets=offsets_from_lengths([EPISODE_STATES] * episodes),
        meta=replace(META, provenance=({"origin": "made here", "episodes": episodes, "seed": seed},)),
    )


def make_validation() -> Trajectories:
    """The validation twin: a tenth as many walks, from another seed."""
    return make(EPISODES // 10, _VALIDATION_SEED)


def write(path: Path, episodes: int = EPISODES, seed: int = 0) -> None:
    """Write the dataset to a file, of any size that fits in memory."""
    if episodes < 1:
        raise BadInput(f"--episodes {episodes}: at least one episode is needed")
    states = f"{episodes:,} episodes of {EPISODE_STATES} states of {_ROW_BYTES} bytes"
    check_memory(episodes * EPISODE_STATES * _ROW_BYTES, states)
    formats.write(make(episodes, seed), path)
