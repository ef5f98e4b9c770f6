"""The hierarchical diffuser HD (Chen et al., 2024): one diffusion model plans waypoints, another the steps between.

    high    w0 ------------ w1 ------------ w2 ... w_{W-1}      W waypoints, `stride` steps apart
    low     p0 p1 ... p24 p25                                   stride + 1 consecutive positions between two waypoints

All levels plan in position space, have their first and last position clamped, and learn to arrive early and wait. With
`high_every` above one the high level plans only every n-th waypoint and a middle level those between: the data holds
few long windows to learn far positions from, while short ones can be learned from anywhere in it. With
`arrival_quantile` the high level is told when to arrive. Without it a waypoint may lie anywhere along the way, and the
mean of places along a bent way is in a wall.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self, cast

import numpy as np
import torch
from torch import Tensor, nn

from scots.core.config import Config, Profile, after_training
from scots.core.errors import BadInput
from scots.data.trajectories import Array, Normalizer, Trajectories
from scots.datasets.specs import DatasetSpec
from scots.models import diffusion
from scots.models.diffusion import Frame, Prediction, SamplingConfig, TimeDensity
from scots.models.nets import DiT1d, Scale, feature_sizes, fourier_features, mlp
from scots.models.training import EMA, Batch, TrainingConfig
from scots.planners.base import CoarseToFine, Plan, PlannerModel, Rngs

POSITIONS_PER_CALL = 8192  # in one network call: bounds memory, and larger batches are no faster on a CPU
_LONGEST_PLAN = 41  # waypoints of the longest published plans
_ARRIVAL_WIDTH = 256
_ARRIVAL_FREQUENCIES = 6  # of Fourier features of both endpoints


@dataclass(frozen=True)
class LevelConfig(Config):
    """One level: its network, and how it is sampled. The defaults are the paper's."""

    width: int = 256
    depth: int = 8
    head_width: int = 32
    frame: Frame = "absolute"
    frequencies: int = 0  # of Fourier features of each token's position and of both endpoints; 0: none
    endpoint_width: int = 0  # of an MLP of both endpoints that conditions every layer; 0: none
    batch_share: float = 1.0  # windows per batch, as a share of the batch size
    sampling: SamplingConfig = after_training(SamplingConfig())


@dataclass(frozen=True)
class HierarchicalDiffuserConfig(Config):
    """The planner. The defaults are the paper's, for the shorter of its two plans."""

    waypoints: int = 21  # W
    stride: int = 25  # steps between waypoints
    high_every: int = 1  # the high level plans every n-th waypoint; above 1 a middle level plans those between
    high: LevelConfig = LevelConfig()
    middle: LevelConfig = LevelConfig()
    low: LevelConfig = LevelConfig()
    prediction: Prediction = "eps"
    time_density: TimeDensity = "uniform"  # of the diffusion times that it is trained at
    early_arrival: float = 1.0  # share of training windows that arrive early and stay at their last position
    arrival_quantile: float | None = None  # of the time that the data takes from start to goal; None: any time will do
    reversed_windows: float = 0.0  # share of training windows that are trained on in reverse
    ema: float = 0.9999
    training: TrainingConfig = TrainingConfig(
        steps=1_000_000, batch_size=64, learning_rate=2e-4, weight_decay=1e-5, schedule="cosine"
    )

    def __post_init__(self) -> None:
        if self.waypoints < 3:
            raise BadInput(f"{self.waypoints} waypoints leave nothing to plan between start and goal; use at least 3")
        if self.stride < 2:
            raise BadInput(f"waypoints {self.stride} steps apart have nothing between them; use a stride of at least 2")
        if self.arrival_quantile is not None and not 0 < self.arrival_quantile < 1:
            raise BadInput(f"arrival_quantile {self.arrival_quantile} is not between 0 and 1")
        gaps = self.waypoints - 1
        if self.high_every < 1 or gaps % self.high_every or gaps < 2 * self.high_every:
            raise BadInput(
                f"high_every {self.high_every} does not divide the {gaps} gaps of {self.waypoints} waypoints"
            )

    @property
    def horizon(self) -> int:
        """Positions of a dense plan, start and goal included."""
        return self.stride * (self.waypoints - 1) + 1

    def levels(self) -> dict[str, LevelShape]:
        """The levels by name, from coarse to fine."""
        tokens = (self.waypoints - 1) // self.high_every + 1
        high = LevelShape(self.high, tokens, self.high_every * self.stride, self.arrival_quantile)
        middle = LevelShape(self.middle, self.high_every + 1, self.stride)
        low = LevelShape(self.low, self.stride + 1, 1)
        return {"high": high, "middle": middle, "low": low} if self.high_every > 1 else {"high": high, "low": low}


@dataclass(frozen=True)
class LevelShape:
    """A level's config, the positions of one of its sequences, the steps between them, and when they arrive."""

    config: LevelConfig
    tokens: int
    spacing: int
    arrival_quantile: float | None = None


class ConditionedDiT(nn.Module):
    """A DiT conditioned on Fourier features of each token's position and of both endpoints.

    Knowing the way between any two endpoints takes many more weights than drawing it. An MLP that sees the endpoints
    once costs as much as one more token, and leaves only the drawing to a narrow DiT.
    """

    def __init__(self, config: LevelConfig, columns: int, tokens: int) -> None:
        super().__init__()
        self.frequencies = config.frequencies
        features = columns * (1 + 2 * config.frequencies)
        context = (columns if config.frame == "chord" else 0) + (3 * features if config.frequencies else 0)
        self.net = DiT1d(columns, config.width, config.depth, config.head_width, tokens, context)
        width = config.endpoint_width
        self.endpoint_mlp = mlp((2 * features, *[width] * 3, config.width)) if width else None

    def forward(self, sequence: Tensor, time: Tensor, positions: Tensor, line: Tensor | None = None) -> Tensor:
        """Noised sequences (B, T, P), in their frame and as positions, with the chord of that frame -> prediction."""
        features = fourier_features(positions, self.frequencies)
        endpoints = features[:, [0, -1]].flatten(1)
        context = [] if line is None else [line]
        if self.frequencies:
            context += [features, endpoints[:, None].expand(-1, positions.shape[1], -1)]
        condition = self.endpoint_mlp(endpoints) if self.endpoint_mlp else 0.0
        return self.net(sequence, time, torch.cat(context, dim=-1) if context else None, condition)


class Arrival(nn.Module):
    """When a sequence arrives: a quantile of the tokens that windows of the data take between such endpoints.

    Ways in the data wander, so a low quantile tells how long a direct one takes.
    """

    def __init__(self, columns: int, tokens: int, quantile: float) -> None:
        super().__init__()
        self.tokens, self.quantile = tokens, quantile
        features = columns * (1 + 2 * _ARRIVAL_FREQUENCIES)
        self.net = mlp((2 * features, *[_ARRIVAL_WIDTH] * 2, 1))

    def forward(self, ends: Tensor) -> Tensor:
        """The token (B,), as a fraction, at which sequences between normalised ends (B, 2, P) arrive."""
        return self.net(fourier_features(ends, _ARRIVAL_FREQUENCIES).flatten(1)).squeeze(1)

    def loss(self, ends: Tensor, last: Tensor) -> Tensor:
        """The quantile loss of windows between these ends (B, 2, P) that arrive at token `last` (B,)."""
        late = last - self(ends)
        return torch.maximum(self.quantile * late, (self.quantile - 1) * late).mean()

    def tokens_between(self, ends: Tensor, delays: Tensor | int = 0) -> Tensor:
        """The token (B,) from which on sequences between these ends (B, 2, P) wait, by `delays` (B,) later."""
        return (self(ends).ceil().long() + delays).clamp(1, self.tokens - 1)


class Level(nn.Module):
    """A denoiser of normalised sequences of positions whose first and last stay clean."""

    deviation: Tensor  # (P,) standard deviation of normalised positions from the chord of their sequence

    def __init__(self, shape: LevelShape, columns: int, ema: float) -> None:
        super().__init__()
        self.config, self.columns, self.tokens = shape.config, columns, shape.tokens
        self.net = ConditionedDiT(shape.config, columns, shape.tokens)
        self.ema = EMA(self.net, ema, warmup=True)
        quantile = shape.arrival_quantile
        self.arrival = None if quantile is None else Arrival(columns, shape.tokens, quantile)
        self.register_buffer("deviation", torch.ones(columns))

    def draw_last(self, share: float, size: int, rng: np.random.Generator) -> Array:
        """The last position before each of B training sequences waits: early for a share of them, if not told when."""
        if self.arrival is None:
            return diffusion.draw_last(self.tokens, share, size, rng)
        return rng.integers(1, self.tokens, size=size)

    def loss(
        self, kind: Prediction, clean: Tensor, last: Tensor, generator: torch.Generator, density: TimeDensity
    ) -> Tensor:
        """Denoising error (Eq. 5) of normalised sequences (B, T, P), which wait from `last` (B,) on."""
        network, units = partial(self._predict, self.net), self._units()
        if self.arrival is None:
            return diffusion.bridge_loss(kind, network, clean, units, generator, density)
        denoising = diffusion.bridge_loss(kind, network, clean, units, generator, density, last=last)
        return denoising + self.arrival.loss(diffusion.ends_of(clean, 1), last)

    def draw(self, kind: Prediction, ends: Tensor, rng: Rngs, delays: Tensor) -> Tensor:
        """Sequences (B, T, P) between normalised ends (B, 2, P), each from noise of its own generator."""
        shape = (self.tokens, self.columns)
        noise = torch.from_numpy(np.stack([own.standard_normal(shape, dtype=np.float32) for own in rng]))
        batch = max(1, POSITIONS_PER_CALL // self.tokens)
        settings = self.tokens, self._units(), self.config.sampling
        network = partial(self._predict, self.ema)
        drawn = []
        parts = (ends.split(batch), noise.split(batch), delays.split(batch))
        for own_ends, own_noise, own_delays in zip(*parts, strict=True):
            last = self.arrival.tokens_between(own_ends, own_delays) if self.arrival else None
            drawn.append(diffusion.bridge(kind, network, own_ends, *settings, own_noise, last))
        return torch.cat(drawn)

    def _predict(self, net: nn.Module, sequence: Tensor, time: Tensor, context: Tensor | None = None) -> Tensor:
        """The network's prediction for sequences in the frame of this level; the context is their chord."""
        positions = sequence if context is None else context + self.deviation * sequence
        return net(sequence, time, positions, context)

    def _units(self) -> Tensor | None:
        return self.deviation if self.config.frame == "chord" else None


class HierarchicalDiffuser(PlannerModel):
    """Plans from position to position: waypoints first, then the steps between them."""

    name = "hd"
    has_bridges = True
    config_class = HierarchicalDiffuserConfig

    def __init__(self, config: HierarchicalDiffuserConfig, sizes: dict[str, int]) -> None:
        super().__init__(config, sizes)
        columns = sizes["position"]
        self.scale = Scale(columns, sizes.get("angles", 0))
        self.levels = nn.ModuleDict(
            {name: Level(shape, columns, config.ema) for name, shape in config.levels().items()}
        )

    @classmethod
    def described(cls, config: HierarchicalDiffuserConfig) -> str:
        """Waypoints and the steps between them."""
        return f"plans of {config.waypoints} waypoints, {config.stride} steps apart"

    @classmethod
    def for_data(cls, config: HierarchicalDiffuserConfig, data: Trajectories, **sizes: int) -> Self:
        """Sized and scaled for the position columns of a dataset, whose episodes a plan must fit."""
        if not data.meta.position:
            raise BadInput("no position columns are known; name them with --position x,y")
        longest = int(data.lengths.max())
        if longest < config.horizon:
            raise BadInput(
                f"{config.waypoints} waypoints, {config.stride} steps apart, span {config.horizon} states; the longest "
                f"episode has {longest}, enough for {_fitting(longest, config.stride)}"
            )
        angles = data.meta.position_angles
        model = cls(config, feature_sizes("position", len(data.meta.position), angles))
        model.scale.fit_angles(data.positions, angles)
        model.scale.fit(Normalizer.fit(model.scale.array_features(data.positions)))
        windows = model.batch(data, 10_000, np.random.default_rng(0))
        for name in model.levels:
            model.level(name).deviation.copy_(diffusion.chord_deviation(model.scale(windows[name])))
        return model

    def level(self, name: str) -> Level:
        """A level by name."""
        return cast(Level, self.levels[name])

    def batch(self, data: Trajectories, size: int, rng: np.random.Generator) -> Batch:
        """Windows of every level, each uniform over the dataset, and the last position before each of them waits."""
        batch = {}
        for name, shape in self.config.levels().items():
            steps, count = shape.spacing * np.arange(shape.tokens), max(1, round(shape.config.batch_share * size))
            rows = data.random_rows(int(steps[-1]) + 1, count, rng)[:, None] + steps
            is_reversed = rng.random((count, 1)) < self.config.reversed_windows
            batch[name] = data.positions[np.where(is_reversed, rows[:, ::-1], rows)]
            batch[f"{name}_last"] = self.level(name).draw_last(self.config.early_arrival, count, rng)
        return {name: torch.from_numpy(values) for name, values in batch.items()}

    def loss(self, batch: Batch, generator: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
        """The denoising errors (Eq. 5) of all levels, which share no weights, on all but the clamped ends."""
        config, losses = self.config, {}
        for name in self.levels:
            last = batch[f"{name}_last"]
            clean = diffusion.hold_after(self.scale(batch[name]), last)
            losses[name] = self.level(name).loss(config.prediction, clean, last, generator, config.time_density)
        return torch.stack(list(losses.values())).sum(), losses

    def ema_copies(self) -> list[tuple[EMA, nn.Module]]:
        """The averaged weights that plan."""
        return [(self.level(name).ema, self.level(name).net) for name in self.levels]

    # ------------------------------------------------------------------------------------------------------- planning

    @property
    def bridges(self) -> tuple[LevelBridge, ...]:
        """The levels from coarse to fine, in units of the data."""
        return tuple(LevelBridge(self, name) for name in self.config.levels())

    def plan(self, start: Array, goal: Array | None, seeds: Sequence[int]) -> list[Plan]:
        """Outlines by the high level from starts (B, P) to goals (B, P)."""
        return CoarseToFine(self.bridges).plan(start, goal, seeds)

    def fill_in(self, plans: Sequence[Plan], first: Sequence[int], last: Sequence[int]) -> None:
        """Fill in each plan from one of its steps to another, by the levels below."""
        CoarseToFine(self.bridges).fill_in(plans, first, last)

    @torch.inference_mode()
    def draw(self, name: str, ends: Array, rng: Rngs, delays: Array | None = None) -> Array:
        """Sequences (B, T, P) of a level between first and last positions (B, 2, P), which are kept to the bit."""
        if ends.shape[-1] != self.scale.columns:
            raise BadInput(f"this planner expects {self.scale.columns} position columns, got {ends.shape[-1]}")
        kept = ends.astype(np.float32)
        scaled = self.scale(torch.from_numpy(kept).to(self.device))
        late = torch.from_numpy(np.zeros(len(ends), dtype=np.int64) if delays is None else delays).to(self.device)
        drawn = self.scale.inverse(self.level(name).draw(self.config.prediction, scaled, rng, late)).cpu().numpy()
        drawn[:, [0, -1]] = kept  # scaling back and forth would round them
        return drawn

    # ------------------------------------------------------------------------------------------------------- settings

    @classmethod
    def configure(cls, spec: DatasetSpec, states: int, profile: Profile) -> HierarchicalDiffuserConfig:
        """The paper's waypoints for a dataset whose trajectories have this many states, at the profile's scale."""
        config = replace(HierarchicalDiffuserConfig(stride=spec.segment - 1), **SCALES[profile])
        if spec.waypoints is None or spec.is_derived:  # as far as the data goes, if episodes are that long
            stride = min(config.stride, max(2, (states - 1) // 4))
            waypoints = min(spec.waypoints or _LONGEST_PLAN, _fitting(states, stride))
            config = replace(config, stride=stride, waypoints=waypoints)
        else:
            is_long = states >= replace(config, waypoints=spec.waypoints).horizon
            config = replace(config, waypoints=spec.waypoints if is_long else spec.recorded_waypoints)
        if profile == "laptop":  # plans of recorded data are shorter; it gets as many steps and levels as stitched data
            longest = max(spec.waypoints or 0, config.waypoints)
            config = config.replace_at("training.steps", min(600 * max(10, longest), _MOST_STEPS))
            config = replace(config, high_every=_middle_gaps(config.waypoints - 1) if longest > _MIDDLE_FROM else 1)
        return config


@dataclass(frozen=True)
class LevelBridge:
    """A level of the planner as a bridge between positions in units of the data."""

    planner: HierarchicalDiffuser
    name: str

    @property
    def tokens(self) -> int:
        """Positions of a sequence, both ends included."""
        return self.planner.config.levels()[self.name].tokens

    @property
    def spacing(self) -> int:
        """Environment steps from one position to the next."""
        return self.planner.config.levels()[self.name].spacing

    def draw(self, ends: Array, rng: Rngs, delays: Array | None = None) -> Array:
        """Sequences (B, tokens, P) between first and last positions (B, 2, P)."""
        return self.planner.draw(self.name, ends, rng, delays)


# ---------------------------------------------------------------------------------------------------------- settings

_MOST_STEPS = 12_300  # of training, at profile `laptop`: what plans of 21 waypoints and more need
_MIDDLE_GAPS = 5  # gaps between waypoints that a middle level plans, at most
_MIDDLE_FROM = 20  # waypoints of the longest plans of a dataset, from which on there is a middle level

_COARSE = SamplingConfig(steps=10, order=2, temperature=0.25)  # of waypoints, at profile `laptop`

SCALES: dict[Profile, dict[str, Any]] = {
    "smoke": {  # seconds: everything runs, nothing is learned well
        "high": LevelConfig(width=32, depth=1, sampling=SamplingConfig(steps=4, order=2)),
        "low": LevelConfig(width=32, depth=1, sampling=SamplingConfig(steps=4, order=2)),
        "prediction": "v",
        "arrival_quantile": 0.1,
        "ema": 0.9,
        "training": TrainingConfig(steps=60, batch_size=32, learning_rate=1e-3),
    },
    "laptop": {  # two CPU cores: noise prediction would need many times the steps to learn the walls
        "high": LevelConfig(width=128, depth=2, frequencies=6, endpoint_width=512, sampling=_COARSE),
        "middle": LevelConfig(width=128, depth=2, frame="chord", frequencies=6, endpoint_width=256, sampling=_COARSE),
        "low": LevelConfig(
            width=64,
            depth=4,
            frame="chord",
            frequencies=6,
            batch_share=0.25,
            sampling=SamplingConfig(steps=5, order=2, temperature=0.25),
        ),
        "prediction": "v",
        "time_density": "data",  # the last of the noise decides whether a plan stays out of walls
        "early_arrival": 0.5,
        "arrival_quantile": 0.1,  # told when to arrive, the high level learns from half as many windows
        "ema": 0.999,
        "training": TrainingConfig(
            steps=12_000, batch_size=64, learning_rate=1e-3, weight_decay=1e-5, schedule="cosine", warmup=200
        ),
    },
    "paper": {},  # the paper's sizes and training lengths: for a GPU
}
"""Profile -> fields."""


def _middle_gaps(gaps: int) -> int:
    """How many gaps between waypoints a middle level plans, so that the high level has as many sequences or more."""
    return max(n for n in range(1, _MIDDLE_GAPS + 1) if gaps % n == 0 and (gaps >= 2 * n or n == 1))


def _fitting(states: int, stride: int) -> int:
    """Waypoints that fit into an episode of this many states."""
    return (states - 1) // stride + 1
