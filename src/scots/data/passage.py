"""How long recorded episodes take to get a given distance away: what a controller may be given to reach a subgoal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from scots.data.trajectories import Array, Trajectories

POINTS = 32
"""Distances of a table."""
QUANTILE = 0.95  # of the starts that get that far at all: episodes also wait, and turn back
_STARTS = 4000  # rows from which episodes are followed
_STEPS = 200  # that each is followed for


@dataclass(frozen=True, eq=False)
class PassageTimes:
    """Steps within which recorded episodes first get this far away, by distance."""

    distances: Array  # (POINTS,) increasing from 0
    steps: Array  # (POINTS,)

    @classmethod
    def of(cls, data: Trajectories, seed: int = 0) -> Self:
        """Measured from random rows of a dataset, which has position columns.

        Starts that never get that far do not count: much of a log is waiting.
        """
        rows = np.random.default_rng(seed).integers(data.rows, size=_STARTS)
        ahead = np.minimum(rows[:, None] + np.arange(_STEPS + 1), data.last_row_of(rows)[:, None])
        positions = data.positions
        farthest = np.maximum.accumulate(np.linalg.norm(positions[ahead] - positions[rows, None], axis=2), axis=1)
        distances = np.linspace(0, np.quantile(farthest[:, -1], QUANTILE), POINTS)
        return cls(distances, np.array([_first_steps(farthest, distance) for distance in distances]))

    def steps_to(self, distances: Array) -> Array:
        """Steps for these distances (N,); beyond the table at the pace of its last entry."""
        beyond = np.maximum(1.0, distances / max(float(self.distances[-1]), 1e-9))
        return np.interp(distances, self.distances, self.steps) * beyond


def _first_steps(farthest: Array, distance: float) -> float:
    """The quantile of the first steps at which paths (N, T), by their farthest distances so far, get this far."""
    arrived = farthest[farthest[:, -1] >= distance]
    return float(np.quantile((arrived >= distance).argmax(axis=1), QUANTILE)) if len(arrived) else 0.0
