"""Repairing joins with a clamped diffusion model (Eq. 12), and labelling actions by inverse dynamics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from scots.core.config import Config, after_training
from scots.core.errors import BadInput
from scots.data.trajectories import Array, Normalizer, Trajectories
from scots.models import diffusion
from scots.models.diffusion import Frame, Prediction, SamplingConfig, TimeDensity
from scots.models.nets import DiT1d, Scale, feature_sizes, mlp
from scots.models.training import EMA, Batch, Model, TrainingConfig

_REDRAW_TEMPERATURE = 0.5  # of draws after the first, which may be at temperature 0 and would come out the same
_BATCH = 256  # windows in one network call: larger batches do not fit the processor's cache


@dataclass(frozen=True)
class StitcherConfig(Config):
    """The diffusion stitcher. The defaults are the paper's."""

    width: int = 256
    depth: int = 8
    head_width: int = 32
    prediction: Prediction = "eps"
    early_arrival: float = 1.0  # share of training windows that arrive early and stay at their last state
    frame: Frame = "absolute"
    time_density: TimeDensity = "uniform"  # of the diffusion times that it is trained at
    ema: float = 0.9999
    training: TrainingConfig = TrainingConfig(
        steps=1_000_000, batch_size=64, learning_rate=2e-4, weight_decay=1e-5, schedule="cosine"
    )
    sampling: SamplingConfig = after_training(SamplingConfig())


@dataclass(frozen=True)
class RefinementConfig(Config):
    """Which states of a stitched trajectory are made by the stitcher. The defaults are the paper's.

    A local refinement makes a few states around each join and leaves all others as recorded. Where a segment is too
    short for that many, it makes at most half of it.
    """

    generated: int | None = None  # states made around a join; None: all but the ends of every segment
    context: int = 1  # recorded states that the stitcher sees on each side of those it makes
    draws: int = 0  # tries until all of them lie on the data, or else the join stays as it is; 0: no check
    keep_actions: bool = False  # recorded actions stay where a state and the next are recorded; others are labelled

    def __post_init__(self) -> None:
        for name, minimum in {"generated": 1, "context": 1, "draws": 0}.items():
            value = getattr(self, name)
            if value is not None and value < minimum:
                raise BadInput(f"{name} must be at least {minimum}, got {value}")

    def sizes(self, segment: int) -> dict[str, int]:
        """Sizes of the stitcher for segments of this many states."""
        if self.generated is None:
            return {"tokens": segment, "context": 1}
        made = min(self.generated, max(1, (segment - 1) // 2))
        context = max(1, min(self.context, segment - 1 - made))
        return {"tokens": made + 2 * context, "context": context}


class Stitcher(Model):
    """p(states of a window | its first and last C states): a DiT1d that denoises windows whose two ends stay clean.

    Eq. 12 has windows of a whole segment and C = 1. In the chord frame it learns and samples deviations from the
    straight line between the ends.
    """

    config_class = StitcherConfig
    deviation: Tensor  # (F,) standard deviation of normalised states from the chord of their window

    def __init__(self, config: StitcherConfig, sizes: dict[str, int]) -> None:
        super().__init__(config, sizes)
        columns = sizes["observation"]
        line = columns if config.frame == "chord" else 0
        self.scale = Scale(columns, sizes.get("angles", 0))
        self.net = DiT1d(columns, config.width, config.depth, config.head_width, sizes["tokens"], line)
        self.ema = EMA(self.net, config.ema, warmup=True)
        self.register_buffer("deviation", torch.ones(columns))

    @classmethod
    def for_data(cls, config: StitcherConfig, data: Trajectories, **sizes: int) -> Self:
        """Sized and scaled for observations of a dataset: windows of `tokens` states, `context` known at each end."""
        tokens, context = sizes["tokens"], sizes["context"]
        if tokens <= 2 * context:
            raise BadInput(f"a window of {tokens} states has nothing between its ends to refine; use at least 3")
        observation = feature_sizes("observation", data.observations.shape[1], data.meta.angles)
        model = cls(config, {**observation, "tokens": tokens, "context": context})
        model.scale.fit_angles(data.observations, data.meta.angles)
        model.scale.fit(Normalizer.fit(model.scale.array_features(data.observations)))
        if config.frame == "chord":
            starts = data.random_rows(tokens, 10_000, np.random.default_rng(0))
            states = model.scale(torch.from_numpy(data.windows(starts, tokens)))
            model.deviation.copy_(diffusion.chord_deviation(states, context))
        return model

    def batch(self, data: Trajectories, size: int, rng: np.random.Generator) -> Batch:
        """Windows, uniform over the dataset, and the last state before each of them waits."""
        tokens = self.sizes["tokens"]
        windows = data.windows(data.random_rows(tokens, size, rng), tokens)
        last = diffusion.draw_last(tokens, self.config.early_arrival, size, rng)
        return {"window": torch.from_numpy(windows), "last": torch.from_numpy(last)}

    def loss(self, batch: Batch, generator: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
        """Denoising error (Eq. 5) on all but the clamped ends."""
        clean = diffusion.hold_after(self.scale(batch["window"]), batch["last"])
        kind, density, context = self.config.prediction, self.config.time_density, self.sizes["context"]
        units = self._units()
        return diffusion.bridge_loss(kind, self.net, clean, units, generator, context=context, density=density), {}

    def _units(self) -> Tensor | None:
        return self.deviation if self.config.frame == "chord" else None

    def ema_copies(self) -> list[tuple[EMA, nn.Module]]:
        """The averaged weights that sample."""
        return [(self.ema, self.net)]

    @torch.inference_mode()
    def refine(self, ends: Array, generator: torch.Generator, temperature: float | None = None) -> Array:
        """Windows (B, T, O) between given first and last states (B, 2C, O), which are kept to the bit.

        `temperature` is that of the sampling settings, unless another one is given.
        """
        config, context = self.config, self.sizes["context"]
        sampling = config.sampling if temperature is None else replace(config.sampling, temperature=temperature)
        settings = self.sizes["tokens"], self._units(), sampling
        pieces = self.scale(torch.tensor(ends, device=self.device)).split(_BATCH)
        sampled = [diffusion.bridge(config.prediction, self.ema, piece, *settings, generator) for piece in pieces]
        windows = self.scale.inverse(torch.cat(sampled)).cpu().numpy()
        windows[:, :context], windows[:, -context:] = ends[:, :context], ends[:, context:]  # scaling would round them
        return windows


def refine(
    states: Array,
    rows: Array,
    stitcher: Stitcher,
    config: RefinementConfig,
    generator: torch.Generator,
    is_on_data: Callable[[Array], Array],
    quaternions: tuple[int, ...] = (),
) -> tuple[Array, Array]:
    """Refine a stitched trajectory (T, O) of these source rows (T,): its states, and the draw that made each (T,).

    Draw 0 are recorded states. A window counts as on the data if all its new states are; after the last draw those that
    are not keep their recorded states.
    """
    tokens, context = stitcher.sizes["tokens"], stitcher.sizes["context"]
    refined, drawn = states.copy(), np.zeros(len(states), dtype=np.uint8)
    windows = _windows(rows, tokens, context, config)
    for draw in range(1, max(1, config.draws) + 1):
        if not len(windows):
            break
        ends = np.concatenate([np.arange(context), np.arange(tokens - context, tokens)])
        temperature = None if draw == 1 else _REDRAW_TEMPERATURE
        made = stitcher.refine(states[windows[:, None] + ends], generator, temperature)[:, context:-context]
        made = unit_quaternions(made, quaternions)
        good = _all_on(made, is_on_data) if config.draws else np.ones(len(made), dtype=bool)
        targets = windows[good, None] + np.arange(context, tokens - context)
        refined[targets], drawn[targets] = made[good], draw
        windows = windows[~good]
    return refined, drawn


def _all_on(windows: Array, is_on_data: Callable[[Array], Array]) -> Array:
    """Whether all states of each window (W, T, O) lie on the data (W,)."""
    flags: Array = is_on_data(windows.reshape(-1, windows.shape[2])).reshape(windows.shape[:2])
    return np.asarray(flags.all(axis=1))


def _windows(rows: Array, tokens: int, context: int, config: RefinementConfig) -> Array:
    """First states of the windows to refine (W,): every segment, or those with a join in the middle."""
    if config.generated is None:
        return np.arange(0, len(rows) - 1, tokens - 1)
    joins = np.flatnonzero(np.diff(rows) != 1)  # the last state before each
    return joins + 1 - tokens // 2


def label_actions(
    states: Array, rows: Array, made: Array, actions: Array, inverse: InverseDynamics, keep_actions: bool
) -> Array:
    """Actions (T, A) along a stitched trajectory (T, O) of these source rows (T,); `made` are the refined states (T,).

    Recorded `actions` (N, A) are kept, if asked, where a state and the next were recorded one after the other.
    """
    following = np.minimum(np.arange(len(states)) + 1, len(states) - 1)  # the last state is paired with itself
    recorded = ~made & ~made[following] & (np.diff(rows, append=rows[-1] + 1) == 1)
    labelled = np.flatnonzero(~recorded if keep_actions else np.ones_like(recorded))
    chosen = actions[rows]
    chosen[labelled] = inverse.label(states[labelled], states[following[labelled]])
    return chosen


def unit_quaternions(observations: Array, first_columns: tuple[int, ...]) -> Array:
    """Scale every quaternion of observations (..., O) to unit length, in place."""
    for first in first_columns:
        part = observations[..., first : first + 4]
        observations[..., first : first + 4] = part / np.maximum(np.linalg.norm(part, axis=-1, keepdims=True), 1e-6)
    return observations


# -------------------------------------------------------------------------------------------------- inverse dynamics


@dataclass(frozen=True)
class InverseDynamicsConfig(Config):
    """The action that leads from one state to the next. The defaults are the paper's."""

    hidden: tuple[int, ...] = (256, 256, 256)
    dropout: float = 0.1
    inputs: Literal["states", "difference"] = "states"  # both states, or the state and the scaled change
    training: TrainingConfig = TrainingConfig(steps=200_000, batch_size=1984, learning_rate=1e-3, schedule="cosine")


class InverseDynamics(Model):
    """a_t = f(s_t, s_{t+1}): an MLP with a tanh output."""

    config_class = InverseDynamicsConfig

    def __init__(self, config: InverseDynamicsConfig, sizes: dict[str, int]) -> None:
        super().__init__(config, sizes)
        self.scale = Scale(sizes["observation"], sizes.get("angles", 0))
        self.change = Scale(sizes["observation"], sizes.get("angles", 0))
        shape = (2 * sizes["observation"], *config.hidden, sizes["action"])
        self.net = mlp(shape, layer_norm=False, dropout=config.dropout)

    @classmethod
    def for_data(cls, config: InverseDynamicsConfig, data: Trajectories, **sizes: int) -> Self:
        """Sized and scaled for the states, changes and actions of a dataset."""
        if data.actions is None:
            raise BadInput("this dataset has no actions, so no inverse dynamics can be learned from it")
        observation = feature_sizes("observation", data.observations.shape[1], data.meta.angles)
        model = cls(config, {**observation, "action": data.actions.shape[1]})
        rows = data.random_rows(2, min(200_000, data.rows), np.random.default_rng(0))
        changes = data.observations[rows + 1] - data.observations[rows]
        for scale, values in ((model.scale, data.observations), (model.change, changes)):
            scale.fit_angles(values, data.meta.angles)
            scale.fit(Normalizer.fit(scale.array_features(values)))
        return model

    def batch(self, data: Trajectories, size: int, rng: np.random.Generator) -> Batch:
        """Transitions, uniform over the dataset."""
        assert data.actions is not None
        rows = data.random_rows(2, size, rng)
        arrays = {
            "state": data.observations[rows],
            "next_state": data.observations[rows + 1],
            "action": data.actions[rows],
        }
        return {name: torch.from_numpy(values) for name, values in arrays.items()}

    def loss(self, batch: Batch, generator: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
        """Mean squared error of the action."""
        return functional.mse_loss(self.action(batch["state"], batch["next_state"]), batch["action"]), {}

    def action(self, state: Tensor, next_state: Tensor) -> Tensor:
        """The action (B, A) from state to next state (B, O)."""
        difference = self.config.inputs == "difference"
        second = self.change(next_state - state) if difference else self.scale(next_state)
        return torch.tanh(self.net(torch.cat([self.scale(state), second], dim=-1)))

    @torch.inference_mode()
    def label(self, states: Array, next_states: Array) -> Array:
        """The actions (B, A) from states to next states (B, O)."""
        tensors = (torch.tensor(values, device=self.device) for values in (states, next_states))
        return self.action(*tensors).cpu().numpy()
