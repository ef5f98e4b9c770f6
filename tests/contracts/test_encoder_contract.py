"""What every state encoder keeps to: latents of every row, and distances that behave."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from scots.augmenters.embedding import RawState, StateEncoder, TemporalDistance, TemporalDistanceConfig
from scots.datasets import toy

DATA = toy.make(episodes=10)


def temporal(form: str) -> StateEncoder:
    torch.manual_seed(0)
    config = TemporalDistanceConfig(form=form, hidden=(16,), latent=4, normalize=True)
    return TemporalDistance.for_data(config, DATA)


ENCODERS: dict[str, Callable[[], StateEncoder]] = {
    "expectile": lambda: temporal("expectile"),
    "constrained": lambda: temporal("constrained"),
    "raw": lambda: RawState(DATA),
}


@pytest.fixture(params=ENCODERS)
def encoder(request: pytest.FixtureRequest) -> StateEncoder:
    return ENCODERS[request.param]()


def test_every_row_has_a_latent_of_its_own(encoder: StateEncoder):
    latents = encoder.encode(DATA.observations)
    assert latents.shape[0] == DATA.rows
    assert latents.dtype == np.float32
    np.testing.assert_allclose(encoder.encode(DATA.observations[7:9]), latents[7:9], rtol=1e-4, atol=1e-5)


def test_distances_are_a_quasimetric(encoder: StateEncoder):
    """Zero to itself, positive to others, and no detour is shorter; symmetry is not promised."""
    states = np.unique(DATA.observations, axis=0)[:20]
    latents = encoder.encode(states)
    table = encoder.distance(latents[:, None], latents)
    assert table.shape == (20, 20)
    np.testing.assert_allclose(np.diag(table), 0, atol=1e-5)
    assert (table[~np.eye(20, dtype=bool)] > 0).all()
    assert (table[:, None] <= table[:, :, None] + table[None] + 1e-4).all()


def test_distances_broadcast(encoder: StateEncoder):
    latents = encoder.encode(DATA.observations[:6])
    table = encoder.distance(latents[:, None], latents)
    np.testing.assert_allclose(encoder.distance(latents[0], latents[1:]), table[0, 1:], rtol=1e-6)
    np.testing.assert_allclose(encoder.distance(latents[:-1], latents[1:]), np.diag(table, 1), rtol=1e-6)
