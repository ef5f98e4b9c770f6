"""Planners without diffusion and without stitched data: the baselines a sceptic asks for, and the best there can be.

`support` takes the shortest path over the boxes of a grid in which states were recorded. It needs positions of few
columns. `landmarks` bisects the way in the embedding: the recorded position halfway, then halfway to that, and so on.
`oracle` walks the true map: what an agent misses on its paths is the agent's own failure, not that of a plan.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar, Self

import numpy as np
import torch
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra
from scipy.spatial import cKDTree
from torch import Tensor

from scots.core.config import Config, Profile
from scots.core.errors import BadInput
from scots.data.support import Support
from scots.data.trajectories import Array, Meta, Trajectories
from scots.data.ways import traced, walked
from scots.datasets.specs import DatasetSpec
from scots.envs import environment_class
from scots.envs.base import MazeEnvironment
from scots.envs.maze import Maze
from scots.models.training import Batch
from scots.planners.base import Plan, PlannerModel
from scots.planners.landmarks import Landmarks

_MOVED = 25  # steps over which the pace is measured
_BISECTIONS = 7  # of a gap, at most: 128 parts
_CLOSE_STEPS = 8.0  # between landmarks that nothing is looked for
_MAX_COLUMNS = 3  # of positions: a box has 3^P - 1 neighbours


@dataclass(frozen=True)
class ShortestPathConfig(Config):
    """Nothing to set: the data decides everything."""


class ShortestPathPlanner(PlannerModel):
    """Base of planners that draw a polyline and walk it at the pace of the recorded data."""

    learns: ClassVar[bool] = False
    config_class = ShortestPathConfig
    pace: Tensor  # () distance of a step, in windows that move

    def __init__(self, config: ShortestPathConfig, sizes: dict[str, int]) -> None:
        super().__init__(config, sizes)
        self.register_buffer("pace", torch.ones(()))

    @classmethod
    def configure(cls, spec: DatasetSpec, states: int, profile: Profile) -> ShortestPathConfig:
        """The same for every dataset and profile."""
        return ShortestPathConfig()

    def batch(self, data: Trajectories, size: int, rng: np.random.Generator) -> Batch:
        """Nothing is drawn: there is nothing to train."""
        return {}

    def loss(self, batch: Batch, generator: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
        """Nothing is lost: there is nothing to train."""
        return torch.zeros(()), {}

    @abstractmethod
    def paths(self, start: Array, goal: Array) -> list[Array]:
        """The corners (N, P) of the path from each start (B, P) to its goal (B, P), both included."""

    def plan(self, start: Array, goal: Array | None, seeds: Sequence[int]) -> list[Plan]:
        """The path of each start (B, P) to its goal (B, P), one position per environment step."""
        assert goal is not None, "a shortest path needs a goal"
        paths = zip(self.paths(start, goal), seeds, strict=True)
        return [Plan(walked(path, float(self.pace)), seed) for path, seed in paths]

    def fill_in(self, plans: Sequence[Plan], first: Sequence[int], last: Sequence[int]) -> None:
        """Nothing: the plans have a position for every step already."""


class SupportPath(ShortestPathPlanner):
    """The shortest path over neighbouring grid boxes in which states were recorded."""

    name = "support"
    low: Tensor
    edge: Tensor
    boxes: Tensor

    def __init__(self, config: ShortestPathConfig, sizes: dict[str, int]) -> None:
        super().__init__(config, sizes)
        self.register_buffer("low", torch.zeros(sizes["position"]))
        self.register_buffer("edge", torch.ones(()))
        self.register_buffer("boxes", torch.zeros(sizes["boxes"], sizes["position"], dtype=torch.int32))
        self._graph: _Graph | None = None

    @classmethod
    def for_data(cls, config: ShortestPathConfig, data: Trajectories, **sizes: int) -> Self:
        """Take the support of a dataset."""
        columns = len(data.meta.position)
        if columns > _MAX_COLUMNS:
            raise BadInput(f"a grid over {columns} position columns would be mostly empty; it has at most 3")
        if data.meta.position_angles:
            raise BadInput("a grid does not close around an angle: choose position columns that are none")
        support = Support.of(data)
        planner = cls(config, {"position": columns, "boxes": len(support.boxes)})
        for name in ("low", "edge", "boxes"):
            getattr(planner, name).copy_(torch.from_numpy(getattr(support, name)))
        planner.pace.fill_(usual_pace(data))
        return planner

    def paths(self, start: Array, goal: Array) -> list[Array]:
        """From the start over the centers of boxes to the goal; straight where no boxes connect them."""
        if self._graph is None:
            self._graph = _Graph.of(Support(*(getattr(self, name).numpy() for name in ("low", "edge", "boxes"))))
        ends = zip(start, goal, strict=True)
        return [np.stack([begin, *self._graph.between(begin, end), end]) for begin, end in ends]


@dataclass(frozen=True, eq=False)
class _Graph:
    """Occupied boxes and the steps between neighbours."""

    centers: Array  # (N, P)
    lengths: Any  # (N, N) sparse
    tree: cKDTree

    @classmethod
    def of(cls, support: Support) -> Self:
        boxes, rows, columns, lengths = support.boxes, [], [], []
        number = {tuple(box): n for n, box in enumerate(boxes.tolist())}
        for move in product((-1, 0, 1), repeat=boxes.shape[1]):
            parts = np.diag(move)[np.flatnonzero(np.array(move))]  # the move along one axis at a time
            if not len(parts):
                continue
            ways = [_numbers(number, boxes + step) for step in (np.array(move), *parts)]
            open_ = np.min(ways, axis=0) >= 0  # a diagonal move must not cut a corner
            rows.append(np.flatnonzero(open_))
            columns.append(ways[0][open_])
            lengths.append(np.full(open_.sum(), float(support.edge) * len(parts) ** 0.5))
        ends = np.concatenate(rows), np.concatenate(columns)
        graph = csr_array((np.concatenate(lengths), ends), shape=(len(boxes), len(boxes)))
        return cls(support.centers(), graph, cKDTree(support.centers()))

    def between(self, start: Array, goal: Array) -> Array:
        """Centers (N, P) of the boxes from the one nearest to the start to the one nearest to the goal."""
        first, last = self.tree.query([start, goal])[1]
        before = dijkstra(self.lengths, indices=first, return_predecessors=True)[1]
        numbers = traced(before, first, last)
        return self.centers[numbers] if numbers else np.empty((0, len(start)), dtype=np.float32)


def _numbers(number: dict[tuple[int, ...], int], boxes: Array) -> Array:
    """The number of each box (N, P) among the occupied ones, or -1 (N,)."""
    return np.array([number.get(tuple(box), -1) for box in boxes.tolist()])


class LandmarkPath(ShortestPathPlanner):
    """Bisection in the embedding: between two positions the recorded one from which neither is far in time."""

    name = "landmarks"
    positions: Tensor  # (N, P) one recorded position in every box of a grid

    def __init__(self, config: ShortestPathConfig, sizes: dict[str, int]) -> None:
        super().__init__(config, sizes)
        self.register_buffer("positions", torch.zeros(sizes["landmarks"], sizes["position"]))
        self._landmarks: Landmarks | None = None

    @classmethod
    def for_data(cls, config: ShortestPathConfig, data: Trajectories, **sizes: int) -> Self:
        """Take the recorded positions of a dataset, one of each box of its support."""
        boxes = Support.of(data).box_of(data.positions)
        _, rows = np.unique(boxes, axis=0, return_index=True)
        planner = cls(config, {"position": len(data.meta.position), "landmarks": len(rows)})
        planner.positions.copy_(torch.from_numpy(data.positions[rows]))
        planner.pace.fill_(usual_pace(data))
        return planner

    @classmethod
    def needs_distances(cls, config: ShortestPathConfig) -> bool:
        """What lies halfway is told by the embedding."""
        return True

    def paths(self, start: Array, goal: Array) -> list[Array]:
        """From the start over landmarks to the goal: all gaps of all paths are bisected at once, level by level."""
        if self._landmarks is None:
            if self.encoder is None:
                raise BadInput("landmarks are told apart by an embedding, and this planner has none; train it again")
            self._landmarks = Landmarks(self.positions.numpy(), self.encoder)
        corners = np.stack([start, goal], axis=1).astype(np.float32)
        for _ in range(_BISECTIONS):
            gaps = np.stack([corners[:, :-1], corners[:, 1:]], axis=2)  # (B, G, 2, P)
            middle = self._between(gaps.reshape(-1, *gaps.shape[2:])).reshape(corners[:, 1:].shape)
            inner = np.stack([corners[:, :-1], middle], axis=2).reshape(len(corners), -1, corners.shape[2])
            corners = np.concatenate([inner, corners[:, -1:]], axis=1)
        return list(corners)

    def _between(self, ends: Array) -> Array:
        """The landmark halfway between each two ends (N, 2, P), or the first of them where both are close (N, P)."""
        assert self._landmarks is not None
        middle = ends[:, 0].copy()
        (far,) = np.nonzero(self._landmarks.steps(ends) > _CLOSE_STEPS)
        if len(far):
            middle[far] = self._landmarks.halfway(ends[far])
        return middle


class OraclePath(ShortestPathPlanner):
    """The shortest path through the cells of the true maze."""

    name = "oracle"

    @classmethod
    def for_data(cls, config: ShortestPathConfig, data: Trajectories, **sizes: int) -> Self:
        """Take the pace of a dataset that was recorded in a maze."""
        _maze(data.meta)  # or say now that there is none
        planner = cls(config, {"position": 2})
        planner.pace.fill_(usual_pace(data))
        return planner

    def paths(self, start: Array, goal: Array) -> list[Array]:
        """From the start over the centers of cells to the goal."""
        return [self._path(begin, end) for begin, end in zip(start, goal, strict=True)]

    def _path(self, start: Array, goal: Array) -> Array:
        maze = _maze(self.meta)
        last = tuple(maze.cell_of(goal).tolist())
        towards, corners = maze.waypoints(last), [start]
        cell = tuple(maze.cell_of(start).tolist())
        while cell != last:
            corners.append(towards[cell])
            following = tuple(maze.cell_of(towards[cell]).tolist())
            if following == cell:
                raise BadInput(f"no path leads from {start.tolist()} to {goal.tolist()} in this maze")
            cell = following
        return np.stack([*corners, goal]).astype(np.float32)


def _maze(meta: Meta) -> Maze:
    """The true maze of a dataset."""
    kind = environment_class(meta)
    if not issubclass(kind, MazeEnvironment):
        raise BadInput(f"{meta.environment} is no maze, so no oracle knows its map")
    return kind.maze(meta)


def usual_pace(data: Trajectories) -> float:
    """Median distance per step over windows that move."""
    steps = min(_MOVED, int(data.lengths.max()) - 1)
    rows = data.random_rows(steps + 1, 10_000, np.random.default_rng(0))
    lengths = np.linalg.norm(data.positions[rows + steps] - data.positions[rows], axis=1)
    return float(np.median(lengths[lengths >= np.quantile(lengths, 0.9) / 2])) / steps or 1.0
