"""Ranked plans: of several draws the one that can be walked, and of those the shortest."""

from collections.abc import Sequence

import numpy as np

from scots.planners.ranked import RankedPlanner
from scots.trajectories import Array

STRIDE = 4


class Unrolled:
    """Two lanes side by side with a wall between them, joined at the far end: the latent is the way along them."""

    def encode(self, observations: Array) -> Array:
        x, y = observations[:, 1], observations[:, 2]
        return np.where(y < 0.5, x, 40 - x)[:, None]


class Drawn:
    """A planner that draws what it was given, one after the other."""

    stride, horizon = STRIDE, 3 * STRIDE + 1

    def __init__(self, plans: list[list[tuple[float, float]]]) -> None:
        self.plans = np.array(plans, dtype=np.float32)

    def waypoints(self, start: Array, goal: Array, rng: Sequence[np.random.Generator]) -> Array:
        assert len({own.integers(2**60) for own in rng}) == len(rng) == len(start)  # every candidate draws its own
        return self.plans[: len(start)]

    def infill(self, ends: Array, rng: Sequence[np.random.Generator]) -> Array:
        return np.linspace(ends[:, 0], ends[:, 1], STRIDE + 1, axis=1)


THROUGH = [(10, 0), (10, 0), (10, 1), (10, 1)]  # straight through the wall: 20 steps of latent in one stretch
AROUND = [(18, 0), (20, 0), (20, 1), (18, 1)]
DAWDLING = [(18, 0), (16, 0), (19, 0), (20, 0)]


def ranked(plans: list[list[tuple[float, float]]], candidates: int) -> RankedPlanner:
    return RankedPlanner(Drawn(plans), Unrolled(), np.array([7.0, 0.0, 0.0]), (1, 2), candidates)


def test_costs_are_excess_steps_then_steps_in_all():
    costs = ranked([], 1).costs(np.array([THROUGH, AROUND, DAWDLING], dtype=np.float32))
    np.testing.assert_allclose(costs, [16 + 20 / 13, 4 / 13, 6 / 13], rtol=1e-6)


def test_each_episode_gets_the_best_of_its_own_candidates():
    planner = ranked([THROUGH, DAWDLING, AROUND, DAWDLING, THROUGH, THROUGH], 3)
    ends = np.zeros((2, 2), dtype=np.float32)
    best = planner.waypoints(ends, ends, [np.random.default_rng(seed) for seed in (0, 1)])
    np.testing.assert_array_equal(best, np.array([AROUND, DAWDLING], dtype=np.float32))


def test_the_rest_is_the_planners():
    planner = ranked([], 2)
    assert (planner.stride, planner.horizon) == (STRIDE, 13)
    ends = np.array([[[0.0, 0.0], [4.0, 0.0]]])
    np.testing.assert_allclose(planner.infill(ends, [np.random.default_rng()])[0, :, 0], [0, 1, 2, 3, 4])
