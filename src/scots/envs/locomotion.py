"""Gymnasium's planar runners in MuJoCo: hopper and walker2d. No goal, a reward at every step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from scots.core.errors import BadInput, require
from scots.data.trajectories import Array, Meta
from scots.envs.base import Environment, Step, Task
from scots.envs.rendering import choose_gl_backend


@dataclass(frozen=True)
class Runner:
    """A body of Gymnasium's MuJoCo tasks, and the limits of height and pitch within which its episodes go on."""

    simulator: str  # Gymnasium's id
    columns: tuple[str, ...]  # of its observation: where it is along the track is left out
    actions: int
    height: tuple[float, float]
    pitch: tuple[float, float]
    largest: float = np.inf  # of all columns but the height

    def has_fallen(self, observations: Array) -> Array:
        """Whether the episode is over in each of these states (..., O)."""
        height, pitch = observations[..., 0], observations[..., 1]
        standing = (self.height[0] < height) & (height < self.height[1])
        standing &= (self.pitch[0] < pitch) & (pitch < self.pitch[1])
        return ~(standing & (np.abs(observations[..., 1:]) < self.largest).all(axis=-1))


def _columns(joints: tuple[str, ...]) -> tuple[str, ...]:
    places = ("height", "pitch", *joints)
    return (*places, "forward_velocity", "vertical_velocity", *(f"{name}_velocity" for name in places[1:]))


_LEGS = tuple(f"{joint}{side}" for side in ("", "_left") for joint in ("thigh", "leg", "foot"))

RUNNERS = {
    "hopper": Runner("Hopper-v5", _columns(("thigh", "leg", "foot")), 3, (0.7, np.inf), (-0.2, 0.2), largest=100.0),
    "walker2d": Runner("Walker2d-v5", _columns(_LEGS), 6, (0.8, 2.0), (-1.0, 1.0)),
}
"""By family: the part of an environment id before its first hyphen."""


def runner_of(meta: Meta) -> Runner:
    """The body that a dataset is about."""
    family = (meta.environment or "").partition("-")[0]
    if family not in RUNNERS:
        raise BadInput(f"{meta.environment}: unknown body; known are {', '.join(RUNNERS)}")
    return RUNNERS[family]


class Locomotion(Environment):
    """One runner on a flat track. The reward is Gymnasium's; only a fall ends an episode."""

    packages = ("mujoco", "gymnasium")

    def __init__(self, runner: Runner) -> None:
        choose_gl_backend()
        gymnasium = require("gymnasium", "ogbench")
        self.simulator: Any = gymnasium.make(runner.simulator).unwrapped

    @classmethod
    def tasks(cls, meta: Meta) -> tuple[Task, ...]:
        """One task: to run."""
        return (Task(1),)

    @classmethod
    def make(cls, meta: Meta, count: int) -> list[Self]:
        """As many simulators; compiling one takes a few milliseconds, so that nothing is shared."""
        return [cls(runner_of(meta)) for _ in range(count)]

    @classmethod
    def termination(cls, meta: Meta) -> Callable[[Array], Array]:
        """A runner that has fallen is done."""
        return runner_of(meta).has_fallen

    def reset(self, task: Task, rng: np.random.Generator) -> tuple[Array, None]:
        """Begin near the upright pose, as Gymnasium draws it."""
        observation, _ = self.simulator.reset(seed=int(rng.integers(2**31)))
        return observation.astype(np.float32), None

    def step(self, action: Array) -> Step:
        """Take an action, clipped to the range of the motors."""
        observation, reward, fallen, _, _ = self.simulator.step(np.clip(action, -1, 1).astype(np.float64))
        return Step(observation.astype(np.float32), float(reward), False, bool(fallen))

    def step_from(self, observation: Array, action: Array) -> Step:
        """Take an action in the state of an observation; where the runner is along the track changes nothing."""
        positions = self.simulator.model.nq - 1
        self.simulator.data.qacc_warmstart[:] = 0  # otherwise the solver would remember the state before
        self.simulator.set_state(np.concatenate([[0.0], observation[:positions]]), observation[positions:])
        return self.step(action)

    def physics(self) -> tuple[Array, Array]:
        """Positions and velocities of all joints, which also hold what the observation leaves out."""
        return self.simulator.data.qpos.copy(), self.simulator.data.qvel.copy()
