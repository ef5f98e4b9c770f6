"""A recipe names what is trained on what and how it acts; with a dataset and a profile it resolves to configs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from scots.agents import AGENTS
from scots.augmenters import AUGMENTERS, augmenter_of
from scots.core.config import Config, Profile
from scots.core.errors import BadInput
from scots.datasets.specs import DatasetSpec
from scots.evaluation.control import PlanFollowing
from scots.planners import PLANNERS
from scots.planners.base import PlannerModel
from scots.planners.search import SearchConfig

SEARCH = SearchConfig(candidates=8, mend=True, bisect=True)
"""Plan search with all its parts, where it is asked for; a recipe that says nothing follows the one plan it draws."""

_PARTS = ("augmenter", "data", "planner", "agent", "following", "search")


@dataclass(frozen=True)
class LearningData(Config):
    """What a planner, or an agent by itself, learns from where there is an augmenter."""

    keep_recorded: bool = False  # beside the augmented data the recorded episodes, too


@dataclass(frozen=True)
class Settings:
    """A recipe resolved for a dataset and a profile: the config of every part; None for parts the recipe lacks."""

    augmenter: Any | None
    data: LearningData | None
    planner: Any | None
    agent: Any | None
    following: PlanFollowing | None
    search: SearchConfig | None


@dataclass(frozen=True)
class Recipe(Config):
    """From data to actions: an augmenter, a planner with the agent that follows its plans, or one of them by itself.

    Planners that plan actions need no agent. A planner learns from the augmented data and its agent from the recorded
    data, whose actions were executed; an agent by itself learns from the augmented data, with settings for one that
    acts alone. Overrides are typed when the recipe is resolved:
    `recipe.replace_at("augmenter.stitching.novelty_weight", 4)`.
    """

    augmenter: str | None = "scots"  # None: the data as it was recorded
    planner: str | None = "hd"  # None: the agent acts by itself
    agent: str | None = "gciql"  # None: the planner plans actions
    overrides: dict[str, Any] = field(default_factory=dict)  # dotted path -> value that is not the profile's

    def __post_init__(self) -> None:
        for part, value, known in (
            ("augmenter", self.augmenter, (None, *AUGMENTERS)),
            ("planner", self.planner, (None, *PLANNERS)),
            ("agent", self.agent, (None, *AGENTS)),
        ):
            if value not in known:
                raise BadInput(f"{part} {value!r} is not one of {', '.join(map(str, known))}")
        if (self.planner is not None and PLANNERS[self.planner].plans_actions) != (self.agent is None):
            acts = f"{self.planner} plans actions and takes none" if self.agent else "none is named"
            raise BadInput(f"every recipe has an agent, unless its planner plans actions: {acts}")
        for path in self.overrides:
            part = path.partition(".")[0]
            if part not in _PARTS:
                raise BadInput(f"{path!r} is not a setting of {', '.join(_PARTS)}")
            if part in ("augmenter", "data") and self.augmenter is None:
                raise BadInput(f"{path!r} has no effect without an augmenter")
            if part in ("planner", "following", "search") and self.planner is None:
                raise BadInput(f"{path!r} has no effect without a planner")
            if part == "agent" and self.agent is None:
                raise BadInput(f"{path!r} has no effect without an agent")

    @property
    def actor(self) -> str:
        """The policy in a word or two: "hd + gciql"."""
        return " + ".join(name for name in (self.planner, self.agent) if name)

    def replace_all(self, changes: Mapping[str, Any]) -> Self:
        """A copy with some fields, or overrides of parts, replaced."""
        overrides = {path: value for path, value in changes.items() if "." in path}
        own = super().replace_all({path: value for path, value in changes.items() if path not in overrides})
        return replace(own, overrides={**own.overrides, **overrides})

    def resolve(self, spec: DatasetSpec, profile: Profile) -> Settings:
        """The config of every part for a dataset at a profile's scale, with the overrides applied and checked."""
        return self._resolved(spec, profile)[0]

    def needs_search_parts(self, settings: Settings) -> bool:
        """Whether what it resolved to plans only with the embedding of the recorded data: to search, or by itself."""
        if self.planner is None or settings.search is None:
            return False
        return settings.search.is_on or PLANNERS[self.planner].needs_distances(settings.planner)

    def defaults(self, spec: DatasetSpec, profile: Profile) -> Settings:
        """The same before the overrides; plans still fit what the augmenter makes with its overrides."""
        return self._resolved(spec, profile)[1]

    def normalized(self, spec: DatasetSpec, profile: Profile) -> Self:
        """The same recipe with one override for every setting that is not the default: equal runs, equal recipes."""
        settings, defaults = self._resolved(spec, profile)
        overrides = {
            f"{part}.{path}": value
            for part in _PARTS
            if (config := getattr(settings, part)) is not None
            for path, value in config.changes_from(getattr(defaults, part)).items()
        }
        return replace(self, overrides=overrides)

    def _resolved(self, spec: DatasetSpec, profile: Profile) -> tuple[Settings, Settings]:
        """The settings with the overrides, and without."""
        augmenter = augmenter_of(self.augmenter) if self.augmenter else None
        planner = PLANNERS[self.planner] if self.planner else None
        for_planner = planner is not None and not planner.plans_actions
        augmentation = augmenter.configure(spec, profile, for_planner=for_planner) if augmenter else None
        states = augmenter.episode_states(self._changed("augmenter", augmentation), spec) if augmenter else None
        defaults = Settings(
            augmenter=augmentation,
            data=LearningData() if augmenter else None,
            planner=planner.configure(spec, states or spec.episode_states, profile) if planner else None,
            agent=AGENTS[self.agent].configure(spec, profile, alone=planner is None) if self.agent else None,
            following=PlanFollowing.configure(spec, profile) if planner else None,
            search=SearchConfig() if planner else None,
        )
        settings = Settings(**{part: self._changed(part, getattr(defaults, part)) for part in _PARTS})
        if planner and settings.search:
            check_search(planner, settings.search)
        return settings, defaults

    def _changed(self, part: str, config: Any) -> Any:
        changes = {path: value for path, value in self.overrides.items() if path.partition(".")[0] == part}
        return (
            config.replace_all({path.partition(".")[2]: value for path, value in changes.items()})
            if changes
            else config
        )


def check_search(planner: type[PlannerModel], search: SearchConfig) -> None:
    """Refuse to search among plans of actions, and to mend or bisect plans that are drawn as a whole."""
    if search.is_on and planner.plans_actions:
        raise BadInput(f"{planner.name} chooses among its own plans: set planner.guidance.candidates instead")
    if (search.mend or search.bisect) and not planner.has_bridges:
        raise BadInput(
            f"{planner.name} draws plans as a whole: search.mend and search.bisect need one that has bridges"
        )
