"""The walk that composes trajectories: directions, progress, novelty, selection, and the rows that come out of it.

Refinement keeps both ends of a segment, so a composed trajectory always ends on a row of the data whose latent is
known. Choosing segments therefore needs the latents of the data and no network: many trajectories take their steps
together, each a walk over row numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np

from scots.augmenters.index import Displacement, IndexKind, SegmentIndex, blocks, distinct_episodes
from scots.core.config import Config, Seeds
from scots.core.errors import BadInput
from scots.data.trajectories import Array

RECIPES: dict[str, dict[str, Any]] = {
    "paper": {
        "score_scale": "raw",
        "memory": "states",
        "first": "sampled",
        "index": "ivf",
        "min_displacement": None,
    },
    "official": {
        "score_scale": "zscore",
        "memory": "endpoints",
        "first": "nearest",
        "index": "exact",
        "min_displacement": 2.0,
    },
}
"""Where the paper's text and its official code differ: the fields of `StitchingConfig` that each of them sets."""

_WIDER = 4  # times as many candidates are found before those of the same episode are dropped
_MOST_TOGETHER = 4096  # trajectories that take their steps in one batch
_MEMORY_BYTES = 1 << 28  # of the latents visited by the trajectories that walk together
_PRODUCT_COLUMNS = 512  # of one matrix product: larger ones are split over threads, which costs more than it saves
_PRODUCT_TRAJECTORIES = 32  # whose distances to all they visited are in the processor's cache at a time
_EQUAL = 1e-6  # relative; scores this close differ by the rounding of single-precision latents


@dataclass(frozen=True)
class StitchingConfig(Config):
    """How trajectories are composed. The defaults are the official code's, with a threshold that fits any data."""

    segment: int = 26  # H, states per segment
    candidates: int = 10  # k, nearest segments that are scored
    density_neighbours: int = 30  # k_density
    novelty_weight: float = 2.0  # beta
    stitches: int = 40  # N_stitch, segments per trajectory
    score_scale: Literal["zscore", "raw"] = "zscore"  # progress and novelty over the candidates, or as they are
    memory: Literal["endpoints", "states"] = "endpoints"  # what is visited: ends of segments, or every state
    first: Literal["nearest", "sampled"] = "nearest"  # a scored neighbour of a sampled state, or a sampled segment
    index: IndexKind = "exact"
    min_displacement: Displacement = "auto"  # between the ends of a segment, in units of the position columns
    distinct_episodes: bool = False  # candidates from as many episodes as possible

    def __post_init__(self) -> None:
        for name, least in {"segment": 2, "candidates": 1, "density_neighbours": 1, "stitches": 1}.items():
            if getattr(self, name) < least:
                raise BadInput(f"{name} must be at least {least}, got {getattr(self, name)}")
        for name in ("novelty_weight", "min_displacement"):
            value = getattr(self, name)
            if not isinstance(value, str | None) and not 0 <= value < math.inf:
                raise BadInput(f"{name} must be a number that is not negative, got {value}")

    @property
    def states(self) -> int:
        """States of a composed trajectory: neighbouring segments share one."""
        return self.stitches * (self.segment - 1) + 1


# ------------------------------------------------------------------------------------------------------------ scores


def directions(streams: Sequence[np.random.Generator], latent: int) -> Array:
    """A fixed exploration direction for each trajectory, z ~ N(0, I) scaled to unit length: (B, Z) float64."""
    drawn = np.stack([stream.standard_normal(latent) for stream in streams])
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


def progress(z_start: Array, z_end: Array, direction: Array) -> Array:
    """How far each candidate moves along the direction, Eq. 9: (B, K, Z), (B, K, Z), (B, Z) -> (B, K) float64."""
    moved = z_end.astype(np.float64) - z_start
    return np.matmul(moved, direction[:, :, None])[:, :, 0]


class Memory:
    """The latents that each trajectory of a batch has visited, at most `capacity` of them.

    Latent v is kept as the column (v, |v|^2), so that one product with (-2e, 1) gives |e - v|^2 - |e|^2. In double
    precision, because that sum cancels where e is close to v.
    """

    def __init__(self, batch: int, latent: int, capacity: int) -> None:
        self._columns = np.empty((batch, latent + 1, capacity))
        self._size = 0

    def add(self, latents: Array) -> None:
        """Remember the same number of latents for every trajectory (B, m, Z)."""
        begin, self._size = self._size, self._size + latents.shape[1]
        columns = self._columns[:, :, begin : self._size]
        columns[:, :-1] = latents.swapaxes(1, 2)
        columns[:, -1] = np.square(columns[:, :-1]).sum(axis=1)

    def nearest(self, latents: Array, count: int) -> Array:
        """Distances to the `count` nearest visited latents, or to all if there are fewer: (B, K, Z) -> (B, K, m)."""
        count = min(count, self._size)
        squares = np.square(latents, dtype=np.float64).sum(axis=2, keepdims=True)
        factors = np.concatenate([-2.0 * latents, np.ones_like(squares)], axis=2)
        found = np.empty((*latents.shape[:2], count))
        for part in blocks(len(latents), _PRODUCT_TRAJECTORIES):
            gaps = np.empty((*factors[part].shape[:2], self._size))
            for columns in blocks(self._size, _PRODUCT_COLUMNS):
                np.matmul(factors[part], self._columns[part, :, columns], out=gaps[:, :, columns])
            gaps.partition(count - 1, axis=2)
            found[part] = gaps[:, :, :count]
        return np.sqrt(np.maximum(found + squares, 0))


def novelty(z_end: Array, memory: Memory, count: int) -> Array:
    """Mean distance of each candidate's end to the `count` nearest visited latents, Eq. 10: (B, K, Z) -> (B, K).

    While fewer have been visited, the mean is over those there are.
    """
    return memory.nearest(z_end, count).mean(axis=2)


def zscore(values: Array) -> Array:
    """Values of each row (B, K) in standard deviations from its mean; zeros where they do not differ."""
    centred = values - values.mean(axis=1, keepdims=True)
    deviation = values.std(axis=1, keepdims=True)
    return np.divide(centred, deviation, out=np.zeros_like(centred), where=deviation > 1e-8)


def scores(progress: Array, novelty: Array, config: StitchingConfig) -> Array:
    """Progress plus weighted novelty of every candidate, Eq. 11: (B, K), (B, K) -> (B, K)."""
    if config.score_scale == "zscore":
        progress, novelty = zscore(progress), zscore(novelty)
    return progress + config.novelty_weight * novelty


def best(scores: Array) -> Array:
    """The candidate with the highest score, Algorithm 1: (B, K) -> (B,). Equal scores go to the nearest candidate.

    Equal means up to rounding: data often holds the same segment twice, and how a sum was ordered must not decide.
    """
    highest = scores.max(axis=1, keepdims=True)
    return np.argmax(scores >= highest - _EQUAL * np.abs(scores).max(axis=1, keepdims=True), axis=1)


# -------------------------------------------------------------------------------------------------------------- walk


@dataclass(frozen=True, eq=False)
class Walk:
    """What a walk chose for each of B trajectories at each of S stitches, and why.

    A sampled first segment was not scored: its gap, progress, novelty and score are zero.
    """

    segments: Array  # (B, S) int64, first rows of the chosen segments
    gap: Array  # (B, S) float32, latent distance from where the trajectory ended to the segment's first state
    progress: Array  # (B, S) float32
    novelty: Array  # (B, S) float32
    score: Array  # (B, S) float32
    direction: Array  # (B, Z) float32


def walk(
    latents: Array,
    segments: Array,
    index: SegmentIndex,
    config: StitchingConfig,
    seeds: Seeds,
    trajectories: range,
    episodes: Array | None = None,
) -> Walk:
    """Choose the segments of the trajectories of these numbers, Algorithm 1 without refinement.

    `latents` (N, Z) are those of all rows, `segments` (W,) the first rows whose latents are the keys of `index`, and
    `episodes` (W,) the episode of each segment, needed for `distinct_episodes`. Trajectory n draws from its own stream
    and is scored by itself, so its choices do not depend on which others are asked for.
    """
    if len(index) != len(segments):
        raise BadInput(f"the index holds {len(index)} segments, {len(segments)} were given: build the index again")
    if config.distinct_episodes and episodes is None:
        raise BadInput("distinct_episodes needs the episode of each segment")
    bytes_each = 8 * (latents.shape[1] + 1) * _visits(config)
    together = max(1, min(_MOST_TOGETHER, _MEMORY_BYTES // bytes_each))
    parts = [
        _walk_together(latents, segments, index, config, seeds, trajectories[run], episodes)
        for run in blocks(len(trajectories), together)
    ]
    return Walk(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Walk)))


def _walk_together(
    latents: Array,
    segments: Array,
    index: SegmentIndex,
    config: StitchingConfig,
    seeds: Seeds,
    trajectories: range,
    episodes: Array | None,
) -> Walk:
    batch, latent = len(trajectories), latents.shape[1]
    streams = [seeds.stream("walk", number) for number in trajectories]
    sampled = segments[[stream.integers(len(segments)) for stream in streams]]
    direction = directions(streams, latent)
    visited = _visited_offsets(config)
    memory = Memory(batch, latent, _visits(config))
    memory.add(latents[sampled[:, None]])
    chosen = np.empty((batch, config.stitches), dtype=np.int64)
    reasons = np.zeros((4, batch, config.stitches), dtype=np.float32)
    end = sampled
    for stitch in range(config.stitches):
        if stitch == 0 and config.first == "sampled":
            chosen[:, 0] = sampled
        else:
            gap, candidates = _candidates(index, latents[end], config, episodes)
            starts = segments[candidates]
            z_start, z_end = latents[starts], latents[starts + config.segment - 1]
            along = progress(z_start, z_end, direction)
            new = novelty(z_end, memory, config.density_neighbours)
            score = scores(along, new, config)
            pick = np.arange(batch), best(score)
            chosen[:, stitch] = starts[pick]
            reasons[:, :, stitch] = [values[pick] for values in (gap, along, new, score)]
        memory.add(latents[chosen[:, stitch, None] + visited])
        end = chosen[:, stitch] + config.segment - 1
    gap, along, new, score = reasons
    return Walk(chosen, gap, along, new, score, direction.astype(np.float32))


def _visited_offsets(config: StitchingConfig) -> Array:
    """Which states of a stitched segment are remembered; its first one takes the place of one that already is."""
    return np.arange(1 if config.memory == "states" else config.segment - 1, config.segment)


def _visits(config: StitchingConfig) -> int:
    return 1 + config.stitches * len(_visited_offsets(config))


def _candidates(
    index: SegmentIndex, queries: Array, config: StitchingConfig, episodes: Array | None
) -> tuple[Array, Array]:
    """The candidates of each trajectory, Eq. 8: their latent distances and their numbers among the segments (B, K)."""
    if episodes is None or not config.distinct_episodes:
        return index.search(queries, config.candidates)
    return distinct_episodes(*index.search(queries, _WIDER * config.candidates), episodes, config.candidates)


# -------------------------------------------------------------------------------------------------------------- rows


def assemble(segments: Array, segment: int) -> Array:
    """Rows of the data that a composed trajectory is made of: (B, S) first rows -> (B, S (H - 1) + 1).

    The first segment gives all its H rows, every later one all but its first, whose place the end before it takes.
    """
    later = segments[:, :, None] + np.arange(1, segment)
    return np.concatenate([segments[:, :1], later.reshape(len(segments), -1)], axis=1)


def joins(stitches: int, segment: int) -> Array:
    """Where a composed trajectory jumps: the indices of the first states after each junction (S - 1,)."""
    return np.arange(1, stitches) * (segment - 1) + 1
