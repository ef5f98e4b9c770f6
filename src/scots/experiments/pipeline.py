"""One recipe on one dataset, stage by stage, from collecting the data to result rows.

    data -> augment -> planner \
    data ------------> agent    > evaluate
    data ------------> search  /

Every stage has a pure key: a hash of its config and of the keys of the stages it builds on. Asking for a key, a folder
or whether a stage is done never makes anything; only `run` does, and it continues what was interrupted.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from scots.agents import AGENTS
from scots.agents.base import Agent
from scots.augmenters import augmenter_of
from scots.augmenters.embedding import TemporalDistanceConfig
from scots.core.config import Config, Profile
from scots.core.errors import BadInput
from scots.core.files import append_rows, atomic, write_text
from scots.core.locks import locked
from scots.data import formats
from scots.data.shards import validation_path
from scots.data.trajectories import Meta, Trajectories, concat
from scots.datasets.collect import collect, collection_job
from scots.datasets.loading import data_path, load
from scots.datasets.protocols import CollectionSpec
from scots.datasets.specs import SPECS, DatasetSpec, spec_of
from scots.envs import environment_class
from scots.envs.base import Task
from scots.evaluation.control import Controller
from scots.evaluation.results import EvalResult, Subject, evaluate
from scots.experiments.models import (
    SearchParts,
    build_controller,
    embedding_config,
    load_state_encoding,
    save_state_encoding,
)
from scots.experiments.recipe import Recipe, Settings
from scots.models.cache import artifact_folder, is_trained, key_of, model_key, record_time, seconds_spent, train
from scots.models.training import Model
from scots.planners import PLANNERS
from scots.planners.base import PlannerModel

EPISODES: dict[str, int] = {"smoke": 2, "laptop": 50, "paper": 50}
"""Episodes of each task, by profile."""

_SEED = 0  # of collected data, whatever the run is seeded with


@dataclass(frozen=True)
class Run(Config):
    """One recipe on one dataset at one scale, evaluated with one seed."""

    dataset: str
    recipe: Recipe
    profile: Profile = "laptop"
    training_seed: int = 0
    seed: int = 0
    pairs: int = 0  # random pairs of start and goal, one episode each; 0: the tasks of the benchmark


# ------------------------------------------------------------------------------------------------------------- stages


class Stage(ABC):
    """One step of a pipeline. What it makes is in a folder named by its key."""

    name: str

    @abstractmethod
    def key(self) -> str:
        """What decides the outcome, as a hash; computing it makes nothing."""

    @property
    def folder(self) -> Path:
        """Where what it makes is or will be."""
        return artifact_folder(self.name, self.key())

    @property
    @abstractmethod
    def is_done(self) -> bool:
        """Whether what it makes is there."""

    @abstractmethod
    def run(self) -> None:
        """Make it, continuing what is half done; the stages it builds on are done."""

    @property
    def seconds(self) -> float | None:
        """Wall time that was spent on it, if it is known."""
        return seconds_spent(self.folder)


class DataStage(Stage):
    """The data as it was recorded: what is here, or collected now."""

    name = "collect"

    def __init__(self, dataset: str, collection: CollectionSpec | None = None) -> None:
        """A collection that is given, such as a part of the dataset, is what the file must hold instead."""
        self.dataset = dataset
        self._collection = collection or (SPECS[dataset].collection if dataset in SPECS else None)

    def key(self) -> str:
        """Of collected data what its file says of itself, or would say; of other data the content."""
        if self._collection is None:
            return self.data.fingerprint()
        meta = self._checked_meta() or collection_job(self._collection).described(False)
        return key_of("data", meta.to_json()) if meta.provenance else self.data.fingerprint()

    @property
    def is_done(self) -> bool:
        """Whether there is nothing to collect."""
        return self._collection is None or self._checked_meta() is not None

    def run(self) -> None:
        """Collect the dataset in the simulator."""
        assert self._collection is not None
        collect(self._collection, data_path(self.dataset), seed=_SEED)

    @cached_property
    def data(self) -> Trajectories:
        """The recorded data."""
        return load(self.dataset)

    def meta(self) -> Meta:
        """What the data says of itself, or what is known of it before it is collected."""
        if self._collection is None or data_path(self.dataset).exists():
            return self.data.meta
        return self._collection.meta()

    def spec(self) -> DatasetSpec:
        """The settings of the dataset."""
        path = data_path(self.dataset)
        is_custom = path.exists() and formats.read_meta(path).maze
        return SPECS[self.dataset] if self.dataset in SPECS and not is_custom else spec_of(self.data)

    def _checked_meta(self) -> Meta | None:
        """What the file says of itself, if it is there; one that was collected otherwise is refused."""
        path, expected = data_path(self.dataset), self._collection
        if expected is None or not path.exists():
            return None
        meta = formats.read_meta(path)
        if differences := _differences(meta, expected):
            raise BadInput(
                f"{path}: holds {', '.join(differences)}; collect it again with --force, or give the file by its path"
            )
        return meta


def _differences(meta: Meta, expected: CollectionSpec) -> list[str]:
    """How a file that was made here differs from the dataset that its place says it is; nothing of other files."""
    first = meta.provenance[0] if meta.provenance else {}
    if first.get("origin") != expected.origin:
        return []
    found, wanted = first.get("protocol", {}), expected.to_dict()
    differing = [name for name, value in wanted.items() if found.get(name) != value]
    words = [_difference(name, found.get(name), wanted[name]) for name in differing]
    if first.get("seed") != _SEED:
        words.append(f"episodes of seed {first.get('seed')} where the dataset has seed {_SEED}")
    if meta.maze:
        words.append("a custom maze where the dataset has one of the benchmark")
    if meta.augmentation:
        words.append("augmented data where the dataset is as it was recorded")
    return words


def _difference(name: str, found: Any, wanted: Any) -> str:
    if name == "episodes" and isinstance(found, int):
        return f"{found:,} episodes where the dataset has {wanted:,}"
    return f"{name} {found} where the dataset has {wanted}"


class AugmentStage(Stage):
    """The data as an augmenter makes it."""

    name = "augment"

    def __init__(self, source: DataStage, augmenter: str, config: Any, seed: int, profile: Profile) -> None:
        self._source, self._augmenter, self._config = source, augmenter, config
        self._seed, self._profile = seed, profile

    def key(self) -> str:
        """The augmenter, its config, the data and the seed."""
        return key_of("augment", self._augmenter, self._config.to_json(), self._source.key(), str(self._seed))

    @property
    def path(self) -> Path:
        """Where the augmented data is or will be."""
        return self.folder / "augmented.npz"

    @property
    def is_done(self) -> bool:
        """Whether the data and its validation twin, which is written last, are there."""
        return self.path.exists() and validation_path(self.path).exists()

    def run(self) -> None:
        """Augment."""
        augmenter_of(self._augmenter).augment(
            self._source.data, self._config, seed=self._seed, out=self.path, profile=self._profile
        )

    @cached_property
    def data(self) -> Trajectories:
        """The augmented data."""
        return formats.read(self.path)


class BothData:
    """The augmented episodes and the recorded ones, in one dataset."""

    def __init__(self, source: DataStage, augment: AugmentStage) -> None:
        self._source, self._augment = source, augment

    def key(self) -> str:
        """The keys of both."""
        return key_of("both", self._augment.key(), self._source.key())

    @cached_property
    def data(self) -> Trajectories:
        """All episodes; what is said of them is what the augmented ones say."""
        return concat([self._augment.data, self._source.data])


class ModelStage(Stage):
    """A planner or an agent trained on data."""

    def __init__(
        self,
        name: str,
        kind: type[Model],
        config: Any,
        source: DataStage | AugmentStage | BothData,
        run: Run,
        default: Any,
    ) -> None:
        self.name, self._kind, self._config, self._source, self._run = name, kind, config, source, run
        self._default = default

    def key(self) -> str:
        """The class, its config, the data and the seed."""
        return model_key(self._kind, self._config, self._source.key(), self._run.training_seed)

    @property
    def is_done(self) -> bool:
        """Whether the model is trained."""
        return is_trained(self.folder)

    def run(self) -> None:
        """Train."""
        save_state_encoding(self.folder, self._source.data.meta)
        train(
            self._kind,
            self._config,
            self._source.data,
            self._run.training_seed,
            self.folder,
            self._kind.__name__,
            profile=self._run.profile,
            changes=self._config.changes_from(self._default),
        )

    @cached_property
    def model(self) -> Model:
        """The trained model."""
        return self._kind.load(self.folder, self._config)


class SearchStage(Stage):
    """What plan search and planners that need distances need of the recorded data, kept in the planner's folder."""

    name = "search"

    def __init__(self, source: DataStage, planner: ModelStage, config: TemporalDistanceConfig, seed: int) -> None:
        self._source, self._planner, self._config, self._seed = source, planner, config, seed

    def key(self) -> str:
        """The embedding's config, the data, the seed, and the planner whose folder it is in."""
        parts = self._config.to_json(), self._source.key(), str(self._seed), self._planner.key()
        return key_of("search", *parts)

    @property
    def folder(self) -> Path:
        """Where a planner's folder keeps it."""
        return self._planner.folder / "search"

    @property
    def is_done(self) -> bool:
        """Whether both parts of this key are there."""
        path = self.folder / "key"
        return SearchParts.are_in(self.folder) and path.exists() and path.read_text() == self.key()

    def run(self) -> None:
        """Train the embedding, unless the augmentation has, and take the support."""
        SearchParts.of(self._source.data, self._config, self._seed).save(self.folder)
        write_text(self.folder / "key", self.key())

    @cached_property
    def parts(self) -> SearchParts:
        """Both parts."""
        return SearchParts.load(self.folder)


# ----------------------------------------------------------------------------------------------------------- pipeline


class Pipeline:
    """The stages of a run. `pending` says what is left, `rows` does it."""

    def __init__(self, run: Run, collection: CollectionSpec | None = None) -> None:
        """A collection that is given, such as a part of the dataset, is used in place of the dataset's own."""
        self.run = run
        self.source = DataStage(run.dataset, collection)
        self.spec = self.source.spec()
        self.recipe = run.recipe.normalized(self.spec, run.profile)
        self.settings = self.recipe.resolve(self.spec, run.profile)
        self.augment = self._augment_stage()
        self.planner = self._planner_stage()
        self.agent = self._agent_stage()
        self.search = self._search_stage()
        collect = self.source if self.spec.collection else None
        every = (collect, self.augment, self.planner, self.agent, self.search)
        self.stages: dict[str, Stage] = {stage.name: stage for stage in every if stage is not None}

    def _augment_stage(self) -> AugmentStage | None:
        name, run = self.recipe.augmenter, self.run
        if name is None:
            return None
        return AugmentStage(self.source, name, self.settings.augmenter, run.training_seed, run.profile)

    @cached_property
    def _learned_from(self) -> DataStage | AugmentStage | BothData:
        """What the planner, or an agent by itself, learns from."""
        if self.augment is None:
            return self.source
        keeps = self.settings.data is not None and self.settings.data.keep_recorded
        return BothData(self.source, self.augment) if keeps else self.augment

    def _planner_stage(self) -> ModelStage | None:
        if self.recipe.planner is None:
            return None
        kind = PLANNERS[self.recipe.planner]
        return ModelStage("planner", kind, self.settings.planner, self._learned_from, self.run, self._defaults.planner)

    def _agent_stage(self) -> ModelStage | None:
        if self.recipe.agent is None:
            return None
        kind, source = AGENTS[self.recipe.agent], self.source if self.planner else self._learned_from
        return ModelStage("agent", kind, self.settings.agent, source, self.run, self._defaults.agent)

    def _search_stage(self) -> SearchStage | None:
        if self.planner is None or not self.recipe.needs_search_parts(self.settings):
            return None
        embedding = embedding_config(self.settings.augmenter, self.spec, self.run.profile)
        return SearchStage(self.source, self.planner, embedding, self.run.training_seed)

    @cached_property
    def _defaults(self) -> Settings:
        """The settings of the recipe before its overrides."""
        return self.recipe.defaults(self.spec, self.run.profile)

    @property
    def data(self) -> Trajectories:
        """The data as it was recorded."""
        return self.source.data

    @property
    def training_data(self) -> Trajectories:
        """What the planner, or an agent by itself, learns from."""
        return self._learned_from.data

    def pending(self) -> list[str]:
        """The stages that are still to be done, the evaluation included."""
        left = [name for name, stage in self.stages.items() if not stage.is_done]
        return left if self._rows_path().exists() and not left else [*left, "evaluate"]

    def seconds(self) -> dict[str, float]:
        """Wall time of the stages before the evaluation, where it is known."""
        spent = {name: stage.seconds for name, stage in self.stages.items()}
        return {name: seconds for name, seconds in spent.items() if seconds is not None}

    def complete(self) -> None:
        """Run what is left of the stages before the evaluation, in order."""
        for stage in self.stages.values():
            if not stage.is_done:
                with locked(stage.folder):
                    if not stage.is_done:  # made by another process in the meantime
                        with record_time(stage.folder):
                            stage.run()

    def rows(self) -> list[EvalResult]:
        """The evaluation, with every stage before it."""
        environment_class(
            Meta(self.run.dataset, self.source.meta().environment)
        )  # refuses what cannot be evaluated at once
        self.complete()
        path = self._rows_path()
        with nullcontext() if path.exists() else locked(path):
            if not path.exists():
                found = evaluate(self.subject, self._tasks(), episodes=self._episodes(), seed=self.run.seed)
                with atomic(path) as temporary:
                    append_rows(temporary, [row.to_dict() for row in found])
        return [EvalResult.from_dict(json.loads(line)) for line in path.read_text().splitlines()]

    @cached_property
    def subject(self) -> Subject:
        """What is evaluated; every stage before the evaluation is done."""
        settings, trained_on = self.settings, self.training_data.meta
        meta = replace(self.data.meta, provenance=trained_on.provenance)  # a planner may learn from positions alone
        acting = self.agent or self.planner
        encoding = load_state_encoding(acting.folder if acting else None, meta)
        return Subject(
            controller=self._controller(),
            encode=encoding.encode if encoding else None,
            meta=meta,
            recipe=self.recipe.to_dict(),
            profile=self.run.profile,
            training_seed=self.run.training_seed,
            step_limits=self.spec.step_limits,
            reference_returns=self.spec.reference_returns,
            following=settings.following.to_dict() if settings.following else None,
            search=settings.search.to_dict() if settings.search else None,
            stages=self.seconds(),
            artifacts={name: stage.key() for name, stage in self.stages.items()},
        )

    def _tasks(self) -> tuple[Task, ...]:
        """The tasks to evaluate; none stands for those of the environment."""
        meta, run = self.source.meta(), self.run
        return environment_class(meta).random_tasks(meta, run.pairs, run.seed) if run.pairs else ()

    def _episodes(self) -> int:
        """Episodes of each task."""
        return 1 if self.run.pairs else EPISODES[self.run.profile]

    def _controller(self) -> Controller:
        planner = cast(PlannerModel, self.planner.model) if self.planner else None
        parts = self.search.parts if self.search else None
        agent = cast(Agent, self.agent.model) if self.agent else None
        return build_controller(planner, agent, self.settings.following, self.settings.search, parts)

    def _rows_path(self) -> Path:
        """Where the rows of the evaluation are or will be."""
        run, settings = self.run, self.settings
        decided = [
            self.recipe.to_json(),
            *(config.to_json() for config in (settings.planner, settings.following, settings.search) if config),
            f"{run.profile}, seed {run.seed}, {self._episodes()} episodes, limits {self.spec.step_limits}",
            *([f"{run.pairs} random pairs"] if run.pairs else []),
        ]
        key = key_of("evaluate", *decided, *(stage.key() for stage in self.stages.values()))
        return artifact_folder("evaluate", key) / "rows.jsonl"
