"""What is measured about where states are: cells visited, reach, walls; and the samples and quantiles of all measures.

Every function takes `Trajectories` of a size that fits in memory: draw them with `sample_trajectories`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import faiss
import numpy as np

from scots.augmenters.embedding import StateEncoder
from scots.core.config import Config
from scots.data.trajectories import Array, Trajectories
from scots.envs.maze import Maze

CLEARANCE_QUANTILE = 0.001  # of the recorded clearances
_BINS_PER_DECADE = 10
_BLOCK = 1 << 17  # states at a time
_GRID = 16  # cells along the longer side of the positions, where there is no maze
_LATENT_CELLS = 256
_LINE_POINTS = 17  # positions checked along a step, both ends included


def sample_trajectories(data: Trajectories, states: int, rng: np.random.Generator) -> Trajectories:
    """Whole trajectories drawn at random, up to this many states of them; all of the data if it has no more."""
    if data.rows <= states:
        return data
    order = rng.permutation(len(data))
    count = max(1, int(np.searchsorted(np.cumsum(data.lengths[order]), states, side="right")))
    return data.select(np.sort(order[:count]))


def sample_rows(rows: Array, count: int, rng: np.random.Generator) -> Array:
    """At most `count` of these rows, each at most once, in order."""
    return np.sort(rng.choice(rows, min(count, len(rows)), replace=False))


# ------------------------------------------------------------------------------------------------------ distributions


@dataclass(frozen=True)
class Quantiles(Config):
    """Quantiles of a set of numbers."""

    count: int
    p10: float
    p25: float
    median: float
    p75: float
    p90: float
    p99: float

    @classmethod
    def of(cls, values: Array) -> Self:
        """The quantiles of at least one value."""
        found = np.quantile(np.asarray(values, dtype=np.float64), [0.1, 0.25, 0.5, 0.75, 0.9, 0.99])
        return cls(len(values), *map(float, found))


@dataclass(frozen=True)
class Distribution(Config):
    """Quantiles, and a histogram with bins of equal width on a logarithmic scale, which leaves zeros out."""

    quantiles: Quantiles
    lowest: int  # bin n begins at 10 ** ((lowest + n) / _BINS_PER_DECADE)
    counts: tuple[int, ...]

    @classmethod
    def of(cls, values: Array) -> Self:
        """The distribution of at least one value, none of them negative."""
        bins = np.floor(np.log10(values[values > 0]) * _BINS_PER_DECADE).astype(np.int64)
        lowest = int(bins.min()) if len(bins) else 0
        return cls(Quantiles.of(values), lowest, tuple(map(int, np.bincount(bins - lowest))))

    @property
    def edges(self) -> Array:
        """Where the bins begin and end (bins + 1,)."""
        return 10.0 ** ((self.lowest + np.arange(len(self.counts) + 1)) / _BINS_PER_DECADE)


# ------------------------------------------------------------------------------------------------------------- visits


@dataclass(frozen=True, eq=False)
class Cells:
    """A partition of the state space into numbered cells."""

    number_of: Callable[[Array], Array]  # observations (N, O) -> cell numbers (N,)
    free: Array  # (cells,) bool: states can be there


@dataclass(frozen=True)
class Visits(Config):
    """Which cells the states of a dataset visit."""

    visited: int  # cells with at least one state
    cells: int  # that states can be in
    entropy: float  # of the share of states in each cell, in nats: log(cells) if all are visited equally
    per_trajectory: Quantiles  # distinct cells that one trajectory visits

    @property
    def share(self) -> float:
        """Of the cells, the share that is visited."""
        return self.visited / self.cells


def maze_cells(maze: Maze, columns: tuple[int, ...], parts: int = 1) -> Cells:
    """The cells of a maze, each side divided into parts."""
    free = np.kron(~maze.walls, np.ones((parts, parts), dtype=bool))
    low = np.full(2, -maze.origin - maze.unit / 2)
    return Cells(_grid(columns, low, maze.unit / parts, free.T.shape), free.T.ravel())


def grid_cells(data: Trajectories, columns: tuple[int, ...], parts: int = 1) -> Cells:
    """A grid over the extent of the positions of a dataset; positions outside belong to the nearest cell."""
    positions = data.observations[:, list(columns)]
    low, extent = positions.min(axis=0), np.ptp(positions, axis=0)
    side = float(extent.max()) / (_GRID * parts) or 1.0  # of a dataset that never moves
    shape = tuple(max(1, int(np.ceil(length / side))) for length in extent)
    return Cells(_grid(columns, low, side, shape), np.ones(int(np.prod(shape)), dtype=bool))


def _grid(columns: tuple[int, ...], low: Array, side: float, shape: tuple[int, ...]) -> Callable[[Array], Array]:
    def number_of(observations: Array) -> Array:
        index = np.floor((observations[:, list(columns)] - low) / side).astype(np.int64)
        return np.ravel_multi_index(tuple(index.T), shape, mode="clip")

    return number_of


def latent_cells(data: Trajectories, encoder: StateEncoder, seed: int) -> Cells:
    """The k-means cells of the latents of a dataset: a partition of latent vectors, whatever their distance is."""
    latents = np.ascontiguousarray(encoder.encode(data.observations), dtype=np.float32)
    count = min(_LATENT_CELLS, len(latents))
    means = faiss.Kmeans(latents.shape[1], count, niter=10, seed=seed, min_points_per_centroid=1)
    means.train(latents)

    def number_of(observations: Array) -> Array:
        queries = np.ascontiguousarray(encoder.encode(observations), dtype=np.float32)
        return means.index.search(queries, 1)[1][:, 0]

    return Cells(number_of, np.ones(count, dtype=bool))


def measure_visits(data: Trajectories, cells: Cells) -> Visits:
    """How many cells are visited, how evenly, and how many by each trajectory."""
    number = cells.number_of(data.observations)
    rows = np.flatnonzero(cells.free[number])
    counts = np.bincount(number[rows], minlength=len(cells.free))
    shares = counts[counts > 0] / max(1, len(rows))
    pairs = np.unique(data.episode_of(rows) * len(cells.free) + number[rows])
    each = np.bincount(pairs // len(cells.free), minlength=len(data))
    entropy = float(-(shares * np.log(shares)).sum()) + 0.0  # a single cell would give -0
    return Visits(int((counts > 0).sum()), int(cells.free.sum()), entropy, Quantiles.of(each))


@dataclass(frozen=True)
class EqualCoverage(Config):
    """Recorded cells that equal numbers of states visit: neither more states nor states off the data add to them."""

    cells: int  # that the original visits with all its states
    states: int  # drawn from each dataset
    original: float  # share of these cells that they visit
    augmented: float


def measure_equal_coverage(
    data: Trajectories, aug: Trajectories, cells: Cells, rng: np.random.Generator
) -> EqualCoverage:
    """Share of the recorded cells that as many states of each dataset visit as the smaller one has."""
    count = min(data.rows, aug.rows)
    recorded = np.unique(cells.number_of(data.observations))

    def share(part: Trajectories) -> float:
        rows = sample_rows(np.arange(part.rows), count, rng)
        return float(np.isin(recorded, cells.number_of(part.observations[rows])).mean())

    return EqualCoverage(len(recorded), count, share(data), share(aug))


def measure_reach(data: Trajectories, maze: Maze) -> Quantiles:
    """Path length in maze cells from where each trajectory starts to the farthest cell it visits."""
    cells = maze.cell_of(data.positions)
    farthest = []
    for begin, end in zip(data.offsets[:-1], data.offsets[1:], strict=True):
        first = (int(cells[begin, 0]), int(cells[begin, 1]))
        farthest.append(maze.distances(first)[cells[begin:end, 0], cells[begin:end, 1]].max())
    return Quantiles.of(np.array(farthest))


@dataclass(frozen=True)
class Walls(Config):
    """How often trajectories are where nothing can be: inside walls."""

    states: float  # share of states inside a wall block
    trajectories: float  # share of trajectories with any such state
    steps: float  # share of steps whose straight line touches a wall block


def measure_walls(data: Trajectories, maze: Maze) -> Walls:
    """Shares of states and trajectories inside walls, and of steps through them."""
    inside = maze.in_wall(data.positions)
    starts = data.window_starts(2)
    begin, end = data.positions[starts, None], data.positions[starts + 1, None]
    lines = begin + (end - begin) * np.linspace(0, 1, _LINE_POINTS, dtype=np.float32)[:, None]  # (steps, points, 2)
    crossing = maze.in_wall(lines).any(axis=1)
    any_inside = np.logical_or.reduceat(inside, data.offsets[:-1])
    return Walls(float(inside.mean()), float(any_inside.mean()), float(crossing.mean()) if len(starts) else 0.0)


@dataclass(frozen=True)
class Clearance(Config):
    """Distance to walls, which a body keeps by its radius: no map tells it, but recorded states do."""

    recorded_min: float  # of any recorded state
    recorded_low: float  # its CLEARANCE_QUANTILE
    augmented_min: float
    augmented_low: float
    nearer_than_any: float  # share of augmented states that are nearer to a wall than any recorded state
    nearer_than_low: float  # share that are nearer than all but CLEARANCE_QUANTILE of the recorded states


def measure_clearance(data: Trajectories, aug: Trajectories, maze: Maze) -> Clearance:
    """How near to walls recorded and augmented states come; of all states."""
    recorded, augmented = _clearances(data.positions, maze), _clearances(aug.positions, maze)
    lowest, low = float(recorded.min()), float(np.quantile(recorded, CLEARANCE_QUANTILE))
    return Clearance(
        recorded_min=lowest,
        recorded_low=low,
        augmented_min=float(augmented.min()),
        augmented_low=float(np.quantile(augmented, CLEARANCE_QUANTILE)),
        nearer_than_any=float((augmented < lowest).mean()),
        nearer_than_low=float((augmented < low).mean()),
    )


def _clearances(positions: Array, maze: Maze) -> Array:
    blocks = range(0, len(positions), _BLOCK)
    return np.concatenate([maze.clearance(positions[n : n + _BLOCK]) for n in blocks]).astype(np.float32)
