"""Ranked plans: of several draws the one that can be walked, and of those the shortest."""

from collections.abc import Sequence

import numpy as np
import pytest

from scots.nets import Scale
from scots.planners.ranked import RankedPlanner, in_embedding, on_map, one_after_the_other
from scots.support import Support
from scots.trajectories import Array, Meta, Trajectories

STRIDE, HORIZON = 8, 25


class Unrolled:
    """Two lanes with a wall between them, joined at the far end: the latent is the way along them."""

    scale = Scale(3)

    def encode(self, observations: Array) -> Array:
        assert (observations[:, 0] == 0).all()  # an average observation, put at a place
        x, y = observations[:, 1], observations[:, 2]
        joining = (x > 19) & (y > 1.25) & (y < 7.25)
        return np.where(joining, 20 + y, np.where(y < 4.25, x, 48.5 - x))[:, None]


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
        self.plans, self.stretches = list(plans), 0

    def waypoints(self, start: Array, goal: Array, rng: Sequence[np.random.Generator]) -> Array:
        assert len({own.integers(2**60) for own in rng}) == len(rng) == len(start)  # every candidate draws its own
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
    steps = np.array([28, 2 + 8 + 2, 2 + 3 + 1])
    # the line meets the heights 0.25, 1.85, 3.45, 5.05 and 6.65, of which two are neither in a lane nor beside the ends
    faults = [28 - STRIDE + 2 * STRIDE / 5, 0, 0]
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
    assert drawn.plans == []


class Straight(Drawn):
    """A planner that sees no walls: it goes straight to every goal, at most 4 units a stretch, and waits there."""

    stride, horizon = STRIDE, 20 * STRIDE + 1

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[Array, Array]] = []

    def waypoints(self, start: Array, goal: Array, rng: Sequence[np.random.Generator]) -> Array:
        self.asked += [(start, goal)]
        way = np.linalg.norm(goal - start, axis=1)[:, None, None]
        share = np.minimum(1, 4 * np.arange(21)[:, None] / np.maximum(way, 1e-9))
        return (start[:, None] + share * (goal - start)[:, None]).astype(np.float32)


def test_where_no_plan_can_be_walked_the_way_is_looked_for_by_halves():
    """One episode stays in its lane. The other has to go round the wall: by its far end, which is halfway."""
    start, goal = np.array([[2, 0.75], [2, 0.75]], np.float32), np.array([[12, 0.75], [2, 8.75]], np.float32)
    straight = Straight()
    planner, direct = in_lanes(straight, 1), Straight().waypoints(start, goal, rngs(2))
    plans = planner.waypoints(start, goal, rngs(2))
    np.testing.assert_array_equal(plans[:, 0], start)
    np.testing.assert_array_equal(plans[:, -1], goal)
    np.testing.assert_array_equal(plans[0], direct[0])
    assert plans[1, :, 0].max() > 18
    assert planner.costs(plans)[1] < 0.7 * planner.costs(direct)[1]  # it still cuts the corners
    starts, middle = straight.asked[1]
    np.testing.assert_array_equal(starts, start[1:])  # only the hard one
    np.testing.assert_allclose(Unrolled().encode(np.array([[0, *middle[0]]])), (2 + 46.5) / 2, atol=1)


def test_halves_are_joined_without_their_waits():
    first = np.array([[0, 0], [4, 0], [4, 0], [8, 0], [8, 0], [8, 0]], dtype=np.float32)
    second = np.array([[8, 0], [8, 4], [8, 4.1], [8, 4.1], [8, 4.1], [8, 4.1]], dtype=np.float32)
    joined = [[0, 0], [4, 0], [8, 0], [8, 4.1], [8, 4.1], [8, 4.1]]
    np.testing.assert_allclose(one_after_the_other(first, second), joined, atol=1e-6)


def test_what_takes_too_long_is_cut_but_ends_at_the_goal():
    first = np.stack([np.arange(6.0), np.zeros(6)], axis=1)
    joined = one_after_the_other(first, first + np.array([5, 0]))
    np.testing.assert_array_equal(joined[:, 0], [0, 1, 2, 3, 4, 10])
    np.testing.assert_array_equal(one_after_the_other(0 * first, 0 * first + 7), 0 * first + 7)


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
