"""Embeddings in which Euclidean distance is temporal distance (Eqs. 6 and 7), and the raw-state ablation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from scots.config import Config
from scots.errors import BadInput
from scots.nets import Scale, mlp
from scots.training import Batch, Model, SlowCopy, TrainingConfig
from scots.trajectories import Array, GoalMix, Normalizer, Trajectories, sample_goals

ENCODE_ROWS = 1 << 16  # rows embedded together


class Encoder(Protocol):
    """Anything that places states in a space where near means soon reached."""

    def encode(self, observations: Array) -> Array:
        """(N, O) -> latents (N, Z)."""


@dataclass(frozen=True)
class TemporalDistanceConfig(Config):
    """The temporal-distance embedding. The defaults are the paper's."""

    form: Literal["expectile", "constrained"] = "expectile"
    latent: int = 32  # Z
    hidden: tuple[int, ...] = (512, 512, 512)
    normalize: bool = False  # the paper embeds raw observations
    training: TrainingConfig = TrainingConfig(steps=1_000_000, batch_size=1024, learning_rate=3e-4)
    # form "expectile"
    discount: float = 0.99  # gamma; 0.995 for the giant mazes
    expectile: float = 0.95  # xi
    target_rate: float = 0.995
    goals: GoalMix = GoalMix(current=0.0, trajectory=0.625, random=0.375)
    # form "constrained"
    reach: float = 40.0  # steps over which random pairs push each other apart
    penalty: float = 100.0  # price of a step longer than one

    def __post_init__(self) -> None:
        if not 0 < self.discount < 1 or not 0.5 <= self.expectile < 1:
            raise BadInput(f"discount must be in (0, 1) and expectile in [0.5, 1): {self.discount}, {self.expectile}")


class TemporalDistance(Model):
    """phi: states -> latents whose distance is the number of steps between them.

    Form "expectile" is the paper's: V(s, g) = -|phi(s) - phi(g)| learned by expectile TD with two heads and targets;
    the first head embeds. Its distances saturate at 1 / (1 - discount) and spread one step per update.

    Form "constrained" needs no bootstrapping: push random pairs apart while every recorded step stays at most one long.
    The steps of a shortest path then add up to the distance, and nothing larger is allowed.
    """

    config_class = TemporalDistanceConfig

    def __init__(self, config: TemporalDistanceConfig, sizes: dict[str, int]) -> None:
        super().__init__(config, sizes)
        heads = 2 if config.form == "expectile" else 1
        shape = (sizes["observation"], *config.hidden, config.latent)
        self.scale = Scale(sizes["observation"])
        self.heads = nn.ModuleList(mlp(shape) for _ in range(heads))
        self.targets = SlowCopy(self.heads, config.target_rate) if config.form == "expectile" else None

    @classmethod
    def for_data(cls, config: TemporalDistanceConfig, data: Trajectories) -> Self:
        """Sized for the observations of a dataset."""
        model = cls(config, {"observation": data.observations.shape[1]})
        if config.normalize:
            model.scale.fit(Normalizer.fit(data.observations))
        return model

    def batch(self, data: Trajectories, size: int, rng: np.random.Generator) -> Batch:
        """Transitions s -> s', and goals g for the expectile form."""
        rows = data.random_rows(2, size, rng)
        batch = {"state": data.observations[rows], "next_state": data.observations[rows + 1]}
        if self.config.form == "expectile":
            goals = sample_goals(data, rows, self.config.goals, self.config.discount, rng)
            batch |= {"goal": data.observations[goals], "arrived": goals == rows}
        return {name: torch.from_numpy(np.asarray(values)) for name, values in batch.items()}

    def loss(self, batch: Batch, generator: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss of the chosen form."""
        return self.expectile_loss(batch) if self.config.form == "expectile" else self.constrained_loss(batch)

    def expectile_loss(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """Expectile TD (Eq. 7): each head bootstraps from its own target, the weight comes from both targets."""
        state, following, goal = (self.scale(batch[name]) for name in ("state", "next_state", "goal"))
        assert self.targets is not None
        with torch.no_grad():
            moving = 1.0 - batch["arrived"].float()
            ahead, here = (_values(self.targets.copy, start, goal) for start in (following, state))
            advantage = -moving + self.config.discount * moving * ahead.amin(0) - here.mean(0)
            wanted = -moving + self.config.discount * moving * ahead
            weight = torch.where(advantage >= 0, self.config.expectile, 1 - self.config.expectile)
        values = _values(self.heads, state, goal)
        loss = (weight * (wanted - values) ** 2).mean(1).sum()
        return loss, {"value": values.mean(), "advantage": advantage.mean()}

    def constrained_loss(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """Push random pairs apart, softly beyond `reach`, while recorded steps stay at most one long."""
        both = torch.cat([batch["state"], batch["next_state"]])
        here, following = self.heads[0](self.scale(both)).chunk(2)
        step, apart = _distance(here, following), _distance(here, here.roll(1, 0))
        excess = functional.relu(step - 1).square().mean()
        push = self.config.reach * functional.softplus(-apart / self.config.reach).mean()
        return push + self.config.penalty * excess, {
            "apart": apart.mean(),
            "step_length": step.mean(),
            "excess": excess,
        }

    def slow_copies(self) -> list[tuple[SlowCopy, nn.Module]]:
        """The target heads, where there are any."""
        return [(self.targets, self.heads)] if self.targets is not None else []

    @torch.no_grad()
    def encode(self, observations: Array) -> Array:
        """Latents of observations (N, O) -> (N, Z), by the first online head."""
        blocks = (observations[n : n + ENCODE_ROWS] for n in range(0, len(observations), ENCODE_ROWS))
        tensors = (torch.tensor(block, device=self.device) for block in blocks)
        return np.concatenate([self.heads[0](self.scale(block)).cpu().numpy() for block in tensors])


class RawState:
    """The ablation without a learned embedding: normalised observations are their own latents."""

    def __init__(self, data: Trajectories) -> None:
        self._normalizer = Normalizer.fit(data.observations)

    def encode(self, observations: Array) -> Array:
        """(N, O) -> (N, O)."""
        return self._normalizer.normalize(np.asarray(observations)).astype(np.float32)


def _distance(a: Tensor, b: Tensor) -> Tensor:
    return (a - b).square().sum(-1).clamp(min=1e-6).sqrt()


def _values(heads: Any, state: Tensor, goal: Tensor) -> Tensor:
    """V_i(s, g) = -|phi_i(s) - phi_i(g)| of every head (Eq. 6): (heads, B)."""
    both = torch.cat([state, goal])
    return -torch.stack([_distance(*head(both).chunk(2)) for head in heads])
