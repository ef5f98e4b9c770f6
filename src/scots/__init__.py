"""State-covering trajectory stitching: short logs in, long and diverse trajectories out, and planners that use them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

from scots.core.errors import BadInput as BadInput
from scots.data.trajectories import GoalMix as GoalMix
from scots.data.trajectories import Meta as Meta
from scots.data.trajectories import Normalizer as Normalizer
from scots.data.trajectories import Trajectories as Trajectories
from scots.data.trajectories import concat as concat
from scots.data.trajectories import sample_goals as sample_goals
from scots.datasets import load as load

if TYPE_CHECKING:
    from scots.augmenters.scots import Recipe
    from scots.core.config import Profile
    from scots.evaluation.rollout import EvalResult
    from scots.models.training import Model
    from scots.reporting.quality import Quality


def augment(
    data: Trajectories, profile: Profile = "laptop", recipe: Recipe = "official", seed: int = 0, **changes: Any
) -> Trajectories:
    """Stitch short trajectories into long, diverse ones; what is trained on the way is kept for the next call.

    `changes` are fields of `ScotsConfig` by name, nested ones with a double underscore: `stitching__stitches=20`.
    """
    from scots.augmenters import scots as augmentation

    config = augmentation.configure(data, profile, recipe)
    config = config.changed({name.replace("__", "."): value for name, value in changes.items()})
    return augmentation.augment(data, config, seed=seed)


def train(learner: str, data: Trajectories, profile: Profile = "laptop", seed: int = 0) -> Model:
    """A planner ("hd") or an agent ("gciql", "crl") trained on a dataset; it is kept for the next call."""
    from scots.experiments import pipeline as experiments

    return experiments.train_learner(learner, data, profile, seed)


def evaluate(learner: Model, controller: Model | None = None, **options: Any) -> list[EvalResult]:
    """Success per task of a planner with the agent that follows its plans, or of an agent, where they were trained.

    Candidate plans are ranked with the embedding that the planner's data was stitched by, if it is still kept.
    The options are those of `scots.evaluation.evaluate`, such as `episodes=50` and `seed=0`.
    """
    from scots.experiments.pipeline import Trained

    return Trained.of(learner, controller).evaluate(**options)


def report(data: Trajectories, aug: Trajectories) -> Quality:
    """What augmentation did to a dataset: coverage, joins, dynamics, walls, duplicates. Print it."""
    from scots.reporting.quality import measure_quality

    return measure_quality(data, aug)
