"""Planners: one file each, one line each in `PLANNERS`. They plan places, not actions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from scots.core.config import Profile
from scots.core.errors import BadInput
from scots.data.trajectories import Array, Trajectories
from scots.planners.hd import HierarchicalDiffuser, configure_hd
from scots.planners.search import BestOf


class Planner(Protocol):
    """A plan is an outline of places some steps apart, filled in level by level until there is a place for each step.

    Every outline, and every stretch between two of its places, has a generator of its own. So a plan does not depend on
    what else is planned at the same time, nor on which of its stretches are filled in, or when.
    """

    choose: BestOf | None  # among several draws

    @property
    def horizon(self) -> int:
        """Places T of a dense plan, start and goal included."""

    @property
    def stride(self) -> int:
        """Steps between waypoints, the places that a plan is drawn and judged by."""

    @property
    def spacings(self) -> tuple[int, ...]:
        """Steps between the places of the outline and of each level that fills it in, down to 1."""

    def outline(self, start: Array, goal: Array, rng: Sequence[np.random.Generator]) -> Array:
        """The coarsest places (B, N, P) of plans from starts (B, P) to goals (B, P), exactly these at the ends."""

    def infill(self, ends: Array, spacing: int, rng: Sequence[np.random.Generator]) -> Array:
        """Places (B, N, P) so many steps apart between two of the next coarser level (B, 2, P), these at the ends."""


PLANNERS: dict[str, type[HierarchicalDiffuser]] = {"hd": HierarchicalDiffuser}

CONFIGURE = {"hd": configure_hd}
"""The settings of each planner for a dataset, at a profile's scale."""


def configure_planner(name: str, data: Trajectories, profile: Profile = "laptop") -> Any:
    """The config of a planner for a dataset, at the profile's scale."""
    if name not in PLANNERS:
        raise BadInput(f"planner {name!r} is not one of {', '.join(PLANNERS)}")
    return CONFIGURE[name](data, profile)
