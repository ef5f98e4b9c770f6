"""The interval quasimetric: its axioms on any latents, and its fast form beside a loop over intervals."""

import math

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis.extra.numpy import arrays

from scots.models.nets import GoalRepresentation, IntervalQuasimetric, union_length

COMPONENT, LATENT = 3, 12
# Few distinct values: ties and touching intervals are common.
NUMBERS = st.one_of(st.integers(-4, 4).map(float), st.floats(-50, 50, width=32))
LATENTS = arrays(np.float64, LATENT, elements=NUMBERS)


def naive_union(start: list[float], end: list[float]) -> float:
    """The intervals merged one by one."""
    merged: list[list[float]] = []
    for low, high in sorted((a, b) for a, b in zip(start, end, strict=True) if a < b):
        if merged and low <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], high)
        else:
            merged.append([low, high])
    return math.fsum(high - low for low, high in merged)


def quasimetric(mix: float) -> IntervalQuasimetric:
    distance = IntervalQuasimetric(COMPONENT).double()
    torch.nn.init.constant_(distance.mix, mix)
    return distance


def d(x: np.ndarray, y: np.ndarray, mix: float = 0.3) -> float:
    with torch.no_grad():
        return quasimetric(mix)(torch.from_numpy(x), torch.from_numpy(y)).item()


@given(LATENTS, LATENTS)
def test_the_union_is_that_of_a_loop(x: np.ndarray, y: np.ndarray):
    assert union_length(torch.from_numpy(x), torch.from_numpy(y)).item() == pytest.approx(
        naive_union(x.tolist(), y.tolist()), rel=1e-12, abs=1e-12
    )


@given(LATENTS, LATENTS, st.floats(-3, 3))
def test_the_distance_mixes_mean_and_maximum_of_the_components(x: np.ndarray, y: np.ndarray, mix: float):
    parts = [naive_union(x[i : i + COMPONENT].tolist(), y[i : i + COMPONENT].tolist()) for i in range(0, LATENT, 3)]
    share = 1 / (1 + math.exp(-mix))
    assert d(x, y, mix) == pytest.approx(share * np.mean(parts) + (1 - share) * max(parts), rel=1e-9, abs=1e-9)


@given(LATENTS)
def test_nothing_is_away_from_itself(x: np.ndarray):
    assert d(x, x) == 0


@given(LATENTS, LATENTS)
def test_no_distance_is_negative_and_only_downhill_is_free(x: np.ndarray, y: np.ndarray):
    assert d(x, y) >= 0
    assert (d(x, y) == 0) == bool((x >= y).all())


@given(LATENTS, LATENTS, LATENTS)
def test_the_triangle_inequality(x: np.ndarray, y: np.ndarray, z: np.ndarray):
    assert d(x, z) <= d(x, y) + d(y, z) + 1e-9


@given(LATENTS, LATENTS)
def test_the_way_back_is_the_distance_of_the_mirrored_latents(x: np.ndarray, y: np.ndarray):
    """So distances differ by direction: from a latent that is nowhere lower, all of the way back costs something."""
    assert d(y, x) == pytest.approx(d(-x, -y), rel=1e-9, abs=1e-9)
    below = np.minimum(x, y) - 1
    assert d(x, below) == 0 < d(below, x)


def test_gradients_are_those_of_finite_differences():
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(5, LATENT, generator=generator, dtype=torch.float64, requires_grad=True) for _ in range(2))
    assert torch.autograd.gradcheck(quasimetric(0.3), (x, y))


def test_goal_representations_have_one_length():
    torch.manual_seed(0)
    representation = GoalRepresentation(4, (8,), 10)
    outputs = representation(torch.randn(50, 2), torch.randn(50, 2))
    torch.testing.assert_close(outputs.square().sum(-1), torch.full((50,), 10.0))
    raw = torch.randn(3, 10)
    torch.testing.assert_close(
        torch.nn.functional.cosine_similarity(representation.normalized(raw), raw), torch.ones(3)
    )
