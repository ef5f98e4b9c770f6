"""What recorded data has to offer to stitching: how many segments move, and in which cells of a maze they begin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from scots.core.config import Config
from scots.data.trajectories import Trajectories
from scots.datasets.specs import spec_of_meta
from scots.envs.maze import maze_of


@dataclass(frozen=True)
class Segments(Config):
    """The segments of a maze dataset: windows whose ends are as far apart as its settings ask for."""

    dataset: str
    origin: str
    rows: int
    protocol_rows: int  # that the benchmark's own file has
    states: int  # of a window
    least_displacement: float  # between the ends of a segment
    windows: int
    segments: int
    displacement: float  # of windows: median and 90 % quantile
    displacement_90: float
    cells: int  # of the maze, those that are free
    cells_with_segments: int  # where at least one begins
    fewest: int  # that begin in one cell
    typical: float  # the median over cells

    @classmethod
    def of(cls, data: Trajectories) -> Segments | None:
        """None for data that no protocol of a maze says anything about."""
        spec = spec_of_meta(data.meta, data.observations.shape[1], int(np.median(data.lengths)))
        maze, starts = maze_of(data.meta), data.window_starts(spec.segment)
        if spec.collection is None or spec.min_displacement is None or maze is None or not len(starts):
            return None
        moved = np.linalg.norm(data.positions[starts + spec.segment - 1] - data.positions[starts], axis=1)
        begins = starts[moved >= spec.min_displacement]
        counts = np.zeros(maze.walls.shape, dtype=np.int64)
        np.add.at(counts, tuple(maze.cell_of(data.positions[begins]).T), 1)
        by_cell = counts[tuple(np.array(maze.cells).T)]
        return cls(
            dataset=spec.id,
            origin=data.meta.origin,
            rows=data.rows,
            protocol_rows=spec.collection.episodes * spec.collection.states,
            states=spec.segment,
            least_displacement=spec.min_displacement,
            windows=len(starts),
            segments=len(begins),
            displacement=float(np.nanmedian(moved)),
            displacement_90=float(np.nanquantile(moved, 0.9)),
            cells=len(maze.cells),
            cells_with_segments=int((by_cell > 0).sum()),
            fewest=int(by_cell.min()),
            typical=float(np.median(by_cell)),
        )

    def facts(self) -> dict[str, Any]:
        """To print beside what any data has."""
        return {
            "rows by the protocol": self.protocol_rows,
            f"windows of {self.states} states that move {self.least_displacement:g} or more": {
                "share": self.segments / self.windows,
                "count": self.segments,
            },
            "cells where such a window begins": {
                "count": self.cells_with_segments,
                "of": self.cells,
                "fewest": self.fewest,
                "median": self.typical,
            },
        }
