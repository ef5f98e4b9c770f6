"""State-covering trajectory stitching: short logs in, long and diverse trajectories out, and planners that use them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

from scots.core.errors import BadInput
from scots.data.trajectories import GoalMix, Meta, Normalizer, Trajectories, concat, sample_goals
from scots.datasets import load

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import numpy.typing as npt

    from scots.core.config import Profile
    from scots.envs.recorder import Recorder
    from scots.evaluation.results import EvalResult
    from scots.experiments.planning import PlannedPath
    from scots.models.training import Model, OnStep
    from scots.reporting.quality import Quality

__all__ = [
    "BadInput",
    "GoalMix",
    "Meta",
    "Normalizer",
    "Trajectories",
    "augment",
    "concat",
    "evaluate",
    "load",
    "load_model",
    "plan",
    "record",
    "report",
    "sample_goals",
    "train",
]


def augment(
    data: Trajectories,
    augmenter: str = "scots",
    profile: Profile = "laptop",
    changes: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> Trajectories:
    """Turn short trajectories into long, diverse ones; what is trained on the way is cached for the next call.

    `changes` replaces settings of the augmenter by dotted path: `{"stitching.stitches": 20}`.
    """
    from scots.experiments import models

    return models.augment(data, augmenter, profile, changes, seed=seed)


def record(env: Any) -> Recorder:
    """A Gymnasium environment that records what happens in it; its `trajectories()` are the episodes so far."""
    from scots.envs.recorder import Recorder

    return Recorder(env)


def train(
    model: str,
    data: Trajectories,
    profile: Profile = "laptop",
    changes: Mapping[str, Any] | None = None,
    seed: int = 0,
    recorded: Trajectories | None = None,
    *,
    alone: bool = False,
    steps: int | None = None,
    minutes: float | None = None,
    on_step: OnStep | None = None,
) -> Model:
    """A planner ("hd") or an agent ("gciql", "hiql") trained on a dataset; it is cached for the next call.

    GCIQL, CRL and GCBC learn to follow plans, whose subgoals are near, unless they are to act `alone`; HIQL, QRL and
    GCIVL always learn to act alone.

    `steps` replaces the profile's number of steps. `minutes` of wall time, or an `on_step(step, metrics)` that returns
    False, end training before its last step: `model.stopped_at` says where, and the same call continues from there. The
    learning rate is then still that of the middle of a longer run; to train less on purpose, choose fewer `steps`.

    A planner of augmented data finds what plan search needs in the cache; where the augmentation was made elsewhere,
    give the data that was augmented as `recorded`.
    """
    from scots.experiments import models
    from scots.models.training import Limits

    return models.train_model(
        model,
        data,
        profile=profile,
        seed=seed,
        changes=changes,
        recorded=recorded,
        steps=steps,
        limits=Limits(minutes, on_step),
        alone=alone,
    )


def load_model(folder: str | Path) -> Model:
    """The trained model in a folder: planner, agent, or an augmenter's embedding, stitcher or inverse dynamics.

    >>> policy = scots.train("gciql", scots.load("toy-corridor-stitch-v0"), profile="smoke")
    >>> type(scots.load_model(policy.folder)).__name__
    'GCIQL'
    """
    from scots.experiments import models

    return models.load_model(folder)


def plan(
    model: Model | str | Path,
    start: npt.ArrayLike,
    goal: npt.ArrayLike,
    *,
    candidates: int = 8,
    seed: int = 0,
    allow_outside: bool = False,
) -> list[PlannedPath]:
    """A plan for each pair of start and goal, the best of several; neither environment nor agent is needed.

    `model` is a planner or its folder, which must hold the embedding and the support of the recorded data. `start` and
    `goal` are positions in the data's unit, or whole states: one of each, (P,), or many, (B, P). The answer says what
    it thinks of itself: its cost, the environment steps it should take, the share of states off the recorded data, and
    the share that recorded ways replaced because the plan as drawn left the data (never with one candidate).

    >>> data = scots.load("toy-corridor-stitch-v0")
    >>> planner = scots.train("hd", scots.augment(data, profile="smoke"), profile="smoke")
    >>> [path] = scots.plan(planner, start=(1, 1), goal=(3, 3))
    >>> path.positions[0], path.positions[-1]
    (array([1., 1.], dtype=float32), array([3., 3.], dtype=float32))
    """
    from scots.experiments import planning

    return planning.plan(model, start, goal, candidates=candidates, seed=seed, allow_outside=allow_outside)


def evaluate(
    model: Model, controller: Model | None = None, changes: Mapping[str, Any] | None = None, **options: Any
) -> list[EvalResult]:
    """Success per task of a planner with the agent that follows its plans, or of an agent, where they were trained.

    `changes` replaces settings of how plans are followed and searched for: `{"search.candidates": 4}`. The options are
    those of `scots.evaluation.results.evaluate`, such as `episodes=50` and `seed=0`.
    """
    from scots.evaluation import results
    from scots.experiments import models

    return results.evaluate(models.subject_of(model, controller, changes=changes), **options)


def report(data: Trajectories, aug: Trajectories) -> Quality:
    """What augmentation did to a dataset: coverage, joins, dynamics, walls, duplicates. Print it."""
    from scots.reporting.quality import measure_quality

    return measure_quality(data, aug)
