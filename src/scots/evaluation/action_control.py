"""From plans that hold actions to actions, without an agent, for many episodes side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from scots.core.config import Seeds
from scots.data.trajectories import Array
from scots.evaluation.control import PlanFollowing

if TYPE_CHECKING:  # types only: worker processes that hold environments should not have to load networks
    from scots.planners.base import Plan


class ActionPlanner(Protocol):
    """Plans states and actions, always in batches; a plan can begin where another one is left."""

    def plan(self, start: Array, goal: Array | None, seeds: Sequence[int]) -> list[Plan]:
        """A plan for each start (B, P), to its goal (B, P) if there is one, each drawn with a seed of its own."""

    def replan(
        self, plans: Sequence[Plan], steps: Sequence[int], start: Array, goal: Array | None, seeds: Sequence[int]
    ) -> list[Plan]:
        """New plans, which may start from those before, of which so many steps are done."""


class ActionController:
    """Carries out the actions of plans, one after the other, until it is time for the next plan."""

    def __init__(self, planner: ActionPlanner, following: PlanFollowing, columns: tuple[int, ...]) -> None:
        """`columns` are those of an observation that the planner plans; of `following` only `replan_every` counts."""
        self.planner, self.following, self._columns = planner, following, list(columns)

    def begin(self, seeds: Sequence[int]) -> None:
        """Start new episodes; each plans at its first step."""
        self._seeds = [Seeds(seed) for seed in seeds]
        self._done, self._plan_count = np.zeros((2, len(seeds)), dtype=np.int64)  # actions of the present plan; plans
        self._plans: dict[int, Plan] = {}

    def act(self, episodes: Array, observations: Array, goals: Array | None) -> Array:
        """The next actions of the plans of these episodes."""
        due = np.array([self._is_due(episode) for episode in episodes.tolist()])
        is_new = self._plan_count[episodes] == 0
        for replans, chosen in ((False, due & is_new), (True, due & ~is_new)):
            if chosen.any():
                own_goals = None if goals is None else goals[chosen][:, self._columns]
                self._plan(episodes[chosen], observations[chosen][:, self._columns], own_goals, replans)
        actions = np.stack([self._plans[e].planned_actions[self._done[e]] for e in episodes.tolist()])
        self._done[episodes] += 1
        return actions

    def plan_of(self, episode: int) -> Plan:
        """The present plan of an episode."""
        return self._plans[episode]

    def plan_count(self, episode: int) -> int:
        """How many plans an episode has had so far."""
        return int(self._plan_count[episode])

    def _is_due(self, episode: int) -> bool:
        """Whether an episode has no plan, has followed it for long enough, or is through with it."""
        if episode not in self._plans:
            return True
        done, every = self._done[episode], self.following.replan_every
        return bool(done >= len(self._plans[episode].planned_actions) or (every and done >= every))

    def _plan(self, episodes: Array, states: Array, goals: Array | None, replans: bool) -> None:
        self._plan_count[episodes] += 1
        numbers = episodes.tolist()
        seeds = [self._seeds[e].integer("plan", self.plan_count(e)) for e in numbers]
        if replans:
            before, steps = [self._plans[e] for e in numbers], self._done[episodes].tolist()
            plans = self.planner.replan(before, steps, states, goals, seeds)
        else:
            plans = self.planner.plan(states, goals, seeds)
        self._plans |= dict(zip(numbers, plans, strict=True))
        self._done[episodes] = 0
