"""Rewards and endings of stitched trajectories: exact where they can be, learned where they must be."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from scots.augmenters import AUGMENTERS
from scots.augmenters.refinement import InverseDynamicsConfig
from scots.augmenters.rewards import (
    RewardModel,
    TerminationModel,
    environment_ends,
    is_terminal_row,
    kept_states,
    label_rewards,
    until_terminal,
)
from scots.core.errors import BadInput
from scots.data import formats
from scots.data.trajectories import Meta, Trajectories, offsets_from_lengths
from scots.datasets.specs import SPECS, spec_of
from scots.envs.locomotion import RUNNERS
from scots.models.training import TrainingConfig, fit

QUICK = InverseDynamicsConfig(hidden=(64,), dropout=0.0, training=TrainingConfig(1500, 256, 3e-3, schedule="cosine"))


def walks(episodes: int = 40, longest: int = 60, seed: int = 0) -> Trajectories:
    """A point in the plane that drifts to the right and is done beyond x = 1; reward 2 x - y + 3 a_0 - a_1."""
    rng = np.random.default_rng(seed)
    parts = []
    for _ in range(episodes):
        states, actions = [rng.uniform(-1, 0.5, 2)], []
        while len(states) < longest and states[-1][0] <= 1:
            actions.append(np.clip(rng.normal([0.3, 0], 0.5), -1, 1))
            states.append(states[-1] + 0.1 * actions[-1])
        parts.append((np.stack(states), np.stack([*actions, np.zeros(2)]) if actions else np.zeros((1, 2))))
    observations, moves = (np.concatenate(values).astype(np.float32) for values in zip(*parts, strict=True))
    offsets = offsets_from_lengths([len(states) for states, _ in parts])
    rewards = observations @ [2, -1] + moves @ [3, -1]
    rewards[offsets[1:] - 1] = 0
    terminated = observations[offsets[1:] - 1, 0] > 1
    return Trajectories(
        observations, offsets, moves, rewards=rewards, terminated=terminated,
        meta=Meta("walks", columns=("x", "y"), position=(0, 1)),
    )  # fmt: skip


DATA = walks()


# ------------------------------------------------------------------------------------------------------------- models


@pytest.mark.slow
def test_a_linear_reward_is_learned():
    torch.manual_seed(0)
    model = fit(RewardModel.for_data(QUICK, DATA), DATA, seed=0)
    rng = np.random.default_rng(9)
    states, actions = (rng.uniform(-0.8, 0.8, (500, 2)).astype(np.float32) for _ in range(2))
    expected = states @ [2, -1] + actions @ [3, -1]
    error = model.label(states, actions) - expected
    assert np.square(error).mean() < 0.01 * expected.var()


@pytest.mark.slow
def test_a_limit_is_learned_from_where_episodes_ended():
    torch.manual_seed(0)
    model = fit(TerminationModel.for_data(QUICK, DATA), DATA, seed=0)
    x = np.concatenate([np.linspace(-1, 0.9, 200), np.linspace(1.03, 1.12, 50)])
    states = np.stack([x, np.zeros_like(x)], axis=1).astype(np.float32)
    assert (model.ends(states) == (x > 1)).mean() > 0.97


def test_an_answer_is_corrected_for_the_share_of_terminal_states():
    """Balanced batches, and a network that cannot tell: a state is terminal only if most states are."""
    model = TerminationModel.for_data(QUICK, DATA)
    batch = model.batch(DATA, 4000, np.random.default_rng(0))
    assert 0.45 < float(batch["terminal"].mean()) < 0.55
    share = is_terminal_row(DATA).mean()
    assert float(model.prior) == pytest.approx(np.log(share / (1 - share)), rel=1e-5)
    model.net[-1].weight.data.zero_()
    assert not model.ends(DATA.observations[:50]).any()
    model.prior.fill_(1.0)
    assert model.ends(DATA.observations[:50]).all()


def test_what_cannot_be_learned_is_refused():
    with pytest.raises(BadInput, match="no reward can be learned"):
        RewardModel.for_data(QUICK, replace(DATA, rewards=None))
    with pytest.raises(BadInput, match="no episode of this dataset ended in a terminal state"):
        TerminationModel.for_data(QUICK, replace(DATA, terminated=np.zeros(len(DATA), bool)))


# -------------------------------------------------------------------------------------------------------------- rules


def test_terminal_rows_are_the_last_ones_of_terminated_episodes():
    flags = is_terminal_row(DATA)
    assert np.flatnonzero(flags).tolist() == (DATA.offsets[1:][DATA.terminated] - 1).tolist()
    assert not is_terminal_row(replace(DATA, terminated=None)).any()


@pytest.mark.parametrize("body", RUNNERS)
def test_the_rule_of_an_environment_comes_first(body: str):
    meta = SPECS[f"{body}-medium-v2"].collection.meta()
    fallen = np.zeros((1, len(meta.columns)), np.float32)
    assert environment_ends(meta)(fallen).tolist() == [True]
    for other in (Meta(), Meta(environment="pointmaze-giant-v0"), Meta(environment="own")):
        assert environment_ends(other) is None


@settings(deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans()), min_size=1, max_size=20))
def test_a_trajectory_is_cut_at_its_first_ending(flags: list[tuple[bool, bool, bool]]):
    """Against a naive loop: a recorded state ends it if it is terminal, a made one if the rule says so."""
    terminal, made, ends = (np.array(column) for column in zip(*flags, strict=True))
    states = ends[:, None].astype(np.float32)
    for rule, decides in ((lambda some: some[:, 0] > 0.5, ends), (None, np.zeros(len(flags), bool))):
        over = np.where(made, decides, terminal)
        expected = next(((n + 1, True) for n, end in enumerate(over) if end), (len(flags), False))
        assert kept_states(states, np.arange(len(flags)), made, terminal, rule) == expected


def test_nothing_is_stitched_to_a_terminal_row():
    terminal = np.isin(np.arange(10), [3, 7])
    assert until_terminal(np.array([0, 1, 6, 7, 2, 3]), terminal).tolist() == [0, 1, 6, 7]
    assert until_terminal(np.array([0, 1, 2, 5]), terminal).tolist() == [0, 1, 2, 5]


class Constant:
    """A reward model that says 100 and counts what it was asked."""

    def __init__(self) -> None:
        self.asked: list[list[float]] = []

    def label(self, states, actions):
        self.asked += states.tolist()
        return np.full(len(states), 100, np.float32)


def test_recorded_rewards_are_kept_where_steps_are_and_others_are_labelled():
    rows = np.array([3, 4, 5, 20, 21, 22])  # a join after the third
    made = np.array([False, False, False, False, True, False])
    states, recorded = rows[:, None].astype(np.float32), np.arange(30, dtype=np.float32)
    model = Constant()
    rewards = label_rewards(states, states, rows, made, recorded, model, keep_actions=True)
    assert rewards.tolist() == [3, 4, 100, 100, 100, 0]
    assert model.asked == [[5], [20], [21]]
    assert label_rewards(states, states, rows, made, recorded, model, keep_actions=False).tolist() == [100] * 5 + [0]
    assert label_rewards(states[:1], states[:1], rows[:1], made[:1], recorded, model, True).tolist() == [0]


# ----------------------------------------------------------------------------------------------------------- as a whole


@pytest.mark.slow
def test_stitched_data_carries_rewards_and_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Every trajectory ends at its first terminal state or goes on to its full length; rewards are those of states."""
    monkeypatch.setenv("SCOTS_HOME", str(tmp_path / "home"))
    scots = AUGMENTERS["scots"]
    config = scots.configure(spec_of(DATA), "smoke").replace_all(
        {"stitching.segment": 5, "stitching.min_displacement": None, "trajectories": 30, "inverse.training.steps": 800}
    )
    files = [tmp_path / f"{workers}.npz" for workers in (1, 2)]
    for workers, path in enumerate(files, start=1):
        scots.augment(DATA, config, seed=0, out=path, profile="smoke", workers=workers)
    assert files[0].read_bytes() == files[1].read_bytes()
    aug, terminal = formats.read(files[0]), is_terminal_row(DATA)
    assert set(dict(aug.arrays())) >= {"actions", "rewards", "source", "scores", "generated"}
    assert 0 < aug.terminated.sum() < len(aug)
    assert (aug.lengths[~aug.terminated] == config.stitching.states).all()
    for episode, over in zip(aug.episodes(), aug.terminated, strict=True):
        ended = terminal[episode.source]
        assert not ended[:-1].any()
        assert ended[-1] <= over
        assert not (ended & (episode.generated > 0)).any()  # it ends at the state that was recorded
        assert episode.rewards[-1] == 0
    steps = aug.window_starts(2)
    expected = aug.observations[steps] @ [2, -1] + aug.actions[steps] @ [3, -1]
    assert np.square(aug.rewards[steps] - expected).mean() < 0.2 * expected.var()


@pytest.mark.slow
def test_data_without_rewards_is_stitched_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SCOTS_HOME", str(tmp_path / "home"))
    data, scots = replace(DATA, rewards=None, terminated=None), AUGMENTERS["scots"]
    config = scots.configure(spec_of(data), "smoke").replace_all({"stitching.segment": 5, "trajectories": 3})
    aug = scots.augment(data, config, seed=0, out=tmp_path / "a.npz", profile="smoke", workers=1)
    assert aug.rewards is None
    assert aug.terminated is None
    assert set(aug.lengths) == {config.stitching.states}
