"""Ancestral sampling in few discrete steps, as Diffuser does it, with guidance by the gradient of a value."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

_OFFSET = 0.008  # keeps the noise near the data from vanishing (Nichol and Dhariwal, 2021)
_LARGEST_BETA = 0.999

Denoise = Callable[[Tensor, int], Tensor]
"""(x_t (B, T, D), t) -> estimate of x_0."""
Value = Callable[[Tensor, int], Tensor]
"""(x_t (B, T, D), t) -> values (B,), differentiable."""
Clamp = Callable[[Tensor], Tensor]
"""Sets what is given of sequences (B, T, D)."""


class CosineProcess:
    """The discrete variance-preserving process with the cosine schedule: steps t = 0 (data) to `steps` - 1 (noise)."""

    def __init__(self, steps: int) -> None:
        self.steps = steps
        angle = (torch.arange(steps + 1, dtype=torch.float64) / steps + _OFFSET) / (1 + _OFFSET) * (math.pi / 2)
        signal = angle.cos().square()
        beta = (1 - signal[1:] / signal[:-1]).clamp(max=_LARGEST_BETA)
        kept = (1 - beta).cumprod(0)  # alpha-bar
        before = torch.cat([kept.new_ones(1), kept[:-1]])
        self.alpha, self.sigma = kept.sqrt().float(), (1 - kept).sqrt().float()
        self.variance = (beta * (1 - before) / (1 - kept)).float()  # of x_{t-1} given x_t and x_0
        self.clean_weight = (beta * before.sqrt() / (1 - kept)).float()
        self.noisy_weight = ((1 - before) * (1 - beta).sqrt() / (1 - kept)).float()

    def noised(self, clean: Tensor, steps: Tensor, noise: Tensor) -> Tensor:
        """x_t of clean sequences (B, T, D) at steps (B,)."""
        alpha, sigma = self.levels(steps)
        return alpha * clean + sigma * noise

    def levels(self, steps: Tensor) -> tuple[Tensor, Tensor]:
        """Signal and noise (B, 1, 1) at steps (B,)."""
        alpha, sigma = (level.to(steps.device)[steps, None, None] for level in (self.alpha, self.sigma))
        return alpha, sigma

    def times(self, steps: Tensor) -> Tensor:
        """Steps as times in [0, 1), which networks are told."""
        return steps / self.steps

    def back(self, clean: Tensor, sequence: Tensor, step: int, noise: Tensor) -> Tensor:
        """A draw of x_{t-1} given x_t and the estimate of x_0. At step 0 that is the estimate itself."""
        mean = float(self.clean_weight[step]) * clean + float(self.noisy_weight[step]) * sequence
        return mean + math.sqrt(float(self.variance[step])) * noise


def climb(sequence: Tensor, value: Value, step: int, length: float) -> Tensor:
    """Sequences moved once along the gradient of their values."""
    with torch.enable_grad():
        variable = sequence.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(value(variable, step).sum(), variable)
    return sequence + length * gradient


def guided_sample(
    process: CosineProcess,
    denoise: Denoise,
    clamp: Clamp,
    sequence: Tensor,
    noise: Callable[[], Tensor],
    *,
    first: int,
    value: Value | None = None,
    scale: float = 0.0,
    climbs: int = 0,
    last_guided: int = 0,
) -> Tensor:
    """Sequences from x_t (B, T, D) at step `first` down to step 0, of which the estimate of the data is the last step.

    That one is left to the caller, who may not want it of all of them. Before every step down to `last_guided` they
    climb the value `climbs` times, by `scale` times the variance of the step. `noise` draws standard noise of their
    shape.
    """
    sequence = clamp(sequence)
    for step in range(first, 0, -1):
        if value is not None and step >= last_guided:
            for _ in range(climbs):
                sequence = clamp(climb(sequence, value, step, scale * float(process.variance[step])))
        sequence = clamp(process.back(denoise(sequence, step), sequence, step, noise()))
    return sequence
