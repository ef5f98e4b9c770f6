"""Several candidates of every plan, of which the one is kept that is easiest to walk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch

from scots.nets import Scale
from scots.support import Support
from scots.trajectories import Array

PROBES = 5  # places on the line between two waypoints that are looked up
BESIDE = 4.0  # steps from a start or a goal within which a plan is not to blame for where it is
WAITING = 0.1  # of the longest stretch of a plan: it waits in those that are shorter
HARD = 3.0  # stretches that a plan may cost before it is looked for by halves: the wrong way round a wall is many
HALVINGS = 2  # of a plan that cannot be walked

if TYPE_CHECKING:
    from scots.planners import Planner


class Embedding(Protocol):
    """Anything that places states where near means soon reached."""

    scale: Scale

    def encode(self, observations: Array) -> Array:
        """(N, O) -> latents (N, Z)."""


PlaceEncoder = Callable[[Array], Array]
"""Places (N, P) -> points (N, Z) whose distance is the number of steps between them."""


def in_embedding(embedding: Embedding, position: tuple[int, ...]) -> PlaceEncoder:
    """By the embedding, which wants whole observations: an average one, put at each place."""
    average = embedding.scale.mean.cpu().numpy()

    def encode(places: Array) -> Array:
        observations = np.tile(average, (len(places), 1))
        observations[:, list(position)] = places
        return embedding.encode(observations)

    return encode


def on_map(support: Support) -> PlaceEncoder:
    """As the crow flies, where there is no embedding."""
    return lambda places: places / support.step


class RankedPlanner:
    """A planner whose plans are the best of several draws.

    What speaks against a plan is counted in steps. From one waypoint to the next there are `stride` and no more: a
    stretch through a wall is short on the map and long in the embedding. And the straight line between them should
    stay where the data has been: a corner that is cut is nowhere far in the embedding, but nobody was ever recorded
    inside the wall. Among plans without fault the shortest is kept. Where there is none, the planner is asked for the
    way to a place halfway, and on from there: what is near it knows better.
    """

    def __init__(self, planner: Planner, support: Support, encode: PlaceEncoder, candidates: int) -> None:
        self._planner, self._support, self._encode, self._candidates = planner, support, encode, candidates
        self.horizon, self.stride = planner.horizon, planner.stride
        self._places = support.places()
        self._points = encode(self._places)

    def waypoints(self, start: Array, goal: Array, rng: Sequence[np.random.Generator]) -> Array:
        """The best of several plans (B, W, P) from each start to its goal, by halves where none can be walked."""
        return self._walked(start, goal, rng, HALVINGS)[0]

    def _walked(
        self, start: Array, goal: Array, rng: Sequence[np.random.Generator], halvings: int
    ) -> tuple[Array, Array]:
        """Plans (B, W, P) and what they cost (B,)."""
        plans, costs = self._best(start, goal, rng)
        (hard,) = np.nonzero(costs > HARD * self.stride)
        if not halvings or not len(hard):
            return plans, costs
        start, goal, rng = start[hard], goal[hard], [rng[n] for n in hard.tolist()]
        middle = self._halfway(start, goal)
        first, _ = self._walked(start, middle, rng, halvings - 1)
        second, _ = self._walked(middle, goal, rng, halvings - 1)
        joined = np.stack([one_after_the_other(*both) for both in zip(first, second, strict=True)])
        theirs = self.costs(joined)
        better = theirs < costs[hard]
        plans[hard[better]], costs[hard[better]] = joined[better], theirs[better]
        return plans, costs

    def _best(self, start: Array, goal: Array, rng: Sequence[np.random.Generator]) -> tuple[Array, Array]:
        """The best of so many candidates (B, W, P), and what it costs (B,)."""
        streams = [child for own in rng for child in own.spawn(self._candidates)]
        starts, goals = (np.repeat(ends, self._candidates, axis=0) for ends in (start, goal))
        drawn = self._planner.waypoints(starts, goals, streams)
        costs = self.costs(drawn).reshape(len(start), self._candidates)
        best = costs.argmin(axis=1) + self._candidates * np.arange(len(start))
        return drawn[best], costs.min(axis=1)

    def _halfway(self, start: Array, goal: Array) -> Array:
        """Of the places where somebody was, the one from which neither start nor goal is far (B, P)."""
        points = torch.from_numpy(self._points)
        away = (torch.cdist(torch.from_numpy(self._encode(end)), points) for end in (start, goal))
        return self._places[torch.maximum(*away).argmin(dim=1).numpy()]

    def costs(self, plans: Array) -> Array:
        """How hard plans (B, W, P) are to walk (B,): steps too many or where nobody was, then steps in all."""
        points = self._encode(plans.reshape(-1, plans.shape[2])).reshape(*plans.shape[:2], -1)
        steps = np.linalg.norm(np.diff(points, axis=1), axis=2)  # (B, W - 1)
        excess = np.maximum(0.0, steps - self.stride).sum(axis=1)
        share = np.linspace(0, 1, PROBES, endpoint=False, dtype=plans.dtype)[:, None]
        lines = plans[:, :-1, None] + share * np.diff(plans, axis=1)[:, :, None]  # (B, W - 1, PROBES, P)
        astray = self._astray(lines.reshape(len(plans), -1, plans.shape[2]), plans) * (self.stride / PROBES)
        return excess + astray + steps.sum(axis=1) / self.horizon

    def infill(self, ends: Array, rng: Sequence[np.random.Generator]) -> Array:
        """What lies between two waypoints, drawn again where it leads astray; the best of the draws is kept."""
        drawn = self._planner.infill(ends, rng)
        astray = self._astray(drawn, ends)
        for _ in range(self._candidates - 1):
            (again,) = np.nonzero(astray)
            if not len(again):
                break
            other = self._planner.infill(ends[again], [rng[n] for n in again.tolist()])
            found = self._astray(other, ends[again])
            better = found < astray[again]
            drawn[again[better]], astray[again[better]] = other[better], found[better]
        return drawn

    def _astray(self, places: Array, between: Array) -> Array:
        """How many of the places (B, N, P) are where nobody was (B,), not counting those beside the given ends."""
        away = [np.linalg.norm(places - between[:, [end]], axis=2) > BESIDE * self._support.step for end in (0, -1)]
        return (away[0] & away[1] & ~self._support.covers(places)).sum(axis=1)


def one_after_the_other(first: Array, second: Array) -> Array:
    """Two plans (W, P) as one without their waits; it waits at the end, or is cut there if it takes too long."""
    joined = np.concatenate([_moving(first), _moving(second)])[: len(first) - 1]
    return np.concatenate([joined, np.repeat(second[-1:], len(first) - len(joined), axis=0)])


def _moving(plan: Array) -> Array:
    """The waypoints of a plan (W, P) from which it goes on."""
    stretches = np.linalg.norm(np.diff(plan, axis=0), axis=1)
    return plan[:-1][stretches > WAITING * stretches.max()]
