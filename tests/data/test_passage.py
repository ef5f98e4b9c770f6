"""How long recorded episodes take to get somewhere, where it can be worked out."""

import numpy as np
import pytest

from scots.data.passage import POINTS, QUANTILE, PassageTimes
from scots.data.trajectories import Meta, Trajectories, offsets_from_lengths


def walks(speeds: list[float], steps: int = 300, wait: int = 0) -> Trajectories:
    """Episodes that wait, then walk along x at a speed of their own."""
    moved = np.maximum(0, np.arange(steps) - wait)[None, :] * np.array(speeds)[:, None]
    states = np.stack([moved, np.zeros_like(moved)], axis=2).reshape(-1, 2).astype(np.float32)
    return Trajectories(states, offsets_from_lengths([steps] * len(speeds)), meta=Meta(position=(0, 1)))


def test_at_one_speed_time_is_distance_over_speed():
    found = PassageTimes.of(walks([0.5]))
    assert found.distances.shape == found.steps.shape == (POINTS,)
    np.testing.assert_allclose(found.steps_to(np.array([0.0, 5.0, 20.0])), [0, 10, 40], atol=1)


def test_beyond_the_table_the_last_pace_goes_on():
    found = PassageTimes.of(walks([0.5]))
    far = found.distances[-1]
    np.testing.assert_allclose(found.steps_to(np.array([3 * far])), 3 * found.steps[-1])


def test_of_fast_and_slow_episodes_the_slow_ones_decide():
    """Half of them are slow, which is more than the quantile leaves out."""
    found = PassageTimes.of(walks([1.0, 0.25]))
    np.testing.assert_allclose(found.steps_to(np.array([5.0])), [20], atol=2)


def test_episodes_that_never_get_there_do_not_count():
    moving = PassageTimes.of(walks([0.5] * 10))
    with_idlers = PassageTimes.of(walks([0.5] * 10 + [0.0] * 10))
    np.testing.assert_allclose(with_idlers.steps_to(np.array([4.0])), moving.steps_to(np.array([4.0])), atol=1)


def test_data_that_never_moves_gives_no_time_at_all():
    found = PassageTimes.of(walks([0.0]))
    assert found.steps_to(np.array([0.0])) == pytest.approx(0)


def test_against_a_plain_loop():
    rng = np.random.default_rng(1)
    positions = rng.normal(0, 0.2, (6, 120, 2)).cumsum(axis=1).astype(np.float32)
    offsets = offsets_from_lengths([120] * 6)
    found = PassageTimes.of(Trajectories(positions.reshape(-1, 2), offsets, meta=Meta(position=(0, 1))))
    distance, steps = found.distances[12], []
    rows = np.random.default_rng(0).integers(720, size=4000)
    for row in rows:
        episode, first = divmod(int(row), 120)
        for step, position in enumerate(positions[episode, first:]):
            if np.linalg.norm(position - positions[episode, first]) >= distance:
                steps.append(step)
                break
    assert found.steps[12] == pytest.approx(np.quantile(steps, QUANTILE))
