"""Of several draws the one that can be walked, and of those the shortest; by halves where there is none."""

from collections.abc import Sequence

import numpy as np
import pytest

from scots.data.support import Support
from scots.data.trajectories import Array, Meta, Trajectories
from scots.planners.search import LENGTH, BestOf

STRIDE = 8


def unrolled(places: Array) -> Array:
    """Two lanes with a wall between them, joined at the far end: the latent is the way along them."""
    x, y = places.T
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
    """Draws what it was given, one after the other."""

    def __init__(self, *sequences: list[tuple[float, float]]) -> None:
        self.left = list(sequences)

    def __call__(self, ends: Array, rng: Sequence[np.random.Generator]) -> Array:
        assert len({own.integers(2**60) for own in rng}) == len(rng) == len(ends)  # every candidate draws its own
        drawn, self.left = self.left[: len(ends)], self.left[len(ends) :]
        return np.array(drawn, dtype=np.float32)


THROUGH = [(10.25, 0.25), (10.25, 0.25), (10.25, 8.25), (10.25, 8.25)]  # straight through the wall
AROUND = [(18.25, 0.25), (20.25, 0.25), (20.25, 8.25), (18.25, 8.25)]
DAWDLING = [(18.25, 0.25), (16.25, 0.25), (19.25, 0.25), (20.25, 0.25)]


FAR = np.array([[[2, 0.5], [14, 0.5]]], dtype=np.float32)  # ends between which something is drawn


def in_lanes(candidates: int = 1) -> BestOf:
    return BestOf(recorded(), unrolled, STRIDE, candidates)


def rngs(count: int) -> list[np.random.Generator]:
    return [np.random.default_rng(seed) for seed in range(count)]


def test_faults_are_steps_too_many_and_steps_where_nobody_was():
    faults, steps = in_lanes().judged(np.array([THROUGH, AROUND, DAWDLING], dtype=np.float32), STRIDE)
    np.testing.assert_allclose(steps, [28, 2 + 8 + 2, 2 + 3 + 1], rtol=1e-5)
    # the line meets the heights 0.25, 1.85, 3.45, 5.05 and 6.65, of which two are neither in a lane nor beside the ends
    np.testing.assert_allclose(faults, [28 - STRIDE + 2 * STRIDE / 5, 0, 0], rtol=1e-5)


def test_between_places_that_are_far_apart_no_straight_line_is_expected():
    """Only the places are looked up: one of the four is inside the wall."""
    faults, _ = in_lanes().judged(np.array([[*THROUGH[:2], (10.25, 4.25), THROUGH[3]]], dtype=np.float32), 5 * STRIDE)
    assert faults == STRIDE


def test_nothing_is_to_blame_for_where_it_begins_and_ends():
    """Both ends lie off the lane, and so does the wait at the second."""
    waiting = np.array([[(1, 2), (2, 0.5), (8, 0.5), (9, 2), (9, 2)]], dtype=np.float32)
    faults, steps = in_lanes().judged(waiting, STRIDE)
    assert (faults[0], steps[0]) == (0, pytest.approx(8))


def test_each_gets_the_best_of_its_own_candidates():
    drawn, ends = Drawn(THROUGH, DAWDLING, AROUND, AROUND, THROUGH, THROUGH), FAR.repeat(2, axis=0)
    best = in_lanes(3)(drawn, ends, rngs(2), STRIDE, 4)
    np.testing.assert_array_equal(best, np.array([DAWDLING, AROUND], dtype=np.float32))
    assert drawn.left == []


def test_between_ends_beside_each_other_nothing_is_drawn():
    """A step is half a unit: straight on and wait, from wherever that is."""
    ends = np.array([[[2, 0.5], [14, 0.5]], [[3, 0.5], [3, 1.25]], [[5, 3], [5, 3]]], dtype=np.float32)
    drawn = Drawn(THROUGH, DAWDLING)
    best = in_lanes(2)(drawn, ends, rngs(3), 1, 4)
    assert drawn.left == []
    assert best.dtype == np.float32
    np.testing.assert_array_equal(best[0], np.array(DAWDLING, dtype=np.float32))
    np.testing.assert_allclose(best[1], [(3, 0.5), (3, 1.0), (3, 1.25), (3, 1.25)], atol=1e-6)
    np.testing.assert_array_equal(best[1:, [0, -1]], ends[1:])
    assert (best[2] == ends[2, 0]).all()


def test_a_long_way_without_faults_beats_a_short_one_with_them():
    short, long = [(2, 0.5), (8, 0.5), (8, 2.6), (14, 0.5)], [(2, 0.5), (8, 0.5), (6, 0.5), (14, 0.5)]
    assert 2 * 2 * LENGTH < STRIDE / 5  # the detour costs less than one place astray
    assert in_lanes(2)(Drawn(short, long), FAR, rngs(1), STRIDE, 4).tolist() == [[list(place) for place in long]]


class Straight:
    """Sees no walls: it goes straight to every goal, at most 4 units a stretch, and waits there."""

    def __init__(self) -> None:
        self.asked: list[Array] = []

    def __call__(self, ends: Array, rng: Sequence[np.random.Generator]) -> Array:
        self.asked += [ends]
        start, goal = ends[:, :1], ends[:, 1:]
        way = np.linalg.norm(goal - start, axis=2, keepdims=True)
        return (start + np.minimum(1, 4 * np.arange(21)[:, None] / np.maximum(way, 1e-9)) * (goal - start)).astype("f4")


def as_it_is(sequences: Array, rng: Sequence[np.random.Generator]) -> Array:
    return sequences


def test_what_cannot_be_walked_is_looked_for_by_halves():
    """One stays in its lane. The other has to go round the wall: by its far end, which is halfway."""
    ends = np.array([[[2, 0.75], [12, 0.75]], [[2, 0.75], [2, 8.75]]], dtype=np.float32)
    straight = Straight()
    plans, direct = in_lanes().by_halves(straight, as_it_is, ends, rngs(2), STRIDE), Straight()(ends, rngs(2))
    np.testing.assert_array_equal(plans[:, [0, -1]], ends)
    np.testing.assert_array_equal(plans[0], direct[0])
    assert plans[1, :, 0].max() > 18
    (start, middle), *others = straight.asked[1]  # only the hard one
    assert others == []
    np.testing.assert_array_equal(start, ends[1, 0])
    np.testing.assert_allclose(unrolled(middle[None]), (2 + 46.5) / 2, atol=1)


class Wandering(Straight):
    """Goes up and down its lane the first time, before it goes where it should."""

    def __call__(self, ends: Array, rng: Sequence[np.random.Generator]) -> Array:
        direct = super().__call__(ends, rng)
        if len(self.asked) == 1:
            direct[0, 1:-1:2, 0] = 10
            direct[0, 2:-1:2, 0] = 2
        return direct


def test_a_detour_is_looked_for_by_halves_too():
    """Nothing is wrong with it but its length."""
    ends, wandering = np.array([[[2, 0.75], [6, 0.75]]], dtype=np.float32), Wandering()
    (plan,) = in_lanes().by_halves(wandering, as_it_is, ends, rngs(1), STRIDE)
    assert len(wandering.asked) > 1
    assert plan[:, 0].max() == 6


def test_halves_are_mended_where_they_join():
    ends = np.array([[[2, 0.75], [2, 8.75]]], dtype=np.float32)
    lengths = []

    def mend(sequences: Array, rng: Sequence[np.random.Generator]) -> Array:
        lengths.append(in_lanes().judged(sequences, STRIDE)[1][0])
        return sequences

    in_lanes().by_halves(Straight(), mend, ends, rngs(1), STRIDE, halvings=1)
    _, first, second, joined = lengths
    assert joined == pytest.approx(first + second, rel=0.2)
    assert joined > 40


LANE = [(2 * n + 0.25, 0.25) for n in range(10)]  # along the first lane


def changed(place: int, y: float) -> Array:
    return np.array([[(x, y) if n == place else (x, 0.25) for n, (x, _) in enumerate(LANE)]], dtype=np.float32)


class Level(Straight):
    """Goes evenly to where it should, in three stretches."""

    def __call__(self, ends: Array, rng: Sequence[np.random.Generator]) -> Array:
        self.asked += [ends]
        return ends[:, :1] + np.linspace(0, 1, 4, dtype=np.float32)[:, None] * (ends[:, 1:] - ends[:, :1])


def test_windows_with_faults_are_drawn_again():
    """Of two plans one has no faults. The other leaves the lane at one place."""
    for place in (3, 4):
        level, plans = Level(), np.concatenate([np.array([LANE], dtype=np.float32), changed(place, 3.25)])
        mended = in_lanes(2).mended(level, plans, rngs(2), STRIDE, 4)
        np.testing.assert_allclose(mended, [LANE, LANE], atol=1e-5)
        assert plans[1, place, 1] == 3.25  # what was given is left alone
        (ends,) = np.unique(level.asked[0], axis=0)  # one window, whose candidates share their ends
        np.testing.assert_allclose(ends, [LANE[2], LANE[5]])


def test_a_window_stays_as_it_is_if_nothing_better_is_drawn():
    plans = changed(3, 3.25)
    through = [LANE[2], (10.25, 4.25), (10.25, 4.25), LANE[5]]
    mended = in_lanes(2).mended(Drawn(*[through] * 8), plans, rngs(1), STRIDE, 4)
    np.testing.assert_array_equal(mended, plans)


def test_halves_are_joined_without_their_waits():
    first = np.array([[0, 0], [4, 0], [4, 0], [8, 0], [8, 0], [8, 0]], dtype=np.float32)
    second = np.array([[8, 0], [8, 4], [8, 4.1], [8, 4.1], [8, 4.1], [8, 4.1]], dtype=np.float32)
    joined = [[0, 0], [4, 0], [8, 0], [8, 4.1], [8, 4.1], [8, 4.1]]
    np.testing.assert_allclose(in_lanes().one_after_the_other(first, second), joined, atol=1e-6)


def test_what_takes_too_long_leaves_out_the_places_it_needs_least():
    """There and back in the first lane is not needed, while a place on the way round the wall is."""
    first = np.array([[12, 0.25], [16, 0.25], [12.5, 0.25], [17, 0.25], [20.25, 0.25]], dtype=np.float32)
    second = np.array([[20.25, 0.25], [20.25, 8.25], [16, 8.25], [16, 8.25], [16, 8.25]], dtype=np.float32)
    joined = in_lanes().one_after_the_other(first, second)
    np.testing.assert_array_equal(joined, [first[0], first[3], *second[:3]])


def test_joined_halves_begin_and_end_where_they_should():
    """Even if they wait where they begin, or all the time."""
    first = np.array([[12, 0.25], [12.1, 0.25], [14, 0.25], [16, 0.25]], dtype=np.float32)
    second = np.array([[16, 0.25], [16, 0.25], [18, 0.25], [18, 0.25]], dtype=np.float32)
    np.testing.assert_array_equal(in_lanes().one_after_the_other(first, second)[[0, -1]], [first[0], second[-1]])
    still = np.zeros_like(first)
    np.testing.assert_array_equal(in_lanes().one_after_the_other(still, still + 7), [[0, 0], [7, 7], [7, 7], [7, 7]])
