"""From plans and policies to actions, for many episodes side by side.

A controller keeps the state of every episode it drives. What an episode gets never depends on which others run beside
it: its randomness is derived from a seed of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

import numpy as np

from scots.core.config import Config, Seeds
from scots.core.errors import BadInput
from scots.data.trajectories import Array

if TYPE_CHECKING:  # types only: worker processes that hold environments should not have to load networks
    from scots.agents import Policy
    from scots.planners import Planner

AHEAD = 30  # steps of a plan that are filled in beyond the subgoal: few in vain, and many episodes at once


@dataclass(frozen=True)
class Execution(Config):
    """How a plan is followed. The defaults are those of the reference code for most datasets."""

    replan_every: int = 50  # environment steps; 0 plans once
    lookahead: int = 10  # steps of the plan from one subgoal to the next
    goal_tolerance: float = 1.0  # a subgoal no farther than this is reached
    candidates: int = 1  # plans drawn at a time, of which the easiest is followed

    def __post_init__(self) -> None:
        if self.replan_every < 0:
            raise BadInput(f"replan_every {self.replan_every}: expected steps between plans, or 0 to plan only once")
        if self.lookahead < 1 or self.goal_tolerance < 0:
            raise BadInput(f"lookahead must be at least 1 and goal_tolerance at least 0: {self}")
        if self.candidates < 1:
            raise BadInput(f"candidates {self.candidates}: at least one plan must be drawn")


def execution_of(dataset: str) -> Execution:
    """The reference settings for a dataset."""
    if dataset.startswith("antmaze") and "stitch" in dataset:
        return Execution(lookahead=5, goal_tolerance=3.0)
    return Execution()


def controller_of(dataset: str) -> str:
    """The agent that follows plans in a dataset's environment, as in the reference code."""
    return "crl" if dataset.startswith("antmaze") and "stitch" in dataset else "gciql"


class Controller(Protocol):
    """What an evaluation drives: it starts episodes, then asks for actions of those that are still running."""

    @property
    def execution(self) -> Execution | None:
        """How plans are followed, if there are any."""

    def begin(self, seeds: Sequence[int]) -> None:
        """Start as many new episodes, numbered from 0, each with a seed of its own; forget all others."""

    def act(self, episodes: Array, observations: Array, goals: Array) -> Array:
        """Actions (B, A) of these episodes (B,) for their observations and goals (B, O)."""


class GoalController:
    """A policy that heads for the goal itself."""

    execution = None

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def begin(self, seeds: Sequence[int]) -> None:
        """Start new episodes."""
        self._rng = _shared(seeds)

    def act(self, episodes: Array, observations: Array, goals: Array) -> Array:
        """The policy's actions."""
        return self.policy.act(observations, goals, self._rng)


class SubgoalController:
    """A planner that says where to go and a policy that gets to the next subgoal on the plan.

    A subgoal is a place of the plan. When it is reached the next one is `lookahead` steps further, at most one advance
    per environment step, and the last one is the goal. The policy's goal is the present observation at that place.
    Plans are filled in as they are walked, from the subgoals of all episodes some steps on at once.
    """

    def __init__(self, planner: Planner, policy: Policy, execution: Execution, position: tuple[int, ...]) -> None:
        self.planner, self.policy, self.execution = planner, policy, execution
        self.position = list(position)
        self.whole = False  # fill in every plan as soon as it is drawn

    def begin(self, seeds: Sequence[int]) -> None:
        """Start new episodes; each plans at its first step."""
        self._seeds, self._rng = [Seeds(seed) for seed in seeds], _shared(seeds)
        self._steps, self._index, self._number = np.zeros((3, len(seeds)), dtype=np.int64)
        self._plans = np.full((len(seeds), self.planner.horizon, len(self.position)), np.nan, dtype=np.float32)

    def act(self, episodes: Array, observations: Array, goals: Array) -> Array:
        """The policy's actions towards the subgoals of these episodes."""
        places = observations[:, self.position]
        due = self._due(episodes)
        if due.any():
            self._plan(episodes[due], places[due], goals[due][:, self.position])
        reached = np.linalg.norm(places - self.subgoals(episodes), axis=1) <= self.execution.goal_tolerance
        self._advance(episodes[due | reached])
        if np.isnan(self.subgoals(episodes)).any():
            index = self._index[episodes, None]
            self._fill(episodes, index, index + AHEAD)
        towards = observations.copy()
        towards[:, self.position] = self.subgoals(episodes)
        self._steps[episodes] += 1
        return self.policy.act(observations, towards, self._rng)

    def subgoals(self, episodes: Array) -> Array:
        """Where these episodes (B,) are heading now (B, P)."""
        return self._plans[episodes, self._index[episodes]]

    def plans(self, episodes: Array) -> Array:
        """The present plans of these episodes (B, T, P): outlines, and not a number where nothing is filled in."""
        return self._plans[episodes]

    def planned(self, episodes: Array) -> Array:
        """How many plans these episodes (B,) have had so far (B,)."""
        return self._number[episodes]

    def _due(self, episodes: Array) -> Array:
        steps, every = self._steps[episodes], self.execution.replan_every
        return steps % every == 0 if every else steps == 0

    def _plan(self, episodes: Array, places: Array, goals: Array) -> None:
        """Draw new outlines; the first subgoal is the start, from which the episode advances in the same step."""
        self._number[episodes] += 1
        rng = [self._seeds[e].stream("waypoints", int(self._number[e])) for e in episodes]
        self._plans[episodes] = np.nan
        self._plans[episodes, :: self.planner.spacings[0]] = self.planner.outline(places, goals, rng)
        self._index[episodes] = 0
        if self.whole:
            self._fill(episodes, 0, self.planner.horizon)

    def _advance(self, episodes: Array) -> None:
        self._index[episodes] = np.minimum(self._index[episodes] + self.execution.lookahead, self.planner.horizon - 1)

    def _fill(self, episodes: Array, first: Array | int, last: Array | int) -> None:
        """Fill in the plans of these episodes (B,) from one step of theirs (B, 1) to another, from coarse to fine."""
        for coarse, fine in pairwise(self.planner.spacings):
            empty = np.isnan(self._plans[episodes, fine::coarse, 0])  # the stretches, `coarse` steps long
            numbers = np.arange(empty.shape[1])
            rows, numbers = np.nonzero(empty & (numbers >= first // coarse) & (numbers <= last // coarse))
            if len(rows):
                self._fill_stretches(episodes[rows], numbers, coarse, fine)

    def _fill_stretches(self, episodes: Array, numbers: Array, coarse: int, fine: int) -> None:
        """Put places `fine` steps apart into these stretches of the plans of these episodes (B,)."""
        name = ("infill",) if fine == 1 else ("waypoints", fine)
        pairs = zip(episodes.tolist(), numbers.tolist(), strict=True)
        rng = [self._seeds[e].stream(*name, int(self._number[e]), n) for e, n in pairs]
        rows, places = episodes[:, None], coarse * numbers[:, None] + np.arange(0, coarse + 1, fine)
        self._plans[rows, places] = self.planner.infill(self._plans[rows, places[:, [0, -1]]], fine, rng)


@dataclass(frozen=True)
class PointPolicy:
    """Straight towards the goal, no network: for a point that moves as its action says. The action is clipped.

    The gain is that of the point mazes, where an action of 1 moves by 0.2: what is near is reached in one step.
    """

    position: tuple[int, ...] = (0, 1)
    gain: float = 5.0

    def act(self, observations: Array, goals: Array, rng: np.random.Generator) -> Array:
        """Actions (B, P) in [-1, 1]."""
        columns = list(self.position)
        return np.clip(self.gain * (goals[:, columns] - observations[:, columns]), -1, 1)


def _shared(seeds: Sequence[int]) -> np.random.Generator:
    """For policies that draw: one generator for the whole batch. Ours act by their mean and leave it alone."""
    return np.random.default_rng(list(seeds))
