"""Plan search: the cheapest of several candidates, faulty windows drawn again, bisection where nothing else helps."""

from collections.abc import Sequence

import numpy as np
import pytest

from scots.core.errors import BadInput
from scots.data.strides import StrideDistances
from scots.data.support import Support
from scots.data.trajectories import Array, Meta, Trajectories
from scots.planners.base import Plan
from scots.planners.search import (
    LENGTH_COST,
    BestOf,
    PlanCost,
    PlanSearch,
    SearchConfig,
    WholePlanSearch,
    concatenate,
)

STRIDE = 8


class Lanes:
    """Two lanes with a wall between them, joined at the far end: the latent is the distance along them."""

    def encode(self, positions: Array) -> Array:
        x, y = positions.T
        joining = (x > 19) & (y > 1.25) & (y < 7.25)
        return np.where(joining, 20 + y, np.where(y < 4.25, x, 48.5 - x))[:, None]

    def distance(self, start: Array, goal: Array) -> Array:
        return np.linalg.norm(start - goal, axis=-1)


def recorded() -> Support:
    """One walk along both lanes, half a unit a step, so that boxes have edges of one."""
    lane = np.arange(0.25, 20.5, 0.5)
    end = np.stack([np.full(15, 20.25), np.arange(0.75, 8.0, 0.5)], axis=1)
    there = np.stack([lane, np.full(len(lane), 0.25)], axis=1)
    walk = np.concatenate([there, end, (there + np.array([0, 8]))[::-1]]).astype(np.float32)
    return Support.of(Trajectories(walk, [0, len(walk)], meta=Meta(position=(0, 1))))


COST = PlanCost(Lanes(), recorded(), STRIDE, StrideDistances.exact())


class Prepared:
    """A bridge that draws prepared sequences, one after the other."""

    def __init__(self, *sequences: list[tuple[float, float]], spacing: int = STRIDE) -> None:
        self.left, self.tokens, self.spacing = list(sequences), 4, spacing

    def draw(self, ends: Array, rng: Sequence[np.random.Generator], delays: Array | None = None) -> Array:
        assert len({own.integers(2**60) for own in rng}) == len(rng) == len(ends)  # every candidate draws its own
        drawn, self.left = self.left[: len(ends)], self.left[len(ends) :]
        return np.array(drawn, dtype=np.float32)


class Straight:
    """A bridge that sees no walls: straight to every goal, at most 4 units from position to position, then waiting."""

    tokens, spacing = 21, STRIDE

    def __init__(self) -> None:
        self.asked: list[Array] = []

    def draw(self, ends: Array, rng: Sequence[np.random.Generator], delays: Array | None = None) -> Array:
        self.asked += [ends]
        start, goal = ends[:, :1], ends[:, 1:]
        length = np.linalg.norm(goal - start, axis=2, keepdims=True)
        share = np.minimum(1, 4 * np.arange(self.tokens)[:, None] / np.maximum(length, 1e-9))
        return (start + share * (goal - start)).astype("f4")


class Even:
    """A bridge of evenly spaced positions."""

    def __init__(self, tokens: int, spacing: int) -> None:
        self.tokens, self.spacing = tokens, spacing
        self.asked: list[Array] = []

    def draw(self, ends: Array, rng: Sequence[np.random.Generator], delays: Array | None = None) -> Array:
        self.asked += [ends]
        return ends[:, :1] + np.linspace(0, 1, self.tokens, dtype=np.float32)[:, None] * (ends[:, 1:] - ends[:, :1])


class Bridging:
    """A planner that is nothing but its bridges."""

    def __init__(self, *bridges) -> None:
        self.bridges = bridges

    def plan(self, start, goal, seeds):
        pytest.fail("a search draws from the bridges")

    def fill_in(self, plans, first, last):
        pytest.fail("a search draws from the bridges")


def search(*bridges, **settings) -> PlanSearch:
    return PlanSearch(Bridging(*bridges), Lanes(), recorded(), StrideDistances.exact(), SearchConfig(**settings))


THROUGH = [(10.25, 0.25), (10.25, 0.25), (10.25, 8.25), (10.25, 8.25)]  # straight through the wall
AROUND = [(18.25, 0.25), (20.25, 0.25), (20.25, 8.25), (18.25, 8.25)]
DETOUR = [(18.25, 0.25), (16.25, 0.25), (19.25, 0.25), (20.25, 0.25)]
FAR = np.array([[[2, 0.5], [14, 0.5]]], dtype=np.float32)  # ends between which something is drawn


def rngs(count: int) -> list[np.random.Generator]:
    return [np.random.default_rng(seed) for seed in range(count)]


# -------------------------------------------------------------------------------------------------------------- cost


def test_what_recorded_windows_do_is_no_fault():
    """An embedding by which every step is three: recorded strides pass once the scale is taken from the data."""

    class Sways(Lanes):
        def encode(self, positions: Array) -> Array:
            return 6 * super().encode(positions)

    lane = np.stack([np.arange(0.25, 20.25, 0.5), np.full(40, 0.25)], axis=1).astype(np.float32)
    data, sways = Trajectories(lane, [0, 40], meta=Meta(position=(0, 1))), Sways()
    waypoints = lane[None, ::STRIDE]
    by_clock = PlanCost(sways, recorded(), STRIDE, StrideDistances.exact())
    by_data = PlanCost(sways, recorded(), STRIDE, StrideDistances.of(data, sways.encode, sways.distance))
    np.testing.assert_allclose(by_clock.faults(waypoints, STRIDE), [4 * (24 - 8)], rtol=1e-5)
    np.testing.assert_allclose(by_data.faults(waypoints, STRIDE), [0], atol=1e-4)
    faster = lane[None, :: 2 * STRIDE]
    np.testing.assert_allclose(by_data.faults(faster, STRIDE), [2 * 24], rtol=1e-5)


def test_a_plan_is_rated_by_its_waypoints_alone():
    """Along a lane at the data's pace nothing costs but its length; through the wall there are steps to make up."""
    lane = np.stack([np.linspace(0.25, 16.25, 33), np.full(33, 0.25)], axis=1).astype(np.float32)  # half a unit a step
    outline = lane.copy()
    outline[np.arange(33) % STRIDE > 0] = np.nan
    ratings = COST.rate([Plan(lane, 0), Plan(outline, 0)], STRIDE)
    assert ratings[0] == ratings[1]
    assert ratings[0].steps == pytest.approx(16)
    assert ratings[0].cost == pytest.approx(LENGTH_COST * 16)
    through = np.stack([np.full(9, 10.25), np.linspace(0.25, 8.25, 9)], axis=1).astype(np.float32)
    [rated] = COST.rate([Plan(through, 0)], STRIDE)
    steps = 48.5 - 10.25 - 10.25  # all the way round
    assert rated.steps == pytest.approx(steps)
    assert rated.cost >= LENGTH_COST * steps + steps - STRIDE


def test_faults_are_excess_steps_and_steps_off_support():
    sequences = np.array([THROUGH, AROUND, DETOUR], dtype=np.float32)
    np.testing.assert_allclose(COST.steps(sequences).sum(axis=1), [28, 2 + 8 + 2, 2 + 3 + 1], rtol=1e-5)
    # the line meets the heights 0.25, 1.85, 3.45, 5.05 and 6.65, of which two are neither in a lane nor near the ends
    np.testing.assert_allclose(COST.faults(sequences, STRIDE), [28 - STRIDE + 2 * STRIDE / 5, 0, 0], rtol=1e-5)


def test_positions_far_apart_are_not_expected_to_be_joined_by_a_line():
    """Only the positions are looked up: one of the four is inside the wall."""
    sequence = np.array([[*THROUGH[:2], (10.25, 4.25), THROUGH[3]]], dtype=np.float32)
    assert COST.faults(sequence, 5 * STRIDE) == STRIDE


def test_near_its_ends_a_sequence_may_be_off_support():
    """Both ends lie off the lane, and so does the wait at the second."""
    waiting = np.array([[(1, 2), (2, 0.5), (8, 0.5), (9, 2), (9, 2)]], dtype=np.float32)
    assert COST.faults(waiting, STRIDE)[0] == 0
    assert COST.steps(waiting).sum() == pytest.approx(8)


def test_the_distance_is_asked_of_the_encoder_in_its_direction():
    """A directed distance: steps to the right are free."""

    class Downhill(Lanes):
        def distance(self, start: Array, goal: Array) -> Array:
            return np.maximum(0, start - goal).sum(axis=-1)

    cost = PlanCost(Downhill(), recorded(), STRIDE, StrideDistances.exact())
    there = np.array([[(2, 0.5), (14, 0.5)]], dtype=np.float32)
    np.testing.assert_allclose([cost.steps(there)[0, 0], cost.steps(there[:, ::-1])[0, 0]], [0, 12])


# -------------------------------------------------------------------------------------------------------- candidates


def test_each_gets_the_cheapest_of_its_own_candidates():
    bridge, ends = Prepared(THROUGH, DETOUR, AROUND, AROUND, THROUGH, THROUGH), FAR.repeat(2, axis=0)
    best = BestOf(bridge, COST, 3).draw(ends, rngs(2))
    np.testing.assert_array_equal(best, np.array([DETOUR, AROUND], dtype=np.float32))
    assert bridge.left == []


def test_every_other_candidate_arrives_a_token_later_than_estimated():
    """Where the estimate leaves too little time to go round a wall, all candidates that keep to it go through."""

    class Hurried(Prepared):
        def draw(self, ends: Array, rng: Sequence[np.random.Generator], delays: Array | None = None) -> Array:
            assert delays is not None
            assert delays.tolist() == [0, 1, 0, 0, 1, 0]  # three candidates for each of two
            return np.where(delays[:, None, None] > 0, AROUND, THROUGH).astype("f4")

    best = BestOf(Hurried(), COST, 3).draw(FAR.repeat(2, axis=0), rngs(2))
    np.testing.assert_array_equal(best, np.array([AROUND, AROUND], dtype=np.float32))


def test_nothing_is_drawn_between_ends_close_to_each_other():
    """A step is half a unit: straight on and wait, from wherever that is."""
    ends = np.array([[[2, 0.5], [14, 0.5]], [[3, 0.5], [3, 1.25]], [[5, 3], [5, 3]]], dtype=np.float32)
    bridge = Prepared(THROUGH, DETOUR, spacing=1)
    best = BestOf(bridge, COST, 2).draw(ends, rngs(3))
    assert bridge.left == []
    assert best.dtype == np.float32
    np.testing.assert_array_equal(best[0], np.array(DETOUR, dtype=np.float32))
    np.testing.assert_allclose(best[1], [(3, 0.5), (3, 1.0), (3, 1.25), (3, 1.25)], atol=1e-6)
    np.testing.assert_array_equal(best[1:, [0, -1]], ends[1:])
    assert (best[2] == ends[2, 0]).all()


def test_a_long_sequence_without_faults_beats_a_short_one_with_them():
    short, long = [(2, 0.5), (8, 0.5), (8, 2.6), (14, 0.5)], [(2, 0.5), (8, 0.5), (6, 0.5), (14, 0.5)]
    assert 2 * 2 * LENGTH_COST < STRIDE / 5  # the detour costs less than one point off support
    best = BestOf(Prepared(short, long), COST, 2).draw(FAR, rngs(1))
    assert best.tolist() == [[list(position) for position in long]]


# --------------------------------------------------------------------------------------------------------- bisection


def waypoints(planner: PlanSearch, ends: Array) -> Array:
    plans = planner.plan(ends[:, 0], ends[:, 1], range(len(ends)))
    return np.stack([plan.positions[::STRIDE] for plan in plans])


def test_a_faulty_plan_is_bisected():
    """One stays in its lane. The other has to go round the wall: by its far end, which is halfway."""
    ends = np.array([[[2, 0.75], [12, 0.75]], [[2, 0.75], [2, 8.75]]], dtype=np.float32)
    straight = Straight()
    found = waypoints(search(straight, Even(9, 1), bisect=True), ends)
    np.testing.assert_array_equal(found[:, [0, -1]], ends)
    np.testing.assert_array_equal(found[0], Straight().draw(ends, rngs(2))[0])
    assert found[1, :, 0].max() > 18
    (start, middle), *others = straight.asked[1]  # only the faulty one
    assert others == []
    np.testing.assert_array_equal(start, ends[1, 0])
    np.testing.assert_allclose(Lanes().encode(middle[None]), (2 + 46.5) / 2, atol=1)


def test_a_joined_plan_is_longer_where_its_halves_need_it():
    """Seven positions reach no farther than the end of the wall: there are twice as many, all filled in."""
    short = Straight()
    short.tokens = 7
    planner = search(short, Even(9, 1), bisect=True)
    (plan,) = planner.plan(np.array([[2, 0.75]]), np.array([[2, 8.75]]), [0])
    assert len(plan.positions) > 1.5 * (6 * STRIDE + 1)
    np.testing.assert_array_equal(plan.positions[-1], [2, 8.75])
    planner.fill_in([plan], [0], [len(plan.positions)])
    assert np.isfinite(plan.positions).all()
    assert np.linalg.norm(np.diff(plan.positions, axis=0), axis=1).max() < 0.6


def test_without_bisection_a_faulty_plan_stays():
    ends = np.array([[[2, 0.75], [2, 8.75]]], dtype=np.float32)
    straight = Straight()
    np.testing.assert_array_equal(waypoints(search(straight, Even(9, 1), mend=True), ends), Straight().draw(ends, []))
    assert len(straight.asked) == 1


class Wandering(Straight):
    """Goes up and down its lane the first time, before it goes to the goal."""

    def draw(self, ends: Array, rng: Sequence[np.random.Generator], delays: Array | None = None) -> Array:
        direct = super().draw(ends, rng)
        if len(self.asked) == 1:
            direct[0, 1:-1:2, 0] = 10
            direct[0, 2:-1:2, 0] = 2
        return direct


def test_a_detour_is_bisected_too():
    """Nothing is wrong with it but its length."""
    ends, wandering = np.array([[[2, 0.75], [6, 0.75]]], dtype=np.float32), Wandering()
    (found,) = waypoints(search(wandering, Even(9, 1), bisect=True), ends)
    assert len(wandering.asked) > 1
    assert found[:, 0].max() == 6


def test_a_planner_with_one_bridge_is_searched_as_a_whole():
    """Its plans are dense, and nothing is left to fill in."""
    ends = np.array([[[2, 0.75], [2, 8.75]]], dtype=np.float32)
    bridge = Straight()
    bridge.spacing = 1
    planner = search(bridge, candidates=3, mend=True)
    (plan,) = planner.plan(ends[:, 0], ends[:, 1], [0])
    assert plan.positions.shape == (21, 2)
    assert np.isfinite(plan.positions).all()
    assert [len(asked) for asked in bridge.asked] == [3]
    planner.fill_in([plan], [0], [20])
    assert len(bridge.asked) == 1


class Guessing:
    """A planner of whole plans: one seed in two goes through the wall, the others around it."""

    def plan(self, start: Array, goal: Array, seeds: Sequence[int]) -> list[Plan]:
        around = [
            np.repeat(np.array([a, (20.25, 0.25), (20.25, 8.25), b]), 5, axis=0)
            for a, b in zip(start, goal, strict=False)
        ]
        through = [
            np.stack([a + share * (b - a) for share in np.linspace(0, 1, 20)])
            for a, b in zip(start, goal, strict=False)
        ]
        chosen = [around[n] if seed % 2 else through[n] for n, seed in enumerate(seeds)]
        return [Plan(positions.astype(np.float32), seed) for positions, seed in zip(chosen, seeds, strict=False)]

    def fill_in(self, plans: Sequence[Plan], first: Sequence[int], last: Sequence[int]) -> None:
        pass


def test_whole_plans_are_searched_where_a_planner_has_no_bridges():
    starts, goals = np.full((6, 2), (18, 0.25)), np.full((6, 2), (18, 8.25))
    parts = Lanes(), recorded(), StrideDistances.exact(), SearchConfig(8)
    found = WholePlanSearch(Guessing(), *parts).plan(starts, goals, range(6))
    assert len(found) == 6
    assert all(plan.positions[:, 0].max() > 20 for plan in found)
    alone = WholePlanSearch(Guessing(), *parts).plan(starts[:1], goals[:1], [3])
    np.testing.assert_array_equal(alone[0].positions, found[3].positions)


# ----------------------------------------------------------------------------------------------------------- mending

LANE = [(2 * n + 0.25, 0.25) for n in range(10)]  # along the first lane


def with_fault(number: int) -> list[tuple[float, float]]:
    return [(x, 3.25) if n == number else (x, y) for n, (x, y) in enumerate(LANE)]


class Outline:
    """A coarse bridge that draws every third position of the lane."""

    tokens, spacing = 4, 3 * STRIDE

    def draw(self, ends: Array, rng: Sequence[np.random.Generator], delays: Array | None = None) -> Array:
        return np.repeat(np.array([LANE[::3]], dtype=np.float32), len(ends), axis=0)


class FaultyOnce(Even):
    """Leaves the lane at one position of its first draw, and goes evenly later."""

    def __init__(self, fault: int) -> None:
        super().__init__(4, STRIDE)
        self.fault = fault

    def draw(self, ends: Array, rng: Sequence[np.random.Generator], delays: Array | None = None) -> Array:
        drawn = super().draw(ends, rng)
        if len(self.asked) == 1:
            drawn.reshape(-1, 2)[self.fault // 3 * 4 + self.fault % 3, 1] = 3.25
        return drawn


@pytest.mark.parametrize("mend", [True, False])
@pytest.mark.parametrize("fault", [4, 5])
def test_windows_with_faults_are_drawn_again(fault: int, mend: bool):
    ends, middle = np.array([[LANE[0], LANE[-1]]], dtype=np.float32), FaultyOnce(fault)
    (found,) = waypoints(search(Outline(), middle, Even(9, 1), mend=mend), ends)
    np.testing.assert_allclose(found, LANE if mend else with_fault(fault), atol=1e-5)
    if mend and fault == 4:
        (window,) = middle.asked[1]  # half a window on, other positions are held than at first
        np.testing.assert_allclose(window, [LANE[2], LANE[5]])


def test_a_window_stays_as_it_is_if_nothing_cheaper_is_drawn():
    level = BestOf(Prepared([LANE[2], (10.25, 4.25), (10.25, 4.25), LANE[5]]), COST, 1)
    present = np.array([[LANE[2], (6.25, 3.25), LANE[4], LANE[5]]], dtype=np.float32)
    np.testing.assert_array_equal(level.cheapest(present[:, [0, -1]], rngs(1), present), present)


# ------------------------------------------------------------------------------------------------------------ joining


def test_halves_are_joined_without_their_waits():
    first = np.array([[0, 0], [4, 0], [4, 0], [8, 0], [8, 0], [8, 0]], dtype=np.float32)
    second = np.array([[8, 0], [8, 4], [8, 4.1], [8, 4.1], [8, 4.1], [8, 4.1]], dtype=np.float32)
    joined = [[0, 0], [4, 0], [8, 0], [8, 4.1], [8, 4.1], [8, 4.1]]
    np.testing.assert_allclose(concatenate(first, second), joined, atol=1e-6)


def test_joined_halves_are_as_long_as_they_have_to_be():
    """Nothing is dropped, so that no position is farther from the next than in the half that it comes from."""
    first = np.array([[0, 0], [4, 0], [8, 0], [12, 0]], dtype=np.float32)
    second = np.array([[12, 0], [12, 4], [12, 8], [12, 8]], dtype=np.float32)
    np.testing.assert_array_equal(concatenate(first, second), [*first, *second[1:3]])


def test_joined_halves_begin_and_end_where_they_should():
    """Even if they wait where they begin, or all the time."""
    first = np.array([[12, 0.25], [12.1, 0.25], [14, 0.25], [16, 0.25]], dtype=np.float32)
    second = np.array([[16, 0.25], [16, 0.25], [18, 0.25], [18, 0.25]], dtype=np.float32)
    np.testing.assert_array_equal(concatenate(first, second)[[0, -1]], [first[0], second[-1]])
    still = np.zeros_like(first)
    np.testing.assert_array_equal(concatenate(still, still + 7), [[0, 0], [7, 7], [7, 7], [7, 7]])


def test_a_search_is_off_unless_something_is_asked_for():
    assert not SearchConfig().is_on
    assert SearchConfig(candidates=2).is_on
    assert SearchConfig(mend=True).is_on
    assert SearchConfig(bisect=True).is_on
    with pytest.raises(BadInput, match="candidates 0: at least one"):
        SearchConfig(candidates=0)
