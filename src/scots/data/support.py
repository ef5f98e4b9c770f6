"""Where the data has been: a plan that leads elsewhere cuts a corner or goes through a wall."""

from __future__ import annotations

from typing import Self

import numpy as np
import torch
from torch import Tensor, nn

from scots.data.trajectories import Array, Trajectories

EDGE_STEPS = 2.0  # edge of a box, in median steps of the data
RARE = 0.02  # boxes with fewer states than this share of the median are strays
STEPS_MEASURED = 100_000


class Support(nn.Module):
    """The boxes of a grid in which states were recorded. It travels with the weights of an agent.

    No map is needed: recorded places keep their distance from walls by themselves.
    """

    low: Tensor  # (P,) corner of the grid
    edge: Tensor  # () of a box
    boxes: Tensor  # (N, P) whole numbers

    def __init__(self, columns: int, boxes: int) -> None:
        super().__init__()
        self.register_buffer("low", torch.zeros(columns))
        self.register_buffer("edge", torch.ones(()))
        self.register_buffer("boxes", torch.zeros(boxes, columns, dtype=torch.int32))

    @classmethod
    def of(cls, data: Trajectories) -> Self:
        """The boxes of a dataset's places."""
        places = data.positions
        if not places.shape[1]:
            return cls(0, 0)
        rows = data.random_rows(2, STEPS_MEASURED, np.random.default_rng(0))
        step = float(np.median(np.linalg.norm(places[rows + 1] - places[rows], axis=1)))
        low = places.min(0)
        edge = np.array(EDGE_STEPS * step or np.ptp(places, axis=0).max() or 1.0, dtype=np.float32)
        boxes = _boxes(places, low, edge)
        shape = boxes.max(0) + 1
        keys, counts = np.unique(np.ravel_multi_index(boxes.T, shape), return_counts=True)
        common = keys[counts >= RARE * np.median(counts)]
        boxes = np.stack(np.unravel_index(common, shape), axis=1).astype(np.int32)
        support = cls(places.shape[1], len(boxes))
        support.load_state_dict({"low": _tensor(low), "edge": _tensor(edge), "boxes": _tensor(boxes)})
        return support

    @property
    def step(self) -> float:
        """How far the data usually gets in a step."""
        return float(self.edge) / EDGE_STEPS

    def places(self) -> Array:
        """The middle of every box (N, P)."""
        return (self.low + (self.boxes + 0.5) * self.edge).cpu().numpy()

    def covers(self, places: Array) -> Array:
        """Whether something was recorded in the box of each place (..., P) -> (...)."""
        known = self.boxes.cpu().numpy()
        boxes = _boxes(places, self.low.cpu().numpy(), self.edge.cpu().numpy())
        shape = known.max(0) + 1
        inside = ((boxes >= 0) & (boxes < shape)).all(-1)
        keys = np.ravel_multi_index(np.moveaxis(np.where(inside[..., None], boxes, 0), -1, 0), shape)
        return inside & np.isin(keys, np.ravel_multi_index(known.T, shape))


def _boxes(places: Array, low: Array, edge: Array) -> Array:
    return np.floor((places - low) / edge).astype(np.int32)


def _tensor(values: Array) -> Tensor:
    return torch.from_numpy(np.asarray(values))
