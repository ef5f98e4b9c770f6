"""The batched walk against a naive loop of Algorithm 1, and each of its formulas by hand."""

import runpy
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scots.augmenters import stitching
from scots.augmenters.index import SegmentIndex, segment_starts
from scots.augmenters.settings import VARIANTS
from scots.augmenters.stitching import (
    Memory,
    Segments,
    StitchingConfig,
    Walk,
    assemble,
    best,
    directions,
    joins,
    novelty,
    progress,
    scores,
    walk,
    zscore,
)
from scots.core.config import Seeds
from scots.core.errors import BadInput
from scots.data.trajectories import Array, Trajectories, offsets_from_lengths
from scots.datasets import toy

naive_walk = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "naive_walk.py"))["naive_walk"]

SMALL = StitchingConfig(segment=9, stitches=7, density_neighbours=5, min_displacement=None)
CHOICES: list[dict[str, Any]] = [
    VARIANTS["official"],
    VARIANTS["paper"],
    VARIANTS["official"] | {"memory": "states"},
    VARIANTS["paper"] | {"first": "nearest"},
    VARIANTS["official"] | {"distinct_episodes": True},
    VARIANTS["official"] | {"novelty_weight": 0.0, "candidates": 3},
    VARIANTS["official"] | {"shortlist": 30},
    VARIANTS["official"] | {"first": "episode"},
    VARIANTS["official"] | {"shortlist": 50, "continuation": False},
    VARIANTS["paper"] | {"continuation": False, "distinct_episodes": True},
]


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    """The tests build tiny indices, where starting threads takes longer than the search."""
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    yield
    faiss.omp_set_num_threads(threads)


@pytest.fixture(scope="module")
def data() -> Trajectories:
    return toy.make()


def lifted(data: Trajectories) -> Array:
    """Positions projected to eight dimensions, all rows distinct."""
    rng = np.random.default_rng(0)
    latents = data.observations @ rng.normal(size=(2, 8)) * 10 + rng.normal(size=(data.rows, 8)) * 0.1
    return latents.astype(np.float32)


def segments_of(data: Trajectories, latents: Array, config: StitchingConfig, states: Array | None = None) -> Segments:
    starts = segment_starts(data, config.segment, config.min_displacement)
    index = SegmentIndex.build(latents[starts], config.index, seed=0)
    return Segments(latents, starts, data.episode_of(starts), index, states)


def postures(data: Trajectories) -> Array:
    """States in which the position hardly counts."""
    return np.random.default_rng(1).normal(size=(data.rows, 3)).astype(np.float32)


def brute_force(keys: Array) -> Any:
    keys = keys.astype(np.float64)
    return lambda query, k: np.argsort(np.linalg.norm(keys - query, axis=1), kind="stable")[:k]


# -------------------------------------------------------------------------------------------------------------- walk


@pytest.mark.parametrize("variant", CHOICES)
def test_walk_matches_the_naive_loop(data: Trajectories, variant: dict[str, Any]):
    config = replace(SMALL, **(variant | {"index": "exact"}))
    segments, seeds = segments_of(data, lifted(data), config, postures(data)), Seeds(4)
    walked = walk(segments, config, seeds, range(5, 15))
    nearest = brute_force(segments.latents[segments.starts])
    assert walked.segments.tolist() == [naive_walk(segments, nearest, config, seeds, n) for n in range(5, 15)]


@pytest.mark.parametrize("variant", CHOICES)
def test_walk_matches_the_naive_loop_on_duplicate_segments(data: Trajectories, variant: dict[str, Any]):
    few = data[:120]  # on the lattice the same segment occurs many times, so ties are common
    config = replace(SMALL, **(variant | {"index": "exact"}))
    segments, seeds = segments_of(few, few.observations, config, few.observations), Seeds(1)
    walked = walk(segments, config, seeds, range(20))
    nearest = brute_force(segments.latents[segments.starts])
    assert walked.segments.tolist() == [naive_walk(segments, nearest, config, seeds, n) for n in range(20)]


def test_walk_matches_the_naive_loop_with_an_approximate_index(data: Trajectories):
    config = replace(SMALL, **VARIANTS["paper"])
    segments, seeds = segments_of(data, lifted(data), config), Seeds(3)
    walked = walk(segments, config, seeds, range(10))
    nearest = lambda query, k: segments.index.search(query[None], k)[1][0]  # noqa: E731
    assert walked.segments.tolist() == [naive_walk(segments, nearest, config, seeds, n) for n in range(10)]


def test_a_shortlist_finds_starts_in_a_fitting_posture(data: Trajectories):
    plain = replace(SMALL, candidates=4)
    gaps = []
    for config in (plain, replace(plain, shortlist=100)):
        segments = segments_of(data, lifted(data), config, postures(data))
        walked = walk(segments, config, Seeds(0), range(20)).segments
        ends, starts = walked[:, :-1] + config.segment - 1, walked[:, 1:]
        gaps.append(np.linalg.norm(segments.states[starts] - segments.states[ends], axis=2))
    assert np.median(gaps[1]) < 0.6 * np.median(gaps[0])


def test_without_continuation_no_trajectory_stays_in_its_episode(data: Trajectories):
    config = replace(SMALL, continuation=False)
    walked = walk(segments_of(data, lifted(data), config), config, Seeds(0), range(20)).segments
    episodes = data.episode_of(walked)
    assert (episodes[:, 1:] != episodes[:, :-1]).all()
    stays = replace(SMALL, continuation=True)
    walked = walk(segments_of(data, lifted(data), stays), stays, Seeds(0), range(20)).segments
    assert (np.diff(data.episode_of(walked), axis=1) == 0).any()


@settings(max_examples=60)
@given(
    lengths=st.lists(st.integers(1, 12), min_size=1, max_size=6),
    segment=st.integers(2, 5),
    latent=st.integers(1, 5),
    stitches=st.integers(1, 6),
    candidates=st.integers(1, 12),
    density=st.integers(1, 9),
    weight=st.sampled_from([0.0, 0.5, 2.0, 20.0]),
    variant=st.sampled_from(CHOICES[:4]),
    seed=st.integers(0, 999),
)
def test_walk_matches_the_naive_loop_on_random_latents(
    lengths: list[int],
    segment: int,
    latent: int,
    stitches: int,
    candidates: int,
    density: int,
    weight: float,
    variant: dict[str, Any],
    seed: int,
):
    shape = {"segment": segment, "stitches": stitches, "candidates": candidates, "density_neighbours": density}
    config = StitchingConfig(**(variant | shape | {"novelty_weight": weight, "index": "exact"}))
    offsets = offsets_from_lengths([max(lengths), segment, *lengths])  # at least one window
    rows = Trajectories(np.zeros((offsets[-1], 1)), offsets)
    latents = (np.random.default_rng(seed).normal(size=(rows.rows, latent)) * 10 + 50).astype(np.float32)
    segments = segments_of(rows, latents, replace(config, min_displacement=None))
    walked = walk(segments, config, Seeds(seed), range(3))
    nearest = brute_force(latents[segments.starts])
    assert walked.segments.tolist() == [naive_walk(segments, nearest, config, Seeds(seed), n) for n in range(3)]


def toy_walk(data: Trajectories, config: StitchingConfig, trajectories: range) -> tuple[Walk, Array, Array]:
    segments = segments_of(data, lifted(data), replace(config, min_displacement=None))
    return walk(segments, config, Seeds(2), trajectories), segments.latents, segments.starts


@pytest.mark.parametrize("variant", VARIANTS)
def test_trajectory_does_not_depend_on_the_others(data: Trajectories, variant: str, monkeypatch: pytest.MonkeyPatch):
    config = replace(SMALL, **VARIANTS[variant])
    whole = toy_walk(data, config, range(6))[0]
    parts = [toy_walk(data, config, part)[0] for part in (range(3), range(3, 6))]
    monkeypatch.setattr(stitching, "_MEMORY_BYTES", 1)  # batches of one trajectory
    one_by_one = [toy_walk(data, config, range(6))[0]]
    for name in ("segments", "gap", "progress", "novelty", "score", "direction"):
        for split in (parts, one_by_one):
            assert np.array_equal(getattr(whole, name), np.concatenate([getattr(part, name) for part in split]))
    assert len(np.unique(whole.segments[:, 0])) == 6
    assert not np.array_equal(whole.direction[0], whole.direction[1])


@pytest.mark.parametrize("variant", VARIANTS)
def test_recorded_terms_match_the_chosen_segments(data: Trajectories, variant: str):
    config = replace(SMALL, **VARIANTS[variant])
    walked, latents, segments = toy_walk(data, config, range(8))
    assert np.isin(walked.segments, segments).all()
    assert walked.segments.dtype == np.int64
    scored = slice(1 if config.first == "sampled" else 0, None)
    ends, starts = latents[walked.segments + config.segment - 1], latents[walked.segments]
    expected = np.einsum("bsz,bz->bs", ends - starts, walked.direction)
    np.testing.assert_allclose(walked.progress[:, scored], expected[:, scored], rtol=1e-4, atol=1e-4)
    gap = np.linalg.norm(starts[:, 1:] - ends[:, :-1], axis=2)
    np.testing.assert_allclose(walked.gap[:, 1:], gap, rtol=1e-4, atol=1e-4)
    assert (walked.novelty[:, 1:] > 0).all()
    np.testing.assert_allclose(np.linalg.norm(walked.direction, axis=1), 1, rtol=1e-6)
    if config.score_scale == "raw":
        total = walked.progress + config.novelty_weight * walked.novelty
        np.testing.assert_allclose(walked.score, total, rtol=1e-5)
    if config.first == "sampled":
        for values in (walked.gap, walked.progress, walked.novelty, walked.score):
            assert (values[:, 0] == 0).all()


@pytest.mark.parametrize(
    ("memory", "first", "expected"),
    [
        ("endpoints", "nearest", [1, 2, 3, 4]),
        ("endpoints", "sampled", [2, 3, 4]),
        ("states", "nearest", [1, 9, 17, 25]),
        ("states", "sampled", [9, 17, 25]),
    ],
)
def test_memory_grows_with_every_stitch(
    data: Trajectories, memory: str, first: str, expected: list[int], monkeypatch: pytest.MonkeyPatch
):
    sizes = []

    def spy(z_end: Array, memory: Memory, count: int) -> Array:
        sizes.append(memory.nearest(z_end, 10**9).shape[2])
        return novelty(z_end, memory, count)

    monkeypatch.setattr(stitching, "novelty", spy)
    toy_walk(data, replace(SMALL, stitches=4, memory=memory, first=first), range(2))
    assert sizes == expected


def test_every_place_where_an_episode_began_is_the_beginning_of_a_trajectory(data: Trajectories):
    episodes = len(data)
    walked = toy_walk(data, replace(SMALL, stitches=2, first="episode"), range(episodes + 1))[0]
    assert walked.segments[:, 0].tolist() == [*data.offsets[:-1].tolist(), 0]
    assert (walked.score[:, 0] == 0).all()


def test_without_novelty_the_memory_does_not_matter(data: Trajectories):
    plain = replace(SMALL, novelty_weight=0.0)
    walks = [
        toy_walk(data, replace(plain, memory=memory, density_neighbours=count), range(6))[0].segments
        for memory, count in (("endpoints", 5), ("states", 1))
    ]
    assert np.array_equal(*walks)
    with_novelty = toy_walk(data, SMALL, range(6))[0].segments
    assert not np.array_equal(walks[0], with_novelty)


def test_mismatched_index_and_missing_states_are_refused(data: Trajectories):
    segments = segments_of(data, lifted(data), SMALL)
    with pytest.raises(BadInput, match=r"holds 10000 segments, expected 9999"):
        replace(segments, starts=segments.starts[1:])
    with pytest.raises(BadInput, match="ordered by states"):
        walk(segments, replace(SMALL, shortlist=20), Seeds(0), range(2))
    with pytest.raises(BadInput, match="shortlist must be at least the 10 candidates"):
        replace(SMALL, shortlist=5)


# ------------------------------------------------------------------------------------------------------------ scores


def test_directions_are_unit_vectors_of_their_own_streams():
    streams = [Seeds(0).stream("walk", n) for n in range(2000)]
    drawn = directions(streams, 3)
    np.testing.assert_allclose(np.linalg.norm(drawn, axis=1), 1)
    np.testing.assert_allclose(drawn.mean(axis=0), 0, atol=0.05)
    np.testing.assert_allclose(drawn.T @ drawn / 2000, np.eye(3) / 3, atol=0.03)  # no direction is preferred
    assert np.array_equal(directions([Seeds(0).stream("walk", 7)], 3)[0], drawn[7])


def test_progress_by_hand():
    start, end = np.array([[[1.0, 1], [0, 0]]]), np.array([[[4.0, 5], [0, -2]]])
    assert progress(start, end, np.array([[0.6, 0.8]])) == pytest.approx(np.array([[5.0, -1.6]]))


def visited(latents: Array) -> Memory:
    memory = Memory(latents.shape[0], latents.shape[2], latents.shape[1])
    memory.add(latents)
    return memory


def test_novelty_by_hand():
    memory = visited(np.array([[[0.0, 0], [3, 4], [0, 10]]]))
    ends = np.array([[[0.0, 0], [0, 1]]], dtype=np.float32)
    assert novelty(ends, memory, 1) == pytest.approx(np.array([[0, 1]]), abs=1e-6)
    assert novelty(ends, memory, 2) == pytest.approx(np.array([[2.5, (1 + 18**0.5) / 2]]))
    everything = np.array([[5.0, (1 + 18**0.5 + 9) / 3]])
    assert novelty(ends, memory, 3) == pytest.approx(everything)
    assert novelty(ends, memory, 30) == pytest.approx(everything)  # the mean over all visited


@given(st.integers(1, 40), st.integers(1, 1200), st.integers(1, 6), st.integers(1, 40), st.integers(0, 99))
@settings(max_examples=25)
def test_novelty_is_accurate_far_from_the_origin(batch: int, size: int, latent: int, count: int, seed: int):
    rng = np.random.default_rng(seed)
    latents = (rng.normal(size=(batch, size, latent)) + 1000).astype(np.float32)
    ends = np.concatenate([latents[:, :1], rng.normal(size=(batch, 2, latent)) + 1000], axis=1).astype(np.float32)
    distances = np.linalg.norm(ends[:, :, None].astype(np.float64) - latents[:, None], axis=3)
    expected = np.sort(distances, axis=2)[:, :, :count].mean(axis=2)
    memory = Memory(batch, latent, size + 7)
    memory.add(latents[:, : size // 2])
    memory.add(latents[:, size // 2 :])
    np.testing.assert_allclose(novelty(ends, memory, count), expected, rtol=1e-6, atol=1e-3 / count)


def test_zscore_is_per_row_and_zero_for_equal_values():
    scaled = zscore(np.array([[1.0, 2, 3], [5, 5, 5], [7, 7, 7 + 1e-9]]))
    assert scaled[0].tolist() == pytest.approx([-(1.5**0.5), 0, 1.5**0.5])  # population deviation
    assert (scaled[1:] == 0).all()


def test_scores_by_hand():
    terms = np.array([[1.0, 3.0]]), np.array([[10.0, 6.0]])
    assert scores(*terms, StitchingConfig(score_scale="raw")).tolist() == [[21, 15]]
    assert scores(*terms, StitchingConfig()) == pytest.approx(np.array([[1, -1]]))
    assert scores(*terms, StitchingConfig(novelty_weight=0)) == pytest.approx(np.array([[-1, 1]]))


@given(st.integers(1, 12), st.sampled_from(["zscore", "raw"]), st.integers(0, 999))
def test_permuting_candidates_permutes_scores(count: int, scale: Any, seed: int):
    rng = np.random.default_rng(seed)
    start, end = rng.normal(size=(2, 3, count, 4))
    direction, memory = rng.normal(size=(3, 4)), visited(rng.normal(size=(3, 6, 4)))
    config, order = StitchingConfig(score_scale=scale), rng.permutation(count)

    def score(order: Array) -> Array:
        ends = end[:, order]
        return scores(progress(start[:, order], ends, direction), novelty(ends, memory, 4), config)

    np.testing.assert_allclose(score(order), score(np.arange(count))[:, order], rtol=1e-9, atol=1e-9)


def test_identical_candidates_score_zero_and_the_nearest_wins():
    start, end = np.zeros((1, 10, 4)), np.tile(np.random.default_rng(0).normal(size=4) * 100, (1, 10, 1))
    memory = visited(np.random.default_rng(1).normal(size=(1, 6, 4)))
    score = scores(progress(start, end, np.ones((1, 4)) / 2), novelty(end, memory, 3), StitchingConfig())
    assert (score == 0).all()
    assert best(score).tolist() == [0]


def test_nearest_wins_a_tie_up_to_rounding():
    assert best(np.array([[0.1, 0.7, 0.7 + 1e-12, 0.6], [-3, -1, -1, -2]])).tolist() == [1, 1]
    assert best(np.array([[0.1, 0.7, 0.7001, 0.6]])).tolist() == [2]


# -------------------------------------------------------------------------------------------------------------- rows


def test_rows_inside_a_segment_are_consecutive_rows_of_one_episode(data: Trajectories):
    config = replace(SMALL, stitches=12)
    segments = toy_walk(data, config, range(30))[0].segments
    rows = assemble(segments, config.segment)
    assert rows.shape == (30, config.states)
    jumps = joins(config.stitches, config.segment)
    inside = np.setdiff1d(np.arange(1, config.states), jumps)
    assert (rows[:, inside] == rows[:, inside - 1] + 1).all()
    assert (data.episode_of(rows[:, inside]) == data.episode_of(rows[:, inside - 1])).all()
    assert (rows[:, jumps] == segments[:, 1:] + 1).all()
    assert (rows[:, jumps - 1] == segments[:, :-1] + config.segment - 1).all()


def test_assemble_by_hand():
    assert assemble(np.array([[10, 50, 12]]), 4).tolist() == [[10, 11, 12, 13, 51, 52, 53, 13, 14, 15]]
    assert joins(3, 4).tolist() == [4, 7]
    assert joins(1, 4).tolist() == []


@pytest.mark.parametrize(
    ("stitches", "segment", "states"), [(40, 26, 1001), (80, 26, 2001), (39, 52, 1990), (19, 104, 1958)]
)
def test_lengths_match_the_official_code(stitches: int, segment: int, states: int):
    assert StitchingConfig(stitches=stitches, segment=segment).states == states
    assert assemble(np.zeros((1, stitches), dtype=int), segment).shape == (1, states)


# ------------------------------------------------------------------------------------------------------------ config


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"segment": 1}, "segment must be at least 2, got 1; change --segment"),
        ({"candidates": 0}, "candidates must be at least 1, got 0"),
        ({"density_neighbours": 0}, "got 0; change --set stitching.density_neighbours"),
        ({"stitches": -3}, "stitches must be at least 1, got -3"),
        ({"novelty_weight": -0.5}, "novelty_weight must be a finite number of at least 0, got -0.5; change --beta"),
        ({"novelty_weight": float("nan")}, "at least 0, got nan"),
        ({"min_displacement": float("inf")}, "min_displacement must be .* got inf; change --min-displacement"),
    ],
)
def test_impossible_values_are_refused(changes: dict[str, Any], message: str):
    with pytest.raises(BadInput, match=message):
        StitchingConfig(**changes)


@pytest.mark.parametrize("variant", VARIANTS)
def test_variants_round_trip_through_json(variant: str):
    config = StitchingConfig(**VARIANTS[variant])
    assert StitchingConfig.from_json(config.to_json()) == config


def test_defaults_are_the_official_variant():
    assert StitchingConfig() == StitchingConfig(**VARIANTS["official"])
