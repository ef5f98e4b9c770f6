"""Returns before and after augmentation against sums by hand, and the error of a reward model that is known."""

import numpy as np
import pytest

from scots.data.trajectories import Trajectories, offsets_from_lengths
from scots.reporting.returns import measure_returns, measure_reward_error, returns_of, returns_table


def rewarded(rewards: list[list[float]], terminated: list[bool] | None = None) -> Trajectories:
    rows = sum(map(len, rewards))
    offsets = offsets_from_lengths([len(own) for own in rewards])
    actions = np.arange(rows, dtype=np.float32)[:, None]
    return Trajectories(np.zeros((rows, 2)), offsets, actions, rewards=np.concatenate(rewards), terminated=terminated)


RECORDED = rewarded([[1, 2, 0], [5, 0], [0, 0, 0, 0]], [True, False, False])
AUGMENTED = rewarded([[5, 1, 0], [5, 0], [4, 4, 4, 0], [-1, 0]], [True, True, False, False])


def test_returns_are_sums_of_rewards():
    assert returns_of(RECORDED).tolist() == [3, 5, 0]
    assert returns_of(AUGMENTED).tolist() == [6, 5, 12, -1]


def test_both_datasets_are_compared():
    found = measure_returns(RECORDED, AUGMENTED)
    assert (found.original.mean, found.augmented.mean) == pytest.approx((8 / 3, 22 / 4))
    assert (found.original.best, found.augmented.best) == (5, 12)
    assert found.beyond_best == 0.5  # of four, those of 6 and 12 exceed 5
    assert (found.original.terminated, found.augmented.terminated) == pytest.approx((1 / 3, 1 / 2))
    assert found.original.per_step == pytest.approx(8 / 6)  # nine rows, of which the last of each has no step
    assert found.original.returns.median == 3


def test_without_rewards_there_is_nothing_to_compare():
    bare = Trajectories(np.zeros((2, 2)), [0, 2])
    assert measure_returns(bare, AUGMENTED) is None
    assert measure_returns(RECORDED, bare) is None


class OneMore:
    """Predicts that every reward is its action plus one."""

    def label(self, states, actions):
        return actions[:, 0] + 1


def test_the_error_of_a_model_is_that_on_recorded_transitions():
    data = rewarded([list(range(50))])  # the reward of every row is its action
    found = measure_reward_error(data, OneMore(), True, 4000, np.random.default_rng(0))
    assert (found.error, found.held_out, found.transitions) == (1.0, True, 4000)
    assert found.variance == pytest.approx((49**2 - 1) / 12, rel=0.05)  # uniform over 0 to 48
    text = returns_table(measure_returns(RECORDED, AUGMENTED, found)).text()
    assert "50.0% of the augmented trajectories earn more than any recorded one." in text
    assert "error 1 of variance" in text
    assert "held-out data" in text
