"""Quasimetric reinforcement learning (Wang et al., 2023): distances pushed apart under a constraint, DDPG+BC actor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from scots.agents.base import Agent, ddpg_bc, gather, sample_rows
from scots.core.config import Config
from scots.core.errors import BadInput
from scots.data.trajectories import GoalMix, Trajectories
from scots.models.nets import GaussianActor, IntervalQuasimetric, frozen, mlp
from scots.models.training import Batch, TrainingConfig

_FAR = 500.0  # steps from which on distances are hardly pushed any farther
_SOFTNESS = 100.0  # steps over which the push fades


@dataclass(frozen=True)
class QRLConfig(Config):
    """Quasimetric reinforcement learning. The defaults are OGBench's, with its actor goals for stitch data."""

    hidden: tuple[int, ...] = (512, 512, 512)
    normalize: bool = False  # the reference feeds raw observations
    latent: int = 512
    component: int = 8  # latent dimensions of one component of the quasimetric
    margin: float = 0.05  # epsilon: mean square by which a step may be longer than 1
    dual_rate: float = 1.0  # factor on the learning rate of the constraint's multiplier
    alpha: float = 0.003  # weight of imitation in the actor's loss
    discount: float = 0.99  # only in the geometric law of goals, where one is asked for
    value_goals: GoalMix = GoalMix(current=0.0, trajectory=0.0, random=1.0)
    actor_goals: GoalMix = GoalMix(current=0.0, trajectory=0.5, random=0.5, geometric=False)
    training: TrainingConfig = TrainingConfig(steps=1_000_000, batch_size=1024, learning_rate=3e-4)

    def __post_init__(self) -> None:
        if self.component < 1 or self.latent % self.component:
            raise BadInput(f"latent {self.latent} must be a multiple of component {self.component}")
        if self.margin <= 0 or self.dual_rate <= 0:
            raise BadInput(f"margin and dual_rate must be positive: {self.margin}, {self.dual_rate}")


class QRL(Agent):
    """A quasimetric d(s, g) of latents, latent dynamics z, a -> z', and a Gaussian actor pi(a | s, g).

    Steps take at most 1, and under that constraint all distances are as large as they can be: the number of steps of a
    shortest path. There is no bootstrapping, no target network and no discount.
    """

    name = "qrl"
    config_class = QRLConfig
    short_run: ClassVar[dict[str, Any]] = {"latent": 128, "dual_rate": 10.0}  # the multiplier has as far to go

    def __init__(self, config: QRLConfig, sizes: dict[str, int]) -> None:
        super().__init__(config, sizes)
        observation, action = sizes["observation"], sizes["action"]
        self.encoder = mlp((observation, *config.hidden, config.latent))
        self.quasimetric = IntervalQuasimetric(config.component)
        self.log_multiplier = nn.Parameter(torch.zeros(()))
        self.dynamics = mlp((config.latent + action, *config.hidden, config.latent))
        self.actor = GaussianActor(2 * observation, config.hidden, action)

    def batch(self, data: Trajectories, size: int, rng: np.random.Generator) -> Batch:
        """Transitions s, a -> s', a state to be far from, and a goal for the actor."""
        rows = sample_rows(self.config, data, size, rng)
        return gather(data, rows | {"next_state": rows["state"] + 1})

    def value_loss(self, batch: Batch) -> Tensor:
        """Push d(s, g) up, while the multiplier of the constraint d(s, s') <= 1 grows as long as it is violated."""
        latent, next_latent = batch["latent"], batch["next_latent"]
        far = self.quasimetric(latent, batch["goal_latent"])
        push = (_SOFTNESS * functional.softplus((_FAR - far) / _SOFTNESS)).mean()
        violation = (self.quasimetric(latent, next_latent) - 1).clamp(min=0).square().mean()
        multiplier = self.log_multiplier.exp()
        return push + multiplier.detach() * violation + multiplier * (self.config.margin - violation.detach())

    def dynamics_loss(self, batch: Batch) -> Tensor:
        """Mean distance between predicted and true next latents, both ways; it shapes the latents too."""
        latent, true = batch["latent"], batch["next_latent"]
        predicted = latent + self.dynamics(torch.cat([latent, batch["action"]], dim=-1))
        return (self.quasimetric(predicted, true) + self.quasimetric(true, predicted)).mean() / 2

    def actor_loss(self, batch: Batch) -> Tensor:
        """DDPG+BC with the distance to the goal from where the actor's action leads."""
        state, goal = batch["actor_state"], batch["actor_goal"]
        with torch.no_grad():
            latent, goal_latent = self.encoder(state), self.encoder(goal)
        mean = self.actor(state, goal)
        next_latent = latent + frozen(self.dynamics, torch.cat([latent, mean.clamp(-1, 1)], dim=-1))
        q = -frozen(self.quasimetric, next_latent, goal_latent)
        return ddpg_bc(q, batch["actor_action"], mean, self.config.alpha)

    def loss(self, batch: Batch, generator: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
        """The sum of all losses; that of the actor moves the actor only."""
        batch = self._with_latents(self.scaled(batch))
        losses = {
            "value": self.value_loss(batch),
            "dynamics": self.dynamics_loss(batch),
            "actor": self.actor_loss(batch),
        }
        return torch.stack(list(losses.values())).sum(), {**losses, "multiplier": self.log_multiplier.exp()}

    def _with_latents(self, batch: Batch) -> Batch:
        """The batch with the latents that two losses share."""
        names = {"latent": "state", "next_latent": "next_state", "goal_latent": "goal"}
        return batch | {latent: self.encoder(batch[name]) for latent, name in names.items()}

    def parameter_groups(self) -> list[tuple[list[nn.Parameter], float]]:
        """The multiplier has a rate of its own."""
        others = [parameter for parameter in self.parameters() if parameter is not self.log_multiplier]
        return [(others, 1.0), ([self.log_multiplier], self.config.dual_rate)]
