"""Resampling against a loop written out, on motions whose states are known, and the rules for gaps and arrays."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scots.core.errors import BadInput
from scots.data.angles import angle_period, into_range, parse_angles, turn
from scots.data.inspection import inspect
from scots.data.resampling import GAP_STEPS, fill_missing, resample, split_at_gaps, typical_step
from scots.data.trajectories import Meta, Trajectories, offsets_from_lengths

META = Meta(columns=("x", "y", "heading"), position=(0, 1), angles=((2, 360.0),))


def tracks(lengths: list[int], seed: int, longest: float = 3.0, **fields) -> Trajectories:
    """Random states at uneven times, some of them twice."""
    rng, rows = np.random.default_rng(seed), sum(lengths)
    steps = rng.uniform(0.1, longest, size=rows) * (rng.random(rows) > 0.1)
    observations = np.stack([*rng.normal(size=(2, rows)).cumsum(axis=1), rng.uniform(0, 360, size=rows)], axis=1)
    return Trajectories(observations, offsets_from_lengths(lengths), times=steps.cumsum(), meta=META, **fields)


def resampled_by_loop(data: Trajectories, every: float) -> list[list[list[float]]]:
    """The same, episode by episode and state by state."""
    steps = [b - a for e in data.episodes() for a, b in zip(e.times[:-1], e.times[1:], strict=True) if b > a]
    limit = GAP_STEPS * max(every, float(np.median(steps)))
    pieces: list[list[tuple[float, list[float]]]] = []
    for episode in data.episodes():
        before = None
        for time, state in zip(episode.times.tolist(), episode.observations.tolist(), strict=True):
            if before is None or time - before > limit:
                pieces.append([(time, state)])
            elif time > before:
                pieces[-1].append((time, state))
            before = time
    return [states for piece in pieces if len(states := walk(piece, every)) > 1]


def walk(piece: list[tuple[float, list[float]]], every: float) -> list[list[float]]:
    states = []
    for number in range(math.floor((piece[-1][0] - piece[0][0]) / every + 1e-3) + 1):
        time = min(piece[0][0] + number * every, piece[-1][0])
        if len(piece) == 1:
            states.append(piece[0][1])
            continue
        index = max(n for n in range(len(piece) - 1) if piece[n][0] <= time)
        (before, start), (after, end) = piece[index], piece[index + 1]
        weight = (time - before) / (after - before)
        state = [a + weight * (b - a) for a, b in zip(start, end, strict=True)]
        change = (end[2] - start[2] + 180) % 360 - 180
        states.append([*state[:2], (start[2] + weight * change) % 360])
    return states


@given(
    lengths=st.lists(st.integers(2, 20), min_size=1, max_size=4),
    seed=st.integers(0, 1000),
    every=st.sampled_from([0.3, 1.0, 2.5, 20.0]),
    longest=st.sampled_from([3.0, 50.0]),
)
def test_as_a_loop_over_states(lengths: list[int], seed: int, every: float, longest: float) -> None:
    data = tracks(lengths, seed, longest)
    if not typical_step(data) > 0:
        return
    expected = resampled_by_loop(data, every)
    if not expected:
        with pytest.raises(BadInput, match="no episode lasts that long"):
            resample(data, every)
        return
    found = resample(data, every).data
    assert found.lengths.tolist() == [len(states) for states in expected]
    states = np.concatenate([np.array(states) for states in expected])
    np.testing.assert_allclose(found.observations[:, :2], states[:, :2], atol=1e-4)
    assert np.abs(turn(states[:, 2], found.observations[:, 2].astype(float), 360)).max() < 1e-3
    starts = found.window_starts(2)
    np.testing.assert_allclose(found.times[starts + 1] - found.times[starts], every, rtol=1e-6)


@given(
    steps=st.lists(st.floats(1, 4), min_size=2, max_size=30),
    velocity=st.tuples(st.floats(-30, 30), st.floats(-30, 30)),
    rate=st.floats(-40, 40),  # degrees a second: less than half a turn a step
)
def test_a_linear_motion_is_kept_exactly(steps: list[float], velocity: tuple[float, float], rate: float) -> None:
    times = np.concatenate([[0.0], np.cumsum(steps)])

    def states(at: np.ndarray) -> np.ndarray:
        return np.stack([velocity[0] * at, velocity[1] * at, (90 + rate * at) % 360], axis=1)

    every = float(np.median(steps))
    found = resample(Trajectories(states(times), [0, len(times)], times=times, meta=META), every).data
    expected = states(found.times)
    np.testing.assert_allclose(found.observations[:, :2], expected[:, :2], atol=1e-3, rtol=1e-5)
    assert np.abs(turn(expected[:, 2], found.observations[:, 2].astype(float), 360)).max() < 1e-2
    np.testing.assert_allclose(found.times, np.arange(found.rows) * every, atol=1e-9)


def test_gaps_split_and_short_pieces_are_dropped() -> None:
    times = np.array([0, 1, 2, 2, 3, 60, 120, 121, 122, 123.5], dtype=float)
    terminated = np.array([True])
    found = resample(Trajectories(times[:, None], [0, 10], times=times, terminated=terminated), 1.0)
    assert found.data.times.tolist() == [0, 1, 2, 3, 120, 121, 122, 123]
    assert (found.duplicates, found.gaps, found.short) == (1, 2, 1)
    assert found.data.terminated.tolist() == [False, True]
    for words in ("duplicate times dropped (1)", "split at gaps (2)", "fewer than two states dropped (1)"):
        assert words in found.describe()


def test_an_episode_ends_where_the_recording_stopped() -> None:
    steps = [1.0] * 30 + [40.0] + [1.0] * 20 + [4.0, 40.0, 40.0] + [1.0] * 20
    times = np.concatenate([[0.0], np.cumsum(steps)])
    rows = np.arange(len(times))
    data = Trajectories(times[:, None], [0, len(rows)], actions=rows[:, None], times=times, terminated=[True])
    split, gaps, single = split_at_gaps(data)
    assert (split.lengths.tolist(), gaps, single) == ([31, 22, 21], 3, 1)
    np.testing.assert_array_equal(split.actions[:, 0], rows[rows != 53])
    assert split.terminated.tolist() == [False, False, True]
    assert split_at_gaps(split)[0].equals(split)
    assert split_at_gaps(data, 3.0)[0].lengths.tolist() == [31, 21, 21]
    assert split_at_gaps(data, np.inf)[0].equals(data)
    assert split_at_gaps(data.select([0]), 1000.0)[1] == 0
    with pytest.raises(BadInput, match="above zero"):
        split_at_gaps(data, 0.0)


def test_bursts_of_rows_are_uneven_and_have_no_gaps() -> None:
    times = np.cumsum(np.tile([60.0, 0.1, 0.1, 0.1], 20))
    assert split_at_gaps(Trajectories(times[:, None], [0, len(times)], times=times))[1] == 0


def test_actions_stay_where_the_step_is_even_and_are_dropped_elsewhere() -> None:
    times, actions = np.arange(8) * 0.5, np.arange(8.0)[:, None]
    times[4:] += 100
    data = Trajectories(actions, [0, 8], actions=actions, rewards=actions[:, 0], times=times)
    even = resample(data, 0.5)
    assert (even.lost, even.data.lengths.tolist()) == ((), [4, 4])
    np.testing.assert_array_equal(even.data.actions, actions)
    other = resample(data, 0.25)
    assert (other.lost, other.data.actions, other.data.rows) == (("actions", "rewards"), None, 14)
    assert "actions, rewards dropped" in other.describe()


def test_data_that_cannot_be_resampled_is_refused() -> None:
    values = np.zeros((3, 4))
    with pytest.raises(BadInput, match="needs times"):
        resample(Trajectories(values, [0, 3]), 1.0)
    with pytest.raises(BadInput, match="row 2 is earlier"):
        resample(Trajectories(values, [0, 3], times=[0, 2, 1]), 1.0)
    with pytest.raises(BadInput, match="quaternions"):
        resample(Trajectories(values, [0, 3], times=[0, 1, 2], meta=Meta(quaternions=(0,))), 1.0)


def test_inspect_suggests_the_step() -> None:
    warnings = inspect(tracks([30, 30], seed=0)).warnings
    assert any("time does not increase" in warning for warning in warnings)
    once = resample(tracks([30, 30], seed=0), 0.7).data
    assert not any("time" in warning for warning in inspect(once).warnings)
    times = np.concatenate([np.arange(30) * 2.0, 500 + np.cumsum(np.linspace(1, 4, 30))])
    uneven = inspect(Trajectories(np.zeros((60, 2)), [0, 60], times=times)).warnings
    assert any("vary by more than half, from 1.7 to 3.5 s" in w and "--every 2" in w for w in uneven)
    assert any("1 steps are longer than 5 typical ones" in warning for warning in uneven)


def test_missing_values_are_filled_inside_episodes_the_short_way_round() -> None:
    nan = np.nan
    values = np.array([nan, 350, nan, 10, nan, nan, nan, 5.0])
    clock = np.array([0, 1, 2, 5, 6, 0, 1, 2.0])
    filled = fill_missing(values, clock, np.array([0, 5, 7, 8]), 360.0)
    np.testing.assert_array_equal(filled, [350, 350, 355, 10, 10, nan, nan, 5])
    straight = fill_missing(np.array([0, nan, nan, 9.0]), np.array([0, 1, 2, 3.0]), np.array([0, 4]))
    np.testing.assert_allclose(straight, [0, 3, 6, 9])


@pytest.mark.parametrize(
    ("name", "values", "period"),
    [
        ("heading", [0, 90, 359.9], 360),
        ("GPS Bearing (deg)", [-179, 12, 180], 360),
        ("trueHeading", [0, 360], 360),
        ("COG", [15, 340], 360),
        ("yaw", [-3.14, 3.14], 2 * np.pi),
        ("theta_0", [0.1, 6.28], 2 * np.pi),
        ("yaw", [-40, 700], None),  # counted on over full turns: nothing wraps
        ("yaw_rate", [-1, 1], None),
        ("bearing_accuracy", [1, 20], None),
        ("x", [0, 359], None),
        ("heading", [90, 90], None),
    ],
)
def test_angles_are_found_by_name_and_range(name: str, values: list[float], period: float | None) -> None:
    assert angle_period(name, np.array([*values, np.nan])) == period


@given(start=st.floats(-360, 720), change=st.floats(-179.9, 179.9), period=st.sampled_from([360.0, 2 * np.pi]))
def test_a_turn_is_the_short_way_round(start: float, change: float, period: float) -> None:
    change *= period / 360
    end = into_range(np.array([start + change]), np.array([0.0]), period)
    assert 0 <= end[0] <= period
    assert turn(np.array([start]), end, period)[0] == pytest.approx(change, abs=1e-9)


def test_angles_are_parsed() -> None:
    assert parse_angles("b=360, a=6.2832", ["a", "b"]) == ((1, 360.0), (0, 2 * np.pi))
    assert parse_angles("None", ["a"]) == ()
