"""The local planner that collects the logs of the robot: it drives from cell to cell of a short way."""

from __future__ import annotations

import numpy as np

from scots.data.trajectories import Array, Meta
from scots.datasets.protocols import NavigationCollection
from scots.envs.base import Task
from scots.envs.navigation import BUMPER, POSE, Navigation

_REACHED = 0.6  # metres from a cell of the way at which the robot turns to the next
_GAIN = 2.0  # turn per radian of heading error
_SLOW_ANGLE = 1.0  # radians of heading error from which on it turns on the spot


class NavigationEpisodes:
    """Drives a short way at a time, with noise on the commands; an episode ends at its goal or with a collision."""

    def __init__(self, spec: NavigationCollection, meta: Meta) -> None:
        self._spec, (self._environment,) = spec, Navigation.make(meta, 1)
        self._task = Task(0, (), spec.distance)

    def episode(self, rng: np.random.Generator) -> dict[str, Array]:
        """Collect one episode; the state after the last command is a row of its own, with commands of 0."""
        observation, _ = self._environment.reset(self._task, rng)
        observations, actions, ahead = [observation], [], list(self._environment.route[1:])
        while ahead and len(observations) < self._spec.states and not observations[-1][BUMPER]:
            actions.append(self._command(observations[-1][POSE], ahead[0], rng))
            observations.append(self._environment.step(actions[-1]).observation)
            while ahead and np.linalg.norm(observations[-1][POSE][:2] - ahead[0]) < _REACHED:
                ahead.pop(0)
        rows = np.stack(observations)
        return {
            "observations": rows,
            "actions": np.stack([*actions, np.zeros(2)]).astype(np.float32),
            "terminals": np.arange(len(rows)) == len(rows) - 1,
        }

    def _command(self, pose: Array, target: Array, rng: np.random.Generator) -> Array:
        """Speed and turn towards a place (2,), with noise: the more it lies to the side the slower."""
        ahead = target - pose[:2]
        error = (np.arctan2(ahead[1], ahead[0]) - pose[2] + np.pi) % (2 * np.pi) - np.pi
        share = max(0.0, 1 - abs(error) / _SLOW_ANGLE)  # of the top speed
        noise = rng.normal(0, self._spec.noise, size=2)
        return np.clip(np.array([2 * share - 1, _GAIN * error]) + noise, -1, 1).astype(np.float32)
