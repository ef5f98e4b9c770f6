"""Diffuser: returns, windows, losses, and plans on a task whose best plans are known."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from scots.core.errors import BadInput
from scots.data.trajectories import Meta, Trajectories, offsets_from_lengths
from scots.datasets.specs import SPECS, spec_of
from scots.evaluation.action_control import ActionController
from scots.evaluation.control import PlanFollowing
from scots.models.ddpm import CosineProcess
from scots.models.diffusion import target_at
from scots.models.training import TrainingConfig, fit
from scots.planners.base import Plan
from scots.planners.diffuser import Diffuser, DiffuserConfig, GuidanceConfig, returns_to_go

SMALL = DiffuserConfig(
    horizon=8,
    diffusion_steps=5,
    width=16,
    multipliers=(1, 2),
    discount=0.9,
    termination_penalty=0.0,
    ema=0.95,
    relative=True,
    bypass=True,
    guidance=GuidanceConfig(candidates=8, scale=0.3, last_guided=1),
    training=TrainingConfig(steps=800, batch_size=64, learning_rate=3e-3, schedule="cosine", warmup=50),
)


def drift(episodes: int = 60, states: int = 30) -> Trajectories:
    """A walker on a line that moves by its action, a coin flip of +1 and -1 held for an episode; reward is the move."""
    rng = np.random.default_rng(0)
    signs = rng.choice([-1.0, 1.0], size=(episodes, 1))
    actions = signs * np.ones((episodes, states)) + rng.normal(0, 0.05, (episodes, states))
    positions = np.cumsum(np.concatenate([rng.uniform(-3, 3, (episodes, 1)), 0.2 * actions[:, :-1]], axis=1), axis=1)
    actions, rewards = actions.reshape(-1, 1), actions.reshape(-1)
    return Trajectories(
        positions.reshape(-1, 1), offsets_from_lengths([states] * episodes), actions, rewards=rewards,
        terminated=np.zeros(episodes, bool), meta=Meta("drift", columns=("x",), position=(0,)),
    )  # fmt: skip


# ------------------------------------------------------------------------------------------------------------ returns


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(1, 12), min_size=1, max_size=6), st.floats(0, 1), st.floats(0, 100), st.integers(0, 99))
def test_returns_are_those_of_a_naive_loop(lengths: list[int], discount: float, penalty: float, seed: int):
    rng = np.random.default_rng(seed)
    rows = sum(lengths)
    terminated = rng.random(len(lengths)) < 0.5
    data = Trajectories(
        np.zeros((rows, 1)), offsets_from_lengths(lengths), rewards=rng.normal(size=rows), terminated=terminated
    )
    expected = []
    for episode, fell in zip(data.episodes(), terminated, strict=True):
        rewards = episode.rewards.astype(float)
        rewards[-1] -= penalty * fell
        expected += [sum(discount**k * r for k, r in enumerate(rewards[t:])) for t in range(len(rewards))]
    np.testing.assert_allclose(returns_to_go(data, discount, penalty), expected, rtol=1e-4, atol=1e-4)


# ------------------------------------------------------------------------------------------------------------ batches


def test_windows_stay_in_their_episode_and_repeat_its_last_row():
    data = drift(5, 6)
    data = replace(data, observations=np.arange(data.rows, dtype=np.float32)[:, None])
    model = Diffuser.for_data(SMALL, data)
    batch = model.batch(data, 200, np.random.default_rng(0))
    rows = batch["states"][..., 0].numpy().astype(int)
    last = data.last_row_of(rows[:, 0])
    np.testing.assert_array_equal(rows, np.minimum(rows[:, :1] + np.arange(8), last[:, None]))
    assert (rows[:, 0] < last).all()
    np.testing.assert_allclose(batch["returns"], returns_to_go(data, 0.9)[rows[:, 0]])
    past = rows[:, :1] + np.arange(8) > last[:, None]
    np.testing.assert_array_equal(batch["actions"].numpy(), np.where(past[..., None], 0, data.actions[rows]))


def test_what_follows_is_known_after_a_fall_and_unknown_after_the_end_of_a_recording():
    data = drift(4, 6)
    data = replace(data, observations=np.arange(24, dtype=np.float32)[:, None], terminated=np.arange(4) % 2 == 0)
    model = Diffuser.for_data(SMALL, data)
    batch = model.batch(data, 200, np.random.default_rng(0))
    first = batch["states"][:, :1, 0].numpy().astype(int)
    steps, last, fell = first + np.arange(8), first // 6 * 6 + 5, first // 6 % 2 == 0
    np.testing.assert_array_equal(batch["states_known"], fell | (steps <= last))
    np.testing.assert_array_equal(batch["actions_known"], fell | (steps < last))
    assert (
        not Diffuser.for_data(SMALL, unended := replace(data, terminated=None))
        .batch(unended, 50, np.random.default_rng(0))["states_known"]
        .all()
    )


def test_what_is_not_known_adds_no_error():
    """A network that puts out zeros: whatever lies past the end, the denoising loss is the same."""
    data = drift(20, 6)
    model = Diffuser.for_data(SMALL, data)
    model.net.forward = lambda noisy, times: torch.zeros_like(noisy)
    batch = model.batch(data, 16, np.random.default_rng(0))
    other = dict(batch)
    for part in ("states", "actions"):
        other[part] = torch.where(batch[f"{part}_known"][..., None], batch[part], 5.0)
    losses = [model.loss(own, torch.Generator().manual_seed(0))[1]["denoising"] for own in (batch, other)]
    torch.testing.assert_close(*losses)


def test_the_first_state_adds_no_error_and_the_first_action_ten_times():
    """A network that puts out zeros: the error is the mean square of what is not given, weighted."""
    config = replace(SMALL, relative=False, bypass=False)
    data = replace(drift(), terminated=np.ones(60, bool))
    model = Diffuser.for_data(config, data)
    model.net.final[-1].weight.data.zero_()
    model.net.final[-1].bias.data.zero_()
    batch = model.batch(data, 16, np.random.default_rng(0))
    _, losses = model.loss(batch, torch.Generator().manual_seed(0))
    squares = model.windows(batch["states"], batch["actions"]).square()
    squares[:, 0, 1] = 0.0
    squares[:, 0, 0] *= 10
    torch.testing.assert_close(losses["denoising"], squares.mean())


@pytest.mark.parametrize("prediction", ["x0", "v", "eps"])
@pytest.mark.parametrize("relative", [True, False])
def test_a_network_without_error_gives_back_what_was_noised(prediction: str, relative: bool):
    data = drift()
    model = Diffuser.for_data(replace(SMALL, prediction=prediction, relative=relative), data)
    batch = model.batch(data, 5, np.random.default_rng(0))
    clean = model.windows(batch["states"], batch["actions"])
    steps, noise = torch.full((5,), 2), torch.randn(clean.shape)
    noisy = model.process.noised(clean, steps, noise)
    noisy[:, 0, 1:] = clean[:, 0, 1:]  # the present state is given
    change = clean.clone()
    if relative:
        change[..., 1:] -= clean[:, :1, 1:]
    perfect = target_at(prediction, change, noise, *model.process.levels(steps))
    model.ema.forward = lambda windows, times: perfect
    again = model._denoise(noisy, 2)
    torch.testing.assert_close(again[:, 1:], clean[:, 1:], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("relative", [True, False])
def test_the_best_window_alone_takes_the_last_step(relative: bool):
    """The slow form: all windows are denoised to the end, and the one is kept whose noisy form is worth most."""
    model = Diffuser.for_data(replace(SMALL, relative=relative), drift()).eval()
    denoise, values, calls = model._denoise, model.values, []

    def watched(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        def call(windows: torch.Tensor, step: int) -> torch.Tensor:
            calls.append((step, windows))
            return function(windows, step)

        return call

    model._denoise, model.values = watched(denoise), watched(values)
    plans = model.plan(STARTS, None, range(6))
    ranked, ended = (windows for step, windows in calls if step == 0)
    assert (len(ranked), len(ended)) == (6 * 8, 6)
    with torch.no_grad():
        best = values(ranked, 0).view(6, 8).argmax(1)
        slow = denoise(ranked, 0).view(6, 8, 8, 2)[torch.arange(6), best]
    np.testing.assert_allclose(moves(plans), model.actions.inverse(slow[..., :1])[:, :-1, 0], rtol=1e-4, atol=1e-5)


def test_shapes_of_values():
    model = Diffuser.for_data(SMALL, drift())
    for windows in (1, 5):
        assert model.values(torch.randn(windows, 8, 2), 3).shape == (windows,)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"horizon": 9}, "a horizon of 9 cannot be halved 1 times"),
        ({"guidance.warm_steps": 6}, "warm_steps 6 is more than the 5 steps"),
        ({"guidance.candidates": 0}, "must be at least 1"),
    ],
)
def test_impossible_settings_are_refused(change: dict[str, int], complaint: str):
    with pytest.raises(BadInput, match=complaint):
        SMALL.replace_all(change)


def test_data_without_actions_is_refused():
    with pytest.raises(BadInput, match="Diffuser plans actions, but this dataset has none"):
        Diffuser.for_data(SMALL, replace(drift(), actions=None))


def test_settings_for_locomotion_are_those_of_the_reference_code():
    config = Diffuser.configure(SPECS["hopper-medium-v2"], 1001, "paper")
    assert (config.horizon, config.diffusion_steps, config.width, config.multipliers) == (32, 20, 32, (1, 2, 4, 8))
    assert (config.prediction, config.relative, config.bypass) == ("x0", False, False)
    assert (config.discount, config.termination_penalty, config.first_action_weight) == (0.997, 100.0, 10.0)
    assert config.guidance == GuidanceConfig(64, 0.1, 2, 2, None)
    assert (config.training.batch_size, config.training.learning_rate) == (64, 2e-4)
    assert config.ema**10 == pytest.approx(0.995, abs=1e-4)  # of which the reference takes one every ten steps


def test_plans_at_profile_laptop_are_guided_as_far_as_those_of_the_reference_code():
    """The lengths of all climbs of a plan together. Replanning with two steps of noise would leave 0.7 % of it."""

    def climbed(config: DiffuserConfig, steps: int | None) -> float:
        variance, guidance = CosineProcess(config.diffusion_steps).variance, config.guidance
        return guidance.scale * guidance.climbs * float(variance[guidance.last_guided : steps].sum())

    laptop, paper = (Diffuser.configure(SPECS["hopper-medium-v2"], 1001, profile) for profile in ("laptop", "paper"))
    assert climbed(paper, paper.guidance.warm_steps) == pytest.approx(0.894, abs=1e-3)
    assert climbed(laptop, laptop.guidance.warm_steps) == pytest.approx(0.918, abs=1e-3)
    assert climbed(laptop, 2) == pytest.approx(0.0062, abs=1e-4)


def test_plans_to_a_goal_are_as_long_as_trajectories():
    spec = spec_of(drift())
    for states, horizon in ((30, 28), (5, 4), (10_000, 512)):
        assert Diffuser.configure(spec, states, "laptop").horizon == horizon


# -------------------------------------------------------------------------------------------------------------- plans


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Diffuser:
    torch.manual_seed(0)
    data = drift()
    return fit(Diffuser.for_data(SMALL, data), data, seed=0, folder=tmp_path_factory.mktemp("diffuser"))


STARTS = np.linspace(-2, 2, 6, dtype=np.float32)[:, None]


def moves(plans: list[Plan]) -> np.ndarray:
    return np.stack([plan.actions[:-1, 0] for plan in plans])


@pytest.mark.slow
def test_plans_obey_the_dynamics_and_go_where_the_reward_is(trained: Diffuser):
    """Data goes either way; guided plans go up, states follow from actions, and the start is kept to the bit."""
    plans = trained.plan(STARTS, None, range(6))
    np.testing.assert_array_equal([plan.positions[0] for plan in plans], STARTS)
    steps = np.diff(np.stack([plan.positions[:, 0] for plan in plans]), axis=1)
    assert np.abs(steps - 0.2 * moves(plans)).mean() < 0.05
    assert moves(plans).mean() > 0.8


@pytest.mark.slow
def test_values_rank_windows_by_their_return(trained: Diffuser):
    data = drift(20)
    rows = data.random_rows(10, 100, np.random.default_rng(1))
    window = rows[:, None] + np.arange(8)
    clean = trained.windows(torch.from_numpy(data.observations[window]), torch.from_numpy(data.actions[window]))
    with torch.no_grad():
        values = trained.values(clean, 0).numpy()
    assert np.corrcoef(values, returns_to_go(data, 0.9)[rows])[0, 1] > 0.95


@pytest.mark.slow
def test_replanning_from_a_plan_stays_near_it(trained: Diffuser):
    """From one step of noise the rest of the plan comes back, shifted; without a warm start it is drawn anew."""
    before = trained.plan(STARTS, None, range(6))
    later = np.stack([plan.positions[2] for plan in before])
    assert_new = trained.replan(before, [2] * 6, later, None, range(6))
    np.testing.assert_array_equal(moves(assert_new), moves(trained.plan(later, None, range(6))))
    warm = Diffuser.load(trained.folder)
    warm.config = trained.config.replace_all({"guidance.warm_steps": 1, "guidance.candidates": 1, "guidance.climbs": 0})
    again = warm.replan(before, [2] * 6, later, None, range(6))
    np.testing.assert_array_equal([plan.positions[0] for plan in again], later)
    shifted = np.stack([plan.positions[2:, 0] for plan in before])
    assert np.abs(np.stack([plan.positions[:-2, 0] for plan in again]) - shifted).mean() < 0.15


# ------------------------------------------------------------------------------------------------------------- acting


class Counter:
    """Plans whose actions count on, and which remember how they were asked for."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, list[int], list[int]]] = []

    def plan(self, start, goal, seeds):
        self.calls.append(("plan", start[:, 0].astype(int).tolist(), []))
        return [
            Plan(np.zeros((4, 1)), seed, 10 * own + np.arange(4.0)[:, None])
            for own, seed in zip(start, seeds, strict=True)
        ]

    def replan(self, plans, steps, start, goal, seeds):
        assert all(isinstance(plan, Plan) for plan in plans)
        self.calls.append(("replan", start[:, 0].astype(int).tolist(), list(steps)))
        made = self.plan(start, goal, seeds)
        self.calls.pop()
        return made


@pytest.mark.parametrize(
    ("every", "expected"), [(1, [0, 10, 20, 30, 40, 50]), (2, [0, 1, 20, 21, 40, 41]), (0, [0, 1, 2, 3, 40, 41])]
)
def test_actions_of_a_plan_are_carried_out_until_the_next(every: int, expected: list[int]):
    """The n-th state is n, so a plan made there begins with action 10 n; a plan of four actions ends by itself."""
    planner = Counter()
    controller = ActionController(planner, PlanFollowing(replan_every=every), (0,))
    controller.begin([3, 4])
    for step in range(6):
        episodes = np.array([0, 1]) if step < 3 else np.array([1])
        actions = controller.act(episodes, np.full((len(episodes), 1), float(step)), None)
        assert actions[:, 0].tolist() == [expected[step]] * len(episodes)
    assert planner.calls[0] == ("plan", [0, 0], [])
    assert all(name == "replan" and set(steps) == {every or 4} for name, _, steps in planner.calls[1:])


def test_a_plan_without_actions_is_not_carried_out():
    with pytest.raises(AssertionError, match="no actions"):
        _ = Plan(np.zeros((2, 1)), 0).planned_actions


def test_a_folder_holds_the_value_too(tmp_path: Path):
    data = drift(10)
    model = fit(Diffuser.for_data(SMALL.replace_at("training.steps", 2), data), data, seed=0, folder=tmp_path)
    again = Diffuser.load(tmp_path)
    torch.testing.assert_close(again.value_scale, model.value_scale)
    assert float(model.value_scale[1]) == pytest.approx(returns_to_go(data, 0.9).std(), rel=1e-3)
    np.testing.assert_array_equal(moves(again.plan(STARTS, None, range(6))), moves(model.plan(STARTS, None, range(6))))
