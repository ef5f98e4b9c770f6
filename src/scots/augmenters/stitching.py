"""The walk that composes trajectories: directions, progress, novelty, selection, and the resulting rows.

Refinement keeps both ends of a segment, so a composed trajectory always ends on a row of the data whose latent is
known. Choosing segments therefore needs only the latents of the data and no network, and a batch of trajectories
advances together, each as a walk over row numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal, Self

import numpy as np

from scots.augmenters.index import Displacement, IndexKind, SegmentIndex, blocks, distinct_episodes
from scots.core.config import Config, Seeds
from scots.core.errors import BadInput
from scots.core.files import atomic
from scots.data.npz import read_npz, write_npz
from scots.data.trajectories import Array

_OVERSAMPLING = 4  # candidates to search per candidate to keep, before those of the same episode are dropped
_MAX_BATCH = 4096  # trajectories per batch
_MEMORY_BYTES = 1 << 28  # for the visited latents of a batch
_PRODUCT_COLUMNS = 512  # per matrix product: larger products are split over threads, which costs more than it saves
_PRODUCT_TRAJECTORIES = 32  # per matrix product, so that their distances stay in the processor's cache
_TIE = 1e-6  # relative; closer scores differ only by the rounding of single-precision latents


First = Literal["nearest", "sampled", "episode"]
"""Where a trajectory begins: with the best-scored neighbour of a sampled state, with a sampled segment, or where an
episode does, each in turn. No segment leads to where an episode began, so of little data those places would be lost."""


def _flag(name: str) -> str:
    """What the command line calls a setting."""
    own = {"novelty_weight": "--beta", "density_neighbours": "", "shortlist": ""}
    return own.get(name, "--" + name.replace("_", "-")) or f"--set stitching.{name}"


@dataclass(frozen=True)
class StitchingConfig(Config):
    """How trajectories are composed. The defaults are the official code's, with a threshold that adapts to the data."""

    segment: int = 26  # H, states per segment
    candidates: int = 10  # k, nearest segments that are scored
    density_neighbours: int = 30  # k_density
    novelty_weight: float = 2.0  # beta
    stitches: int = 40  # N_stitch, segments per trajectory
    score_scale: Literal["zscore", "raw"] = "zscore"  # standardise progress and novelty over the candidates, or not
    memory: Literal["endpoints", "states"] = "endpoints"  # visited latents: segment ends, or all states
    first: First = "nearest"
    index: IndexKind = "exact"
    min_displacement: Displacement = "auto"  # between the two ends of a segment, in position units
    shortlist: int | None = None  # nearest latents, of which the k with the nearest states are scored; None: no look
    continuation: bool = True  # a trajectory may go on in the episode it is in
    distinct_episodes: bool = False  # take candidates from as many episodes as possible

    def __post_init__(self) -> None:
        for name, minimum in {"segment": 2, "candidates": 1, "density_neighbours": 1, "stitches": 1}.items():
            if getattr(self, name) < minimum:
                raise BadInput(f"{name} must be at least {minimum}, got {getattr(self, name)}; change {_flag(name)}")
        if self.shortlist is not None and self.shortlist < self.candidates:
            problem = f"shortlist must be at least the {self.candidates} candidates, got {self.shortlist}"
            raise BadInput(f"{problem}; change --candidates or {_flag('shortlist')}")
        for name in ("novelty_weight", "min_displacement"):
            value = getattr(self, name)
            if not isinstance(value, str | None) and not 0 <= value < math.inf:
                raise BadInput(f"{name} must be a finite number of at least 0, got {value}; change {_flag(name)}")

    @property
    def states(self) -> int:
        """States per composed trajectory; consecutive segments share one state."""
        return self.stitches * (self.segment - 1) + 1


# ------------------------------------------------------------------------------------------------------------ scores


def directions(streams: Sequence[np.random.Generator], latent: int) -> Array:
    """Exploration direction of each trajectory, z ~ N(0, I) scaled to unit length: (B, Z) float64."""
    drawn = np.stack([stream.standard_normal(latent) for stream in streams])
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


def progress(z_start: Array, z_end: Array, direction: Array) -> Array:
    """Displacement of each candidate along the direction, Eq. 9: (B, K, Z), (B, K, Z), (B, Z) -> (B, K) float64."""
    displacement = z_end.astype(np.float64) - z_start
    return np.matmul(displacement, direction[:, :, None])[:, :, 0]


class Memory:
    """Visited latents of each trajectory in a batch, at most `capacity` per trajectory.

    Latent v is stored as the column (v, |v|^2), so that one product with (-2e, 1) gives |e - v|^2 - |e|^2. Double
    precision, because this sum cancels where e is close to v.
    """

    def __init__(self, batch: int, latent: int, capacity: int) -> None:
        self._columns = np.empty((batch, latent + 1, capacity))
        self._size = 0

    def add(self, latents: Array) -> None:
        """Add m latents to every trajectory: (B, m, Z)."""
        start, self._size = self._size, self._size + latents.shape[1]
        columns = self._columns[:, :, start : self._size]
        columns[:, :-1] = latents.swapaxes(1, 2)
        columns[:, -1] = np.square(columns[:, :-1]).sum(axis=1)

    def nearest(self, latents: Array, count: int) -> Array:
        """Distances to the `count` nearest visited latents, or to all if there are fewer: (B, K, Z) -> (B, K, m)."""
        count = min(count, self._size)
        squares = np.square(latents, dtype=np.float64).sum(axis=2, keepdims=True)
        factors = np.concatenate([-2.0 * latents, np.ones_like(squares)], axis=2)
        nearest = np.empty((*latents.shape[:2], count))
        for part in blocks(len(latents), _PRODUCT_TRAJECTORIES):
            distances = np.empty((*factors[part].shape[:2], self._size))  # squared, minus |e|^2
            for columns in blocks(self._size, _PRODUCT_COLUMNS):
                np.matmul(factors[part], self._columns[part, :, columns], out=distances[:, :, columns])
            distances.partition(count - 1, axis=2)
            nearest[part] = distances[:, :, :count]
        return np.sqrt(np.maximum(nearest + squares, 0))


def novelty(z_end: Array, memory: Memory, count: int) -> Array:
    """Mean distance of each candidate's end to the `count` nearest visited latents, Eq. 10: (B, K, Z) -> (B, K).

    If fewer have been visited, the mean is over all of them.
    """
    return memory.nearest(z_end, count).mean(axis=2)


def zscore(values: Array) -> Array:
    """Standardise each row (B, K) to zero mean and unit variance; zeros where all values are equal."""
    centred = values - values.mean(axis=1, keepdims=True)
    deviation = values.std(axis=1, keepdims=True)
    return np.divide(centred, deviation, out=np.zeros_like(centred), where=deviation > 1e-8)


def scores(progress: Array, novelty: Array, config: StitchingConfig) -> Array:
    """Progress plus weighted novelty of each candidate, Eq. 11: (B, K), (B, K) -> (B, K)."""
    if config.score_scale == "zscore":
        progress, novelty = zscore(progress), zscore(novelty)
    return progress + config.novelty_weight * novelty


def best(scores: Array) -> Array:
    """The candidate with the highest score, Algorithm 1: (B, K) -> (B,). The nearest candidate wins a tie.

    Scores that are equal up to rounding are a tie: data often holds the same segment twice, and the order of a sum must
    not decide between them.
    """
    highest = scores.max(axis=1, keepdims=True)
    return np.argmax(scores >= highest - _TIE * np.abs(scores).max(axis=1, keepdims=True), axis=1)


# -------------------------------------------------------------------------------------------------------------- walk


@dataclass(frozen=True, eq=False)
class Walk:
    """The chosen segments of B trajectories with S stitches each, and their scores.

    A first segment that is given is not scored: its gap, progress, novelty and score are zero.
    """

    segments: Array  # (B, S) int64, first rows of the chosen segments
    gap: Array  # (B, S) float32, latent distance from the end of the trajectory to the segment's first state
    progress: Array  # (B, S) float32
    novelty: Array  # (B, S) float32
    score: Array  # (B, S) float32
    direction: Array  # (B, Z) float32

    def scores_by_state(self, segment: int) -> Array:
        """Progress, novelty and score of the segment that each state came with (B, T, 3)."""
        terms = np.stack([self.progress, self.novelty, self.score], axis=2)  # (B, S, 3)
        repeated = np.repeat(terms, segment - 1, axis=1)
        return np.concatenate([terms[:, :1], repeated], axis=1)


@dataclass(frozen=True, eq=False)
class Segments:
    """What a walk chooses from: the windows of a dataset that are segments, and how its rows compare."""

    latents: Array  # (N, Z) of every row of the data
    starts: Array  # (W,) first row of each segment
    episodes: Array  # (W,) episode of each segment
    index: SegmentIndex  # over the latents of the first rows
    states: Array | None = None  # (N, O) every row in one-step units, for a shortlist

    def __post_init__(self) -> None:
        if len(self.index) != len(self.starts):
            raise BadInput(f"the index holds {len(self.index)} segments, expected {len(self.starts)}; build it again")

    def save(self, folder: Path) -> None:
        """Write the segments to a folder; the index comes last, so where it is all is."""
        arrays = {"latents": self.latents, "starts": self.starts, "episodes": self.episodes, "states": self.states}
        with atomic(folder / "segments.npz") as temporary:
            write_npz(temporary, {name: values for name, values in arrays.items() if values is not None})
        self.index.save(folder / "index")

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read what `save` wrote; the arrays are memory-mapped."""
        arrays = read_npz(folder / "segments.npz")
        return cls(index=SegmentIndex.load(folder / "index"), **arrays)


def walk(segments: Segments, config: StitchingConfig, seeds: Seeds, trajectories: range) -> Walk:
    """Choose the segments of these trajectories: Algorithm 1 without refinement.

    Each trajectory has its own random stream and memory, so its segments do not depend on which other trajectories are
    computed.
    """
    if config.shortlist is not None and segments.states is None:
        raise BadInput("a shortlist is ordered by states, but none were given")
    trajectory_bytes = 8 * (segments.latents.shape[1] + 1) * _visited_count(config)
    batch = max(1, min(_MAX_BATCH, _MEMORY_BYTES // trajectory_bytes))
    parts = [_walk_batch(segments, config, seeds, trajectories[part]) for part in blocks(len(trajectories), batch)]
    return Walk(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Walk)))


def _walk_batch(segments: Segments, config: StitchingConfig, seeds: Seeds, trajectories: range) -> Walk:
    streams = [seeds.stream("walk", number) for number in trajectories]
    sampled = segments.starts[[stream.integers(len(segments.starts)) for stream in streams]]
    if config.first == "episode":
        beginnings = segments.starts[np.unique(segments.episodes, return_index=True)[1]]
        sampled = beginnings[np.array(trajectories) % len(beginnings)]
    direction = directions(streams, segments.latents.shape[1])
    chosen = np.empty((len(trajectories), config.stitches), dtype=np.int64)
    terms = np.zeros((4, *chosen.shape), dtype=np.float32)  # gap, progress, novelty, score
    for stitch, choice in enumerate(choices(segments, config, sampled, direction)):
        pick = np.arange(len(chosen)), choice.best
        chosen[:, stitch] = choice.starts[pick]
        for term, values in zip(terms, (choice.gap, choice.progress, choice.novelty, choice.score), strict=True):
            term[:, stitch] = values[pick]
    return Walk(chosen, terms[0], terms[1], terms[2], terms[3], direction.astype(np.float32))


@dataclass(frozen=True, eq=False)
class Choice:
    """One stitch of B trajectories: the candidates, their scores, and which of them is taken."""

    starts: Array  # (B, K) first rows of the candidate segments, nearest first
    gap: Array  # (B, K) latent distance from the end of the trajectory to the candidate's first state
    progress: Array  # (B, K)
    novelty: Array  # (B, K)
    score: Array  # (B, K)
    best: Array  # (B,) the candidate that is taken


def choices(segments: Segments, config: StitchingConfig, first: Array, direction: Array) -> Iterator[Choice]:
    """The stitches of trajectories from these segments (B,) along these directions (B, Z), one after the other.

    The first segment is taken as it is, as the only candidate and without a score, or its neighbours compete with it.
    """
    latents, visited = segments.latents, _visited_offsets(config)
    memory = Memory(len(first), latents.shape[1], _visited_count(config))
    memory.add(latents[first[:, None]])
    end, episode = first, None
    for stitch in range(config.stitches):
        if stitch == 0 and config.first != "nearest":
            unscored = np.zeros((len(first), 1))
            choice = Choice(first[:, None], unscored, unscored, unscored, unscored, np.zeros(len(first), dtype=int))
        else:
            choice = _choose(segments, config, memory, direction, end, episode)
        yield choice
        chosen = choice.starts[np.arange(len(first)), choice.best]
        memory.add(latents[chosen[:, None] + visited])
        end = chosen + config.segment - 1
        episode = segments.episodes[np.searchsorted(segments.starts, chosen)]


def _choose(
    segments: Segments, config: StitchingConfig, memory: Memory, direction: Array, end: Array, episode: Array | None
) -> Choice:
    """Score the candidates after the rows `end` (B,), of which each is in an episode (B,), and take the best."""
    gap, candidates = _candidates(segments, end, episode, config)
    starts = segments.starts[candidates]
    z_start, z_end = segments.latents[starts], segments.latents[starts + config.segment - 1]
    candidate_progress = progress(z_start, z_end, direction)
    candidate_novelty = novelty(z_end, memory, config.density_neighbours)
    candidate_scores = scores(candidate_progress, candidate_novelty, config)
    return Choice(starts, gap, candidate_progress, candidate_novelty, candidate_scores, best(candidate_scores))


def _visited_offsets(config: StitchingConfig) -> Array:
    """Offsets of a segment's states that enter the memory, never the first: the previous end replaces it."""
    return np.arange(1 if config.memory == "states" else config.segment - 1, config.segment)


def _visited_count(config: StitchingConfig) -> int:
    return 1 + config.stitches * len(_visited_offsets(config))


def _candidates(segments: Segments, end: Array, episode: Array | None, config: StitchingConfig) -> tuple[Array, Array]:
    """Candidates after the rows `end` (B,): latent distances (B, K) and indices into the segments (B, K), Eq. 8.

    A shortlist of the nearest latents is ordered by the distance of states. In an embedding of temporal distance the
    position decides, and the posture of a body hardly counts: of segments that start nearby, some start in a posture
    that fits and most do not.
    """
    gap, found = segments.index.search(segments.latents[end], _searched(config))
    order = gap if config.shortlist is None else _state_distance(segments, end, found)
    if episode is not None and not config.continuation:
        order = np.where(segments.episodes[found] == episode[:, None], np.inf, order)
    if order is not gap:
        nearest = np.argsort(order, axis=1, kind="stable")
        gap, found = (np.take_along_axis(values, nearest, axis=1) for values in (gap, found))
    if config.distinct_episodes:
        return distinct_episodes(gap, found, segments.episodes, config.candidates)
    return gap[:, : config.candidates], found[:, : config.candidates]


def _searched(config: StitchingConfig) -> int:
    """How many segments to search, so that enough are left to score."""
    sparse = config.distinct_episodes or not config.continuation
    return max(config.shortlist or 0, config.candidates * (_OVERSAMPLING if sparse else 1))


def _state_distance(segments: Segments, end: Array, found: Array) -> Array:
    """Distance in state, in one-step units, from the rows `end` (B,) to the starts of found segments (B, C)."""
    assert segments.states is not None
    change = segments.states[segments.starts[found]] - segments.states[end][:, None]
    return np.sqrt(np.einsum("bco,bco->bc", change, change))


# -------------------------------------------------------------------------------------------------------------- rows


def assemble(segments: Array, segment: int) -> Array:
    """Data rows of composed trajectories: first rows of the segments (B, S) -> (B, S (H - 1) + 1).

    The first segment contributes all its H rows. Every later one omits its first row, which the end of the previous
    segment replaces.
    """
    later = segments[:, :, None] + np.arange(1, segment)
    return np.concatenate([segments[:, :1], later.reshape(len(segments), -1)], axis=1)


def joins(stitches: int, segment: int) -> Array:
    """Indices (S - 1,) of the first state after each stitch, where a composed trajectory jumps between segments."""
    return np.arange(1, stitches) * (segment - 1) + 1
