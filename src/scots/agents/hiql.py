"""Hierarchical implicit Q-learning (Park et al., 2023): expectile TD values, and AWR actors on two levels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from scots.agents.base import Agent, are_single, awr, expectile_td, gather, goals_for, rows_with_future
from scots.core.config import Config
from scots.core.errors import BadInput
from scots.data.trajectories import Array, GoalMix, Trajectories, sample_goals
from scots.models.nets import Ensemble, GaussianActor, GoalRepresentation, Value
from scots.models.training import EMA, Batch, TrainingConfig


@dataclass(frozen=True)
class HIQLConfig(Config):
    """Hierarchical implicit Q-learning. The defaults are OGBench's, with its actor goals for stitch data."""

    hidden: tuple[int, ...] = (512, 512, 512)
    normalize: bool = False  # the reference feeds raw observations
    discount: float = 0.99  # gamma
    expectile: float = 0.7
    target_decay: float = 0.995  # 1 - tau
    high_alpha: float = 3.0  # inverse temperatures of the actors' weights
    low_alpha: float = 3.0
    subgoal_steps: int = 25  # k, from a state to its subgoal
    representation: int = 10  # columns of a subgoal's representation
    value_goals: GoalMix = GoalMix(current=0.2, trajectory=0.5, random=0.3)
    actor_goals: GoalMix = GoalMix(current=0.0, trajectory=0.5, random=0.5, geometric=False)  # of the high level
    training: TrainingConfig = TrainingConfig(steps=1_000_000, batch_size=1024, learning_rate=3e-4)

    def __post_init__(self) -> None:
        if not 0 < self.discount < 1 or not 0.5 <= self.expectile < 1:
            raise BadInput(f"discount must be in (0, 1) and expectile in [0.5, 1): {self.discount}, {self.expectile}")
        if self.subgoal_steps < 1 or self.representation < 1:
            raise BadInput(f"subgoal_steps and representation must be positive: {self}")
        if self.actor_goals.current:
            raise BadInput("actor_goals.current must be 0: a high-level goal is a later state, or any")


class HIQL(Agent):
    """Two values V(s, r(s, g)) with EMA targets, and two Gaussian actors: pi_h(r | s, g) and pi_l(a | s, r).

    r(s, g) represents a goal as seen from a state. It is trained with the values; both actors take it as given.
    """

    name = "hiql"
    config_class = HIQLConfig
    short_run: ClassVar[dict[str, Any]] = {"target_decay": 0.98}  # values spread as fast as the targets move

    def __init__(self, config: HIQLConfig, sizes: dict[str, int]) -> None:
        super().__init__(config, sizes)
        observation, action, columns = sizes["observation"], sizes["action"], config.representation
        self.representation = GoalRepresentation(2 * observation, config.hidden, columns)
        self.values = Ensemble(Value(observation + columns, config.hidden) for _ in range(2))
        self.targets = EMA(self.values, config.target_decay)  # of the values alone: the representation has no copy
        self.high_actor = GaussianActor(2 * observation, config.hidden, columns)
        self.low_actor = GaussianActor(observation + columns, config.hidden, action)

    def batch(self, data: Trajectories, size: int, rng: np.random.Generator) -> Batch:
        """Transitions s -> s' with a goal for the values; s, a -> s' with goals of both levels for the actors."""
        config: HIQLConfig = self.config
        rows = data.random_rows(2, size, rng)
        goals = goals_for(data, rows, config.value_goals, config.discount, rng)
        actor_rows = rows_with_future(data, rows, rng)
        values = {"state": rows, "next_state": rows + 1, "goal": goals}
        actors = {"actor_state": actor_rows, "actor_next_state": actor_rows + 1}
        drawn = gather(data, values | actors | _goals_of_levels(config, data, actor_rows, rng))
        return drawn | {"arrived": torch.from_numpy(goals == rows)}

    def value_loss(self, batch: Batch) -> Tensor:
        """Expectile regression of both values V(s, r(s, g)) on -1 + gamma V(s', r(s', g))."""
        state, next_state, goal = batch["state"], batch["next_state"], batch["goal"]
        representation = self.representation(state, goal)
        with torch.no_grad():
            targets = self.targets(state, representation)
            next_targets = self.targets(next_state, self.representation(next_state, goal))
        values = self.values(state, representation)
        return expectile_td(self.config, batch["arrived"], values, targets, next_targets)

    def low_actor_loss(self, batch: Batch) -> Tensor:
        """Regression on the recorded action, weighted by how much nearer to the state k steps ahead it led."""
        state, goal = batch["actor_state"], batch["low_goal"]
        with torch.no_grad():
            representation = self.representation(state, goal)
            advantage = self._value(batch["actor_next_state"], goal) - self.values(state, representation).mean(0)
        mean = self.low_actor(state, representation)
        return awr(advantage, batch["actor_action"], mean, self.config.low_alpha)

    def high_actor_loss(self, batch: Batch) -> Tensor:
        """Regression on the representation of the subgoal, weighted by how much nearer to the goal it is."""
        state, goal, subgoal = batch["actor_state"], batch["actor_goal"], batch["subgoal"]
        with torch.no_grad():
            representation = self.representation(state, subgoal)
            advantage = self._value(subgoal, goal) - self._value(state, goal)
        return awr(advantage, representation, self.high_actor(state, goal), self.config.high_alpha)

    def loss(self, batch: Batch, generator: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
        """The sum of all losses; each moves its own networks only."""
        batch = self.scaled(batch)
        losses = {
            "value": self.value_loss(batch),
            "low_actor": self.low_actor_loss(batch),
            "high_actor": self.high_actor_loss(batch),
        }
        return torch.stack(list(losses.values())).sum(), losses

    def ema_copies(self) -> list[tuple[EMA, nn.Module]]:
        """The target values."""
        return [(self.targets, self.values)]

    @torch.inference_mode()
    def act(self, observations: Array, goals: Array, rng: np.random.Generator) -> Array:
        """The low level's mean action, clipped, towards the high level's mean subgoal, which is new at every step."""
        tensors = (torch.tensor(values, dtype=torch.float32, device=self.device) for values in (observations, goals))
        state, goal = map(self.scale, tensors)
        subgoal = self.representation.normalized(self.high_actor(state, goal))
        return self.low_actor(state, subgoal).clamp(-1, 1).cpu().numpy()

    def _value(self, state: Tensor, goal: Tensor) -> Tensor:
        """V(s, g), the mean of both: (B,)."""
        return self.values(state, self.representation(state, goal)).mean(0)


def _goals_of_levels(config: HIQLConfig, data: Trajectories, rows: Array, rng: np.random.Generator) -> dict[str, Array]:
    """Goal rows of the low and the high level, and the subgoal that the high level is to choose, by name.

    The low level heads for the state k steps ahead. That is the high level's subgoal too, but not past its goal. If
    that is drawn at random it may lie anywhere: the advantage alone tells whether the way led there.
    """
    ahead = np.minimum(rows + config.subgoal_steps, data.last_row_of(rows))
    from_trajectory = GoalMix(current=0.0, trajectory=1.0, random=0.0, geometric=config.actor_goals.geometric)
    later = sample_goals(data, rows, from_trajectory, config.discount, rng)
    is_random = (rng.random(len(rows)) < config.actor_goals.random) | are_single(data, rows)
    return {
        "low_goal": ahead,
        "actor_goal": np.where(is_random, rng.integers(data.rows, size=len(rows)), later),
        "subgoal": np.where(is_random, ahead, np.minimum(ahead, later)),
    }
