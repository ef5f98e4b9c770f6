"""A recipe names what is trained on what and how it acts; with a dataset and a profile it becomes configs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self

from scots.agents import AGENTS, configure_agent
from scots.augmenters import scots as augmentation
from scots.augmenters.scots import ScotsConfig
from scots.augmenters.stitching import RECIPES
from scots.core.config import Config, Profile
from scots.core.errors import BadInput
from scots.data.trajectories import Trajectories
from scots.evaluation.control import Execution, execution_of
from scots.planners import PLANNERS, configure_planner

CANDIDATES: dict[str, int] = {"smoke": 2, "laptop": 8, "paper": 1}
"""Plans drawn at a time, by profile: a planner trained for minutes errs more often than one trained for a day."""

PARTS = ("augment", "learner", "controller", "execution")


@dataclass(frozen=True)
class Recipe(Config):
    """From data to actions. `recipe.but("augment.stitching.novelty_weight", 4)` is the same with one setting changed.

    A planner learns from the augmented data, and its controller from the original, whose actions were really taken.
    """

    augment: str | None = "official"  # a stitching recipe, "custom" for one without a name; none: the data as it is
    learner: str = "hd"  # a planner or an agent
    controller: str | None = None  # the agent that follows the plans of a planner; none: the learner acts by itself
    settings: dict[str, Any] = field(default_factory=dict)  # dotted path -> what is not as the datasets' settings say

    def __post_init__(self) -> None:
        for name, value, known in (
            ("augment", self.augment, (None, *RECIPES, "custom")),
            ("learner", self.learner, (*PLANNERS, *AGENTS)),
            ("controller", self.controller, (None, *AGENTS)),
        ):
            if value not in known:
                raise BadInput(f"{name} {value!r} is not one of {', '.join(map(str, known))}")
        if (self.controller is None) == self.plans:
            raise BadInput(f"a planner needs a controller and an agent is its own: {self.learner}, {self.controller}")
        for path in self.settings:
            if path.partition(".")[0] not in PARTS:
                raise BadInput(f"{path!r} is not a setting of {', '.join(PARTS)}")

    @property
    def plans(self) -> bool:
        """Whether the learner is a planner."""
        return self.learner in PLANNERS

    @property
    def learner_name(self) -> str:
        """What acts, in a word or two: "hd + gciql"."""
        return f"{self.learner} + {self.controller}" if self.controller else self.learner

    def but(self, path: str, value: Any) -> Self:
        """A copy with one field, or one setting of a part, changed."""
        return replace(self, settings={**self.settings, path: value}) if "." in path else super().but(path, value)

    # ------------------------------------------------------------------------------------------------- what it becomes

    def augmentation_for(self, data: Trajectories, profile: Profile) -> ScotsConfig | None:
        """How a dataset is augmented, if it is."""
        if self.augment is None:
            return None
        if self.augment == "custom":
            raise BadInput("data that was stitched by settings without a name cannot be made again from a recipe")
        config = augmentation.configure(data, profile, self.augment)  # type: ignore[arg-type]
        return self._changed("augment", config)

    def learner_for(self, data: Trajectories, profile: Profile) -> Any:
        """The config of what learns from the data, augmented or not."""
        configure = configure_planner if self.plans else configure_agent
        return self._changed("learner", configure(self.learner, data, profile))

    def controller_for(self, data: Trajectories, profile: Profile) -> Any:
        """The config of the agent that follows plans."""
        assert self.controller is not None
        return self._changed("controller", configure_agent(self.controller, data, profile))

    def execution_for(self, dataset: str, profile: str) -> Execution:
        """How plans are followed."""
        return self._changed("execution", self._usual(dataset, profile))

    def plain(self, dataset: str, profile: str) -> Self:
        """The same without settings that say how plans are followed anyway: equal runs have equal recipes."""
        usual = {f"execution.{name}": value for name, value in self._usual(dataset, profile).to_dict().items()}
        needed = {path: value for path, value in self.settings.items() if usual.get(path) != value}
        return replace(self, settings=needed)

    def _usual(self, dataset: str, profile: str) -> Execution:
        """Baselines plan as they were published, and without a learned embedding nothing ranks several plans."""
        ranked = self.augment is not None and self.settings.get("augment.encoder") != "raw"
        return replace(execution_of(dataset), candidates=CANDIDATES.get(profile, 1) if ranked else 1)

    def _changed(self, part: str, config: Any) -> Any:
        for path, value in self.settings.items():
            name, _, rest = path.partition(".")
            config = config.but(rest, value) if name == part else config
        return config
