"""A corridor maze in plain numpy: exact distances in steps, no simulator. For learning tests, docs and a first look.

The walker stands on a lattice of quarter cells along the middle of the corridors. Every position is one node of a
graph, so the number of steps between any two is known exactly.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from functools import cached_property
from typing import Self

import numpy as np

from scots.data.trajectories import Array, Meta
from scots.envs.base import MazeEnvironment, Step, Task, cell_of
from scots.envs.maze import NEIGHBOURS, Cell, Maze, parse_maze

STEPS_PER_CELL = 4
EPISODE_STATES = 33
_WANDER = 0.15  # share of steps that ignore the path

_MAP = ("#########", "#...#...#", "#.#.#.#.#", "#.#...#.#", "#.#####.#", "#.......#", "#########")
_TASKS = ("1,1 -> 5,5", "1,7 -> 5,1", "3,3 -> 5,3", "1,6 -> 3,1", "5,6 -> 1,3")


def _corridors(lines: tuple[str, ...]) -> Maze:
    """The maze of these lines; positions are counted in cells."""
    return replace(parse_maze(lines, "toy"), unit=1.0, origin=0.0)


class ToyCorridor:
    """The lattice of the corridor maze: its nodes, its moves, and all shortest-path distances."""

    def __init__(self, lines: tuple[str, ...] = _MAP) -> None:
        self.maze = _corridors(lines)
        self.nodes = np.array(sorted(self._lattice()))  # (n, 2) lattice (x, y)
        self._index = {(int(x), int(y)): n for n, (x, y) in enumerate(self.nodes)}

    def _lattice(self) -> set[tuple[int, int]]:
        points = set()
        for i, j in self.maze.cells:
            points.add((j * STEPS_PER_CELL, i * STEPS_PER_CELL))
            for di, dj in NEIGHBOURS:
                if not self.maze.walls[i + di, j + dj]:
                    points |= {
                        (j * STEPS_PER_CELL + dj * k, i * STEPS_PER_CELL + di * k) for k in range(STEPS_PER_CELL)
                    }
        return points

    @cached_property
    def positions(self) -> Array:
        """Observation (x, y) of every node, in cells (n, 2)."""
        return (self.nodes / STEPS_PER_CELL).astype(np.float32)

    def node_of(self, position: Array) -> Array:
        """The node nearest to each position (..., 2)."""
        gaps = np.linalg.norm(np.asarray(position)[..., None, :] - self.positions, axis=-1)
        return gaps.argmin(axis=-1)

    def neighbour(self, node: int, move: tuple[int, int]) -> int:
        """The node one lattice step away, or the same node if a wall is there."""
        x, y = self.nodes[node]
        return self._index.get((int(x) + move[0], int(y) + move[1]), node)

    @cached_property
    def distances(self) -> Array:
        """Shortest number of steps between every two nodes (n, n)."""
        table = np.full((len(self.nodes), len(self.nodes)), -1)
        for start in range(len(self.nodes)):
            table[start, start] = 0
            queue = deque([start])
            while queue:
                node = queue.popleft()
                for move in NEIGHBOURS:
                    near = self.neighbour(node, move)
                    if table[start, near] == -1:
                        table[start, near] = table[start, node] + 1
                        queue.append(near)
        return table

    def step(self, position: Array, action: Array) -> Array:
        """The dynamics: one lattice step along the larger component of the action if it exceeds one half."""
        node = int(self.node_of(position))
        axis = int(np.argmax(np.abs(action)))
        if abs(action[axis]) <= 0.5:
            return self.positions[node]
        move = (int(np.sign(action[0])), 0) if axis == 0 else (0, int(np.sign(action[1])))
        return self.positions[self.neighbour(node, move)]

    def towards(self, node: int, goal: int) -> tuple[int, int]:
        """The move of a shortest path, (0, 0) at the goal."""
        moves = [(0, 0), *NEIGHBOURS]
        return min(moves, key=lambda move: self.distances[self.neighbour(node, move), goal])

    def episode(self, rng: np.random.Generator) -> tuple[Array, Array]:
        """Walk to a node four cells away with some wandering, then wait: observations (T, 2), actions (T, 2)."""
        start = int(rng.integers(len(self.nodes)))
        goal = int(rng.choice(np.flatnonzero(self.distances[start] == 4 * STEPS_PER_CELL)))
        observations = np.empty((EPISODE_STATES, 2), dtype=np.float32)
        actions = np.empty((EPISODE_STATES, 2), dtype=np.float32)
        position = self.positions[start]
        for t in range(EPISODE_STATES):
            node = int(self.node_of(position))
            move = NEIGHBOURS[rng.integers(4)] if rng.random() < _WANDER else self.towards(node, goal)
            actions[t] = np.clip(np.array(move) + rng.normal(0, 0.1, size=2), -1, 1)
            observations[t] = position
            position = self.step(position, actions[t])
        return observations, actions


class ToyEnvironment(MazeEnvironment):
    """The corridor lattice as an environment. Start and goal are moved by at most one lattice step."""

    def __init__(self, corridor: ToyCorridor) -> None:
        self._corridor = corridor

    @classmethod
    def maze(cls, meta: Meta) -> Maze:
        """The corridor maze with its tasks."""
        return _corridors((*_MAP, *_TASKS))

    @classmethod
    def make(cls, meta: Meta, count: int) -> list[Self]:
        """Environments that share one lattice."""
        corridor = ToyCorridor()
        return [cls(corridor) for _ in range(count)]

    def reset(self, task: Task, rng: np.random.Generator) -> tuple[Array, Array]:
        """Begin near the start cell."""
        self._position, self._goal = (self._near(cell_of(cell), rng) for cell in (task.start, task.goal))
        return self._position, self._goal

    def _near(self, cell: Cell, rng: np.random.Generator) -> Array:
        node = int(self._corridor.node_of(np.array(cell[::-1])))
        return self._corridor.positions[rng.choice(np.flatnonzero(self._corridor.distances[node] <= 1))]

    def step(self, action: Array) -> Step:
        """Take an action; within one lattice step of the goal is success, with reward 0 instead of -1."""
        self._position = self._corridor.step(self._position, action)
        nodes = self._corridor.node_of(self._position), self._corridor.node_of(self._goal)
        success = bool(self._corridor.distances[nodes] <= 1)
        return Step(self._position, float(success) - 1.0, success, success)
