"""Diffuser (Janner et al., 2022): whole windows of states and actions are denoised, and guided to a high value.

    a0 a1 a2 ... a_{H-1}        the first action of the best of several plans is carried out
    s0 s1 s2 ... s_{H-1}        s0 is the present state, clamped at every step of denoising

A second network sees noisy windows and predicts the discounted return from their first state to the end of the episode;
plans climb its gradient. Data without rewards has no value: plans then lead to the goal, which is clamped as the last
state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from scots.core.config import Config, Profile, Seeds, after_training
from scots.core.errors import BadInput
from scots.data.trajectories import Array, Normalizer, Trajectories
from scots.datasets.specs import DatasetSpec
from scots.models.ddpm import CosineProcess, guided_sample
from scots.models.diffusion import Prediction, clean_at, target_at
from scots.models.nets import Scale, feature_sizes
from scots.models.training import EMA, Batch, TrainingConfig
from scots.models.unet import SequenceEncoder, TemporalUnet
from scots.planners.base import Plan, PlannerModel

_VALUE_FEATURES = 64
_WINDOWS_PER_CALL = 4096  # bounds memory


@dataclass(frozen=True)
class GuidanceConfig(Config):
    """How plans are drawn where there are rewards. The defaults are Diffuser's for most locomotion data."""

    candidates: int = 64  # plans that are drawn, of which the most valuable is kept
    scale: float = 0.1  # of the gradient, beside the variance of the step
    climbs: int = 2  # along the gradient before every step
    last_guided: int = 2  # the last step of denoising, counted down to 0, before which plans climb
    warm_steps: int | None = None  # of denoising when replanning, from the plan before; None: all of them, from noise

    def __post_init__(self) -> None:
        if self.candidates < 1 or (self.warm_steps is not None and self.warm_steps < 1):
            raise BadInput(f"candidates and warm_steps must be at least 1: {self}")


@dataclass(frozen=True)
class DiffuserConfig(Config):
    """The planner. The defaults are those of its reference code for locomotion."""

    horizon: int = 32  # H
    diffusion_steps: int = 20
    width: int = 32
    multipliers: tuple[int, ...] = (1, 2, 4, 8)
    discount: float = 0.997
    termination_penalty: float = 100.0  # taken off the last reward of episodes that ended in a terminal state
    first_action_weight: float = 10.0  # in the loss: it is the one that is carried out
    ema: float = 0.9995  # 0.995 every tenth step in the reference
    prediction: Prediction = "x0"
    relative: bool = False  # the network puts out how states differ from the present one
    bypass: bool = False  # of the last norm of the network, see TemporalUnet
    guidance: GuidanceConfig = after_training(GuidanceConfig())
    training: TrainingConfig = TrainingConfig(steps=1_000_000, batch_size=64, learning_rate=2e-4)

    def __post_init__(self) -> None:
        halvings = len(self.multipliers) - 1
        if self.horizon < 2 or self.horizon % 2**halvings:
            raise BadInput(f"a horizon of {self.horizon} cannot be halved {halvings} times; use a multiple")
        warm = self.guidance.warm_steps
        if warm is not None and warm > self.diffusion_steps:
            raise BadInput(f"warm_steps {warm} is more than the {self.diffusion_steps} steps of diffusion")


def returns_to_go(data: Trajectories, discount: float, termination_penalty: float = 0.0) -> Array:
    """Discounted sum of rewards from each row to the end of its episode (N,), less a penalty if that is terminal."""
    assert data.rewards is not None
    returns = data.rewards.astype(np.float64)
    last = data.offsets[1:] - 1
    if data.terminated is not None:
        returns[last[data.terminated]] -= termination_penalty
    for back in range(1, int(data.lengths.max())):  # one step further from the end, in all episodes that go so far
        rows = last[data.lengths > back] - back
        returns[rows] += discount * returns[rows + 1]
    return returns.astype(np.float32)


def _are_terminal(data: Trajectories, rows: Array) -> Array:
    """Whether the episodes of rows (B,) ended in a terminal state."""
    return np.zeros(len(rows), bool) if data.terminated is None else data.terminated[data.episode_of(rows)]


class WindowValue(nn.Module):
    """The value of noisy windows (B, T, D) at times (B,): a number for each, in units of its own."""

    def __init__(self, columns: int, config: DiffuserConfig) -> None:
        super().__init__()
        shape = columns, config.horizon, config.width, config.multipliers, _time_sizes(config)
        self.encoder = SequenceEncoder(*shape, features=_VALUE_FEATURES)
        self.outward = nn.Sequential(nn.Mish(), nn.Linear(_VALUE_FEATURES, 1))

    def forward(self, windows: Tensor, times: Tensor) -> Tensor:
        """(B, T, D), (B,) -> (B,)."""
        return self.outward(self.encoder(windows, times)).squeeze(-1)


def _time_sizes(config: DiffuserConfig) -> tuple[int, int, int]:
    return config.width, 4 * config.width, config.width


class Diffuser(PlannerModel):
    """Plans states and actions together, so it acts without an agent."""

    name = "diffuser"
    plans_actions = True
    config_class = DiffuserConfig
    value_scale: Tensor  # (2,) mean and deviation of returns

    def __init__(self, config: DiffuserConfig, sizes: dict[str, int]) -> None:
        super().__init__(config, sizes)
        self.process = CosineProcess(config.diffusion_steps)
        self.states = Scale(sizes["observation"], sizes.get("angles", 0))
        self.actions = Scale(sizes["action"])
        columns = sizes["action"] + sizes["observation"]
        self.net = TemporalUnet(columns, config.width, config.multipliers, _time_sizes(config), bypass=config.bypass)
        self.ema = EMA(self.net, config.ema, warmup=True)
        self.value = WindowValue(columns, config) if sizes["rewards"] else None
        self.value_ema = EMA(self.value, config.ema, warmup=True) if self.value else None
        self.register_buffer("value_scale", torch.tensor([0.0, 1.0]))
        self._returns: tuple[Trajectories, Array] | None = None  # of the data that batches are drawn from

    @classmethod
    def for_data(cls, config: DiffuserConfig, data: Trajectories, **sizes: int) -> Self:
        """Sized and scaled for states, actions and returns of a dataset."""
        if data.actions is None:
            raise BadInput("Diffuser plans actions, but this dataset has none; use a planner of positions, such as hd")
        observation = feature_sizes("observation", data.observations.shape[1], data.meta.angles)
        has_rewards = int(data.rewards is not None)
        model = cls(config, {**observation, "action": data.actions.shape[1], "rewards": has_rewards})
        model.states.fit_angles(data.observations, data.meta.angles)
        model.states.fit(Normalizer.fit(model.states.array_features(data.observations)))
        model.actions.fit(Normalizer.fit(data.actions))
        if has_rewards:
            returns = model.returns_of(data)
            model.value_scale.copy_(torch.tensor([returns.mean(), max(float(returns.std()), 1e-6)]))
        return model

    @property
    def columns(self) -> tuple[int, ...]:
        """All columns of an observation."""
        return tuple(range(self.states.columns))

    def returns_of(self, data: Trajectories) -> Array:
        """The return from each row of a dataset (N,), computed once."""
        if self._returns is None or self._returns[0] is not data:
            config = self.config
            self._returns = data, returns_to_go(data, config.discount, config.termination_penalty)
        return self._returns[1]

    def batch(self, data: Trajectories, size: int, rng: np.random.Generator) -> Batch:
        """Windows that begin at any transition, and which of their states and actions are known (B, H).

        Past the end of an episode its last state is repeated, and actions are 0. That is what happens after a terminal
        state: nothing. Where a recording only ends, what comes next is not known, nor what its last action did.
        """
        assert data.actions is not None
        rows = data.random_rows(2, size, rng)
        steps, last = rows[:, None] + np.arange(self.config.horizon), data.last_row_of(rows)[:, None]
        window, ends = np.minimum(steps, last), _are_terminal(data, rows)[:, None]
        batch = {
            "states": data.observations[window],
            "actions": np.where((steps > last)[..., None], 0, data.actions[window]).astype(np.float32),
            "states_known": (steps <= last) | ends,
            "actions_known": (steps < last) | ends,
        }
        if self.value is not None:
            batch["returns"] = self.returns_of(data)[rows]
        return {name: torch.from_numpy(values) for name, values in batch.items()}

    def loss(self, batch: Batch, generator: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
        """Denoising error of windows, and the error of the value of noisy windows; they share no weights."""
        clean = self.windows(batch["states"], batch["actions"])
        steps = torch.randint(self.process.steps, (len(clean),), generator=generator).to(clean.device)
        noise = torch.randn(clean.shape, generator=generator).to(clean.device)
        given = self._given(clean)
        noisy, times = torch.where(given, clean, self.process.noised(clean, steps, noise)), self.process.times(steps)
        change = clean - self._present(clean)
        target = target_at(self.config.prediction, change, noise, *self.process.levels(steps))
        errors = (self.net(noisy, times) - target).square().masked_fill(given | ~self._known(batch), 0.0)
        weights = torch.ones_like(clean[0])
        weights[0, : self.sizes["action"]] = self.config.first_action_weight
        losses = {"denoising": (weights * errors).mean()}
        if self.value is not None:
            mean, deviation = self.value_scale
            returns = (batch["returns"] - mean) / deviation
            losses["value"] = (self.value(noisy, times) - returns).square().mean()
        return torch.stack(list(losses.values())).sum(), losses

    def ema_copies(self) -> list[tuple[EMA, nn.Module]]:
        """The averaged weights that plan."""
        pairs: list[tuple[EMA, nn.Module]] = [(self.ema, self.net)]
        return [*pairs, (self.value_ema, self.value)] if self.value and self.value_ema else pairs

    def windows(self, states: Tensor, actions: Tensor) -> Tensor:
        """States and actions in data units -> normalised windows [action, state]."""
        return torch.cat([self.actions(actions), self.states(states)], dim=-1)

    def _present(self, windows: Tensor) -> Tensor:
        """The first state of windows, in the place of every state (B, 1, D), if what is put out is relative to it."""
        present = torch.zeros_like(windows[:, :1])
        if self.config.relative:
            present[..., self.sizes["action"] :] = windows[:, :1, self.sizes["action"] :]
        return present

    def _known(self, batch: Batch) -> Tensor:
        """True where windows (B, H, D) show what happened."""
        parts = (batch["actions_known"], self.sizes["action"]), (batch["states_known"], self.sizes["observation"])
        return torch.cat([known[..., None].expand(-1, -1, columns) for known, columns in parts], dim=-1)

    def _given(self, windows: Tensor) -> Tensor:
        """True where windows (B, H, D) are given (H, D): the first state; the last one too where there is no value."""
        given = torch.zeros(windows.shape[1:], dtype=torch.bool, device=windows.device)
        given[0, self.sizes["action"] :] = True
        if self.value is None:
            given[-1, self.sizes["action"] :] = True
        return given

    # ------------------------------------------------------------------------------------------------------- planning

    def plan(self, start: Array, goal: Array | None, seeds: Sequence[int]) -> list[Plan]:
        """The most valuable of several plans from each start (B, O), drawn from noise; to its goal if there is one."""
        return self._draw(start, goal, seeds, None)

    def replan(
        self, plans: Sequence[Plan], steps: Sequence[int], start: Array, goal: Array | None, seeds: Sequence[int]
    ) -> list[Plan]:
        """Plans drawn from those before, of which so many steps are done, with noise of a few steps; or from noise."""
        if self.config.guidance.warm_steps is None:
            return self.plan(start, goal, seeds)
        return self._draw(start, goal, seeds, self._rest(plans, steps))

    def fill_in(self, plans: Sequence[Plan], first: Sequence[int], last: Sequence[int]) -> None:
        """Plans are drawn as a whole."""

    def _rest(self, plans: Sequence[Plan], steps: Sequence[int]) -> Tensor:
        """What is left of plans, normalised (B, H, D); their last state and action are repeated."""
        index = np.minimum(np.arange(self.config.horizon) + np.array(steps)[:, None], self.config.horizon - 1)
        states = np.stack([plan.positions[own] for plan, own in zip(plans, index, strict=True)])
        actions = np.stack([plan.planned_actions[own] for plan, own in zip(plans, index, strict=True)])
        return self.windows(*(torch.from_numpy(values).to(self.device) for values in (states, actions)))

    @torch.no_grad()
    def _draw(self, start: Array, goal: Array | None, seeds: Sequence[int], rest: Tensor | None) -> list[Plan]:
        if start.shape[-1] != self.states.columns:
            raise BadInput(f"this planner expects {self.states.columns} observation columns, got {start.shape[-1]}")
        count = self.config.guidance.candidates if self.value is not None else 1
        kept = [None if ends is None else ends.astype(np.float32) for ends in (start, goal)]
        share = max(1, _WINDOWS_PER_CALL // count)
        plans: list[Plan] = []
        for begin in range(0, len(start), share):
            part = slice(begin, begin + share)
            ends = [None if values is None else values[part] for values in kept]
            drawn = self._best(ends, seeds[part], None if rest is None else rest[part], count)
            plans += self._plans(drawn, ends, seeds[part])
        return plans

    def _best(self, ends: Sequence[Array | None], seeds: Sequence[int], rest: Tensor | None, count: int) -> Tensor:
        """The most valuable of `count` windows (B, H, D) for each start and goal, in normalised units."""
        config, device, batch = self.config, self.device, len(seeds)
        shape = count, config.horizon, self.actions.columns + self.sizes["observation"]
        streams = [Seeds(seed).stream("windows") for seed in seeds]

        def noise() -> Tensor:
            drawn = np.concatenate([own.standard_normal(shape, dtype=np.float32) for own in streams])
            return torch.from_numpy(drawn).to(device)

        scaled = [None if end is None else self.states(torch.from_numpy(end).to(device)) for end in ends]
        scaled = [None if end is None else end.repeat_interleave(count, dim=0) for end in scaled]

        def clamp(windows: Tensor) -> Tensor:
            windows = windows.clone()
            for place, end in zip((0, -1), scaled, strict=True):
                if end is not None:
                    windows[:, place, self.actions.columns :] = end
            return windows

        first, sequence = config.diffusion_steps - 1, noise()
        if rest is not None:
            first = config.guidance.warm_steps - 1
            level = torch.full((batch * count,), first, device=device)
            sequence = self.process.noised(rest.repeat_interleave(count, dim=0), level, sequence)
        noisy = guided_sample(
            self.process, self._denoise, clamp, sequence, noise, first=first, value=self._guide(), **self._guidance()
        )
        if self.value is not None:
            values = self.values(noisy, 0).view(batch, count)  # it has never seen a clean window
            noisy = noisy.view(batch, *shape)[torch.arange(batch, device=device), values.argmax(1)]
        return self._denoise(noisy, 0)

    def _guidance(self) -> dict[str, Any]:
        guidance = self.config.guidance
        return {"scale": guidance.scale, "climbs": guidance.climbs, "last_guided": guidance.last_guided}

    def _guide(self) -> Any:
        return None if self.value is None else self.values

    def _denoise(self, windows: Tensor, step: int) -> Tensor:
        steps = torch.tensor([step], device=windows.device)  # one for all windows: it is embedded once
        output, present = self.ema(windows, self.process.times(steps)), self._present(windows)
        alpha, sigma = self.process.levels(steps)
        return present + clean_at(self.config.prediction, output, windows - alpha * present, alpha, sigma)

    def values(self, windows: Tensor, step: int) -> Tensor:
        """The returns that noisy windows promise (B,), in units of the rewards."""
        assert self.value_ema is not None
        mean, deviation = self.value_scale
        time = self.process.times(torch.tensor([step], device=windows.device))
        return mean + deviation * self.value_ema(windows, time)

    def _plans(self, windows: Tensor, ends: Sequence[Array | None], seeds: Sequence[int]) -> list[Plan]:
        """Windows in data units; given states are kept to the bit, which scaling back and forth would round."""
        actions, states = windows.split([self.actions.columns, windows.shape[-1] - self.actions.columns], dim=-1)
        positions, planned = self.states.inverse(states).cpu().numpy(), self.actions.inverse(actions).cpu().numpy()
        for place, end in zip((0, -1), ends, strict=True):
            if end is not None:
                positions[:, place] = end
        return [Plan(own, seed, done) for own, seed, done in zip(positions, seeds, planned, strict=True)]

    # ------------------------------------------------------------------------------------------------------- settings

    @classmethod
    def configure(cls, spec: DatasetSpec, states: int, profile: Profile) -> DiffuserConfig:
        """The reference settings at the profile's scale; plans to a goal are as long as trajectories are."""
        config = replace(DiffuserConfig(), **_SCALES[profile])
        if spec.reference_returns is not None:
            return config
        multiple = 2 ** (len(config.multipliers) - 1)
        return replace(config, horizon=max(1, min(states, _LONGEST) // multiple) * multiple)


_LONGEST = 512  # states of a plan to a goal

_SCALES: dict[Profile, dict[str, Any]] = {
    "smoke": {  # seconds: everything runs, nothing is learned well
        "width": 8,
        "multipliers": (1, 2),
        "diffusion_steps": 4,
        "relative": True,
        "bypass": True,
        "ema": 0.9,
        "guidance": GuidanceConfig(candidates=4, climbs=1),
        "training": TrainingConfig(steps=60, batch_size=32, learning_rate=1e-3),
    },
    "laptop": {  # two CPU cores: a plan for every step of 50 episodes within minutes
        "width": 16,
        "multipliers": (1, 2, 4),
        "diffusion_steps": 10,
        "relative": True,
        "bypass": True,
        "ema": 0.995,
        "guidance": GuidanceConfig(candidates=16, scale=0.3, climbs=1, last_guided=1),  # climbs as far as at `paper`
        "training": TrainingConfig(steps=30_000, batch_size=64, learning_rate=1e-3, schedule="cosine", warmup=200),
    },
    "paper": {},  # the reference sizes and training lengths: for a GPU
}
"""Profile -> fields."""
