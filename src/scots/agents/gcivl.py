"""Goal-conditioned implicit V-learning (Park et al., 2023; 2025): expectile TD values without critics, AWR actor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from scots.agents.base import Agent, awr, expectile_td, gather, sample_rows
from scots.core.config import Config
from scots.core.errors import BadInput
from scots.data.trajectories import GoalMix, Trajectories
from scots.models.nets import Ensemble, GaussianActor, Value
from scots.models.training import EMA, Batch, TrainingConfig


@dataclass(frozen=True)
class GCIVLConfig(Config):
    """Goal-conditioned implicit V-learning. The defaults are OGBench's, with its actor goals for stitch data."""

    hidden: tuple[int, ...] = (512, 512, 512)
    normalize: bool = False  # the reference feeds raw observations
    discount: float = 0.99  # gamma
    expectile: float = 0.9
    target_decay: float = 0.995  # 1 - tau
    alpha: float = 10.0  # inverse temperature of the actor's weights
    value_goals: GoalMix = GoalMix(current=0.2, trajectory=0.5, random=0.3)
    actor_goals: GoalMix = GoalMix(current=0.0, trajectory=0.5, random=0.5, geometric=False)
    training: TrainingConfig = TrainingConfig(steps=1_000_000, batch_size=1024, learning_rate=3e-4)

    def __post_init__(self) -> None:
        if not 0 < self.discount < 1 or not 0.5 <= self.expectile < 1:
            raise BadInput(f"discount must be in (0, 1) and expectile in [0.5, 1): {self.discount}, {self.expectile}")


class GCIVL(Agent):
    """Two values V(s, g) with EMA targets, and a Gaussian actor pi(a | s, g)."""

    name = "gcivl"
    config_class = GCIVLConfig
    short_run: ClassVar[dict[str, Any]] = {"target_decay": 0.98}  # values spread as fast as the targets move

    def __init__(self, config: GCIVLConfig, sizes: dict[str, int]) -> None:
        super().__init__(config, sizes)
        observation, action = sizes["observation"], sizes["action"]
        self.values = Ensemble(Value(2 * observation, config.hidden) for _ in range(2))
        self.targets = EMA(self.values, config.target_decay)
        self.actor = GaussianActor(2 * observation, config.hidden, action)

    def batch(self, data: Trajectories, size: int, rng: np.random.Generator) -> Batch:
        """Transitions s -> s' with a goal for the values, and s, a -> s' with a goal for the actor."""
        rows = sample_rows(self.config, data, size, rng)
        rows |= {"next_state": rows["state"] + 1, "actor_next_state": rows["actor_state"] + 1}
        return gather(data, rows) | {"arrived": torch.from_numpy(rows["goal"] == rows["state"])}

    def value_loss(self, batch: Batch) -> Tensor:
        """Expectile regression of both values V(s, g) on -1 + gamma V(s', g)."""
        state, goal = batch["state"], batch["goal"]
        with torch.no_grad():
            targets, next_targets = self.targets(state, goal), self.targets(batch["next_state"], goal)
        return expectile_td(self.config, batch["arrived"], self.values(state, goal), targets, next_targets)

    def actor_loss(self, batch: Batch) -> Tensor:
        """Regression on the recorded action, weighted by how much nearer to the goal it led."""
        state, goal = batch["actor_state"], batch["actor_goal"]
        with torch.no_grad():
            advantage = (self.values(batch["actor_next_state"], goal) - self.values(state, goal)).mean(0)
        return awr(advantage, batch["actor_action"], self.actor(state, goal), self.config.alpha)

    def loss(self, batch: Batch, generator: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
        """The sum of both losses; each moves its own network only."""
        batch = self.scaled(batch)
        losses = {"value": self.value_loss(batch), "actor": self.actor_loss(batch)}
        return torch.stack(list(losses.values())).sum(), losses

    def ema_copies(self) -> list[tuple[EMA, nn.Module]]:
        """The target values."""
        return [(self.targets, self.values)]
