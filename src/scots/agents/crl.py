"""Contrastive reinforcement learning (Eysenbach et al., 2022): critics classify reached goals, DDPG+BC actor."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from scots.agents.base import Agent, ddpg_bc, gather, goals_for, rows_with_future
from scots.core.config import Config
from scots.core.errors import BadInput
from scots.data.trajectories import GoalMix, Trajectories, sample_goals
from scots.models.nets import Bilinear, GaussianActor, frozen
from scots.models.training import Batch, TrainingConfig


@dataclass(frozen=True)
class CRLConfig(Config):
    """Contrastive reinforcement learning. The defaults are OGBench's, with its actor goals for stitch data."""

    hidden: tuple[int, ...] = (512, 512, 512)
    normalize: bool = False  # the reference feeds raw observations
    discount: float = 0.99  # gamma: only in the geometric law of the goals
    alpha: float = 0.1  # weight of imitation in the actor's loss
    value_goals: GoalMix = GoalMix(current=0.0, trajectory=1.0, random=0.0)
    actor_goals: GoalMix = GoalMix(current=0.0, trajectory=0.5, random=0.5, geometric=False)
    training: TrainingConfig = TrainingConfig(steps=1_000_000, batch_size=1024, learning_rate=3e-4)

    def __post_init__(self) -> None:
        if not 0 < self.discount < 1:
            raise BadInput(f"discount must be in (0, 1): {self.discount}")


class CRL(Agent):
    """Two critics Q(s, g, a) = phi(s, a) . psi(g) / sqrt(D), and a Gaussian actor pi(a | s, g)."""

    name = "crl"
    config_class = CRLConfig
    follows_plans = True

    def __init__(self, config: CRLConfig, sizes: dict[str, int]) -> None:
        super().__init__(config, sizes)
        observation, action = sizes["observation"], sizes["action"]
        self.critics = Bilinear(observation + action, observation, config.hidden, members=2)
        self.actor = GaussianActor(2 * observation, config.hidden, action)

    def batch(self, data: Trajectories, size: int, rng: np.random.Generator) -> Batch:
        """States and actions, a later state of each for the critics, and a goal for the actor."""
        config: CRLConfig = self.config
        rows = rows_with_future(data, data.random_rows(2, size, rng), rng)
        goals = sample_goals(data, rows, config.value_goals, config.discount, rng)  # reached, or the critics are misled
        actor_goals = goals_for(data, rows, config.actor_goals, config.discount, rng)
        return gather(data, {"state": rows, "goal": goals, "actor_state": rows, "actor_goal": actor_goals})

    def critic_loss(self, batch: Batch) -> Tensor:
        """Binary cross-entropy over all pairs of the batch: was this goal reached from this state and action?"""
        left, goal = torch.cat([batch["state"], batch["action"]], dim=-1), batch["goal"]
        logits = self.critics.table(left, goal)
        reached = torch.eye(len(goal), device=goal.device, dtype=goal.dtype).expand_as(logits)
        return functional.binary_cross_entropy_with_logits(logits, reached)

    def actor_loss(self, batch: Batch) -> Tensor:
        """DDPG+BC with the lower critic at the actor's action."""
        state, goal, action = batch["actor_state"], batch["actor_goal"], batch["actor_action"]
        mean = self.actor(state, goal)
        q = frozen(self.critics, torch.cat([state, mean.clamp(-1, 1)], dim=-1), goal).amin(0)
        return ddpg_bc(q, action, mean, self.config.alpha)

    def loss(self, batch: Batch, generator: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
        """The sum of all losses; each moves its own network only."""
        batch = self.scaled(batch)
        losses = {"critic": self.critic_loss(batch), "actor": self.actor_loss(batch)}
        return torch.stack(list(losses.values())).sum(), losses
