"""Several candidates of every plan, of which the embedding picks the one that is easiest to walk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from scots.trajectories import Array

if TYPE_CHECKING:
    from scots.planners import Planner


class Encoder(Protocol):
    """Anything that places states where near means soon reached."""

    def encode(self, observations: Array) -> Array:
        """(N, O) -> latents (N, Z)."""


class RankedPlanner:
    """A planner whose plans are the best of several draws.

    From one waypoint to the next there are `stride` steps, so their latents may lie that far apart and no farther: a
    stretch through a wall is short on the map and long in the embedding. The plan with the least excess is kept and,
    among those without, the shortest.
    """

    def __init__(
        self, planner: Planner, encoder: Encoder, template: Array, position: tuple[int, ...], candidates: int
    ) -> None:
        """`template` (O,) is an observation to put places into: the embedding wants whole ones."""
        self._planner, self._encoder, self._candidates = planner, encoder, candidates
        self._template, self._position = template, list(position)
        self.horizon, self.stride = planner.horizon, planner.stride

    def waypoints(self, start: Array, goal: Array, rng: Sequence[np.random.Generator]) -> Array:
        """The easiest of several plans (B, W, P) from each start to its goal."""
        streams = [child for own in rng for child in own.spawn(self._candidates)]
        drawn = self._planner.waypoints(
            np.repeat(start, self._candidates, axis=0), np.repeat(goal, self._candidates, axis=0), streams
        )
        by_plan = drawn.reshape(len(start), self._candidates, *drawn.shape[1:])
        best = self.costs(drawn).reshape(len(start), self._candidates).argmin(axis=1)
        return by_plan[np.arange(len(start)), best]

    def costs(self, plans: Array) -> Array:
        """How hard plans (B, W, P) are to walk (B,): steps beyond those there are, then steps in all."""
        observations = np.tile(self._template, (plans.shape[0] * plans.shape[1], 1))
        observations[:, self._position] = plans.reshape(-1, plans.shape[2])
        latents = self._encoder.encode(observations.astype(np.float32)).reshape(*plans.shape[:2], -1)
        steps = np.linalg.norm(np.diff(latents, axis=1), axis=2)  # (B, W - 1)
        excess = np.maximum(0.0, steps - self.stride).sum(axis=1)
        return excess + steps.sum(axis=1) / self.horizon

    def infill(self, ends: Array, rng: Sequence[np.random.Generator]) -> Array:
        """What lies between two waypoints: drawn once."""
        return self._planner.infill(ends, rng)
