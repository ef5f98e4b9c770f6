"""What is measured about augmented data, one function each: visits, walls, joins, repeats, dynamics, distances.

Every function takes `Trajectories` of a size that fits in memory: draw them with `sample_trajectories`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import faiss
import numpy as np
from scipy.stats import spearmanr

from scots.augmenters.embedding import StateEncoder
from scots.augmenters.index import SegmentIndex
from scots.augmenters.refinement import InverseDynamics, unit_quaternions
from scots.core.config import Config
from scots.core.errors import BadInput
from scots.data.trajectories import Array, Normalizer, Trajectories
from scots.envs.geodesic import Geodesic
from scots.envs.maze import Maze
from scots.envs.ogbench import make_simulator, seed_simulator

NEAR_CELLS = 8  # pairs of states at most this many maze cells apart are near
_BINS_PER_DECADE = 10
_GRID = 16  # cells along the longer side of the positions, where there is no maze
_LATENT_CELLS = 256
_LINE_POINTS = 17  # positions checked along a step, both ends included
_MIN_PAIRS = 50  # in a bin of path lengths: fewer say little


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


# -------------------------------------------------------------------------------------------------------------- joins


@dataclass(frozen=True)
class StepLengths(Config):
    """Lengths of steps at joins and inside segments, before and after refinement."""

    unrefined_joins: Distribution
    refined_joins: Distribution
    inside: Distribution  # inside segments, after refinement
    recorded: Distribution  # inside segments, as the source recorded them
    ratio: float | None  # median at refined joins over median inside segments; none where nothing moves


@dataclass(frozen=True)
class Joins(Config):
    """The steps where one segment follows another."""

    count: int  # joins measured
    position: StepLengths  # in units of the position columns
    state: StepLengths  # of whole observations, each column in its standard deviations


def join_rows(aug: Trajectories) -> tuple[Array, Array]:
    """Rows of augmented data whose step to the next is a join, and those of all other steps.

    Without lineage no step is known to be a join.
    """
    rows = aug.window_starts(2)
    if aug.source is None:
        return rows[:0], rows
    jumps = aug.source[rows + 1] != aug.source[rows] + 1
    return rows[jumps], rows[~jumps]


def measure_joins(data: Trajectories, aug: Trajectories, columns: tuple[int, ...], scale: Normalizer) -> Joins | None:
    """Compare steps at joins with steps inside segments; None without lineage or joins."""
    source_rows, (at_joins, inside) = aug.source, join_rows(aug)
    if source_rows is None or not len(at_joins) or not len(inside):
        return None

    def steps(chosen: list[int], units: Array) -> StepLengths:
        def lengths(observations: Array, rows: Array, following: Array) -> Array:
            change = observations[following][:, chosen] - observations[rows][:, chosen]
            return np.linalg.norm(change / units, axis=1)

        source, next_source = source_rows[:-1], source_rows[1:]
        before = [lengths(data.observations, source[rows], next_source[rows]) for rows in (at_joins, inside)]
        after = [lengths(aug.observations, rows, rows + 1) for rows in (at_joins, inside)]
        medians = [float(np.median(values)) for values in after]
        return StepLengths(
            unrefined_joins=Distribution.of(before[0]),
            refined_joins=Distribution.of(after[0]),
            inside=Distribution.of(after[1]),
            recorded=Distribution.of(before[1]),
            ratio=medians[0] / medians[1] if medians[1] > 0 else None,
        )

    everything = list(range(data.observations.shape[1]))
    return Joins(len(at_joins), steps(list(columns), np.ones(len(columns))), steps(everything, scale.std))


@dataclass(frozen=True)
class Repeats(Config):
    """How much of the augmented data is repeated."""

    trajectories: float  # share of trajectories whose source rows are those of an earlier one
    segments: int  # distinct runs of source rows between joins
    reused: float  # share of these that are used more than once


def measure_repeats(aug: Trajectories) -> Repeats | None:
    """Count trajectories and segments that come from the same source rows; None without lineage."""
    if aug.source is None:
        return None
    first = np.concatenate([aug.offsets[:-1], join_rows(aug)[0] + 1])
    first.sort()
    last = np.append(first[1:], aug.rows) - 1
    uses = np.unique(np.stack([aug.source[first], aug.source[last]]), axis=1, return_counts=True)[1]
    runs = (aug.source[begin:end] for begin, end in zip(aug.offsets[:-1], aug.offsets[1:], strict=True))
    distinct = {hashlib.blake2b(run.tobytes(), digest_size=16).digest() for run in runs}
    return Repeats(1 - len(distinct) / len(aug), len(uses), float((uses > 1).mean()))


@dataclass(frozen=True)
class Nearest(Config):
    """Distances to the nearest of some original states, from augmented states and from other original states."""

    keys: int  # original states among which the nearest is searched
    augmented_position: Quantiles  # in units of the position columns
    original_position: Quantiles
    augmented_state: Quantiles  # of whole observations, each column in its standard deviations
    original_state: Quantiles


def measure_nearest(
    data: Trajectories,
    aug: Trajectories,
    columns: tuple[int, ...],
    scale: Normalizer,
    counts: tuple[int, int],
    rng: np.random.Generator,
) -> Nearest:
    """Distances of augmented states to original ones; `counts` are the numbers of queries and of keys."""
    held = min(counts[0], data.rows // 2)
    drawn = rng.permutation(data.rows)[: held + counts[1]]
    original, keys = data.observations[drawn[:held]], data.observations[drawn[held:]]
    augmented = aug.observations[sample_rows(np.arange(aug.rows), counts[0], rng)]

    def quantiles(view: Callable[[Array], Array]) -> tuple[Quantiles, Quantiles]:
        index = SegmentIndex.build(view(keys), "exact", seed=0)
        searched = (index.search(view(queries), 1)[0][:, 0] for queries in (augmented, original))
        found = [Quantiles.of(distances) for distances in searched]
        return found[0], found[1]

    return Nearest(len(keys), *quantiles(lambda states: states[:, list(columns)]), *quantiles(scale.normalize))


# ----------------------------------------------------------------------------------------------------------- dynamics


@dataclass(frozen=True)
class Dynamics(Config):
    """Dynamic MSE: squared distance between the next state and where the simulator gets by the action."""

    unrefined_joins: Distribution | None  # none without lineage
    refined_joins: Distribution | None
    inside: Distribution | None  # augmented steps that are not known to be joins
    recorded: Distribution  # original steps and their actions: the floor that rounding leaves
    relabelled: Distribution | None  # original steps by inverse dynamics: the floor that labelling leaves


def measure_dynamics(
    data: Trajectories, aug: Trajectories, inverse: InverseDynamics | None, count: int, rng: np.random.Generator
) -> Dynamics | None:
    """Dynamic MSE of at most `count` steps of each kind; None without actions, steps or the environment.

    Steps over joins that are not refined have no actions of their own: they get those of the inverse dynamics, or those
    of the refined step where there is no such model.
    """
    environment = simulator_of(data)
    at_joins, inside = (sample_rows(rows, count, rng) for rows in join_rows(aug))
    if environment is None or data.actions is None or aug.actions is None or not len(at_joins) + len(inside):
        return None
    seed_simulator(environment, rng)
    rows = data.random_rows(2, count, rng)
    recorded = data.windows(rows, 2)

    def errors(pairs: Array, actions: Array) -> Distribution:
        reached = simulate(environment, pairs[:, 0], actions, data.meta.quaternions)
        return Distribution.of(np.square(reached - pairs[:, 1]).sum(axis=1))

    unrefined = refined = None
    if aug.source is not None and len(at_joins):
        across = data.observations[np.stack([aug.source[at_joins], aug.source[at_joins + 1]], axis=1)]
        unrefined = errors(across, inverse.label(across[:, 0], across[:, 1]) if inverse else aug.actions[at_joins])
        refined = errors(aug.windows(at_joins, 2), aug.actions[at_joins])
    return Dynamics(
        unrefined_joins=unrefined,
        refined_joins=refined,
        inside=errors(aug.windows(inside, 2), aug.actions[inside]) if len(inside) else None,
        recorded=errors(recorded, data.actions[rows]),
        relabelled=errors(recorded, inverse.label(recorded[:, 0], recorded[:, 1])) if inverse else None,
    )


def simulator_of(data: Trajectories) -> Any:
    """The simulator whose states a dataset's observations are; None if there is none, or it is not installed."""
    try:
        environment = make_simulator(data.meta)
    except BadInput:
        return None
    return environment if environment.get_ob().size == data.observations.shape[1] else None


def simulate(environment: Any, states: Array, actions: Array, quaternions: tuple[int, ...] = ()) -> Array:
    """Where the simulator gets from each state (B, O) by each action (B, A) in one step: (B, O) float64.

    A state is qpos followed by qvel; qpos alone is at rest.
    """
    states = unit_quaternions(states.astype(np.float64), quaternions)
    positions, velocities = environment.model.nq, environment.model.nv
    reached = np.empty_like(states)
    for number, (state, action) in enumerate(zip(states, actions.astype(np.float64), strict=True)):
        environment.data.qacc_warmstart[:] = 0  # otherwise the solver would remember the row before
        velocity = state[positions:] if len(state) > positions else np.zeros(velocities)
        environment.set_state(state[:positions], velocity)
        reached[number] = environment.step(action)[0]
    return reached


@dataclass(frozen=True)
class Residual(Config):
    """How well inverse dynamics predict recorded actions."""

    transitions: int  # measured
    held_out: bool  # from the validation twin, not from what the model was trained on
    error: float  # mean squared error of an action's component
    variance: float  # of the recorded components: the error of always predicting their mean


def measure_residual(
    data: Trajectories, inverse: InverseDynamics, held_out: bool, count: int, rng: np.random.Generator
) -> Residual:
    """Error of predicting recorded actions from the states before and after them."""
    assert data.actions is not None
    rows = data.random_rows(2, count, rng)
    error = inverse.label(data.observations[rows], data.observations[rows + 1]) - data.actions[rows]
    return Residual(count, held_out, float(np.square(error).mean()), float(data.actions[rows].var(axis=0).mean()))


# -------------------------------------------------------------------------------------------------------- calibration


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
