"""What a planner is, what a plan is, and planning from coarse to fine.

    bridge 0    p0 ----------------------- p8       one sequence from start to goal, widely spaced
    bridge 1    p0 ---- p2 ---- p4 ---- p6 ---- p8  one sequence in each gap of the bridge before
    bridge 2    p0 p1 p2 p3 p4 p5 p6 p7 p8          ... down to one position per environment step

A plan is drawn at the coarsest level at first, and filled in as it is walked: most of it never is.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Protocol

import numpy as np

from scots.core.config import Profile, Seeds
from scots.data.trajectories import Array
from scots.datasets.specs import DatasetSpec
from scots.models.training import Model

Rngs = Sequence[np.random.Generator]
"""One generator for each sequence to draw."""


@dataclass(eq=False)
class Plan:
    """Positions to go to, one per environment step; NaN where the plan is not filled in yet.

    A planner whose plans are made of other columns than the position has those here.
    """

    positions: Array  # (T, P) float32
    seed: int  # of everything that is drawn for it, so the order in which it is filled in changes nothing
    actions: Array | None = None  # (T, A) float32, where the planner plans them

    @property
    def planned_actions(self) -> Array:
        """The actions of a planner that plans them."""
        assert self.actions is not None, "this plan has no actions"
        return self.actions


class Planner(Protocol):
    """Plans from starts to goals, always in batches; both are given in the columns that it plans (P)."""

    def plan(self, start: Array, goal: Array | None, seeds: Sequence[int]) -> list[Plan]:
        """A plan for each start (B, P), to its goal (B, P) if there is one, each drawn with a seed of its own."""

    def fill_in(self, plans: Sequence[Plan], first: Sequence[int], last: Sequence[int]) -> None:
        """Fill in each plan from one of its steps to another, all in as few network calls as possible."""


class PositionEncoder(Protocol):
    """A state encoder for positions alone: distances between latents are counted in environment steps."""

    def encode(self, positions: Array) -> Array:
        """(N, P) -> latents (N, Z)."""

    def distance(self, start: Array, goal: Array) -> Array:
        """Steps from start to goal latents (..., Z), which broadcast: (...)."""


class Bridge(Protocol):
    """Draws sequences of positions between two given ones."""

    @property
    def tokens(self) -> int:
        """Positions of a sequence, both ends included."""

    @property
    def spacing(self) -> int:
        """Environment steps from one position to the next."""

    def draw(self, ends: Array, rng: Rngs) -> Array:
        """Sequences (B, tokens, P) between first and last positions (B, 2, P), which are kept to the bit."""


class TimedBridge(Bridge, Protocol):
    """A bridge that may estimate when its sequences arrive, and can be told to arrive later."""

    def draw(self, ends: Array, rng: Rngs, delays: Array | None = None) -> Array:
        """The same, by `delays` (B,) tokens later than estimated; without an estimate they change nothing."""


class BridgingPlanner(Planner, Protocol):
    """A planner whose parts can be drawn one by one, so that a search can choose among several draws of each."""

    @property
    def bridges(self) -> Sequence[TimedBridge]:
        """From coarse to fine: each fills the gaps of the one before, the last has a position for every step."""


class CoarseToFine:
    """Plans with a sequence of bridges. Every gap of a plan has a random stream of its own."""

    def __init__(self, bridges: Sequence[Bridge]) -> None:
        self.bridges = bridges

    def plan(self, start: Array, goal: Array | None, seeds: Sequence[int]) -> list[Plan]:
        """Draw the coarsest positions of each plan; the rest stays open until `fill_in`."""
        assert goal is not None, "a plan that is bridged needs a goal"
        ends = np.stack([start, goal], axis=1).astype(np.float32)
        outlines = self._outline(ends, [Seeds(seed).stream("outline") for seed in seeds])
        spacing = self.bridges[0].spacing
        plans = []
        for outline, seed in zip(outlines, seeds, strict=True):
            positions = np.full(((len(outline) - 1) * spacing + 1, outline.shape[1]), np.nan, dtype=np.float32)
            positions[::spacing] = outline
            plans.append(Plan(positions, seed))
        return plans

    def _outline(self, ends: Array, rng: Rngs) -> list[Array]:
        """The coarsest positions (N, P) from each start to its goal (B, 2, P)."""
        return list(self.bridges[0].draw(ends, rng))

    def fill_in(self, plans: Sequence[Plan], first: Sequence[int], last: Sequence[int]) -> None:
        """Fill in the gaps of each plan that lie between two of its steps, level by level."""
        for coarse, bridge in pairwise(self.bridges):
            gaps = [
                (plan, begin)
                for plan, low, high in zip(plans, first, last, strict=True)
                for begin in range(low // coarse.spacing * coarse.spacing, high + 1, coarse.spacing)
                if begin + bridge.spacing < len(plan.positions) and np.isnan(plan.positions[begin + bridge.spacing, 0])
            ]
            if gaps:
                self._fill_gaps(gaps, coarse.spacing, bridge)

    def _fill_gaps(self, gaps: Sequence[tuple[Plan, int]], width: int, bridge: Bridge) -> None:
        ends = np.stack([plan.positions[[begin, begin + width]] for plan, begin in gaps])
        rng = [Seeds(plan.seed).stream("fill in", bridge.spacing, begin) for plan, begin in gaps]
        for (plan, begin), sequence in zip(gaps, bridge.draw(ends, rng), strict=True):
            plan.positions[begin : begin + width + 1 : bridge.spacing] = sequence


class PlannerModel(Model):
    """Base of every planner that is trained."""

    name: ClassVar[str]  # in the registry
    has_bridges: ClassVar[bool] = False  # its plans can be searched part by part: it is a `BridgingPlanner`
    plans_actions: ClassVar[bool] = False  # its plans hold actions, so that it acts without an agent
    encoder: PositionEncoder | None = None  # of the recorded data, for plans whose length follows from the distance

    @property
    def columns(self) -> tuple[int, ...]:
        """Observation columns that its plans are made of: the position, unless a planner says otherwise."""
        return self.meta.position

    @classmethod
    @abstractmethod
    def configure(cls, spec: DatasetSpec, states: int, profile: Profile) -> Any:
        """The settings for trajectories of this many states of a dataset, at a profile's scale."""

    @classmethod
    def described(cls, config: Any) -> str:
        """How long its plans are with these settings, to be printed before; empty where there is nothing to say."""
        return ""

    @classmethod
    def needs_distances(cls, config: Any) -> bool:
        """Whether it plans only with an `encoder`, which is then saved in its folder like what plan search needs."""
        return False

    @abstractmethod
    def plan(self, start: Array, goal: Array | None, seeds: Sequence[int]) -> list[Plan]:
        """A plan for each start (B, P), to its goal (B, P) if there is one."""

    @abstractmethod
    def fill_in(self, plans: Sequence[Plan], first: Sequence[int], last: Sequence[int]) -> None:
        """Fill in each plan from one of its steps to another."""

    def replan(
        self, plans: Sequence[Plan], steps: Sequence[int], start: Array, goal: Array | None, seeds: Sequence[int]
    ) -> list[Plan]:
        """New plans after so many steps of those before, for planners of actions; by default they do not matter."""
        return self.plan(start, goal, seeds)
