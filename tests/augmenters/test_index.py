"""The choice of segments, and nearest-neighbour search against brute force."""

import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import faiss
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scots.augmenters.index import RECALL, SegmentIndex, distinct_episodes, segment_starts
from scots.core.errors import BadInput
from scots.data.trajectories import Array, Meta, Trajectories, offsets_from_lengths


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    """The tests build hundreds of tiny indices, where starting threads takes longer than the search."""
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    yield
    faiss.omp_set_num_threads(threads)


# ---------------------------------------------------------------------------------------------------------- segments


def episodes_of(paths: list[Array]) -> Trajectories:
    """Episodes from positions, with another column between the two position columns."""
    positions = np.concatenate(paths)
    observations = np.stack([positions[:, 0], np.arange(len(positions)) * 100.0, positions[:, 1]], axis=1)
    return Trajectories(observations, offsets_from_lengths([len(p) for p in paths]), meta=Meta(position=(0, 2)))


def straight(states: int, speed: float, angle: float, noise: float = 0, seed: int = 0) -> Array:
    along = np.arange(states)[:, None] * speed * np.array([np.cos(angle), np.sin(angle)])
    return along + np.random.default_rng(seed).normal(size=(states, 2)) * noise


def move_then_idle(moving: int, idle: int, noise: float, seed: int) -> Array:
    path = straight(moving, 0.2, seed)
    rest = path[-1] + np.random.default_rng(seed).normal(size=(idle, 2)) * noise
    return np.concatenate([path, rest])


@given(st.lists(st.integers(1, 12), min_size=1, max_size=6), st.integers(2, 6), st.floats(0, 3), st.integers(0, 99))
def test_segments_are_the_windows_with_enough_displacement(
    lengths: list[int], horizon: int, minimum: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    data = episodes_of([rng.normal(size=(length, 2)).cumsum(axis=0) for length in lengths])
    expected = [
        first
        for first in data.window_starts(horizon)
        if np.linalg.norm(data.positions[first + horizon - 1] - data.positions[first]) >= minimum
    ]
    if expected:
        assert segment_starts(data, horizon, minimum).tolist() == expected
    else:
        with pytest.raises(BadInput):
            segment_starts(data, horizon, minimum)


@pytest.mark.parametrize("idle", [0.3, 0.7, 0.85])
def test_auto_drops_idle_windows_and_keeps_moving_ones(idle: float):
    states, horizon = 300, 26
    moving = round(states * (1 - idle))
    data = episodes_of([move_then_idle(moving, states - moving, 0.05, seed) for seed in range(20)])
    starts = segment_starts(data, horizon, "auto")
    first = starts % states
    assert first.max() < moving  # no window is idle throughout
    for episode in range(20):  # every window that moves throughout is kept
        assert set(range(episode * states, episode * states + moving - horizon + 1)) <= set(starts.tolist())


def test_auto_keeps_all_windows_that_move_alike():
    data = episodes_of([straight(100, 0.2, angle, noise=0.3, seed=angle) for angle in range(20)])
    assert np.array_equal(segment_starts(data, 26, "auto"), data.window_starts(26))


def test_auto_finds_the_few_moving_windows_in_idle_data():
    still = np.zeros((990, 2))
    data = episodes_of([np.concatenate([still, straight(60, 0.2, 1)])])
    starts = segment_starts(data, 26, "auto")
    assert 0 < len(starts) < 60
    assert starts.min() > 960


def test_no_filter_keeps_every_window_and_needs_no_positions():
    data = Trajectories(np.zeros((30, 4)), [0, 10, 30])
    assert np.array_equal(segment_starts(data, 5, None), data.window_starts(5))


def test_impossible_filters_give_the_reason():
    data = episodes_of([straight(30, 0.2, 0), straight(12, 0.2, 0)])
    with pytest.raises(BadInput, match="largest displacement is 5; choose a smaller"):
        segment_starts(data, 26, 6.5)
    with pytest.raises(BadInput, match="largest displacement is 0"):
        segment_starts(episodes_of([np.zeros((30, 2))]), 26, "auto")
    with pytest.raises(BadInput, match="needs position columns"):
        segment_starts(data.with_meta(position=()), 26, "auto")
    with pytest.raises(BadInput, match="needs 31 states, but the longest episode has 30"):
        segment_starts(data, 31, None)


def test_filtering_many_windows_needs_little_memory():
    offsets = offsets_from_lengths([501] * 2000)
    rows = np.arange(offsets[-1], dtype=np.float32)
    data = Trajectories(np.stack([rows, rows], axis=1), offsets, meta=Meta(position=(0, 1)))
    tracemalloc.start()
    starts = segment_starts(data, 26, "auto")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(starts) == 2000 * 476
    assert peak <= 24 * len(starts) + 20_000_000  # starts, displacements and result, plus one block


# --------------------------------------------------------------------------------------------------- distinct episodes


@given(st.integers(1, 12), st.integers(1, 5), st.integers(1, 6), st.integers(0, 999))
def test_distinct_episodes_agrees_with_a_loop(candidates: int, episodes: int, k: int, seed: int):
    rng = np.random.default_rng(seed)
    k = min(k, candidates)
    episode_of = rng.integers(episodes, size=50)
    indices = np.stack([rng.permutation(50)[:candidates] for _ in range(4)])
    distances = np.sort(rng.random((4, candidates)), axis=1)
    near, chosen = distinct_episodes(distances, indices, episode_of, k)
    for row in range(4):
        first, repeated = [], []
        for column in range(candidates):
            earlier = episode_of[indices[row, :column]]
            (repeated if episode_of[indices[row, column]] in earlier else first).append(column)
        columns = (first + repeated)[:k]
        assert chosen[row].tolist() == indices[row, columns].tolist()
        assert near[row].tolist() == distances[row, columns].tolist()


# ------------------------------------------------------------------------------------------------------------- index


def distances_to(queries: Array, keys: Array) -> Array:
    return np.linalg.norm(queries[:, None].astype(np.float64) - keys, axis=2)


def brute_force(queries: Array, keys: Array, k: int) -> tuple[Array, Array]:
    every = distances_to(queries, keys)
    indices = np.argsort(every, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(every, indices, axis=1), indices


def clustered(count: int, latent: int, seed: int, spread: float = 1.0) -> Array:
    """Keys in clusters far from the origin, where sums of squares cancel."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(max(1, count // 50), latent)) * 30 + 100
    return (centres[rng.integers(len(centres), size=count)] + rng.normal(size=(count, latent)) * spread).astype("f4")


@given(
    count=st.integers(1, 200),
    latent=st.integers(1, 9),
    k=st.integers(1, 12),
    lists=st.sampled_from([None, 1, 4, 30]),
    spread=st.sampled_from([0.01, 1.0, 50.0]),
    seed=st.integers(0, 999),
)
def test_exact_search_is_brute_force(count: int, latent: int, k: int, lists: int | None, spread: float, seed: int):
    keys = clustered(count, latent, seed, spread)
    queries = np.concatenate([keys[:5], clustered(8, latent, seed + 1)])
    distances, indices = SegmentIndex.build(keys, "exact", seed, lists).search(queries, k)
    expected, _ = brute_force(queries, keys, k)
    assert distances.shape == indices.shape == (len(queries), min(k, count))
    assert (distances.dtype, indices.dtype) == (np.float32, np.int64)
    np.testing.assert_allclose(distances, expected, rtol=2e-6)
    true = np.take_along_axis(distances_to(queries, keys), indices, axis=1)
    np.testing.assert_allclose(distances, true, rtol=2e-6)


@pytest.mark.parametrize("latent", [2, 32])
def test_exact_search_over_many_lists_is_brute_force(latent: int):
    keys = clustered(6000, latent, seed=0)
    queries = clustered(60, latent, seed=1)
    distances, indices = SegmentIndex.build(keys, "exact", seed=0).search(queries, 10)
    expected, order = brute_force(queries, keys, 10)
    np.testing.assert_allclose(distances, expected, rtol=2e-6)
    assert np.mean(indices == order) > 0.999  # nearly equal distances may swap


@given(st.integers(1, 120), st.integers(1, 40), st.integers(1, 12), st.integers(0, 999))
def test_equal_keys_are_sorted_by_index(count: int, latent: int, k: int, seed: int):
    rng = np.random.default_rng(seed)
    distinct = rng.integers(-1, 2, size=(max(1, count // 6), latent))
    keys = distinct[rng.integers(len(distinct), size=count)].astype(np.float32)
    queries = np.concatenate([keys[:4], rng.integers(-1, 2, size=(4, latent))]).astype(np.float32)
    distances, indices = SegmentIndex.build(keys, "exact", seed).search(queries, k)
    expected, order = brute_force(queries, keys, k)
    assert np.array_equal(indices, order)
    assert np.array_equal(distances, np.sqrt(np.square(expected).round()).astype(np.float32))


@pytest.mark.parametrize("kind", ["exact", "ivf"])
def test_all_keys_equal(kind: str):
    keys = np.full((500, 3), 7, dtype=np.float32)
    distances, indices = SegmentIndex.build(keys, kind, seed=0, lists=20).search(keys[:4], 10)
    assert (distances == 0).all()
    assert np.array_equal(indices, np.tile(np.arange(10), (4, 1)))


@pytest.mark.parametrize("spread", [0.1, 1.0, 30.0])
def test_ivf_search_reaches_its_recall_and_returns_correct_distances(spread: float):
    keys = clustered(5000, 16, seed=0, spread=spread)
    queries = keys[np.random.default_rng(5).choice(len(keys), 100, replace=False)]
    index = SegmentIndex.build(keys, "ivf", seed=0)
    assert index.recall >= RECALL
    distances, indices = index.search(queries, 10)
    np.testing.assert_allclose(distances, np.linalg.norm(queries[:, None] - keys[indices], axis=2), rtol=1e-5)
    assert (np.diff(distances, axis=1) >= 0).all()
    assert all(len(set(row)) == 10 for row in indices.tolist())
    kth_distance = brute_force(queries, keys, 10)[0][:, -1:]
    assert np.mean(distances <= kth_distance * (1 + 1e-5)) >= RECALL - 0.02


@settings(max_examples=30)
@given(st.integers(1, 60), st.integers(1, 60), st.integers(1, 30), st.integers(0, 999))
def test_lists_with_fewer_than_k_keys_still_give_k_neighbours(count: int, lists: int, k: int, seed: int):
    keys = clustered(count, 4, seed, spread=20)
    index = SegmentIndex.build(keys, "ivf", seed, lists)
    index.probes = 1
    distances, indices = index.search(keys, k)
    assert indices.shape == (count, min(k, count))
    assert ((indices >= 0) & (indices < count)).all()
    assert all(len(set(row)) == len(row) for row in indices.tolist())
    true = np.take_along_axis(distances_to(keys, keys), indices, axis=1)
    np.testing.assert_allclose(distances, true, rtol=1e-5)


@pytest.mark.parametrize("kind", ["exact", "ivf"])
def test_result_of_a_query_does_not_depend_on_its_batch(kind: str):
    keys, queries = clustered(6000, 32, seed=0), clustered(1500, 32, seed=2)
    index = SegmentIndex.build(keys, kind, seed=0)
    distances, indices = index.search(queries, 10)
    for part in (slice(0, 1), slice(1, 30), slice(30, 600), slice(600, 1500)):
        alone = index.search(queries[part], 10)
        assert np.array_equal(alone[0], distances[part])
        assert np.array_equal(alone[1], indices[part])
    assert index.search(queries[:0], 10)[1].shape == (0, 10)


@pytest.mark.parametrize("kind", ["exact", "ivf"])
def test_rebuilt_and_loaded_indices_are_equal(kind: str, tmp_path: Path):
    keys, queries = clustered(6000, 8, seed=0), clustered(100, 8, seed=2)
    index = SegmentIndex.build(keys, kind, seed=3)
    index.save(tmp_path / "index")
    index.save(tmp_path / "index")  # replaces the old one
    for other in (SegmentIndex.build(keys, kind, seed=3), SegmentIndex.load(tmp_path / "index")):
        assert (other.kind, other.probes, other.recall, len(other)) == (kind, index.probes, index.recall, 6000)
        for expected, found in zip(index.search(queries, 10), other.search(queries, 10), strict=True):
            assert np.array_equal(expected, found)
    assert [path.name for path in tmp_path.iterdir()] == ["index"]


@pytest.mark.parametrize("name", ["lists.faiss", "radii.npy", "index.json"])
@pytest.mark.parametrize("damage", ["missing", "cut"])
def test_damaged_index_is_refused_in_one_line(name: str, damage: str, tmp_path: Path):
    SegmentIndex.build(clustered(100, 4, seed=0), "ivf", seed=0).save(tmp_path / "index")
    path = tmp_path / "index" / name
    content = path.read_bytes()
    path.unlink()
    if damage == "cut":
        path.write_bytes(content[: len(content) // 2])
    with pytest.raises(BadInput, match="not a readable segment index") as caught:
        SegmentIndex.load(tmp_path / "index")
    assert "\n" not in str(caught.value)


def test_failed_write_leaves_no_index(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="cannot write"):
        SegmentIndex.build(clustered(100, 4, seed=0), "exact", seed=0).save(tmp_path / "file" / "index")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_nonfinite_latents_are_refused():
    keys = clustered(100, 4, seed=0)
    index = SegmentIndex.build(keys, "exact", seed=0)
    keys[7, 1] = np.nan
    with pytest.raises(BadInput, match="not finite"):
        SegmentIndex.build(keys, "exact", seed=0)
    with pytest.raises(BadInput, match="not finite"):
        index.search(keys, 3)
    with pytest.raises(BadInput, match="shape"):
        SegmentIndex.build(keys[:0], "exact", seed=0)
