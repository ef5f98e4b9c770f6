"""Where the data has been, against a plain set of boxes, and what travels with a planner."""

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from scots.data.support import RARE, Support
from scots.data.trajectories import Array, Meta, Trajectories


def data_of(places: Array) -> Trajectories:
    meta = Meta(position=tuple(range(places.shape[1])))
    return Trajectories(places.astype(np.float32), [0, len(places)], meta=meta)


@given(columns=st.integers(1, 3), seed=st.integers(0, 1000))
def test_it_covers_the_boxes_with_enough_states_and_nothing_else(columns: int, seed: int):
    rng = np.random.default_rng(seed)
    data = data_of(rng.normal(0, 0.3, (400, columns)).cumsum(0))
    support = Support.of(data)
    low, edge = support.low.numpy(), support.edge.numpy()

    def box(place: Array) -> tuple[int, ...]:
        return tuple(np.floor((place - low) / edge).astype(int).tolist())

    counts = Counter(box(place) for place in data.positions)
    enough = max(1, RARE * np.median(list(counts.values())))
    asked = np.concatenate([data.positions, rng.normal(0, 10, (400, columns)).astype(np.float32)])
    expected = np.array([counts[box(place)] >= enough for place in asked])
    assert_array_equal(support.covers(asked), expected)
    assert_array_equal(support.covers(asked.reshape(2, -1, columns)), expected.reshape(2, -1))


def test_a_box_is_two_steps_wide_and_strays_do_not_count():
    lane = np.tile(np.arange(0, 10, 0.5), 50)  # fifty laps: jumps back are rare, so the median step is 0.5
    places = np.stack([lane, np.zeros(len(lane))], axis=1)
    places[333] = [5.0, 3.0]
    support = Support.of(data_of(places))
    assert support.step == 0.5
    assert_array_equal(support.covers(np.array([[5.2, 0.9], [5.0, 3.0], [5.2, -0.1], [11.0, 0.0]])), [1, 0, 0, 0])


def test_data_that_never_moves_is_one_box():
    assert Support.of(data_of(np.ones((5, 2)))).covers(np.array([[1.0, 1.0], [3.0, 1.0]])).tolist() == [True, False]
