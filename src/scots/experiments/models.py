"""Trained planners and agents as folders: training them, what plan search needs beside them, putting them to work."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self, cast

import numpy as np

from scots.agents import AGENTS
from scots.agents.base import Agent
from scots.augmenters import augmenter_of
from scots.augmenters.embedding import TemporalDistance, TemporalDistanceConfig
from scots.augmenters.refinement import InverseDynamics, Stitcher
from scots.augmenters.scots import Stitched, stitched_by
from scots.augmenters.settings import ScotsConfig
from scots.core.config import Config, Profile
from scots.core.console import console
from scots.core.errors import BadInput
from scots.core.locks import locked
from scots.data.choices import flags_of, kept_choices
from scots.data.scans import encoding_step
from scots.data.strides import StrideDistances
from scots.data.support import Support
from scots.data.trajectories import Array, Meta, Trajectories
from scots.data.ways import RecordedWays
from scots.datasets.encoding import StateEncoding
from scots.datasets.loading import known_meta, load
from scots.datasets.specs import DatasetSpec, spec_of, spec_of_meta
from scots.evaluation.action_control import ActionController
from scots.evaluation.control import Controller, GoalController, PlanFollowing, SubgoalController
from scots.evaluation.results import Subject
from scots.experiments.recipe import Recipe, check_search
from scots.models.cache import load_or_train, model_folder, train
from scots.models.scan_encoder import ScanEncoder
from scots.models.training import NO_LIMITS, Limits, Model, identity, read_description
from scots.planners import PLANNERS
from scots.planners.base import BridgingPlanner, Planner, PlannerModel
from scots.planners.search import PlanSearch, SearchConfig, SearchingPlanner, WholePlanSearch
from scots.planners.shortest_path import OraclePath, ShortestPathConfig

# ------------------------------------------------------------------------------------------------------------- search


@dataclass(frozen=True, eq=False)
class PositionEmbedding:
    """A learned embedding as plan search sees it: positions in, steps between them out."""

    embedding: TemporalDistance
    columns: tuple[int, ...]  # of an observation that are the position

    def encode(self, positions: Array) -> Array:
        """(N, P) -> latents (N, Z)."""
        return self.embedding.encode_positions(self.columns, positions)

    def distance(self, start: Array, goal: Array) -> Array:
        """Steps between latents (..., Z) -> (...)."""
        return self.embedding.distance(start, goal)


@dataclass(frozen=True, eq=False)
class SearchParts:
    """What plan search needs beside a planner, all from recorded data. They are saved in the planner's folder."""

    embedding: TemporalDistance
    support: Support
    strides: StrideDistances
    ways: RecordedWays

    @classmethod
    def of(cls, data: Trajectories, config: TemporalDistanceConfig, seed: int) -> Self:
        """The embedding of recorded data, from the cache or trained now, its support, and both measured together."""
        embedding = load_or_train(TemporalDistance, config, data, seed, "embedding")
        return cls(embedding, Support.of(data), embedding.stride_distances(data), RecordedWays.of(data))

    def save(self, folder: Path) -> None:
        """Write all of them into a folder."""
        self.embedding.save(folder / "embedding")
        self.strides.save(folder / "strides.npz")
        self.ways.save(folder / "ways.npz")
        self.support.save(folder / "support.npz")

    @staticmethod
    def are_in(folder: Path) -> bool:
        """Whether a folder holds them; the support is written last."""
        return all((folder / f"{name}.npz").exists() for name in ("strides", "ways", "support"))

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read what `save` wrote."""
        return cls(
            TemporalDistance.load(folder / "embedding"),
            Support.load(folder / "support.npz"),
            StrideDistances.load(folder / "strides.npz"),
            RecordedWays.load(folder / "ways.npz"),
        )

    @property
    def encoder(self) -> PositionEmbedding:
        """The embedding for positions."""
        return PositionEmbedding(self.embedding, self.embedding.meta.position)

    def search(self, planner: PlannerModel, config: SearchConfig) -> SearchingPlanner:
        """A planner that searches for the best of another's plans, part by part where that is possible."""
        check_search(type(planner), config)
        planner.encoder = self.encoder
        parts = planner.encoder, self.support, self.strides, config
        if planner.has_bridges:
            return PlanSearch(cast(BridgingPlanner, planner), *parts)
        return WholePlanSearch(planner, *parts)


def embedding_config(augmentation: Any, spec: DatasetSpec, profile: Profile) -> TemporalDistanceConfig:
    """The embedding to search plans with: that of the augmentation, so that it is trained once, or SCoTS's default."""
    scots = augmentation if isinstance(augmentation, ScotsConfig) else augmenter_of("scots").configure(spec, profile)
    return cast(ScotsConfig, scots).embedding


# ----------------------------------------------------------------------------------------------------------- training


def augment(
    data: Trajectories,
    augmenter: str = "scots",
    profile: Profile = "laptop",
    changes: Mapping[str, Any] | None = None,
    *,
    seed: int = 0,
    out: Path | None = None,
    workers: int | None = None,
) -> Trajectories:
    """Augment a dataset with the settings for it at a profile's scale; `changes` replaces some, by dotted path."""
    member, spec = augmenter_of(augmenter), spec_of(data)
    config = member.configure(spec, profile).replace_all(changes or {})
    _announce(spec, member.described(config))
    return member.augment(data, config, seed=seed, out=out, profile=profile, workers=workers)


def _announce(spec: DatasetSpec, lengths: str) -> None:
    """Say of data without published settings what was measured on it, and the lengths that are really used."""
    if not spec.is_published:
        said = "; ".join(filter(None, (spec.measured(), lengths)))
        console.print(f"no published settings for this data: {said}", highlight=False, soft_wrap=True)


def train_model(
    name: str,
    data: Trajectories,
    *,
    profile: Profile = "laptop",
    seed: int = 0,
    folder: Path | None = None,
    recorded: Trajectories | None = None,
    changes: Mapping[str, Any] | None = None,
    force: bool = False,
    steps: int | None = None,
    limits: Limits = NO_LIMITS,
    alone: bool = False,
) -> Model:
    """Train a planner or an agent with the settings for a dataset, in a folder or in the cache.

    `steps` is the setting "training.steps"; `limits` may end training before. An agent that is to act `alone` has other
    settings than one that follows plans; most agents are always trained to act alone.

    Plan search needs an embedding and the support of the recorded data; they are saved with a planner where `recorded`
    is given, or where the cache still has the embedding that the planner's data was stitched with.
    """
    spec = spec_of(data)
    kind, default = _configured(name, spec, data, profile, alone)
    config = default.replace_all({**(changes or {}), **({} if steps is None else {"training.steps": steps})})
    _announce(spec, kind.described(config) if issubclass(kind, PlannerModel) else "")
    if recorded is not None and issubclass(kind, PlannerModel):
        recorded = as_augmented(recorded, data)  # or say now, before anything is trained, that it is other data
    folder = folder or model_folder(kind, config, data.fingerprint(), seed)
    origin: dict[str, Any] = {"profile": profile, "changes": config.changes_from(default)}
    with locked(folder):
        if force:
            for file in ("config.json", "model.safetensors", "checkpoint.safetensors", "search/support.npz"):
                (folder / file).unlink(missing_ok=True)
        save_state_encoding(folder, data.meta)
        model = train(kind, config, data, seed, folder, name, limits=limits, **origin)
        if isinstance(model, PlannerModel):
            if model.needs_distances(config) and recorded is None and data.meta.augmentation is None:
                recorded = data
            save_search_parts(folder, data, recorded, profile, seed)
    return model


def save_state_encoding(folder: Path, meta: Meta) -> None:
    """Put into a model's folder what makes states of observations, if its data was made so: it acts with it."""
    if encoding := StateEncoding.behind(meta):
        encoding.save(folder / "states")


def load_state_encoding(folder: Path | None, meta: Meta) -> StateEncoding | None:
    """What makes the states that a model in this folder has learned with; None where observations are states."""
    if encoding_step(meta) is None:
        return None
    return StateEncoding.load(folder / "states") if folder else StateEncoding.behind(meta)


def _configured(
    name: str, spec: DatasetSpec, data: Trajectories, profile: Profile, alone: bool
) -> tuple[type[Model], Config]:
    """The class of a planner or agent and its settings for a dataset."""
    if name in PLANNERS:
        return PLANNERS[name], PLANNERS[name].configure(spec, int(np.median(data.lengths)), profile)
    if name in AGENTS:
        agent = AGENTS[name]
        return agent, agent.configure(spec, profile, alone=alone or not agent.follows_plans)
    raise BadInput(f"{name!r} is neither a planner ({', '.join(PLANNERS)}) nor an agent ({', '.join(AGENTS)})")


def save_search_parts(
    folder: Path,
    data: Trajectories,
    recorded: Trajectories | None = None,
    profile: Profile = "laptop",
    seed: int = 0,
) -> None:
    """Save what plan search needs in the folder of a planner: made of the recorded data, or what stitching left."""
    stitched, augmentation = stitched_by(data.meta), data.meta.augmentation
    if recorded is not None:
        recorded = as_augmented(recorded, data)
        config = embedding_config(stitched.config if stitched else None, spec_of(recorded), profile)
        SearchParts.of(recorded, config, stitched.seed if stitched else seed).save(folder / "search")
    elif stitched and (parts := _cached_search_parts(stitched)):
        parts.save(folder / "search")
    elif augmentation is not None:
        console.print(
            "plan search will not be possible with this planner: the cache has no embedding of its recorded data; "
            "--recorded DATA makes one",
            soft_wrap=True,
        )


def as_augmented(recorded: Trajectories, data: Trajectories) -> Trajectories:
    """Recorded data with the position that it was augmented with; refused if it is not what this data was made from."""
    stitched, augmentation = stitched_by(data.meta), data.meta.augmentation
    if not (stitched and stitched.is_of_positions):
        recorded = recorded.with_meta(position=data.meta.position, angles=data.meta.angles)
    if augmentation and augmentation["source"] != recorded.fingerprint():
        raise BadInput(
            f"the planner's data was augmented from data of fingerprint {augmentation['source']}, that of "
            f"--recorded is {recorded.fingerprint()}; {_original_remedy(data.meta)}"
        )
    return recorded


def _original_remedy(made: Meta) -> str:
    """What to do about a wrong original."""
    flags = flags_of(kept_choices(made))
    return "give the data that was augmented" + (f", as it was read then: {flags}" if flags else "")


def _cached_search_parts(stitched: Stitched) -> SearchParts | None:
    """What plan search needs, as stitching left it in the cache."""
    parts = stitched.embedding(), stitched.support(), stitched.strides(), stitched.ways()
    return None if None in parts else SearchParts(*parts)  # type: ignore[arg-type]


def load_model(folder: str | Path) -> Model:
    """The trained model that a folder holds: a planner, an agent, or a part of the augmenter."""
    folder = Path(folder)
    try:
        name = json.loads(read_description(folder))["model"]
    except (BadInput, OSError, ValueError, KeyError, TypeError) as error:
        raise BadInput(f"{folder}: not the folder of a trained model ({error}); make one with `scots train`") from error
    parts: tuple[type[Model], ...] = (TemporalDistance, Stitcher, InverseDynamics, ScanEncoder)
    kinds = {kind.__name__: kind for kind in (*PLANNERS.values(), *AGENTS.values(), *parts)}
    if name not in kinds:
        raise BadInput(f"{folder}: holds a {name}, which is not a known model; it has {', '.join(kinds)}")
    return kinds[name].load(folder)


# ------------------------------------------------------------------------------------------------------------- acting


def build_controller(
    planner: PlannerModel | None,
    agent: Agent | None,
    following: PlanFollowing | None,
    search: SearchConfig | None,
    parts: SearchParts | None,
) -> Controller:
    """What acts in an environment: an agent by itself, or one that follows the plans of a planner or of a search.

    Plans of actions are carried out without an agent.
    """
    if planner is None:
        assert agent is not None
        return GoalController(agent)
    assert following is not None
    if agent is None:
        return ActionController(planner, following, planner.columns)
    plans: Planner = planner
    if search and search.is_on:
        if parts is None:
            raise BadInput(
                f"searching among {search.candidates} candidates needs the embedding and the support of the recorded "
                f"data, which are not in {planner.folder}: train the planner with --recorded DATA, or evaluate with "
                "--candidates 1"
            )
        plans = parts.search(planner, search)
    elif parts is not None:
        planner.encoder = parts.encoder
    # The agent acts on whole observations; the planner may have learned from data that holds nothing but positions.
    return SubgoalController(plans, agent, following, agent.meta.position or planner.columns, agent.passage)


def oracle_for(agent: Model) -> PlannerModel:
    """A planner that knows the true map, at the pace of the data that an agent learned from."""
    if agent.meta.dataset is None:
        raise BadInput(f"the {type(agent).__name__} does not know its dataset, so no map is known")
    data = load(agent.meta.dataset)
    planner = OraclePath.for_data(ShortestPathConfig(), data)
    planner.meta, planner.data_fingerprint = data.meta, data.fingerprint()
    planner.profile, planner.seed = agent.profile, agent.seed
    return planner


def subject_of(
    model: Model, agent: Model | None = None, dataset: str | None = None, changes: Mapping[str, Any] | None = None
) -> Subject:
    """Trained models ready to be evaluated: a planner with the agent that follows its plans, or an agent by itself.

    `dataset` is the id they were trained on, for models that do not know it. `changes` are settings of how plans are
    followed and searched for, such as {"following.replan_every": 0, "search.candidates": 4}.
    """
    planner, policy = _parts(model, agent)
    meta = model.meta if dataset is None else replace(known_meta(dataset), provenance=model.meta.provenance)
    for part in (planner, policy):
        if part is not None:
            _check_environment(part, meta)
    spec = spec_of_meta(meta, columns=len(meta.columns), episode_states=0)  # nothing here depends on these two
    following = PlanFollowing.configure(spec, model.profile) if planner else None
    search = SearchConfig() if planner else None
    settings = {"following": following, "search": search}
    for path, value in (changes or {}).items():
        part_name, _, rest = path.partition(".")
        if (config := settings.get(part_name)) is None:
            raise BadInput(f"{path!r} is not a setting of how plans are followed or searched for")
        settings[part_name] = config.replace_at(rest, value)
    following, search = settings["following"], settings["search"]  # type: ignore[assignment]
    trained = _trained_parts(planner, policy)
    is_used = planner and search and (search.is_on or planner.needs_distances(planner.config))
    saved = planner.folder / "search" if planner and planner.folder and is_used else None
    parts = SearchParts.load(saved) if saved and SearchParts.are_in(saved) else None
    encoding = load_state_encoding(model.folder, meta)
    return Subject(
        controller=build_controller(planner, policy, following, search, parts),
        encode=encoding.encode if encoding else None,
        meta=meta,
        recipe=_recipe_of(planner, policy, spec, following, search).to_dict(),
        profile=_shared(part.profile for part in trained) or "custom",
        training_seed=_shared(part.seed for part in trained),
        step_limits=spec.step_limits,
        reference_returns=spec.reference_returns,
        following=following.to_dict() if following else None,
        search=search.to_dict() if search else None,
        artifacts={part.name: part.identity for part in trained},
    )


@dataclass(frozen=True)
class _TrainedPart:
    """What a row tells of one part of what was trained."""

    name: str
    profile: str | None
    seed: int | None
    identity: str  # a hash of all that decided it


def _trained_parts(planner: PlannerModel | None, agent: Agent | None) -> list[_TrainedPart]:
    """The models and the augmentation behind them, with the profile and seed of each.

    An agent that follows plans should have learned from the recorded data: one that has not is of no profile. Neither
    is a model whose training was ended early.
    """
    named = {"agent": agent, "planner": planner}
    parts = [_trained_part(name, model) for name, model in named.items() if model is not None]
    trained = _trained(planner, agent)
    augmentation, recorded = trained.meta.augmentation, trained.data_fingerprint
    if augmentation:
        made, recorded = json.dumps(augmentation, sort_keys=True), augmentation["source"]
        parts.append(_TrainedPart("augment", augmentation["profile"], augmentation["seed"], _hashed(made)))
    if planner and agent and agent.data_fingerprint != recorded:
        parts[0] = replace(parts[0], profile=None)
    return parts


def _trained(planner: PlannerModel | None, agent: Agent | None) -> Model:
    """The model that learned from the augmented data, if any was."""
    model = planner or agent
    assert model is not None
    return model


def _trained_part(name: str, model: Model) -> _TrainedPart:
    profile = model.profile if model.stopped_at is None else None
    return _TrainedPart(name, profile, model.seed, _hashed(identity(model)))


def _hashed(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _shared(values: Iterable[Any]) -> Any:
    """The value that all have, or None."""
    first, *others = values
    return first if all(value == first for value in others) else None


def _parts(model: Model, agent: Model | None) -> tuple[PlannerModel | None, Agent | None]:
    """The planner, if there is one, and the agent, unless the planner plans actions."""
    if isinstance(model, PlannerModel):
        if model.plans_actions:
            if agent is not None:
                raise BadInput(f"{type(model).__name__} plans actions: it takes no controller")
            return model, None
        if agent is None:
            name = type(model).__name__
            raise BadInput(f"{name} only plans: give the agent that follows its plans (--controller DIR)")
        if not isinstance(agent, Agent):
            raise BadInput(f"the controller must be an agent, not a {type(agent).__name__}")
        return model, agent
    if not isinstance(model, Agent):
        raise BadInput(f"a {type(model).__name__} does not act: give a planner with its controller, or an agent")
    if agent is not None:
        raise BadInput(f"{type(model).__name__} acts by itself: it takes no controller")
    return None, model


def _check_environment(model: Model, meta: Meta) -> None:
    """Refuse a model that was trained for another environment or dataset: its scales mean nothing there."""
    own, name = model.meta, type(model).__name__
    fits = model.sizes.get("observation", len(meta.columns)) == len(meta.columns)
    if own.environment is None and own.dataset in (None, meta.dataset) and fits:
        return  # it does not know; whoever names the dataset does
    if own.environment != meta.environment:
        known = own.environment or "an unknown environment"
        raise BadInput(f"the {name} was trained for {known}, not for {meta.environment}")
    if own.maze != meta.maze:
        raise BadInput(f"the {name} was trained for another maze called {meta.environment}")
    if own.dataset and meta.dataset and own.dataset != meta.dataset:
        raise BadInput(f"the {name} was trained on {own.dataset}, not on {meta.dataset}")


def _recipe_of(
    planner: PlannerModel | None,
    agent: Agent | None,
    spec: DatasetSpec,
    following: PlanFollowing | None,
    search: SearchConfig | None,
) -> Recipe:
    """The recipe behind trained models: their methods, and where their settings are not the profile's."""
    augmentation = _trained(planner, agent).meta.augmentation
    changes: dict[str, Mapping[str, Any]] = {}
    if augmentation:
        changes["augmenter"] = _augmenter_changes(augmentation, planner, spec)
    if agent:
        changes["agent"] = _agent_changes(agent, spec, alone=planner is None)
    if planner:
        assert following is not None
        assert search is not None
        changes["planner"] = planner.changes
        changes["following"] = following.changes_from(PlanFollowing.configure(spec, planner.profile))
        changes["search"] = search.changes_from(SearchConfig())
    return Recipe(
        augmenter=augmentation["augmenter"] if augmentation else None,
        planner=planner.name if planner else None,
        agent=agent.name if agent else None,
        overrides={f"{part}.{path}": value for part, own in changes.items() for path, value in own.items()},
    )


def _augmenter_changes(augmentation: dict[str, Any], planner: PlannerModel | None, spec: DatasetSpec) -> dict[str, Any]:
    """Where its settings are not those of its profile for what learns from it: a planner may need positions alone."""
    augmenter, profile = augmenter_of(augmentation["augmenter"]), augmentation["profile"]
    for_planner = planner is not None and not planner.plans_actions
    usual, own = (augmenter.configure(spec, profile, for_planner=flag) for flag in (False, for_planner))
    if usual == own:
        return dict(augmentation["changes"])
    return augmenter.config_class.from_dict(augmentation["config"]).changes_from(own)


def _agent_changes(agent: Agent, spec: DatasetSpec, *, alone: bool) -> Mapping[str, Any]:
    """Where its settings are not those of its profile for what it does now: it may have been trained for the other."""
    if agent.profile is None:
        return agent.changes
    default = agent.configure(spec, cast(Profile, agent.profile), alone=alone)
    as_trained = default.replace_all(agent.changes) == agent.config
    return agent.changes if as_trained else agent.config.changes_from(default)
