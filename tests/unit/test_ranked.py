"""Ranked plans: of several draws the one that can be walked, and of those the shortest."""

from collections.abc import Sequence

import numpy as np
import pytest

from scots.nets import Scale
from scots.planners.ranked import BOLDER, RankedPlanner, in_embedding, on_map
from scots.support import Support
from scots.trajectories import Array, Meta, Trajectories

STRIDE, HORIZON = 8, 25


class Unrolled:
    """Two lanes with a wall between them, joined at the far end: the latent is the way along them."""

    scale = Scale(3)

    def encode(self, observations: Array) -> Array:
        assert (observations[:, 0] == 0).all()  # an average observation, put at a place
        x, y = observations[:, 1], observations[:, 2]
        return np.where(y < 4, x, 48 - x)[:, None]


def recorded() -> Support:
    """One walk along both lanes, half a unit a step, so that boxes have edges of one."""
    lane = np.arange(0.25, 20.5, 0.5)
    end = np.stack([np.full(15, 20.25), np.arange(0.75, 8.0, 0.5)], axis=1)
    there = np.stack([lane, np.full(len(lane), 0.25)], axis=1)
    walk = np.concatenate([there, end, (there + np.array([0, 8]))[::-1]]).astype(np.float32)
    return Support.of(Trajectories(walk, [0, len(walk)], meta=Meta(position=(0, 1))))


class Drawn:
    """A planner that draws what it was given, one after the other."""

    stride, horizon = STRIDE, HORIZON

    def __init__(self, plans: Sequence[list[tuple[float, float]]] = ()) -> None:
        self.plans, self.asked, self.stretches = list(plans), [], 0

    def waypoints(self, start: Array, goal: Array, rng: Sequence[np.random.Generator], boldness: float = 1.0) -> Array:
        assert len({own.integers(2**60) for own in rng}) == len(rng) == len(start)  # every candidate draws its own
        self.asked.append((len(start), boldness))
        drawn, self.plans = self.plans[: len(start)], self.plans[len(start) :]
        return np.array(drawn, dtype=np.float32)

    def infill(self, ends: Array, rng: Sequence[np.random.Generator]) -> Array:
        """Each stretch is bent aside by what its generator says: up to 2 units."""
        self.stretches += len(ends)
        between = np.linspace(ends[:, 0], ends[:, 1], STRIDE + 1, axis=1)
        between[:, 1:-1, 1] += np.array([own.uniform(0, 2) for own in rng])[:, None]
        return between


THROUGH = [(10.25, 0.25), (10.25, 0.25), (10.25, 8.25), (10.25, 8.25)]  # straight through the wall
AROUND = [(18.25, 0.25), (20.25, 0.25), (20.25, 8.25), (18.25, 8.25)]
DAWDLING = [(18.25, 0.25), (16.25, 0.25), (19.25, 0.25), (20.25, 0.25)]


def in_lanes(drawn: Drawn, candidates: int) -> RankedPlanner:
    return RankedPlanner(drawn, recorded(), in_embedding(Unrolled(), (1, 2)), candidates)


def rngs(count: int) -> list[np.random.Generator]:
    return [np.random.default_rng(seed) for seed in range(count)]


def test_costs_are_steps_too_many_then_steps_where_nobody_was_then_steps_in_all():
    plans = np.array([THROUGH, AROUND, DAWDLING], dtype=np.float32)
    steps = np.array([27.5, 2 + 7.5 + 2, 2 + 3 + 1])
    # the line meets the heights 0.25, 1.85, 3.45, 5.05 and 6.65, of which two are neither in a lane nor beside the ends
    faults = [27.5 - STRIDE + 2 * STRIDE / 5, 0, 0]
    np.testing.assert_allclose(in_lanes(Drawn(), 1).costs(plans), faults + steps / HORIZON, rtol=1e-5)


def test_without_an_embedding_steps_are_measured_on_the_map():
    planner = RankedPlanner(Drawn(), recorded(), on_map(recorded()), 1)
    costs = planner.costs(np.array([THROUGH, AROUND], dtype=np.float32))
    excess = 16 - STRIDE  # 8 units are 16 steps
    np.testing.assert_allclose(costs, [excess + 2 * STRIDE / 5 + 16 / HORIZON, excess + 24 / HORIZON], rtol=1e-5)


def test_a_plan_is_not_to_blame_for_where_it_begins_and_ends():
    """Both ends lie off the lane, and so does the wait at the goal."""
    waiting = np.array([[(1, 2), (2, 0.5), (8, 0.5), (9, 2), (9, 2)]], dtype=np.float32)
    assert in_lanes(Drawn(), 1).costs(waiting)[0] == pytest.approx(8 / HORIZON)


def test_each_episode_gets_the_best_of_its_own_candidates():
    drawn = Drawn([THROUGH, DAWDLING, AROUND, AROUND, THROUGH, THROUGH])
    ends = np.zeros((2, 2), dtype=np.float32)
    best = in_lanes(drawn, 3).waypoints(ends, ends, rngs(2))
    np.testing.assert_array_equal(best, np.array([DAWDLING, AROUND], dtype=np.float32))
    assert drawn.asked == [(6, 1.0)]


def test_where_no_plan_can_be_walked_bolder_ones_are_drawn():
    """The first episode finds a way in the third round, the second at once, the third never."""
    ways = [THROUGH, THROUGH, AROUND, THROUGH, *[THROUGH] * 6, AROUND, *[THROUGH] * 5]
    drawn, ends = Drawn(ways), np.zeros((3, 2), dtype=np.float32)
    best = in_lanes(drawn, 2).waypoints(ends, ends, rngs(3))
    np.testing.assert_array_equal(best, np.array([AROUND, AROUND, THROUGH], dtype=np.float32))
    assert drawn.asked == [(6, 1.0), (4, BOLDER[0]), (4, BOLDER[1]), (2, BOLDER[2])]


def test_a_stretch_that_leads_astray_is_drawn_again_and_no_other():
    drawn = Drawn()
    ends = np.tile(np.array([[[1.0, 0.25], [9.0, 0.25]]]), (30, 1, 1))
    first = np.array([rng.uniform(0, 2) for rng in rngs(30)])
    bends = in_lanes(drawn, 40).infill(ends, rngs(30))[:, 4, 1] - 0.25
    good = first < 1  # still in the boxes of the lane, which begin where it does
    np.testing.assert_allclose(bends[good], first[good])
    assert (bends < 1).all()
    assert 30 < drawn.stretches < 30 + 10 * (~good).sum()


def test_where_every_draw_leads_astray_the_first_is_kept():
    drawn, ends = Drawn(), np.array([[[1.0, 3.25], [9.0, 3.25]]])
    np.testing.assert_allclose(in_lanes(drawn, 3).infill(ends, rngs(1)), Drawn().infill(ends, rngs(1)))
    assert drawn.stretches == 3


def test_the_rest_is_the_planners():
    assert (in_lanes(Drawn(), 2).stride, in_lanes(Drawn(), 2).horizon) == (STRIDE, HORIZON)
