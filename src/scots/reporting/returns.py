"""What trajectories earn before and after augmentation, and how well learned rewards predict recorded ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scots.augmenters.rewards import RewardModel
from scots.core.config import Config
from scots.data.trajectories import Array, Trajectories
from scots.reporting.document import TableBlock
from scots.reporting.metrics import Quantiles


@dataclass(frozen=True)
class Earnings(Config):
    """What the trajectories of one dataset earn."""

    mean: float  # undiscounted sum of rewards
    returns: Quantiles
    best: float
    per_step: float  # mean reward
    terminated: float | None  # share of trajectories that ended in a terminal state, if that is known


@dataclass(frozen=True)
class RewardError(Config):
    """How well the reward model predicts recorded rewards."""

    transitions: int
    held_out: bool
    error: float  # mean squared
    variance: float


@dataclass(frozen=True)
class Returns(Config):
    """Both datasets."""

    original: Earnings
    augmented: Earnings
    beyond_best: float  # share of augmented trajectories that earn more than any recorded one
    model: RewardError | None  # none where the model is not cached


def returns_of(data: Trajectories) -> Array:
    """The undiscounted return of each trajectory (E,)."""
    assert data.rewards is not None
    return np.add.reduceat(data.rewards.astype(np.float64), data.offsets[:-1])


def measure_returns(data: Trajectories, aug: Trajectories, model: RewardError | None = None) -> Returns | None:
    """Returns of both datasets; None unless both have rewards."""
    if data.rewards is None or aug.rewards is None:
        return None
    before, after = _earnings(data), _earnings(aug)
    return Returns(before, after, float((returns_of(aug) > before.best).mean()), model)


def _earnings(data: Trajectories) -> Earnings:
    assert data.rewards is not None
    returns = returns_of(data)
    ended = None if data.terminated is None else float(data.terminated.mean())
    per_step = float(returns.sum() / max(1, data.rows - len(data)))
    return Earnings(float(returns.mean()), Quantiles.of(returns), float(returns.max()), per_step, ended)


def measure_reward_error(
    data: Trajectories, model: RewardModel, held_out: bool, count: int, rng: np.random.Generator
) -> RewardError:
    """Error of predicting the rewards of recorded transitions."""
    assert data.actions is not None
    assert data.rewards is not None
    rows = data.random_rows(2, count, rng)
    error = model.label(data.observations[rows], data.actions[rows]) - data.rewards[rows]
    return RewardError(count, held_out, float(np.square(error).mean()), float(data.rewards[rows].var()))


def returns_table(found: Returns) -> TableBlock:
    """Both datasets side by side."""
    before, after = found.original, found.augmented
    rows = [
        ("mean return", f"{before.mean:.1f}", f"{after.mean:.1f}"),
        ("median return (10 to 90 %)", _range(before.returns), _range(after.returns)),
        ("best return", f"{before.best:.1f}", f"{after.best:.1f}"),
        ("reward per step", f"{before.per_step:.3f}", f"{after.per_step:.3f}"),
    ]
    if before.terminated is not None and after.terminated is not None:
        rows.append(("ended in a terminal state", f"{before.terminated:.1%}", f"{after.terminated:.1%}"))
    caption = f"{found.beyond_best:.1%} of the augmented trajectories earn more than any recorded one."
    if found.model:
        where = "held-out" if found.model.held_out else "training"
        caption += f" Rewards are predicted with error {found.model.error:.3g} of variance {found.model.variance:.3g} "
        caption += f"on {where} data."
    return TableBlock(("", "original", "augmented"), rows, caption)


def _range(values: Quantiles) -> str:
    return f"{values.median:.1f} ({values.p10:.1f} to {values.p90:.1f})"
