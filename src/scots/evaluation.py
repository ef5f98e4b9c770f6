"""Closed-loop evaluation: tasks in the real environments, many episodes side by side, success counted per task.

Environments live in worker processes that only step them; plans and actions are made here, for all running episodes at
once. All step together, so the number of workers changes nothing. Episode n of a task has one random stream for its
environment and another for its planner, so it does not depend on which episodes run beside it either: at most the
last bits of a network's output do, by the size of its batch.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from scots.config import Config, Seeds
from scots.console import Progress, progress
from scots.control import Controller, Execution
from scots.errors import BadInput
from scots.shards import hidden_main, single_threaded
from scots.sources import toy
from scots.sources.maze import Cell, Maze, maze_of, parse_maze
from scots.sources.ogbench import make_environment, seed_environment
from scots.trajectories import Array, Meta

REGISTERED_LIMIT = 1000
"""Steps that OGBench allows in every point and ant maze; nearly all published numbers use it."""

STEP_LIMITS: dict[str, int] = {
    "pointmaze-medium-stitch-v0": 1000,
    "pointmaze-large-stitch-v0": 1000,
    "pointmaze-giant-stitch-v0": 2000,
    "antmaze-medium-stitch-v0": 1000,
    "antmaze-large-stitch-v0": 2000,
    "antmaze-giant-stitch-v0": 2000,
    "antmaze-medium-explore-v0": 2000,
    "antmaze-large-explore-v0": 2000,
}
"""Steps that the reference code of the paper allows."""

TOGETHER = 256  # episodes side by side: an environment takes about 2 MB
TOY_ENVIRONMENT = "toy-corridor-v0"
TOY_TASKS = "1,1 -> 5,5|1,7 -> 5,1|3,3 -> 5,3|1,6 -> 3,1|5,6 -> 1,3"


def step_limits(dataset: str | None) -> tuple[int, ...]:
    """The limits to report for a dataset: the registered one and, where it differs, that of the reference code."""
    return tuple(sorted({REGISTERED_LIMIT, STEP_LIMITS.get(dataset or "", REGISTERED_LIMIT)}))


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
    maze = _world_maze(meta)
    for name, cell in (("start", start), ("goal", goal)):
        if cell not in maze.cells:
            rows, columns = maze.walls.shape
            inside = 0 <= cell[0] < rows and 0 <= cell[1] < columns
            place = "inside a wall" if inside else f"outside the map of {rows} x {columns} cells"
            raise BadInput(f"the {name} {cell[0]},{cell[1]} is {place}; choose a free cell (row,column)")
    return Task(0, start, goal)


def _world_maze(meta: Meta) -> Maze:
    if meta.environment == TOY_ENVIRONMENT:
        return parse_maze((*toy.MAP, *TOY_TASKS.split("|")), "toy")
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

    def __init__(self, meta: Meta) -> None:
        self._environment = make_environment(meta)
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
        if meta.environment == TOY_ENVIRONMENT:
            corridor = toy.ToyCorridor()
            self._worlds = [ToyWorld(corridor) for _ in range(count)]
        else:
            self._worlds = [MazeWorld(meta) for _ in range(count)]

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


class _Crew:
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
def _crew(meta: Meta, count: int, workers: int | None) -> Iterator[_Crew]:
    """So many environments over so many processes, by default one per core; a single worker is this process itself."""
    workers = max(1, min(workers or os.cpu_count() or 1, count))
    share = -(-count // workers)
    parts: list[_Local | _Worker] = []
    try:
        with single_threaded(), hidden_main():
            for _ in range(workers):
                parts.append(_Worker(meta, share) if workers > 1 else _Local(_Worlds(meta, share)))
        yield _Crew(parts)
    finally:
        for part in parts:
            part.close()


# ---------------------------------------------------------------------------------------------------------- episodes


@dataclass(frozen=True, eq=False)
class Episode:
    """What came of one episode."""

    task: Task
    number: int  # among the episodes of the task
    success: bool
    steps: int  # to success, or all there were
    goal: Array  # (O,)
    observations: Array | None  # (steps + 1, O), if recorded


def run(
    controller: Controller,
    meta: Meta,
    tasks: Sequence[Task],
    *,
    episodes: int = 50,
    max_steps: int = REGISTERED_LIMIT,
    seed: int = 0,
    workers: int | None = None,
    record: bool = False,
) -> list[Episode]:
    """Run so many episodes of each task; only success or the step limit ends one. `record` keeps their paths."""
    if min(episodes, max_steps, len(tasks)) < 1:
        raise BadInput(f"{len(tasks)} tasks, {episodes} episodes of {max_steps} steps: at least one of each is needed")
    cases = [(task, number) for task in tasks for number in range(episodes)]
    waves = [cases[n : n + TOGETHER] for n in range(0, len(cases), TOGETHER)]
    with _crew(meta, len(waves[0]), workers) as crew, progress("evaluating", len(cases), "episodes") as bar:
        return [done for wave in waves for done in _run_wave(controller, crew, wave, max_steps, seed, record, bar)]


def _run_wave(
    controller: Controller,
    crew: _Crew,
    cases: Sequence[Case],
    max_steps: int,
    seed: int,
    record: bool,
    bar: Progress,
) -> list[Episode]:
    seeds = Seeds(seed)
    controller.begin([seeds.integer("planner", *task.start, *task.goal, number) for task, number in cases])
    observations, goals = crew.reset(cases, seed)
    path = [observations.copy()]
    running, steps = np.arange(len(cases)), np.zeros(len(cases), dtype=np.int64)
    success = np.zeros(len(cases), dtype=bool)
    while len(running) and len(path) <= max_steps:
        actions = controller.act(running, observations[running], goals[running])
        observations[running], success[running] = crew.step(running, actions)
        steps[running] += 1
        path.append(observations.copy() if record else observations)
        bar.advance(int(success[running].sum()))
        running = running[~success[running]]
    bar.advance(len(running))
    return [
        Episode(
            task, number, bool(success[n]), int(steps[n]), goals[n], _path_of(path, n, steps[n]) if record else None
        )
        for n, (task, number) in enumerate(cases)
    ]


def _path_of(path: list[Array], episode: int, steps: int) -> Array:
    return np.stack([observations[episode] for observations in path[: steps + 1]])


# ----------------------------------------------------------------------------------------------------------- results


@dataclass(frozen=True)
class EvalResult(Config):
    """One row: the episodes of one task under one step limit, and all that decides what they are worth."""

    dataset: str
    recipe: str  # how the training data was made: "original", or the recipe that augmented it
    learner: str  # what was trained on it: "hd + gciql", "crl"
    profile: str
    seed: int  # of the evaluation
    task: int
    successes: int
    episodes: int
    max_steps: int
    steps: float | None  # median to success, if there was any
    execution: Execution | None  # how plans were followed
    origin: str  # of the training data
    versions: dict[str, str]
    seconds: float  # wall time of the whole evaluation, shared out over its tasks


def evaluate(
    controller: Controller,
    meta: Meta,
    tasks: Sequence[Task] | None = None,
    *,
    recipe: str,
    learner: str,
    profile: str,
    episodes: int = 50,
    limits: Sequence[int] | None = None,
    seed: int = 0,
    workers: int | None = None,
) -> list[EvalResult]:
    """Success per task, in the environment of a dataset: `meta` is that of the training data.

    One run serves several step limits: it goes to the largest, and an episode counts for those it was fast enough for.
    By default they are OGBench's and that of the reference code, over all tasks.
    """
    begin = time.monotonic()
    limits = sorted(limits or step_limits(meta.dataset))
    tasks = tasks or tasks_of(meta)
    finished = run(controller, meta, tasks, episodes=episodes, max_steps=limits[-1], seed=seed, workers=workers)
    row = partial(
        EvalResult,
        dataset=meta.dataset or "",
        recipe=recipe,
        learner=learner,
        profile=profile,
        seed=seed,
        episodes=episodes,
        execution=controller.execution,
        origin=origin_of(meta),
        versions={name: version(name) for name in _packages(meta)},
        seconds=round((time.monotonic() - begin) / len(tasks), 2),
    )
    rows = []
    for limit in limits:
        for task in tasks:
            reached = [done.steps for done in finished if done.task == task and done.success and done.steps <= limit]
            median = float(np.median(reached)) if reached else None
            rows.append(row(task=task.number, successes=len(reached), max_steps=limit, steps=median))
    return rows


def origin_of(meta: Meta) -> str:
    """Where data came from, step by step: "collected here, stitched here"."""
    return ", ".join(str(step.get("origin", "unknown")) for step in meta.provenance) or "unknown"


def _packages(meta: Meta) -> tuple[str, ...]:
    return ("scots", "torch") if meta.environment == TOY_ENVIRONMENT else ("scots", "torch", "mujoco", "ogbench")


def append_results(path: Path, rows: Sequence[EvalResult]) -> None:
    """Add rows to a JSONL file; what the file holds already stays."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.writelines(json.dumps(row.to_dict()) + "\n" for row in rows)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise BadInput(f"{path}: cannot write: {error.strerror}; choose another place") from error
