"""Window, boundary, goal and scaling rules, each against the obvious loop."""

import dataclasses
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scots.core.errors import BadInput
from scots.data.trajectories import (
    GoalMix,
    Meta,
    Normalizer,
    Trajectories,
    concat,
    offsets_from_last,
    offsets_from_lengths,
    sample_goals,
)

episode_lengths = st.lists(st.integers(1, 9), min_size=1, max_size=8)


def numbered(lengths: list[int]) -> Trajectories:
    """Row n observes (n, episode), so that every mix-up shows in the values."""
    offsets = offsets_from_lengths(lengths)
    episode = np.repeat(np.arange(len(lengths)), lengths)
    rows = np.arange(offsets[-1])
    return Trajectories(
        observations=np.stack([rows, episode], axis=1),
        offsets=offsets,
        actions=rows[:, None] * 10,
        terminated=np.arange(len(lengths)) % 2 == 0,
        meta=Meta(dataset="numbered", position=(0, 1)),
    )


@given(episode_lengths, st.integers(1, 11))
def test_windows_are_exactly_those_inside_one_episode(lengths: list[int], horizon: int):
    data = numbered(lengths)
    naive = [
        data.offsets[e] + first
        for e, length in enumerate(lengths)
        for first in range(length)
        if first + horizon <= length
    ]
    starts = data.window_starts(horizon)
    assert starts.tolist() == naive
    windows = data.windows(starts, horizon)
    assert windows.shape == (len(naive), horizon, 2)
    assert (windows[..., 1] == windows[:, :1, 1]).all()  # one episode throughout
    assert (np.diff(windows[..., 0], axis=1) == 1).all()  # consecutive rows


@given(episode_lengths, st.integers(1, 11), st.integers(0, 2**32))
def test_random_rows_are_window_starts_and_all_come_up(lengths: list[int], horizon: int, seed: int):
    data, rng = numbered(lengths), np.random.default_rng(seed)
    starts = set(data.window_starts(horizon).tolist())
    if starts:
        assert set(data.random_rows(horizon, 60 * len(starts), rng).tolist()) == starts
    else:
        with pytest.raises(BadInput, match="no episode has"):
            data.random_rows(horizon, 1, rng)


@given(episode_lengths)
def test_last_rows_have_no_successor_and_the_last_episode_counts(lengths: list[int]):
    data = numbered(lengths)
    transitions = set(data.window_starts(2).tolist())
    last_rows = set((data.offsets[1:] - 1).tolist())
    assert transitions | last_rows == set(range(data.rows))
    assert not transitions & last_rows
    assert data.window_starts(1).tolist() == list(range(data.rows))


@given(episode_lengths)
def test_rows_know_their_episode(lengths: list[int]):
    data = numbered(lengths)
    rows = np.arange(data.rows)
    assert (data.episode_of(rows) == data.observations[:, 1]).all()
    assert [int(n) for n in data.last_row_of(rows)] == [data.offsets[int(e) + 1] - 1 for e in data.observations[:, 1]]


@given(episode_lengths, st.data())
def test_selecting_keeps_whole_episodes_in_order(lengths: list[int], draw: st.DataObject):
    data = numbered(lengths)
    chosen = draw.draw(st.lists(st.integers(0, len(lengths) - 1), min_size=1, max_size=6))
    picked = data.select(chosen)
    assert picked.lengths.tolist() == [lengths[e] for e in chosen]
    expected = np.concatenate([data.observations[data.offsets[e] : data.offsets[e + 1]] for e in chosen])
    assert np.array_equal(picked.observations, expected)
    assert np.array_equal(picked.terminated, data.terminated[chosen])


@given(episode_lengths)
def test_taking_apart_and_joining_gives_the_same(lengths: list[int]):
    data = numbered(lengths)
    assert concat(list(data.episodes())).equals(data)


def test_a_run_of_episodes_is_a_view():
    data = numbered([3, 4, 5])
    part = data[1:]
    assert np.shares_memory(part.observations, data.observations)
    assert np.shares_memory(data.select([1, 2]).observations, data.observations)
    assert np.shares_memory(data.positions, data.observations)
    assert part.offsets.tolist() == [0, 4, 9]
    with pytest.raises(IndexError):
        data[2:2]


def test_fingerprints_tell_contents_and_position_columns_apart():
    data = numbered([3, 4])
    others = [
        data.with_meta(position=(0,)),
        data.select([1, 0]),
        dataclasses.replace(data, actions=np.ones_like(data.actions)),
    ]
    prints = {data.fingerprint(), *(other.fingerprint() for other in others)}
    assert len(prints) == 4
    assert data.with_meta(dataset="other name").fingerprint() == data.fingerprint()


def test_nothing_can_be_written_to():
    data = numbered([3, 4])
    with pytest.raises(ValueError, match="read-only"):
        data.observations[0, 0] = 1
    with pytest.raises(AttributeError):
        data.actions = None  # type: ignore[misc]


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"offsets": [0, 3, 3, 5]}, "episode 1 is empty"),
        ({"offsets": [0, 4, 3, 5]}, "episode 1 is empty"),
        ({"offsets": [0]}, "at least one episode"),
        ({"offsets": [1, 5]}, r"expected \[0"),
        ({"offsets": [0, 4]}, "observations: 5 entries where 4"),
        ({"observations": np.zeros(5)}, "observations: expected rank 2"),
        ({"observations": np.full((5, 2), None)}, "object arrays"),
        ({"observations": np.full((5, 2), "a")}, "expected numbers"),
        ({"actions": np.zeros((4, 2))}, "actions: 4 entries where 5"),
        ({"rewards": np.zeros((5, 1))}, "rewards: expected rank 1"),
        ({"terminated": np.zeros(3, dtype=bool)}, "terminated: 3 entries where 2"),
        ({"meta": Meta(position=(0, 2))}, "outside the 2 observation columns"),
        ({"meta": Meta(columns=("x",))}, "meta names 1 columns"),
    ],
)
def test_impossible_data_is_refused(changes: dict, complaint: str):
    fields = {"observations": np.zeros((5, 2)), "offsets": [0, 3, 5]} | changes
    with pytest.raises(BadInput, match=complaint):
        Trajectories(**fields)


def test_rows_after_the_last_flag_are_an_episode():
    assert offsets_from_last(np.array([0, 1, 0, 0])).tolist() == [0, 2, 4]
    assert offsets_from_last(np.array([0, 1, 0, 1])).tolist() == [0, 2, 4]
    assert offsets_from_last(np.array([0, 0])).tolist() == [0, 2]


@given(episode_lengths, st.integers(0, 2**32), st.booleans())
def test_goals_stay_where_their_kind_says(lengths: list[int], seed: int, geometric: bool):
    data, rng = numbered(lengths), np.random.default_rng(seed)
    rows = rng.integers(data.rows, size=200)
    last = data.last_row_of(rows)
    current = sample_goals(data, rows, GoalMix(1, 0, 0, geometric), 0.7, rng)
    assert (current == rows).all()
    future = sample_goals(data, rows, GoalMix(0, 1, 0, geometric), 0.7, rng)
    assert (data.episode_of(future) == data.episode_of(rows)).all()
    assert (future > rows)[rows < last].all()
    assert (future == rows)[rows == last].all()
    anywhere = sample_goals(data, rows, GoalMix(0, 0, 1, geometric), 0.7, rng)
    assert ((anywhere >= 0) & (anywhere < data.rows)).all()


def test_goal_laws_have_the_right_shape():
    data, rng = numbered([400]), np.random.default_rng(0)
    rows = np.zeros(200_000, dtype=int)
    geometric = sample_goals(data, rows, GoalMix(0, 1, 0), 0.9, rng)
    for offset in (1, 2, 5, 12):  # P(offset) = (1 - discount) discount^(offset - 1)
        assert np.mean(geometric == offset) == pytest.approx(0.1 * 0.9 ** (offset - 1), rel=0.06)
    uniform = sample_goals(data, rows, GoalMix(0, 1, 0, geometric=False), 0.9, rng)
    assert (uniform.min(), uniform.max()) == (1, 399)
    assert uniform.mean() == pytest.approx(200, rel=0.01)
    mixed = sample_goals(data, rows, GoalMix(0.2, 0.5, 0.3), 0.5, rng)
    assert np.mean(mixed == 0) == pytest.approx(0.2 + 0.3 / 400, abs=0.005)
    assert np.mean(mixed > 30) == pytest.approx(0.3 * 369 / 400, abs=0.005)


def test_goal_probabilities_must_sum_to_one():
    with pytest.raises(BadInput, match="sum to 1"):
        GoalMix(0.5, 0.5, 0.5)


@given(st.integers(0, 2**32), st.integers(1, 50))
def test_normalizer_agrees_with_numpy_and_inverts(seed: int, rows: int):
    rng = np.random.default_rng(seed)
    values = (rng.normal(size=(rows, 3)) * [1, 10, 0] + [5, -100, 7]).astype(np.float32)
    scale = Normalizer.fit(values)
    np.testing.assert_allclose(scale.mean, values.mean(axis=0, dtype=np.float64), rtol=1e-5, atol=1e-5)
    assert scale.std[2] == 1  # constant column: centred only
    scaled = scale.normalize(values)
    if rows > 1:
        np.testing.assert_allclose(scaled[:, :2].std(axis=0), 1, rtol=1e-3)
    np.testing.assert_allclose(scale.unnormalize(scaled), values, rtol=1e-5, atol=1e-4)


def test_listing_windows_costs_eight_bytes_each():
    offsets = offsets_from_lengths([501] * 1000)
    data = Trajectories(np.zeros((offsets[-1], 1), dtype=np.float32), offsets)
    tracemalloc.start()
    starts = data.window_starts(26)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(starts) == 1000 * 476
    assert peak <= 8 * len(starts) + 100_000  # the lengths of the episodes are the remainder


def test_wrapping_large_arrays_copies_nothing():
    observations = np.zeros((200_000, 29), dtype=np.float32)
    tracemalloc.start()
    Trajectories(observations, [0, 100_000, 200_000])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100_000
