"""Distances by stride: closed forms on a walk of known pace."""

from pathlib import Path

import numpy as np
import pytest

from scots.data.strides import StrideDistances
from scots.data.trajectories import Array, Meta, Trajectories


def walks(pace: float, lengths: list[int]) -> Trajectories:
    """Straight walks that move by `pace` a step."""
    positions = np.concatenate([pace * np.arange(length, dtype=np.float32) for length in lengths])[:, None]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return Trajectories(positions, offsets, meta=Meta(position=(0,)))


def distance(start: Array, goal: Array) -> Array:
    return np.abs(start - goal)[:, 0]


def measured(pace: float) -> StrideDistances:
    return StrideDistances.of(walks(pace, [41, 11]), lambda positions: positions, distance)


def test_a_stride_is_as_far_as_the_data_goes_in_it():
    found = measured(2.5)
    for stride in (1, 7, 40):
        assert found.at(stride) == pytest.approx(2.5 * stride)


def test_beyond_the_longest_episode_it_grows_in_proportion():
    assert measured(2.5).at(400) == pytest.approx(2.5 * 400)


def test_a_slow_embedding_does_not_shorten_steps():
    assert measured(0.1).at(25) == 25


def test_a_clock_counts_steps():
    assert [StrideDistances.exact().at(stride) for stride in (1, 25, 300)] == [1, 25, 300]


def test_what_is_saved_is_read(tmp_path: Path):
    found = measured(3.0)
    found.save(tmp_path / "strides.npz")
    read = StrideDistances.load(tmp_path / "strides.npz")
    np.testing.assert_array_equal(read.strides, found.strides)
    np.testing.assert_array_equal(read.distances, found.distances)
