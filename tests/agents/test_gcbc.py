"""Imitation towards nearby positions: which goals are drawn, what the actor sees of them, and its loss."""

from typing import Any

import numpy as np
import pytest
import torch

from scots.agents import AGENTS
from scots.agents.gcbc import GCBC, GCBCConfig
from scots.core.errors import BadInput
from scots.data.trajectories import Meta, Trajectories
from scots.datasets.specs import SPECS

EPISODES, STATES = 30, 12


def numbered(angles: tuple[tuple[int, float], ...] = ()) -> Trajectories:
    """Rows that tell episode and time: (noise, time, episode); the position is the last two columns."""
    episode, time = np.divmod(np.arange(EPISODES * STATES), STATES)
    observations = np.stack([np.random.default_rng(0).normal(size=len(time)), time, episode], axis=1)
    offsets, meta = np.arange(0, EPISODES * STATES + 1, STATES), Meta(position=(1, 2), angles=angles)
    return Trajectories(observations, offsets, actions=observations[:, :2] / STATES, meta=meta)


def build(data: Trajectories, **settings: Any) -> GCBC:
    torch.manual_seed(0)
    return GCBC.for_data(GCBCConfig(hidden=(8,), **settings), data)


def test_goals_are_up_to_the_horizon_ahead_in_the_same_episode():
    batch = build(numbered(), horizon=4).batch(numbered(), 20_000, np.random.default_rng(0))
    state, goal = batch["state"].numpy(), batch["goal"].numpy()
    assert np.array_equal(state[:, 2], goal[:, 2])
    ahead, left = goal[:, 1] - state[:, 1], STATES - 1 - state[:, 1]
    for remaining in range(1, STATES):
        steps, counts = np.unique(ahead[left == remaining], return_counts=True)
        assert steps.tolist() == list(range(1, min(4, remaining) + 1))
        assert counts.min() / counts.max() > 0.8  # uniform


def test_the_loss_is_the_squared_error_of_the_action_towards_the_relative_position():
    data = numbered()
    model = build(data, normalize=False)
    batch = model.batch(data, 7, np.random.default_rng(0))
    state, goal, action = (batch[name].numpy() for name in ("state", "goal", "action"))
    inputs = np.concatenate([state[:, :1], goal[:, 1:] - state[:, 1:]], axis=1)
    expected = np.mean((model.actor(torch.from_numpy(inputs)).detach().numpy() - action) ** 2)
    loss, metrics = model.loss(batch, torch.Generator())
    assert loss.item() == metrics["actor"].item() == pytest.approx(expected, rel=1e-6)


def test_it_does_the_same_everywhere_and_sees_the_position_of_goals_only():
    model, rng = build(numbered()), np.random.default_rng(0)
    states, goals = rng.normal(size=(2, 50, 3))
    actions = model.act(states, goals, rng)
    moved, body = np.array([0.0, 64.0, -32.0]), np.array([1.0, 0.0, 0.0])
    np.testing.assert_allclose(model.act(states + moved, goals + moved, rng), actions, atol=1e-4)
    assert np.array_equal(model.act(states, goals + body, rng), actions)
    assert np.abs(model.act(states + body, goals, rng) - actions).max() > 1e-3  # its own body does matter


def test_inputs_are_scaled_as_relative_goals_are_spread():
    data = numbered()
    model = build(data, horizon=1)
    assert model.scale.mean[1:].tolist() == [1.0, 0.0]  # every goal is one step of time ahead, in the same episode
    assert model.scale.std[1:].tolist() == [1.0, 1.0]  # and constant columns are only centred
    assert model.scale.std[0].item() == pytest.approx(data.observations[:, 0].std(), rel=0.05)


def test_a_position_that_is_an_angle_is_compared_the_short_way_round():
    model, rng = build(numbered(angles=((2, 360.0),))), np.random.default_rng(0)
    ahead = model.act(np.array([[0.0, 0.0, 350.0]]), np.array([[0.0, 1.0, 10.0]]), rng)
    np.testing.assert_allclose(
        ahead, model.act(np.array([[0.0, 0.0, 0.0]]), np.array([[0.0, 1.0, 20.0]]), rng), atol=1e-5
    )


def test_settings():
    assert AGENTS["gcbc"].configure(SPECS["antmaze-giant-stitch-v0"], "laptop").horizon == 25
    assert AGENTS["gcbc"].configure(SPECS["antmaze-large-explore-v0"], "laptop").horizon == 10
    assert AGENTS["gcbc"].configure(SPECS["antmaze-large-explore-v0"], "laptop").hidden == (256, 256, 256)
    with pytest.raises(BadInput, match="horizon 0"):
        GCBCConfig(horizon=0)
    data = numbered()
    with pytest.raises(BadInput, match="--position"):
        GCBC.for_data(GCBCConfig(), data.with_meta(position=()))
