"""The recorded ways: a graph of recorded positions, for what has to keep to places where something was recorded."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra
from scipy.spatial import cKDTree

from scots.core.errors import BadInput
from scots.core.files import atomic
from scots.data.manifold import HELD_OUT, JUMP, Paths, episode_folds, held_out
from scots.data.npz import read_npz, write_npz
from scots.data.trajectories import Array, Trajectories

_MAX_PLACES = 20_000  # of a graph; where more positions were recorded, one in every box of a grid is taken
_AGAINST = 4.0  # price of a recorded step in the other direction, where nothing was recorded in this one
_FAR = 10.0  # steps away from the path that is to be kept to the data, from which on distance counts double


@dataclass(frozen=True, eq=False)
class RecordedWays:
    """Recorded positions, the steps recorded between them, and how far from them is off the data.

    Places are also joined where they lie within a median step of each other: that is how ways of different episodes
    meet. Nothing else is known of what can be passed, so nothing else is.
    """

    places: Array  # (N, P) float32
    following: Array  # (N, P) where the recorded step from each place led; the place itself where there is none
    moves: Array  # (E, 2) int32, places between which a step was recorded
    step: float  # median length of recorded steps
    reach: float  # within which places are joined
    threshold: float  # distance from all recorded steps beyond which a position is off the data, at most `reach`

    @classmethod
    def of(cls, data: Trajectories) -> Self:
        """The ways of a dataset's position columns."""
        positions = data.positions.astype(np.float32)
        starts = data.window_starts(2)
        lengths = np.linalg.norm(positions[starts + 1] - positions[starts], axis=1)
        step = float(np.median(lengths[lengths > 0])) if (lengths > 0).any() else 1.0
        starts = starts[lengths <= JUMP * step]
        rows, place_of, edge = _thinned(positions, step)
        moves = np.unique(np.stack([place_of[starts], place_of[starts + 1]], axis=1), axis=0)
        following = np.arange(data.rows)
        following[starts] += 1
        paths = Paths(positions[rows], positions[following[rows]])
        rng = np.random.default_rng(0)
        folds, queries = episode_folds(data, rng), rng.choice(data.rows, min(HELD_OUT, data.rows), replace=False)
        threshold, _ = held_out(paths, folds[rows], positions[queries], folds[queries])
        moves, reach = moves[moves[:, 0] != moves[:, 1]].astype(np.int32), max(step, 2 * edge)
        return cls(paths.begin, paths.end, moves, step, reach, min(threshold, reach))

    def is_on(self, positions: Array) -> Array:
        """Whether each position (N, P) lies on the data (N,)."""
        return self._paths.distance(positions) <= self.threshold

    def keep(self, path: Array) -> tuple[Array, Array]:
        """A path (T, P) that keeps to the data, and which of its positions recorded ways have replaced.

        All from the first to the last position off the data is replaced: a path that leaves the data and crosses it
        again would otherwise be led to that crossing and back. Where no way leads the path stays as it is.
        """
        (off,) = np.nonzero(~self.is_on(path))
        if not len(off):
            return path, np.zeros(len(path), dtype=bool)
        before, after = max(off[0] - 1, 0), min(off[-1] + 1, len(path) - 1)
        corners = self.shortest(path[before], path[after], path)
        if corners is None:
            return path, np.zeros(len(path), dtype=bool)
        way = walked(np.concatenate([path[[before]], corners, path[[after]]]), self.step)[1:-1]
        parts = path[: before + 1], way, path[after:]
        return np.concatenate(parts), np.repeat([False, True, False], [len(part) for part in parts])

    def shortest(self, start: Array, goal: Array, near: Array) -> Array | None:
        """Places (N, P) from the one nearest to a start (P,) to the one nearest to a goal; None where no way leads.

        Of all ways the shortest is taken, where distance counts the more the farther it is from the path `near` (T, P).
        """
        first, last = self._tree.query(np.stack([start, goal]))[1].tolist()
        begin, end, lengths = self._links
        away = cKDTree(near).query(self.places)[0] / (_FAR * self.step)
        prices = lengths * (1 + np.minimum(away[end], 1))
        graph = csr_array((prices, (begin, end)), shape=2 * (len(self.places),))
        before = dijkstra(graph, indices=first, return_predecessors=True)[1]
        numbers = traced(before, first, last)
        return self.places[numbers] if numbers else None

    def save(self, path: Path) -> None:
        """Write the ways as an npz file."""
        numbers = np.array([self.step, self.reach, self.threshold])
        members = {"places": self.places, "following": self.following, "moves": self.moves, "numbers": numbers}
        with atomic(path) as temporary:
            write_npz(temporary, members)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what `save` wrote."""
        file, names = read_npz(path), ("places", "following", "moves", "numbers")
        if missing := set(names) - set(file):
            raise BadInput(f"{path}: not the recorded ways of a dataset, {sorted(missing)[0]!r} is missing")
        places, following, moves, numbers = (np.array(file[name]) for name in names)
        return cls(places, following, moves, *map(float, numbers))

    @cached_property
    def _paths(self) -> Paths:
        """Every recorded step once, from both of its ends: on a grid many begin at the same place."""
        steps = np.stack([self.places, self.following], axis=1)  # (N, ends, P)
        begin, end = np.unique(np.concatenate([steps, steps[:, ::-1]]), axis=0).swapaxes(0, 1)
        return Paths(begin, end)

    @cached_property
    def _tree(self) -> Any:
        return cKDTree(self.places)

    @cached_property
    def _links(self) -> tuple[Array, Array, Array]:
        """Begin, end and price of every link between two places."""
        near = self._tree.query_pairs(self.reach, output_type="ndarray")
        ends = np.concatenate([self.moves, near, near[:, ::-1], self.moves[:, ::-1]]).astype(np.int64)
        lengths = np.linalg.norm(self.places[ends[:, 0]] - self.places[ends[:, 1]], axis=1).astype(np.float64)
        lengths[len(ends) - len(self.moves) :] *= _AGAINST
        order = np.lexsort((lengths, ends[:, 1], ends[:, 0]))  # of several links the cheapest: a matrix would add them
        ends, lengths = ends[order], np.maximum(lengths[order], 1e-9)  # zero would be no link
        first = np.append(True, (np.diff(ends, axis=0) != 0).any(axis=1)) if len(ends) else np.zeros(0, dtype=bool)
        return ends[first, 0], ends[first, 1], lengths[first]


def traced(before: Array, first: int, last: int) -> list[int]:
    """The nodes from one to another, by the predecessors (N,) that Dijkstra found; empty where no way leads."""
    way = [last]
    while way[-1] != first:
        if before[way[-1]] < 0:
            return []
        way.append(int(before[way[-1]]))
    return way[::-1]


def walked(corners: Array, pace: float) -> Array:
    """Positions (T, P), one per step of this length along a polyline (N, P), its last corner included."""
    lengths = np.linalg.norm(np.diff(corners, axis=0), axis=1)
    along = np.concatenate([[0.0], np.cumsum(lengths)])
    at = np.append(np.arange(0.0, along[-1], pace), along[-1])
    return np.stack([np.interp(at, along, column) for column in corners.T], axis=1).astype(np.float32)


def _thinned(positions: Array, step: float) -> tuple[Array, Array, float]:
    """Rows (N,) whose positions are the places, the place of every row, and the edge of the boxes they are taken from.

    The edge is 0 where every position is a place of its own.
    """
    if len(positions) <= _MAX_PLACES:
        rows = np.arange(len(positions))
        return rows, rows, 0.0
    edge = step / 2
    while True:
        boxes = np.floor((positions - positions.min(axis=0)) / edge).astype(np.int64)
        _, rows, place_of = np.unique(boxes, axis=0, return_index=True, return_inverse=True)
        if len(rows) <= _MAX_PLACES:
            return rows, place_of.reshape(-1), edge
        edge *= 1.5
