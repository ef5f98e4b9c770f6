"""What all agents do alike: being sized for a dataset, acting, drawing transitions with goals, the DDPG+BC loss."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from scots.core.errors import BadInput
from scots.data.support import Support
from scots.data.trajectories import Array, Normalizer, Trajectories, sample_goals
from scots.models.nets import Scale, log_density
from scots.models.training import Model


class Agent(Model):
    """Base of every agent. It remembers where the data has been that it learned to act from.

    A subclass builds its networks, among them `actor`, and says what a batch is and its losses.
    """

    actor: nn.Module

    def __init__(self, config: Any, sizes: dict[str, int]) -> None:
        super().__init__(config, sizes)
        self.scale = Scale(sizes["observation"])
        self.support = Support(sizes["position"], sizes["boxes"])

    @classmethod
    def for_data(cls, config: Any, data: Trajectories) -> Self:
        """Sized for the observations and actions of a dataset."""
        if data.actions is None:
            raise BadInput("this dataset has no actions, so no agent can be learned from it")
        support = Support.of(data)
        sizes = {"observation": data.observations.shape[1], "action": data.actions.shape[1]}
        agent = cls(config, sizes | {"position": len(data.meta.position), "boxes": len(support.boxes)})
        agent.support = support
        if config.normalize:
            agent.scale.fit(Normalizer.fit(data.observations))
        return agent

    @torch.inference_mode()
    def act(self, observations: Array, goals: Array, rng: np.random.Generator) -> Array:
        """The mean action, clipped: (B, O), (B, O) -> (B, A) in [-1, 1]; the same whatever `rng`."""
        tensors = (torch.tensor(values, dtype=torch.float32, device=self.device) for values in (observations, goals))
        return self.actor(*map(self.scale, tensors)).clamp(-1, 1).cpu().numpy()


def draw(config: Any, data: Trajectories, size: int, rng: np.random.Generator) -> tuple[Array, Array, dict[str, Array]]:
    """Rows of transitions, rows of goals for the values, and states, actions, those goals and goals for the actor."""
    assert data.actions is not None
    rows = data.random_rows(2, size, rng)
    goals = sample_goals(data, rows, config.value_goals, config.discount, rng)
    actor_goals = sample_goals(data, rows, config.actor_goals, config.discount, rng)
    arrays = {
        "state": data.observations[rows],
        "action": data.actions[rows],
        "goal": data.observations[goals],
        "actor_goal": data.observations[actor_goals],
    }
    return rows, goals, arrays


def ddpg_bc(quality: Tensor, action: Tensor, mean: Tensor, alpha: float) -> Tensor:
    """Minus the critic at the actor's action over its mean size, minus alpha log pi(a | s, g)."""
    size = quality.detach().abs().mean() + 1e-6
    return -quality.mean() / size - alpha * log_density(action, mean).mean()
