"""Diffusion over sequences: the variance-preserving process, what a network may predict, clamping, and solvers.

Time t runs from 0 (data) to 1 (noise): x_t = alpha(t) x_0 + sigma(t) eps, with the linear schedule of the paper.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from scots.core.config import Config
from scots.core.errors import BadInput
from scots.data.trajectories import Array

BETA_0, BETA_1 = 0.1, 20.0
FIRST_TIME = 1e-3  # nothing is trained or sampled below: the noise there is negligible

Prediction = Literal["eps", "x0", "v"]
Frame = Literal["absolute", "chord"]
"""Sequences as they are, or their deviation from the straight line between their ends."""
Network = Callable[..., Tensor]
"""(x_t (B, T, D), t (B,)) and, where it has one, a context -> what it was trained to predict."""
Denoiser = Callable[[Tensor, Tensor], Tensor]
"""(x_t (B, T, D), t (B,)) -> estimate of x_0."""


def alpha_sigma(time: Tensor) -> tuple[Tensor, Tensor]:
    """Signal and noise levels of the linear VP schedule."""
    log_alpha = -(BETA_1 - BETA_0) / 4 * time**2 - BETA_0 / 2 * time
    alpha = log_alpha.exp()
    return alpha, (-torch.expm1(2 * log_alpha)).sqrt()


def draw_times(count: int, generator: torch.Generator) -> Tensor:
    """Training times (B,), uniform."""
    return FIRST_TIME + (1 - FIRST_TIME) * torch.rand(count, generator=generator)


def noised(clean: Tensor, time: Tensor, noise: Tensor) -> Tensor:
    """x_t of clean sequences (B, T, D) at times (B,)."""
    alpha, sigma = _levels(time)
    return alpha * clean + sigma * noise


def target(kind: Prediction, clean: Tensor, time: Tensor, noise: Tensor) -> Tensor:
    """What a network of this kind is trained to output."""
    alpha, sigma = _levels(time)
    return {"eps": lambda: noise, "x0": lambda: clean, "v": lambda: alpha * noise - sigma * clean}[kind]()


def to_clean(kind: Prediction, output: Tensor, sequence: Tensor, time: Tensor) -> Tensor:
    """The estimate of x_0 that a network output implies."""
    alpha, sigma = _levels(time)
    return {
        "eps": lambda: (sequence - sigma * output) / alpha,
        "x0": lambda: output,
        "v": lambda: alpha * sequence - sigma * output,
    }[kind]()


def denoiser(kind: Prediction, network: Network) -> Denoiser:
    """The clean estimate of a network."""
    return lambda sequence, time: to_clean(kind, network(sequence, time), sequence, time)


def denoising_loss(
    kind: Prediction, network: Network, clean: Tensor, mask: Tensor, generator: torch.Generator
) -> Tensor:
    """Denoising error (Eq. 5) of sequences (B, T, D) on all but the masked entries, which stay clean."""
    time = draw_times(len(clean), generator).to(clean.device)
    noise = torch.randn(clean.shape, generator=generator).to(clean.device)
    noisy = torch.where(mask, clean, noised(clean, time, noise))
    wanted = target(kind, clean, time, noise)
    return (network(noisy, time) - wanted).square().masked_fill(mask, 0.0).mean()


def _levels(time: Tensor) -> tuple[Tensor, Tensor]:
    alpha, sigma = alpha_sigma(time)
    return alpha[:, None, None], sigma[:, None, None]


@dataclass(frozen=True)
class SamplingConfig(Config):
    """How sequences are drawn from a trained denoiser."""

    steps: int = 20  # network calls
    order: Literal[1, 2] = 1  # 1 is DDIM, 2 is DPM-Solver++(2M)
    temperature: float = 0.5  # standard deviation of the initial noise; the solvers add none

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise BadInput(f"sampling needs at least one step, got {self.steps}")


def sample(
    denoise: Denoiser, fixed: Tensor, mask: Tensor, config: SamplingConfig, noise: Tensor | torch.Generator
) -> Tensor:
    """Turn standard noise into sequences (B, T, D) whose masked entries equal `fixed` to the bit at every step.

    `noise` is of that shape, or the generator to draw it from.
    `mask` is boolean and broadcasts to `fixed`. Both solvers integrate the probability-flow ODE in the clean-data
    parametrisation: x' = (sigma'/sigma) x - alpha' (e^-h - 1) D, h the step in log(alpha/sigma), with D the clean
    estimate (first order) or its linear extrapolation over the last two (second order).
    """
    grid = time_grid(config)
    alpha, sigma = alpha_sigma(grid)
    step = (alpha / sigma).log().diff()
    if isinstance(noise, torch.Generator):
        noise = torch.randn(fixed.shape, generator=noise, dtype=fixed.dtype)
    sequence = torch.where(mask, fixed, config.temperature * noise.to(fixed.device))
    before: Tensor | None = None
    for n in range(config.steps):
        time = torch.full((len(fixed),), float(grid[n]), dtype=fixed.dtype, device=fixed.device)
        clean = denoise(sequence, time)
        if n == len(step):  # the second-order solver ends with the clean estimate itself
            return torch.where(mask, fixed, clean)
        direction = clean
        if config.order == 2 and before is not None:
            direction = clean + (clean - before) * float(step[n] / (2 * step[n - 1]))
        keep = float(sigma[n + 1] / sigma[n])
        sequence = keep * sequence - float(alpha[n + 1] * torch.expm1(-step[n])) * direction
        sequence = torch.where(mask, fixed, sequence)
        before = clean
    return sequence


def time_grid(config: SamplingConfig) -> Tensor:
    """Times of the solver from noise to data: even in t for DDIM, as in the paper, else even in log-SNR.

    DDIM takes `steps` steps and ends at the first time, so a hundredth of the noise stays. The second-order solver
    extrapolates over steps in log-SNR, so it wants them alike, and spends its last network call on the clean estimate:
    a hundredth of the extent of a maze is as long as a step in it.
    """
    if config.order == 1:
        return torch.linspace(1.0, FIRST_TIME, config.steps + 1, dtype=torch.float64)
    alpha, sigma = alpha_sigma(torch.tensor([1.0, FIRST_TIME], dtype=torch.float64))
    first, last = (alpha / sigma).log().tolist()
    log_snr = torch.linspace(first, last, config.steps, dtype=torch.float64)
    log_alpha = -0.5 * torch.log1p(torch.exp(-2 * log_snr))
    square, linear = (BETA_1 - BETA_0) / 4, BETA_0 / 2  # log_alpha = -square t^2 - linear t, solved for t
    return (-linear + (linear**2 - 4 * square * log_alpha).sqrt()) / (2 * square)


def ends_mask(tokens: int) -> Tensor:
    """True on the first and last time step (T, 1)."""
    mask = torch.zeros(tokens, 1, dtype=torch.bool)
    mask[[0, -1]] = True
    return mask


def draw_last(tokens: int, share: float, size: int, rng: np.random.Generator) -> Array:
    """After which state each of B training sequences waits: a share of them early, the others not at all."""
    return np.where(rng.random(size) < share, rng.integers(tokens - 1, size=size), tokens - 1)


def hold_after(sequence: Tensor, last: Tensor) -> Tensor:
    """Overwrite all states after index `last` (B,) with the state there: arrive, then wait."""
    steps = torch.arange(sequence.shape[1], device=sequence.device).expand(len(sequence), -1)
    index = torch.minimum(steps, last[:, None])
    return sequence.gather(1, index[..., None].expand_as(sequence))


# ------------------------------------------------------------------------------------------------------------- bridges
# Sequences between two given states. With a deviation (D,) they are denoised in the frame of the chord: as deviations
# from the straight line between their ends, in these units, by a network that is told that line. A segment is short
# against a large maze: in absolute units its steps are smaller than the noise a solver leaves, in the chord's they are
# not. The ends are zero there, so clamping is the same.


def chord(ends: Tensor, tokens: int) -> Tensor:
    """The straight line (B, T, D) between first and last states (B, 2, D), at even steps."""
    return torch.lerp(ends[:, :1], ends[:, 1:], torch.linspace(0, 1, tokens, device=ends.device)[:, None])


def chord_deviation(sequences: Tensor) -> Tensor:
    """Standard deviation (D,) of sequences (B, T, D) from their chords; one where there is none."""
    deviation = (sequences - chord(sequences[:, [0, -1]], sequences.shape[1])).flatten(0, 1).std(dim=0)
    return torch.where(deviation > 0, deviation, 1.0)


def bridge_loss(
    kind: Prediction, network: Network, clean: Tensor, deviation: Tensor | None, generator: torch.Generator
) -> Tensor:
    """Denoising error (Eq. 5) of sequences (B, T, D) on all but their clamped ends."""
    mask = ends_mask(clean.shape[1]).to(clean.device)
    if deviation is None:
        return denoising_loss(kind, network, clean, mask, generator)
    line = chord(clean[:, [0, -1]], clean.shape[1])
    return denoising_loss(kind, partial(network, context=line), (clean - line) / deviation, mask, generator)


def bridge(
    kind: Prediction,
    network: Network,
    ends: Tensor,
    tokens: int,
    deviation: Tensor | None,
    config: SamplingConfig,
    noise: Tensor | torch.Generator,
) -> Tensor:
    """Draw sequences (B, T, D) between first and last states (B, 2, D)."""
    mask, line = ends_mask(tokens).to(ends.device), chord(ends, tokens)
    if deviation is None:
        return sample(denoiser(kind, network), line, mask, config, noise)
    denoise = denoiser(kind, partial(network, context=line))
    return line + deviation * sample(denoise, torch.zeros_like(line), mask, config, noise)
