"""What an environment is: tasks, episodes that begin with `reset` and go on with `step`, many instances at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self

import numpy as np

from scots.core.config import Config
from scots.core.errors import BadInput
from scots.data.trajectories import Array, Meta
from scots.envs.maze import Cell, Maze

OUT_OF_TIME = "out of time"


@dataclass(frozen=True)
class Task(Config):
    """What an episode is about. Start and goal are in the environment's own terms, such as the cells of a maze."""

    number: int  # as the environment counts, from 1; 0 for a task of the user's own or a random one
    start: tuple[float, ...] = ()  # empty where the environment draws the start itself
    goal: tuple[float, ...] = ()  # empty where there is no goal, only reward

    @property
    def label(self) -> str:
        """Names the task in random streams: equal starts and goals give equal episodes."""
        return f"{list(map(float, self.start))} -> {list(map(float, self.goal))}"


class Step(NamedTuple):
    """What one action leads to."""

    observation: Array  # (O,) float32
    reward: float
    success: bool  # the goal is reached
    done: bool  # the episode is over: success, or a terminal state such as a fall


class Environment(ABC):
    """One environment. Episodes have no step limit of their own: whoever runs them decides when time is up."""

    packages: ClassVar[tuple[str, ...]] = ()  # whose versions decide what happens in it

    @classmethod
    @abstractmethod
    def tasks(cls, meta: Meta) -> tuple[Task, ...]:
        """The tasks of the environment that a dataset belongs to, numbered from 1."""

    @classmethod
    @abstractmethod
    def make(cls, meta: Meta, count: int) -> list[Self]:
        """As many environments of a dataset, which may share what never changes, such as a compiled model."""

    @classmethod
    def check(cls, meta: Meta, task: Task) -> None:
        """Raise `BadInput` for a task that this environment cannot run."""
        if task not in cls.tasks(meta):
            raise BadInput(f"task {task.number}: {meta.environment} has tasks 1 to {len(cls.tasks(meta))}")

    @classmethod
    def random_tasks(cls, meta: Meta, count: int, seed: int) -> tuple[Task, ...]:
        """As many tasks of random starts and goals, all of number 0: to choose settings on, and to check the choice."""
        raise BadInput(f"{meta.environment}: no random tasks can be drawn for it, only its own are known")

    @classmethod
    def positions(cls, meta: Meta, observations: Array) -> Array:
        """Where to draw observations on a map: (N, O) -> (N, 2)."""
        return observations[:, list(meta.position[:2])]

    @classmethod
    def points_seen(cls, observation: Array) -> Array:
        """What sensors see at an observation (O,), as points on the map (n, 2); none where there is no such sensor."""
        return np.empty((0, 2))

    @classmethod
    def cause_of_failure(cls, meta: Meta, observations: Array, plan: Array | None) -> str:
        """Why an episode failed, by its last observations (T, O) and the plan (N, P) that it followed, if any."""
        return OUT_OF_TIME

    @classmethod
    def termination(cls, meta: Meta) -> Callable[[Array], Array] | None:
        """The rule by which states (..., O) end an episode, such as a fall; None where states alone do not tell."""
        return None

    @abstractmethod
    def reset(self, task: Task, rng: np.random.Generator) -> tuple[Array, Array | None]:
        """Begin an episode, drawing only from `rng`: the first observation (O,) and the goal (O,), if there is one."""

    @abstractmethod
    def step(self, action: Array) -> Step:
        """Take an action (A,)."""


class MazeEnvironment(Environment):
    """An environment whose tasks lead from one cell of a maze to another."""

    @classmethod
    @abstractmethod
    def maze(cls, meta: Meta) -> Maze:
        """The maze of a dataset."""

    @classmethod
    def tasks(cls, meta: Meta) -> tuple[Task, ...]:
        """The tasks that the maze names."""
        return numbered_tasks(cls.maze(meta).tasks, meta)

    @classmethod
    def random_tasks(cls, meta: Meta, count: int, seed: int) -> tuple[Task, ...]:
        """Pairs of different cells with a path between them, drawn alike from all such pairs."""
        maze = cls.maze(meta)
        pairs = [(start, goal) for start in maze.cells for goal in maze.cells if maze.distances(goal)[start] > 0]
        chosen = np.random.default_rng(seed).permutation(len(pairs))[:count]
        return tuple(Task(0, *pairs[n]) for n in chosen)

    @classmethod
    def cause_of_failure(cls, meta: Meta, observations: Array, plan: Array | None) -> str:
        """The body fell, it is stuck, its plan leads through a wall, or time was up."""
        maze, positions = cls.maze(meta), observations[:, list(meta.position)]
        if cls.has_fallen(meta, observations[-1]):
            return "fell"
        if np.linalg.norm(positions - positions[-1], axis=1).max() < maze.unit / 4:
            return "stuck"
        if plan is not None and maze.in_wall(plan).any():
            return "plan through a wall"
        return OUT_OF_TIME

    @classmethod
    def has_fallen(cls, meta: Meta, observation: Array) -> bool:
        """Whether a body (O,) lies on its back: the up axis of its quaternion points down."""
        return any(np.square(observation[first + 1 : first + 3]).sum() > 0.5 for first in meta.quaternions)

    @classmethod
    def check(cls, meta: Meta, task: Task) -> None:
        """A task leads from one free cell to another."""
        maze = cls.maze(meta)
        for name, coordinates in (("start", task.start), ("goal", task.goal)):
            if len(coordinates) != 2 or any(number != int(number) for number in coordinates):
                raise BadInput(f"the {name} {','.join(map(str, coordinates))} is no cell of a maze (row,column)")
            cell = cell_of(coordinates)
            if cell not in maze.cells:
                rows, columns = maze.walls.shape
                inside = 0 <= cell[0] < rows and 0 <= cell[1] < columns
                where = "inside a wall" if inside else f"outside the map of {rows} x {columns} cells"
                raise BadInput(f"the {name} {cell[0]},{cell[1]} is {where}; choose a free cell (row,column)")


def cell_of(coordinates: tuple[float, ...]) -> Cell:
    """The maze cell that a task names."""
    row, column = coordinates
    return int(row), int(column)


def numbered_tasks(cells: Sequence[tuple[Cell, Cell]], meta: Meta) -> tuple[Task, ...]:
    """Tasks from start and goal cells, numbered from 1; at least one is needed."""
    if not cells:
        raise BadInput(f"{meta.environment}: this maze has no tasks; add lines `row,column -> row,column` to its file")
    return tuple(Task(number, start, goal) for number, (start, goal) in enumerate(cells, start=1))
