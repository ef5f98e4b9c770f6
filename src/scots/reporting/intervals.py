"""Success rates and their 95 % intervals, over trainings, tasks and episodes.

A task is a binomial of its own. Five tasks of which four always succeed and one never does say more than 200 of 250
episodes, but they do not say everything: 50 of 50 leaves room for a rate of 93 %. An interval of resampled episodes
alone would have no width there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from scots.data.trajectories import Array
from scots.reporting.rows import Row

_DRAWS = 4000
_CONFIDENCE = 0.95


@dataclass(frozen=True)
class SuccessRate:
    """Share of episodes that reached their goal: the mean over trainings, tasks and seeds, and its 95 % interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{100 * self.mean:.1f} [{100 * self.low:.1f}, {100 * self.high:.1f}]"


def success_rate(rows: Sequence[Row]) -> SuccessRate:
    """The mean over rows, each a task under a seed, and its interval: every training counts the same.

    For either end of the interval trainings are drawn anew, and the rate of each of their tasks from what its episodes
    leave possible. For one task this is the exact binomial interval (Clopper and Pearson), and so it is, over all
    episodes, where all of them end alike.
    """
    trainings = [np.array(list(_by_task(own))) for own in _grouped(rows, "training_seed")]
    mean = float(np.mean([np.mean(tasks[:, 0] / tasks.sum(axis=1)) for tasks in trainings]))
    if mean in (0.0, 1.0):
        edge = 1 - ((1 - _CONFIDENCE) / 2) ** (1 / sum(row["episodes"] for row in rows))
        return SuccessRate(mean, max(0.0, mean - edge), min(1.0, mean + edge))
    rng, tail = np.random.default_rng(0), (1 - _CONFIDENCE) / 2
    low = np.quantile(_drawn_means(trainings, rng), tail)
    failing = np.quantile(_drawn_means([own[:, ::-1] for own in trainings], rng), tail)
    return SuccessRate(mean, float(low), 1 - float(failing))


def _grouped(rows: Sequence[Row], name: str) -> list[list[Row]]:
    return [[row for row in rows if row[name] == value] for value in dict.fromkeys(row[name] for row in rows)]


def _by_task(rows: Sequence[Row]) -> Iterator[tuple[int, int]]:
    """Successes and failures of each task."""
    for own in _grouped(rows, "task"):
        successes = sum(row["successes"] for row in own)
        yield successes, sum(row["episodes"] for row in own) - successes


def _drawn_means(trainings: Sequence[Array], rng: np.random.Generator) -> Array:
    """Means over trainings drawn anew, of which each has (tasks, 2) successes and failures: (draws,)."""
    rates = _low_rates(np.concatenate(trainings), rng)
    ends = np.cumsum([len(own) for own in trainings])[:-1]
    means = np.stack([own.mean(axis=1) for own in np.split(rates, ends, axis=1)], axis=1)  # (draws, trainings)
    chosen = rng.integers(len(trainings), size=means.shape)
    return np.take_along_axis(means, chosen, axis=1).mean(axis=1)


def _low_rates(counts: Array, rng: np.random.Generator) -> Array:
    """Rates of tasks by their (tasks, 2) successes and failures, on the low side: (draws, tasks).

    Clopper and Pearson's lower limit for s of n is a quantile of Beta(s, n - s + 1): one failure more than was seen.
    That failure is shared among the tasks, as their sum would have it. Tasks that never failed are one sample: each of
    its own would add a failure, and many tasks at 100 % would seem worse than one of as many episodes.
    """
    successes, failures = counts.T
    rates = np.zeros((_DRAWS, len(counts)))
    flawless, mixed = failures == 0, (successes > 0) & (failures > 0)
    if flawless.any():
        rates[:, flawless] = rng.beta(successes[flawless].sum(), 1, size=(_DRAWS, 1))
    if mixed.any():
        size = (_DRAWS, int(mixed.sum()))
        rates[:, mixed] = rng.beta(successes[mixed], failures[mixed] + 1 / size[1], size=size)
    return rates
