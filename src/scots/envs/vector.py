"""Tasks and the environments they are run in: many side by side, in worker processes that only step them.

All step together, so the number of workers changes nothing. Episode n of a task has a random stream of its own, so it
does not depend on which episodes run beside it either.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Protocol

import numpy as np

from scots.core.config import Config, Seeds
from scots.core.errors import BadInput
from scots.data.shards import hidden_main, single_threaded
from scots.data.trajectories import Array, Meta
from scots.envs import toy
from scots.envs.maze import Cell, Maze, maze_of, parse_maze
from scots.envs.ogbench import make_environment, seed_environment, twin_environment

# ------------------------------------------------------------------------------------------------------------- tasks


@dataclass(frozen=True)
class Task(Config):
    """From one cell of a maze to another."""

    number: int  # as the environment counts, from 1; 0 for one of the user's own
    start: Cell
    goal: Cell


def tasks_of(meta: Meta) -> tuple[Task, ...]:
    """The tasks of the environment that a dataset belongs to."""
    cells = _world_maze(meta).tasks
    if not cells:  # in the teleport maze tasks cross portals, which only the environment knows
        infos = make_environment(meta).task_infos
        cells = tuple((tuple(info["init_ij"]), tuple(info["goal_ij"])) for info in infos)
    if not cells:
        raise BadInput(f"{meta.environment}: this maze has no tasks; add lines `row,column -> row,column` to its file")
    return tuple(Task(number, start, goal) for number, (start, goal) in enumerate(cells, start=1))


def chosen_tasks(meta: Meta, numbers: Sequence[int]) -> tuple[Task, ...]:
    """These tasks of the environment; one that does not exist is an error."""
    known = tasks_of(meta)
    for number in numbers:
        if not 1 <= number <= len(known):
            raise BadInput(f"task {number}: {meta.environment} has tasks 1 to {len(known)}")
    return tuple(known[number - 1] for number in numbers)


def own_task(meta: Meta, start: Cell, goal: Cell) -> Task:
    """A task between any two free cells (row, column)."""
    task = Task(0, start, goal)
    check_task(meta, task)
    return task


def check_task(meta: Meta, task: Task) -> None:
    """A task begins and ends in free cells."""
    maze = _world_maze(meta)
    for name, cell in (("start", task.start), ("goal", task.goal)):
        if cell not in maze.cells:
            rows, columns = maze.walls.shape
            inside = 0 <= cell[0] < rows and 0 <= cell[1] < columns
            place = "inside a wall" if inside else f"outside the map of {rows} x {columns} cells"
            raise BadInput(f"the {name} {cell[0]},{cell[1]} is {place}; choose a free cell (row,column)")


def _world_maze(meta: Meta) -> Maze:
    if meta.environment == toy.ENVIRONMENT:
        return parse_maze((*toy.MAP, *toy.TASKS), "toy")
    if (maze := maze_of(meta)) is None:
        raise BadInput(f"{meta.dataset or 'this data'}: no environment to evaluate in; only mazes have one")
    return maze


# ------------------------------------------------------------------------------------------------------ environments


class World(Protocol):
    """One environment: observations are float32, only success is reported."""

    def reset(self, task: Task, rng: np.random.Generator) -> tuple[Array, Array]:
        """Begin an episode of a task, all its randomness from `rng`: first observation (O,), goal observation (O,)."""

    def step(self, action: Array) -> tuple[Array, bool]:
        """Act: the next observation and whether the goal is reached."""


class MazeWorld:
    """A maze of OGBench. It has no step limit of its own, so nothing but success ends an episode."""

    def __init__(self, meta: Meta, environment: Any) -> None:
        self._environment = environment
        self._portals = "teleport" in (meta.environment or "")

    def reset(self, task: Task, rng: np.random.Generator) -> tuple[Array, Array]:
        """Start and goal are jittered, as the environment does."""
        self._rng = rng
        seed_environment(self._environment, rng)
        cells = {"init_ij": task.start, "goal_ij": task.goal}
        observation, info = self._environment.reset(options={"task_info": cells})
        return observation.astype(np.float32), info["goal"].astype(np.float32)

    def step(self, action: Array) -> tuple[Array, bool]:
        """The point obeys actions of any size, so they are clipped to the range of the data."""
        if self._portals:  # exits are drawn from numpy's global generator, which the other worlds here share
            np.random.seed(self._rng.integers(2**31))
        observation, _, _, _, info = self._environment.step(np.clip(action, -1, 1).astype(np.float64))
        return observation.astype(np.float32), bool(info["success"])


class ToyWorld:
    """The corridor lattice: no simulator. Start and goal are moved by at most one lattice step."""

    def __init__(self, corridor: toy.ToyCorridor) -> None:
        self._corridor = corridor

    def reset(self, task: Task, rng: np.random.Generator) -> tuple[Array, Array]:
        """Near the start cell."""
        self._place, self._goal = (self._near(cell, rng) for cell in (task.start, task.goal))
        return self._place, self._goal

    def _near(self, cell: Cell, rng: np.random.Generator) -> Array:
        node = int(self._corridor.node_of(np.array(cell[::-1])))
        return self._corridor.positions[rng.choice(np.flatnonzero(self._corridor.distances[node] <= 1))]

    def step(self, action: Array) -> tuple[Array, bool]:
        """Success is within one lattice step of the goal."""
        self._place = self._corridor.step(self._place, action)
        steps = self._corridor.distances[self._corridor.node_of(self._place), self._corridor.node_of(self._goal)]
        return self._place, bool(steps <= 1)


Case = tuple[Task, int]
"""A task and which of its episodes."""


class _Worlds:
    """The environments of one process, by number."""

    def __init__(self, meta: Meta, count: int) -> None:
        self._worlds: list[World]
        if meta.environment == toy.ENVIRONMENT:
            corridor = toy.ToyCorridor()
            self._worlds = [ToyWorld(corridor) for _ in range(count)]
        else:
            environment = make_environment(meta)  # compiled once: its twins only need a state
            self._worlds = [MazeWorld(meta, twin_environment(environment)) for _ in range(count)]

    def reset(self, cases: list[Case], seed: int) -> tuple[Array, Array]:
        """Begin these episodes, one in each of the first worlds: observations and goals (B, O)."""
        streams = [Seeds(seed).stream("environment", *task.start, *task.goal, episode) for task, episode in cases]
        begun = [world.reset(task, rng) for world, (task, _), rng in zip(self._worlds, cases, streams, strict=False)]
        return np.stack([first for first, _ in begun]), np.stack([goal for _, goal in begun])

    def step(self, numbers: list[int], actions: Array) -> tuple[Array, Array]:
        """Step these worlds: observations (B, O), success (B,)."""
        stepped = [self._worlds[number].step(action) for number, action in zip(numbers, actions, strict=True)]
        return np.stack([observation for observation, _ in stepped]), np.array([success for _, success in stepped])


# ----------------------------------------------------------------------------------------------------------- workers


class _Local:
    """Worlds in this process, asked as a worker is."""

    def __init__(self, worlds: _Worlds) -> None:
        self._worlds = worlds

    def send(self, method: str, *arguments: Any) -> None:
        self._reply = getattr(self._worlds, method)(*arguments)

    def receive(self) -> tuple[Array, Array]:
        return self._reply

    def close(self) -> None:
        pass


class _Worker:
    """Worlds in a process of their own."""

    def __init__(self, meta: Meta, count: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, meta, count), daemon=True)
        self._process.start()
        theirs.close()

    def send(self, method: str, *arguments: Any) -> None:
        with suppress(ConnectionError):  # it has failed: why is waiting to be received
            self._connection.send((method, arguments))

    def receive(self) -> tuple[Array, Array]:
        try:
            reply = self._connection.recv()
        except (EOFError, ConnectionError) as error:
            raise RuntimeError("a process that held environments was killed; is there enough memory?") from error
        if isinstance(reply, Exception):
            raise reply
        return reply

    def close(self) -> None:
        self._connection.close()
        self._process.join()


def _serve(connection: Connection, meta: Meta, count: int) -> None:
    """A worker process: do what is asked until nobody asks any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the main process too, which then hangs up
    try:
        worlds = _Worlds(meta, count)
        while True:
            method, arguments = connection.recv()
            connection.send(getattr(worlds, method)(*arguments))
    except (EOFError, ConnectionError):
        return
    except Exception as error:
        connection.send(error)


class Crew:
    """All environments, dealt out over the workers: number n is with worker n modulo their number."""

    def __init__(self, parts: Sequence[_Local | _Worker]) -> None:
        self._parts = parts

    def reset(self, cases: Sequence[Case], seed: int) -> tuple[Array, Array]:
        """Begin these episodes, numbered from 0: observations and goals (B, O)."""
        shares = self._shares(np.arange(len(cases)))
        return self._ask("reset", shares, [([cases[n] for n in share], seed) for share in shares.values()])

    def step(self, numbers: Array, actions: Array) -> tuple[Array, Array]:
        """Step these episodes: observations (B, O), success (B,)."""
        shares = self._shares(numbers)
        places = numbers // len(self._parts)
        return self._ask("step", shares, [(places[share].tolist(), actions[share]) for share in shares.values()])

    def _shares(self, numbers: Array) -> dict[int, Array]:
        """Which of these numbers are with each worker that has any."""
        shares = {part: np.flatnonzero(numbers % len(self._parts) == part) for part in range(len(self._parts))}
        return {part: share for part, share in shares.items() if len(share)}

    def _ask(self, method: str, shares: dict[int, Array], arguments: list[tuple[Any, ...]]) -> tuple[Array, Array]:
        """Ask all workers at once; put their answers back in order."""
        for part, theirs in zip(shares, arguments, strict=True):
            self._parts[part].send(method, *theirs)
        first, second = zip(*(self._parts[part].receive() for part in shares), strict=True)
        order = np.argsort(np.concatenate(list(shares.values())))
        return np.concatenate(first)[order], np.concatenate(second)[order]


@contextmanager
def crew(meta: Meta, count: int, workers: int | None) -> Iterator[Crew]:
    """So many environments over so many processes, by default one per core; a single worker is this process itself."""
    workers = max(1, min(workers or os.cpu_count() or 1, count))
    share = -(-count // workers)
    parts: list[_Local | _Worker] = []
    try:
        with single_threaded(), hidden_main():
            for _ in range(workers):
                parts.append(_Worker(meta, share) if workers > 1 else _Local(_Worlds(meta, share)))
        yield Crew(parts)
    finally:
        for part in parts:
            part.close()
