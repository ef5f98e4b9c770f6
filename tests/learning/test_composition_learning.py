"""Chunks learned from short arcs of a ring are composed to plans far beyond any of them."""

import numpy as np
import pytest
import torch

from scots.data.trajectories import Array, Meta, Trajectories, offsets_from_lengths
from scots.models.diffusion import SamplingConfig
from scots.models.training import TrainingConfig, fit
from scots.planners.cd import CompositionalDiffuser
from scots.planners.chunks import ChunkConfig, ChunkPlanner, overlap_errors
from scots.planners.gsc import GenerativeSkillChaining

pytestmark = pytest.mark.slow
ARCS, STATES, FASTEST = 400, 24, 2 * np.pi / 96  # no arc covers a quarter of the ring
CONFIG = ChunkConfig(
    chunk=16,
    overlap=6,
    chunks=4,
    width=16,
    multipliers=(1, 2, 4),
    time_sizes=(16, 32, 16),
    overlap_width=8,
    overlap_multipliers=(1, 2),
    overlap_features=16,
    frequencies=2,
    condition_width=64,
    schedule="linear",
    prediction="v",
    lag=0.2,
    front_padding=0,
    candidates=4,
    sampling=SamplingConfig(steps=8, order=2),
    eta=0.0,
    ema=0.98,
    training=TrainingConfig(steps=700, batch_size=64, learning_rate=3e-3, schedule="cosine", warmup=50),
)


def arcs() -> Trajectories:
    """Walks along a ring in either direction, some faster than others."""
    rng = np.random.default_rng(0)
    begin, way = rng.uniform(0, 2 * np.pi, (ARCS, 1)), rng.choice([-1, 1], (ARCS, 1))
    angles = begin + way * FASTEST * rng.uniform(0.5, 1, (ARCS, 1)) * np.arange(STATES)
    ring = np.stack([np.cos(angles), np.sin(angles)], axis=-1).reshape(-1, 2)
    return Trajectories(ring, offsets_from_lengths([STATES] * ARCS), meta=Meta(position=(0, 1)))


@pytest.fixture(scope="module")
def trained() -> CompositionalDiffuser:
    torch.manual_seed(0)
    model = CompositionalDiffuser.for_data(CONFIG, arcs())
    fit(model, arcs(), seed=0)
    return model


def used_as(model: ChunkPlanner, kind: type[ChunkPlanner], **changes) -> ChunkPlanner:
    """The same weights, composed otherwise."""
    other = kind(model.config.replace_all(changes), model.sizes)
    other.load_state_dict(model.state_dict())
    return other.eval()


def pairs(count: int, turn: float) -> tuple[Array, Array]:
    """Starts and goals this share of a turn apart."""
    angles = np.random.default_rng(1).uniform(0, 2 * np.pi, count)
    return tuple(
        np.stack([np.cos(own), np.sin(own)], axis=1).astype(np.float32) for own in (angles, angles + 2 * np.pi * turn)
    )


def on_ring(planner: ChunkPlanner, turn: float) -> float:
    """Share of the positions of plans that are near the ring."""
    positions = np.stack([plan.positions for plan in planner.plan(*pairs(60, turn), range(60))])
    return float((np.abs(np.linalg.norm(positions, axis=2) - 1) < 0.15).mean())


COMPOSITIONS = [
    (CompositionalDiffuser, {"composition": "interleaved"}),
    (CompositionalDiffuser, {"composition": "parallel"}),
    (GenerativeSkillChaining, {}),
]


@pytest.mark.parametrize(("kind", "changes"), COMPOSITIONS)
def test_composed_plans_stay_on_the_ring_where_one_chunk_cannot_reach(kind, changes, trained: CompositionalDiffuser):
    """No arc leads across a third of a turn; one chunk goes straight, four go around."""
    composed, single = (on_ring(used_as(trained, kind, **changes, chunks=count), 1 / 3) for count in (4, 1))
    print(kind.name, changes, composed, single)
    assert single < 0.5
    assert composed > 0.9


def test_neighbours_that_see_each_other_agree(trained: CompositionalDiffuser):
    """Overlaps of chunks that are denoised without any word of each other do not."""
    start, goal = pairs(60, 1 / 3)
    ends = trained.scale(torch.from_numpy(np.stack([start, goal], axis=1)))
    counts = torch.full((60,), 4)
    noise = torch.randn(60, 4, 16, 2, generator=torch.Generator().manual_seed(0))
    errors = {}
    for guidance in (0.0, 1.0, 2.0):
        planner = used_as(trained, CompositionalDiffuser, guidance=guidance)
        with torch.inference_mode():
            errors[guidance] = overlap_errors(planner.compose(ends, counts, noise), counts, 6).median().item()
    print(errors)
    assert errors[2.0] < 0.05 * errors[0.0]
