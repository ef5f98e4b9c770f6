"""Closed-loop evaluation: tasks in the real environments, many episodes side by side, success counted per task.

Environments live in worker processes that only step them; plans and actions are made here, for all running episodes at
once. All step together, so the number of workers changes nothing. Episode n of a task has one random stream for its
environment and another for its planner, so it does not depend on which episodes run beside it either: at most the
last bits of a network's output do, by the size of its batch.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version

import numpy as np

from scots.core.config import Config, Seeds
from scots.core.console import Progress, progress
from scots.core.errors import BadInput
from scots.data.trajectories import Array, Meta
from scots.envs import toy
from scots.envs.vector import Case, Crew, Task, check_task, crew, tasks_of
from scots.evaluation.control import Controller, Execution
from scots.experiments.recipe import Recipe

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

TOGETHER = 256  # episodes side by side: the state of an ant's environment takes about half a megabyte


def step_limits(dataset: str | None) -> tuple[int, ...]:
    """The limits to report for a dataset: the registered one and, where it differs, that of the reference code."""
    return tuple(sorted({REGISTERED_LIMIT, STEP_LIMITS.get(dataset or "", REGISTERED_LIMIT)}))


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
    for task in tasks:
        check_task(meta, task)
    cases = [(task, number) for task in tasks for number in range(episodes)]
    waves = [cases[n : n + TOGETHER] for n in range(0, len(cases), TOGETHER)]
    with crew(meta, len(waves[0]), workers) as worlds, progress("evaluating", len(cases), "episodes") as bar:
        return [done for wave in waves for done in _run_wave(controller, worlds, wave, max_steps, seed, record, bar)]


def _run_wave(
    controller: Controller,
    worlds: Crew,
    cases: Sequence[Case],
    max_steps: int,
    seed: int,
    record: bool,
    bar: Progress,
) -> list[Episode]:
    seeds = Seeds(seed)
    controller.begin([seeds.integer("planner", *task.start, *task.goal, number) for task, number in cases])
    observations, goals = worlds.reset(cases, seed)
    path = [observations.copy()]
    running, steps = np.arange(len(cases)), np.zeros(len(cases), dtype=np.int64)
    success = np.zeros(len(cases), dtype=bool)
    while len(running) and len(path) <= max_steps:
        actions = controller.act(running, observations[running], goals[running])
        observations[running], success[running] = worlds.step(running, actions)
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
    recipe: Recipe  # what was trained on what
    profile: str
    training_seed: int | None  # of all that was stitched and trained before the evaluation, if it is known
    seed: int  # of the evaluation: starts and goals, and what the planner draws
    task: int
    successes: int
    episodes: int
    max_steps: int
    steps: float | None  # median to success, if there was any
    execution: Execution | None  # how plans were followed
    origin: str  # of the training data
    versions: dict[str, str]
    seconds: float  # wall time of the whole evaluation, shared out over its tasks
    stages: dict[str, float]  # wall time of what came before, where it is known
    artifacts: dict[str, str]  # stage -> folder of what it made; the name says what went into it


def evaluate(
    controller: Controller,
    meta: Meta,
    tasks: Sequence[Task] | None = None,
    *,
    recipe: Recipe,
    profile: str,
    training_seed: int | None,
    stages: dict[str, float] | None = None,
    artifacts: dict[str, str] | None = None,
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
        profile=profile,
        training_seed=training_seed,
        seed=seed,
        episodes=episodes,
        execution=controller.execution,
        origin=origin_of(meta),
        versions={name: version(name) for name in _packages(meta)},
        seconds=round((time.monotonic() - begin) / len(tasks), 2),
        stages=stages or {},
        artifacts=artifacts or {},
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
    return ("scots", "torch") if meta.environment == toy.ENVIRONMENT else ("scots", "torch", "mujoco", "ogbench")
