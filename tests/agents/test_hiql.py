"""GCIVL and HIQL: losses against plain numpy, where their gradients go, subgoals, acting."""

from typing import Any

import numpy as np
import pytest
import torch
from plain_nets import STATES, arrays, forward, moved_by, random_agent, random_batch
from scipy.stats import norm

from scots.agents import AGENTS
from scots.agents.gcivl import GCIVLConfig
from scots.agents.hiql import HIQL, HIQLConfig
from scots.core.errors import BadInput
from scots.data.trajectories import GoalMix, Trajectories
from scots.datasets import toy
from scots.datasets.specs import SPECS

DATA = toy.make(episodes=20)
CONFIGS: dict[str, Any] = {
    "gcivl": GCIVLConfig(hidden=(5, 4), discount=0.9, expectile=0.8, alpha=1.5),
    "hiql": HIQLConfig(hidden=(5, 4), discount=0.9, expectile=0.8, high_alpha=1.5, low_alpha=0.7, representation=3),
}


def build(name: str) -> Any:
    return random_agent(name, CONFIGS[name], DATA)


def represented(model: Any, state: np.ndarray, goal: np.ndarray) -> np.ndarray:
    """HIQL's r(s, g): of length sqrt(3); GCIVL sees the goal itself."""
    if not isinstance(model, HIQL):
        return goal
    raw = forward(model.representation.net, state, goal)
    return raw / np.linalg.norm(raw, axis=1, keepdims=True) * np.sqrt(3)


def values(networks: Any, model: Any, state: np.ndarray, goal: np.ndarray) -> list[np.ndarray]:
    return [forward(value.net, state, represented(model, state, goal))[:, 0] for value in networks]


# ------------------------------------------------------------------------------------------------------------ losses


@pytest.mark.parametrize("name", CONFIGS)
def test_value_loss_is_the_expectile_td_error_of_each_value_on_its_own_target(name: str):
    model, batch = build(name), random_batch()
    for value, target in zip(model.values, model.targets.average, strict=True):  # targets of their own, near the values
        target.net[-1].weight.data = value.net[-1].weight.data * 0.9
        target.net[-1].bias.data -= 4.0
    state, following, goal = arrays(batch, "state", "next_state", "goal")
    reward, mask = np.array([0, 0, -1, -1, -1, -1]), np.array([0, 0, 1, 1, 1, 1])
    later = values(model.targets.average, model, following, goal)
    advantage = reward + 0.9 * mask * np.minimum(*later) - np.mean(values(model.targets.average, model, state, goal), 0)
    assert 0 < (advantage >= 0).mean() < 1
    weight = np.where(advantage >= 0, 0.8, 0.2)
    expected = sum(
        np.mean(weight * (reward + 0.9 * mask * own - value) ** 2)
        for own, value in zip(later, values(model.values, model, state, goal), strict=True)
    )
    assert model.value_loss(batch).item() == pytest.approx(expected, rel=1e-6)  # the weights are single precision


def awr(advantage: np.ndarray, output: np.ndarray, mean: np.ndarray, alpha: float) -> float:
    weight = np.minimum(np.exp(alpha * advantage), 100)
    return -np.mean(weight * norm.logpdf(output, loc=mean).sum(axis=1))


def mean_value(model: Any, state: np.ndarray, goal: np.ndarray) -> np.ndarray:
    return np.mean(values(model.values, model, state, goal), axis=0)


def test_gcivl_actor_loss_weighs_actions_by_their_advantage():
    model, batch = build("gcivl"), random_batch()
    state, following, goal, action = arrays(batch, "actor_state", "actor_next_state", "actor_goal", "actor_action")
    advantage = 12 * (mean_value(model, following, goal) - mean_value(model, state, goal))
    for value in model.values:
        value.net[-1].weight.data *= 12
    assert 0 < (1.5 * advantage > np.log(100)).mean() < 1  # some weights are capped
    expected = awr(advantage, action, forward(model.actor.net, state, goal), 1.5)
    assert model.actor_loss(batch).item() == pytest.approx(expected, rel=1e-6)


def test_hiql_low_actor_loss_weighs_actions_by_their_advantage_towards_the_subgoal():
    model, batch = build("hiql"), random_batch()
    state, following, goal, action = arrays(batch, "actor_state", "actor_next_state", "low_goal", "actor_action")
    advantage = mean_value(model, following, goal) - mean_value(model, state, goal)
    mean = forward(model.low_actor.net, state, represented(model, state, goal))
    assert model.low_actor_loss(batch).item() == pytest.approx(awr(advantage, action, mean, 0.7), rel=1e-6)


def test_hiql_high_actor_loss_weighs_subgoals_by_their_advantage_towards_the_goal():
    model, batch = build("hiql"), random_batch()
    state, subgoal, goal = arrays(batch, "actor_state", "subgoal", "actor_goal")
    advantage = mean_value(model, subgoal, goal) - mean_value(model, state, goal)
    mean, output = forward(model.high_actor.net, state, goal), represented(model, state, subgoal)
    assert model.high_actor_loss(batch).item() == pytest.approx(awr(advantage, output, mean, 1.5), rel=1e-6)


@pytest.mark.parametrize(
    ("name", "loss", "moved"),
    [
        ("gcivl", "value_loss", {"values"}),
        ("gcivl", "actor_loss", {"actor"}),
        ("hiql", "value_loss", {"values", "representation"}),  # the representation learns from the values alone
        ("hiql", "low_actor_loss", {"low_actor"}),
        ("hiql", "high_actor_loss", {"high_actor"}),
    ],
)
def test_each_loss_moves_its_own_networks_only(name: str, loss: str, moved: set[str]):
    model = build(name)
    assert moved_by(model, getattr(model, loss)(random_batch())) == moved


@pytest.mark.parametrize("name", CONFIGS)
def test_the_loss_is_the_sum_of_all_on_scaled_states(name: str):
    model, batch = build(name), random_batch()
    model.scale.mean.fill_(0.5)
    model.scale.std.fill_(2.0)
    scaled = {key: (entries - 0.5) / 2 if key in STATES else entries for key, entries in batch.items()}
    total, parts = model.loss(batch, torch.Generator())
    assert total.item() == pytest.approx(sum(getattr(model, f"{part}_loss")(scaled).item() for part in parts))


def test_only_the_values_of_hiql_have_a_lagging_copy():
    [(targets, source)] = build("hiql").ema_copies()
    assert [name for name, _ in source.named_parameters()] == [name for name, _ in targets.average.named_parameters()]
    assert not any("representation" in name for name, _ in targets.named_parameters())


# ----------------------------------------------------------------------------------------------------- subgoals, acting


def numbered(episodes: int = 30, states: int = 12) -> Trajectories:
    """Rows that tell episode and time."""
    episode, time = np.divmod(np.arange(episodes * states), states)
    rows = np.stack([episode, time], axis=1)
    return Trajectories(rows, np.arange(0, episodes * states + 1, states), actions=rows)


def drawn(random: float) -> dict[str, np.ndarray]:
    data = numbered()
    mix = GoalMix(0.0, 1 - random, random, geometric=False)
    model = HIQL.for_data(HIQLConfig(hidden=(4,), subgoal_steps=4, actor_goals=mix), data)
    batch = model.batch(data, 5000, np.random.default_rng(0))
    assert torch.equal(batch["state"], batch["actor_state"])
    return {name: entries.numpy() for name, entries in batch.items()}


def test_the_low_level_heads_for_the_state_k_steps_ahead():
    batch = drawn(0.5)
    episode, time = batch["state"].T
    assert np.array_equal(batch["low_goal"], np.stack([episode, np.minimum(time + 4, 11)], axis=1))
    assert np.array_equal(batch["actor_next_state"], batch["state"] + [0, 1])


def test_subgoals_of_trajectory_goals_do_not_pass_them():
    batch = drawn(random=0.0)
    assert np.array_equal(batch["actor_goal"][:, 0], batch["state"][:, 0])
    ahead = batch["actor_goal"][:, 1] - batch["state"][:, 1]
    assert ahead.min() == 1
    assert np.array_equal(batch["subgoal"][:, 1] - batch["state"][:, 1], np.minimum(ahead, 4))


def test_subgoals_of_random_goals_are_where_the_trajectory_went():
    batch = drawn(random=1.0)
    assert np.mean(batch["actor_goal"][:, 0] == batch["state"][:, 0]) < 0.1
    assert np.array_equal(batch["subgoal"], batch["low_goal"])


def test_acting_feeds_the_mean_subgoal_at_its_proper_length_to_the_low_level():
    model = build("hiql")
    states, goals = np.random.default_rng(0).normal(size=(2, 20, 2)).astype(np.float32)
    subgoal = forward(model.high_actor.net, states, goals)
    subgoal *= np.sqrt(3) / np.linalg.norm(subgoal, axis=1, keepdims=True)
    expected = np.clip(forward(model.low_actor.net, states, subgoal), -1, 1)
    assert 0 < (np.abs(expected) == 1).mean() < 1
    actions = model.float().act(states, goals, np.random.default_rng(0))
    np.testing.assert_allclose(actions, expected, atol=1e-4)


# ---------------------------------------------------------------------------------------------------------- settings


@pytest.mark.parametrize(
    "dataset", ["pointmaze-giant-stitch-v0", "antmaze-large-stitch-v0", "antmaze-large-explore-v0"]
)
def test_published_settings(dataset: str):
    hiql, gcivl = (AGENTS[name].configure(SPECS[dataset], "paper") for name in ("hiql", "gcivl"))
    alpha = 10.0 if "explore" in dataset else 3.0
    assert (hiql.high_alpha, hiql.low_alpha, hiql.subgoal_steps, hiql.representation) == (alpha, alpha, 25, 10)
    assert (hiql.expectile, gcivl.expectile, gcivl.alpha) == (0.7, 0.9, 10.0)
    for config in (hiql, gcivl):
        random = 1.0 if "explore" in dataset else 0.5
        assert config.discount == (0.995 if "giant" in dataset else 0.99)
        assert config.actor_goals == GoalMix(0.0, 1 - random, random, geometric=False)
        assert config.value_goals == GoalMix(0.2, 0.5, 0.3)


def test_impossible_settings_are_refused():
    for changes in ({"subgoal_steps": 0}, {"expectile": 0.3}, {"actor_goals": GoalMix(0.5, 0.5, 0.0)}):
        with pytest.raises(BadInput):
            HIQLConfig(**changes)
    with pytest.raises(BadInput, match="discount"):
        GCIVLConfig(discount=1.0)
