"""The manifold of recorded states, against closed forms and a plain loop over all recorded steps."""

import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from scots.core.errors import BadInput
from scots.data.manifold import Manifold, Paths, StepUnits, column_changes
from scots.data.npz import write_npz
from scots.data.trajectories import Array, Meta, Trajectories, offsets_from_lengths


def data_of(episodes: list[Array], **meta: object) -> Trajectories:
    rows = np.concatenate(episodes).astype(np.float32)
    return Trajectories(rows, offsets_from_lengths([len(rows) for rows in episodes]), meta=Meta(**meta))


def lanes(count: int = 20, length: int = 100, noise: float = 0.1, seed: int = 0) -> Trajectories:
    """Episodes along the x axis in steps of 1, each a little beside the others."""
    rng = np.random.default_rng(seed)
    x = np.arange(length) + rng.random((count, 1))
    y = np.broadcast_to(rng.normal(0, noise, (count, 1)), x.shape)
    return data_of([np.stack(lane, axis=1) for lane in zip(x, y, strict=True)], position=(0, 1))


def nearest_by_a_loop(queries: Array, begin: Array, end: Array, count: int) -> Array:
    """Distance to the nearest of the steps that begin at the `count` nearest states."""
    found = []
    for query in queries:
        order = sorted(range(len(begin)), key=lambda n: float(np.linalg.norm(query - begin[n])))
        distances = []
        for a, b in ((begin[n], end[n]) for n in order[:count]):
            along = np.clip(((query - a) * (b - a)).sum() / ((b - a) ** 2).sum(), 0, 1)
            distances.append(np.linalg.norm(query - a - along * (b - a)))
        found.append(min(distances))
    return np.array(found)


@pytest.mark.parametrize("columns", [2, 5, 12], ids=["plane", "tree", "inverted lists"])
def test_distances_are_those_of_a_loop_over_steps(columns: int):
    rng = np.random.default_rng(columns)
    walks = rng.normal(0, 0.3, (4, 40, columns)).cumsum(axis=1)
    begin, end = walks[:, :-1].reshape(-1, columns), walks[:, 1:].reshape(-1, columns)
    queries = begin[::5] + rng.normal(0, 0.05, (len(begin[::5]), columns))
    found = Paths.of(begin, end).distance(queries)
    assert_allclose(found, nearest_by_a_loop(queries, begin, end, 4), atol=1e-5)
    assert (found >= nearest_by_a_loop(queries, begin, end, len(begin)) - 1e-5).all()  # of all steps


def test_states_moved_off_the_data_by_a_known_distance_are_found_and_only_these():
    data = lanes()
    manifold = Manifold.of(data)
    states = np.stack([np.linspace(5, 95, 1000), np.zeros(1000)], axis=1).astype(np.float32)
    states[::4, 1] += 3.0
    expected = np.arange(1000) % 4 != 0
    assert manifold.is_on(states).tolist() == expected.tolist()
    assert (manifold.position_distance(states)[::4] > 2.5).all()
    assert manifold.held_out <= 0.02


def test_the_position_unit_is_the_median_step_so_that_the_scale_of_the_data_does_not_matter():
    data, states = lanes(), np.array([[50.0, 2.0], [20.0, 0.1]], dtype=np.float32)
    large = data_of(np.split(1000 * data.observations, data.offsets[1:-1]), position=(0, 1))
    first, second = Manifold.of(data), Manifold.of(large)
    assert_allclose(first.position_distance(states), second.position_distance(1000 * states), rtol=1e-3)
    assert_allclose(first.position_threshold, second.position_threshold, rtol=1e-3)


def test_far_from_the_origin_it_is_as_near():
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 1000, (20, 100, 12)) / 8.0  # all of these numbers are exact in float32
    for columns in (2, 12):
        here, there = (list(rows[:, :, :columns] + shift) for shift in (0, 2.0**18))
        first, second = Manifold.of(data_of(here, position=(0, 1))), Manifold.of(data_of(there, position=(0, 1)))
        states = rng.integers(0, 1000, (50, columns)) / 8.0
        assert_allclose(first.distance(states), second.distance(states + 2.0**18), rtol=1e-4)


def test_places_that_one_episode_alone_visits_do_not_widen_the_threshold():
    alone = np.stack([np.full(80, 50.0), np.arange(80) + 40.0], axis=1)  # 4 % of all rows, far from every other
    data = lanes()
    together = data_of([*np.split(data.observations, data.offsets[1:-1]), alone], position=(0, 1))
    assert Manifold.of(together).position_threshold < 2 * Manifold.of(data).position_threshold
    assert Manifold.of(together).is_on(alone[:-1] + 0.5 * np.diff(alone, axis=0)).all()  # between its recorded states


def test_an_angle_is_as_near_across_its_seam_as_elsewhere():
    rng = np.random.default_rng(0)
    turns = [np.cumsum(rng.normal(10, 1, (50, 1)), axis=0) % 360 for _ in range(10)]
    manifold = Manifold.of(data_of(turns, angles=((0, 360.0),)))
    assert_allclose(manifold.distance(np.array([[359.0]])), manifold.distance(np.array([[-1.0]])), atol=1e-5)
    assert manifold.is_on(np.array([[-1.0], [361.0], [180.0]])).all()
    assert 0.8 < float(StepUnits.of(data_of(turns, angles=((0, 360.0),))).units[0]) / 10 < 1.2


@given(seed=st.integers(0, 100))
def test_a_quaternion_and_its_negative_are_one_state(seed: int):
    rng = np.random.default_rng(seed)
    quaternions = rng.normal(size=(30, 4))
    quaternions /= np.linalg.norm(quaternions, axis=1, keepdims=True)
    units = StepUnits(np.ones(4), np.zeros(4), Meta(quaternions=(0,)))
    assert_allclose(units.features(quaternions), units.features(-quaternions))
    turned = quaternions + 1e-3 * rng.normal(size=(30, 4))
    turned /= np.linalg.norm(turned, axis=1, keepdims=True)
    distances = np.linalg.norm(units.features(turned) - units.features(quaternions), axis=1)
    assert_allclose(distances, np.linalg.norm(turned - quaternions, axis=1), rtol=0.01)
    assert_allclose(column_changes(-quaternions, turned, units.meta), turned - quaternions, atol=1e-12)


def test_constant_columns_single_episodes_and_single_states_are_no_trouble():
    steps = np.stack([np.arange(50.0), np.zeros(50), np.full(50, 7.0)], axis=1)
    for data in (data_of([steps], position=(0,)), data_of([steps[:1]]), data_of([steps[:1]] * 3)):
        manifold = Manifold.of(data)
        assert np.isfinite(manifold.distance(steps)).all()
        assert manifold.is_on(data.observations).all()


def test_jumps_are_not_paths():
    there_and_back = np.concatenate([np.arange(50.0), 1000 + np.arange(50.0)])[:, None]
    manifold = Manifold.of(data_of([there_and_back] * 5, position=(0,)))
    assert manifold.is_on(np.array([[20.5], [500.0], [1020.5]])).tolist() == [True, False, True]


def test_it_is_the_same_after_saving_and_pickling(tmp_path: Path):
    rng = np.random.default_rng(0)
    data = data_of(list(rng.normal(0, 1, (5, 30, 12)).cumsum(1)), position=(0, 1), angles=((3, 360.0),))
    manifold, queries = Manifold.of(data), rng.normal(0, 3, (50, 12))
    manifold.save(tmp_path / "manifold.npz")
    for other in (Manifold.load(tmp_path / "manifold.npz"), pickle.loads(pickle.dumps(manifold))):
        assert_allclose(other.distance(queries), manifold.distance(queries))
        assert other.is_on(data.observations).tolist() == manifold.is_on(data.observations).tolist()
        assert other.held_out == manifold.held_out


def test_errors_have_a_remedy(tmp_path: Path):
    write_npz(tmp_path / "other.npz", {"begin": np.zeros(2)})
    with pytest.raises(BadInput, match="not the manifold"):
        Manifold.load(tmp_path / "other.npz")
    with pytest.raises(BadInput, match="--position"):
        Manifold.of(data_of([np.zeros((5, 2))])).position_distance(np.zeros((1, 2)))


def test_units_are_median_steps_except_of_columns_that_only_jitter():
    rng = np.random.default_rng(0)
    long = np.arange(20_000.0)[:, None]  # far longer than a thousand steps
    jitter = np.repeat([0.0, 100.0], 10_000)[:, None] + 1e-3 * rng.normal(size=(20_000, 1))
    units = StepUnits.of(data_of([np.concatenate([long, jitter], axis=1)], position=(0,))).units
    assert_allclose(units, [1.0, 0.05], rtol=1e-2)  # a thousandth of the spread, which is 50
