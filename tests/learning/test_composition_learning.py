"""Chunks learned from short arcs of a half ring are composed to plans far beyond any of them."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from scots.data.trajectories import Array, Meta, Trajectories, offsets_from_lengths
from scots.models.diffusion import SamplingConfig
from scots.models.training import TrainingConfig, fit
from scots.planners.canvas import overlap_errors
from scots.planners.cd import CompositionalDiffuser
from scots.planners.chunks import ChunkConfig, ChunkPlanner
from scots.planners.gsc import GenerativeSkillChaining

pytestmark = pytest.mark.slow
ARCS, STATES, FASTEST = 400, 24, 2 * np.pi / 96  # no arc covers half of the half ring
FAR, PAIRS = 2 / 3 * np.pi, 60  # from start to goal: a straight line passes halfway to the centre
CONFIG = ChunkConfig(
    chunk=16,
    overlap=6,
    chunks=4,
    width=16,
    multipliers=(1, 2),
    time_sizes=(16, 32, 16),
    overlap_width=16,
    overlap_multipliers=(1, 2),
    overlap_features=32,
    deep_overlaps=False,
    frequencies=2,
    condition_width=64,
    schedule="linear",
    prediction="v",
    lag=0.3,  # more than between any two calls of the solver
    front_padding=0,
    guidance=1.0,
    candidates=4,
    sampling=SamplingConfig(steps=8, order=2),
    eta=0.0,
    ema=0.98,
    training=TrainingConfig(steps=500, batch_size=128, learning_rate=3e-3, schedule="cosine", warmup=30),
)


def ring(angles: Array) -> Array:
    return np.stack([np.cos(angles), np.sin(angles)], axis=-1).astype(np.float32)


def arcs() -> Trajectories:
    """Walks along the half ring in either direction, some faster than others; they wait where it ends."""
    rng = np.random.default_rng(0)
    begin, way = rng.uniform(0, np.pi, (ARCS, 1)), rng.choice([-1, 1], (ARCS, 1))
    angles = begin + way * FASTEST * rng.uniform(0.5, 1, (ARCS, 1)) * np.arange(STATES)
    positions = ring(np.clip(angles, 0, np.pi)).reshape(-1, 2)
    return Trajectories(positions, offsets_from_lengths([STATES] * ARCS), meta=Meta(position=(0, 1)))


def learned(config: ChunkConfig) -> CompositionalDiffuser:
    torch.manual_seed(0)
    model, data = CompositionalDiffuser.for_data(config, arcs()), arcs()
    fit(model, data, seed=0)
    return model


@pytest.fixture(scope="module")
def trained() -> CompositionalDiffuser:
    return learned(CONFIG)


def used_as(model: ChunkPlanner, kind: type[ChunkPlanner], **changes: object) -> ChunkPlanner:
    """The same weights, composed otherwise."""
    other = kind(model.config.replace_all(changes), model.sizes)
    other.load_state_dict(model.state_dict())
    return other.eval()


def ends(apart: float) -> tuple[Array, Array]:
    """Starts and goals this far apart along the half ring."""
    angles = np.random.default_rng(1).uniform(0.05, np.pi - 0.05 - apart, PAIRS)
    return ring(angles), ring(angles + apart)


def on_ring(planner: ChunkPlanner, apart: float) -> float:
    """Share of the positions of plans that are near the ring."""
    positions = np.stack([plan.positions for plan in planner.plan(*ends(apart), range(PAIRS))])
    return float((np.abs(np.linalg.norm(positions, axis=2) - 1) < 0.15).mean())


def test_one_chunk_stays_on_the_ring_only_where_an_arc_reaches(trained: CompositionalDiffuser):
    single = used_as(trained, CompositionalDiffuser, chunks=1)
    assert on_ring(single, FAR / 3) > 0.9
    assert on_ring(single, FAR) < 0.65


@pytest.mark.parametrize("composition", ["interleaved", "parallel"])
def test_composed_chunks_stay_on_it_all_the_way(composition: str, trained: CompositionalDiffuser):
    """Told nothing of each other (guidance 0), they do not."""
    together, apart = (
        on_ring(used_as(trained, CompositionalDiffuser, composition=composition, guidance=guidance), FAR)
        for guidance in (1.0, 0.0)
    )
    assert together > 0.85  # 0.98 interleaved, 0.96 parallel
    assert apart < 0.65  # 0.55


def test_chunks_with_averaged_overlaps_stay_on_it_if_enough_of_training_is_told_nothing():
    """All that GSC's inner chunks know is from windows told nothing on either side: a quarter of them here.

    The published share, 4 %, is too small for so short a training: 0.38, where CD has 0.98.
    """
    model = learned(replace(CONFIG, unconditioned=0.5))
    assert on_ring(used_as(model, GenerativeSkillChaining), FAR) > 0.75  # 0.90


def test_neighbours_that_see_each_other_agree(trained: CompositionalDiffuser):
    """Overlaps of chunks that are told nothing of each other do not."""
    pairs = trained.scale(torch.from_numpy(np.stack(ends(FAR), axis=1)))
    counts, noise = torch.full((PAIRS,), 4), torch.randn(PAIRS, 4, 16, 2, generator=torch.Generator().manual_seed(0))

    def error(kind: type[ChunkPlanner], **changes: float) -> float:
        with torch.inference_mode():
            composed = used_as(trained, kind, **changes).compose(pairs, counts, noise)
        return overlap_errors(composed, counts, CONFIG.overlap).median().item()

    apart, told = error(CompositionalDiffuser, guidance=0.0), error(CompositionalDiffuser)
    averaged = error(GenerativeSkillChaining)
    assert told < 0.3 * apart  # 0.20 of 1.12
    assert averaged < 0.01 * apart  # 0.0003: GSC makes them equal, whether or not they stay on the ring
