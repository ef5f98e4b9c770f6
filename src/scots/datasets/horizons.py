"""How long segments, stitched trajectories and plans should be for data without published settings.

A plan must reach across the data. How many steps that takes is measured: the longest of the shortest paths over the
grid boxes where states were recorded, at the pace of the windows that move.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, dijkstra
from scipy.spatial import cKDTree

from scots.data.support import Support
from scots.data.trajectories import Array, Trajectories

SEGMENT_STEPS = 25  # of a segment, the paper's H - 1
AUGMENTED_STATES = 5_000_000  # of an augmented dataset, about [P]
_MIN_SEGMENT_STEPS = 2
_MIN_AUGMENTED_STATES = 100_000
_STATES_PER_ROW = 20  # stitched states for every recorded one: the published datasets have 1 to 5
_MAX_GAPS = 80  # between the waypoints of a plan
_MIN_GAPS = 4
_SPARE = 1.25  # plans are longer than the longest path by this factor: nobody drives it in a straight line
_MEASURED_WINDOWS = 100_000


def segment_states(lengths: Array) -> int:
    """States of a segment, H: as in the paper, or fewer, so that two segments fit in the episodes of most rows.

    Three quarters of all rows lie in episodes at least that long.
    """
    ordered = np.sort(lengths)
    rows = np.cumsum(ordered)
    usual = int(ordered[np.searchsorted(rows, rows[-1] / 4)])
    return 1 + max(_MIN_SEGMENT_STEPS, min(SEGMENT_STEPS, (usual - 1) // 2))


def augmented_states(rows: int) -> int:
    """States to stitch from so many recorded ones: as in the paper, or fewer where that would only repeat them."""
    return min(AUGMENTED_STATES, max(_MIN_AUGMENTED_STATES, _STATES_PER_ROW * rows))


def plan_waypoints(path_steps: float, stride: int) -> int:
    """Waypoints of a plan, start and goal included, for paths of up to this many steps.

    The number of gaps is a multiple of five where it is large, so that a middle level can divide it.
    """
    gaps = math.ceil(_SPARE * path_steps / stride)
    gaps = 5 * math.ceil(gaps / 5) if gaps >= 20 else gaps
    return 1 + max(_MIN_GAPS, min(_MAX_GAPS, gaps))


def path_steps(data: Trajectories, segment: int) -> float | None:
    """Steps of the longest path that anybody could want to go across the data; None where nothing has a position."""
    starts = data.window_starts(segment)
    if not data.meta.position or not len(starts):
        return None
    chosen = starts[:: 1 + len(starts) // _MEASURED_WINDOWS]
    moved = np.linalg.norm(data.positions[chosen + segment - 1] - data.positions[chosen], axis=1)
    pace = float(np.quantile(moved, 0.75)) / (segment - 1)  # a log can idle for half of its time
    return longest_path(Support.of(data)) / pace if pace > 0 else None


def longest_path(support: Support) -> float:
    """Length of the longest shortest path between recorded boxes, in units of the position columns.

    Found by two sweeps: from any box to the one farthest from it, and from there to the farthest again.
    """
    graph = _neighbours(support)
    labels = connected_components(graph, directed=False)[1]
    largest = np.bincount(labels).argmax()
    begin = int(np.flatnonzero(labels == largest)[0])
    for _ in range(2):
        reached = dijkstra(graph, directed=False, indices=begin)
        begin = int(np.argmax(np.where(np.isfinite(reached), reached, -1)))
    return float(reached[begin])


def _neighbours(support: Support) -> csr_array:
    """Distances between the centers of boxes that touch, diagonally too: (N, N)."""
    boxes = support.boxes
    pairs = cKDTree(boxes).query_pairs(1.0, p=np.inf, output_type="ndarray")
    lengths = np.linalg.norm(boxes[pairs[:, 0]] - boxes[pairs[:, 1]], axis=1) * float(support.edge)
    return csr_array((lengths, (pairs[:, 0], pairs[:, 1])), shape=(len(boxes), len(boxes)))
