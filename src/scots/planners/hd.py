"""The hierarchical diffuser HD (Chen et al., 2024): waypoints by one diffusion model, what lies between by another.

    high    w0 ------------ w1 ------------ w2 ... w_{W-1}      W waypoints, `stride` steps apart
    low     p0 p1 ... p24 p25                                   stride + 1 consecutive places between two waypoints

All plan in position space, have their first and last place clamped, and learn to arrive early and wait. With a `leap`
above one the high level plans only every so many waypoints and a middle level those between: few far places are
learned from few samples, and what lies between near ones is learned from anywhere in the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self, cast

import numpy as np
import torch
from torch import Tensor, nn

from scots.core.config import Config, Profile
from scots.core.errors import BadInput
from scots.data.trajectories import Array, Normalizer, Trajectories
from scots.models import diffusion
from scots.models.diffusion import Frame, Prediction, SamplingConfig
from scots.models.nets import DiT1d, Scale, fourier, mlp
from scots.models.training import Batch, Model, SlowCopy, TrainingConfig
from scots.planners.search import BestOf

PLACES_TOGETHER = 8192  # in one network call: bounds memory, and larger batches are no faster on a CPU


@dataclass(frozen=True)
class LevelConfig(Config):
    """One level: its network, and how it is sampled. The defaults are the paper's."""

    width: int = 256
    depth: int = 8
    head_width: int = 32
    frame: Frame = "absolute"
    octaves: int = 0  # of Fourier features of its place and of both ends that every token is told; 0: none
    route: int = 0  # width of a network that tells every layer what to make of both ends; 0: none
    share: float = 1.0  # of the batch that it is trained on
    sampling: SamplingConfig = SamplingConfig()


@dataclass(frozen=True)
class HierarchicalDiffuserConfig(Config):
    """The planner. The defaults are the paper's, for the shorter of its two plans.

    `profile` only names where the settings came from: a small result can never pass for a large one.
    """

    profile: str = "custom"
    waypoints: int = 21  # W
    stride: int = 25  # steps between waypoints
    leap: int = 1  # waypoints from one that the high level plans to the next; 1: it plans them all
    high: LevelConfig = LevelConfig()
    middle: LevelConfig = LevelConfig()
    low: LevelConfig = LevelConfig()
    prediction: Prediction = "eps"
    hold: float = 1.0  # share of training windows that arrive early and wait
    flip: float = 0.0  # share of training windows that are walked backwards
    ema: float = 0.9999
    training: TrainingConfig = TrainingConfig(
        steps=1_000_000, batch_size=64, learning_rate=2e-4, weight_decay=1e-5, schedule="cosine"
    )

    def __post_init__(self) -> None:
        if self.waypoints < 3:
            raise BadInput(f"{self.waypoints} waypoints leave nothing to plan between start and goal; use at least 3")
        if self.stride < 2:
            raise BadInput(f"waypoints {self.stride} steps apart have nothing between them; use a stride of at least 2")
        if self.leap < 1 or (self.waypoints - 1) % self.leap or self.waypoints - 1 < 2 * self.leap:
            raise BadInput(f"a leap of {self.leap} does not divide the way over {self.waypoints} waypoints")

    @property
    def horizon(self) -> int:
        """Places of a dense plan, start and goal included."""
        return self.stride * (self.waypoints - 1) + 1

    def levels(self) -> dict[str, tuple[LevelConfig, int, int]]:
        """Each level by name: its config, how many places it plans, and the steps between them."""
        every = {
            "high": (self.high, (self.waypoints - 1) // self.leap + 1, self.leap * self.stride),
            "middle": (self.middle, self.leap + 1, self.stride),
            "low": (self.low, self.stride + 1, 1),
        }
        return {name: level for name, level in every.items() if name != "middle" or self.leap > 1}


class Informed(nn.Module):
    """A DiT whose tokens are told where they and both ends are, and whose layers are told the way that leads between.

    To know the way from anywhere to anywhere takes far more weights than to draw it. A network that sees the two ends
    once is as cheap as one more token, and the narrow DiT is left with drawing.
    """

    def __init__(self, config: LevelConfig, columns: int, tokens: int) -> None:
        super().__init__()
        self.octaves = config.octaves
        features = columns * (1 + 2 * config.octaves)
        context = (columns if config.frame == "chord" else 0) + (3 * features if config.octaves else 0)
        self.net = DiT1d(columns, config.width, config.depth, config.head_width, tokens, context)
        self.route = mlp((2 * features, *[config.route] * 3, config.width)) if config.route else None

    def forward(self, sequence: Tensor, time: Tensor, places: Tensor, line: Tensor | None = None) -> Tensor:
        """Noised sequences (B, T, P), in their frame and as places, with the chord of that frame -> prediction."""
        features = fourier(places, self.octaves)
        ends = features[:, [0, -1]].flatten(1)
        told = [] if line is None else [line]
        told += [features, ends[:, None].expand(-1, places.shape[1], -1)] if self.octaves else []
        whole = self.route(ends) if self.route else 0.0
        return self.net(sequence, time, torch.cat(told, dim=-1) if told else None, whole)


class Level(nn.Module):
    """A denoiser of sequences of places whose first and last stay clean."""

    deviation: Tensor  # (P,) standard deviation of normalised places from the chord of their sequence

    def __init__(self, config: LevelConfig, columns: int, tokens: int, ema: float) -> None:
        super().__init__()
        self.config, self.columns, self.tokens = config, columns, tokens
        self.net = Informed(config, columns, tokens)
        self.ema = SlowCopy(self.net, ema, warmup=True)
        self.register_buffer("deviation", torch.ones(columns))

    def loss(self, kind: Prediction, clean: Tensor, generator: torch.Generator) -> Tensor:
        """Denoising error (Eq. 5) of normalised sequences (B, T, P) on all but their ends."""
        return diffusion.bridge_loss(kind, partial(self._denoised, self.net), clean, self._units(), generator)

    def draw(self, kind: Prediction, ends: Tensor, rng: Sequence[np.random.Generator]) -> Tensor:
        """Sequences (B, T, P) between normalised ends (B, 2, P), each from noise of its own generator."""
        shape = (self.tokens, self.columns)
        noise = torch.from_numpy(np.stack([own.standard_normal(shape, dtype=np.float32) for own in rng]))
        together = max(1, PLACES_TOGETHER // self.tokens)
        pieces = zip(ends.split(together), noise.split(together), strict=True)
        settings = self.tokens, self._units(), self.config.sampling
        network = partial(self._denoised, self.ema)
        return torch.cat([diffusion.bridge(kind, network, own_ends, *settings, own) for own_ends, own in pieces])

    def _denoised(self, net: nn.Module, sequence: Tensor, time: Tensor, context: Tensor | None = None) -> Tensor:
        """What a network makes of sequences in the frame of this level, whose context is their chord."""
        places = sequence if context is None else context + self.deviation * sequence
        return net(sequence, time, places, context)

    def _units(self) -> Tensor | None:
        return self.deviation if self.config.frame == "chord" else None


class HierarchicalDiffuser(Model):
    """Plans from place to place: waypoints first, then what lies between them."""

    config_class = HierarchicalDiffuserConfig
    choose: BestOf | None = None  # among several draws of every level; none: the only one is taken

    def __init__(self, config: HierarchicalDiffuserConfig, sizes: dict[str, int]) -> None:
        super().__init__(config, sizes)
        columns = sizes["position"]
        self.scale = Scale(columns)
        self.levels = nn.ModuleDict(
            {name: Level(level, columns, places, config.ema) for name, (level, places, _) in config.levels().items()}
        )

    @classmethod
    def for_data(cls, config: HierarchicalDiffuserConfig, data: Trajectories) -> Self:
        """Sized and scaled for the position columns of a dataset, whose episodes a plan must fit."""
        if not data.meta.position:
            raise BadInput(
                f"{data.meta.dataset or 'this data'}: no columns are known to be a place, so none is planned"
            )
        longest = int(data.lengths.max())
        if longest < config.horizon:
            raise BadInput(
                f"{config.waypoints} waypoints, {config.stride} steps apart, span {config.horizon} states; the longest "
                f"episode has {longest}, enough for {_fitting(longest, config.stride)}"
            )
        model = cls(config, {"position": len(data.meta.position)})
        model.scale.fit(Normalizer.fit(data.positions))
        windows = model.batch(data, 10_000, np.random.default_rng(0))
        for name in model.levels:
            model.level(name).deviation.copy_(diffusion.chord_deviation(model.scale(windows[name])))
        return model

    def level(self, name: str) -> Level:
        """A level by name."""
        return cast(Level, self.levels[name])

    def batch(self, data: Trajectories, size: int, rng: np.random.Generator) -> Batch:
        """Windows of every level, each uniform over the dataset, and after which place each of them waits."""
        drawn = {}
        for name, (level, tokens, spacing) in self.config.levels().items():
            places, count = spacing * np.arange(tokens), max(1, round(level.share * size))
            rows = data.random_rows(int(places[-1]) + 1, count, rng)[:, None] + places
            backwards = rng.random((count, 1)) < self.config.flip
            drawn[name] = data.positions[np.where(backwards, rows[:, ::-1], rows)]
            drawn[f"{name}_last"] = diffusion.draw_last(tokens, self.config.hold, count, rng)
        return {name: torch.from_numpy(values) for name, values in drawn.items()}

    def loss(self, batch: Batch, generator: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
        """The denoising errors (Eq. 5) of all levels, which share no weights, on all but the clamped ends."""
        losses = {}
        for name in self.levels:
            clean = diffusion.hold_after(self.scale(batch[name]), batch[f"{name}_last"])
            losses[name] = self.level(name).loss(self.config.prediction, clean, generator)
        return torch.stack(list(losses.values())).sum(), losses

    def slow_copies(self) -> list[tuple[SlowCopy, nn.Module]]:
        """The averaged weights that plan."""
        return [(self.level(name).ema, self.level(name).net) for name in self.levels]

    # ------------------------------------------------------------------------------------------------------- planning

    @property
    def horizon(self) -> int:
        """Places of a dense plan."""
        return self.config.horizon

    @property
    def stride(self) -> int:
        """Steps between waypoints."""
        return self.config.stride

    @property
    def spacings(self) -> tuple[int, ...]:
        """Steps between the places of each level; where plans are chosen, all waypoints are drawn before."""
        every = tuple(spacing for _, _, spacing in self.config.levels().values())
        return every if self.choose is None else every[-2:]

    def plan(self, start: Array, goal: Array, rng: np.random.Generator) -> Array:
        """Dense plans (B, T, P) from starts (B, P) to goals (B, P): exactly these at the ends."""
        return self._filled("low", self.waypoints(start, goal, rng.spawn(len(start))), rng.spawn(len(start)))

    def waypoints(self, start: Array, goal: Array, rng: Sequence[np.random.Generator]) -> Array:
        """Waypoints (B, W, P) from starts (B, P) to goals (B, P), each plan by a generator of its own."""
        ends = np.stack([start, goal], axis=1)
        if self.choose is None:
            return self._routed(ends, rng)
        return self.choose.by_halves(self._routed, partial(self._mended, self.choose), ends, rng, self.stride)

    def _routed(self, ends: Array, rng: Sequence[np.random.Generator]) -> Array:
        """Waypoints (B, W, P) between starts and goals (B, 2, P), by the levels that plan them."""
        planned = self._between("high", ends, rng)
        return self._filled("middle", planned, rng) if "middle" in self.levels else planned

    def _mended(self, choose: BestOf, waypoints: Array, rng: Sequence[np.random.Generator]) -> Array:
        """Waypoints (B, W, P) of which the level that plans them between others has drawn the faulty ones again."""
        if "middle" not in self.levels:
            return waypoints
        return choose.mended(partial(self._drawn, "middle"), waypoints, rng, self.stride, self.config.leap + 1)

    def outline(self, start: Array, goal: Array, rng: Sequence[np.random.Generator]) -> Array:
        """What the high level puts between starts and goals (B, P), or all waypoints of chosen plans: (B, N, P)."""
        if self.choose is None:
            return self._between("high", np.stack([start, goal], axis=1), rng)
        return self.waypoints(start, goal, rng)

    def infill(self, ends: Array, spacing: int, rng: Sequence[np.random.Generator]) -> Array:
        """What the level of this spacing puts between two places (B, 2, P): (B, N, P), both included."""
        return self._between("low" if spacing == 1 else "middle", ends, rng)

    def _filled(self, name: str, places: Array, rng: Sequence[np.random.Generator]) -> Array:
        """Sequences of places (B, T, P) with what a level draws between each two of them."""
        ends = np.stack([places[:, :-1], places[:, 1:]], axis=2)  # (B, T - 1, 2, P)
        streams = [stretch for own in rng for stretch in own.spawn(ends.shape[1])]
        between = self._between(name, ends.reshape(-1, *ends.shape[2:]), streams)
        return np.concatenate([between[:, :-1].reshape(len(places), -1, places.shape[2]), places[:, -1:]], axis=1)

    def _between(self, name: str, ends: Array, rng: Sequence[np.random.Generator]) -> Array:
        """What a level puts between first and last places (B, 2, P): (B, T, P)."""
        draw, (_, places, spacing) = partial(self._drawn, name), self.config.levels()[name]
        return self.choose(draw, ends, rng, spacing, places) if self.choose else draw(ends, rng)

    @torch.inference_mode()
    def _drawn(self, name: str, ends: Array, rng: Sequence[np.random.Generator]) -> Array:
        """Sequences (B, T, P) between first and last places (B, 2, P), which are kept to the bit."""
        if ends.shape[-1] != self.sizes["position"]:
            raise BadInput(f"this planner knows places of {self.sizes['position']} columns, not of {ends.shape[-1]}")
        kept = ends.astype(np.float32)
        scaled = self.scale(torch.from_numpy(kept).to(self.device))
        drawn = self.scale.inverse(self.level(name).draw(self.config.prediction, scaled, rng)).cpu().numpy()
        drawn[:, [0, -1]] = kept  # scaling back and forth would round them
        return drawn


# ---------------------------------------------------------------------------------------------------------- settings

SCALES: dict[str, dict[str, Any]] = {
    "smoke": {  # seconds: everything runs, nothing is learned well
        "high": LevelConfig(width=32, depth=1, sampling=SamplingConfig(steps=4, order=2)),
        "low": LevelConfig(width=32, depth=1, sampling=SamplingConfig(steps=4, order=2)),
        "prediction": "v",
        "ema": 0.9,
        "training": TrainingConfig(steps=60, batch_size=32, learning_rate=1e-3),
    },
    "laptop": {  # two CPU cores: noise prediction would need many times the steps to see the walls
        "high": LevelConfig(width=128, depth=4, octaves=6, route=512, sampling=SamplingConfig(steps=10, order=2)),
        "middle": LevelConfig(
            width=128, depth=4, frame="chord", octaves=6, route=256, sampling=SamplingConfig(steps=10, order=2)
        ),
        "low": LevelConfig(
            width=64, depth=4, frame="chord", octaves=6, share=0.25, sampling=SamplingConfig(steps=5, order=2)
        ),
        "prediction": "v",
        "hold": 0.5,
        "ema": 0.999,
        "training": TrainingConfig(
            steps=12_000, batch_size=128, learning_rate=1e-3, weight_decay=1e-5, schedule="cosine", warmup=200
        ),
    },
    "paper": {},  # the paper's sizes and training lengths: for a GPU
}
"""Profile -> fields."""


def configure_hd(data: Trajectories, profile: Profile = "laptop") -> HierarchicalDiffuserConfig:
    """The planner's config for a dataset: the paper's waypoints for it, at the profile's scale."""
    config = replace(HierarchicalDiffuserConfig(), profile=profile, **SCALES[profile])
    name = data.meta.dataset or ""
    usual = int(np.median(data.lengths))
    if "maze" not in name:  # nothing is published: as far as a usual episode goes, at most the longest plan there is
        stride = min(config.stride, max(2, (usual - 1) // 4))
        return replace(config, stride=stride, waypoints=min(41, _fitting(usual, stride)))
    augmented = data.meta.stitching is not None
    long = "explore" in name or (augmented and "giant" in name)
    waypoints = {(False, False): 5, (False, True): 17, (True, False): 21, (True, True): 41}[augmented, long]
    if profile == "smoke":
        waypoints = min(waypoints, _fitting(usual, config.stride))
    if profile == "laptop":  # a long plan takes longer to learn, and is learned faster in leaps
        config = config.but("training.steps", max(3000, 300 * waypoints))
        config = replace(config, leap=5 if augmented else 1, waypoints=waypoints)
    return replace(config, waypoints=waypoints)


def _fitting(states: int, stride: int) -> int:
    """Waypoints that fit into an episode of so many states."""
    return (states - 1) // stride + 1
