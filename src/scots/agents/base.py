"""What all agents share: sizes, acting, settings, transitions with goals, and losses that several have."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import torch
from torch import Tensor, nn

from scots.core.config import Profile
from scots.core.errors import BadInput
from scots.data.passage import POINTS, PassageTimes
from scots.data.trajectories import Array, GoalMix, Normalizer, Trajectories, sample_goals
from scots.datasets.specs import DatasetSpec
from scots.models.nets import Scale, feature_sizes, log_density
from scots.models.training import Batch, Model, TrainingConfig


class Policy(Protocol):
    """Anything that acts towards a goal."""

    def act(self, observations: Array, goals: Array, rng: np.random.Generator) -> Array:
        """Actions (B, A) in [-1, 1] for observations (B, O) and goals (B, O)."""


class Agent(Model):
    """Base of every agent. A subclass builds its networks, draws batches and defines its losses.

    One of the networks is `actor`, unless the subclass acts in another way: then it overrides `act`.
    """

    name: ClassVar[str]  # in the registry and in the settings of datasets
    actor: nn.Module
    _passage: Tensor  # (2, POINTS) distances and steps
    short_run: ClassVar[dict[str, Any]] = {}  # settings that change when training is much shorter than published
    laptop: ClassVar[dict[str, Any]] = {}  # settings of its own at profile "laptop"
    follows_plans: ClassVar[bool] = False  # what `scots train` trains it for unless told; otherwise it acts alone

    def __init__(self, config: Any, sizes: dict[str, int]) -> None:
        super().__init__(config, sizes)
        self.scale = Scale(sizes["observation"], sizes.get("angles", 0))
        self.register_buffer("_passage", torch.zeros(2, POINTS))

    @classmethod
    def for_data(cls, config: Any, data: Trajectories, **sizes: int) -> Self:
        """Sized for the observations and actions of a dataset."""
        if data.actions is None:
            raise BadInput("this dataset has no actions, so no agent can be learned from it")
        observation = feature_sizes("observation", data.observations.shape[1], data.meta.angles)
        agent = cls(config, {**observation, "action": data.actions.shape[1], **sizes})
        agent.scale.fit_angles(data.observations, data.meta.angles)
        if config.normalize:
            agent.scale.fit(Normalizer.fit(agent.scale.array_features(data.observations)))
        if data.meta.position:
            passage = PassageTimes.of(data)
            agent._passage.copy_(torch.from_numpy(np.stack([passage.distances, passage.steps])))
        return agent

    @property
    def passage(self) -> PassageTimes:
        """How long the episodes that it learned from take to get somewhere: later than that, a subgoal is missed."""
        return PassageTimes(*self._passage.cpu().numpy())

    @classmethod
    def configure(cls, spec: DatasetSpec, profile: Profile, *, alone: bool = False) -> Any:
        """The published settings for a dataset, at a profile's scale: to follow plans, or to act `alone`.

        Settings that agents share apply where the config has such a field; one that is this agent's own must fit it.
        """
        known = {field.name for field in fields(cls.config_class)}

        def shared(changes: dict[str, Any]) -> dict[str, Any]:
            return {field: value for field, value in changes.items() if field in known}

        goals = {"actor_goals": spec.actor_goals} if spec.actor_goals else {}
        config = cls.config_class().replace_all(shared({"discount": spec.discount} | goals))
        config = config.replace_all(spec.agents.get(cls.name, {}))
        if profile == "paper":
            return config
        scale = ALONE.get(profile, SCALES[profile]) if alone else SCALES[profile]
        own = cls.short_run | (cls.laptop if profile == "laptop" else {})
        return config.replace_all(shared(scale) | own)

    def scaled(self, batch: Batch) -> Batch:
        """A batch as networks see it: all observations are scaled, actions and flags stay as they are."""
        unscaled = ("action", "actor_action", "arrived")
        return {name: values if name in unscaled else self.scale(values) for name, values in batch.items()}

    @torch.inference_mode()
    def act(self, observations: Array, goals: Array, rng: np.random.Generator) -> Array:
        """The mean action, clipped: (B, O), (B, O) -> (B, A) in [-1, 1]; it does not depend on `rng`.

        Whole observations, always in batches; a goal is an observation too, of which often the position alone matters.

        >>> data = scots.load("toy-corridor-stitch-v0")
        >>> policy = scots.train("gciql", data, profile="smoke")
        >>> states, goals = data.observations[[0, 33]], data.observations[[32, 65]]  # ends of two episodes
        >>> policy.act(states, goals, np.random.default_rng(0)).shape
        (2, 2)
        """
        tensors = (torch.tensor(values, dtype=torch.float32, device=self.device) for values in (observations, goals))
        return self.actor(*map(self.scale, tensors)).clamp(-1, 1).cpu().numpy()


SCALES: dict[str, dict[str, Any]] = {
    "smoke": {  # seconds: everything runs, nothing is learned well
        "hidden": (32, 32),
        "normalize": True,
        "training": TrainingConfig(steps=60, batch_size=64, learning_rate=1e-3),
    },
    "laptop": {  # minutes on two CPU cores: enough to reach a subgoal, which is near, so values need not reach far
        "hidden": (256, 256, 256),
        "normalize": True,
        "discount": 0.95,
        "training": TrainingConfig(steps=10_000, batch_size=256, learning_rate=1e-3, schedule="cosine", warmup=200),
    },
}
"""Profile -> fields of every agent's config; the profile "paper" leaves the published sizes as they are."""

ALONE: dict[str, dict[str, Any]] = {
    "laptop": {  # values must reach across the maze: the published discount, and longer training
        "hidden": (256, 256, 256),
        "normalize": True,
        "training": TrainingConfig(steps=50_000, batch_size=256, learning_rate=1e-3, schedule="cosine", warmup=200),
    },
}
"""The same for an agent that acts by itself, where that differs."""


# ------------------------------------------------------------------------------------------------------------ batches


def sample_rows(config: Any, data: Trajectories, size: int, rng: np.random.Generator) -> dict[str, Array]:
    """Rows of a batch by name: transitions with goals for values and critics, and transitions with goals for actors.

    Both are the same transitions, unless some are single: see `rows_with_future` and `goals_for`.
    """
    rows = data.random_rows(2, size, rng)
    goals = goals_for(data, rows, config.value_goals, config.discount, rng)
    actor_rows = rows_with_future(data, rows, rng)
    actor_goals = goals_for(data, actor_rows, config.actor_goals, config.discount, rng)
    return {"state": rows, "goal": goals, "actor_state": actor_rows, "actor_goal": actor_goals}


def goals_for(data: Trajectories, rows: Array, mix: GoalMix, discount: float, rng: np.random.Generator) -> Array:
    """A goal row for each row; a single transition has no later state to be its goal, and draws any state instead."""
    goals, single = sample_goals(data, rows, mix, discount, rng), are_single(data, rows)
    if not single.any():
        return goals
    return np.where(single & (goals == rows + 1), rng.integers(data.rows, size=len(rows)), goals)


def rows_with_future(data: Trajectories, rows: Array, rng: np.random.Generator) -> Array:
    """The same rows, single transitions replaced by others unless the data has nothing else.

    Values learn from a single transition by TD; actors, and critics that learn from later states, need trajectories.
    """
    single = are_single(data, rows)
    if not single.any() or data.rows == 2 * len(data):
        return rows
    return np.where(single, data.random_rows(3, len(rows), rng), rows)  # three states are no single transition


def are_single(data: Trajectories, rows: Array) -> Array:
    """Whether each row is in an episode of two states: a transition by itself, as SynthER generates them."""
    episodes = data.episode_of(rows)
    return data.offsets[episodes + 1] - data.offsets[episodes] == 2


def gather(data: Trajectories, rows: dict[str, Array]) -> Batch:
    """The observations of these rows by name, and the actions of `state` and `actor_state`."""
    assert data.actions is not None
    arrays = {name: data.observations[own] for name, own in rows.items()}
    arrays |= {"action": data.actions[rows["state"]], "actor_action": data.actions[rows["actor_state"]]}
    return {name: torch.from_numpy(values) for name, values in arrays.items()}


# ------------------------------------------------------------------------------------------------------------- losses


def expectile_td(config: Any, arrived: Tensor, values: Tensor, targets: Tensor, next_targets: Tensor) -> Tensor:
    """Expectile regression of values on their TD targets (IVL): all (members, B), of the same goals.

    A step costs 1 and leads to the next state; the goal itself costs nothing. Every value is regressed on the target of
    its own copy. Which side of the expectile a transition is on, the lower target and the mean value decide.
    """
    not_done = 1.0 - arrived.float()
    returns = not_done * (-1.0 + config.discount * next_targets)
    advantage = returns.amin(0) - targets.mean(0)
    weight = torch.where(advantage >= 0, config.expectile, 1 - config.expectile)
    return (weight * (returns - values).square()).sum(0).mean()


def awr(advantage: Tensor, output: Tensor, mean: Tensor, alpha: float) -> Tensor:
    """Advantage-weighted regression: -min(exp(alpha A), 100) log pi(output), alpha being an inverse temperature."""
    weight = (alpha * advantage).exp().clamp(max=100.0)
    return -(weight * log_density(output, mean)).mean()


def ddpg_bc(q: Tensor, action: Tensor, mean: Tensor, alpha: float) -> Tensor:
    """DDPG+BC: -Q(s, g, mean) over its mean size, minus alpha log pi(a | s, g)."""
    size = q.detach().abs().mean() + 1e-6
    return -q.mean() / size - alpha * log_density(action, mean).mean()
