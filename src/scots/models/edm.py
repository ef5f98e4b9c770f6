"""The EDM form of diffusion (Karras et al., 2022): preconditioned denoiser, its loss, and the stochastic Heun sampler.

A clean vector x of unit variance is seen as x + sigma n, at noise levels sigma from 0.002 to 80.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from scots.core.config import Config
from scots.core.errors import BadInput

LOWEST, HIGHEST, RHO = 0.002, 80.0, 7.0
"""Noise levels of the sampler, and how much more densely the low ones lie."""
LOG_MEAN, LOG_DEVIATION = -1.2, 1.2
"""Of the normal law of ln sigma in training."""

Network = Callable[[Tensor, Tensor], Tensor]
"""(scaled vectors (B, D), ln(sigma) / 4 (B,)) -> (B, D)."""


@dataclass(frozen=True)
class HeunConfig(Config):
    """How vectors are sampled. The defaults are SynthER's."""

    steps: int = 128  # noise levels; all but the last take two network calls
    churn: float = 80.0  # noise added on the way, as a share of the level, over all steps; 0 is the plain ODE
    churn_from: float = 0.05  # levels between which it is added
    churn_to: float = 50.0
    churn_scale: float = 1.003  # deviation of that noise, against the loss of detail

    def __post_init__(self) -> None:
        if self.steps < 2 or self.churn < 0:
            raise BadInput(f"steps must be at least 2 and churn at least 0: {self.steps}, {self.churn}")


def denoised(network: Network, noisy: Tensor, sigma: Tensor) -> Tensor:
    """The estimate of clean vectors (B, D) from noisy ones at levels (B,).

    What goes into the network and what is asked of it have unit variance at every level.
    """
    variance = (1 + sigma.square())[:, None]
    output = network(noisy * variance.rsqrt(), sigma.log() / 4)
    return noisy / variance + sigma[:, None] * variance.rsqrt() * output


def denoising_loss(network: Network, clean: Tensor, generator: torch.Generator) -> Tensor:
    """Squared error of the estimate, weighted by (sigma^2 + 1) / sigma^2, at levels whose logarithm is normal."""
    logarithm = LOG_MEAN + LOG_DEVIATION * torch.randn(len(clean), generator=generator)
    sigma = logarithm.exp().to(clean.device)
    noise = torch.randn(clean.shape, generator=generator).to(clean.device)
    error = denoised(network, clean + sigma[:, None] * noise, sigma) - clean
    return ((1 + sigma.square()) / sigma.square() * error.square().mean(-1)).mean()


def noise_levels(steps: int) -> list[float]:
    """The levels of the sampler, from the highest to the lowest and then 0."""
    high, low = HIGHEST ** (1 / RHO), LOWEST ** (1 / RHO)
    return [(high + step / (steps - 1) * (low - high)) ** RHO for step in range(steps)] + [0.0]


@torch.inference_mode()
def sample(
    network: Network, shape: tuple[int, int], config: HeunConfig, generator: torch.Generator, device: torch.device
) -> Tensor:
    """Draw vectors (B, D): a little noise up, then a second-order step of the ODE down, from level to level."""

    def noise() -> Tensor:
        return torch.randn(shape, generator=generator).to(device)

    def slope(vectors: Tensor, level: float) -> Tensor:
        return (vectors - denoised(network, vectors, torch.full((shape[0],), level, device=device))) / level

    levels, share = noise_levels(config.steps), min(config.churn / config.steps, math.sqrt(2) - 1)
    vectors = levels[0] * noise()
    for level, lower in pairwise(levels):
        if config.churn_from <= level <= config.churn_to and share > 0:
            raised = (1 + share) * level
            vectors = vectors + math.sqrt(raised**2 - level**2) * config.churn_scale * noise()
            level = raised
        here = slope(vectors, level)
        ahead = vectors + (lower - level) * here
        if lower > 0:
            ahead = vectors + (lower - level) * (here + slope(ahead, lower)) / 2
        vectors = ahead
    return vectors
