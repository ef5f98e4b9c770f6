"""The discrete process and its guidance against closed forms."""

import math

import numpy as np
import pytest
import torch

from scots.models.ddpm import CosineProcess, climb, guided_sample

PROCESS = CosineProcess(20)


def test_the_schedule_is_the_cosine_one():
    """alpha-bar is a squared cosine except at its very end, where beta is cut off."""
    angle = (np.arange(1, 20) / 20 + 0.008) / 1.008 * math.pi / 2
    first = math.cos(0.008 / 1.008 * math.pi / 2)
    np.testing.assert_allclose(PROCESS.alpha[:19], np.cos(angle) / first, rtol=1e-5)
    np.testing.assert_allclose(PROCESS.alpha.square() + PROCESS.sigma.square(), np.ones(20), rtol=1e-6)
    assert PROCESS.alpha[-1] < 0.01


@pytest.mark.parametrize("step", [1, 5, 18])
def test_going_back_is_the_posterior_of_the_process(step: int):
    """x_{t-1} given x_t and x_0 by Bayes' rule on two Gaussians: the process up to t-1, and its step from there."""
    clean, noisy = 0.7, -0.4
    alpha, before = float(PROCESS.alpha[step]), float(PROCESS.alpha[step - 1])
    ratio = alpha / before  # x_t = ratio x_{t-1} + noise of variance 1 - ratio^2
    precision = 1 / (1 - before**2) + ratio**2 / (1 - ratio**2)
    mean = (before * clean / (1 - before**2) + ratio * noisy / (1 - ratio**2)) / precision
    drawn = [
        float(PROCESS.back(torch.tensor(clean), torch.tensor(noisy), step, torch.tensor(noise))) for noise in (0.0, 1.0)
    ]
    assert drawn[0] == pytest.approx(mean, abs=1e-4)
    assert drawn[1] - drawn[0] == pytest.approx(math.sqrt(1 / precision), abs=1e-4)


def test_the_last_step_returns_the_estimate():
    clean, noisy = torch.randn(2, 3, 4), torch.randn(2, 3, 4)
    torch.testing.assert_close(PROCESS.back(clean, noisy, 0, torch.ones(2, 3, 4)), clean)


def test_climbing_a_quadratic_value():
    """The gradient of -k/2 |x - c|^2 is k (c - x), so a climb of length l goes the share l k of the way."""
    start, goal = torch.randn(3, 4, 2), torch.tensor([0.5, -1.0])
    moved = climb(start, lambda windows, step: -3 / 2 * (windows - goal).square().sum((1, 2)), 7, 0.1)
    torch.testing.assert_close(moved, start + 0.1 * 3 * (goal - start))
    assert not moved.requires_grad


def test_guided_samples_of_a_gaussian():
    """Data of N(0, 1) and the exact denoiser alpha x_t; a linear value shifts the mean and leaves the deviation.

    All steps are linear, so mean and variance follow in closed form, step by step.
    """
    count, gradient, scale = 20_000, 1.5, 0.8

    def denoise(windows: torch.Tensor, step: int) -> torch.Tensor:
        return PROCESS.alpha[step] * windows

    def value(windows: torch.Tensor, step: int) -> torch.Tensor:
        return gradient * windows.sum((1, 2))

    generator = torch.Generator().manual_seed(0)

    def noise() -> torch.Tensor:
        return torch.randn((count, 1, 1), generator=generator)

    expected, variance = 0.0, 1.0
    for step in range(19, 0, -1):
        pushed = 2 * scale * float(PROCESS.variance[step]) * gradient if step >= 3 else 0.0
        gain = float(PROCESS.clean_weight[step] * PROCESS.alpha[step] + PROCESS.noisy_weight[step])
        expected = (expected + pushed) * gain
        variance = gain**2 * variance + float(PROCESS.variance[step])
    options = {"first": 19, "value": value, "scale": scale, "climbs": 2, "last_guided": 3}
    drawn = guided_sample(PROCESS, denoise, lambda windows: windows, noise(), noise, **options)
    assert float(drawn.mean()) == pytest.approx(expected, abs=0.03)
    plain = guided_sample(PROCESS, denoise, lambda windows: windows, noise(), noise, first=19)
    assert float(plain.mean()) == pytest.approx(0, abs=0.03)
    for samples in (plain, drawn):
        assert float(samples.std()) == pytest.approx(math.sqrt(variance), abs=0.02)


def test_what_is_clamped_stays_at_every_step():
    seen = []

    def clamp(windows: torch.Tensor) -> torch.Tensor:
        windows = windows.clone()
        windows[:, 0] = 7.0
        return windows

    def denoise(windows: torch.Tensor, step: int) -> torch.Tensor:
        seen.append(windows[:, 0].clone())
        return 0 * windows

    def value(windows: torch.Tensor, step: int) -> torch.Tensor:
        return windows.sum((1, 2))

    options = {"first": 4, "value": value, "scale": 1.0, "climbs": 3}
    noisy = guided_sample(PROCESS, denoise, clamp, torch.zeros(2, 3, 1), lambda: torch.ones(2, 3, 1), **options)
    assert all((values == 7).all() for values in [*seen, noisy[:, 0]])
    assert len(seen) == 4  # the last step is left to the caller
    assert (noisy[:, 1:] > 0).all()  # so there is still noise
