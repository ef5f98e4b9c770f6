"""The diffusion process, its conversions and its solvers against closed forms."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from scots.models import diffusion
from scots.models.diffusion import SamplingConfig


def test_schedule_check_values():
    alpha, sigma = diffusion.alpha_sigma(torch.tensor([0.001, 0.25, 0.5, 1.0], dtype=torch.float64))
    np.testing.assert_allclose(alpha, [0.99995, 0.7237, 0.2812, 0.00657], rtol=2e-3)
    np.testing.assert_allclose(sigma, [0.0105, 0.6902, 0.9597, 0.99998], rtol=5e-3)
    np.testing.assert_allclose(alpha**2 + sigma**2, 1)


@given(st.integers(0, 2**31), st.sampled_from(["eps", "x0", "v"]))
def test_every_prediction_recovers_the_clean_sequence(seed: int, kind: diffusion.Prediction):
    generator = torch.Generator().manual_seed(seed)
    clean, noise = torch.randn(2, 5, 4, 3, generator=generator, dtype=torch.float64)
    time = diffusion.draw_times(5, generator).double()
    output = diffusion.target(kind, clean, time, noise)
    recovered = diffusion.to_clean(kind, output, diffusion.noised(clean, time, noise), time)
    torch.testing.assert_close(recovered, clean, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("order", [1, 2])
def test_point_mass_is_sampled_up_to_the_remaining_noise(order):
    """The exact denoiser of a single sequence always returns it, so every solver must end there."""
    point = torch.randn(1, 6, 2, dtype=torch.float64)
    no_mask = torch.zeros(6, 1, dtype=torch.bool)
    config = SamplingConfig(steps=5, order=order, temperature=1.0)
    sampled = diffusion.sample(
        lambda x, t: point.expand_as(x), torch.zeros(8, 6, 2, dtype=torch.float64), no_mask, config, torch.Generator()
    )
    alpha, sigma = diffusion.alpha_sigma(torch.tensor(diffusion.FIRST_TIME, dtype=torch.float64))
    assert (sampled - alpha * point).abs().max() < 5 * sigma


def gaussian_error(steps: int, order: int) -> float:
    """Error of the solver on data N(0, deviation^2), where the exact flow scales noise with the spread of x_t."""
    deviation = 0.3

    def denoise(sequence, time):
        alpha, sigma = diffusion.alpha_sigma(time)
        gain = alpha * deviation**2 / (alpha**2 * deviation**2 + sigma**2)
        return gain[:, None, None] * sequence

    config = SamplingConfig(steps=steps, order=order, temperature=1.0)
    shape, no_mask = (4, 3, 2), torch.zeros(3, 1, dtype=torch.bool)
    sampled = diffusion.sample(
        denoise, torch.zeros(shape, dtype=torch.float64), no_mask, config, torch.Generator().manual_seed(0)
    )
    noise = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def spread(time: float) -> float:
        alpha, sigma = (float(level) for level in diffusion.alpha_sigma(torch.tensor(time, dtype=torch.float64)))
        return math.sqrt(alpha**2 * deviation**2 + sigma**2)

    exact = noise * spread(diffusion.FIRST_TIME) / spread(1.0)
    if order == 2:  # returns the clean estimate
        exact = denoise(exact, torch.full((4,), diffusion.FIRST_TIME, dtype=torch.float64))
    return float((sampled - exact).abs().max())


def test_solvers_converge_at_their_order():
    first, second = ([gaussian_error(steps, order) for steps in (40, 80, 160)] for order in (1, 2))
    assert first[0] / first[1] == pytest.approx(2, rel=0.15)
    assert first[1] / first[2] == pytest.approx(2, rel=0.15)
    assert second[0] / second[1] == pytest.approx(4, rel=0.25)
    assert second[1] / second[2] == pytest.approx(4, rel=0.25)


def test_eight_second_order_steps_beat_twenty_ddim_steps():
    assert gaussian_error(8, 2) < gaussian_error(20, 1) / 4


@pytest.mark.parametrize("order", [1, 2])
def test_time_grids_run_from_noise_to_data(order):
    grid = diffusion.time_grid(SamplingConfig(steps=20, order=order))
    assert len(grid) == {1: 21, 2: 20}[order]  # the second-order solver ends with the clean estimate instead of a step
    assert (grid.diff() < 0).all()
    assert grid[0].item() == pytest.approx(1)
    assert grid[-1].item() == pytest.approx(diffusion.FIRST_TIME)


def test_ddim_step_is_the_textbook_formula():
    """One sampling step equals a' x0 + s' eps, with eps computed from the current sequence."""
    generator = torch.Generator().manual_seed(1)
    fixed, no_mask = torch.zeros(2, 3, 1, dtype=torch.float64), torch.zeros(3, 1, dtype=torch.bool)
    calls = []

    def denoise(sequence, time):
        calls.append((sequence, time))
        return torch.sin(sequence)

    sampled = diffusion.sample(denoise, fixed, no_mask, SamplingConfig(steps=1, temperature=0.5), generator)
    sequence, time = calls[0]
    assert float(time[0]) == 1.0
    alpha, sigma = diffusion.alpha_sigma(time.double())
    next_alpha, next_sigma = diffusion.alpha_sigma(torch.tensor(diffusion.FIRST_TIME, dtype=torch.float64))
    eps = (sequence - alpha[0] * torch.sin(sequence)) / sigma[0]
    torch.testing.assert_close(sampled, next_alpha * torch.sin(sequence) + next_sigma * eps)


def test_ddim_calls_the_network_at_uniform_times():
    times = []

    def denoise(sequence, time):
        times.append(float(time[0]))
        return sequence

    diffusion.sample(
        denoise, torch.zeros(1, 3, 1), torch.zeros(3, 1, dtype=torch.bool), SamplingConfig(steps=20), torch.Generator()
    )
    assert len(times) == 20
    assert times[0] == 1.0
    assert times[-1] == pytest.approx(0.05095)


@given(st.integers(0, 2**31), st.integers(2, 8), st.sampled_from([1, 2]))
def test_clamped_entries_are_bit_equal_at_every_step(seed: int, tokens: int, order):
    generator = torch.Generator().manual_seed(seed)
    fixed, mask = torch.randn(3, tokens, 2, generator=generator), diffusion.ends_mask(tokens)
    ends = fixed[:, [0, -1]].clone()

    def denoise(sequence, time):
        assert torch.equal(sequence[:, [0, -1]], ends)
        return torch.tanh(sequence)

    sampled = diffusion.sample(denoise, fixed, mask, SamplingConfig(steps=6, order=order), generator)
    assert torch.equal(sampled[:, [0, -1]], ends)


@given(st.integers(1, 9), st.integers(0, 2**31))
def test_hold_repeats_one_state(tokens: int, seed: int):
    generator = torch.Generator().manual_seed(seed)
    sequence = torch.randn(4, tokens, 2, generator=generator)
    last = torch.randint(tokens, (4,), generator=generator)
    held = diffusion.hold_after(sequence, last)
    for row, stop in enumerate(last.tolist()):
        assert torch.equal(held[row, : stop + 1], sequence[row, : stop + 1])
        assert (held[row, stop:] == sequence[row, stop]).all()


# ------------------------------------------------------------------------------------------------------ cosine schedule


def test_the_cosine_schedule_is_that_of_512_discrete_steps():
    """The product of 1 - beta, each beta clipped at 0.999, as Compositional Diffuser computes it."""
    levels = [math.cos((n / 512 + 0.008) / 1.008 * math.pi / 2) ** 2 for n in range(513)]
    betas = [min(0.999, 1 - after / before) for before, after in pairwise(levels)]
    discrete = np.sqrt(np.cumprod(1 - np.array(betas)))
    alpha, sigma = diffusion.alpha_sigma(torch.arange(1, 513, dtype=torch.float64) / 512, "cosine")
    np.testing.assert_allclose(alpha[:-1], discrete[:-1], rtol=1e-9)
    assert alpha[-1].item() == pytest.approx(1e-3)  # at time 1, where the clipped product has 0.0001
    np.testing.assert_allclose(alpha**2 + sigma**2, 1)


@given(st.integers(0, 2**31), st.sampled_from(["eps", "x0", "v"]))
def test_every_prediction_recovers_the_clean_sequence_under_the_cosine_schedule(seed: int, kind: diffusion.Prediction):
    generator = torch.Generator().manual_seed(seed)
    clean, noise = torch.randn(2, 5, 4, 3, generator=generator, dtype=torch.float64)
    time = diffusion.draw_times(5, generator).double()
    output = diffusion.target(kind, clean, time, noise, "cosine")
    noisy = diffusion.noised(clean, time, noise, "cosine")
    recovered = diffusion.to_clean(kind, output, noisy, time, "cosine")
    torch.testing.assert_close(recovered, clean, rtol=1e-6, atol=1e-6)


def test_cosine_solvers_run_at_the_published_times_and_end_clean():
    labels = [round(512 * step.time) - 1 for step in diffusion.solver_steps(SamplingConfig(steps=50), "cosine")]
    assert labels == list(range(490, -1, -10))
    for order in (1, 2):
        grid = diffusion.time_grid(SamplingConfig(steps=9, order=order), "cosine")
        assert grid[[0, -1]].tolist() == pytest.approx([491 / 512, 1 / 512])
        assert (grid.diff() < 0).all()
        last = diffusion.solver_steps(SamplingConfig(steps=9, order=order), "cosine")[-1]
        assert (last.decay, last.gain, last.extrapolation) == (0.0, 1.0, 0.0)
    alpha, sigma = diffusion.alpha_sigma(grid, "cosine")
    steps = (alpha / sigma).log().diff()
    torch.testing.assert_close(steps, steps.mean().expand_as(steps))


@pytest.mark.parametrize("eta", [0.0, 0.5, 1.0])
def test_eta_takes_the_variance_of_a_stochastic_step_out_of_the_noise(eta: float):
    """Against the formula of DDIM (Song et al., 2021, Eq. 12) without its random term."""
    generator = torch.Generator().manual_seed(0)
    sequence, clean = torch.randn(2, 2, 3, 1, generator=generator, dtype=torch.float64)
    steps = diffusion.solver_steps(SamplingConfig(steps=6), "cosine", eta)
    for step, following in pairwise(steps):
        (alpha, sigma), (next_alpha, next_sigma) = (
            [float(level) for level in diffusion.alpha_sigma(torch.tensor(own.time, dtype=torch.float64), "cosine")]
            for own in (step, following)
        )
        random = eta * next_sigma / sigma * math.sqrt(1 - alpha**2 / next_alpha**2)
        eps = (sequence - alpha * clean) / sigma
        expected = next_alpha * clean + math.sqrt(next_sigma**2 - random**2) * eps
        torch.testing.assert_close(step.advance(sequence, clean, clean), expected)
