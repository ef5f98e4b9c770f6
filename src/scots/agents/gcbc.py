"""Goal-conditioned behaviour cloning of nearby goals: the action that led to a position a few steps ahead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from scots.agents.base import Agent
from scots.core.config import Config
from scots.core.errors import BadInput
from scots.data.trajectories import Array, Normalizer, Trajectories
from scots.models.nets import GaussianActor
from scots.models.training import Batch, TrainingConfig

_SCALE_ROWS = 100_000  # inputs that their mean and deviation are measured on


@dataclass(frozen=True)
class GCBCConfig(Config):
    """Imitation towards nearby positions. Nobody has published it; the sizes are those of a short run."""

    hidden: tuple[int, ...] = (256, 256, 256)
    normalize: bool = True
    horizon: int = 25  # the goal of a state is a later one of its episode, at most this many steps ahead
    training: TrainingConfig = TrainingConfig(
        100_000, batch_size=512, learning_rate=1e-3, schedule="cosine", warmup=200
    )

    def __post_init__(self) -> None:
        if self.horizon < 1:
            raise BadInput(f"horizon {self.horizon}: a goal is at least 1 step ahead")


class GCBC(Agent):
    """A policy for the subgoals of a plan, which are near: it sees how to move its body, and where to, but no map.

    Its input is an observation whose position columns hold the goal relative to the position:

        x  y  joints ...   and a goal at   x'  y'    ->    x'-x  y'-y  joints ...

    All other columns of a goal are ignored. So it does the same in every part of a maze, from few examples of each.
    """

    name = "gcbc"
    config_class = GCBCConfig
    follows_plans = True
    laptop: ClassVar[dict[str, Any]] = {"training": TrainingConfig(20_000, 512, 1e-3, schedule="cosine", warmup=200)}

    position: Tensor  # (P,)

    def __init__(self, config: GCBCConfig, sizes: dict[str, int]) -> None:
        super().__init__(config, sizes)
        self.register_buffer("position", torch.zeros(sizes["position"], dtype=torch.long))
        self.actor = GaussianActor(sizes["observation"], config.hidden, sizes["action"])

    @classmethod
    def for_data(cls, config: GCBCConfig, data: Trajectories, **sizes: int) -> Self:
        """Sized for a dataset; the scale is that of the inputs, in which goals are relative."""
        if not data.meta.position:
            raise BadInput("no position columns are known, so no goal is near; name them with --position x,y")
        agent = super().for_data(config, data, position=len(data.meta.position))
        agent.position.copy_(torch.tensor(data.meta.position))
        if config.normalize:
            pairs = agent.batch(data, _SCALE_ROWS, np.random.default_rng(0))
            inputs = agent.scale.features(agent._towards(pairs["state"], pairs["goal"]))
            agent.scale.fit(Normalizer.fit(inputs.numpy()))
        return agent

    def batch(self, data: Trajectories, size: int, rng: np.random.Generator) -> Batch:
        """States and actions, each with a state 1 to `horizon` steps later, and not past the end of its episode."""
        assert data.actions is not None
        rows = data.random_rows(2, size, rng)
        goals = rng.integers(rows + 1, np.minimum(rows + self.config.horizon, data.last_row_of(rows)), endpoint=True)
        arrays = {"state": data.observations[rows], "action": data.actions[rows], "goal": data.observations[goals]}
        return {name: torch.from_numpy(values) for name, values in arrays.items()}

    def actor_loss(self, batch: Batch) -> Tensor:
        """Squared error of the action."""
        return functional.mse_loss(
            self.actor(self.scale(self._towards(batch["state"], batch["goal"]))), batch["action"]
        )

    def loss(self, batch: Batch, generator: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
        """The actor's loss is all."""
        loss = self.actor_loss(batch)
        return loss, {"actor": loss}

    @torch.inference_mode()
    def act(self, observations: Array, goals: Array, rng: np.random.Generator) -> Array:
        """The mean action, clipped; of the goals only the position counts."""
        state, goal = (
            torch.tensor(values, dtype=torch.float32, device=self.device) for values in (observations, goals)
        )
        return self.actor(self.scale(self._towards(state, goal))).clamp(-1, 1).cpu().numpy()

    def _towards(self, state: Tensor, goal: Tensor) -> Tensor:
        """Observations whose position columns hold the goal relative to them: (B, O), (B, O) -> (B, O)."""
        relative = state.clone()
        relative[:, self.position] = goal[:, self.position] - state[:, self.position]
        return relative
