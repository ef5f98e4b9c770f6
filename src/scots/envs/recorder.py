"""A Gymnasium wrapper that records what happens in an environment as `Trajectories`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from scots.core.errors import BadInput, require
from scots.data.trajectories import Array, Meta, Trajectories, offsets_from_lengths
from scots.envs import tasks_of

gymnasium = require("gymnasium", "gymnasium")
spaces = gymnasium.spaces


@dataclass
class _Episode:
    """One episode: states, and the action and reward of each step from one to the next."""

    observations: list[Array]
    actions: list[Array] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    terminated: bool = False
    is_over: bool = False


class Recorder(gymnasium.Wrapper):  # type: ignore[name-defined]
    """Records every step; the environment behaves as without it.

    Observations of dictionaries and tuples are flattened as Gymnasium does. A discrete action is one column. The last
    state of an episode has no action: zeros stand there. Episodes that were left before their end count as truncated.
    """

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        if not env.observation_space.is_np_flattenable:
            raise BadInput(f"observations of {env.observation_space} are no fixed number of columns; wrap it first")
        if not env.action_space.is_np_flattenable:
            raise BadInput(f"actions of {env.action_space} are no fixed number of columns; wrap it first")
        self._episodes: list[_Episode] = []

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        observation, info = self.env.reset(**options)
        self._episodes.append(_Episode([self._state(observation)]))
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take a step and record it."""
        if not self._episodes or self._episodes[-1].is_over:
            raise BadInput("no episode is under way; call reset() first")
        columns = _action_columns(self.env.action_space, action)  # before the environment can change it in place
        observation, reward, terminated, truncated, info = self.env.step(action)
        episode = self._episodes[-1]
        episode.observations.append(self._state(observation))
        episode.actions.append(columns)
        episode.rewards.append(float(reward))
        episode.terminated, episode.is_over = bool(terminated), bool(terminated or truncated)
        return observation, reward, terminated, truncated, info

    def _state(self, observation: Any) -> Array:
        flat = spaces.flatten(self.env.observation_space, observation)
        return np.array(flat, dtype=np.float32)  # a copy: some environments reuse their buffer

    def trajectories(self) -> Trajectories:
        """All episodes with at least one step so far."""
        episodes = [episode for episode in self._episodes if episode.actions]
        if not episodes:
            raise BadInput("nothing was recorded yet; step the environment first")
        return Trajectories(
            observations=np.stack([state for episode in episodes for state in episode.observations]),
            offsets=offsets_from_lengths([len(episode.observations) for episode in episodes]),
            actions=_with_last(episode.actions for episode in episodes),
            rewards=_with_last(episode.rewards for episode in episodes),
            terminated=np.array([episode.terminated for episode in episodes]),
            meta=self._meta(),
        )

    def _meta(self) -> Meta:
        id = self.env.spec.id if self.env.spec else type(self.env.unwrapped).__name__
        step = {"origin": "recorded here", "environment": id}
        environment = id if _is_known(id) else None
        return Meta(environment=environment, columns=_names(self.env.observation_space), provenance=(step,))


def _with_last(steps: Iterable[list[Any]]) -> Array:
    """The values of the steps of each episode, with a zero at its last state, which has none."""
    rows = [value for values in steps for value in (*values, np.zeros_like(values[-1]))]
    return np.array(rows, dtype=np.float32)


def _action_columns(space: Any, action: Any) -> Array:
    """An action as numbers (A,): the number of a discrete one, not one column for each that is possible."""
    if isinstance(space, (spaces.Dict, spaces.Tuple)):
        action = spaces.flatten(space, action)
    return np.array(action, dtype=np.float32).reshape(-1)


def _names(space: Any) -> tuple[str, ...]:
    """Names of the flattened columns of a dictionary of observations; others have none."""
    if not isinstance(space, spaces.Dict):
        return ()
    return tuple(name for key, part in space.spaces.items() for name in _numbered(str(key), part))


def _numbered(key: str, space: Any) -> list[str]:
    if isinstance(space, spaces.Dict):
        return [f"{key}.{name}" for name in _names(space)]
    size = spaces.flatdim(space)
    return [key] if size == 1 else [f"{key}_{number}" for number in range(size)]


def _is_known(id: str) -> bool:
    """Whether `scots evaluate` can run in this environment."""
    try:
        return bool(tasks_of(Meta(environment=id)))
    except BadInput:
        return False
