"""Latent distance against the length of the shortest path: what an embedding has learned of a maze."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import spearmanr

from scots.augmenters.embedding import StateEncoder
from scots.core.config import Config
from scots.data.trajectories import Array, Trajectories
from scots.envs.geodesic import Geodesic
from scots.envs.maze import Maze
from scots.reporting.metrics import sample_rows

NEAR_CELLS = 8  # pairs of states at most this many maze cells apart are near
_MIN_PAIRS = 50  # in a bin of path lengths: fewer say little


@dataclass(frozen=True)
class Calibration(Config):
    """Latent distance against the length of the shortest path."""

    pairs: int
    near: float | None  # rank correlation (Spearman) of pairs at most NEAR_CELLS maze cells apart
    all: float | None  # rank correlation of all pairs
    path: tuple[float, ...]  # the middle of each bin of path lengths, one maze cell wide
    mean: tuple[float, ...]  # latent distance in the bin
    low: tuple[float, ...]  # its 10 % quantile
    high: tuple[float, ...]  # its 90 % quantile


def measure_calibration(
    data: Trajectories, encoder: StateEncoder, maze: Maze, counts: tuple[int, int], rng: np.random.Generator
) -> Calibration:
    """Latent distance against path length, and their rank correlation, over all pairs of two samples of states."""
    starts, goals = (data.observations[sample_rows(np.arange(data.rows), count, rng)] for count in counts)
    columns = list(data.meta.position)
    path = Geodesic(maze).distances(starts[:, columns], goals[:, columns])
    latent = encoder.distance(encoder.encode(starts)[:, None], encoder.encode(goals)[None])
    latent, path = latent[np.isfinite(path)], path[np.isfinite(path)]
    bins = (path / maze.unit).astype(np.int64)
    used = np.flatnonzero(np.bincount(bins) >= _MIN_PAIRS)
    groups = [latent[bins == number] for number in used]
    near = path <= NEAR_CELLS * maze.unit
    return Calibration(
        pairs=len(path),
        near=_rank_correlation(path[near], latent[near]),
        all=_rank_correlation(path, latent),
        path=tuple(float(number + 0.5) * maze.unit for number in used),
        mean=tuple(float(group.mean()) for group in groups),
        low=tuple(float(np.quantile(group, 0.1)) for group in groups),
        high=tuple(float(np.quantile(group, 0.9)) for group in groups),
    )


def _rank_correlation(first: Array, second: Array) -> float | None:
    if len(first) < 2 or np.ptp(first) == 0 or np.ptp(second) == 0:
        return None
    return float(spearmanr(first, second).statistic)
