"""The support of recorded positions, against a plain set of boxes."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from scots.core.errors import BadInput
from scots.data.npz import write_npz
from scots.data.support import RARE, Support
from scots.data.trajectories import Array, Meta, Trajectories


def data_of(positions: Array) -> Trajectories:
    meta = Meta(position=tuple(range(positions.shape[1])))
    return Trajectories(positions.astype(np.float32), [0, len(positions)], meta=meta)


@given(columns=st.integers(1, 3), seed=st.integers(0, 1000))
def test_it_covers_the_boxes_with_enough_states_and_nothing_else(columns: int, seed: int):
    rng = np.random.default_rng(seed)
    data = data_of(rng.normal(0, 0.3, (400, columns)).cumsum(0))
    support = Support.of(data)
    low, edge = support.low, support.edge

    def box(place: Array) -> tuple[int, ...]:
        return tuple(np.floor((place - low) / edge).astype(int).tolist())

    counts = Counter(box(place) for place in data.positions)
    enough = max(1, RARE * np.median(list(counts.values())))
    asked = np.concatenate([data.positions, rng.normal(0, 10, (400, columns)).astype(np.float32)])
    expected = np.array([counts[box(place)] >= enough for place in asked])
    assert_array_equal(support.covers(asked), expected)
    assert_array_equal(support.covers(asked.reshape(2, -1, columns)), expected.reshape(2, -1))


def test_a_box_is_two_steps_wide_and_outliers_do_not_count():
    lane = np.tile(np.arange(0, 10, 0.5), 50)  # fifty laps: jumps back are rare, so the median step is 0.5
    positions = np.stack([lane, np.zeros(len(lane))], axis=1)
    positions[333] = [5.0, 3.0]
    support = Support.of(data_of(positions))
    assert support.step == 0.5
    assert_array_equal(support.covers(np.array([[5.2, 0.9], [5.0, 3.0], [5.2, -0.1], [11.0, 0.0]])), [1, 0, 0, 0])


def test_data_that_never_moves_is_one_box():
    assert Support.of(data_of(np.ones((5, 2)))).covers(np.array([[1.0, 1.0], [3.0, 1.0]])).tolist() == [True, False]


def test_it_is_the_same_after_saving_and_loading(tmp_path: Path):
    support = Support.of(data_of(np.random.default_rng(0).normal(0, 0.3, (400, 2)).cumsum(0)))
    support.save(tmp_path / "support.npz")
    loaded = Support.load(tmp_path / "support.npz")
    assert loaded.step == support.step
    assert_array_equal(loaded.centers(), support.centers())
    assert support.covers(support.centers()).all()


def test_data_without_position_columns_and_other_files_are_refused(tmp_path: Path):
    with pytest.raises(BadInput, match="no position columns are known"):
        Support.of(Trajectories(np.zeros((3, 2)), [0, 3]))
    write_npz(tmp_path / "other.npz", {"low": np.zeros(2)})
    with pytest.raises(BadInput, match=r"other.npz: not the support of a dataset, 'boxes' is missing"):
        Support.load(tmp_path / "other.npz")
