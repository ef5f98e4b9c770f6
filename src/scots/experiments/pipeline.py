"""Runs: one recipe on one dataset, from collecting the data to success rates.

Each stage is an artifact named by what went into it, so nothing is done twice and an interrupted run continues.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Self, cast

from scots import datasets as sources
from scots.agents import AGENTS, Policy, configure_agent
from scots.agents.base import Agent
from scots.augmenters import scots as augmentation
from scots.augmenters.embedding import TemporalDistance
from scots.augmenters.scots import augmented_path, finished, job_of, stitched_by
from scots.core.config import Config, Profile
from scots.core.errors import BadInput
from scots.core.files import append_rows, atomic
from scots.data.trajectories import Meta, Trajectories
from scots.datasets import collect
from scots.envs.ogbench import PROTOCOLS, meta_of
from scots.envs.vector import Task
from scots.evaluation.control import Controller, Execution, GoalController, SubgoalController
from scots.evaluation.rollout import EvalResult, evaluate
from scots.experiments.recipe import Recipe
from scots.models.cache import artifact, clocked, model_folder, seconds_spent, train, trained
from scots.models.training import Model
from scots.planners import PLANNERS, Planner, configure_planner
from scots.planners.search import BestOf

LEARNERS: dict[str, type[Model]] = {**PLANNERS, **AGENTS}
EPISODES: dict[str, int] = {"smoke": 2, "laptop": 50, "paper": 50}
"""Episodes of each task, by profile."""

MINUTES: dict[str, dict[str, float]] = {
    "pointmaze": {"collect": 2, "augment": 14, "learner": 35, "controller": 5, "evaluate": 10},
    "antmaze": {"collect": 6, "augment": 45, "learner": 30, "controller": 8, "evaluate": 15},
}
"""What the stages are expected to take on two cores in profile `laptop`, by a word of the dataset's id."""


@dataclass(frozen=True)
class Run(Config):
    """One recipe on one dataset at one scale, evaluated with one seed."""

    dataset: str
    recipe: Recipe
    profile: Profile = "laptop"
    training_seed: int = 0
    seed: int = 0

    @property
    def stages(self) -> tuple[str, ...]:
        """The names of the stages, in order."""
        skipped = {"augment": self.recipe.augment is None, "controller": self.recipe.controller is None}
        return tuple(
            name
            for name in ("collect", "augment", "learner", "controller", "evaluate")
            if not skipped.get(name) and (name, self.dataset in PROTOCOLS) != ("collect", False)
        )

    def minutes(self, stage: str) -> float | None:
        """What a stage is expected to take on two cores, if it is known."""
        known = next((times for word, times in MINUTES.items() if word in self.dataset), None)
        return known[stage] if known and self.profile == "laptop" else None


class Line:
    """The stages of a run. Each is done when it is first asked for, unless it was done before."""

    def __init__(self, run: Run) -> None:
        self.run, self.recipe = run, run.recipe

    @cached_property
    def data(self) -> Trajectories:
        """The dataset as it was recorded: what is here, or collected now."""
        path = sources.data_path(self.run.dataset)
        if self.run.dataset in PROTOCOLS and not path.exists():
            with clocked(collected_folder(self.run.dataset)):
                collect.collect(PROTOCOLS[self.run.dataset], path)
        return sources.load(self.run.dataset)

    @cached_property
    def training_data(self) -> Trajectories:
        """What the learner learns from: augmented, or as it was recorded."""
        config = self.recipe.augmentation_for(self.data, self.run.profile)
        return augmentation.augment(self.data, config, seed=self.run.training_seed) if config else self.data

    @cached_property
    def controller(self) -> Controller:
        """What acts in the environment."""
        learner = self._trained("learner")
        policy = self._trained("controller") if self.recipe.controller else None
        execution = self.recipe.execution_for(self.run.dataset, self.run.profile)
        return acting(learner, policy, execution, self._embedding())

    def _embedding(self) -> TemporalDistance | None:
        """The embedding that the data was augmented with, if it was."""
        config = self.recipe.augmentation_for(self.data, self.run.profile)
        if config is None or config.encoder != "temporal":
            return None
        return trained(TemporalDistance, config.embedding, self.data, self.run.training_seed, "embedding")

    def rows(self) -> list[EvalResult]:
        """The evaluation."""
        path = self._evaluation() if not self.pending()[:-1] else None
        if path is None or not path.exists():
            found = evaluate(
                self.controller,
                self.training_data.meta,
                recipe=self.recipe,
                profile=self.run.profile,
                training_seed=self.run.training_seed,
                stages=self.seconds(),
                artifacts={name: self._folder(name).name for name in self.run.stages[:-1]},
                episodes=EPISODES[self.run.profile],
                seed=self.run.seed,
            )
            path = self._evaluation()
            with atomic(path) as temporary:
                append_rows(temporary, [row.to_dict() for row in found])
        return [EvalResult.from_dict(json.loads(line)) for line in path.read_text().splitlines()]

    def pending(self) -> list[str]:
        """The stages that are still to be done; what depends on one of them is too."""
        stages = self.run.stages
        if "collect" in stages and not sources.data_path(self.run.dataset).exists():
            return list(stages)
        open_stages = []
        if self.recipe.augment is not None:
            job = self._job()
            if not finished(augmented_path(job), job):
                open_stages += ["augment", "learner"]
        for name in {"learner", "controller"} & set(stages) - set(open_stages):
            if not (self._folder(name) / "config.json").exists():
                open_stages.append(name)
        if open_stages or not self._evaluation().exists():
            open_stages.append("evaluate")
        return [name for name in stages if name in open_stages]

    def seconds(self) -> dict[str, float]:
        """Wall time of the stages before the evaluation, where it is known."""
        spent = {name: seconds_spent(self._folder(name)) for name in self.run.stages[:-1]}
        return {name: seconds for name, seconds in spent.items() if seconds is not None}

    # --------------------------------------------------------------------------------------------- where its parts are

    def _job(self) -> augmentation.Job:
        config = self.recipe.augmentation_for(self.data, self.run.profile)
        assert config is not None
        return job_of(self.data, config, self.run.training_seed)

    def _part(self, stage: str) -> tuple[type[Model], Any, Trajectories]:
        """Class, config and data of a model that is trained on the way."""
        if stage == "learner":
            data = self.training_data
            return LEARNERS[self.recipe.learner], self.recipe.learner_for(data, self.run.profile), data
        assert self.recipe.controller is not None
        return AGENTS[self.recipe.controller], self.recipe.controller_for(self.data, self.run.profile), self.data

    def _trained(self, stage: str) -> Model:
        kind, config, data = self._part(stage)
        return trained(kind, config, data, self.run.training_seed, getattr(self.recipe, stage))

    def _folder(self, stage: str) -> Path:
        if stage == "collect":
            return collected_folder(self.run.dataset)
        if stage == "augment":
            return augmented_path(self._job()).parent
        kind, config, data = self._part(stage)
        return model_folder(kind, config, data.fingerprint(), self.run.training_seed)

    def _evaluation(self) -> Path:
        parts = [self._folder(name).name for name in ("learner", "controller") if name in self.run.stages]
        execution = self.recipe.execution_for(self.run.dataset, self.run.profile)
        return artifact("evaluation", self.run.to_json(), execution.to_json(), *parts) / "rows.jsonl"


def collected_folder(dataset: str) -> Path:
    """Where it is kept how long a dataset took to collect; the data itself is in the data home."""
    return artifact("collected", dataset)


# ----------------------------------------------------------------------------------------------------- trained models


def train_learner(name: str, data: Trajectories, profile: Profile, seed: int, folder: Path | None = None) -> Model:
    """Train a planner or an agent with the settings for a dataset; without a folder it is kept among the artifacts."""
    configure = configure_planner if name in PLANNERS else configure_agent  # which names what it does not know
    config = configure(name, data, profile)
    if folder is None:
        return trained(LEARNERS[name], config, data, seed, name)
    return train(LEARNERS[name], config, data, seed, folder, name)


@dataclass(frozen=True, eq=False)
class Trained:
    """Trained models, ready to act in their environment, and what is known of how they were made."""

    controller: Controller
    meta: Meta
    recipe: Recipe
    profile: str
    seed: int | None  # of the training
    artifacts: dict[str, str]  # the folders by name

    @classmethod
    def load(cls, folder: Path, controller: Path | None = None, embedding: Path | None = None, **options: Any) -> Self:
        """From their folders; the options are those of `of`."""
        learner, policy = load_learner(folder), load_learner(controller) if controller else None
        ranking = TemporalDistance.load(embedding) if embedding else None
        folders = {"learner": folder.name, **({"controller": controller.name} if controller else {})}
        return replace(cls.of(learner, policy, ranking, **options), artifacts=folders)

    @classmethod
    def of(
        cls,
        learner: Model,
        policy: Model | None = None,
        embedding: TemporalDistance | None = None,
        dataset: str | None = None,
        settings: dict[str, Any] | None = None,
    ) -> Self:
        """A planner with the agent that follows its plans, or an agent by itself.

        The embedding ranks candidate plans: by default the one that the planner's data was stitched by, if it is still
        kept. `dataset` is what they were trained on, for models that do not know it; `settings` change how plans are
        followed.
        """
        check_parts(learner, policy)
        meta = learner.meta
        if dataset is not None:
            meta = replace(meta_of_id(dataset), provenance=meta.provenance)
        for model in (learner, policy, embedding):
            if model is not None:
                check_world(model, meta)
        embedding, settings = embedding or kept_embedding(meta), settings or {}
        if policy and not embedding:  # there is nothing to rank plans with, so the first is taken
            settings = {"candidates": 1, **settings}
        recipe = recipe_of(learner, policy, {f"execution.{name}": value for name, value in settings.items()})
        place, profile = meta.dataset or "", learner.config.profile
        controller = acting(learner, policy, recipe.execution_for(place, profile), embedding)
        return cls(controller, meta, recipe.plain(place, profile), profile, learner.seed, {})

    def evaluate(self, tasks: Sequence[Task] | None = None, **options: Any) -> list[EvalResult]:
        """Success per task; the options are those of `evaluation.evaluate`."""
        return evaluate(
            self.controller,
            self.meta,
            tasks,
            recipe=self.recipe,
            profile=self.profile,
            training_seed=self.seed,
            artifacts=self.artifacts,
            **options,
        )


def kept_embedding(meta: Meta) -> TemporalDistance | None:
    """The embedding that data was stitched by, if it was and the embedding is still among the artifacts."""
    made = stitched_by(meta)
    return made.embedding() if made and made.config.encoder == "temporal" else None


def meta_of_id(dataset: str) -> Meta:
    """What is known of a dataset from its id, whether its data is here or not."""
    if dataset in PROTOCOLS:
        return meta_of(PROTOCOLS[dataset])
    return sources.load(dataset).meta


def load_learner(folder: Path) -> Model:
    """A trained planner or agent, whichever a folder holds."""
    try:
        name = json.loads((folder / "config.json").read_text())["model"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadInput(f"{folder}: not the folder of a trained model ({error}); make one with `scots train`") from error
    kinds = {kind.__name__: kind for kind in LEARNERS.values()}
    if name not in kinds:
        raise BadInput(f"{folder}: holds a {name}, which is neither a planner nor an agent")
    return kinds[name].load(folder)


def acting(
    learner: Model, policy: Model | None, execution: Execution, embedding: TemporalDistance | None = None
) -> Controller:
    """A planner with the policy that follows its plans, or an agent by itself. An embedding ranks candidate plans."""
    if policy is None:
        return GoalController(cast(Policy, learner))
    planner, position = cast(Planner, learner), learner.meta.position
    if execution.candidates > 1:
        if embedding is None:
            raise BadInput(f"{execution.candidates} plans need an embedding that ranks them: give --embedding DIR")
        support, encode = cast(Agent, policy).support, partial(embedding.encode_places, position)
        planner = copy(planner)  # that of the caller stays as it is
        planner.choose = BestOf(support, encode, planner.stride, execution.candidates)
    return SubgoalController(planner, cast(Policy, policy), execution, position)


def check_parts(learner: Model, policy: Model | None) -> None:
    """A planner needs an agent that follows its plans, and an agent acts by itself."""
    plans = isinstance(learner, tuple(PLANNERS.values()))
    if plans and policy is None:
        raise BadInput(f"{type(learner).__name__} only plans: give the agent that follows its plans (--controller DIR)")
    if not plans and policy is not None:
        raise BadInput(f"{type(learner).__name__} acts by itself: it takes no controller")
    if isinstance(policy, tuple(PLANNERS.values())):
        raise BadInput(f"the controller must be an agent, not a planner ({type(policy).__name__})")


def recipe_of(learner: Model, policy: Model | None, settings: dict[str, Any]) -> Recipe:
    """The recipe behind trained models, as far as they tell."""
    names = {kind: name for name, kind in LEARNERS.items()}
    stitching = learner.meta.stitching
    augment = None if stitching is None else stitching.get("recipe", "custom")
    return Recipe(augment, names[type(learner)], names[type(policy)] if policy else None, settings)


def check_world(model: Model, meta: Meta) -> None:
    """A model is of use in the world and for the data that it was trained for: its scales mean nothing elsewhere."""
    own, name = model.meta, type(model).__name__
    if own.environment != meta.environment:
        known = own.environment or "an unknown environment"
        raise BadInput(f"the {name} was trained for {known}, not for {meta.environment}")
    if own.maze != meta.maze:
        raise BadInput(f"the {name} was trained for another maze of the name {meta.environment}")
    if own.dataset and meta.dataset and own.dataset != meta.dataset:
        raise BadInput(f"the {name} was trained on {own.dataset}, not on {meta.dataset}")
