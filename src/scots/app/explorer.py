"""Temporal distances and the stitching walk over the recorded states of a dataset, for points of a map."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.spatial import KDTree

from scots.app.messages import (
    DistanceAnswer,
    DistanceRequest,
    Grid,
    Point,
    Stitch,
    StitchAnswer,
    StitchRequest,
)
from scots.augmenters.stitching import Choice, Segments, StitchingConfig, choices, directions
from scots.core.config import Seeds
from scots.core.errors import BadInput
from scots.data.trajectories import Array

_GRID_CELLS = 96  # along the longer side of the map
_CANDIDATE_POINTS = 9  # of a candidate segment, at most: a page shows no more


class States:
    """Recorded states as points of a map (N, 2), with their latents (N, Z)."""

    def __init__(self, points: Array, latents: Array, step: float) -> None:
        """`step`: how far the data moves in a step or two, the least that a cell of the map measures."""
        self.points, self.latents = points, latents
        self._tree = KDTree(points)
        self._edge = max(float(np.ptp(points, axis=0).max()) / _GRID_CELLS, step)
        self._low = points.min(axis=0) - self._edge / 2
        self._decimals = max(0, 2 - int(np.floor(np.log10(self._edge))))  # a hundredth of a cell
        cells = np.floor((points - self._low) / self._edge).astype(int)
        self._cells, self._shown = np.unique(cells, axis=0, return_index=True)  # one state stands for each cell

    @property
    def grid(self) -> Grid:
        """The cells that hold states."""
        return Grid(low=self.point(self._low), edge=self._edge, cells=self._cells.tolist())

    @property
    def places(self) -> Array:
        """One state of each cell (C,)."""
        return self._shown

    def nearest(self, point: Point) -> int:
        """The state nearest to a point."""
        return int(self._tree.query(point)[1])

    def distances(self, request: DistanceRequest) -> DistanceAnswer:
        """Latent distance, which is temporal distance, from the state nearest to a point to every cell."""
        state = self.nearest(request.start)
        steps = np.linalg.norm(self.latents[self._shown] - self.latents[state], axis=1)
        return DistanceAnswer(state=self.point(self.points[state]), distances=np.round(steps, 1).tolist())

    def point(self, point: Array) -> Point:
        """A point (2,) with as many digits as can be seen."""
        x, y = self.rounded(point)
        return x, y

    def rounded(self, points: Array) -> Any:
        """Points (..., 2) as lists, with as many digits as can be seen."""
        return np.round(points.astype(float), self._decimals).tolist()


class Explorer:
    """The walk over the segments of a dataset, one trajectory at a time."""

    def __init__(self, states: States, segments: Segments, config: StitchingConfig) -> None:
        self.states, self.segments, self.config = states, segments, config
        self._start_tree = KDTree(states.points[segments.starts])

    def stitch(self, request: StitchRequest) -> StitchAnswer:
        """Choose the segments of one trajectory, and keep what each was chosen from."""
        config = replace(self.config, novelty_weight=request.novelty_weight, stitches=request.stitches)
        first = int(self.segments.starts[self._start_tree.query(request.start)[1]])
        towards = None if request.direction is None else self.states.nearest(request.direction)
        found = choices(self.segments, config, np.array([first]), self._direction(first, towards, request.draw))
        return StitchAnswer(
            state=self.states.point(self.states.points[first]),
            towards=None if towards is None else self.states.point(self.states.points[towards]),
            stitches=[self._stitch(choice) for choice in found],
        )

    def _direction(self, first: int, towards: int | None, draw: int) -> Array:
        """The unit direction (1, Z) from one state to another, or one that is drawn as the method draws it."""
        latents = self.segments.latents
        if towards is None:
            return directions([Seeds(draw).stream("direction")], latents.shape[1])
        difference = (latents[towards] - latents[first]).astype(np.float64)[None]
        if not (length := np.linalg.norm(difference)):
            raise BadInput("the direction leads from the start to itself: move either of them")
        return difference / length

    def _stitch(self, choice: Choice) -> Stitch:
        offsets = np.unique(np.linspace(0, self.config.segment - 1, _CANDIDATE_POINTS).astype(int))
        scores = {name: getattr(choice, name)[0] for name in ("gap", "progress", "novelty", "score")}
        return Stitch(
            paths=self.states.rounded(self.states.points[choice.starts[0][:, None] + offsets]),
            best=int(choice.best[0]),
            **{name: np.round(values.astype(float), 3).tolist() for name, values in scores.items()},
        )
