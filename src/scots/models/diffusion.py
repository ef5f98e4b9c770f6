"""Diffusion over sequences: the variance-preserving process, prediction targets, clamping, and solvers.

Time t runs from 0 (data) to 1 (noise): x_t = alpha(t) x_0 + sigma(t) eps, with the linear schedule of the paper, or the
cosine schedule of diffusion planners that came before it.
"""

from __future__ import annotations

import math
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
FIRST_TIME = 1e-3  # smallest time in training and sampling: the noise below it is negligible
_COSINE_OFFSET = 0.008  # keeps the noise near the data from vanishing (Nichol and Dhariwal, 2021)
_LEAST_ALPHA = 1e-3  # of the cosine schedule, which has no signal left at time 1

Schedule = Literal["linear", "cosine"]
"""How the signal fades: beta linear in time, or alpha a quarter of a cosine wave."""
SOLVER_TIMES: dict[Schedule, tuple[float, float]] = {"linear": (1.0, FIRST_TIME), "cosine": (491 / 512, 1 / 512)}
"""First and last time of a solver; those of the cosine schedule are Compositional Diffuser's, 50 of 512 steps."""
Prediction = Literal["eps", "x0", "v"]
Frame = Literal["absolute", "chord"]
"""Sequences in absolute coordinates, or as deviations from the straight line between their ends."""
TimeDensity = Literal["uniform", "noise", "data"]
"""Diffusion times that a network is trained at: uniform, or more often near noise or near data."""
Network = Callable[..., Tensor]
"""(x_t (B, T, D), t (B,)) and an optional context -> the prediction target."""
Denoiser = Callable[[Tensor, Tensor], Tensor]
"""(x_t (B, T, D), t (B,)) -> estimate of x_0."""


def alpha_sigma(time: Tensor, schedule: Schedule = "linear") -> tuple[Tensor, Tensor]:
    """Signal and noise levels of a VP schedule."""
    if schedule == "cosine":
        alpha = (_cosine_angle(time).cos() / _cosine_angle(torch.zeros_like(time)).cos()).clamp(min=_LEAST_ALPHA)
        return alpha, (1 - alpha.square()).clamp(min=0).sqrt()
    log_alpha = -(BETA_1 - BETA_0) / 4 * time**2 - BETA_0 / 2 * time
    alpha = log_alpha.exp()
    return alpha, (-torch.expm1(2 * log_alpha)).sqrt()


def _cosine_angle(time: Tensor) -> Tensor:
    return (time + _COSINE_OFFSET) / (1 + _COSINE_OFFSET) * (math.pi / 2)


def draw_times(count: int, generator: torch.Generator, density: TimeDensity = "uniform") -> Tensor:
    """Training times (B,) of density 1, 2t ("noise") or 2(1 - t) ("data"): the density weights the loss of a time."""
    level = torch.rand(count, generator=generator)
    level = {"uniform": lambda: level, "noise": level.sqrt, "data": lambda: 1 - (1 - level).sqrt()}[density]()
    return FIRST_TIME + (1 - FIRST_TIME) * level


def noised(clean: Tensor, time: Tensor, noise: Tensor, schedule: Schedule = "linear") -> Tensor:
    """Noisy sequences x_t (Eq. 3) from clean sequences (B, T, D) at times (B,)."""
    alpha, sigma = _levels(time, schedule)
    return alpha * clean + sigma * noise


def target(kind: Prediction, clean: Tensor, time: Tensor, noise: Tensor, schedule: Schedule = "linear") -> Tensor:
    """Training target of a network with this kind of prediction."""
    return target_at(kind, clean, noise, *_levels(time, schedule))


def target_at(kind: Prediction, clean: Tensor, noise: Tensor, alpha: Tensor, sigma: Tensor) -> Tensor:
    """The same, at these levels of signal and noise."""
    return {"eps": lambda: noise, "x0": lambda: clean, "v": lambda: alpha * noise - sigma * clean}[kind]()


def to_clean(kind: Prediction, output: Tensor, sequence: Tensor, time: Tensor, schedule: Schedule = "linear") -> Tensor:
    """Convert a network output to an estimate of x_0."""
    return clean_at(kind, output, sequence, *_levels(time, schedule))


def clean_at(kind: Prediction, output: Tensor, sequence: Tensor, alpha: Tensor, sigma: Tensor) -> Tensor:
    """The same, at these levels of signal and noise."""
    return {
        "eps": lambda: (sequence - sigma * output) / alpha,
        "x0": lambda: output,
        "v": lambda: alpha * sequence - sigma * output,
    }[kind]()


def denoiser(kind: Prediction, network: Network) -> Denoiser:
    """Wrap a network as a function that estimates x_0."""
    return lambda sequence, time: to_clean(kind, network(sequence, time), sequence, time)


def denoising_loss(
    kind: Prediction,
    network: Network,
    clean: Tensor,
    mask: Tensor,
    generator: torch.Generator,
    density: TimeDensity = "uniform",
) -> Tensor:
    """Denoising loss (Eq. 5) of sequences (B, T, D); masked entries stay clean and add no loss."""
    time = draw_times(len(clean), generator, density).to(clean.device)
    noise = torch.randn(clean.shape, generator=generator).to(clean.device)
    noisy = torch.where(mask, clean, noised(clean, time, noise))
    error = network(noisy, time) - target(kind, clean, time, noise)
    return error.square().masked_fill(mask, 0.0).mean()


def _levels(time: Tensor, schedule: Schedule = "linear") -> tuple[Tensor, Tensor]:
    alpha, sigma = alpha_sigma(time, schedule)
    return alpha[:, None, None], sigma[:, None, None]


@dataclass(frozen=True)
class SamplingConfig(Config):
    """How sequences are sampled from a trained denoiser."""

    steps: int = 20  # network evaluations
    order: Literal[1, 2] = 1  # 1 is DDIM, 2 is DPM-Solver++(2M)
    temperature: float = 0.5  # standard deviation of the initial noise; the solvers add none

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise BadInput(f"sampling steps must be at least 1, got {self.steps}")


def sample(
    denoise: Denoiser, fixed: Tensor, mask: Tensor, config: SamplingConfig, noise: Tensor | torch.Generator
) -> Tensor:
    """Sample sequences (B, T, D) whose masked entries are bit-equal to `fixed` at every step.

    `noise` is standard noise of that shape, or a generator to draw it from. `mask` is boolean and broadcasts to
    `fixed`.
    """
    if isinstance(noise, torch.Generator):
        noise = torch.randn(fixed.shape, generator=noise, dtype=fixed.dtype)
    sequence = torch.where(mask, fixed, config.temperature * noise.to(fixed.device))
    previous = sequence
    for step in solver_steps(config):
        time = torch.full((len(fixed),), step.time, dtype=fixed.dtype, device=fixed.device)
        clean = denoise(sequence, time)
        sequence = torch.where(mask, fixed, step.advance(sequence, clean, previous))
        previous = clean
    return sequence


@dataclass(frozen=True)
class SolverStep:
    """One step of a solver towards the data: a network call at `time`, then a linear combination.

    Both solvers integrate the probability-flow ODE in the clean-data parametrisation:
    x' = (sigma'/sigma) x - alpha' (e^-h - 1) D, with h the step in log(alpha/sigma). D is the clean estimate (first
    order), or the linear extrapolation of the last two (second order).
    """

    time: float
    decay: float  # of x
    gain: float  # of D
    extrapolation: float  # of the change of the clean estimate since the step before

    def advance(self, sequence: Tensor, clean: Tensor, previous: Tensor) -> Tensor:
        """The noisy sequence of the next time, from its clean estimate and that of the step before."""
        direction = clean + (clean - previous) * self.extrapolation if self.extrapolation else clean
        return self.decay * sequence + self.gain * direction if self.decay else direction


def solver_steps(config: SamplingConfig, schedule: Schedule = "linear", eta: float = 0.0) -> list[SolverStep]:
    """The steps of a solver, one network call each; the last may return its clean estimate (see `time_grid`).

    `eta` above 0 takes the variance of a stochastic DDIM step out of the noise and, like Compositional Diffuser, adds
    none in its place.
    """
    grid = time_grid(config, schedule)
    alpha, sigma = alpha_sigma(grid, schedule)
    kept = 1 - eta**2 * (1 - (alpha[:-1] / alpha[1:]).square()) / sigma[:-1].square()
    noise = sigma[1:] * kept.clamp(min=0).sqrt()  # that the next time is left with
    step = (alpha / sigma).log().diff()
    shrinking = (alpha[1:] / noise).log() - (alpha[:-1] / sigma[:-1]).log()
    extrapolation = torch.zeros_like(step)
    if config.order == 2:
        extrapolation[1:] = step[1:] / (2 * step[:-1])
    decay, gain = noise / sigma[:-1], -alpha[1:] * torch.expm1(-shrinking)
    rows = torch.stack([grid[:-1], decay, gain, extrapolation], dim=1).tolist()
    steps = [SolverStep(*row) for row in rows]
    return steps if len(steps) == config.steps else [*steps, SolverStep(float(grid[-1]), 0.0, 1.0, 0.0)]


def time_grid(config: SamplingConfig, schedule: Schedule = "linear") -> Tensor:
    """Solver times from noise to data: uniform in t for DDIM, as in the paper, and uniform in log-SNR for order 2.

    With the linear schedule DDIM takes `steps` steps and ends at `FIRST_TIME`, where about 1 % of the noise remains.
    The second-order solver extrapolates over steps in log-SNR, so it needs uniform ones. It spends its last network
    call on the clean estimate, because 1 % of a maze's extent is as long as an environment step; so does DDIM with the
    cosine schedule, as published.
    """
    first, last = SOLVER_TIMES[schedule]
    if config.order == 1:
        return torch.linspace(first, last, config.steps + (schedule == "linear"), dtype=torch.float64)
    alpha, sigma = alpha_sigma(torch.tensor([first, last], dtype=torch.float64), schedule)
    lowest, highest = (alpha / sigma).log().tolist()
    log_snr = torch.linspace(lowest, highest, config.steps, dtype=torch.float64)
    log_alpha = -0.5 * torch.log1p(torch.exp(-2 * log_snr))
    if schedule == "cosine":
        angle = (log_alpha.exp() * math.cos(_cosine_angle(torch.zeros(1)).item())).acos()
        return angle * (2 / math.pi) * (1 + _COSINE_OFFSET) - _COSINE_OFFSET
    square, linear = (BETA_1 - BETA_0) / 4, BETA_0 / 2  # log_alpha = -square t^2 - linear t, solved for t
    return (-linear + (linear**2 - 4 * square * log_alpha).sqrt()) / (2 * square)


def ends_mask(tokens: int, context: int = 1) -> Tensor:
    """True on the first and last `context` time steps (T, 1)."""
    mask = torch.zeros(tokens, 1, dtype=torch.bool)
    mask[:context] = mask[-context:] = True
    return mask


def given_mask(tokens: int, context: int = 1, last: Tensor | None = None) -> Tensor:
    """True on the given states of sequences (T, 1); with `last` (B,) also on all that wait from there on (B, T, 1)."""
    mask = ends_mask(tokens, context)
    return mask if last is None else mask.to(last.device) | waits(tokens, last)


def waits(tokens: int, last: Tensor) -> Tensor:
    """True from token `last` (B,) of each sequence on, where it has arrived: (B, T, 1)."""
    return (torch.arange(tokens, device=last.device) >= last[:, None])[..., None]


def draw_last(tokens: int, share: float, size: int, rng: np.random.Generator) -> Array:
    """Last moving state of each of B training sequences: random for a share of them, the final state for the others."""
    return np.where(rng.random(size) < share, rng.integers(tokens - 1, size=size), tokens - 1)


def hold_after(sequence: Tensor, last: Tensor) -> Tensor:
    """Repeat the state at index `last` (B,) until the end of each sequence: arrive, then wait."""
    steps = torch.arange(sequence.shape[1], device=sequence.device).expand(len(sequence), -1)
    index = torch.minimum(steps, last[:, None])
    return sequence.gather(1, index[..., None].expand_as(sequence))


# ------------------------------------------------------------------------------------------------------------- bridges
# Sequences between given states, `context` of them at each end. If a deviation (D,) is given, they are denoised in the
# chord frame: as deviations from the straight line between the innermost given states, divided by `deviation`, by a
# network conditioned on that line. A segment is short compared to a large maze: in absolute units its steps are smaller
# than the noise that a solver leaves, in chord units they are not. With one given state at each end, both are zero in
# the chord frame.


def ends_of(sequences: Tensor, context: int) -> Tensor:
    """The first and the last `context` states of sequences: (B, T, D) -> (B, 2C, D)."""
    return torch.cat([sequences[:, :context], sequences[:, -context:]], dim=1)


def chord(ends: Tensor, tokens: int) -> Tensor:
    """The straight line (B, T, D) in equal steps between the innermost of the given states (B, 2C, D).

    Beside the given states further out, it stays where it begins and where it ends.
    """
    context = ends.shape[1] // 2
    inner = torch.linspace(0, 1, tokens - 2 * (context - 1), device=ends.device)
    outer = inner.new_ones(context - 1)
    weight = torch.cat([0 * outer, inner, outer])
    return torch.lerp(ends[:, context - 1 : context], ends[:, context : context + 1], weight[:, None])


def chord_deviation(sequences: Tensor, context: int = 1) -> Tensor:
    """Standard deviation (D,) of sequences (B, T, D) from their chords; 1 where it would be 0."""
    tokens = sequences.shape[1]
    offsets = sequences - chord(ends_of(sequences, context), tokens)
    deviation = offsets[:, context - 1 : tokens - context + 1].flatten(0, 1).std(dim=0)
    return torch.where(deviation > 0, deviation, 1.0)


def bridge_loss(
    kind: Prediction,
    network: Network,
    clean: Tensor,
    deviation: Tensor | None,
    generator: torch.Generator,
    density: TimeDensity = "uniform",
    context: int = 1,
    last: Tensor | None = None,
) -> Tensor:
    """Denoising loss (Eq. 5) of sequences (B, T, D) whose first and last `context` states are clamped.

    With `last` (B,) they are known to have arrived there: all from that state on are clamped.
    """
    mask = given_mask(clean.shape[1], context, last).to(clean.device)
    if deviation is None:
        return denoising_loss(kind, network, clean, mask, generator, density)
    line = chord(ends_of(clean, context), clean.shape[1])
    return denoising_loss(kind, partial(network, context=line), (clean - line) / deviation, mask, generator, density)


def bridge(
    kind: Prediction,
    network: Network,
    ends: Tensor,
    tokens: int,
    deviation: Tensor | None,
    config: SamplingConfig,
    noise: Tensor | torch.Generator,
    last: Tensor | None = None,
) -> Tensor:
    """Sample sequences (B, T, D) between their given first and last states (B, 2C, D).

    With `last` (B,) they arrive at that state of theirs, and wait from there on.
    """
    context = ends.shape[1] // 2
    mask, line = given_mask(tokens, context, last).to(ends.device), chord(ends, tokens)
    known = torch.cat([ends[:, :context], line[:, context:-context], ends[:, context:]], dim=1)
    if last is not None:
        known = torch.where(waits(tokens, last), ends[:, -1:], known)
    if deviation is None:
        return sample(denoiser(kind, network), known, mask, config, noise)
    denoise = denoiser(kind, partial(network, context=line))
    return line + deviation * sample(denoise, (known - line) / deviation, mask, config, noise)
