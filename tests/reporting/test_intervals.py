"""Intervals of success rates: closed forms, and how often they hold the true rate."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from scipy import stats

from scots.reporting.intervals import SuccessRate, success_rate


def counts(*trainings: tuple[int, ...], episodes: int = 50) -> list[dict[str, Any]]:
    """Rows of so many successes by training and task."""
    return [
        {"training_seed": seed, "task": task, "episodes": episodes, "successes": count}
        for seed, own in enumerate(trainings)
        for task, count in enumerate(own, start=1)
    ]


@pytest.mark.parametrize("count", [0, 50])
def test_where_all_episodes_end_alike_the_interval_is_exact(count: int):
    """With none of n, a rate p is rejected where (1 - p)^n falls below 2.5 %; for 250 episodes 1.5 %."""
    rate, edge = success_rate(counts((count,) * 5)), 1 - 0.025 ** (1 / 250)
    assert edge == pytest.approx(0.0146, abs=1e-4)
    assert (rate.low, rate.high) == pytest.approx((0.0, edge) if count == 0 else (1 - edge, 1.0))


def test_one_training_has_the_interval_of_its_episodes():
    """Half of 250 episodes: a standard error of 3.16 points."""
    rate = success_rate(counts((25,) * 5))
    assert rate.mean == 0.5
    assert rate.high - rate.low == pytest.approx(2 * 1.96 * (0.25 / 250) ** 0.5, rel=0.1)


def test_trainings_that_differ_widen_the_interval():
    """Three of 60 and three of 100 %: the spread is that of trainings, not of 1,500 episodes."""
    alike, apart = success_rate(counts(*[(40,) * 5] * 6)), success_rate(counts(*[(30,) * 5] * 3, *[(50,) * 5] * 3))
    assert alike.mean == apart.mean == pytest.approx(0.8)
    assert apart.high - apart.low > 3 * (alike.high - alike.low)
    assert apart.high - apart.low == pytest.approx(2 * 1.96 * 0.2 / 6**0.5, rel=0.2)


def test_every_training_counts_the_same_however_often_it_was_evaluated():
    rows = [*counts((50,) * 5, (0,) * 5), *counts((50,) * 5)]  # the first one evaluated twice
    assert success_rate(rows).mean == 0.5


@pytest.mark.parametrize("count", [1, 17, 49])
def test_one_task_has_the_exact_binomial_interval(count: int):
    rate = success_rate(counts((count,)))
    exact = stats.binomtest(count, 50).proportion_ci(0.95, method="exact")
    assert (rate.low, rate.high) == pytest.approx((exact.low, exact.high), abs=0.006)


def test_tasks_that_always_and_tasks_that_never_succeed_leave_room():
    """It was once 80.0 [80.0, 80.0]: 200 of 200 and 0 of 50 have exact limits, and each end moves by one of them."""
    rate = success_rate(counts((50, 50, 50, 50, 0)))
    assert rate.low == pytest.approx(0.8 * 0.025 ** (1 / 200), abs=0.001)
    assert rate.high == pytest.approx(0.8 + 0.2 * (1 - 0.025 ** (1 / 50)), abs=0.001)


def test_success_and_failure_mirror_each_other():
    rate, mirrored = success_rate(counts((50, 44, 3, 20, 0))), success_rate(counts((0, 6, 47, 30, 50)))
    assert (mirrored.low, mirrored.high) == pytest.approx((1 - rate.high, 1 - rate.low), abs=0.004)


def test_one_failure_among_many_tasks_costs_little():
    """749 of 750 by themselves have 99.3 to 100.0 %, all of them 99.5: fifteen separate tasks once seemed far worse."""
    rate = success_rate(counts((50,) * 5, (50,) * 5, (50, 50, 50, 50, 49)))
    assert rate.low > 0.985
    assert rate.low < rate.mean < rate.high


@pytest.mark.parametrize(
    ("rates", "trainings"),
    [
        ((1, 1, 1, 1, 0.03), 1),  # whose resampled episodes are all alike every fifth time
        ((0.995, 0.995, 1, 1, 0.01), 1),
        ((0.98,) * 5, 1),
        ((0.5,) * 5, 1),
        ((0.2, 0.5, 0.9, 0.97, 1), 1),
        ((0.99,) * 5, 3),
    ],
)
def test_intervals_hold_the_true_rate_as_often_as_they_say(rates: Sequence[float], trainings: int):
    """In 300 repetitions 95 % have a standard error of 1.3 points."""
    rng, true = np.random.default_rng(0), float(np.mean(rates))
    found = [success_rate(counts(*rng.binomial(50, rates, size=(trainings, 5)).tolist())) for _ in range(300)]
    assert np.mean([rate.low <= true + 1e-9 and true - 1e-9 <= rate.high for rate in found]) > 0.92
    width = np.mean([rate.high - rate.low for rate in found])
    assert width < 0.02 + 2 * 1.96 * np.sqrt(sum(p * (1 - p) for p in rates) / 50 / 25 / trainings)


def test_a_rate_reads_as_per_cent():
    assert str(SuccessRate(0.8, 0.785, 0.814)) == "80.0 [78.5, 81.4]"
