"""SynthER (Lu et al., 2023): a diffusion model of single transitions, and a dataset of transitions drawn from it.

What it makes are independent transitions, each an episode of two states. Nothing follows them: agents draw random goals
where they would draw later states, or learn trajectories from recorded episodes beside them (see `agents.base`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from scots.augmenters.base import Augmenter
from scots.augmenters.refinement import unit_quaternions
from scots.core.config import Config, Profile, Seeds
from scots.core.errors import BadInput
from scots.data.shards import Make, ShardedJob
from scots.data.trajectories import Array, Meta, Normalizer, Trajectories
from scots.datasets.specs import DatasetSpec, spec_of
from scots.models import edm
from scots.models.cache import load_or_train, model_folder
from scots.models.edm import HeunConfig
from scots.models.nets import Scale, feature_sizes
from scots.models.training import EMA, Batch, Model, TrainingConfig

_EMBEDDING, _FREQUENCIES = 128, 8  # width of a vector and its noise level before the first hidden layer; [SynthER]


@dataclass(frozen=True)
class TransitionModelConfig(Config):
    """The diffusion model of transitions. The defaults are SynthER's."""

    width: int = 2048
    layers: int = 6
    ema: float = 0.9995  # SynthER: 0.995 every ten steps
    training: TrainingConfig = TrainingConfig(
        steps=100_000, batch_size=1024, learning_rate=3e-4, schedule="cosine", warmup=0
    )


@dataclass(frozen=True)
class SyntherConfig(Config):
    """A dataset of generated transitions. The defaults are SynthER's."""

    transitions: int | None = 5_000_000  # None: as many as were recorded
    model: TransitionModelConfig = TransitionModelConfig()
    sampling: HeunConfig = HeunConfig()

    def __post_init__(self) -> None:
        if self.transitions is not None and self.transitions < 1:
            raise BadInput(f"transitions must be positive, got {self.transitions}")


# -------------------------------------------------------------------------------------------------------------- model


class TransitionDenoiser(nn.Module):
    """A residual MLP without norms: vectors and a noise level in, vectors out."""

    frequencies: Tensor

    def __init__(self, columns: int, width: int, layers: int) -> None:
        super().__init__()
        self.register_buffer("frequencies", torch.randn(_FREQUENCIES))
        self.level = nn.Sequential(
            nn.Linear(1 + 2 * _FREQUENCIES, _EMBEDDING), nn.SiLU(), nn.Linear(_EMBEDDING, _EMBEDDING)
        )
        self.inward = nn.Linear(columns, _EMBEDDING)
        self.widen = nn.Linear(_EMBEDDING, width)
        self.blocks = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.outward = nn.Linear(width, columns)

    def forward(self, vectors: Tensor, level: Tensor) -> Tensor:
        """(B, D), (B,) -> (B, D)."""
        angles = 2 * torch.pi * level[:, None] * self.frequencies
        seen = torch.cat([level[:, None], angles.sin(), angles.cos()], dim=-1)
        hidden = self.widen(self.inward(vectors) + self.level(seen))
        for block in self.blocks:
            hidden = hidden + block(hidden.relu())
        return self.outward(hidden.relu())


class TransitionModel(Model):
    """EDM over vectors [s, a, r, s', terminal], of which a, r and terminal are left out where the data has none."""

    config_class = TransitionModelConfig
    constant: Tensor  # (D,) columns that never change

    def __init__(self, config: TransitionModelConfig, sizes: dict[str, int]) -> None:
        super().__init__(config, sizes)
        self._parts = [sizes[name] for name in ("observation", "action", "reward", "observation", "terminal")]
        columns = sum(self._parts)
        self.angles = Scale(sizes["observation"], sizes.get("angles", 0))  # only turns angles into cosine and sine
        self.scale = Scale(columns)
        self.register_buffer("constant", torch.zeros(columns, dtype=torch.bool))
        self.network = TransitionDenoiser(columns, config.width, config.layers)
        self.sampling_network = EMA(self.network, config.ema, warmup=True)

    @classmethod
    def for_data(cls, config: TransitionModelConfig, data: Trajectories, **sizes: int) -> Self:
        """Sized and scaled for a dataset; the terminal flag stays 0 or 1."""
        observation = feature_sizes("observation", data.observations.shape[1], data.meta.angles)
        actions = 0 if data.actions is None else data.actions.shape[1]
        rewards, terminals = int(data.rewards is not None), int(data.terminated is not None)
        model = cls(config, {**observation, "action": actions, "reward": rewards, "terminal": terminals})
        model.angles.fit_angles(data.observations, data.meta.angles)
        rows, states = data.window_starts(2), model.angles.array_features(data.observations)
        parts = [states, *_between(data, rows), states]
        fitted = [Normalizer.fit(part) for part in parts]
        constant = [np.ptp(part, axis=0) == 0 for part in parts]
        mean = np.concatenate([*(one.mean for one in fitted), np.zeros(terminals, np.float32)])
        std = np.concatenate([*(one.std for one in fitted), np.ones(terminals, np.float32)])
        model.scale.fit(Normalizer(mean, std))
        model.constant.copy_(torch.from_numpy(np.concatenate([*constant, np.zeros(terminals, dtype=bool)])))
        return model

    def batch(self, data: Trajectories, size: int, rng: np.random.Generator) -> Batch:
        """Transitions as vectors."""
        rows = data.random_rows(2, size, rng)
        state, next_state = (self.angles.array_features(data.observations[own]) for own in (rows, rows + 1))
        parts = [state, *_between(data, rows), next_state]
        if data.terminated is not None:
            ends = data.terminated[data.episode_of(rows)] & (rows + 1 == data.last_row_of(rows))
            parts += [ends[:, None].astype(np.float32)]
        return {"transition": torch.from_numpy(np.concatenate(parts, axis=1))}

    def loss(self, batch: Batch, generator: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
        """The denoising loss."""
        return edm.denoising_loss(self.network, self.scale(batch["transition"]), generator), {}

    def ema_copies(self) -> list[tuple[EMA, nn.Module]]:
        """The weights that are sampled with."""
        return [(self.sampling_network, self.network)]

    def draw(self, count: int, config: HeunConfig, generator: torch.Generator) -> dict[str, Array]:
        """Transitions: `observations` (B, 2, O) and, where they are modelled, `actions`, `rewards`, `terminated`."""
        shape = count, sum(self._parts)
        vectors = edm.sample(self.sampling_network, shape, config, generator, self.device)
        vectors = self.scale.inverse(vectors.masked_fill(self.constant, 0.0))  # the mean, which is their only value
        state, action, reward, next_state, terminal = vectors.split(self._parts, dim=1)
        states = torch.stack([self.angles.inverse(state), self.angles.inverse(next_state)], dim=1)
        drawn: dict[str, Array] = {"observations": states.cpu().numpy()}
        if action.shape[1]:
            drawn["actions"] = action.cpu().numpy()
        if reward.shape[1]:
            drawn["rewards"] = reward[:, 0].cpu().numpy()
        if terminal.shape[1]:
            drawn["terminated"] = terminal[:, 0].cpu().numpy() > 0.5
        return drawn


def _between(data: Trajectories, rows: Array) -> list[Array]:
    """What a transition has between its states: action and reward, those of the two that there are."""
    actions = [] if data.actions is None else [data.actions[rows]]
    return actions + ([] if data.rewards is None else [data.rewards[rows, None]])


# ---------------------------------------------------------------------------------------------------------- augmenter


class Synther(Augmenter):
    """The recorded data replaced by as many generated transitions as are asked for."""

    name = "synther"
    config_class = SyntherConfig

    def configure(self, spec: DatasetSpec, profile: Profile, *, for_planner: bool = False) -> SyntherConfig:
        """SynthER's settings at a profile's scale; nothing depends on the dataset but how much is made of it."""
        return _PROFILES[profile](SyntherConfig(), spec)

    def episode_states(self, config: SyntherConfig, spec: DatasetSpec) -> int:
        """A transition has two."""
        return 2

    def augment(
        self,
        data: Trajectories,
        config: SyntherConfig,
        *,
        seed: int,
        out: Path | None = None,
        profile: Profile = "laptop",
        workers: int | None = None,
    ) -> Trajectories:
        """Train the model and draw transitions from it, and a tenth as many more for the validation twin."""
        source, default = data.fingerprint(), self.configure(spec_of(data), profile)
        step = self.provenance(config, default, profile=profile, seed=seed, source=source, packages=("torch",))
        job = TransitionJob(
            episodes=config.transitions or int(data.window_ends(2)[-1]),
            states=2,
            config=config,
            seed=seed,
            source=source,
            meta=replace(data.meta, provenance=(*data.meta.provenance, step)),
        )

        def prepare() -> None:
            load_or_train(TransitionModel, config.model, data, seed, "transition model")

        columns = sum(array.shape[1] for array in (data.observations, data.actions) if array is not None)
        size = 4 * columns + 2  # and two flags
        options: dict[str, Any] = {"label": "sampling transitions", "workers": workers}
        return self.run_job(job, out, prepare, row_bytes=size, shared_bytes=0, **options)


def _laptop(config: SyntherConfig, spec: DatasetSpec) -> SyntherConfig:
    """Under an hour on two CPU cores: a narrow network and a quarter of the noise levels.

    So few levels are too coarse for noise on the way: it would widen Gaussian data by 5 % (and 128 levels by 1 %).
    """
    training = replace(config.model.training, steps=30_000, learning_rate=1e-3, warmup=200)
    model = replace(config.model, width=256, ema=0.999, training=training)
    transitions = 1_000_000 if spec.is_published and spec.collection else None
    return replace(config, transitions=transitions, model=model, sampling=HeunConfig(steps=32, churn=0.0))


def _smoke(config: SyntherConfig, spec: DatasetSpec) -> SyntherConfig:
    """Seconds: every part runs, nothing is learned well."""
    small = _laptop(config, spec)
    training = replace(small.model.training, steps=60, batch_size=64, warmup=5)
    model = replace(small.model, width=32, layers=2, training=training)
    return replace(small, transitions=200, model=model, sampling=replace(small.sampling, steps=4))


_PROFILES: dict[Profile, Callable[[SyntherConfig, DatasetSpec], SyntherConfig]] = {
    "smoke": _smoke,
    "laptop": _laptop,
    "paper": lambda config, spec: config,
}


@dataclass(frozen=True)
class TransitionJob(ShardedJob):
    """Everything that decides the bytes of a dataset of generated transitions."""

    config: SyntherConfig
    seed: int
    source: str  # fingerprint of the data
    meta: Meta  # of the finished file

    def described(self, validation: bool) -> Meta:
        """The meta of both files."""
        return self.meta

    def worker(self) -> Make:
        """The trained model, and a function from numbers of transitions to rows; every shard has its own noise."""
        torch.set_num_threads(1)
        model = TransitionModel.load(model_folder(TransitionModel, self.config.model, self.source, self.seed))
        seeds, sampling, quaternions = Seeds(self.seed), self.config.sampling, self.meta.quaternions

        def make(run: range) -> dict[str, Array]:
            noise = torch.Generator().manual_seed(seeds.integer("transitions", run.start))
            drawn = model.draw(len(run), sampling, noise)
            drawn["observations"] = unit_quaternions(drawn["observations"], quaternions)
            return _as_episodes(drawn)

        return make


def _as_episodes(drawn: dict[str, Any]) -> dict[str, Array]:
    """Transitions as rows of episodes of two states; what belongs to a transition is on its first row."""
    count = len(drawn["observations"])
    rows = {"observations": drawn["observations"].reshape(2 * count, -1)}
    for name in ("actions", "rewards"):
        if name in drawn:
            values = drawn[name]
            rows[name] = np.stack([values, np.zeros_like(values)], axis=1).reshape(2 * count, *values.shape[1:])
    if "terminated" in drawn:
        rows["terminated"] = drawn["terminated"]
    rows["generated"] = np.ones(2 * count, dtype=np.uint8)
    rows["terminals"] = np.tile([False, True], count)
    return rows
