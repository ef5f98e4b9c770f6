"""The agents' losses against the formulas in plain numpy, where their gradients go, batches, acting and settings."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from plain_nets import STATES, arrays, forward, moved_by, random_agent, random_batch
from scipy.stats import norm
from torch import nn

from scots.agents import AGENTS
from scots.agents.base import Policy
from scots.agents.crl import CRL, CRLConfig
from scots.agents.gciql import GCIQL, GCIQLConfig
from scots.core.errors import BadInput
from scots.data.trajectories import GoalMix
from scots.datasets import toy
from scots.datasets.specs import SPECS
from scots.envs.toy import STEPS_PER_CELL
from scots.models.nets import Bilinear, GaussianActor, frozen, log_density

DATA = toy.make(episodes=20)
CONFIGS: dict[str, Any] = {
    "gciql": GCIQLConfig(hidden=(5, 4), discount=0.9, expectile=0.8, alpha=0.3),
    "crl": CRLConfig(hidden=(5, 4), discount=0.9, alpha=0.3),
}


def build(name: str) -> Any:
    return random_agent(name, CONFIGS[name], DATA)


# ------------------------------------------------------------------------------------------------------------ losses


def test_gciql_value_loss_is_the_expectile_regression_on_the_lower_target():
    model, batch = build("gciql"), random_batch()
    model.value.net[-1].bias.data -= 1.5  # values amid the targets: both sides of the expectile are at work
    state, goal, action = arrays(batch, "state", "goal", "action")
    lower = np.minimum(*(forward(critic.net, state, goal, action)[:, 0] for critic in model.targets.average))
    gap = lower - forward(model.value.net, state, goal)[:, 0]
    assert 0 < (gap >= 0).mean() < 1
    expected = np.mean(np.where(gap >= 0, 0.8, 0.2) * gap**2)
    assert model.value_loss(batch).item() == pytest.approx(expected, rel=1e-7)  # the weights are single precision


def test_gciql_critic_loss_is_the_sum_of_both_td_errors():
    model, batch = build("gciql"), random_batch()
    state, following, goal, action = arrays(batch, "state", "next_state", "goal", "action")
    reward = np.array([0, 0, -1, -1, -1, -1])
    mask = np.array([0, 0, 1, 1, 1, 1])
    target = reward + 0.9 * mask * forward(model.value.net, following, goal)[:, 0]
    errors = [forward(critic.net, state, goal, action)[:, 0] - target for critic in model.critics]
    expected = np.mean(errors[0] ** 2 + errors[1] ** 2)
    assert model.critic_loss(batch).item() == pytest.approx(expected, rel=1e-9)


def test_crl_critic_loss_is_the_binary_cross_entropy_of_all_pairs():
    model, batch = build("crl"), random_batch()
    state, goal, action = arrays(batch, "state", "goal", "action")
    terms = []
    for phi, psi in zip(model.critics.phi, model.critics.psi, strict=True):
        left, right = forward(phi, state, action), forward(psi, goal)
        for i in range(6):
            for j in range(6):
                chance = 1 / (1 + np.exp(-left[i] @ right[j] / np.sqrt(4)))
                terms.append(-np.log(chance if i == j else 1 - chance))
    assert model.critic_loss(batch).item() == pytest.approx(np.mean(terms), rel=1e-9)


def lower_critic(model: Any, state: np.ndarray, goal: np.ndarray, action: np.ndarray) -> np.ndarray:
    if isinstance(model, GCIQL):
        return np.minimum(*(forward(critic.net, state, goal, action)[:, 0] for critic in model.critics))
    pairs = zip(model.critics.phi, model.critics.psi, strict=True)
    return np.minimum(*((forward(phi, state, action) * forward(psi, goal)).sum(axis=1) / 2 for phi, psi in pairs))


def actor_loss(model: Any, batch: dict[str, torch.Tensor], size: float | None = None) -> float:
    """DDPG+BC in numpy, the mean size of the critic's values given or measured."""
    state, goal, action = arrays(batch, "actor_state", "actor_goal", "actor_action")
    mean = forward(model.actor.net, state, goal)
    q = lower_critic(model, state, goal, np.clip(mean, -1, 1))
    likelihood = norm.logpdf(action, loc=mean).sum(axis=1)
    return -q.mean() / (size or np.abs(q).mean() + 1e-6) - 0.3 * likelihood.mean()


@pytest.mark.parametrize("name", CONFIGS)
def test_actor_loss_is_ddpg_with_behaviour_cloning(name: str):
    model, batch = build(name), random_batch()
    mean = model.actor(batch["actor_state"], batch["actor_goal"])
    assert 0 < (mean.abs() > 1).double().mean() < 1  # some actions are clipped
    assert model.actor_loss(batch).item() == pytest.approx(actor_loss(model, batch), rel=1e-9)


@pytest.mark.parametrize("name", CONFIGS)
def test_the_size_of_the_critic_is_a_constant_to_the_actor(name: str):
    """The gradient is that of the loss with its denominator held: otherwise it would cancel where all values agree."""
    model, batch = build(name), random_batch()
    state, goal = arrays(batch, "actor_state", "actor_goal")
    mean = np.clip(forward(model.actor.net, state, goal), -1, 1)
    size = np.abs(lower_critic(model, state, goal, mean)).mean() + 1e-6
    model.actor_loss(batch).backward()
    bias = model.actor.net[-1].bias
    for column in range(2):
        around = []
        for change in (1e-6, -1e-6):
            with torch.no_grad():
                bias[column] += change
            around.append(actor_loss(model, batch, size))
            with torch.no_grad():
                bias[column] -= change
        assert bias.grad[column].item() == pytest.approx((around[0] - around[1]) / 2e-6, rel=1e-5)


@pytest.mark.parametrize(
    ("name", "loss", "moved"),
    [
        ("gciql", "value_loss", {"value"}),
        ("gciql", "critic_loss", {"critics"}),
        ("gciql", "actor_loss", {"actor"}),
        ("crl", "critic_loss", {"critics"}),
        ("crl", "actor_loss", {"actor"}),
    ],
)
def test_each_loss_moves_its_own_network_only(name: str, loss: str, moved: set[str]):
    model = build(name)
    assert moved_by(model, getattr(model, loss)(random_batch())) == moved


@pytest.mark.parametrize("name", CONFIGS)
def test_the_loss_is_the_sum_of_all_on_scaled_states(name: str):
    model, batch = build(name), random_batch()
    model.scale.mean.fill_(0.5)
    model.scale.std.fill_(2.0)
    scaled = {key: (values - 0.5) / 2 if key in STATES else values for key, values in batch.items()}
    total, parts = model.loss(batch, torch.Generator())
    assert total.item() == pytest.approx(sum(getattr(model, f"{part}_loss")(scaled).item() for part in parts))


# ----------------------------------------------------------------------------------------------- batches and acting


@pytest.mark.parametrize("name", CONFIGS)
def test_batches_hold_transitions_of_the_world(name: str):
    """Every recorded action leads on: the last row of an episode, which has no successor, is never drawn."""
    batch = build(name).batch(DATA, 400, np.random.default_rng(0))
    rows = {tuple(row): n for n, row in enumerate(DATA.actions)}
    drawn = np.array([rows[tuple(action)] for action in batch["action"].numpy()])
    assert (drawn < DATA.last_row_of(drawn)).all()
    assert np.array_equal(batch["state"].numpy(), DATA.observations[drawn])
    if name == "gciql":
        assert np.array_equal(batch["next_state"].numpy(), DATA.observations[drawn + 1])


def test_goals_of_the_batches():
    model = GCIQL.for_data(GCIQLConfig(hidden=(4,)), DATA)
    batch = model.batch(DATA, 4000, np.random.default_rng(0))
    assert batch["arrived"].float().mean() == pytest.approx(0.2, abs=0.03)  # and rarely one drawn by chance
    assert (batch["goal"] == batch["state"])[batch["arrived"]].all()
    contrastive = CRL.for_data(CRLConfig(hidden=(4,), discount=0.5), DATA)
    batch = contrastive.batch(DATA, 4000, np.random.default_rng(0))
    apart = (batch["goal"] - batch["state"]).abs().sum(1) * STEPS_PER_CELL
    assert apart.mean() < 2  # two steps later on average, and half of the steps wait
    assert (batch["actor_goal"] - batch["state"]).abs().sum(1).mean() * STEPS_PER_CELL > 6


@pytest.mark.parametrize("name", CONFIGS)
def test_acting_clips_the_mean_and_does_not_squash_it(name: str):
    model: Any = build(name).float()
    with torch.no_grad():
        model.actor.net[-1].weight.zero_()
        model.actor.net[-1].bias.copy_(torch.tensor([0.9, -3.0]))
    policy: Policy = model
    actions = policy.act(np.zeros((3, 2)), np.ones((3, 2)), np.random.default_rng(0))
    np.testing.assert_array_equal(actions, np.float32([[0.9, -1.0]] * 3))


# ---------------------------------------------------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("dataset", "gciql", "crl", "discount"),
    [
        ("pointmaze-medium-stitch-v0", 0.003, 0.03, 0.99),
        ("pointmaze-large-stitch-v0", 0.003, 0.03, 0.99),
        ("pointmaze-giant-stitch-v0", 0.003, 0.03, 0.995),
        ("antmaze-medium-stitch-v0", 0.3, 0.1, 0.99),
        ("antmaze-large-stitch-v0", 0.3, 0.1, 0.99),
        ("antmaze-giant-stitch-v0", 0.3, 0.1, 0.995),
        ("antmaze-medium-explore-v0", 0.01, 0.003, 0.99),
        ("antmaze-large-explore-v0", 0.01, 0.003, 0.99),
    ],
)
def test_published_settings(dataset: str, gciql: float, crl: float, discount: float):
    random = 1.0 if "explore" in dataset else 0.5
    for name, alpha in (("gciql", gciql), ("crl", crl)):
        config = AGENTS[name].configure(SPECS[dataset], "paper")
        assert (config.alpha, config.discount) == (alpha, discount)
        assert config.actor_goals == GoalMix(0.0, 1 - random, random, geometric=False)
        assert (config.hidden, config.normalize) == ((512, 512, 512), False)
        training = config.training
        assert (training.steps, training.batch_size, training.learning_rate) == (1_000_000, 1024, 3e-4)
        laptop = AGENTS[name].configure(SPECS[dataset], "laptop")
        assert (laptop.normalize, laptop.discount) == (True, 0.95)
        assert (laptop.alpha, laptop.actor_goals) == (alpha, config.actor_goals)


@pytest.mark.parametrize("name", [name for name in AGENTS if name != "gcbc"])
def test_an_agent_that_acts_alone_sees_far_and_trains_longer(name: str):
    spec = SPECS["pointmaze-giant-stitch-v0"]
    follows, alone = (AGENTS[name].configure(spec, "laptop", alone=alone) for alone in (False, True))
    assert (follows.discount, alone.discount) == (0.95, 0.995)
    assert alone.training.steps > follows.training.steps
    assert (alone.hidden, alone.normalize) == (follows.hidden, True)
    for profile in ("smoke", "paper"):
        assert AGENTS[name].configure(spec, profile, alone=True) == AGENTS[name].configure(spec, profile)


def test_every_agent_has_a_page_that_names_its_losses():
    pages = Path(__file__).parents[2] / "docs" / "agents"
    for name, agent in AGENTS.items():
        page, losses = (pages / f"{name}.md").read_text(), [key for key in vars(agent) if key.endswith("_loss")]
        assert all(f"`{agent.__name__}.{loss}`" in page for loss in losses)
        assert f"]({name}.md)" in (pages / "README.md").read_text()


def test_a_dataset_sets_any_field_of_an_agent_by_its_path():
    spec = replace(SPECS[toy.ID], agents={"gciql": {"expectile": 0.7, "training.steps": 5, "discount": 0.9}})
    config = AGENTS["gciql"].configure(spec, "paper")
    assert (config.expectile, config.training.steps, config.training.batch_size) == (0.7, 5, 1024)
    assert config.discount == 0.9  # its own setting, not the one that agents share
    assert AGENTS["crl"].configure(spec, "paper") == AGENTS["crl"].configure(SPECS[toy.ID], "paper")


def test_a_setting_that_an_agent_does_not_have_is_an_error():
    for settings, complaint in (({"low_alpha": 3.0}, "no field 'low_alpha'"), ({"alpha": "much"}, "expected float")):
        with pytest.raises(BadInput, match=complaint):
            AGENTS["gciql"].configure(replace(SPECS[toy.ID], agents={"gciql": settings}), "smoke")


def test_impossible_settings_are_refused():
    with pytest.raises(BadInput, match="expectile"):
        GCIQLConfig(expectile=1.0)
    with pytest.raises(BadInput, match="discount"):
        CRLConfig(discount=1.0)


# ---------------------------------------------------------------------------------------------------------- networks


def test_frozen_weights_get_no_gradient_and_inputs_do():
    critics = Bilinear(2, 3, (4,), members=2)
    left, right = torch.randn(5, 2, requires_grad=True), torch.randn(5, 3)
    outputs = frozen(critics, left, right)
    torch.testing.assert_close(outputs, critics(left, right))
    outputs.sum().backward()
    assert left.grad is not None
    assert all(parameter.grad is None for parameter in critics.parameters())


def test_the_diagonal_of_the_table_is_each_with_its_own():
    critics = Bilinear(2, 3, (4,), members=2)
    left, right = torch.randn(5, 2), torch.randn(5, 3)
    table = critics.table(left, right)
    assert table.shape == (2, 5, 5)
    torch.testing.assert_close(table.diagonal(dim1=1, dim2=2), critics(left, right))


def test_actors_start_near_zero_without_layer_norm():
    actor = GaussianActor(4, (64, 64), 2)
    assert not any(isinstance(layer, nn.LayerNorm) for layer in actor.modules())
    assert actor.net[-1].weight.abs().max() <= 0.1 * (6 / 66) ** 0.5
    values, mean = torch.randn(5, 3), torch.randn(5, 3)
    expected = norm.logpdf(values.numpy(), loc=mean.numpy()).sum(axis=1)
    np.testing.assert_allclose(log_density(values, mean), expected, rtol=1e-5)
