"""Goal-conditioned implicit Q-learning (Kostrikov et al., 2022): expectile values, TD critics, DDPG+BC actor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from scots.agents.base import Agent, ddpg_bc, gather, sample_rows
from scots.core.config import Config
from scots.core.errors import BadInput
from scots.data.trajectories import GoalMix, Trajectories
from scots.models.nets import Ensemble, GaussianActor, Value, frozen
from scots.models.training import EMA, Batch, TrainingConfig


@dataclass(frozen=True)
class GCIQLConfig(Config):
    """Goal-conditioned implicit Q-learning. The defaults are OGBench's, with its actor goals for stitch data."""

    hidden: tuple[int, ...] = (512, 512, 512)
    normalize: bool = False  # the reference feeds raw observations
    discount: float = 0.99  # gamma
    expectile: float = 0.9
    target_decay: float = 0.995  # 1 - tau
    alpha: float = 0.3  # weight of imitation in the actor's loss
    value_goals: GoalMix = GoalMix(current=0.2, trajectory=0.5, random=0.3)
    actor_goals: GoalMix = GoalMix(current=0.0, trajectory=0.5, random=0.5, geometric=False)
    training: TrainingConfig = TrainingConfig(steps=1_000_000, batch_size=1024, learning_rate=3e-4)

    def __post_init__(self) -> None:
        if not 0 < self.discount < 1 or not 0.5 <= self.expectile < 1:
            raise BadInput(f"discount must be in (0, 1) and expectile in [0.5, 1): {self.discount}, {self.expectile}")


class GCIQL(Agent):
    """V(s, g), two critics Q(s, g, a) with EMA targets, and a Gaussian actor pi(a | s, g)."""

    name = "gciql"
    config_class = GCIQLConfig
    follows_plans = True
    short_run: ClassVar[dict[str, Any]] = {"target_decay": 0.98}  # values spread as fast as the targets move

    def __init__(self, config: GCIQLConfig, sizes: dict[str, int]) -> None:
        super().__init__(config, sizes)
        observation, action = sizes["observation"], sizes["action"]
        self.value = Value(2 * observation, config.hidden)
        self.critics = Ensemble(Value(2 * observation + action, config.hidden) for _ in range(2))
        self.targets = EMA(self.critics, config.target_decay)
        self.actor = GaussianActor(2 * observation, config.hidden, action)

    def batch(self, data: Trajectories, size: int, rng: np.random.Generator) -> Batch:
        """Transitions s, a -> s', a goal for the values and whether s is that goal, and a goal for the actor."""
        rows = sample_rows(self.config, data, size, rng)
        arrived = torch.from_numpy(rows["goal"] == rows["state"])
        return gather(data, rows | {"next_state": rows["state"] + 1}) | {"arrived": arrived}

    def value_loss(self, batch: Batch) -> Tensor:
        """Expectile regression of V(s, g) on the lower of the two target critics at the recorded action."""
        state, goal, action = batch["state"], batch["goal"], batch["action"]
        with torch.no_grad():
            target = self.targets(state, goal, action).amin(0)
        error = target - self.value(state, goal)
        weight = torch.where(error >= 0, self.config.expectile, 1 - self.config.expectile)
        return (weight * error.square()).mean()

    def critic_loss(self, batch: Batch) -> Tensor:
        """Squared TD error of both critics: a step costs 1 and leads to V(s', g); the goal itself costs nothing."""
        state, goal, action = batch["state"], batch["goal"], batch["action"]
        with torch.no_grad():
            not_done = 1.0 - batch["arrived"].float()
            target = not_done * (-1.0 + self.config.discount * self.value(batch["next_state"], goal))
        return (self.critics(state, goal, action) - target).square().sum(0).mean()

    def actor_loss(self, batch: Batch) -> Tensor:
        """DDPG+BC with the lower critic at the actor's action."""
        state, goal, action = batch["actor_state"], batch["actor_goal"], batch["actor_action"]
        mean = self.actor(state, goal)
        q = frozen(self.critics, state, goal, mean.clamp(-1, 1)).amin(0)
        return ddpg_bc(q, action, mean, self.config.alpha)

    def loss(self, batch: Batch, generator: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
        """The sum of all losses; each moves its own network only."""
        batch = self.scaled(batch)
        losses = {"value": self.value_loss(batch), "critic": self.critic_loss(batch), "actor": self.actor_loss(batch)}
        return torch.stack(list(losses.values())).sum(), losses

    def ema_copies(self) -> list[tuple[EMA, nn.Module]]:
        """The target critics."""
        return [(self.targets, self.critics)]
