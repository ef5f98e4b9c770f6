"""QRL: losses against plain numpy, where their gradients go, the multiplier and its rate."""

from typing import Any

import numpy as np
import pytest
import torch
from plain_nets import STATES, arrays, forward, moved_by, random_agent, random_batch
from scipy.stats import norm

from scots.agents import AGENTS
from scots.agents.qrl import QRLConfig
from scots.core.errors import BadInput
from scots.datasets import toy
from scots.datasets.specs import SPECS

DATA = toy.make(episodes=20)
CONFIG = QRLConfig(hidden=(5, 4), latent=6, component=3, margin=0.1, alpha=0.3, dual_rate=7.0)


def build() -> Any:
    return random_agent("qrl", CONFIG, DATA)


def distance(model: Any, start: np.ndarray, goal: np.ndarray) -> np.ndarray:
    """Union of intervals on a fine grid, component by component."""
    grid = np.linspace(-40, 40, 400_001)
    inside = np.zeros((len(start), 2))
    for row in range(len(start)):
        for component in range(2):
            columns = range(3 * component, 3 * component + 3)
            covered = np.zeros(len(grid), dtype=bool)
            for k in columns:
                covered |= (grid > start[row, k]) & (grid < goal[row, k])
            inside[row, component] = covered.sum() * (grid[1] - grid[0])
    share = 1 / (1 + np.exp(-model.quasimetric.mix.item()))
    return share * inside.mean(axis=1) + (1 - share) * inside.max(axis=1)


def encoded(model: Any, batch: dict[str, torch.Tensor], *names: str) -> list[np.ndarray]:
    return [forward(model.encoder, values) for values in arrays(batch, *names)]


def test_value_loss_pushes_distances_up_and_prices_steps_that_are_too_long():
    model = build()
    batch = random_batch()
    state, following, goal = encoded(model, batch, "state", "next_state", "goal")
    push = np.mean(100 * np.log1p(np.exp(5 - distance(model, state, goal) / 100)))
    violation = np.mean(np.maximum(distance(model, state, following) - 1, 0) ** 2)
    multiplier = np.exp(model.log_multiplier.item())
    assert violation > 0.1
    expected = push + multiplier * violation + multiplier * (0.1 - violation)
    assert model.value_loss(model._with_latents(batch)).item() == pytest.approx(expected, rel=1e-4)


def test_the_multiplier_rises_while_the_constraint_is_violated_and_falls_otherwise():
    for step, sign in ((3.0, -1), (0.0, 1)):  # gradients are descended
        model = build()
        batch = random_batch() | {name: torch.zeros(6, 6, dtype=torch.float64) for name in ("latent", "goal_latent")}
        model.value_loss(batch | {"next_latent": torch.full((6, 6), step, dtype=torch.float64)}).backward()
        violation = max(step - 1, 0) ** 2
        expected = np.exp(model.log_multiplier.item()) * (0.1 - violation)
        assert model.log_multiplier.grad.item() == pytest.approx(expected)
        assert np.sign(expected) == sign


def test_dynamics_loss_is_the_mean_distance_both_ways():
    model, batch = build(), random_batch()
    state, following = encoded(model, batch, "state", "next_state")
    predicted = state + forward(model.dynamics, state, batch["action"].numpy())
    expected = np.mean(distance(model, predicted, following) + distance(model, following, predicted)) / 2
    assert model.dynamics_loss(model._with_latents(batch)).item() == pytest.approx(expected, rel=1e-3)


def test_actor_loss_is_ddpg_with_behaviour_cloning_through_the_dynamics():
    model, batch = build(), random_batch()
    state, goal, action = arrays(batch, "actor_state", "actor_goal", "actor_action")
    mean = forward(model.actor.net, state, goal)
    assert 0 < (np.abs(mean) > 1).mean() < 1  # some actions are clipped
    latent = forward(model.encoder, state)
    following = latent + forward(model.dynamics, latent, np.clip(mean, -1, 1))
    q = -distance(model, following, forward(model.encoder, goal))
    expected = -q.mean() / (np.abs(q).mean() + 1e-6) - 0.3 * norm.logpdf(action, loc=mean).sum(axis=1).mean()
    assert model.actor_loss(batch).item() == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(
    ("loss", "moved"),
    [
        ("value_loss", {"encoder", "quasimetric", "log_multiplier"}),
        ("dynamics_loss", {"encoder", "quasimetric", "dynamics"}),  # it shapes the latents too
        ("actor_loss", {"actor"}),
    ],
)
def test_where_gradients_go(loss: str, moved: set[str]):
    model = build()
    assert moved_by(model, getattr(model, loss)(model._with_latents(random_batch()))) == moved


def test_the_loss_is_the_sum_of_all_on_scaled_states():
    model, batch = build(), random_batch()
    model.scale.mean.fill_(0.5)
    model.scale.std.fill_(2.0)
    scaled = model._with_latents({key: (v - 0.5) / 2 if key in STATES else v for key, v in batch.items()})
    losses = ("value", "dynamics", "actor")
    assert model.loss(batch, torch.Generator())[0].item() == pytest.approx(
        sum(getattr(model, f"{name}_loss")(scaled).item() for name in losses)
    )


def test_the_multiplier_has_its_own_rate_and_all_parameters_are_trained():
    model = build()
    (others, rate), (own, own_rate) = model.parameter_groups()
    assert (rate, own_rate) == (1.0, 7.0)
    assert own == [model.log_multiplier]
    assert len(others) + 1 == len(list(model.parameters()))


@pytest.mark.parametrize(
    ("dataset", "alpha"),
    [
        ("pointmaze-large-stitch-v0", 0.0003),
        ("antmaze-giant-stitch-v0", 0.003),
        ("antmaze-medium-explore-v0", 0.001),
    ],
)
def test_published_settings(dataset: str, alpha: float):
    config = AGENTS["qrl"].configure(SPECS[dataset], "paper")
    assert (config.alpha, config.latent, config.component, config.margin) == (alpha, 512, 8, 0.05)
    assert (config.dual_rate, config.value_goals.random) == (1.0, 1.0)
    assert AGENTS["qrl"].configure(SPECS[dataset], "laptop").dual_rate > 1


def test_impossible_settings_are_refused():
    for changes in ({"latent": 10, "component": 3}, {"margin": 0.0}, {"dual_rate": 0.0}):
        with pytest.raises(BadInput):
            QRLConfig(**changes)
