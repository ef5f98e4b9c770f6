"""Embeddings in which Euclidean distance is temporal distance (Eqs. 6 and 7), and the raw-state ablation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Protocol, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from scots.core.config import Config
from scots.core.errors import BadInput
from scots.data.strides import StrideDistances
from scots.data.trajectories import Array, GoalMix, Normalizer, Trajectories, sample_goals
from scots.models.cache import load_or_train
from scots.models.nets import Scale, feature_sizes, mlp
from scots.models.training import EMA, Batch, Model, TrainingConfig

ENCODE_ROWS = 1 << 16  # rows embedded in one batch
CHANGE_STEPS, CHANGE_ROWS = 5, 200_000  # steps over which, and rows on which, the change of a column is measured
_TYPICAL_ROWS = 10_000  # rows among which a typical observation is looked for


class StateEncoder(Protocol):
    """Maps states to latents whose distance says how soon one is reached from another."""

    def encode(self, observations: Array) -> Array:
        """(N, O) -> latents (N, Z)."""

    def distance(self, start: Array, goal: Array) -> Array:
        """Distance from start to goal latents (..., Z), which broadcast: (...). It may depend on the direction."""


@dataclass(frozen=True)
class TemporalDistanceConfig(Config):
    """The temporal-distance embedding. The defaults are the paper's."""

    form: Literal["expectile", "constrained"] = "expectile"
    latent: int = 32  # Z
    hidden: tuple[int, ...] = (512, 512, 512)
    normalize: bool = False  # columns in units of their change over a few steps; the paper embeds raw observations
    training: TrainingConfig = TrainingConfig(steps=1_000_000, batch_size=1024, learning_rate=3e-4)
    # form "expectile"
    discount: float = 0.99  # gamma; 0.995 for the giant mazes
    expectile: float = 0.95  # xi
    target_decay: float = 0.995
    goals: GoalMix = GoalMix(current=0.0, trajectory=0.625, random=0.375)
    # form "constrained"
    horizon: int = 25  # most steps between two states of an episode whose distance is constrained
    reach: float = 40.0  # steps over which random pairs push each other apart
    penalty: float = 100.0  # price of a distance larger than the steps it took

    def __post_init__(self) -> None:
        if not 0 < self.discount < 1 or not 0.5 <= self.expectile < 1:
            raise BadInput(f"discount must be in (0, 1) and expectile in [0.5, 1): {self.discount}, {self.expectile}")
        if self.horizon < 1:
            raise BadInput(f"the horizon must be at least one step, got {self.horizon}")


class TemporalDistance(Model):
    """phi: states -> latents whose distance is the number of steps between them.

    Form "expectile" is the paper's: V(s, g) = -|phi(s) - phi(g)| learned by expectile TD with two heads and targets;
    the first head embeds. Its distances saturate at 1 / (1 - discount) and spread by one step per update.

    Form "constrained" needs no bootstrapping: push random pairs apart while states recorded k steps apart stay at most
    k apart, for k up to a horizon. The steps of a shortest path then add up to the distance, as far as a Euclidean
    space can hold the maze: the bound is a penalty, not a guarantee. Bounding single steps would do for a point mass.
    A body with limbs changes posture so fast that posture uses up each step; over many steps posture repeats, and what
    remains is the distance travelled.
    """

    config_class = TemporalDistanceConfig
    reference: Tensor  # (O,) a recorded observation, into which positions are put to encode them

    def __init__(self, config: TemporalDistanceConfig, sizes: dict[str, int]) -> None:
        super().__init__(config, sizes)
        heads = 2 if config.form == "expectile" else 1
        shape = (sizes["observation"], *config.hidden, config.latent)
        self.scale = Scale(sizes["observation"], sizes.get("angles", 0))
        self.heads = nn.ModuleList(mlp(shape) for _ in range(heads))
        self.register_buffer("reference", torch.zeros(self.scale.columns))
        self.targets = EMA(self.heads, config.target_decay) if config.form == "expectile" else None

    @classmethod
    def for_data(cls, config: TemporalDistanceConfig, data: Trajectories, **sizes: int) -> Self:
        """Sized for the observations of a dataset."""
        model = cls(config, feature_sizes("observation", data.observations.shape[1], data.meta.angles))
        model.scale.fit_angles(data.observations, data.meta.angles)
        model.reference.copy_(torch.from_numpy(_typical_observation(data, model.scale)))
        if config.normalize:
            model.scale.fit(_change_scale(data, model.scale))
        return model

    def batch(self, data: Trajectories, size: int, rng: np.random.Generator) -> Batch:
        """States s with s' and goals g for the expectile form; with a later state and the steps to it for the other."""
        rows = data.random_rows(2, size, rng)
        batch = {"state": data.observations[rows]}
        if self.config.form == "expectile":
            goals = sample_goals(data, rows, self.config.goals, self.config.discount, rng)
            batch |= {"next_state": data.observations[rows + 1]}
            batch |= {"goal": data.observations[goals], "arrived": goals == rows}
        else:
            later = _later(data, rows, rng.integers(self.config.horizon, size=size) + 1)
            batch |= {"later_state": data.observations[later], "steps": (later - rows).astype(np.float32)}
        return {name: torch.from_numpy(np.asarray(values)) for name, values in batch.items()}

    def loss(self, batch: Batch, generator: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss of the chosen form."""
        return self.expectile_loss(batch) if self.config.form == "expectile" else self.constrained_loss(batch)

    def expectile_loss(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """Expectile TD (Eq. 7): each head bootstraps from its own target, the weight comes from both targets."""
        state, next_state, goal = (self.scale(batch[name]) for name in ("state", "next_state", "goal"))
        assert self.targets is not None
        with torch.no_grad():
            not_done = 1.0 - batch["arrived"].float()
            next_value, value = (_values(self.targets.average, start, goal) for start in (next_state, state))
            advantage = -not_done + self.config.discount * not_done * next_value.amin(0) - value.mean(0)
            target = -not_done + self.config.discount * not_done * next_value
            weight = torch.where(advantage >= 0, self.config.expectile, 1 - self.config.expectile)
        values = _values(self.heads, state, goal)
        loss = (weight * (target - values) ** 2).mean(1).sum()
        return loss, {"value": values.mean(), "advantage": advantage.mean()}

    def constrained_loss(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """Push random pairs apart, softly beyond `reach`; penalise recorded pairs farther apart than their steps."""
        both = torch.cat([batch["state"], batch["later_state"]])
        here, later = self.heads[0](self.scale(both)).chunk(2)
        step, apart = _distance(here, later) / batch["steps"], _distance(here, here.roll(1, 0))
        excess = functional.relu(step - 1).square().mean()
        push = self.config.reach * functional.softplus(-apart / self.config.reach).mean()
        return push + self.config.penalty * excess, {
            "apart": apart.mean(),
            "step_length": step.mean(),
            "excess": excess,
        }

    def ema_copies(self) -> list[tuple[EMA, nn.Module]]:
        """The target heads, where there are any."""
        return [(self.targets, self.heads)] if self.targets is not None else []

    @torch.inference_mode()
    def encode(self, observations: Array) -> Array:
        """Latents of observations (N, O) -> (N, Z), by the first online head."""
        blocks = (observations[n : n + ENCODE_ROWS] for n in range(0, len(observations), ENCODE_ROWS))
        tensors = (torch.tensor(block, device=self.device) for block in blocks)
        return np.concatenate([self.heads[0](self.scale(block)).cpu().numpy() for block in tensors])

    def distance(self, start: Array, goal: Array) -> Array:
        """Euclidean, so the same in both directions: (..., Z), (..., Z) -> (...)."""
        return _euclidean(start, goal)

    def encode_positions(self, columns: tuple[int, ...], positions: Array) -> Array:
        """Latents of positions (N, P) -> (N, Z): those of a recorded observation moved there."""
        observations = np.tile(self.reference.cpu().numpy(), (len(positions), 1))
        observations[:, list(columns)] = positions
        return self.encode(observations)

    def stride_distances(self, data: Trajectories) -> StrideDistances:
        """How far apart it takes positions of a dataset to be, by the steps between them."""
        return StrideDistances.of(data, partial(self.encode_positions, data.meta.position), self.distance)


class RawState:
    """The ablation without a learned embedding: normalised observations are their own latents."""

    def __init__(self, data: Trajectories) -> None:
        angles = data.meta.angles
        self._scale = Scale(data.observations.shape[1] + len(angles), len(angles))
        self._scale.fit_angles(data.observations, angles)
        self._normalizer = Normalizer.fit(self._scale.array_features(data.observations))

    def encode(self, observations: Array) -> Array:
        """(N, O) -> (N, F), with cosine and sine of angles."""
        features = self._scale.array_features(np.asarray(observations))
        return self._normalizer.normalize(features).astype(np.float32)

    def distance(self, start: Array, goal: Array) -> Array:
        """Euclidean: (..., F), (..., F) -> (...)."""
        return _euclidean(start, goal)


def _trained(config: TemporalDistanceConfig, data: Trajectories, seed: int) -> StateEncoder:
    return load_or_train(TemporalDistance, config, data, seed, "embedding")


def _raw(config: TemporalDistanceConfig, data: Trajectories, seed: int) -> StateEncoder:
    return RawState(data)


ENCODERS: dict[str, Callable[[TemporalDistanceConfig, Trajectories, int], StateEncoder]] = {
    "temporal": _trained,
    "raw": _raw,
}
"""By name: what makes a state encoder from settings, data and a seed; one that is learned comes from the cache."""


def _euclidean(start: Array, goal: Array) -> Array:
    """Euclidean distance over the last axis."""
    return np.linalg.norm(start - goal, axis=-1)


def _later(data: Trajectories, rows: Array, steps: int | Array) -> Array:
    """The rows that many steps later, or the last row of the episode where it ends before."""
    return np.minimum(rows + steps, data.last_row_of(rows))


def _change_scale(data: Trajectories, scale: Scale) -> Normalizer:
    """Features in units of their change over a few steps, or of their standard deviation where they do not change.

    In standard deviations a position changes by a hundredth per step and a joint by one: the network would see joints
    alone.
    """
    features = scale.array_features(data.observations)
    spread = Normalizer.fit(features)
    rows = data.random_rows(2, CHANGE_ROWS, np.random.default_rng(0))
    moved = features[_later(data, rows, CHANGE_STEPS)] - features[rows]
    change = np.sqrt(np.square(moved, dtype=np.float64).mean(axis=0)).astype(np.float32)
    return Normalizer(spread.mean, np.where(change > 0, change, spread.std))


def _typical_observation(data: Trajectories, scale: Scale) -> Array:
    """The recorded observation (O,) nearest to the mean of all, each feature in its standard deviations."""
    rows = np.random.default_rng(0).integers(data.rows, size=min(data.rows, _TYPICAL_ROWS))
    observations = data.observations[rows]
    features = scale.array_features(observations)
    distances = np.square(Normalizer.fit(features).normalize(features)).sum(axis=1)
    return np.array(observations[distances.argmin()])


def _distance(a: Tensor, b: Tensor) -> Tensor:
    return (a - b).square().sum(-1).clamp(min=1e-6).sqrt()


def _values(heads: Any, state: Tensor, goal: Tensor) -> Tensor:
    """V_i(s, g) = -|phi_i(s) - phi_i(g)| of every head (Eq. 6): (heads, B)."""
    both = torch.cat([state, goal])
    return -torch.stack([_distance(*head(both).chunk(2)) for head in heads])
