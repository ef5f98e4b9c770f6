"""Shortest-path lengths between places of a maze, in the units of its positions."""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import dijkstra
from scipy.spatial import cKDTree

from scots.data.trajectories import Array
from scots.envs.maze import Maze

SPACING = 0.5  # of the lattice, in units of the positions
_HALF_OF_THE_NEIGHBOURS = ((0, 1), (1, 0), (1, 1), (1, -1))  # the others are the same edges from their far end


class Geodesic:
    """A lattice of free points, each joined to its eight neighbours; no diagonal cuts the corner of a wall.

    A place is taken to its nearest free point, so a length is right to about one spacing, and up to 8 % longer than
    the straight line where that is neither along an axis nor diagonal.
    """

    def __init__(self, maze: Maze, spacing: float = SPACING) -> None:
        parts = max(1, round(maze.unit / spacing))
        side = maze.unit / parts
        free = np.pad(np.kron(~maze.walls, np.ones((parts, parts), dtype=bool)), 1)
        rows, columns = np.nonzero(free)
        self.points: Array = (np.stack([columns, rows], axis=1) - 0.5) * side - maze.origin - maze.unit / 2  # (n, 2)
        self._tree = cKDTree(self.points)
        self._graph = _lattice(free, side)

    def distances(self, starts: Array, goals: Array) -> Array:
        """Path length from every start (B, 2) to every goal (G, 2): (B, G), infinite where there is no path."""
        nodes, places = np.unique(self._tree.query(starts)[1], return_inverse=True)
        lengths = dijkstra(self._graph, directed=False, indices=nodes)
        return lengths[places][:, self._tree.query(goals)[1]]


def _lattice(free: Array, side: float) -> coo_array:
    number = np.cumsum(free).reshape(free.shape) - 1
    ends, lengths = [], []
    for down, right in _HALF_OF_THE_NEIGHBOURS:
        row, column = np.nonzero(free)  # the border is padded, so every neighbour exists
        joined = free[row + down, column + right] & free[row + down, column] & free[row, column + right]
        row, column = row[joined], column[joined]
        ends.append(np.stack([number[row, column], number[row + down, column + right]]))
        lengths.append(np.full(len(row), side * np.hypot(down, right)))
    count = int(free.sum())
    return coo_array((np.concatenate(lengths), np.concatenate(ends, axis=1)), shape=(count, count)).tocsr()
