"""Closed-loop episodes in the real environments, many side by side.

Environments live in worker processes that only step them; plans and actions are made here, for all running episodes at
once. All step together, so the number of workers changes nothing. Episode n of a task has one random stream for its
environment and another for its planner, so it does not depend on which episodes run beside it either: at most the last
bits of a network's output do, by the size of its batch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from scots.core.config import Seeds
from scots.core.console import Progress, progress
from scots.core.errors import BadInput
from scots.data.trajectories import Array, Meta
from scots.envs import environment_class
from scots.envs.base import Environment, Task
from scots.envs.vector import EpisodeId, VectorEnvironment, vector_environment
from scots.evaluation.control import Controller, SubgoalController

Encode = Callable[[Array], Array]
"""Observations (N, O) as an environment gives them -> the states that a controller has learned with."""

_LAST_STEPS = 100  # by which the cause of a failure is judged
_MOST_STEPS = 10**10  # in one evaluation, which would take weeks
_EPISODES_TOGETHER = 256  # environments side by side: the state of an ant's takes about half a megabyte


@dataclass(frozen=True, eq=False)
class Episode:
    """The outcome of one episode."""

    task: Task
    number: int  # among the episodes of the task
    success: bool
    steps: int  # until it ended
    rewards: Array  # (steps,)
    goal: Array | None  # (O,)
    observations: Array | None  # (steps + 1, O), if recorded
    failure: str | None = None  # why it did not reach its goal, if it has one
    travelled: float = 0.0  # along its path on the map, in units of the position columns

    def return_within(self, limit: int) -> float:
        """The undiscounted sum of rewards within a step limit."""
        return float(self.rewards[:limit].sum())


def run_episodes(
    controller: Controller,
    meta: Meta,
    tasks: Sequence[Task],
    *,
    episodes: int = 50,
    max_steps: int,
    seed: int = 0,
    workers: int | None = None,
    record: bool = False,
    encode: Encode | None = None,
) -> list[Episode]:
    """Run this many episodes of each task until they are done or out of steps. `record` keeps their observations.

    Where the controller has learned with states that were made of observations, `encode` makes them, of goals too.
    """
    size = f"{len(tasks)} tasks, {episodes:,} episodes of {max_steps:,} steps"
    if min(episodes, max_steps, len(tasks)) < 1:
        raise BadInput(f"{size}: at least one of each is needed")
    if (steps := len(tasks) * episodes * max_steps) > _MOST_STEPS:
        raise BadInput(f"{size}: that makes {steps:,} steps, and at most {_MOST_STEPS:,} are run; choose fewer")
    kind = environment_class(meta)
    for task in tasks:
        kind.check(meta, task)
    ids = [(task, number) for task in tasks for number in range(episodes)]
    batches = [ids[n : n + _EPISODES_TOGETHER] for n in range(0, len(ids), _EPISODES_TOGETHER)]
    with (
        vector_environment(kind, meta, len(batches[0]), workers) as environments,
        progress("evaluating", len(ids) * max_steps, "steps") as bar,
    ):
        run = _Runner(controller, kind, meta, environments, max_steps, seed, record, bar, encode or _unchanged)
        return [episode for batch in batches for episode in run(batch)]


def _unchanged(observations: Array) -> Array:
    return observations


@dataclass(frozen=True)
class _Runner:
    """Runs batches of episodes from begin to end."""

    controller: Controller
    kind: type[Environment]
    meta: Meta
    environments: VectorEnvironment
    max_steps: int
    seed: int
    record: bool
    bar: Progress
    encode: Encode

    def __call__(self, ids: Sequence[EpisodeId]) -> list[Episode]:
        seeds = Seeds(self.seed)
        self.controller.begin([seeds.integer(f"controller {task.label}", number) for task, number in ids])
        observations, goals = self.environments.reset(ids, self.seed)
        targets = None if goals is None else self.encode(goals)
        path, last = [observations.copy()], deque([observations.copy()], maxlen=_LAST_STEPS)
        running, steps = np.arange(len(ids)), np.zeros(len(ids), dtype=np.int64)
        success, rewards = np.zeros(len(ids), dtype=bool), np.zeros((len(ids), self.max_steps))
        travelled = np.zeros(len(ids))
        while len(running) and len(path) <= self.max_steps:
            own_targets = None if targets is None else targets[running]
            actions = self.controller.act(running, self.encode(observations[running]), own_targets)
            stepped = self.environments.step(running, actions)
            travelled[running] += self._distances(observations[running], stepped.observations)
            observations[running], success[running] = stepped.observations, stepped.successes
            rewards[running, len(path) - 1] = stepped.rewards
            steps[running] += 1
            last.append(observations.copy())
            path.append(last[-1] if self.record else observations)
            left = self.max_steps + 1 - len(path)  # steps that episodes which end now do not need
            self.bar.advance(len(running) + left * int(stepped.dones.sum()))
            running = running[~stepped.dones]
        return [
            Episode(
                task,
                number,
                bool(success[n]),
                int(steps[n]),
                rewards[n, : steps[n]],
                None if goals is None else goals[n],
                np.stack([at[n] for at in path[: steps[n] + 1]]) if self.record else None,
                None if success[n] or goals is None else self._failure(n, np.stack([at[n] for at in last])),
                float(travelled[n]),
            )
            for n, (task, number) in enumerate(ids)
        ]

    def _distances(self, before: Array, after: Array) -> Array:
        """How far observations (B, O) moved on the map (B,)."""
        moves = self.kind.positions(self.meta, after) - self.kind.positions(self.meta, before)
        return np.linalg.norm(moves, axis=1)

    def _failure(self, episode: int, observations: Array) -> str:
        """Why an episode failed, by its last observations (T, O)."""
        plan = self.controller.plan_of(episode).positions if isinstance(self.controller, SubgoalController) else None
        known = None if plan is None else plan[np.isfinite(plan).all(axis=1)]
        return self.kind.cause_of_failure(self.meta, observations, known)
