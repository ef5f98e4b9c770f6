"""Agents learn to reach goals of the toy corridor from walks that go nowhere on purpose."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import brentq

from scots.agents import AGENTS
from scots.agents.base import Policy
from scots.agents.gcbc import GCBC, GCBCConfig
from scots.agents.qrl import QRL, QRLConfig
from scots.data.trajectories import Array, GoalMix, Meta, Trajectories
from scots.datasets.specs import spec_of
from scots.envs.toy import ToyCorridor
from scots.models.training import TrainingConfig, fit

pytestmark = pytest.mark.slow
WORLD = ToyCorridor()
STEPS = 8  # allowed to reach a goal at most six steps away


def advance(positions: Array, actions: Array) -> Array:
    return np.stack([WORLD.step(position, action) for position, action in zip(positions, actions, strict=True)])


def random_walks(episodes: int = 400, states: int = 33) -> Trajectories:
    """Uniformly random actions. Their mean stands still, so nothing is gained by imitating them."""
    rng = np.random.default_rng(0)
    positions = WORLD.positions[rng.integers(len(WORLD.nodes), size=episodes)]
    actions = rng.uniform(-1, 1, size=(states, episodes, 2)).astype(np.float32)
    visited = []
    for action in actions:
        visited.append(positions)
        positions = advance(positions, action)
    return Trajectories(
        observations=np.stack(visited, axis=1).reshape(-1, 2),
        actions=actions.transpose(1, 0, 2).reshape(-1, 2),
        offsets=np.arange(0, episodes * states + 1, states),
        meta=Meta(dataset="toy-walks"),
    )


def share_reached(policy: Policy) -> float:
    """Over 200 pairs of nodes at most six steps apart: how often the goal is reached within eight steps."""
    rng = np.random.default_rng(0)
    starts, goals = np.nonzero((WORLD.distances > 0) & (WORLD.distances <= 6))
    chosen = rng.choice(len(starts), size=200, replace=False)
    positions, targets = WORLD.positions[starts[chosen]], WORLD.positions[goals[chosen]]
    reached = np.zeros(len(chosen), dtype=bool)
    for _ in range(STEPS):
        positions = advance(positions, policy.act(positions, targets, rng))
        reached |= (positions == targets).all(axis=1)
    return float(reached.mean())


class Wanderer:
    def act(self, observations: Array, goals: Array, rng: np.random.Generator) -> Array:
        return rng.uniform(-1, 1, size=observations.shape)


SETTINGS: dict[str, dict[str, Any]] = {  # gcbc, which imitates, gets nowhere; qrl needs dynamics with a gradient
    "gciql": {"alpha": 0.1, "target_decay": 0.97},
    "crl": {"alpha": 0.03},
    "hiql": {"target_decay": 0.97, "subgoal_steps": 4},
    "gcivl": {"target_decay": 0.97},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_agents_reach_goals_that_their_data_reaches_by_chance(name: str):
    data = random_walks()
    config = replace(
        AGENTS[name].configure(spec_of(data), "laptop"),
        hidden=(128, 128, 128),
        discount=0.8,
        actor_goals=GoalMix(current=0.0, trajectory=1.0, random=0.0),
        training=TrainingConfig(steps=1800, batch_size=64, learning_rate=2e-3, schedule="cosine"),
        **SETTINGS[name],
    )
    torch.manual_seed(0)
    agent = AGENTS[name].for_data(config, data)
    by_chance, untrained = share_reached(Wanderer()), share_reached(agent)
    fit(agent, data, seed=0)
    assert untrained < 0.05
    assert by_chance < 0.25
    assert share_reached(agent) > 0.5  # measured over three seeds: 0.70 to 0.82; by chance 0.17


def test_gcbc_learns_the_mean_action_towards_a_nearby_position():
    """Actions are independent and Gaussian and add up, so the mean action given how far they led has a closed form."""
    rng, horizon, spread, episodes, states = np.random.default_rng(0), 4, 0.3, 400, 101
    actions = rng.normal(scale=spread, size=(episodes, states, 2))
    positions = np.cumsum(actions, axis=1) - actions
    phase = rng.normal(size=(episodes, states, 1))  # of the body: nothing depends on it
    data = Trajectories(
        observations=np.concatenate([phase, positions], axis=2).reshape(-1, 3),
        actions=actions.reshape(-1, 2),
        offsets=np.arange(0, episodes * states + 1, states),
        meta=Meta(position=(1, 2)),
    )
    training = TrainingConfig(steps=1500, batch_size=256, learning_rate=2e-3, schedule="cosine")
    torch.manual_seed(0)
    agent = GCBC.for_data(GCBCConfig(hidden=(64, 64), horizon=horizon, training=training), data)
    fit(agent, data, seed=0)

    apart = rng.uniform(-0.6, 0.6, size=(300, 2))
    steps = np.arange(1, horizon + 1)
    likelihood = np.exp(-(apart**2).sum(1)[:, None] / (2 * steps * spread**2)) / steps  # of two columns: 1 / k
    expected = apart * (likelihood / steps).sum(1, keepdims=True) / likelihood.sum(1, keepdims=True)
    here = rng.normal(size=(300, 3))
    error = agent.act(here, here + np.pad(apart, ((0, 0), (1, 0))), rng) - expected
    assert np.abs(expected).mean() > 0.1
    assert np.sqrt((error**2).mean()) < 0.02


def _stretched(margin: float) -> float:
    """How far distances are stretched if random steps may violate their constraint by a mean square of `margin`.

    The larger of two uniform actions has density 2u, so the mean of max(c u - 1, 0)^2 is 2 / c^2 (w^4 / 4 + w^3 / 3)
    with w = c - 1.
    """
    return brentq(lambda c: 2 / c**2 * ((c - 1) ** 4 / 4 + (c - 1) ** 3 / 3) - margin, 1, 2)


def test_qrl_learns_the_number_of_steps_and_moves_straight():
    """In an open square every step is at most 0.2 along each axis, so the fewest steps follow from the larger gap."""
    rng, episodes, states, step = np.random.default_rng(0), 200, 26, 0.2
    positions, actions = np.empty((2, episodes, states, 2))
    position = rng.uniform(-1, 1, size=(episodes, 2))
    for time in range(states):
        actions[:, time], positions[:, time] = rng.uniform(-1, 1, size=(episodes, 2)), position
        position = np.clip(position + step * actions[:, time], -1, 1)
    offsets = np.arange(0, episodes * states + 1, states)
    data = Trajectories(positions.reshape(-1, 2), offsets, actions.reshape(-1, 2))
    training = TrainingConfig(steps=900, batch_size=128, learning_rate=2e-3, schedule="cosine")
    torch.manual_seed(0)
    config = QRLConfig(hidden=(64, 64), normalize=True, latent=32, margin=0.01, dual_rate=10.0, training=training)
    agent = QRL.for_data(config, data)
    fit(agent, data, seed=0)

    start, goal = rng.uniform(-0.9, 0.9, size=(2, 500, 2)).astype(np.float32)
    with torch.no_grad():
        latents = [agent.encoder(agent.scale(torch.from_numpy(states))) for states in (start, goal)]
        steps = agent.quasimetric(*latents).numpy()
    fewest = np.abs(goal - start).max(axis=1) / step
    assert np.corrcoef(steps, fewest)[0, 1] > 0.95
    assert np.median(steps / fewest) == pytest.approx(_stretched(config.margin), rel=0.06)
    actions, far = agent.act(start, goal, rng), fewest > 2
    aim = (actions * (goal - start)).sum(1) / np.linalg.norm(actions, axis=1) / np.linalg.norm(goal - start, axis=1)
    assert np.mean(aim[far]) > 0.85
    assert np.abs(actions[far]).max(axis=1).mean() > 0.7  # and not slowly
