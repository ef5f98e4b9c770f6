"""The hierarchical diffuser: clamps, strides, horizons, and noise that belongs to each plan alone."""

import math
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import drives

from scots.core.config import Profile
from scots.core.errors import BadInput
from scots.data.trajectories import Array, Meta, Trajectories
from scots.datasets import toy
from scots.datasets.specs import SPECS, spec_of
from scots.models import diffusion
from scots.models.diffusion import SamplingConfig
from scots.models.nets import fourier_features
from scots.planners.hd import Arrival, HierarchicalDiffuser, HierarchicalDiffuserConfig, LevelConfig

DATA = toy.make(episodes=10)
SMALL = LevelConfig(width=16, depth=1, head_width=8)
CONFIG = HierarchicalDiffuserConfig(waypoints=5, stride=8, high=SMALL, low=SMALL)


def planner(config: HierarchicalDiffuserConfig = CONFIG, data: Trajectories = DATA) -> HierarchicalDiffuser:
    """Untrained, but with no layer left at zero: what it draws depends on everything."""
    torch.manual_seed(0)
    model = HierarchicalDiffuser.for_data(config, data).eval()
    for parameter in model.parameters():
        if parameter.abs().max() == 0:
            torch.nn.init.normal_(parameter, std=0.1)
    return model


def rngs(*seeds: int) -> list[np.random.Generator]:
    return [np.random.default_rng(seed) for seed in seeds]


def whole_plans(model: HierarchicalDiffuser, start: Array, goal: Array, *seeds: int) -> Array:
    """Plans (B, T, P), filled in from start to goal."""
    plans = model.plan(start, goal, seeds)
    model.fill_in(plans, [0] * len(plans), [len(plan.positions) for plan in plans])
    return np.stack([plan.positions for plan in plans])


@pytest.mark.slow
@given(
    st.integers(3, 6),
    st.integers(2, 6),
    st.integers(0, 100),
    st.sampled_from(["eps", "x0", "v"]),
    st.sampled_from(["absolute", "chord"]),
    st.integers(0, 2),
)
def test_plans_begin_end_and_pass_exactly_where_they_should(
    waypoints: int, stride: int, seed: int, prediction, frame, frequencies: int
):
    low = replace(SMALL, frame=frame, frequencies=frequencies)
    model = planner(replace(CONFIG, waypoints=waypoints, stride=stride, prediction=prediction, low=low))
    start, goal = DATA.observations[[3, 90, 200]], DATA.observations[[250, 4, 17]]
    plans = whole_plans(model, start, goal, seed, seed + 1, seed + 2)
    assert plans.shape == (3, stride * (waypoints - 1) + 1, 2)
    assert plans.dtype == np.float32
    assert np.isfinite(plans).all()
    assert np.array_equal(plans[:, 0], start)
    assert np.array_equal(plans[:, -1], goal)
    outlines = [plan.positions for plan in model.plan(start, goal, (seed, seed + 1, seed + 2))]
    assert np.array_equal(plans[:, ::stride], np.stack(outlines)[:, ::stride])
    assert np.array_equal(plans, whole_plans(model, start, goal, seed, seed + 1, seed + 2))
    assert not np.array_equal(plans, whole_plans(model, start, goal, seed + 3, seed + 4, seed + 5))


def test_a_middle_level_plans_the_waypoints_that_the_high_level_leaves_out():
    """The waypoints that the high level planned stay; each level has windows of its own spacing."""
    data = replace(DATA, observations=np.stack([np.arange(330), np.zeros(330)], axis=1))
    config = replace(CONFIG, waypoints=7, stride=4, high_every=3, middle=SMALL)
    model = planner(config, data)
    assert [(bridge.name, bridge.tokens, bridge.spacing) for bridge in model.bridges] == [
        ("high", 3, 12),
        ("middle", 4, 4),
        ("low", 5, 1),
    ]
    batch = model.batch(data, 100, np.random.default_rng(0))
    assert [int(batch[name][0, :, 0].diff().unique()) for name in config.levels()] == [12, 4, 1]
    start, goal = DATA.observations[[3, 90]], DATA.observations[[250, 4]]
    plans = whole_plans(model, start, goal, 0, 1)
    assert plans.shape == (2, 25, 2)
    assert np.array_equal(
        plans[:, ::12], np.stack([plan.positions for plan in model.plan(start, goal, (0, 1))])[:, ::12]
    )
    assert len(np.unique(plans[:, ::4].reshape(-1, 2), axis=0)) == 14
    assert set(model.loss(batch, torch.Generator())[1]) == {"high", "middle", "low"}
    for every in (0, 4, 6):
        with pytest.raises(BadInput, match=f"high_every {every} does not divide the 6 gaps"):
            replace(config, high_every=every)


def test_the_order_of_filling_in_changes_nothing():
    """Piece by piece, from the end, or alone: every gap has a random stream of its own."""
    model = planner(replace(CONFIG, high_every=2, middle=SMALL))
    start, goal = DATA.observations[:2], DATA.observations[50:52]
    whole = whole_plans(model, start, goal, 5, 6)
    plans = model.plan(start, goal, (5, 6))
    assert [int(np.isfinite(plan.positions[:, 0]).sum()) for plan in plans] == [3, 3]
    model.fill_in(plans[1:], [20], [20])
    assert np.isfinite(plans[1].positions[16:25]).all()
    assert np.isnan(plans[1].positions[1:8]).all()
    assert np.isnan(plans[0].positions[1:16]).all()
    model.fill_in(plans, [17, 9], [40, 40])
    model.fill_in(plans, [0, 0], [16, 8])
    np.testing.assert_allclose([plan.positions for plan in plans], whole, rtol=1e-4, atol=1e-3)


def test_bridges_keep_both_ends():
    ends = DATA.observations[np.arange(8).reshape(4, 2) * 11]
    for bridge in planner().bridges:
        sequences = bridge.draw(ends, rngs(0, 1, 2, 3))
        assert sequences.shape == (4, bridge.tokens, 2)
        assert np.array_equal(sequences[:, [0, -1]], ends)


@pytest.mark.slow
def test_a_plan_does_not_depend_on_its_companions(monkeypatch: pytest.MonkeyPatch):
    """Alone, among others, or split over network calls: the same up to rounding."""
    model, start, goal = planner(), DATA.observations[:40], DATA.observations[100:140]
    together = whole_plans(model, start, goal, *range(40))
    alone = [whole_plans(model, start[n : n + 1], goal[n : n + 1], n)[0] for n in range(40)]
    np.testing.assert_allclose(together, alone, rtol=1e-4, atol=1e-3)
    monkeypatch.setattr("scots.planners.hd.POSITIONS_PER_CALL", 17)
    np.testing.assert_allclose(together, whole_plans(model, start, goal, *range(40)), rtol=1e-4, atol=1e-3)
    assert len(np.unique(together[:, 8].round(3), axis=0)) == 40


def test_batches_hold_both_levels_from_within_episodes():
    """Positions that count the rows show which rows a window took."""
    count = np.stack([np.arange(330), np.zeros(330)], axis=1)
    data = replace(DATA, observations=count)
    batch = planner(data=data).batch(data, 500, np.random.default_rng(0))
    for name, spacing in (("high", 8), ("low", 1)):
        rows = batch[name][..., 0].long()
        assert (rows.diff(dim=1) == spacing).all()
        assert (rows[:, 0] // 33 == rows[:, -1] // 33).all()
    assert batch["high"].shape == (500, 5, 2)
    assert batch["low"].shape == (500, 9, 2)
    assert (batch["high_last"].max(), batch["low_last"].max()) == (3, 7)


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_a_share_of_the_windows_is_reversed(share: float):
    data = replace(DATA, observations=np.stack([np.arange(330), np.zeros(330)], axis=1))
    batch = planner(replace(CONFIG, reversed_windows=share), data).batch(data, 2000, np.random.default_rng(0))
    for name, spacing in (("high", 8), ("low", 1)):
        steps = batch[name][..., 0].diff(dim=1)
        backwards = steps[:, 0] < 0
        assert (steps == torch.where(backwards, -spacing, spacing)[:, None]).all()
        assert backwards.float().mean() == pytest.approx(share, abs=0.03)


def test_loss_is_that_of_both_levels_on_all_but_their_ends():
    """At initialisation both networks answer zero, so each noise-prediction loss is the mean square of the noise."""
    model = HierarchicalDiffuser.for_data(CONFIG, DATA)
    loss, parts = model.loss(model.batch(DATA, 4000, np.random.default_rng(0)), torch.Generator().manual_seed(0))
    assert parts["high"].item() == pytest.approx(3 / 5, rel=0.03)
    assert parts["low"].item() == pytest.approx(7 / 9, rel=0.03)
    assert loss.item() == pytest.approx(sum(part.item() for part in parts.values()))


def test_levels_share_no_weights_and_both_are_averaged():
    model = planner()
    loss, _ = model.loss(model.batch(DATA, 8, np.random.default_rng(0)), torch.Generator())
    loss.backward()
    for level in (model.level("high"), model.level("low")):
        assert all(parameter.grad is not None for parameter in level.net.parameters())
    assert [source for _, source in model.ema_copies()] == [model.level("high").net, model.level("low").net]


def test_positions_are_scaled_by_the_data_it_learns_from():
    """Only the position columns count, wherever they are."""
    rng = np.random.default_rng(0)
    observations = np.concatenate([rng.normal(size=(330, 3)), DATA.observations[:, ::-1]], axis=1)
    data = replace(DATA, observations=observations, meta=Meta(position=(4, 3)))
    model = planner(data=data)
    np.testing.assert_allclose(model.scale.mean, DATA.observations.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(model.scale.std, DATA.observations.std(axis=0), rtol=1e-5)


def test_the_chord_frame_begins_with_straight_lines():
    """An untrained network answers zero, so it draws nothing but what is left of the noise, in units of the data's."""
    low = replace(SMALL, frame="chord", sampling=SamplingConfig(steps=4, order=2))
    model = HierarchicalDiffuser.for_data(replace(CONFIG, prediction="x0", low=low), DATA).eval()
    ends = DATA.observations[[[0, 100], [7, 200]]]
    segments = model.bridges[-1].draw(ends, rngs(0, 1))
    np.testing.assert_allclose(segments, np.linspace(*ends.swapaxes(0, 1), 9, axis=1), atol=1e-5)
    assert 0 < model.level("low").deviation.max() < model.level("high").deviation.max()


@pytest.mark.parametrize("frame", ["absolute", "chord"])
def test_every_token_is_conditioned_on_its_position_and_both_endpoints(frame):
    """The DiT is replaced by one that answers the context of its tokens."""
    level = planner(replace(CONFIG, low=replace(SMALL, frame=frame, frequencies=2))).level("low")
    level.deviation.copy_(torch.tensor([2.0, 3.0]))
    level.net.net.forward = lambda _, __, context, ___: context
    sequence, line = torch.randn(4, 9, 2), torch.randn(4, 9, 2) if frame == "chord" else None
    context = level._predict(level.net, sequence, torch.zeros(4), line)
    context = context if line is None else context[..., 2:]
    for b, t in np.ndindex(4, 9):
        for part, token in enumerate((t, 0, 8)):
            x, y = (
                sequence[b, token] if line is None else line[b, token] + torch.tensor([2.0, 3.0]) * sequence[b, token]
            )
            angles = torch.stack([x, 2 * x, y, 2 * y]) * np.pi / 4
            expected = torch.cat([torch.stack([x, y]), angles.sin(), angles.cos()])
            torch.testing.assert_close(context[b, t, 10 * part : 10 * (part + 1)], expected)


@pytest.mark.parametrize("frequencies", [0, 2])
def test_every_layer_is_conditioned_on_both_endpoints_alone(frequencies: int):
    """The condition is the same whatever lies between them."""
    level = planner(replace(CONFIG, high=replace(SMALL, frequencies=frequencies, endpoint_width=12))).level("high")
    conditions = []
    level.net.net.forward = lambda sequence, _, __, condition: conditions.append(condition) or sequence
    sequence = torch.randn(4, 5, 2)
    for changed in (sequence, sequence.clone().index_fill_(1, torch.arange(1, 4), 7.0), sequence.flip(1)):
        level._predict(level.net, changed, torch.zeros(4))
    assert conditions[0].shape == (4, SMALL.width)
    torch.testing.assert_close(conditions[0], conditions[1])
    assert (conditions[0] - conditions[2]).abs().amax(1).min() > 1e-3
    features = fourier_features(sequence[:, [0, -1]], frequencies).flatten(1)
    torch.testing.assert_close(conditions[0], level.net.endpoint_mlp(features))


def test_saved_and_loaded_plans_are_the_same(tmp_path: Path):
    model, start, goal = planner(), DATA.observations[:3], DATA.observations[50:53]
    model.save(tmp_path)
    again = HierarchicalDiffuser.load(tmp_path)
    assert np.array_equal(*(whole_plans(one, start, goal, 0, 1, 2) for one in (model, again)))
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(BadInput, match="train it again"):
        HierarchicalDiffuser.load(tmp_path)


# ---------------------------------------------------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("dataset", "states", "waypoints"),
    [
        ("pointmaze-giant-stitch-v0", 201, 5),
        ("antmaze-large-explore-v0", 501, 17),
        ("antmaze-medium-stitch-v0", 1001, 21),
        ("pointmaze-giant-stitch-v0", 2001, 41),
        ("antmaze-medium-explore-v0", 2001, 41),
        ("pointmaze-giant-stitch-v0", 1001, 41),
        ("toy-corridor-stitch-v0", 201, 9),
        ("toy-corridor-stitch-v0", 5000, 41),
    ],
)
def test_waypoints_are_the_papers_for_each_dataset(dataset: str, states: int, waypoints: int):
    config = HierarchicalDiffuser.configure(SPECS[dataset], states, "paper")
    assert (config.waypoints, config.stride, config.prediction) == (waypoints, 25, "eps")
    assert config.horizon == 25 * (waypoints - 1) + 1 <= states
    assert config.high == config.low == LevelConfig(256, 8, 32)


def test_short_logs_get_waypoints_that_are_closer():
    config = HierarchicalDiffuser.configure(spec_of(DATA), 33, "laptop")
    assert (config.stride, config.waypoints, config.high_every, config.training.steps) == (8, 5, 1, 6_000)


def test_long_plans_have_three_levels_on_a_laptop_and_a_fitting_budget():
    config = HierarchicalDiffuser.configure(SPECS["pointmaze-giant-stitch-v0"], 2001, "laptop")
    assert (config.high_every, config.training.steps) == (5, 12_300)
    config = HierarchicalDiffuser.configure(SPECS["pointmaze-giant-stitch-v0"], 201, "laptop")  # as it was recorded
    assert (config.waypoints, config.high_every, config.training.steps) == (5, 2, 12_300)
    config = HierarchicalDiffuser.configure(SPECS["antmaze-large-explore-v0"], 501, "laptop")
    assert (config.waypoints, config.high_every, config.training.steps) == (17, 4, 12_300)


def test_horizons_that_do_not_fit_are_refused():
    data = Trajectories(np.zeros((300, 2)), [0, 100, 200, 300], meta=Meta(position=(0, 1)))
    with pytest.raises(BadInput, match="5 waypoints, 25 steps apart, span 101 states; the longest episode has 100"):
        HierarchicalDiffuser.for_data(replace(CONFIG, stride=25), data)
    with pytest.raises(BadInput, match="at least 3"):
        HierarchicalDiffuser.configure(spec_of(DATA), 4, "laptop")
    with pytest.raises(BadInput, match="nothing between"):
        replace(CONFIG, stride=1)


def test_what_cannot_be_planned_is_named():
    with pytest.raises(BadInput, match="no position columns are known; name them with --position"):
        HierarchicalDiffuser.for_data(CONFIG, DATA.with_meta(position=()))
    with pytest.raises(BadInput, match="expects 2 position columns, got 3"):
        planner().plan(np.zeros((1, 3)), np.zeros((1, 3)), [0])


def test_the_time_density_weights_the_loss_of_times():
    """Noise prediction of an untrained network has the same loss at all times, so look at the times themselves."""
    from scots.models.diffusion import draw_times

    generator = torch.Generator().manual_seed(0)
    means = {name: draw_times(20_000, generator, name).mean().item() for name in ("uniform", "noise", "data")}
    assert means == pytest.approx({"uniform": 1 / 2, "noise": 2 / 3, "data": 1 / 3}, abs=0.01)
    weighted = planner(replace(CONFIG, time_density="data"))
    batch = weighted.batch(DATA, 64, np.random.default_rng(0))
    losses = [model.loss(batch, torch.Generator().manual_seed(0))[0].item() for model in (weighted, planner())]
    assert losses[0] != losses[1]


def test_plans_of_a_heading_turn_the_short_way_round():
    """Levels that answer zero for the clean data leave their chords as they are."""
    level = replace(SMALL, frame="chord", sampling=SamplingConfig(steps=2, order=2))
    config = replace(CONFIG, prediction="x0", high=level, low=level)
    model = HierarchicalDiffuser.for_data(config, drives(3).with_meta(position=(3, 2)))
    plans = whole_plans(model, np.array([[6, 350], [6, 10]]), np.array([[6, 10], [6, 350]]), 0, 1)
    turns = (np.diff(plans[:, :, 1], axis=1) + 180) % 360 - 180
    np.testing.assert_allclose(turns[0], 20 / 32, atol=0.03)
    np.testing.assert_allclose(turns[1], -20 / 32, atol=0.03)
    assert plans[:, :, 1].min() >= 0
    assert plans[:, :, 1].max() < 360
    with pytest.raises(BadInput, match="expects 2 position columns, got 3"):
        model.plan(np.zeros((1, 3)), np.zeros((1, 3)), [0])


# ------------------------------------------------------------------------------------------------------------- arrival

TOLD = replace(CONFIG, arrival_quantile=0.1)


def test_a_plan_that_is_told_when_to_arrive_waits_at_the_goal_from_then_on():
    model = planner(TOLD)
    start, goal = DATA.positions[[0, 3, 7]], DATA.positions[[40, 90, 95]]
    arrival = model.level("high").arrival
    assert arrival is not None
    ends = model.scale(torch.from_numpy(np.stack([start, goal], axis=1)))
    last = arrival.tokens_between(ends).numpy()
    plans = whole_plans(model, start, goal, 1, 2, 3)
    for plan, arrived, own_goal in zip(plans, last, goal, strict=True):
        waypoints = plan[:: TOLD.stride]
        assert (waypoints[arrived:] == own_goal).all()
        assert (waypoints[1:arrived] != own_goal).any(axis=1).all()


def test_a_sequence_arrives_by_its_delay_later_than_estimated():
    model = planner(TOLD)
    high, ends = model.bridges[0], np.repeat(DATA.positions[[[0, 40]]], 3, axis=0)
    scaled = model.scale(torch.from_numpy(ends[:1]))
    (estimate,) = model.level("high").arrival.tokens_between(scaled).tolist()
    delays = np.array([0, 1, 99])
    drawn = high.draw(ends, rngs(1, 1, 1), delays)
    arrived = [int((~(sequence == own[1]).all(axis=1)).sum()) for sequence, own in zip(drawn, ends, strict=True)]
    assert arrived == [min(estimate + delay, high.tokens - 1) for delay in delays]
    np.testing.assert_allclose(high.draw(ends[:1], rngs(1)), drawn[:1], rtol=1e-3)


@given(st.floats(-50, 50), st.integers(2, 20))
def test_an_estimated_arrival_is_a_token_after_the_first(estimate: float, tokens: int):
    arrival = Arrival(2, tokens, 0.1)
    torch.nn.init.zeros_(arrival.net[-1].weight)
    torch.nn.init.constant_(arrival.net[-1].bias, estimate)
    (last,) = arrival.tokens_between(torch.zeros(1, 2, 2)).tolist()
    assert last == min(max(1, math.ceil(np.float32(estimate))), tokens - 1)


@pytest.mark.parametrize("quantile", [0.1, 0.5, 0.9])
def test_the_arrival_that_costs_least_is_the_quantile_of_the_windows(quantile: float):
    last = torch.from_numpy(np.random.default_rng(0).integers(1, 101, size=4001))
    ends, arrival = torch.zeros(len(last), 2, 2), Arrival(2, 101, quantile)
    torch.nn.init.zeros_(arrival.net[-1].weight)
    losses = []
    for estimate in range(1, 101):
        torch.nn.init.constant_(arrival.net[-1].bias, float(estimate))
        losses.append(arrival.loss(ends, last).item())
    assert abs(1 + int(np.argmin(losses)) - np.quantile(last.numpy(), quantile)) <= 1


def test_what_waits_is_neither_noised_nor_counted_in_the_loss():
    level = planner(TOLD).level("high")
    clean = torch.randn(4, TOLD.waypoints, 2, generator=torch.Generator().manual_seed(0))
    last = torch.tensor([1, 2, 3, 4])
    held = diffusion.hold_after(clean, last)
    seen = []

    def network(noisy: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        seen.append(noisy)
        return 1e6 * diffusion.waits(TOLD.waypoints, last)  # would be seen in the loss

    loss = diffusion.bridge_loss("x0", network, held, None, torch.Generator().manual_seed(1), last=last)
    waits = diffusion.waits(TOLD.waypoints, last).expand_as(held)
    assert (seen[0][waits] == held[waits]).all()
    assert (seen[0][:, 1:-1][~waits[:, 1:-1]] != held[:, 1:-1][~waits[:, 1:-1]]).all()
    assert loss < 100
    assert set(level.draw_last(0.0, 1000, np.random.default_rng(0)).tolist()) == {1, 2, 3, 4}


def test_an_arrival_quantile_outside_of_its_range_is_refused():
    with pytest.raises(BadInput, match="not between 0 and 1"):
        replace(CONFIG, arrival_quantile=1.0)


def test_small_profiles_tell_the_high_level_when_to_arrive_and_the_paper_does_not():
    spec = SPECS["pointmaze-giant-stitch-v0"]
    profiles = get_args(Profile)
    told = {profile: HierarchicalDiffuser.configure(spec, 1001, profile).arrival_quantile for profile in profiles}
    assert told == {"smoke": 0.1, "laptop": 0.1, "paper": None}
