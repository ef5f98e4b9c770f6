"""The embedding losses against values worked out by hand, and encoding."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import expectile

from scots.augmenters.embedding import CHANGE_STEPS, RawState, TemporalDistance, TemporalDistanceConfig
from scots.core.errors import BadInput
from scots.data.trajectories import Trajectories
from scots.datasets import toy
from scots.envs.toy import STEPS_PER_CELL

CONFIG = TemporalDistanceConfig(hidden=(4,), latent=2, discount=0.9, expectile=0.8)


class Fixed(torch.nn.Module):
    """A head that scales its input: distances can be worked out by hand."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = torch.nn.Parameter(torch.tensor(factor))

    def forward(self, values):
        return values * self.factor


def model_with(factors: tuple[float, float], targets: tuple[float, float]) -> TemporalDistance:
    model = TemporalDistance(CONFIG, {"observation": 1})
    model.heads = torch.nn.ModuleList(map(Fixed, factors))
    model.targets.average = torch.nn.ModuleList(map(Fixed, targets))
    return model


def test_expectile_loss_by_hand():
    """Two samples: one on its way, one arrived. Targets decide the weight, each head has its own target."""
    model = model_with((1.0, 2.0), (1.5, 0.5))
    batch = {
        "state": torch.tensor([[0.0], [3.0]]),
        "next_state": torch.tensor([[1.0], [3.5]]),
        "goal": torch.tensor([[4.0], [3.0]]),
        "arrived": torch.tensor([False, True]),
    }
    # sample 0: target values ahead -4.5, -1.5; here -6, -2; advantage = -1 + 0.9 * -4.5 - (-4) = -1.05 -> weight 0.2
    #   wanted -1 - 4.05 = -5.05 and -1 - 1.35 = -2.35; values -4 and -8
    # sample 1 arrived: wanted 0; here -0.001 (the floor of the distance); advantage 0.001 >= 0 -> weight 0.8
    sample0 = 0.2 * ((-5.05 + 4) ** 2 + (-2.35 + 8) ** 2)
    sample1 = 0.8 * 2 * 0.001**2
    loss, _ = model.expectile_loss(batch)
    assert loss.item() == pytest.approx((sample0 + sample1) / 2, rel=1e-4)
    loss.backward()
    assert all(head.factor.grad is not None for head in model.heads)
    assert all(head.factor.grad is None for head in model.targets.average)


def test_constrained_loss_by_hand():
    model = TemporalDistance(replace(CONFIG, form="constrained", reach=2.0, penalty=10.0), {"observation": 1})
    model.heads = torch.nn.ModuleList([Fixed(1.0)])
    batch = {
        "state": torch.tensor([[0.0], [5.0]]),
        "later_state": torch.tensor([[0.5], [11.0]]),
        "steps": torch.tensor([1.0, 2.0]),
    }
    push = 2.0 * np.log1p(np.exp(-5.0 / 2))
    loss, metrics = model.constrained_loss(batch)
    assert loss.item() == pytest.approx(push + 10 * (6 / 2 - 1) ** 2 / 2, rel=1e-5)
    assert metrics["apart"].item() == pytest.approx(5.0)


HERE = -1.0  # the one state whose distance to the goal is learned


class Learned(torch.nn.Module):
    """A head that knows the distance of every state to the goal at zero, apart from one."""

    def __init__(self, distance: float) -> None:
        super().__init__()
        self.distance = torch.nn.Parameter(torch.tensor(distance))

    def forward(self, values):
        return torch.where(values == HERE, self.distance, values)


@pytest.mark.parametrize("level", [0.5, 0.7, 0.9, 0.97])
def test_the_expectile_loss_rests_at_the_expectile_of_the_values_ahead(level: float):
    """One state with many successors, and targets that have caught up: the gradient vanishes at the expectile alone."""
    ahead = np.random.default_rng(0).exponential(size=4000)
    at_rest = -expectile(-1 - CONFIG.discount * ahead, alpha=level)
    batch = {
        "state": torch.full((4000, 1), HERE),
        "next_state": torch.from_numpy(ahead).float()[:, None],
        "goal": torch.zeros(4000, 1),
        "arrived": torch.zeros(4000, dtype=torch.bool),
    }

    def gradient(distance: float) -> float:
        model = TemporalDistance(replace(CONFIG, expectile=level), {"observation": 1})
        model.heads, model.targets.average = (torch.nn.ModuleList([Learned(distance)] * 2) for _ in range(2))
        model.expectile_loss(batch)[0].backward()
        return model.heads[0].distance.grad.item()

    assert gradient(at_rest) == pytest.approx(0, abs=1e-3)
    assert gradient(at_rest - 0.1) < -0.01
    assert gradient(at_rest + 0.1) > 0.01


def test_batches_hold_transitions_and_goals():
    data = toy.make(episodes=5)
    batch = TemporalDistance.for_data(CONFIG, data).batch(data, 5000, np.random.default_rng(0))
    step = (batch["next_state"] - batch["state"]).abs().sum(1)
    assert step.max() <= 1 / STEPS_PER_CELL
    assert 0 < batch["arrived"].float().mean() < 0.1
    same = (batch["state"] == batch["goal"]).all(1)
    assert same[batch["arrived"]].all()


def test_constrained_batches_hold_later_states_of_the_same_episode():
    """The first column counts the row, so that it tells how much later a state is, even at the end of an episode."""
    count = np.arange(30, dtype=np.float32)
    data = Trajectories(observations=np.stack([count, count // 10], axis=1), offsets=np.array([0, 10, 20, 30]))
    model = TemporalDistance.for_data(replace(CONFIG, form="constrained", horizon=6), data)
    batch = model.batch(data, 500, np.random.default_rng(0))
    later, episode = (batch["later_state"] - batch["state"]).T
    assert (later == batch["steps"]).all()
    assert (episode == 0).all()
    assert (later.min(), later.max()) == (1, 6)
    with pytest.raises(BadInput, match="horizon"):
        replace(CONFIG, horizon=0)


def test_columns_are_scaled_by_their_change_over_a_few_steps():
    """A walk in one column, noise in another, one that is fixed for each episode, and one that never changes."""
    rng = np.random.default_rng(0)
    walk, noise = rng.choice([-0.1, 0.1], (100, 200)).cumsum(axis=1), rng.standard_normal((100, 200))
    fixed = np.repeat(rng.standard_normal((100, 1)) * 3, 200, axis=1)
    columns = np.stack([walk, noise, fixed, np.ones_like(walk)], axis=2).reshape(-1, 4)
    data = Trajectories(observations=columns.astype(np.float32), offsets=np.arange(101) * 200)
    scale = TemporalDistance.for_data(replace(CONFIG, normalize=True), data).scale
    expected = [0.1 * CHANGE_STEPS**0.5, 2**0.5, fixed.std(), 1]
    np.testing.assert_allclose(scale.std, expected, rtol=0.05)
    np.testing.assert_allclose(scale.mean, columns.mean(axis=0), rtol=1e-3, atol=1e-5)


def test_encoding_in_blocks_equals_encoding_at_once(monkeypatch: pytest.MonkeyPatch):
    data = toy.make(episodes=5)
    model = TemporalDistance.for_data(replace(CONFIG, normalize=True), data)
    whole = model.encode(data.observations)
    monkeypatch.setattr("scots.augmenters.embedding.ENCODE_ROWS", 7)
    np.testing.assert_allclose(model.encode(data.observations), whole, rtol=1e-4, atol=1e-5)
    assert whole.shape == (data.rows, 2)
    assert whole.dtype == np.float32


def test_raw_state_is_the_normalised_observation():
    data = toy.make(episodes=5)
    latents = RawState(data).encode(data.observations)
    np.testing.assert_allclose(latents.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(latents.std(axis=0), 1, rtol=1e-4)


def test_a_position_is_embedded_as_a_recorded_observation_moved_there():
    """Of a body with limbs an average of all postures need not exist."""
    rng = np.random.default_rng(0)
    data = Trajectories(rng.choice([-1.0, 1.0], (200, 4)).astype(np.float32), [0, 200])
    config = TemporalDistanceConfig(form="constrained", hidden=(8,), latent=3)
    model = TemporalDistance.for_data(config, data)
    recorded = model.reference.numpy()
    assert (data.observations == recorded).all(axis=1).any()
    expected = [model.encode(np.array([[recorded[0], y, recorded[2], x]], np.float32))[0] for x, y in ((1, 2), (5, 6))]
    latents = model.encode_positions((3, 1), np.array([[1, 2], [5, 6]], np.float32))
    np.testing.assert_allclose(latents, expected, rtol=1e-4, atol=1e-5)


def test_distance_is_that_of_the_value_function():
    """V(s, g) = -|phi(s) - phi(g)|, for arrays that broadcast."""
    data = toy.make(episodes=5)
    model = TemporalDistance.for_data(CONFIG, data)
    latents = model.encode(data.observations[:6])
    table = model.distance(latents[:, None], latents)
    by_hand = [[sum((a - b) ** 2) ** 0.5 for b in latents] for a in latents]
    np.testing.assert_allclose(table, by_hand, rtol=1e-5)
    np.testing.assert_allclose(RawState(data).distance(latents[0], latents[1]), table[0, 1], rtol=1e-6)
