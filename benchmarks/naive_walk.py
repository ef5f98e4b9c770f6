"""The walk as Algorithm 1 reads: one trajectory, one stitch and one candidate at a time.

The tests compare the choices of `scots.augmenters.stitching.walk` with it, the benchmark its speed.
"""

from collections.abc import Callable

import numpy as np

from scots.augmenters.stitching import StitchingConfig
from scots.core.config import Seeds
from scots.data.trajectories import Array

Nearest = Callable[[Array, int], Array]
"""The numbers of the k segments that begin nearest to a latent, nearest first."""


def naive_walk(
    latents: Array,
    segments: Array,
    nearest: Nearest,
    config: StitchingConfig,
    seeds: Seeds,
    trajectory: int,
    episodes: Array | None = None,
) -> list[int]:
    """First rows of the segments of one trajectory."""
    stream = seeds.stream("walk", trajectory)
    sampled = int(segments[stream.integers(len(segments))])
    direction = stream.standard_normal(latents.shape[1])
    direction /= np.linalg.norm(direction)
    composed: list[int] = []
    visited = [latents[sampled]]
    end = sampled
    if config.first == "sampled":
        composed.append(sampled)
        visited += remembered(latents, sampled, config)
        end = sampled + config.segment - 1
    while len(composed) < config.stitches:
        candidates = find_candidates(nearest, latents[end], config, episodes)
        best = int(segments[candidates[choose(latents, segments[candidates], visited, direction, config)]])
        composed.append(best)
        visited += remembered(latents, best, config)
        end = best + config.segment - 1
    return composed


def find_candidates(nearest: Nearest, query: Array, config: StitchingConfig, episodes: Array | None) -> Array:
    if not config.distinct_episodes or episodes is None:
        return nearest(query, config.candidates)
    found = nearest(query, 4 * config.candidates)
    new, repeated, seen = [], [], set()
    for candidate in found:
        (repeated if episodes[candidate] in seen else new).append(candidate)
        seen.add(episodes[candidate])
    return np.array((new + repeated)[: config.candidates])


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
