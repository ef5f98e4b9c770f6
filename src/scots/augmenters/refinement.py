"""Repairing joins with a clamped diffusion model (Eq. 12), and labelling actions by inverse dynamics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from scots.core.config import Config
from scots.core.errors import BadInput
from scots.data.trajectories import Array, Normalizer, Trajectories
from scots.models import diffusion
from scots.models.diffusion import Frame, Prediction, SamplingConfig
from scots.models.nets import DiT1d, Scale, mlp
from scots.models.training import EMA, Batch, Model, TrainingConfig


@dataclass(frozen=True)
class StitcherConfig(Config):
    """The diffusion stitcher. The defaults are the paper's."""

    width: int = 256
    depth: int = 8
    head_width: int = 32
    prediction: Prediction = "eps"
    early_arrival: float = 1.0  # share of training windows that arrive early and stay at their last state
    frame: Frame = "absolute"
    ema: float = 0.9999
    training: TrainingConfig = TrainingConfig(
        steps=1_000_000, batch_size=64, learning_rate=2e-4, weight_decay=1e-5, schedule="cosine"
    )
    sampling: SamplingConfig = SamplingConfig()


class Stitcher(Model):
    """p(s_2 .. s_{H-1} | s_1, s_H): a DiT1d that denoises segments whose two ends stay clean.

    In the chord frame it learns and samples deviations from the straight line between the ends.
    """

    config_class = StitcherConfig
    deviation: Tensor  # (O,) standard deviation of normalised states from the chord of their segment

    def __init__(self, config: StitcherConfig, sizes: dict[str, int]) -> None:
        super().__init__(config, sizes)
        columns = sizes["observation"]
        context = columns if config.frame == "chord" else 0
        self.scale = Scale(columns)
        self.net = DiT1d(columns, config.width, config.depth, config.head_width, sizes["segment"], context)
        self.ema = EMA(self.net, config.ema, warmup=True)
        self.register_buffer("deviation", torch.ones(columns))

    @classmethod
    def for_data(cls, config: StitcherConfig, data: Trajectories, **sizes: int) -> Self:
        """Sized and scaled for the observations of a dataset and for segments of `segment` states."""
        segment = sizes["segment"]
        if segment < 3:
            raise BadInput(f"a segment of {segment} states has nothing between its ends to refine; use at least 3")
        model = cls(config, {"observation": data.observations.shape[1], "segment": segment})
        model.scale.fit(Normalizer.fit(data.observations))
        if config.frame == "chord":
            starts = data.random_rows(segment, 10_000, np.random.default_rng(0))
            states = model.scale(torch.from_numpy(data.windows(starts, segment)))
            model.deviation.copy_(diffusion.chord_deviation(states))
        return model

    def batch(self, data: Trajectories, size: int, rng: np.random.Generator) -> Batch:
        """Windows of H states, uniform over the dataset, and the last state before each of them waits."""
        segment = self.sizes["segment"]
        windows = data.windows(data.random_rows(segment, size, rng), segment)
        last = diffusion.draw_last(segment, self.config.early_arrival, size, rng)
        return {"window": torch.from_numpy(windows), "last": torch.from_numpy(last)}

    def loss(self, batch: Batch, generator: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
        """Denoising error (Eq. 5) on all but the clamped ends."""
        clean = diffusion.hold_after(self.scale(batch["window"]), batch["last"])
        return diffusion.bridge_loss(self.config.prediction, self.net, clean, self._units(), generator), {}

    def _units(self) -> Tensor | None:
        return self.deviation if self.config.frame == "chord" else None

    def ema_copies(self) -> list[tuple[EMA, nn.Module]]:
        """The averaged weights that sample."""
        return [(self.ema, self.net)]

    @torch.inference_mode()
    def refine(self, ends: Array, generator: torch.Generator) -> Array:
        """Segments (B, H, O) between given first and last states (B, 2, O), which are kept to the bit."""
        config, scaled = self.config, self.scale(torch.tensor(ends, device=self.device))
        tokens = self.sizes["segment"]
        sampled = diffusion.bridge(
            config.prediction, self.ema, scaled, tokens, self._units(), config.sampling, generator
        )
        segments = self.scale.inverse(sampled).cpu().numpy()
        segments[:, [0, -1]] = ends  # scaling back and forth would round them
        return segments


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
        self.scale = Scale(sizes["observation"])
        self.change = Scale(sizes["observation"])
        shape = (2 * sizes["observation"], *config.hidden, sizes["action"])
        self.net = mlp(shape, layer_norm=False, dropout=config.dropout)

    @classmethod
    def for_data(cls, config: InverseDynamicsConfig, data: Trajectories, **sizes: int) -> Self:
        """Sized and scaled for the states, changes and actions of a dataset."""
        if data.actions is None:
            raise BadInput("this dataset has no actions, so no inverse dynamics can be learned from it")
        model = cls(config, {"observation": data.observations.shape[1], "action": data.actions.shape[1]})
        model.scale.fit(Normalizer.fit(data.observations))
        rows = data.random_rows(2, min(200_000, data.rows), np.random.default_rng(0))
        model.change.fit(Normalizer.fit(data.observations[rows + 1] - data.observations[rows]))
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
    def label(self, states: Array) -> Array:
        """Actions along trajectories (B, T, O) -> (B, T, A); the last state is paired with itself."""
        tensor = torch.tensor(states, device=self.device)
        following = torch.cat([tensor[:, 1:], tensor[:, -1:]], dim=1)
        return self.action(tensor, following).cpu().numpy()
