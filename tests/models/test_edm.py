"""EDM: the optimal denoiser of a Gaussian is known, and so are its loss and what the sampler must draw with it."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from scots.core.errors import BadInput
from scots.models import edm
from scots.models.edm import HeunConfig

SPREAD = torch.tensor([0.5, 1.0, 2.0])  # deviations of independent Gaussian columns


def optimal(scaled: Tensor, level: Tensor) -> Tensor:
    """What the network must output so that the estimate is s^2 / (s^2 + sigma^2) times what is seen."""
    sigma = (4 * level).exp()[:, None]
    noisy = scaled * (1 + sigma**2).sqrt()
    estimate = SPREAD**2 / (SPREAD**2 + sigma**2) * noisy
    return (estimate - noisy / (1 + sigma**2)) * (1 + sigma**2).sqrt() / sigma


def test_the_estimate_of_the_optimal_network_is_the_posterior_mean():
    noisy, sigma = torch.randn(7, 3), torch.logspace(-2, 1.5, 7)
    expected = SPREAD**2 / (SPREAD**2 + sigma[:, None] ** 2) * noisy
    torch.testing.assert_close(edm.denoised(optimal, noisy, sigma), expected, rtol=1e-4, atol=1e-5)


def test_a_network_sees_and_is_asked_for_unit_variance():
    generator = torch.Generator().manual_seed(0)
    clean = torch.randn(200_000, 1, generator=generator)
    for level in (0.01, 0.3, 1.0, 20.0):
        seen = []
        sigma = torch.full((len(clean),), level)
        noisy = clean + level * torch.randn(clean.shape, generator=generator)
        edm.denoised(lambda scaled, _, seen=seen: seen.append(scaled) or scaled, noisy, sigma)
        asked = (clean - noisy / (1 + level**2)) * (1 + level**2) ** 0.5 / level
        assert seen[0].std().item() == pytest.approx(1, abs=0.01)
        assert asked.std().item() == pytest.approx(1, abs=0.01)


def test_the_loss_of_the_optimal_network_is_what_cannot_be_known():
    """The posterior variance s^2 sigma^2 / (s^2 + sigma^2), weighted, over the law of sigma."""
    generator = torch.Generator().manual_seed(0)
    clean = SPREAD * torch.randn(400_000, 3, generator=generator)
    sigma = np.exp(-1.2 + 1.2 * np.random.default_rng(0).normal(size=(400_000, 1)))
    variance = SPREAD.numpy() ** 2
    expected = np.mean((1 + sigma**2) / sigma**2 * variance * sigma**2 / (variance + sigma**2))
    assert edm.denoising_loss(optimal, clean, generator).item() == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("churn", [0.0, 80.0])
def test_samples_have_the_variance_of_the_data(churn: float):
    config = HeunConfig(steps=128 if churn else 32, churn=churn, churn_scale=1.0)
    drawn = edm.sample(optimal, (40_000, 3), config, torch.Generator().manual_seed(0), torch.device("cpu"))
    np.testing.assert_allclose(drawn.std(0), SPREAD, rtol=0.02)
    np.testing.assert_allclose(drawn.mean(0), 0, atol=0.03)


def test_the_sampler_is_of_second_order():
    """The ODE maps the first noise linearly; its error falls fourfold or better with twice the steps."""

    def factor(steps: int) -> Tensor:
        config = HeunConfig(steps=steps, churn=0.0)
        generator = torch.Generator().manual_seed(0)
        first = edm.HIGHEST * torch.randn(1, 3, generator=generator)
        drawn = edm.sample(optimal, (1, 3), config, torch.Generator().manual_seed(0), torch.device("cpu"))
        return (drawn / first)[0]

    exact = SPREAD / (SPREAD**2 + edm.HIGHEST**2).sqrt()
    errors = [(factor(steps) / exact - 1).abs().max().item() for steps in (8, 16, 32)]
    assert errors[0] / errors[1] > 3
    assert errors[1] / errors[2] > 3


def test_levels_fall_from_80_to_0_through_0_002():
    levels = edm.noise_levels(18)
    assert levels[0] == pytest.approx(80)
    assert levels[-2] == pytest.approx(0.002)
    assert levels[-1] == 0
    assert (np.diff(levels) < 0).all()
    with pytest.raises(BadInput, match="steps"):
        replace(HeunConfig(), steps=1)
