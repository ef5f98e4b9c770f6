"""Planners of chunks with small networks that learned nothing, and distances that are given."""

import numpy as np
import torch
from torch import Tensor

from scots.data.trajectories import Array
from scots.datasets import toy
from scots.models.diffusion import SamplingConfig
from scots.models.training import TrainingConfig
from scots.planners.cd import CompositionalDiffuser
from scots.planners.chunks import ChunkConfig, ChunkPlanner
from scots.planners.gsc import GenerativeSkillChaining

DATA = toy.make(episodes=10)
CONFIG = ChunkConfig(
    chunk=8,
    overlap=3,
    chunks=3,
    width=8,
    multipliers=(1, 2),
    time_sizes=(8, 16, 8),
    overlap_width=8,
    overlap_multipliers=(1, 2),
    overlap_features=8,
    deep_overlaps=False,
    frequencies=1,
    schedule="linear",
    prediction="v",
    lag=0.2,
    front_padding=6,
    candidates=2,
    sampling=SamplingConfig(steps=4, order=2, temperature=1.0),
    eta=0.0,
    training=TrainingConfig(steps=1, batch_size=4, learning_rate=1e-3),
)
KINDS: list[type[ChunkPlanner]] = [CompositionalDiffuser, GenerativeSkillChaining]
STARTS, GOALS = DATA.observations[[3, 90, 200, 7]], DATA.observations[[250, 4, 17, 120]]


def planner(kind: type[ChunkPlanner] = CompositionalDiffuser, config: ChunkConfig = CONFIG) -> ChunkPlanner:
    torch.manual_seed(0)
    return kind.for_data(config, DATA).eval()


def noise_for(config: ChunkConfig, plans: int, chunks: int) -> Tensor:
    return torch.randn(plans, chunks, config.chunk, 2, generator=torch.Generator().manual_seed(5))


class Steps:
    """Distances that are given: a latent is the first coordinate of a position."""

    def encode(self, positions: Array) -> Array:
        return positions[:, :1]

    def distance(self, start: Array, goal: Array) -> Array:
        return np.abs(start - goal)[..., 0]
