"""Networks: scaling layer, MLPs and ensembles, and the DiT1d that denoises sequences of states."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

from scots.data.trajectories import Array, Normalizer

Angles = Sequence[tuple[int, float]]
"""Columns that are angles, each with its period."""


def feature_sizes(name: str, columns: int, angles: Angles) -> dict[str, int]:
    """Sizes of a model of so many columns: the features that networks see, and how many columns are angles, if any."""
    return {name: columns + len(angles)} | ({"angles": len(angles)} if angles else {})


class Scale(nn.Module):
    """Data units -> what networks see, and back. Angles become cosine and sine, all is scaled to unit variance.

        x  y  heading  speed    <->    x  y  cos  speed  sin

    Every other column keeps its number; the sines come last. A `Normalizer` of these features travels with the weights,
    and so do the columns of the angles, their periods, and the range in which they are given back.
    """

    mean: Tensor  # (F,)
    std: Tensor  # (F,)
    angle_columns: Tensor  # (angles,), like the next two only where there are angles
    period: Tensor
    lowest: Tensor

    def __init__(self, features: int, angles: int = 0) -> None:
        """`features` counts two for every angle."""
        super().__init__()
        self.columns, self._has_angles = features - angles, angles > 0
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("std", torch.ones(features))
        if angles:
            self.register_buffer("angle_columns", torch.zeros(angles, dtype=torch.long))
            self.register_buffer("period", torch.ones(angles))
            self.register_buffer("lowest", torch.zeros(angles))

    def fit_angles(self, values: Array, angles: Angles) -> None:
        """Take over columns and periods; angles lie in [0, P) if the data (N, O) has none below 0, else [-P/2, P/2)."""
        if self._has_angles:
            columns, periods = [column for column, _ in angles], np.array([period for _, period in angles])
            lowest = np.where((values[:, columns] < 0).any(axis=0), -periods / 2, 0.0)
            self.angle_columns.copy_(torch.tensor(columns))
            self.period.copy_(torch.from_numpy(periods))
            self.lowest.copy_(torch.from_numpy(lowest))

    def fit(self, normalizer: Normalizer) -> None:
        """Take over mean and deviation of features measured on data."""
        self.mean.copy_(torch.from_numpy(normalizer.mean))
        self.std.copy_(torch.from_numpy(normalizer.std))

    def features(self, values: Tensor) -> Tensor:
        """Data units (..., O) -> the same with cosine and sine of angles (..., F), not normalised."""
        if not self._has_angles:
            return values
        turns = values[..., self.angle_columns] * (2 * math.pi / self.period)
        kept = values.clone()
        kept[..., self.angle_columns] = turns.cos()
        return torch.cat([kept, turns.sin()], dim=-1)

    def array_features(self, values: Array) -> Array:
        """The same for an array (..., O), on the CPU."""
        return self.features(torch.tensor(values)).numpy() if self._has_angles else values

    def forward(self, values: Tensor) -> Tensor:
        """Data units (..., O) -> normalised features (..., F)."""
        return (self.features(values) - self.mean) / self.std

    def inverse(self, values: Tensor) -> Tensor:
        """Normalised features (..., F) -> data units (..., O)."""
        features = values * self.std + self.mean
        if not self._has_angles:
            return features
        kept = features[..., : self.columns].clone()
        turns = torch.atan2(features[..., self.columns :], kept[..., self.angle_columns])
        angles = turns * (self.period / (2 * math.pi))
        angles = torch.where(angles < self.lowest, angles + self.period, angles)
        # A small negative angle plus the period is rounded to the period, which is outside the range.
        kept[..., self.angle_columns] = torch.where(angles >= self.lowest + self.period, self.lowest, angles)
        return kept


def mlp(sizes: Sequence[int], *, layer_norm: bool = True, dropout: float = 0.0) -> nn.Sequential:
    """Linear layers of these sizes; each hidden one is followed by GELU and then, if asked, LayerNorm.

    Xavier-uniform weights and zero biases. The norm comes after the activation, as in the reference agents.
    """
    layers: list[nn.Module] = []
    for fan_in, fan_out in pairwise(sizes[:-1]):
        layers += [nn.Linear(fan_in, fan_out), nn.GELU()]
        layers += [nn.LayerNorm(fan_out)] if layer_norm else []
        layers += [nn.Dropout(dropout)] if dropout else []
    layers.append(nn.Linear(sizes[-2], sizes[-1]))
    network = nn.Sequential(*layers)
    network.apply(_xavier)
    return network


def _xavier(module: nn.Module) -> None:
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
        nn.init.zeros_(module.bias)


class DiT1d(nn.Module):
    """A transformer over time steps, conditioned on the diffusion time by adaLN-zero (Peebles and Xie, 2023).

    One token per time step of a sequence (B, T, D). Outputs are exactly zero at initialisation. `context` is the number
    of columns that each token is given beside those to denoise. A condition of the whole sequence can be added to the
    time embedding.
    """

    positions: Tensor

    def __init__(self, columns: int, width: int, depth: int, head_width: int, tokens: int, context: int = 0) -> None:
        super().__init__()
        self.inward = nn.Linear(columns + context, width)
        self.time = TimeEmbedding(width)
        blocks = [DiTBlock(width, head_width) for _ in range(depth)]
        self.blocks = nn.ModuleList(blocks)
        self.final_modulation = nn.Linear(width, 2 * width)
        self.outward = nn.Linear(width, columns)
        self.register_buffer("positions", sinusoid(torch.arange(tokens), width), persistent=False)
        self.apply(_xavier)
        for layer in (self.final_modulation, self.outward, *(block.modulation for block in blocks)):
            nn.init.zeros_(layer.weight)

    def forward(
        self, sequence: Tensor, time: Tensor, context: Tensor | None = None, condition: Tensor | float = 0.0
    ) -> Tensor:
        """(B, T, D) noised at times (B,) in [0, 1], with context (B, T, C) and condition (B, W) -> (B, T, D)."""
        condition = functional.silu(self.time(time) + condition)
        tokens = sequence if context is None else torch.cat([sequence, context], dim=-1)
        hidden = self.inward(tokens) + self.positions[: sequence.shape[1]]
        for block in self.blocks:
            hidden = block(hidden, condition)
        shift, scale = self.final_modulation(condition)[:, None].chunk(2, dim=-1)
        return self.outward(_modulated(hidden, shift, scale))


class DiTBlock(nn.Module):
    """Self-attention and MLP, each shifted, scaled and gated by the condition; the gates start at zero."""

    def __init__(self, width: int, head_width: int) -> None:
        super().__init__()
        self.heads = max(1, width // head_width)
        self.modulation = nn.Linear(width, 6 * width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.attended = nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, hidden: Tensor, condition: Tensor) -> Tensor:
        """(B, T, W), (B, W) -> (B, T, W)."""
        shift1, scale1, gate1, shift2, scale2, gate2 = self.modulation(condition)[:, None].chunk(6, dim=-1)
        hidden = hidden + gate1 * self._attend(_modulated(hidden, shift1, scale1))
        return hidden + gate2 * self.mlp(_modulated(hidden, shift2, scale2))

    def _attend(self, hidden: Tensor) -> Tensor:
        batch, tokens, width = hidden.shape
        split = self.query_key_value(hidden).view(batch, tokens, 3, self.heads, width // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4)  # (3, B, heads, T, W / heads)
        mixed = functional.scaled_dot_product_attention(query, key, value)
        return self.attended(mixed.transpose(1, 2).reshape(batch, tokens, width))


def _modulated(hidden: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
    """LayerNorm without parameters of its own, then the condition's scale and shift."""
    return functional.layer_norm(hidden, hidden.shape[-1:], eps=1e-6) * (1 + scale) + shift


class TimeEmbedding(nn.Module):
    """Diffusion time in [0, 1] -> condition vector, by fixed random Fourier features and an MLP."""

    frequencies: Tensor

    def __init__(self, width: int, features: int = 16, spread: float = 16.0) -> None:
        super().__init__()
        self.register_buffer("frequencies", torch.randn(features) * spread)
        self.mlp = nn.Sequential(nn.Linear(2 * features, width), nn.Mish(), nn.Linear(width, width))

    def forward(self, time: Tensor) -> Tensor:
        """(B,) -> (B, W)."""
        angle = 2 * math.pi * time[:, None] * self.frequencies
        return self.mlp(torch.cat([angle.cos(), angle.sin()], dim=-1))


def sinusoid(positions: Tensor, width: int) -> Tensor:
    """Transformer code (N, W) of positions (N,): sines, then cosines, of geometrically spaced frequencies."""
    index = torch.arange(width // 2, device=positions.device)
    angle = positions[:, None] * torch.exp(-math.log(10_000.0) * index / max(1, width // 2 - 1))
    return torch.cat([angle.sin(), angle.cos()], dim=-1)


def fourier_features(positions: Tensor, frequencies: int) -> Tensor:
    """Normalised positions (..., P) and their sines and cosines (..., P + 2 P F), in octaves from period 8 down.

    Walls are sharp, while networks of plain coordinates are smooth (Tancik et al., 2020).
    """
    octaves = math.pi / 4 * 2.0 ** torch.arange(frequencies, device=positions.device)
    angles = (positions[..., None] * octaves).flatten(-2)
    return torch.cat([positions, angles.sin(), angles.cos()], dim=-1)


# ------------------------------------------------------------------------------------- what goal-conditioned agents use


class Value(nn.Module):
    """A number for several inputs together, such as V(s, g) or Q(s, g, a)."""

    def __init__(self, inputs: int, hidden: Sequence[int]) -> None:
        super().__init__()
        self.net = mlp((inputs, *hidden, 1))

    def forward(self, *inputs: Tensor) -> Tensor:
        """(B, ...) each -> (B,)."""
        return self.net(torch.cat(inputs, dim=-1)).squeeze(-1)


class Ensemble(nn.ModuleList):
    """Independent networks of one shape."""

    def forward(self, *inputs: Tensor) -> Tensor:
        """What each of them outputs, stacked in front: (members, ...)."""
        return torch.stack([member(*inputs) for member in self])


class Bilinear(nn.Module):
    """phi(x) . psi(y) / sqrt(D) of an ensemble of phi and psi: how well x and y match.

    D is the width of the last hidden layer.
    """

    def __init__(self, left: int, right: int, hidden: Sequence[int], members: int) -> None:
        super().__init__()
        self.phi = Ensemble(mlp((left, *hidden, hidden[-1])) for _ in range(members))
        self.psi = Ensemble(mlp((right, *hidden, hidden[-1])) for _ in range(members))

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        """Each left with its own right: (B, X), (B, Y) -> (members, B)."""
        features = self.phi(left) * self.psi(right)
        return features.sum(-1) / math.sqrt(features.shape[-1])

    def table(self, left: Tensor, right: Tensor) -> Tensor:
        """Each left with every right: (B, X), (B, Y) -> (members, B, B)."""
        features = self.phi(left)
        return features @ self.psi(right).mT / math.sqrt(features.shape[-1])


class GoalRepresentation(nn.Module):
    """What HIQL calls a subgoal: an MLP of state and goal whose output has length sqrt(D) everywhere."""

    def __init__(self, inputs: int, hidden: Sequence[int], columns: int) -> None:
        super().__init__()
        self.net = mlp((inputs, *hidden, columns))

    def forward(self, state: Tensor, goal: Tensor) -> Tensor:
        """(B, O), (B, O) -> (B, D)."""
        return self.normalized(self.net(torch.cat([state, goal], dim=-1)))

    @staticmethod
    def normalized(representation: Tensor) -> Tensor:
        """The same direction with length sqrt(D); the mean of a policy over representations is not that long."""
        length = torch.linalg.vector_norm(representation, dim=-1, keepdim=True)
        return representation / length * math.sqrt(representation.shape[-1])


class IntervalQuasimetric(nn.Module):
    """Interval quasimetric embedding (Wang and Isola, 2022): a distance of latents that may differ by direction.

    Latents x and y are cut into components of a few dimensions each. A component contributes the length of the union of
    the intervals [x_k, y_k] over its dimensions with x_k < y_k. The distance mixes their mean and their maximum:

        x_1 |------| y_1
        x_2     |------| y_2              d(x, y) = |=========|        ====
        x_3                  |---| y_3

    It is zero from a latent to itself, never negative, and obeys the triangle inequality.
    """

    def __init__(self, component: int) -> None:
        """`component` is the number of dimensions of a component."""
        super().__init__()
        self.component = component
        self.mix = nn.Parameter(torch.zeros(()))  # one half of each, to begin with

    def forward(self, start: Tensor, goal: Tensor) -> Tensor:
        """Distances from latents to latents: (..., Z), (..., Z) -> (...)."""
        lengths = union_length(*(latent.unflatten(-1, (-1, self.component)) for latent in (start, goal)))
        share = torch.sigmoid(self.mix)
        return share * lengths.mean(-1) + (1 - share) * lengths.amax(-1)


def union_length(start: Tensor, end: Tensor) -> Tensor:
    """Length of the union of the intervals [start_k, end_k], those with end below start being empty: (..., K) -> (...).

    In the order of their starts, each interval adds what lies beyond the farthest end before it.
    """
    start, order = start.sort(dim=-1)
    end = torch.maximum(start, end.gather(-1, order))  # an empty interval ends where it starts, and adds nothing
    covered = functional.pad(end.cummax(dim=-1).values[..., :-1], (1, 0), value=-math.inf)
    return (end - torch.maximum(start, covered)).clamp(min=0).sum(-1)


class GaussianActor(nn.Module):
    """A Gaussian over actions with unit deviation around a learned mean: no tanh, and no LayerNorm inside."""

    def __init__(self, inputs: int, hidden: Sequence[int], actions: int) -> None:
        super().__init__()
        self.net = mlp((inputs, *hidden, actions), layer_norm=False)
        last = self.net[-1]
        assert isinstance(last, nn.Linear)
        nn.init.xavier_uniform_(last.weight, gain=0.1)  # starts near zero, well inside the range of actions

    def forward(self, *inputs: Tensor) -> Tensor:
        """The mean (B, A)."""
        return self.net(torch.cat(inputs, dim=-1))


def log_density(values: Tensor, mean: Tensor) -> Tensor:
    """Log density of values under a Gaussian with unit deviation: (B, A), (B, A) -> (B,)."""
    return -0.5 * ((values - mean).square() + math.log(2 * math.pi)).sum(-1)


def frozen(module: nn.Module, *inputs: Tensor) -> Tensor:
    """What a module outputs with its weights taken as constants: gradients reach its inputs and not its weights."""
    weights = {name: weight.detach() for name, weight in module.named_parameters()}
    return functional_call(module, weights, inputs)
