"""Best-of-N plan search: draw candidates for every part of a plan, keep the cheapest, and repair what is left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from scots.core.config import Config, Seeds
from scots.core.errors import BadInput
from scots.data.strides import StrideDistances
from scots.data.support import Support
from scots.data.trajectories import Array
from scots.planners.base import BridgingPlanner, CoarseToFine, Plan, Planner, PositionEncoder, Rngs, TimedBridge
from scots.planners.landmarks import Landmarks

_PROBES = 5  # points on the line between two waypoints that are looked up in the support
NEAR_STEPS = 4.0
"""Ends closer than this many median steps are joined by a straight line; so near an end nothing is off support."""
LENGTH_COST = 0.1  # of a step of the plan, in steps that cannot be walked
_WAITING = 0.1  # a sequence waits where it moves less than this share of its longest move
_FAULTY = 0.05  # share of a plan's steps that faults and detours may cost before it is bisected
_BISECTIONS = 3  # levels of bisection at the most
_ARRIVALS = 2  # candidates arrive when the planner estimates or one token later: estimates may all be too early


@dataclass(frozen=True)
class SearchConfig(Config):
    """How plans are searched for. The defaults draw one plan and leave it as it is."""

    candidates: int = 1  # sequences drawn for every part of a plan, of which the cheapest is kept
    mend: bool = False  # draw faulty windows of waypoints again
    bisect: bool = False  # plan to a recorded position halfway, and on from there, where a plan stays faulty

    def __post_init__(self) -> None:
        if self.candidates < 1:
            raise BadInput(f"candidates {self.candidates}: at least one plan must be drawn")

    @property
    def is_on(self) -> bool:
        """Whether there is anything to search."""
        return self.candidates > 1 or self.mend or self.bisect


@dataclass(frozen=True)
class PlanRating:
    """What a plan says of itself, in environment steps."""

    cost: float
    steps: float  # along the plan, by the embedding


class PlanCost:
    """The cost of a sequence of positions, in environment steps.

    A sequence is faulty where its next position is more steps away than it has time for (through a wall: near on the
    map, far in the embedding), and where it leaves the support of the data (a cut corner: near in the embedding too,
    but nothing was ever recorded inside the wall).
    """

    def __init__(self, encoder: PositionEncoder, support: Support, line_steps: int, strides: StrideDistances) -> None:
        """`line_steps`: positions at most this many steps apart are taken to be joined by a straight line.

        `strides`: how far apart in the embedding positions may be for the time between them.
        """
        self.encoder, self.support, self._line_steps, self._strides = encoder, support, line_steps, strides

    def cost(self, sequences: Array, spacing: int) -> Array:
        """Faults plus a small price for length, of sequences (B, T, P) with `spacing` steps between positions: (B,)."""
        return self.faults(sequences, spacing) + LENGTH_COST * self.steps(sequences).sum(axis=1)

    def rate(self, plans: Sequence[Plan], spacing: int) -> list[PlanRating]:
        """The rating of each plan by every `spacing`-th of its positions, and its last."""
        sequences = [plan.positions[None, _every(spacing, len(plan.positions))] for plan in plans]
        return [PlanRating(float(self.cost(own, spacing)[0]), float(self.steps(own).sum())) for own in sequences]

    def faults(self, sequences: Array, spacing: int) -> Array:
        """Steps that cannot be walked: too far for their time, or off the support of the data (B,)."""
        excess = np.maximum(0.0, self.steps(sequences) - self._strides.at(spacing)).sum(axis=1)
        return excess + self._off_support(sequences, spacing)

    def steps(self, sequences: Array) -> Array:
        """Steps from each position of sequences (B, T, P) to the next, by the embedding: (B, T - 1)."""
        latents = self.encoder.encode(sequences.reshape(-1, sequences.shape[2])).reshape(*sequences.shape[:2], -1)
        return self.encoder.distance(latents[:, :-1], latents[:, 1:])

    def _off_support(self, sequences: Array, spacing: int) -> Array:
        """Steps off the support (B,): on the lines between positions, or at positions too far apart for a line."""
        probes = min(_PROBES, spacing) if spacing <= self._line_steps else 1
        share = np.linspace(0, 1, probes, endpoint=False, dtype=sequences.dtype)[:, None]
        lines = sequences[:, :-1, None] + share * np.diff(sequences, axis=1)[:, :, None]  # (B, T - 1, probes, P)
        to_ends = (np.linalg.norm(lines - sequences[:, None, [end]], axis=3) for end in (0, -1))
        away = np.minimum(*to_ends) > NEAR_STEPS * self.support.step
        return (away & ~self.support.covers(lines)).sum(axis=(1, 2)) * min(spacing, self._line_steps) / probes


class SearchingPlanner(Planner, Protocol):
    """A planner that searches for the best of another's plans, and can tell how good a plan is."""

    def rate(self, plans: Sequence[Plan]) -> list[PlanRating]:
        """The rating of each plan by what the search minimises; nothing has to be filled in for it."""


class BestOf:
    """A bridge that draws several sequences of another bridge and keeps the cheapest.

    Nothing is drawn between ends close to each other, most of them gaps in which a plan waits at the goal.
    """

    def __init__(self, bridge: TimedBridge, cost: PlanCost, candidates: int) -> None:
        self._bridge, self._cost, self._candidates = bridge, cost, candidates
        self.tokens, self.spacing = bridge.tokens, bridge.spacing

    def draw(self, ends: Array, rng: Rngs) -> Array:
        """The cheapest of the candidates (B, tokens, P) between each two ends (B, 2, P)."""
        sequences = self._straight(ends)
        (far,) = np.nonzero(np.linalg.norm(ends[:, 1] - ends[:, 0], axis=1) > NEAR_STEPS * self._cost.support.step)
        if len(far):
            sequences[far] = self.cheapest(ends[far], [rng[n] for n in far.tolist()])
        return sequences

    def cheapest(self, ends: Array, rng: Rngs, present: Array | None = None) -> Array:
        """The cheapest of the candidates between each two ends (B, 2, P), and of what is present (B, tokens, P)."""
        streams = [child for own in rng for child in own.spawn(self._candidates)]
        delays = np.tile(np.arange(self._candidates) % _ARRIVALS, len(ends))
        drawn = self._bridge.draw(np.repeat(ends, self._candidates, axis=0), streams, delays)
        drawn = drawn.reshape(len(ends), self._candidates, *drawn.shape[1:])
        if present is not None:
            drawn = np.concatenate([present[:, None], drawn], axis=1)
        costs = self._cost.cost(drawn.reshape(-1, *drawn.shape[2:]), self.spacing).reshape(drawn.shape[:2])
        return drawn[np.arange(len(ends)), costs.argmin(axis=1)]

    def _straight(self, ends: Array) -> Array:
        """Sequences straight from end to end (B, 2, P) at the data's usual pace, waiting at the second."""
        start, change = ends[:, :1], ends[:, 1:] - ends[:, :1]
        travelled = self.spacing * self._cost.support.step * np.arange(self.tokens, dtype=ends.dtype)[:, None]
        share = np.minimum(1.0, travelled / np.maximum(np.linalg.norm(change, axis=2, keepdims=True), 1e-9))
        return np.where(share < 1, start + share * change, ends[:, 1:]).astype(ends.dtype)


class PlanSearch(CoarseToFine):
    """A planner that owns another and searches for the best of its plans.

    Every bridge of the planner draws several candidates. Waypoints, drawn by all bridges but the last, are searched at
    once: windows that stay faulty are drawn again, and a plan that stays faulty, or takes a long detour, is bisected.
    The last bridge fills in between waypoints as the plan is walked.
    """

    def __init__(
        self,
        planner: BridgingPlanner,
        encoder: PositionEncoder,
        support: Support,
        strides: StrideDistances,
        config: SearchConfig,
    ) -> None:
        *coarse, fine = planner.bridges
        waypoint_spacing = coarse[-1].spacing if coarse else fine.spacing
        self._cost = PlanCost(encoder, support, waypoint_spacing, strides)
        self._levels = [BestOf(bridge, self._cost, config.candidates) for bridge in coarse or [fine]]
        self._config, self._spacing = config, waypoint_spacing
        self._landmarks = Landmarks(support.centers(), encoder)
        levels = [self._levels[-1], BestOf(fine, self._cost, config.candidates)] if coarse else [self._levels[-1]]
        super().__init__(levels)

    def rate(self, plans: Sequence[Plan]) -> list[PlanRating]:
        """The rating of each plan by its waypoints."""
        return self._cost.rate(plans, self._spacing)

    def _outline(self, ends: Array, rng: Rngs) -> list[Array]:
        """All waypoints (W, P) from each start to its goal (B, 2, P); of joined plans there are more than of others."""
        return self._search(ends, rng, _BISECTIONS if self._config.bisect else 0)

    def _search(self, ends: Array, rng: Rngs, bisections: int) -> list[Array]:
        """Waypoints between ends (B, 2, P), drawn as a whole or, where that is faulty, in two halves."""
        waypoints = self._mended(list(self._drawn(ends, rng)), rng)
        if not bisections:
            return waypoints
        costs, least = self._costs(waypoints), LENGTH_COST * self._cost.steps(ends)[:, 0]
        (hard,) = np.nonzero(costs - least > _FAULTY * self._spacing * (len(waypoints[0]) - 1))
        if len(hard):
            bisected = self._bisected(ends[hard], [rng[n] for n in hard.tolist()], bisections - 1)
            for n, own, cost in zip(hard.tolist(), bisected, self._costs(bisected), strict=True):
                waypoints[n] = own if cost < costs[n] else waypoints[n]
        return waypoints

    def _costs(self, waypoints: Sequence[Array]) -> Array:
        """The cost of each of these sequences (W, P), whose lengths may differ."""
        return np.array([self._cost.cost(own[None], self._spacing)[0] for own in waypoints])

    def _drawn(self, ends: Array, rng: Rngs) -> Array:
        """Waypoints (B, W, P) by all coarse bridges, each in the gaps of the one before."""
        first, *rest = self._levels
        waypoints = first.draw(ends, rng)
        for level in rest:
            gaps = np.stack([waypoints[:, :-1], waypoints[:, 1:]], axis=2)  # (B, N - 1, 2, P)
            streams = [child for own in rng for child in own.spawn(gaps.shape[1])]
            between = level.draw(gaps.reshape(-1, *gaps.shape[2:]), streams)
            inner = between[:, :-1].reshape(len(waypoints), -1, waypoints.shape[2])
            waypoints = np.concatenate([inner, waypoints[:, -1:]], axis=1)
        return waypoints

    def _mended(self, waypoints: Sequence[Array], rng: Rngs) -> list[Array]:
        """Sequences (W, P) with faulty windows drawn again by the last coarse bridge, where that is cheaper."""
        level = self._levels[-1]
        if not self._config.mend or len(self._levels) == 1:  # a single bridge would draw the whole plan again
            return list(waypoints)
        waypoints = [own.copy() for own in waypoints]
        for first in (level.tokens // 2, 0):  # half a window on, other positions are held
            views = [_windows(own, first, level.tokens) for own in waypoints]
            owners = np.repeat(np.arange(len(views)), [len(view) for view in views])
            windows = np.concatenate(views)
            (faulty,) = np.nonzero(self._cost.faults(windows, self._spacing))
            if len(faulty):
                present, streams = windows[faulty], [rng[row].spawn(1)[0] for row in owners[faulty].tolist()]
                windows[faulty] = level.cheapest(present[:, [0, -1]], streams, present)
                for number, view in enumerate(views):
                    view[:] = windows[owners == number]
        return waypoints

    def _bisected(self, ends: Array, rng: Rngs, bisections: int) -> list[Array]:
        """Waypoints through a recorded position halfway."""
        middle = self._landmarks.halfway(ends)
        halves = [
            self._search(np.stack(half, axis=1), rng, bisections)
            for half in ((ends[:, 0], middle), (middle, ends[:, 1]))
        ]
        return self._mended([concatenate(first, second) for first, second in zip(*halves, strict=True)], rng)


class WholePlanSearch:
    """A planner that owns another, draws several whole plans with it and keeps the cheapest."""

    def __init__(
        self,
        planner: Planner,
        encoder: PositionEncoder,
        support: Support,
        strides: StrideDistances,
        config: SearchConfig,
    ) -> None:
        self._planner, self._candidates = planner, config.candidates
        self._cost = PlanCost(encoder, support, 1, strides)

    def plan(self, start: Array, goal: Array | None, seeds: Sequence[int]) -> list[Plan]:
        """The cheapest of the candidates for each start (B, P), filled in."""
        own_seeds = [Seeds(seed).integer("candidate", n) for seed in seeds for n in range(self._candidates)]
        goals = None if goal is None else np.repeat(goal, self._candidates, axis=0)
        drawn = self._planner.plan(np.repeat(start, self._candidates, axis=0), goals, own_seeds)
        self._planner.fill_in(drawn, [0] * len(drawn), [len(plan.positions) for plan in drawn])
        costs = [float(self._cost.cost(plan.positions[None], spacing=1)[0]) for plan in drawn]
        groups = np.reshape(costs, (len(start), self._candidates))
        return [drawn[row * self._candidates + int(best)] for row, best in enumerate(groups.argmin(axis=1))]

    def fill_in(self, plans: Sequence[Plan], first: Sequence[int], last: Sequence[int]) -> None:
        """Nothing: candidates are compared whole, so the plans are filled in already."""

    def rate(self, plans: Sequence[Plan]) -> list[PlanRating]:
        """The rating of each plan by all its positions."""
        return self._cost.rate(plans, spacing=1)


def concatenate(first: Array, second: Array) -> Array:
    """Two sequences (T, P) as one without their waits, as long as it has to be.

    If that is shorter than either of them, the time that is left is spent at the end.
    """
    joined = np.concatenate([_moving(first), _moving(second), second[-1:]])
    left = max(0, min(len(first), len(second)) - len(joined))
    return np.concatenate([joined, np.repeat(second[-1:], left, axis=0)])


def _every(spacing: int, positions: int) -> Array:
    """Numbers of every so many of the positions of a plan, and of the last."""
    return np.append(np.arange(0, positions - 1, spacing), positions - 1)


def _windows(sequence: Array, first: int, length: int) -> Array:
    """Views (N, length, P) of a sequence (T, P): windows end to end, beginning with position `first`."""
    every = np.lib.stride_tricks.sliding_window_view(sequence, length, axis=0, writeable=True)
    return every[first :: length - 1].swapaxes(1, 2)


def _moving(sequence: Array) -> Array:
    """The positions of a sequence (T, P) from which it moves on, and its first in any case."""
    moves = np.linalg.norm(np.diff(sequence, axis=0), axis=1)
    return sequence[:-1][(moves > _WAITING * moves.max()) | (np.arange(len(moves)) == 0)]
