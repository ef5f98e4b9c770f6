"""Small models learn what is known exactly on the toy corridor."""

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from scots.augmenters.embedding import TemporalDistance, TemporalDistanceConfig
from scots.augmenters.refinement import InverseDynamics, InverseDynamicsConfig, Stitcher, StitcherConfig
from scots.datasets import toy
from scots.envs.toy import ToyCorridor
from scots.models.training import TrainingConfig, fit

pytestmark = pytest.mark.slow
WORLD, DATA = ToyCorridor(), toy.make()


def rank_correlation(model: TemporalDistance) -> float:
    latents = model.encode(WORLD.positions)
    pairs = np.triu_indices(len(latents), 1)
    distance = np.linalg.norm(latents[:, None] - latents[None], axis=-1)
    return spearmanr(distance[pairs], WORLD.distances[pairs])[0]


def test_constrained_embedding_orders_states_by_true_distance():
    torch.manual_seed(0)
    training = TrainingConfig(steps=1500, batch_size=512, learning_rate=2e-3, schedule="cosine")
    config = TemporalDistanceConfig(form="constrained", hidden=(128, 128), normalize=True, training=training)
    model = TemporalDistance.for_data(config, DATA)
    fit(model, DATA, seed=0)
    assert rank_correlation(model) >= 0.95


@pytest.mark.parametrize("frame", ["absolute", "chord"])
def test_stitcher_fills_in_what_the_data_does(frame):
    """Between two states of one straight corridor the drawn states lie between them, in order."""
    torch.manual_seed(0)
    training = TrainingConfig(steps=700, batch_size=128, learning_rate=2e-3, schedule="cosine", warmup=50)
    config = StitcherConfig(
        width=48,
        depth=2,
        head_width=16,
        prediction="v",
        frame=frame,
        early_arrival=0.0,
        ema=0.99,
        training=training,
    )
    stitcher = Stitcher.for_data(config, DATA, tokens=9, context=1)
    fit(stitcher, DATA, seed=0)
    starts = DATA.window_starts(9)
    straight = np.linalg.norm(DATA.observations[starts + 8] - DATA.observations[starts], axis=1) >= 1.7
    windows = DATA.windows(starts[straight][:200], 9)
    drawn = stitcher.refine(windows[:, [0, -1]], torch.Generator().manual_seed(0))
    assert np.median(np.abs(drawn - windows)) < 0.15
    steps = np.linalg.norm(np.diff(drawn, axis=1), axis=-1)
    assert np.median(steps) == pytest.approx(0.25, abs=0.06)


@pytest.mark.parametrize("inputs", ["states", "difference"])
def test_inverse_dynamics_recovers_the_moves(inputs):
    torch.manual_seed(0)
    training = TrainingConfig(steps=800, batch_size=256, learning_rate=2e-3, schedule="cosine")
    config = InverseDynamicsConfig(hidden=(64, 64), dropout=0.0, inputs=inputs, training=training)
    inverse = InverseDynamics.for_data(config, DATA)
    fit(inverse, DATA, seed=0)
    rows = DATA.window_starts(2)
    moved = np.abs(DATA.observations[rows + 1] - DATA.observations[rows]).sum(axis=1) > 0
    rows = rows[moved][:1000]
    pairs = np.stack([DATA.observations[rows], DATA.observations[rows + 1]], axis=1)
    actions = inverse.label(pairs[:, 0], pairs[:, 1])
    reached = np.stack([WORLD.step(state, action) for state, action in zip(pairs[:, 0], actions, strict=True)])
    assert np.mean((reached == pairs[:, 1]).all(axis=1)) > 0.95


def test_expectile_embedding_gets_near_pairs_right():
    """The paper's form spreads one step per update: near pairs are in order long before far ones."""
    torch.manual_seed(0)
    training = TrainingConfig(steps=1500, batch_size=256, learning_rate=1e-3)
    config = TemporalDistanceConfig(
        hidden=(128, 128), normalize=True, discount=0.95, target_decay=0.98, training=training
    )
    model = TemporalDistance.for_data(config, DATA)
    fit(model, DATA, seed=0)
    latents = model.encode(WORLD.positions)
    distance = np.linalg.norm(latents[:, None] - latents[None], axis=-1)
    near = (WORLD.distances > 0) & (WORLD.distances <= 12)
    assert spearmanr(distance[near], WORLD.distances[near])[0] >= 0.8
