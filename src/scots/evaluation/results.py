"""Result rows: what episodes of a task came to, and everything that decided it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from scots.core.config import Config
from scots.core.resources import peak_memory
from scots.core.versions import code_version, now, package_versions
from scots.data.trajectories import Meta
from scots.envs import environment_class, tasks_of
from scots.envs.base import OUT_OF_TIME, Task
from scots.evaluation.control import Controller
from scots.evaluation.cost import metered
from scots.evaluation.rollout import Encode, Episode, run_episodes


@dataclass(frozen=True)
class EvalResult(Config):
    """One row: the episodes of one task under one step limit. Tables are queries over such rows."""

    dataset: str
    recipe: dict[str, Any]  # which methods were trained on what, and how they differ from the settings of the profile
    profile: str
    training_seed: int | None  # of everything that was augmented and trained, if it is known
    seed: int  # of the evaluation: starts and goals, and what the planner draws
    task: int
    episodes: int
    max_steps: int
    successes: int | None  # None: the task has no goal, only its return counts
    steps: float | None  # median to success, if there was any
    mean_return: float | None  # undiscounted sum of rewards within the limit
    normalized_return: float | None  # 0 for a random and 100 for an expert policy, where both are known
    following: dict[str, Any] | None  # how plans were followed, if there were any
    search: dict[str, Any] | None  # how plans were searched for
    origin: str  # of the training data
    versions: dict[str, str]
    commit: str  # of the code; "stored in ..." if only the commit that added the row is known
    date: str | None  # of the evaluation, if it is known
    seconds: float  # wall time of the evaluation, shared out over its tasks
    stages: dict[str, float]  # wall time of what came before, where it is known
    artifacts: dict[str, str]  # stage -> key of what it made, a hash of all that went into it
    failures: dict[str, int] = field(default_factory=dict)  # cause -> episodes, where there was a goal to reach
    planning: dict[str, float] = field(default_factory=dict)  # what it cost over all tasks, see `PlanningCost`
    returns: tuple[float, ...] = ()  # of each episode, where there is no goal
    peak_memory: int | None = None  # bytes of the process since it began and of its largest child, see `peak_memory`
    speed: float | None = None  # units of position per step over whole episodes, where there was a goal to reach


@dataclass(frozen=True)
class Subject:
    """What is evaluated: a controller, and all that its rows say of how it came to be."""

    controller: Controller
    meta: Meta  # of the training data
    recipe: dict[str, Any]
    profile: str
    training_seed: int | None
    step_limits: tuple[int, ...]
    reference_returns: tuple[float, float] | None = None
    following: dict[str, Any] | None = None
    search: dict[str, Any] | None = None
    stages: dict[str, float] = field(default_factory=dict)  # wall time of what came before, where it is known
    artifacts: dict[str, str] = field(default_factory=dict)  # stage -> key of what it made
    encode: Encode | None = None  # where it has learned with states that were made of observations


def evaluate(
    subject: Subject,
    tasks: Sequence[Task] = (),
    *,
    episodes: int = 50,
    limits: Sequence[int] = (),
    seed: int = 0,
    workers: int | None = None,
) -> list[EvalResult]:
    """Rows of every task, by default all, under every step limit, by default those of the dataset.

    Tasks of the same number, such as random ones, share a row. One run serves several limits: it goes to the largest,
    and an episode counts for those it was fast enough for.
    """
    begin = time.monotonic()
    limits = sorted(set(limits or subject.step_limits))
    tasks = tuple(dict.fromkeys(tasks or tasks_of(subject.meta)))  # named twice, it is evaluated once
    options: dict[str, Any] = {"episodes": episodes, "seed": seed, "workers": workers, "encode": subject.encode}
    with metered(subject.controller) as cost:
        finished = run_episodes(subject.controller, subject.meta, tasks, max_steps=limits[-1], **options)
    numbers = list(dict.fromkeys(task.number for task in tasks))
    row = partial(
        EvalResult,
        dataset=subject.meta.dataset or "",
        recipe=subject.recipe,
        profile=subject.profile,
        training_seed=subject.training_seed,
        seed=seed,
        following=subject.following,
        search=subject.search,
        origin=subject.meta.origin,
        versions=package_versions("torch", *environment_class(subject.meta).packages),
        commit=code_version(),
        date=now(),
        seconds=round((time.monotonic() - begin) / len(numbers), 2),
        stages=subject.stages,
        artifacts=subject.artifacts,
        planning=cost.to_dict(),
        peak_memory=peak_memory(),
    )
    own = {number: [episode for episode in finished if episode.task.number == number] for number in numbers}
    return [row(task=number, **_outcome(own[number], limit, subject)) for limit in limits for number in numbers]


def _outcome(episodes: Sequence[Episode], limit: int, subject: Subject) -> dict[str, Any]:
    """The fields of a row that the episodes of its task decide."""
    steps = [episode.steps for episode in episodes if episode.success and episode.steps <= limit]
    returns = [episode.return_within(limit) for episode in episodes]
    mean_return, has_goal = float(np.mean(returns)), any(episode.goal is not None for episode in episodes)
    slow = sum(episode.success and episode.steps > limit for episode in episodes)
    failures = Counter(episode.failure for episode in episodes if episode.failure) + Counter({OUT_OF_TIME: slow})
    return {
        "episodes": len(episodes),
        "max_steps": limit,
        "failures": dict(failures),
        "successes": len(steps) if has_goal else None,
        "steps": float(np.median(steps)) if steps else None,
        "mean_return": mean_return,
        "normalized_return": _normalized(mean_return, subject.reference_returns),
        "speed": _speed(episodes) if has_goal else None,
        "returns": () if has_goal else tuple(round(own, 2) for own in returns),
    }


def _speed(episodes: Sequence[Episode]) -> float:
    return round(sum(episode.travelled for episode in episodes) / sum(episode.steps for episode in episodes), 4)


def _normalized(value: float, reference: tuple[float, float] | None) -> float | None:
    if reference is None:
        return None
    random, expert = reference
    return 100 * (value - random) / (expert - random)
