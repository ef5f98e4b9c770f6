"""The beta-VAE: its loss against closed forms, and that it learns to tell rooms apart."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from scots.core.errors import BadInput
from scots.data.trajectories import Trajectories
from scots.models.scan_encoder import ScanEncoder, ScanEncoderConfig, kl_divergence
from scots.models.training import TrainingConfig, fit

RAYS = 64
SMALL = ScanEncoderConfig(latent=3, channels=(4, 4, 8, 8), hidden=16, training=TrainingConfig(300, 16, 5e-3))


def scans(count: int, seed: int = 0) -> np.ndarray:
    """Rooms of two kinds, narrow and wide, each a little different."""
    rng = np.random.default_rng(seed)
    sizes = np.where(np.arange(count) % 2, 2.0, 6.0) + rng.uniform(-0.5, 0.5, size=count)
    return np.tile(sizes[:, None], (1, RAYS)).astype(np.float32)


def test_the_divergence_is_that_of_gaussians():
    """Against torch's own, and zero where the posterior is the prior."""
    mean, log_variance = torch.randn(5, 3), torch.randn(5, 3)
    own = torch.distributions.Normal(mean, (log_variance / 2).exp())
    expected = torch.distributions.kl_divergence(own, torch.distributions.Normal(0.0, 1.0))
    torch.testing.assert_close(kl_divergence(mean, log_variance), expected)
    assert kl_divergence(torch.zeros(1), torch.zeros(1)) == 0


def test_beta_weighs_the_divergence():
    torch.manual_seed(0)
    plain = ScanEncoder(SMALL, {"first": 0, "rays": RAYS})
    heavy = ScanEncoder(replace(SMALL, beta=5.0), {"first": 0, "rays": RAYS})
    heavy.load_state_dict(plain.state_dict())
    batch = {"image": torch.from_numpy(plain.images(scans(4)))}
    (light, metrics), (weighted, _) = (model.loss(batch, torch.Generator().manual_seed(1)) for model in (plain, heavy))
    torch.testing.assert_close(weighted - light, 4 * metrics["kl"] / 64**2)


@pytest.mark.slow
def test_it_learns_to_reconstruct_and_to_tell_rooms_apart():
    data = Trajectories(scans(200), np.array([0, 200]))
    torch.manual_seed(0)
    model = ScanEncoder.for_data(SMALL, data, first=0, rays=RAYS)
    fit(model, data, seed=0)
    unseen = scans(40, seed=1)
    error = np.abs(model.decode(model.encode(unseen)) - model.images(unseen)[:, 0]).mean()
    constant = np.abs(model.images(unseen)[:, 0] - model.images(scans(200))[:, 0].mean(0)).mean()
    assert error < 0.25 * constant
    latents = model.encode(unseen)
    within = latents[::2].std(axis=0).mean()
    assert np.linalg.norm(latents[::2].mean(0) - latents[1::2].mean(0)) > 2 * within


def test_a_latent_does_not_depend_on_its_company_and_survives_saving(tmp_path: Path):
    model = ScanEncoder(SMALL, {"first": 0, "rays": RAYS}).eval()
    latents = model.encode(scans(6))
    np.testing.assert_allclose(model.encode(scans(6)[2:3]), latents[2:3], rtol=1e-4, atol=1e-6)
    model.save(tmp_path / "encoder")
    np.testing.assert_array_equal(ScanEncoder.load(tmp_path / "encoder").encode(scans(6)), latents)


def test_impossible_settings_are_refused():
    with pytest.raises(BadInput, match="latent and beta must be positive: 0"):
        ScanEncoderConfig(latent=0)
