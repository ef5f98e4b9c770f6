"""How far states are from recorded ones, in one-step units, and from which distance on they lie off the data."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import faiss
import numpy as np
from scipy.spatial import cKDTree

from scots.core.errors import BadInput
from scots.core.files import atomic
from scots.data.npz import read_npz, write_npz
from scots.data.trajectories import Array, Meta, Trajectories

HELD_OUT_QUANTILE = 0.99  # of the distances of held-out recorded states: the threshold, unless the fence is nearer
_FENCE = 3.0  # Tukey's fence for far outliers, in interquartile ranges: places that one episode alone visits
_MIN_THRESHOLD = 0.25  # of a median step: closer than this to a recorded path is on the data
_MAX_STATE_KEYS = 100_000  # states in inverted lists; in trees there are all of them
HELD_OUT = 20_000  # recorded states from which the thresholds are measured
_FOLDS = 5  # parts of the episodes, each held out once
_NEIGHBOURS = 4  # recorded steps from which the nearest is taken: those that begin at the nearest states
_TREE_COLUMNS = 8  # up to this many a tree is exact and fast; beyond, inverted lists
_LIST, _PROBES = 200, 8  # keys in an inverted list, and how many lists are searched
JUMP = 10.0  # steps longer than this many median ones are jumps: nothing was recorded between their ends
_MEASURED_STEPS = 100_000  # transitions from which units are estimated
_BLOCK = 1 << 16  # queries at a time


# --------------------------------------------------------------------------------------------------------------- units


@dataclass(frozen=True, eq=False)
class StepUnits:
    """Each column's median change in one step: the units in which columns of all kinds can be compared."""

    units: Array  # (O,) float64
    origin: Array  # (O,) float64, so that features are small numbers wherever the data is
    meta: Meta  # which columns are positions, angles and quaternions

    @classmethod
    def of(cls, data: Trajectories) -> Self:
        """The units of a dataset; position columns share one, as do those of a quaternion."""
        meta = data.meta
        rows = np.zeros(0, dtype=np.int64)  # of data without steps
        if data.lengths.max() > 1:
            rows = data.random_rows(2, _MEASURED_STEPS, np.random.default_rng(0))
        changes = np.abs(column_changes(data.observations[rows], data.observations[rows + 1], meta))
        spread = data.observations[:: 1 + data.rows // _MEASURED_STEPS].std(axis=0, dtype=np.float64)
        units = np.array([_typical(change) for change in changes.T])
        for columns in [meta.position, *(tuple(range(first, first + 4)) for first in meta.quaternions)]:
            if columns:
                units[list(columns)] = _typical(np.linalg.norm(changes[:, list(columns)], axis=1))
                spread[list(columns)] = 0  # steps may be tiny beside the extent of the data
        units = np.maximum(units, 1e-3 * spread)  # what only jitters would otherwise outweigh all other columns
        return cls(np.where(units > 0, units, 1.0), data.observations[0].astype(np.float64), meta)

    def features(self, states: Array) -> Array:
        """States (..., O) -> vectors whose Euclidean distance compares states in one-step units.

        Angles become sine and cosine; quaternions become their outer products, which have no sign.
        """
        states = np.asarray(states, dtype=np.float64)
        angles = [column for column, _ in self.meta.angles]
        quaternions = [range(first, first + 4) for first in self.meta.quaternions]
        special = {*angles, *(column for four in quaternions for column in four)}
        plain = [column for column in range(states.shape[-1]) if column not in special]
        parts = [(states[..., plain] - self.origin[plain]) / self.units[plain]]
        for column, period in self.meta.angles:
            radius, turn = period / (2 * np.pi), states[..., [column]] * (2 * np.pi / period)
            parts += [radius / self.units[column] * np.sin(turn), radius / self.units[column] * np.cos(turn)]
        parts += [_without_sign(states[..., list(four)]) / self.units[four[0]] for four in quaternions]
        return np.concatenate(parts, axis=-1)

    def position_features(self, states: Array) -> Array:
        """Positions of states (..., O) in median steps (..., P)."""
        columns = list(self.meta.position)
        return (np.asarray(states, dtype=np.float64)[..., columns] - self.origin[columns]) / self.units[columns]


def column_changes(before: Array, after: Array, meta: Meta) -> Array:
    """The change of each column (..., O): angles the short way around, quaternions by the nearer of both signs."""
    changes = np.asarray(after, dtype=np.float64) - before
    for column, period in meta.angles:
        changes[..., column] = (changes[..., column] + period / 2) % period - period / 2
    for first in meta.quaternions:
        four = slice(first, first + 4)
        sums = np.asarray(after[..., four], dtype=np.float64) + before[..., four]
        opposite = np.square(sums).sum(-1, keepdims=True) < np.square(changes[..., four]).sum(-1, keepdims=True)
        changes[..., four] = np.where(opposite, sums, changes[..., four])
    return changes


def _typical(lengths: Array) -> float:
    """The median of the steps that move at all; 0 if none does."""
    moving = lengths[lengths > 0]
    return float(np.median(moving)) if len(moving) else 0.0


def _without_sign(quaternions: Array) -> Array:
    """Quaternions (..., 4) -> (..., 10): equal for q and -q, and locally at the same distances as q."""
    first, second = np.triu_indices(4)
    weights = np.where(first == second, np.sqrt(0.5), 1.0)
    return quaternions[..., first] * quaternions[..., second] * weights


# --------------------------------------------------------------------------------------------------------------- paths


@dataclass(frozen=True, eq=False)
class Paths:
    """Recorded steps as straight lines: distance to them does not depend on how densely an episode was sampled."""

    begin: Array  # (K, F) float32
    end: Array  # (K, F) float32; equal to `begin` where there is no next state

    @classmethod
    def of(cls, features: Array, following: Array) -> Self:
        """The steps from each vector to the next (K, F); jumps count as their first state alone."""
        lengths = np.linalg.norm(following - features, axis=1)
        jump = lengths > JUMP * _typical(lengths)
        return cls(features.astype(np.float32), np.where(jump[:, None], features, following).astype(np.float32))

    def distance(self, queries: Array) -> Array:
        """Distance to the nearest line (N,): exact among those that begin at the nearest recorded states."""
        queries = np.ascontiguousarray(queries, dtype=np.float32)
        rows = self._nearest(queries)  # (N, neighbours)
        begin = self.begin[rows]
        line, offset = self.end[rows] - begin, queries[:, None] - begin
        along, length, far = (
            np.einsum("nkf,nkf->nk", *pair) for pair in ((line, offset), (line, line), (offset, offset))
        )
        share = np.clip(along / np.maximum(length, np.float32(1e-30)), 0, 1)  # of the line, up to its nearest point
        squares = far - share * (2 * along - share * length)
        return np.sqrt(np.maximum(squares.min(axis=1), 0)).astype(np.float64)

    def _nearest(self, queries: Array) -> Array:
        count = min(_NEIGHBOURS, len(self.begin))
        if isinstance(self._index, cKDTree):
            return self._index.query(queries, count)[1].reshape(len(queries), count)
        return self._index.search(queries, count)[1]  # -1, if lists hold too few, is any row: never too near

    @cached_property
    def _index(self) -> Any:
        keys = self.begin
        if keys.shape[1] <= _TREE_COLUMNS:
            return cKDTree(keys)
        centres = keys[::_LIST]  # drawn, not trained: the lists are the same on every machine
        quantizer = faiss.IndexFlatL2(keys.shape[1])
        quantizer.add(np.ascontiguousarray(centres))
        index = faiss.IndexIVFFlat(quantizer, keys.shape[1], len(centres))
        index.nprobe = min(_PROBES, len(centres))
        index.train(keys)  # nothing but to note that there are centres
        index.add(keys)
        return index

    def __getstate__(self) -> dict[str, Array]:
        return {"begin": self.begin, "end": self.end}  # the index is made again


# ------------------------------------------------------------------------------------------------------------ manifold


@dataclass(frozen=True, eq=False)
class Manifold:
    """The recorded states, and the distances from which on a state or a position counts as off the data.

    Thresholds are the quantile of the distances of held-out episodes to all others, but no farther than Tukey's fence:
    where many places are visited by one episode alone, their distances say nothing about how wide a path is.
    """

    units: StepUnits
    states: Paths
    positions: Paths | None  # none where no position columns are known
    threshold: float  # for distances of states
    position_threshold: float
    held_out: float  # share of held-out recorded states that lie off the data by these thresholds
    held_out_positions: float  # share of their positions

    @classmethod
    def of(cls, data: Trajectories, seed: int = 0) -> Self:
        """The manifold of recorded data: a few seconds for a million states."""
        rng, units = np.random.default_rng(seed), StepUnits.of(data)
        queries = np.sort(rng.choice(data.rows, min(HELD_OUT, data.rows), replace=False))
        folds = episode_folds(data, rng)

        def measured(keys: Array, view: Callable[[Array], Array]) -> tuple[Paths, float, Array]:
            paths = _paths(data, keys, view)
            return paths, *held_out(paths, folds[keys], view(data.observations[queries]), folds[queries])

        states, threshold, off = measured(_keys(data, units, rng), units.features)
        positions, position_threshold, off_positions = None, 0.0, np.zeros(len(queries), dtype=bool)
        if data.meta.position:
            found = measured(np.arange(data.rows), units.position_features)
            positions, position_threshold, off_positions = found
        shares = float((off | off_positions).mean()), float(off_positions.mean())
        return cls(units, states, positions, threshold, position_threshold, *shares)

    def distance(self, states: Array) -> Array:
        """Distance of each state (N, O) to the nearest recorded step, in one-step units of its columns (N,)."""
        return _in_blocks(lambda block: self.states.distance(self.units.features(block)), states)

    def position_distance(self, states: Array) -> Array:
        """Distance of each state's position to the nearest recorded path, in median steps (N,)."""
        paths = self.positions
        if paths is None:
            raise BadInput("no position columns are known; name them with --position x,y")
        return _in_blocks(lambda block: paths.distance(self.units.position_features(block)), states)

    def position_is_on(self, states: Array) -> Array:
        """Whether the position of each state lies on the data (N,); all do where no position columns are known."""
        if self.positions is None:
            return np.ones(len(states), dtype=bool)
        return self.position_distance(states) <= self.position_threshold

    def is_on(self, states: Array) -> Array:
        """Whether each state (N, O) lies on the data: its position, and the state as a whole (N,)."""
        return self.position_is_on(states) & (self.distance(states) <= self.threshold)

    def with_states_of(self, other: Trajectories, seed: int = 0) -> Self:
        """The states of another dataset by the same units and thresholds: what of the recorded data is near them?"""
        rng = np.random.default_rng(seed)

        def drawn(paths: Paths, view: Callable[[Array], Array]) -> Paths:
            count = min(len(paths.begin), other.rows)
            return _paths(other, np.sort(rng.choice(other.rows, count, replace=False)), view)

        states = drawn(self.states, self.units.features)
        positions = drawn(self.positions, self.units.position_features) if self.positions else None
        return dataclasses.replace(self, states=states, positions=positions)

    def save(self, path: Path) -> None:
        """Write the manifold as an npz file."""
        empty = np.zeros((0, 0), dtype=np.float32)
        positions = self.positions or Paths(empty, empty)
        numbers = np.array([self.threshold, self.position_threshold, self.held_out, self.held_out_positions])
        members = {"begin": self.states.begin, "end": self.states.end, "position_begin": positions.begin}
        members |= {"position_end": positions.end, "units": np.stack([self.units.units, self.units.origin])}
        members["numbers"] = numbers
        members["meta"] = np.frombuffer(_shape_meta(self.units.meta).to_json().encode(), dtype=np.uint8)
        with atomic(path) as temporary:
            write_npz(temporary, members)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what `save` wrote."""
        file = read_npz(path)
        names = ("begin", "end", "position_begin", "position_end", "units", "numbers", "meta")
        if missing := set(names) - set(file):
            raise BadInput(f"{path}: not the manifold of a dataset, {sorted(missing)[0]!r} is missing")
        unit, origin = np.array(file["units"])
        units = StepUnits(unit, origin, Meta.from_json(bytes(file["meta"]).decode()))
        positions = Paths(file["position_begin"], file["position_end"]) if len(file["position_begin"]) else None
        return cls(units, Paths(file["begin"], file["end"]), positions, *map(float, file["numbers"]))


def _in_blocks(distance: Callable[[Array], Array], states: Array) -> Array:
    """Distances (N,) of many states, a block at a time."""
    blocks = [distance(states[n : n + _BLOCK]) for n in range(0, len(states), _BLOCK)]
    return np.concatenate(blocks) if blocks else np.zeros(0)


def _keys(data: Trajectories, units: StepUnits, rng: np.random.Generator) -> Array:
    """Rows whose states are searched: all where a tree can hold them, else a sample."""
    in_tree = units.features(data.observations[:1]).shape[1] <= _TREE_COLUMNS
    count = data.rows if in_tree else min(_MAX_STATE_KEYS, data.rows)
    return np.sort(rng.choice(data.rows, count, replace=False))


def _paths(data: Trajectories, rows: Array, view: Callable[[Array], Array]) -> Paths:
    following = np.minimum(rows + 1, data.last_row_of(rows))
    return Paths.of(view(data.observations[rows]), view(data.observations[following]))


def _shape_meta(meta: Meta) -> Meta:
    """What distances need of the meta."""
    return Meta(position=meta.position, angles=meta.angles, quaternions=meta.quaternions)


def episode_folds(data: Trajectories, rng: np.random.Generator) -> Array:
    """The fold of each row (N,): whole episodes, or consecutive rows of a single one."""
    if len(data) == 1:
        return np.arange(data.rows) * _FOLDS // data.rows
    return (rng.permutation(len(data)) % _FOLDS)[data.episode_of(np.arange(data.rows))]


def held_out(paths: Paths, folds: Array, queries: Array, query_folds: Array) -> tuple[float, Array]:
    """The threshold that held-out queries give, and which of them lie beyond it."""
    distances = np.zeros(len(queries))  # of a single state, which has no other to be compared with
    for fold, rest in _rests(paths, folds):
        chosen = query_folds == fold
        distances[chosen] = rest.distance(queries[chosen])
    step = _typical(np.linalg.norm(paths.end - paths.begin, axis=1))
    low, high, quantile = map(float, np.quantile(distances, [0.25, 0.75, HELD_OUT_QUANTILE]))
    threshold = max(_MIN_THRESHOLD * step, min(quantile, high + _FENCE * (high - low)))
    return threshold, distances > threshold


def _rests(paths: Paths, folds: Array) -> Iterator[tuple[int, Paths]]:
    """Each fold, and the paths without it."""
    for fold in np.unique(folds):
        rest = folds != fold
        if rest.any():
            yield int(fold), dataclasses.replace(paths, begin=paths.begin[rest], end=paths.end[rest])
