"""Soft actor-critic in numpy: gradients against autograd, Adam against torch, and a task with a known optimum."""

import numpy as np
import pytest
import torch

from scots.datasets.sac import SAC, Adam, Layers

STATES, ACTIONS, BATCH = 5, 2, 32


def batch(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    arrays = (
        rng.normal(size=(BATCH, STATES)),
        rng.uniform(-1, 1, (BATCH, ACTIONS)),
        rng.normal(size=BATCH),
        rng.normal(size=(BATCH, STATES)),
        rng.random(BATCH) < 0.3,
    )
    return tuple(values.astype(np.float32) for values in arrays)


def through(layers: Layers, vector: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
    """The same networks in torch."""
    hidden, at = inputs, 0
    for number, (members, rows, columns) in enumerate(layers.shapes):
        weight = vector[at : at + members * rows * columns].reshape(members, rows, columns)
        at += members * rows * columns
        bias = vector[at : at + members * columns].reshape(members, 1, columns)
        at += members * columns
        hidden = hidden @ weight + bias
        hidden = hidden.relu() if number < len(layers.shapes) - 1 else hidden
    return hidden


def drawn(sac: SAC, vector: torch.Tensor, states: np.ndarray, noise: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Actions and their log densities, by torch's distributions."""
    mean, log_std = through(sac.actor, vector, torch.tensor(states)[None])[0].chunk(2, dim=1)
    normal = torch.distributions.Normal(mean, log_std.clamp(-20, 2).exp())
    before = mean + log_std.clamp(-20, 2).exp() * noise
    actions = before.tanh()
    return actions, (normal.log_prob(before) - (1 - actions.square() + 1e-6).log()).sum(1)


def test_gradients_are_those_of_autograd(monkeypatch: pytest.MonkeyPatch):
    """Of the temperature, the critics and the actor, in one update whose steps are caught instead of taken."""
    steps: list[np.ndarray] = []
    monkeypatch.setattr(Adam, "step", lambda self, vector, gradient, number: steps.append(gradient.copy()))
    sac = SAC(STATES, ACTIONS, 16, 3e-4, np.random.default_rng(0))
    states, actions, rewards, next_states, terminals = batch(np.random.default_rng(1))
    sac.update((states, actions, rewards, next_states, terminals), np.random.default_rng(2))
    rng = np.random.default_rng(2)
    noise, next_noise = (torch.tensor(rng.standard_normal((BATCH, ACTIONS), np.float32)) for _ in range(2))
    actor, critic = (torch.tensor(net.vector, requires_grad=True) for net in (sac.actor, sac.critic))

    own, log_density = drawn(sac, actor, states, noise)
    q = through(sac.critic, critic.detach(), torch.cat([torch.tensor(states), own], dim=1)[None])
    (log_density - q[..., 0].amin(0)).mean().backward()
    ahead, next_density = drawn(sac, actor.detach(), next_states, next_noise)
    next_pair = torch.cat([torch.tensor(next_states), ahead], dim=1)[None]
    soft = through(sac.target, torch.tensor(sac.target.vector), next_pair)[..., 0].amin(0) - next_density
    target = torch.tensor(rewards) + 0.99 * (1 - torch.tensor(terminals)) * soft
    pair = torch.cat([torch.tensor(states), torch.tensor(actions)], dim=1)[None]
    (0.5 * (through(sac.critic, critic, pair)[..., 0] - target).square().mean(1).sum()).backward()

    np.testing.assert_allclose(steps[0], [-(float(log_density.detach().mean()) - ACTIONS)], rtol=1e-5)
    np.testing.assert_allclose(steps[1], critic.grad, atol=1e-5)
    np.testing.assert_allclose(steps[2], actor.grad, atol=1e-5)


def test_adam_is_that_of_torch():
    rng = np.random.default_rng(0)
    ours, adam = rng.normal(size=20).astype(np.float32), Adam(20, 0.01)
    theirs = torch.tensor(ours.copy(), requires_grad=True)
    optimizer = torch.optim.Adam([theirs], 0.01)
    for number in range(1, 30):
        gradient = rng.normal(size=20).astype(np.float32)
        theirs.grad = torch.tensor(gradient)
        optimizer.step()
        adam.step(ours, gradient, number)
    np.testing.assert_allclose(ours, theirs.detach(), atol=1e-5)


def test_the_target_follows_slowly():
    sac = SAC(STATES, ACTIONS, 16, 3e-4, np.random.default_rng(0))
    before = sac.target.vector.copy()
    sac.update(batch(np.random.default_rng(1)), np.random.default_rng(2))
    np.testing.assert_allclose(sac.target.vector, before + 0.005 * (sac.critic.vector - before), atol=1e-7)


@pytest.mark.slow
def test_it_finds_the_best_action_of_a_bandit():
    """Reward -(a - s / 2)^2 and no future: the mean action is half the state, the entropy is held."""
    rng = np.random.default_rng(0)
    sac = SAC(1, 1, 32, 3e-3, rng)
    for _ in range(1500):
        states, actions = (rng.uniform(-1, 1, (256, 1)).astype(np.float32) for _ in range(2))
        rewards = -10 * np.square(actions - states / 2)[:, 0]
        sac.update((states, actions, rewards, states, np.ones(256, np.float32)), rng)
    states = np.linspace(-0.9, 0.9, 19, dtype=np.float32)[:, None]
    outputs, _ = sac.actor.forward(states[None])
    np.testing.assert_allclose(np.tanh(outputs[0, :, 0]), states[:, 0] / 2, atol=0.1)
    density = sac.draw(np.repeat(states, 200, axis=0), rng).log_density
    assert abs(float(density.mean()) - 1.0) < 0.15  # minus the entropy, which is held at minus one
