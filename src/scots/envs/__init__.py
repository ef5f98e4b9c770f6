"""Environments: one file each, one line each in `ENVIRONMENTS`. Simulators are imported here."""

from __future__ import annotations

from collections.abc import Sequence

from scots.core.errors import BadInput
from scots.data.trajectories import Meta
from scots.envs.base import Environment, Task
from scots.envs.locomotion import RUNNERS, Locomotion
from scots.envs.navigation import Navigation
from scots.envs.ogbench import OGBenchMaze
from scots.envs.toy import ToyEnvironment

ENVIRONMENTS: dict[str, type[Environment]] = {
    "toy": ToyEnvironment,
    "pointmaze": OGBenchMaze,
    "antmaze": OGBenchMaze,
    **dict.fromkeys(RUNNERS, Locomotion),
    "navigation": Navigation,
}
"""By family: the part of an environment id before its first hyphen."""


def environment_class(meta: Meta) -> type[Environment]:
    """The environment that a dataset belongs to."""
    family = (meta.environment or "").partition("-")[0]
    if family not in ENVIRONMENTS:
        raise BadInput(f"{meta.dataset or 'this data'}: no environment is known for it, so nothing can be run in one")
    return ENVIRONMENTS[family]


def tasks_of(meta: Meta, numbers: Sequence[int] = ()) -> tuple[Task, ...]:
    """The tasks of the environment that a dataset belongs to: all of them, or those of these numbers."""
    known = environment_class(meta).tasks(meta)
    for number in numbers:
        if not 1 <= number <= len(known):
            raise BadInput(f"task {number}: {meta.environment} has tasks 1 to {len(known)}")
    return tuple(known[number - 1] for number in numbers) if numbers else known
