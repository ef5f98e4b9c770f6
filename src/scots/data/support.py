"""Where states were recorded: a plan that leaves this support cuts a corner or goes through a wall."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np

from scots.core.errors import BadInput
from scots.core.files import atomic
from scots.data.npz import read_npz, write_npz
from scots.data.trajectories import Array, Trajectories

_EDGE_STEPS = 2.0  # edge of a grid box, in median steps of the data
RARE = 0.02  # boxes with fewer states than this share of the median count as outliers
_MEASURED_STEPS = 100_000  # transitions from which the median step is estimated


@dataclass(frozen=True, eq=False)
class Support:
    """The boxes of a regular grid over positions in which states were recorded.

    No map is needed: recorded positions keep their distance from walls by themselves.
    """

    low: Array  # (P,) lower corner of the grid
    edge: Array  # () edge of a box
    boxes: Array  # (N, P) int32, integer coordinates of the occupied boxes

    @classmethod
    def of(cls, data: Trajectories) -> Self:
        """The support of a dataset's position columns."""
        positions = data.positions
        if not positions.shape[1]:
            raise BadInput("no position columns are known; name them with --position x,y")
        rows = data.random_rows(2, _MEASURED_STEPS, np.random.default_rng(0))
        step = float(np.median(np.linalg.norm(positions[rows + 1] - positions[rows], axis=1)))
        low = positions.min(0)
        edge = np.array(_EDGE_STEPS * step or np.ptp(positions, axis=0).max() or 1.0, dtype=np.float32)
        boxes = _box_of(positions, low, edge)
        shape = boxes.max(0) + 1
        keys, counts = np.unique(np.ravel_multi_index(boxes.T, shape), return_counts=True)
        common = keys[counts >= RARE * np.median(counts)]
        return cls(low, edge, np.stack(np.unravel_index(common, shape), axis=1).astype(np.int32))

    @property
    def step(self) -> float:
        """The median distance that the data moves in one step."""
        return float(self.edge) / _EDGE_STEPS

    def centers(self) -> Array:
        """The center of every occupied box (N, P)."""
        return (self.low + (self.boxes + np.float32(0.5)) * self.edge).astype(np.float32)

    def box_of(self, positions: Array) -> Array:
        """Integer coordinates of the box of each position: (..., P) -> (..., P)."""
        return _box_of(positions, self.low, self.edge)

    def covers(self, positions: Array) -> Array:
        """Whether states were recorded in the box of each position: (..., P) -> (...)."""
        boxes = self.box_of(positions)
        shape = self.boxes.max(0) + 1
        inside = ((boxes >= 0) & (boxes < shape)).all(-1)
        keys = np.ravel_multi_index(np.moveaxis(np.where(inside[..., None], boxes, 0), -1, 0), shape)
        return inside & np.isin(keys, np.ravel_multi_index(self.boxes.T, shape))

    def save(self, path: Path) -> None:
        """Write the support as an npz file."""
        with atomic(path) as temporary:
            write_npz(temporary, {"low": self.low, "edge": self.edge, "boxes": self.boxes})

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what `save` wrote."""
        file = read_npz(path)
        if missing := {"low", "edge", "boxes"} - set(file):
            raise BadInput(f"{path}: not the support of a dataset, {sorted(missing)[0]!r} is missing")
        return cls(*(np.array(file[name]) for name in ("low", "edge", "boxes")))


def _box_of(positions: Array, low: Array, edge: Array) -> Array:
    return np.floor((positions - low) / edge).astype(np.int32)
