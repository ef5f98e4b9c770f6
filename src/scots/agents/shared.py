"""What all agents do alike: being sized for a dataset, drawing transitions with goals, the DDPG+BC actor, acting."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from scots.errors import BadInput
from scots.nets import log_density
from scots.training import Model
from scots.trajectories import Array, Normalizer, Trajectories, sample_goals

SomeAgent = TypeVar("SomeAgent", bound=Model)


def sized_for(kind: type[SomeAgent], config: Any, data: Trajectories) -> SomeAgent:
    """An agent for the observations and actions of a dataset."""
    if data.actions is None:
        raise BadInput("this dataset has no actions, so no agent can be learned from it")
    agent: Any = kind(config, {"observation": data.observations.shape[1], "action": data.actions.shape[1]})
    if config.normalize:
        agent.scale.fit(Normalizer.fit(data.observations))
    return agent


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


@torch.no_grad()
def clipped_mean(agent: Any, observations: Array, goals: Array) -> Array:
    """The mean action, clipped: (B, O), (B, O) -> (B, A) in [-1, 1]."""
    tensors = (torch.tensor(values, dtype=torch.float32, device=agent.device) for values in (observations, goals))
    return agent.actor(*map(agent.scale, tensors)).clamp(-1, 1).cpu().numpy()
