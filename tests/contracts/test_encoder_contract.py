"""What every registered state encoder keeps to: latents of every row, and distances that behave."""

from dataclasses import replace

import numpy as np
import pytest

from scots.augmenters.embedding import ENCODERS, StateEncoder, TemporalDistanceConfig
from scots.augmenters.scots import train_encoder
from scots.augmenters.settings import ScotsConfig
from scots.core.errors import BadInput
from scots.datasets import toy
from scots.models.training import TrainingConfig

DATA = toy.make(episodes=10)
SHORT = TemporalDistanceConfig(hidden=(16,), latent=4, normalize=True, training=TrainingConfig(20, 64, 1e-3))
CONFIGS = {
    f"{name}, {form}": ScotsConfig(encoder=name, embedding=replace(SHORT, form=form))
    for name in ENCODERS
    for form in ("expectile", "constrained")
}
"""Every encoder with the settings of both forms of the embedding, which it may ignore."""


@pytest.fixture(autouse=True, scope="module")
def _home(tmp_path_factory: pytest.TempPathFactory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SCOTS_HOME", str(tmp_path_factory.mktemp("home")))
        yield


@pytest.fixture(scope="module", params=CONFIGS)
def config(request: pytest.FixtureRequest) -> ScotsConfig:
    return CONFIGS[request.param]


@pytest.fixture(scope="module")
def encoder(config: ScotsConfig) -> StateEncoder:
    return train_encoder(DATA, config, seed=0)


def test_same_settings_data_and_seed_same_latents(config: ScotsConfig, encoder: StateEncoder):
    again = train_encoder(DATA, config, seed=0)
    assert np.array_equal(again.encode(DATA.observations), encoder.encode(DATA.observations))


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


def test_an_encoder_that_does_not_exist_is_named_with_those_that_do():
    with pytest.raises(BadInput, match="encoder 'fourier' is not one of temporal, raw"):
        ScotsConfig(encoder="fourier")


def test_an_encoder_takes_one_line(monkeypatch: pytest.MonkeyPatch):
    raw = ENCODERS["raw"](SHORT, DATA, 0)
    monkeypatch.setitem(ENCODERS, "own", lambda config, data, seed: raw)
    assert train_encoder(DATA, ScotsConfig().replace_at("encoder", "own"), seed=0) is raw
