"""Soft actor-critic in plain numpy, for networks so small that calling them costs more than computing them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from scots.data.trajectories import Array

LOG_STD_RANGE = (-20.0, 2.0)
_TANH_MARGIN = 1e-6
_HALF_LOG_TWO_PI = 0.5 * float(np.log(2 * np.pi))


class Layers:
    """`members` ReLU networks side by side, whose parameters are views of one vector: (M, B, in) -> (M, B, out)."""

    def __init__(self, members: int, sizes: tuple[int, ...], rng: np.random.Generator | None = None) -> None:
        self.shapes = [(members, rows, columns) for rows, columns in pairwise(sizes)]
        count = sum(members * (rows + 1) * columns for _, rows, columns in self.shapes)
        self.vector = np.zeros(count, np.float32)
        self.layers = self.views(self.vector)
        if rng is not None:
            for weight, bias in self.layers:
                bound = weight.shape[1] ** -0.5
                weight[:] = rng.uniform(-bound, bound, weight.shape)
                bias[:] = rng.uniform(-bound, bound, bias.shape)

    def views(self, vector: Array) -> list[tuple[Array, Array]]:
        """The weights and biases that `vector` holds."""
        found, at = [], 0
        for members, rows, columns in self.shapes:
            cut = at + members * rows * columns
            end = cut + members * columns
            found.append((vector[at:cut].reshape(members, rows, columns), vector[cut:end].reshape(members, 1, columns)))
            at = end
        return found

    def forward(self, inputs: Array) -> tuple[Array, list[Array]]:
        """Outputs, and the input of every layer, which gradients need."""
        hidden, inputs_of_layers = inputs, []
        for index, (weight, bias) in enumerate(self.layers):
            inputs_of_layers.append(hidden)
            hidden = np.matmul(hidden, weight)
            hidden += bias
            if index < len(self.layers) - 1:
                np.maximum(hidden, 0, out=hidden)
        return hidden, inputs_of_layers

    def by_parameters(self, gradient: Array, inputs_of_layers: list[Array]) -> Array:
        """Gradient with respect to the parameters, as one vector, given that of the outputs."""
        vector = np.empty_like(self.vector)
        views = self.views(vector)
        for index in reversed(range(len(self.layers))):
            by_weight, by_bias = views[index]
            np.matmul(inputs_of_layers[index].swapaxes(-1, -2), gradient, out=by_weight)
            gradient.sum(axis=1, keepdims=True, out=by_bias)
            if index:
                gradient = self._before(index, gradient, inputs_of_layers)
        return vector

    def by_inputs(self, gradient: Array, inputs_of_layers: list[Array]) -> Array:
        """Gradient with respect to the inputs, given that of the outputs."""
        for index in reversed(range(len(self.layers))):
            gradient = self._before(index, gradient, inputs_of_layers)
        return gradient

    def _before(self, index: int, gradient: Array, inputs_of_layers: list[Array]) -> Array:
        """From the gradient with respect to what a layer puts out to that of the layer before, or of the inputs."""
        weight = self.layers[index][0].swapaxes(-1, -2)
        # A single column is multiplied out: numpy's product of a column and a row is five times slower.
        gradient = gradient * weight if weight.shape[1] == 1 else np.matmul(gradient, weight)
        if index:
            gradient *= inputs_of_layers[index] > 0
        return gradient


class Adam:
    """Adam on one parameter vector, in place."""

    def __init__(self, size: int, rate: float) -> None:
        self.rate = rate
        self.mean, self.square = np.zeros(size, np.float32), np.zeros(size, np.float32)

    def step(self, vector: Array, gradient: Array, number: int) -> None:
        """Move `vector` against `gradient`, which is overwritten, in the step of this number from 1."""
        self.mean += 0.1 * (gradient - self.mean)
        gradient *= gradient
        self.square += 0.001 * (gradient - self.square)
        np.sqrt(self.square, out=gradient)
        gradient *= (1 - 0.999**number) ** -0.5
        gradient += 1e-8
        np.divide(self.mean, gradient, out=gradient)
        gradient *= self.rate / (1 - 0.9**number)
        vector -= gradient


@dataclass
class Draw:
    """Actions drawn from the policy (B, A), their log densities (B,), and what `SAC` needs for gradients."""

    actions: Array
    log_density: Array
    noise: Array
    std: Array
    free: Array
    inputs_of_layers: list[Array]


class SAC:
    """Twin critics, a tanh-Gaussian actor and a temperature that holds the entropy at minus the number of actions."""

    def __init__(self, states: int, actions: int, width: int, rate: float, rng: np.random.Generator) -> None:
        self.actions = actions
        self.actor = Layers(1, (states, width, width, 2 * actions), rng)
        self.critic = Layers(2, (states + actions, width, width, 1), rng)
        self.target = Layers(2, (states + actions, width, width, 1))
        self.target.vector[:] = self.critic.vector
        self.log_temperature = np.zeros(1, np.float32)
        self.adam_actor, self.adam_critic = Adam(self.actor.vector.size, rate), Adam(self.critic.vector.size, rate)
        self.adam_temperature = Adam(1, rate)
        self.updates = 0

    def vectors(self) -> dict[str, Array]:
        """Everything that learning changes, by name, to be stored and restored in place; `updates` is the rest."""
        vectors = {"actor": self.actor.vector, "critic": self.critic.vector, "target": self.target.vector}
        vectors["temperature"] = self.log_temperature
        adams = {"actor": self.adam_actor, "critic": self.adam_critic, "temperature": self.adam_temperature}
        for name, adam in adams.items():
            vectors |= {f"{name}.mean": adam.mean, f"{name}.square": adam.square}
        return vectors

    def draw(self, states: Array, rng: np.random.Generator) -> Draw:
        """Actions for `states` (B, S)."""
        outputs, inputs_of_layers = self.actor.forward(states[None])
        mean, raw = outputs[0, :, : self.actions], outputs[0, :, self.actions :]
        log_std = np.clip(raw, *LOG_STD_RANGE)
        std, noise = np.exp(log_std), rng.standard_normal(mean.shape, np.float32)
        actions = np.tanh(mean + std * noise)
        gaussian = -0.5 * noise * noise - log_std - _HALF_LOG_TWO_PI
        log_density = (gaussian - np.log(1 - actions * actions + _TANH_MARGIN)).sum(axis=1)
        return Draw(actions, log_density, noise, std, raw == log_std, inputs_of_layers)

    def update(
        self, batch: tuple[Array, ...], rng: np.random.Generator, discount: float = 0.99, rate: float = 0.005
    ) -> None:
        """One step of temperature, critics, actor and target on (states, actions, rewards, next states, terminals)."""
        self.updates += 1
        states = batch[0]
        draw = self.draw(states, rng)
        temperature = float(np.exp(self.log_temperature[0]))
        entropy_gap = float(draw.log_density.mean()) - self.actions
        self.adam_temperature.step(self.log_temperature, np.array([-entropy_gap], np.float32), self.updates)
        self._update_critic(batch, temperature, discount, rng)
        self._update_actor(states, draw, temperature)
        self.target.vector += rate * (self.critic.vector - self.target.vector)

    def _update_critic(
        self, batch: tuple[Array, ...], temperature: float, discount: float, rng: np.random.Generator
    ) -> None:
        states, actions, rewards, next_states, terminals = batch
        ahead = self.draw(next_states, rng)
        values, _ = self.target.forward(_pairs(next_states, ahead.actions))
        soft = values[..., 0].min(axis=0) - temperature * ahead.log_density
        goal = rewards + discount * (1 - terminals) * soft
        predictions, inputs_of_layers = self.critic.forward(_pairs(states, actions))
        gradient = self.critic.by_parameters((predictions - goal[:, None]) / len(states), inputs_of_layers)
        self.adam_critic.step(self.critic.vector, gradient, self.updates)

    def _update_actor(self, states: Array, draw: Draw, temperature: float) -> None:
        values, inputs_of_layers = self.critic.forward(_pairs(states, draw.actions))
        lower = np.zeros_like(values)
        lower[values[..., 0].argmin(axis=0), np.arange(len(states))] = -1 / len(states)
        by_action = self.critic.by_inputs(lower, inputs_of_layers).sum(axis=0)[:, states.shape[1] :]
        slope = 1 - draw.actions * draw.actions
        weight = temperature / len(states)
        by_action += weight * 2 * draw.actions / (slope + _TANH_MARGIN)
        by_mean = by_action * slope
        by_log_std = (by_mean * draw.std * draw.noise - weight) * draw.free
        by_outputs = np.concatenate([by_mean, by_log_std], axis=1)[None]
        gradient = self.actor.by_parameters(by_outputs, draw.inputs_of_layers)
        self.adam_actor.step(self.actor.vector, gradient, self.updates)


def _pairs(states: Array, actions: Array) -> Array:
    return np.concatenate([states, actions], axis=1)[None]
