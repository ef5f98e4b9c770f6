"""Ranked plans: of several draws the one that can be walked, and of those the shortest."""

from collections.abc import Sequence

import numpy as np

from scots.nets import Scale
from scots.planners.ranked import RankedPlanner, in_embedding, on_map
from scots.support import Support
from scots.trajectories import Array, Meta, Trajectories

STRIDE = 4


class Unrolled:
    """Two lanes with a wall between them, joined at the far end: the latent is the way along them."""

    scale = Scale(3)

    def encode(self, observations: Array) -> Array:
        assert (observations[:, 0] == 0).all()  # an average observation, put at a place
        x, y = observations[:, 1], observations[:, 2]
        return np.where(y < 2, x, 44 - x)[:, None]


def recorded() -> Support:
    """One walk along both lanes, half a unit a step, so that boxes have edges of one."""
    lane = np.arange(0.25, 20.5, 0.5)
    end = np.stack([np.full(7, 20.25), np.arange(0.75, 4.0, 0.5)], axis=1)
    there = np.stack([lane, np.full(len(lane), 0.25)], axis=1)
    walk = np.concatenate([there, end, (there + np.array([0, 4]))[::-1]]).astype(np.float32)
    return Support.of(Trajectories(walk, [0, len(walk)], meta=Meta(position=(0, 1))))


class Drawn:
    """A planner that draws what it was given, one after the other."""

    stride, horizon = STRIDE, 3 * STRIDE + 1

    def __init__(self, plans: list[list[tuple[float, float]]]) -> None:
        self.plans = np.array(plans, dtype=np.float32)
        self.stretches = 0

    def waypoints(self, start: Array, goal: Array, rng: Sequence[np.random.Generator]) -> Array:
        assert len({own.integers(2**60) for own in rng}) == len(rng) == len(start)  # every candidate draws its own
        return self.plans[: len(start)]

    def infill(self, ends: Array, rng: Sequence[np.random.Generator]) -> Array:
        """Each stretch is bent aside by what its generator says: up to 2 units."""
        self.stretches += len(ends)
        between = np.linspace(ends[:, 0], ends[:, 1], STRIDE + 1, axis=1)
        between[:, 1:-1, 1] += np.array([own.uniform(0, 2) for own in rng])[:, None]
        return between


THROUGH = [(10.25, 0.25), (10.25, 0.25), (10.25, 4.25), (10.25, 4.25)]  # straight through the wall
AROUND = [(18.25, 0.25), (20.25, 0.25), (20.25, 4.25), (18.25, 4.25)]
DAWDLING = [(18.25, 0.25), (16.25, 0.25), (19.25, 0.25), (20.25, 0.25)]


def ranked(plans: list[list[tuple[float, float]]], candidates: int) -> RankedPlanner:
    return RankedPlanner(Drawn(plans), recorded(), in_embedding(Unrolled(), (1, 2)), candidates)


def test_costs_are_steps_too_many_then_steps_where_nobody_was_then_steps_in_all():
    plans = np.array([THROUGH, AROUND, DAWDLING], dtype=np.float32)
    through = 44 - 2 * 10.25 - 4 + 3 * STRIDE / 5  # its line meets 0.25, 1.05, 1.85, 2.65, 3.45: three are inside
    np.testing.assert_allclose(
        ranked([], 1).costs(plans) - np.array([23.5, 2 + 3.5 + 2, 2 + 3 + 1]) / 13, [through, 0, 0], atol=1e-5
    )


def test_without_an_embedding_steps_are_measured_on_the_map():
    support = recorded()
    planner = RankedPlanner(Drawn([]), support, on_map(support), 1)
    costs = planner.costs(np.array([THROUGH, AROUND], dtype=np.float32))
    excess = 8 - STRIDE  # 4 units are 8 steps
    np.testing.assert_allclose(costs, [excess + 3 * STRIDE / 5 + 8 / 13, excess + 16 / 13], rtol=1e-5)


def test_each_episode_gets_the_best_of_its_own_candidates():
    planner = ranked([THROUGH, DAWDLING, AROUND, DAWDLING, THROUGH, THROUGH], 3)
    ends = np.zeros((2, 2), dtype=np.float32)
    best = planner.waypoints(ends, ends, [np.random.default_rng(seed) for seed in (0, 1)])
    np.testing.assert_array_equal(best, np.array([DAWDLING, DAWDLING], dtype=np.float32))


def test_a_stretch_that_leads_astray_is_drawn_again_and_no_other():
    drawn = Drawn([])
    planner = RankedPlanner(drawn, recorded(), on_map(recorded()), 40)
    ends = np.tile(np.array([[[1.0, 0.25], [5.0, 0.25]]]), (30, 1, 1))
    rng = [np.random.default_rng(seed) for seed in range(30)]
    first = np.array([np.random.default_rng(seed).uniform(0, 2) for seed in range(30)])
    bends = planner.infill(ends, rng)[:, 2, 1] - 0.25
    good = first < 1  # still in the boxes of the lane, which begin where it does
    np.testing.assert_allclose(bends[good], first[good])
    assert (bends < 1).all()
    assert 30 < drawn.stretches < 30 + 10 * (~good).sum()
    assert (planner.stride, planner.horizon) == (STRIDE, 13)


def test_where_every_draw_leads_astray_the_first_is_kept():
    drawn = Drawn([])
    ends = np.array([[[1.0, 2.25], [5.0, 2.25]]])
    again = RankedPlanner(drawn, recorded(), on_map(recorded()), 3).infill(ends, [np.random.default_rng(0)])
    assert drawn.stretches == 3
    np.testing.assert_allclose(again, Drawn([]).infill(ends, [np.random.default_rng(0)]))
