"""The walk as Algorithm 1 reads: one trajectory, one stitch and one candidate at a time.

The tests compare the choices of `scots.augmenters.stitching.walk` with it, the benchmark its speed.
"""

from collections.abc import Callable

import numpy as np

from scots.augmenters.stitching import Segments, StitchingConfig
from scots.core.config import Seeds
from scots.data.trajectories import Array

Nearest = Callable[[Array, int], Array]
"""The numbers of the k segments that begin nearest to a latent, nearest first."""


def naive_walk(
    segments: Segments, nearest: Nearest, config: StitchingConfig, seeds: Seeds, trajectory: int
) -> list[int]:
    """First rows of the segments of one trajectory."""
    latents, starts = segments.latents, segments.starts
    stream = seeds.stream("walk", trajectory)
    sampled = int(starts[stream.integers(len(starts))])
    if config.first == "episode":
        episodes = sorted(set(segments.episodes.tolist()))
        sampled = min(
            int(row)
            for row, n in zip(starts, segments.episodes, strict=True)
            if n == episodes[trajectory % len(episodes)]
        )
    direction = stream.standard_normal(latents.shape[1])
    direction /= np.linalg.norm(direction)
    composed: list[int] = []
    visited = [latents[sampled]]
    end, episode = sampled, None
    while len(composed) < config.stitches:
        best = sampled
        if composed or config.first == "nearest":
            candidates = find_candidates(segments, nearest, end, episode, config)
            best = int(starts[candidates[choose(latents, starts[candidates], visited, direction, config)]])
        composed.append(best)
        visited += remembered(latents, best, config)
        end, episode = best + config.segment - 1, segments.episodes[np.searchsorted(starts, best)]
    return composed


def find_candidates(
    segments: Segments, nearest: Nearest, end: int, episode: int | None, config: StitchingConfig
) -> list[int]:
    sparse = config.distinct_episodes or not config.continuation
    searched = max(config.shortlist or 0, (4 if sparse else 1) * config.candidates)
    found = [int(candidate) for candidate in nearest(segments.latents[end], searched)]
    if config.shortlist is not None:
        found.sort(key=lambda n: float(np.linalg.norm(segments.states[segments.starts[n]] - segments.states[end])))
    if not config.continuation:
        found.sort(key=lambda n: segments.episodes[n] == episode)
    if config.distinct_episodes:
        seen: set[int] = set()
        repeated = [segments.episodes[n] in seen or seen.add(segments.episodes[n]) is not None for n in found]
        found = [n for _, n in sorted(zip(repeated, found, strict=True), key=lambda pair: pair[0])]
    return found[: config.candidates]


def choose(latents: Array, starts: Array, visited: list[Array], direction: Array, config: StitchingConfig) -> int:
    memory = np.array(visited, dtype=np.float64)
    progress, novelty = [], []
    for start in starts:
        z_start, z_end = latents[start].astype(np.float64), latents[start + config.segment - 1].astype(np.float64)
        progress.append(float(np.dot(z_end - z_start, direction)))
        gaps = np.sort(np.linalg.norm(memory - z_end, axis=1))[: config.density_neighbours]
        novelty.append(float(gaps.mean()))
    if config.score_scale == "zscore":
        progress, novelty = zscore(progress), zscore(novelty)
    scores = [p + config.novelty_weight * n for p, n in zip(progress, novelty, strict=True)]
    return scores.index(max(scores))


def zscore(values: list[float]) -> list[float]:
    mean, deviation = np.mean(values), np.std(values)
    return [float((value - mean) / deviation) if deviation > 1e-8 else 0.0 for value in values]


def remembered(latents: Array, start: int, config: StitchingConfig) -> list[Array]:
    if config.memory == "endpoints":
        return [latents[start + config.segment - 1]]
    return list(latents[start + 1 : start + config.segment])
