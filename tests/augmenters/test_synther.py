"""SynthER: what a transition vector holds, that a known world is learned, and what becomes of what it draws."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from scots.agents import AGENTS
from scots.augmenters import AUGMENTERS
from scots.augmenters.synther import SyntherConfig, TransitionModel, TransitionModelConfig
from scots.core.errors import BadInput
from scots.data import formats
from scots.data.shards import validation_path
from scots.data.trajectories import Meta, Trajectories, concat
from scots.datasets import toy
from scots.datasets.specs import SPECS, spec_of
from scots.models.edm import HeunConfig
from scots.models.training import TrainingConfig

SYNTHER = AUGMENTERS["synther"]


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCOTS_HOME", str(tmp_path / "home"))


def walks(episodes: int = 60, states: int = 30) -> Trajectories:
    """A point that moves by its action, with a heading in degrees, a quaternion and a column that never changes.

    The reward is the square of the first action; an episode terminates where x is above 0 at its end.
    """
    rng = np.random.default_rng(0)
    actions = rng.uniform(-1, 1, size=(episodes, states, 2))
    position = rng.normal(size=(episodes, 1, 2)) + np.cumsum(actions, axis=1) - actions
    heading = np.degrees(np.arctan2(actions[..., 1:], actions[..., :1])) % 360
    half = np.radians(heading) / 2
    quaternion = np.concatenate([np.cos(half), 0 * half, 0 * half, np.sin(half)], axis=2)
    fixed = np.full((episodes, states, 1), 7.3)
    return Trajectories(
        observations=np.concatenate([position, heading, quaternion, fixed], axis=2).reshape(-1, 8),
        offsets=np.arange(0, episodes * states + 1, states),
        actions=actions.reshape(-1, 2),
        rewards=(actions[..., 0] ** 2).ravel(),
        terminated=position[:, -1, 0] > 0,
        meta=Meta(position=(0, 1), angles=((2, 360.0),), quaternions=(3,)),
    )


def test_a_vector_is_state_action_reward_next_state_and_terminal():
    data = walks()
    model = TransitionModel.for_data(TransitionModelConfig(width=8, layers=1), data)
    assert model.sizes == {"observation": 9, "angles": 1, "action": 2, "reward": 1, "terminal": 1}
    vectors = model.batch(data, 300, np.random.default_rng(0))["transition"].numpy()
    assert vectors.shape == (300, 22)
    state, action, reward, following, terminal = np.split(vectors, [9, 11, 12, 21], axis=1)
    np.testing.assert_allclose(following[:, :2], state[:, :2] + action, atol=1e-5)
    np.testing.assert_allclose(reward[:, 0], action[:, 0] ** 2, atol=1e-6)
    np.testing.assert_allclose(state[:, [2, 8]], action / np.linalg.norm(action, axis=1, keepdims=True), atol=1e-5)
    ends = {tuple(data.observations[last, :2]) for last in data.offsets[1:][data.terminated] - 1}
    assert [tuple(row) in ends for row in following[:, :2]] == terminal[:, 0].astype(bool).tolist()
    assert 0 < terminal.mean() < 0.1


def test_columns_that_the_data_has_not_are_not_modelled():
    data = toy.make(episodes=5)
    model = TransitionModel.for_data(TransitionModelConfig(width=8, layers=1), data)
    assert model.batch(data, 7, np.random.default_rng(0))["transition"].shape == (7, 6)
    drawn = model.draw(4, HeunConfig(steps=2), torch.Generator())
    assert {name: values.shape for name, values in drawn.items()} == {"observations": (4, 2, 2), "actions": (4, 2)}
    watched = replace(data, actions=None)
    model = TransitionModel.for_data(TransitionModelConfig(width=8, layers=1), watched)
    assert set(model.draw(4, HeunConfig(steps=2), torch.Generator())) == {"observations"}


@pytest.mark.slow
def test_what_is_drawn_keeps_to_the_world(tmp_path: Path):
    """It moves as its action says, looks where it goes, and never leaves the circle of quaternions."""
    data = walks(episodes=400)
    training = TrainingConfig(steps=1500, batch_size=256, learning_rate=3e-3, schedule="cosine", warmup=50)
    config = SyntherConfig(500, TransitionModelConfig(128, 3, ema=0.99, training=training), HeunConfig(steps=16))
    aug = SYNTHER.augment(data, config, seed=0, out=tmp_path / "a.npz", workers=1)
    first, second = aug.observations[::2], aug.observations[1::2]
    action = aug.actions[::2]
    assert np.abs(second[:, :2] - first[:, :2] - action).mean() < 0.25  # steps are 0.5 long per axis
    assert np.corrcoef(aug.rewards[::2], action[:, 0] ** 2)[0, 1] > 0.9
    np.testing.assert_allclose(first[:, :2].std(0), data.observations[:, :2].std(0), rtol=0.25)
    assert np.array_equal(aug.observations[:, 7], np.full(1000, 7.3, np.float32))  # not even rounding moves it
    np.testing.assert_allclose(np.linalg.norm(aug.observations[:, 3:7], axis=1), 1, atol=1e-5)
    assert aug.observations[:, 2].min() >= 0
    assert aug.observations[:, 2].max() < 360


def test_transitions_are_episodes_of_two_states_and_as_many_as_asked_for(tmp_path: Path):
    data = walks(episodes=10)
    config = SYNTHER.configure(spec_of(data), "smoke")
    for count, expected in ((None, 10 * 29), (1000, 1000)):
        out = tmp_path / f"{count}.npz"
        aug = SYNTHER.augment(data, config.replace_at("transitions", count), seed=0, out=out, workers=1)
        assert (len(aug), set(aug.lengths)) == (expected, {2})
        assert (aug.terminated.shape, aug.rewards.shape) == ((expected,), (2 * expected,))
        assert not aug.actions[1::2].any()  # the second row begins no transition
        assert not aug.rewards[1::2].any()
        assert (aug.generated == 1).all()
        assert len(formats.read(validation_path(out))) == expected // 10
        assert aug.meta.augmentation["augmenter"] == "synther"


def test_shards_are_drawn_with_noise_of_their_own(tmp_path: Path):
    data = toy.make(episodes=10)
    config = SYNTHER.configure(spec_of(data), "smoke").replace_at("transitions", 5_050)  # two shards
    aug = SYNTHER.augment(data, config, seed=0, out=tmp_path / "a.npz", workers=1)
    assert len(np.unique(aug.observations[::2], axis=0)) == 5_050


# -------------------------------------------------------------------------------------------- agents on transitions


def single(episodes: int = 50) -> Trajectories:
    """Transitions by themselves: (number, 0) -> (number, 1)."""
    number, time = np.divmod(np.arange(2 * episodes), 2)
    rows = np.stack([number + 1000, time], axis=1)
    return Trajectories(rows, np.arange(0, 2 * episodes + 1, 2), rows, meta=Meta(position=(0, 1)))


def long(episodes: int = 20, states: int = 12) -> Trajectories:
    episode, time = np.divmod(np.arange(episodes * states), states)
    rows = np.stack([episode, time], axis=1)
    return Trajectories(rows, np.arange(0, episodes * states + 1, states), rows, meta=Meta(position=(0, 1)))


def drawn(name: str, data: Trajectories) -> dict[str, np.ndarray]:
    model = AGENTS[name].for_data(AGENTS[name].configure(spec_of(data), "smoke"), data)
    return {key: values.numpy() for key, values in model.batch(data, 4000, np.random.default_rng(0)).items()}


@pytest.mark.parametrize("name", ["gciql", "gcivl", "hiql", "qrl"])
def test_transitions_by_themselves_get_random_goals(name: str):
    batch = drawn(name, single())
    for state, goal in (("state", "goal"), ("actor_state", "actor_goal")):
        same = batch[state][:, 0] == batch[goal][:, 0]
        current = (batch[state] == batch[goal]).all(axis=1)
        assert (same & ~current).mean() < 0.04  # one in fifty, by chance
        assert len(np.unique(batch[goal][:, 0])) == 50


@pytest.mark.parametrize("name", ["gciql", "gcivl", "hiql", "qrl"])
def test_beside_trajectories_they_are_in_the_td_terms_only(name: str):
    batch = drawn(name, concat([single(300), long()]))
    generated = batch["state"][:, 0] >= 1000
    assert generated.mean() == pytest.approx(300 / (300 + 220), abs=0.05)
    assert (batch["actor_state"][:, 0] < 1000).all()
    same = batch["state"][:, 0] == batch["goal"][:, 0]
    current = (batch["state"] == batch["goal"]).all(axis=1)
    assert (same & ~current)[generated].mean() < 0.02
    if name != "qrl":  # whose goals are all random
        assert same[~generated].mean() > 0.6
    if "low_goal" in batch:
        assert ((batch["low_goal"] - batch["actor_state"])[:, 1] > 1).mean() > 0.7


def test_contrastive_critics_see_reached_goals_only():
    batch = drawn("crl", single())
    assert np.array_equal(batch["goal"], batch["state"] + [0, 1])
    batch = drawn("crl", concat([single(300), long()]))
    assert (batch["state"][:, 0] < 1000).all()
    assert np.array_equal(batch["goal"][:, 0], batch["state"][:, 0])


# ---------------------------------------------------------------------------------------------------------- settings


def test_presets():
    paper = SYNTHER.configure(SPECS["antmaze-large-explore-v0"], "paper")
    assert (paper.model.width, paper.model.layers, paper.transitions, paper.sampling.steps) == (2048, 6, 5_000_000, 128)
    assert (paper.model.training.steps, paper.model.training.batch_size) == (100_000, 1024)
    laptop = SYNTHER.configure(SPECS["antmaze-large-explore-v0"], "laptop")
    assert (laptop.model.width, laptop.transitions, laptop.sampling) == (256, 1_000_000, HeunConfig(32, churn=0.0))
    assert (
        SYNTHER.configure(spec_of(walks(episodes=3)), "laptop").transitions is None
    )  # of own data as much as there is
    with pytest.raises(BadInput, match="transitions"):
        SyntherConfig(transitions=0)


def test_the_published_network_has_the_published_size():
    data = toy.make(episodes=2)
    model = TransitionModel.for_data(TransitionModelConfig(), data)
    weights = sum(parameter.numel() for parameter in model.network.parameters())
    assert weights == 6 * (2048 * 2048 + 2048) + (128 * 2048 + 2048) + (2048 * 6 + 6) + (6 * 128 + 128) + (
        17 * 128 + 128 + 128 * 128 + 128
    )
