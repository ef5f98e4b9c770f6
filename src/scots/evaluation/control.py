"""From plans and policies to actions, for many episodes side by side.

A controller keeps the state of every episode it drives. The plans of an episode never depend on which others run beside
it: they are drawn with a seed of its own. Policies that sample share one generator; ours act by their mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from scots.core.config import Config, Seeds
from scots.core.errors import BadInput
from scots.data.passage import PassageTimes
from scots.data.trajectories import Array

if TYPE_CHECKING:  # types only: worker processes that hold environments should not have to load networks
    from scots.agents.base import Policy
    from scots.datasets.specs import DatasetSpec
    from scots.planners.base import Plan, Planner

_INFILL_AHEAD = 30  # plan steps to fill in past the subgoal: few are wasted, and episodes batch well


@dataclass(frozen=True)
class PlanFollowing(Config):
    """How a plan is followed. The defaults are those of the reference code for most datasets."""

    replan_every: int = 50  # environment steps; 0: not by the clock
    lookahead: int = 10  # plan steps from one subgoal to the next
    goal_tolerance: float = 1.0  # a subgoal no farther than this is reached
    replan_late: bool | Literal["or astray"] = False
    """Plan again when a subgoal takes longer than recorded episodes take to get that far; "or astray": also when it is
    farther away than when it was set, by more than the tolerance."""

    def __post_init__(self) -> None:
        if self.replan_every < 0:
            raise BadInput(f"replan_every {self.replan_every}: expected steps between plans, or 0 to plan only once")
        if self.lookahead < 1 or self.goal_tolerance < 0:
            raise BadInput(f"lookahead must be at least 1 and goal_tolerance at least 0: {self}")

    @classmethod
    def configure(cls, spec: DatasetSpec, profile: str | None) -> PlanFollowing:
        """The settings for a dataset: those of the reference code at profile `paper`, ours at the others."""
        own = spec.at(profile)
        return cls(own.replan_every, own.lookahead, own.goal_tolerance, own.replan_late)


class Controller(Protocol):
    """What an evaluation drives: it starts episodes, then asks for actions of those that are still running."""

    def begin(self, seeds: Sequence[int]) -> None:
        """Start as many new episodes, numbered from 0, each with a seed of its own; forget all others."""

    def act(self, episodes: Array, observations: Array, goals: Array | None) -> Array:
        """Actions (B, A) of these episodes (B,) for their observations and goals (B, O)."""


class GoalController:
    """A policy that heads for the goal itself."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def begin(self, seeds: Sequence[int]) -> None:
        """Start new episodes."""
        self._rng = _shared(seeds)

    def act(self, episodes: Array, observations: Array, goals: Array | None) -> Array:
        """The policy's actions."""
        assert goals is not None, "a goal-conditioned policy needs goals"
        return self.policy.act(observations, goals, self._rng)


class SubgoalController:
    """A planner that plans positions and a policy that goes to the next subgoal on the plan.

    A subgoal is a position of the plan. When it is reached the next one is `lookahead` steps further, at most one
    advance per environment step; the last one is the goal. The policy's goal is the present observation moved there.
    Plans are filled in as they are walked, for all episodes at once and some steps ahead. A plan is replaced by the
    clock, or when the episode is late: by the clock a slow walker is sent back and forth between plans that all begin
    where it stands.
    """

    def __init__(
        self,
        planner: Planner,
        policy: Policy,
        following: PlanFollowing,
        columns: tuple[int, ...],
        passage: PassageTimes | None = None,
    ) -> None:
        """`columns` are those of an observation that the planner plans; `passage` tells when an episode is late."""
        if following.replan_late and passage is None:
            raise BadInput("following.replan_late needs the passage times of recorded data, which this policy has not")
        self.planner, self.policy, self.following = planner, policy, following
        self._columns, self.passage = list(columns), passage if following.replan_late else None

    def begin(self, seeds: Sequence[int]) -> None:
        """Start new episodes; each plans at its first step."""
        self._seeds, self._rng = [Seeds(seed) for seed in seeds], _shared(seeds)
        self._steps, self._index, self._plan_count = np.zeros((3, len(seeds)), dtype=np.int64)
        self._deadline = np.full(len(seeds), np.inf)  # step by which each should have reached its subgoal
        self._leash = np.full(len(seeds), np.inf)  # distance from its subgoal at which each is astray
        self._plans: dict[int, Plan] = {}

    def act(self, episodes: Array, observations: Array, goals: Array | None) -> Array:
        """The policy's actions towards the subgoals of these episodes."""
        positions = observations[:, self._columns]
        due = self._due(episodes, positions)
        if due.any():
            self._replan(episodes[due], positions[due], None if goals is None else goals[due][:, self._columns])
        reached = np.linalg.norm(positions - self.subgoals(episodes), axis=1) <= self.following.goal_tolerance
        onwards = due | reached
        self._advance(episodes[onwards])
        if np.isnan(self.subgoals(episodes)).any():
            self._fill_in_ahead(episodes)
        subgoals = self.subgoals(episodes)
        if self.passage is not None:
            distances = np.linalg.norm(subgoals - positions, axis=1)[onwards]
            self._deadline[episodes[onwards]] = self._steps[episodes[onwards]] + self.passage.steps_to(distances)
            self._leash[episodes[onwards]] = distances + self.following.goal_tolerance
        towards = observations.copy()
        towards[:, self._columns] = subgoals
        self._steps[episodes] += 1
        return self.policy.act(observations, towards, self._rng)

    def subgoals(self, episodes: Array) -> Array:
        """Where these episodes (B,) are heading now (B, P)."""
        return np.stack([self._plans[e].positions[self._index[e]] for e in episodes.tolist()])

    def plan_of(self, episode: int) -> Plan:
        """The present plan of an episode."""
        return self._plans[episode]

    def plan_count(self, episode: int) -> int:
        """How many plans an episode has had so far."""
        return int(self._plan_count[episode])

    def _due(self, episodes: Array, positions: Array) -> Array:
        steps, every = self._steps[episodes], self.following.replan_every
        due = (steps % every == 0 if every else steps == 0) | (steps > self._deadline[episodes])
        if self.following.replan_late == "or astray" and not due.all():
            on_time = episodes[~due]
            away = np.linalg.norm(positions[~due] - self.subgoals(on_time), axis=1)
            due[~due] = away > self._leash[on_time]
        return due

    def _replan(self, episodes: Array, positions: Array, goals: Array | None) -> None:
        """Draw new plans; the first subgoal is the start, from which the episode advances in the same step."""
        self._plan_count[episodes] += 1
        seeds = [self._seeds[e].integer("plan", self.plan_count(e)) for e in episodes.tolist()]
        plans = self.planner.plan(positions, goals, seeds)
        self._plans |= dict(zip(episodes.tolist(), plans, strict=True))
        self._index[episodes] = 0

    def _advance(self, episodes: Array) -> None:
        last = np.array([len(self._plans[e].positions) - 1 for e in episodes.tolist()], dtype=np.int64)
        self._index[episodes] = np.minimum(self._index[episodes] + self.following.lookahead, last)

    def _fill_in_ahead(self, episodes: Array) -> None:
        first = self._index[episodes]
        plans = [self._plans[e] for e in episodes.tolist()]
        self.planner.fill_in(plans, first.tolist(), (first + _INFILL_AHEAD).tolist())


@dataclass(frozen=True)
class PointPolicy:
    """Straight towards the goal, no network: for a point that moves as its action says. The action is clipped.

    The gain suits the point mazes, where an action of 1 moves by 0.2: a goal that near is reached in one step.
    """

    position: tuple[int, ...] = (0, 1)
    gain: float = 5.0

    def act(self, observations: Array, goals: Array, rng: np.random.Generator) -> Array:
        """Actions (B, P) in [-1, 1]."""
        columns = list(self.position)
        return np.clip(self.gain * (goals[:, columns] - observations[:, columns]), -1, 1)


def _shared(seeds: Sequence[int]) -> np.random.Generator:
    """One generator for the whole batch, for policies that sample; ours act by their mean and ignore it."""
    return np.random.default_rng(list(seeds))
