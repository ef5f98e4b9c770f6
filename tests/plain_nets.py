"""Tiny agents with random weights, and what their networks output, from the weights alone."""

from typing import Any

import numpy as np
import torch
from scipy.special import erf
from torch import nn

from scots.agents import AGENTS
from scots.data.trajectories import Trajectories

STATES = ("state", "next_state", "goal", "actor_state", "actor_next_state", "actor_goal", "low_goal", "subgoal")


def random_agent(name: str, config: Any, data: Trajectories) -> Any:
    """An agent in double precision; all weights are random, so that nothing is hidden by a zero or a one."""
    torch.manual_seed(0)
    model = AGENTS[name].for_data(config, data).double()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=1.0)
    return model


def random_batch(size: int = 6) -> dict[str, torch.Tensor]:
    """Everything that an agent may ask for in a batch, unrelated numbers; the first two states are their goals."""
    generator = torch.Generator().manual_seed(1)
    names = (*STATES, "action", "actor_action")
    batch = {name: torch.randn(size, 2, generator=generator, dtype=torch.float64) for name in names}
    batch |= {name: batch[name].clamp(-1, 1) for name in ("action", "actor_action")}
    return batch | {"arrived": torch.arange(size) < 2}


def arrays(batch: dict[str, torch.Tensor], *names: str) -> list[np.ndarray]:
    return [batch[name].numpy() for name in names]


def forward(net: nn.Module, *inputs: np.ndarray) -> np.ndarray:
    """What an MLP outputs, from its weights alone."""
    values = np.concatenate(inputs, axis=1)
    for layer in net.children():
        weights = [parameter.detach().numpy() for parameter in layer.parameters()]
        if isinstance(layer, nn.Linear):
            values = values @ weights[0].T + weights[1]
        elif isinstance(layer, nn.LayerNorm):
            centred = values - values.mean(axis=1, keepdims=True)
            values = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5) * weights[0] + weights[1]
        else:
            values = values * 0.5 * (1 + erf(values / np.sqrt(2)))
    return values


def moved_by(model: nn.Module, loss: torch.Tensor) -> set[str]:
    """The networks whose weights a loss has a gradient for; all weights of such a network have one."""
    loss.backward()
    graded = {key for key, parameter in model.named_parameters() if parameter.grad is not None}
    networks = {key.split(".")[0] for key in graded}
    assert graded == {key for key, _ in model.named_parameters() if key.split(".")[0] in networks}
    return networks
