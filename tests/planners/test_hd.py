"""The hierarchical diffuser: clamps, strides, horizons, and noise that belongs to each plan alone."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from scots.core.errors import BadInput
from scots.data.trajectories import Meta, Trajectories
from scots.envs import toy
from scots.models.diffusion import SamplingConfig
from scots.models.nets import fourier
from scots.planners import PLANNERS, configure_planner
from scots.planners.hd import HierarchicalDiffuser, HierarchicalDiffuserConfig, LevelConfig, configure_hd

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


def long_data(dataset: str, states: int, augmented: bool = False) -> Trajectories:
    provenance = ({"origin": "collected here"}, {"origin": "stitched here"})[: 1 + augmented]
    return Trajectories(
        observations=np.random.default_rng(0).normal(size=(3 * states, 4)),
        offsets=np.arange(4) * states,
        meta=Meta(dataset=dataset, position=(0, 1), provenance=provenance),
    )


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
    waypoints: int, stride: int, seed: int, prediction, frame, octaves: int
):
    low = replace(SMALL, frame=frame, octaves=octaves)
    model = planner(replace(CONFIG, waypoints=waypoints, stride=stride, prediction=prediction, low=low))
    start, goal = DATA.observations[[3, 90, 200]], DATA.observations[[250, 4, 17]]
    plan = model.plan(start, goal, np.random.default_rng(seed))
    assert plan.shape == (3, stride * (waypoints - 1) + 1, 2)
    assert plan.dtype == np.float32
    assert np.isfinite(plan).all()
    assert np.array_equal(plan[:, 0], start)
    assert np.array_equal(plan[:, -1], goal)
    assert np.array_equal(plan[:, ::stride], model.waypoints(start, goal, np.random.default_rng(seed).spawn(3)))
    assert np.array_equal(plan, model.plan(start, goal, np.random.default_rng(seed)))
    assert not np.array_equal(plan, model.plan(start, goal, np.random.default_rng(seed + 1)))


def test_with_a_leap_a_middle_level_plans_the_waypoints_between():
    """The waypoints that the high level planned stay; each level has windows of its own spacing."""
    data = replace(DATA, observations=np.stack([np.arange(330), np.zeros(330)], axis=1))
    config = replace(CONFIG, waypoints=7, stride=4, leap=3, middle=SMALL)
    model = planner(config, data)
    assert {name: (tokens, spacing) for name, (_, tokens, spacing) in config.levels().items()} == {
        "high": (3, 12),
        "middle": (4, 4),
        "low": (5, 1),
    }
    batch = model.batch(data, 100, np.random.default_rng(0))
    assert [int(batch[name][0, :, 0].diff().unique()) for name in config.levels()] == [12, 4, 1]
    start, goal = DATA.observations[[3, 90]], DATA.observations[[250, 4]]
    planned = model._drawn("high", np.stack([start, goal], axis=1), rngs(0, 1))
    assert model.spacings == (12, 4, 1)
    assert np.array_equal(model.outline(start, goal, rngs(0, 1)), planned)
    between = model.infill(planned[:, :2], 4, rngs(0, 1))
    assert between.shape == (2, 4, 2)
    assert np.array_equal(between[:, [0, -1]], planned[:, :2])
    waypoints = model.waypoints(start, goal, rngs(0, 1))
    assert waypoints.shape == (2, 7, 2)
    assert np.array_equal(waypoints[:, ::3], planned)
    assert len(np.unique(waypoints.reshape(-1, 2), axis=0)) == 14
    plan = model.plan(start, goal, np.random.default_rng(0))
    assert plan.shape == (2, 25, 2)
    assert set(model.loss(batch, torch.Generator())[1]) == {"high", "middle", "low"}
    for leap in (0, 4, 6):
        with pytest.raises(BadInput, match=f"a leap of {leap} does not divide"):
            replace(config, leap=leap)


def test_every_level_chooses_among_its_own_draws_and_the_way_is_judged_as_a_whole():
    class Chooser:
        def __init__(self):
            self.asked = []

        def __call__(self, draw, ends, rng, spacing, places):
            self.asked += [(len(ends), spacing)]
            drawn = draw(ends, rng)
            assert drawn.shape[1] == places
            return drawn

        def by_halves(self, draw, mend, ends, rng, spacing):
            self.asked += [("whole", spacing)]
            return mend(draw(ends, rng), rng)

        def mended(self, draw, sequences, rng, spacing, places):
            self.asked += [("windows", spacing, places)]
            assert draw(sequences[:, :2], rng).shape[1] == places
            return sequences

    model = planner(replace(CONFIG, leap=2, middle=SMALL))
    start, goal = DATA.observations[:3], DATA.observations[50:53]
    plain = model.waypoints(start, goal, rngs(1, 2, 3))
    model.choose = Chooser()
    chosen = model.outline(start, goal, rngs(1, 2, 3))
    assert model.spacings == (8, 1)
    np.testing.assert_array_equal(chosen, plain)
    model.infill(chosen[:, :2], 1, rngs(1, 2, 3))
    assert model.choose.asked == [("whole", 8), (3, 16), (6, 8), ("windows", 8, 3), (3, 1)]


def test_infill_keeps_both_waypoints():
    ends = DATA.observations[np.arange(8).reshape(4, 2) * 11]
    segments = planner().infill(ends, 1, rngs(0, 1, 2, 3))
    assert segments.shape == (4, 9, 2)
    assert np.array_equal(segments[:, [0, -1]], ends)


def test_a_plan_does_not_depend_on_its_companions(monkeypatch: pytest.MonkeyPatch):
    """Alone, among others, or split over network calls: the same up to rounding."""
    model, start, goal = planner(), DATA.observations[:40], DATA.observations[100:140]
    together = model.waypoints(start, goal, rngs(*range(40)))
    alone = [model.waypoints(start[n : n + 1], goal[n : n + 1], rngs(n))[0] for n in range(40)]
    np.testing.assert_allclose(together, alone, rtol=1e-5, atol=1e-4)
    monkeypatch.setattr("scots.planners.hd.PLACES_TOGETHER", 17)
    np.testing.assert_allclose(together, model.waypoints(start, goal, rngs(*range(40))), atol=1e-4)
    assert len(np.unique(together[:, 1].round(3), axis=0)) == 40


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


@pytest.mark.parametrize("flip", [0.0, 0.3, 1.0])
def test_a_share_of_the_windows_is_walked_backwards(flip: float):
    data = replace(DATA, observations=np.stack([np.arange(330), np.zeros(330)], axis=1))
    batch = planner(replace(CONFIG, flip=flip), data).batch(data, 2000, np.random.default_rng(0))
    for name, spacing in (("high", 8), ("low", 1)):
        steps = batch[name][..., 0].diff(dim=1)
        backwards = steps[:, 0] < 0
        assert (steps == torch.where(backwards, -spacing, spacing)[:, None]).all()
        assert backwards.float().mean() == pytest.approx(flip, abs=0.03)


def test_loss_is_that_of_both_levels_on_all_but_their_ends():
    """At initialisation both networks answer zero, so each noise-prediction loss is the mean square of the noise."""
    model = HierarchicalDiffuser.for_data(CONFIG, DATA)
    loss, parts = model.loss(model.batch(DATA, 4000, np.random.default_rng(0)), torch.Generator().manual_seed(0))
    assert parts["high"].item() == pytest.approx(3 / 5, rel=0.03)
    assert parts["low"].item() == pytest.approx(7 / 9, rel=0.03)
    assert loss.item() == pytest.approx(sum(part.item() for part in parts.values()))


def test_levels_share_no_weights_and_both_are_followed():
    model = planner()
    loss, _ = model.loss(model.batch(DATA, 8, np.random.default_rng(0)), torch.Generator())
    loss.backward()
    for level in (model.level("high"), model.level("low")):
        assert all(parameter.grad is not None for parameter in level.net.parameters())
    assert [source for _, source in model.slow_copies()] == [model.level("high").net, model.level("low").net]


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
    segments = model.infill(ends, 1, rngs(0, 1))
    np.testing.assert_allclose(segments, np.linspace(*ends.swapaxes(0, 1), 9, axis=1), atol=1e-5)
    assert 0 < model.level("low").deviation.max() < model.level("high").deviation.max()


@pytest.mark.parametrize("frame", ["absolute", "chord"])
def test_every_token_is_told_where_it_and_both_ends_are(frame):
    """The DiT is replaced by one that answers what its tokens are told."""
    level = planner(replace(CONFIG, low=replace(SMALL, frame=frame, octaves=2))).level("low")
    level.deviation.copy_(torch.tensor([2.0, 3.0]))
    level.net.net.forward = lambda _, __, context, ___: context
    sequence, line = torch.randn(4, 9, 2), torch.randn(4, 9, 2) if frame == "chord" else None
    told = level._denoised(level.net, sequence, torch.zeros(4), line)
    told = told if line is None else told[..., 2:]
    for b, t in np.ndindex(4, 9):
        for part, token in enumerate((t, 0, 8)):
            x, y = (
                sequence[b, token] if line is None else line[b, token] + torch.tensor([2.0, 3.0]) * sequence[b, token]
            )
            angles = torch.stack([x, 2 * x, y, 2 * y]) * np.pi / 4
            wanted = torch.cat([torch.stack([x, y]), angles.sin(), angles.cos()])
            torch.testing.assert_close(told[b, t, 10 * part : 10 * (part + 1)], wanted)


@pytest.mark.parametrize("octaves", [0, 2])
def test_every_layer_is_told_what_the_route_network_makes_of_both_ends(octaves: int):
    """And of nothing else: it is the same whatever lies between them."""
    level = planner(replace(CONFIG, high=replace(SMALL, octaves=octaves, route=12))).level("high")
    told = []
    level.net.net.forward = lambda sequence, _, __, whole: told.append(whole) or sequence
    sequence = torch.randn(4, 5, 2)
    for changed in (sequence, sequence.clone().index_fill_(1, torch.arange(1, 4), 7.0), sequence.flip(1)):
        level._denoised(level.net, changed, torch.zeros(4))
    assert told[0].shape == (4, SMALL.width)
    torch.testing.assert_close(told[0], told[1])
    assert (told[0] - told[2]).abs().amax(1).min() > 1e-3
    torch.testing.assert_close(told[0], level.net.route(fourier(sequence[:, [0, -1]], octaves).flatten(1)))


def test_saved_and_loaded_plans_are_the_same(tmp_path: Path):
    model, start, goal = planner(), DATA.observations[:3], DATA.observations[50:53]
    model.save(tmp_path)
    again = HierarchicalDiffuser.load(tmp_path)
    plans = [one.plan(start, goal, np.random.default_rng(0)) for one in (model, again)]
    assert np.array_equal(*plans)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(BadInput, match="train it again"):
        HierarchicalDiffuser.load(tmp_path)


# ---------------------------------------------------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("dataset", "states", "augmented", "waypoints"),
    [
        ("pointmaze-giant-stitch-v0", 201, False, 5),
        ("antmaze-large-explore-v0", 501, False, 17),
        ("antmaze-medium-stitch-v0", 1001, True, 21),
        ("pointmaze-giant-stitch-v0", 2001, True, 41),
        ("antmaze-medium-explore-v0", 2001, True, 41),
        ("my-own-logs", 201, False, 9),
        ("my-own-logs", 5000, True, 41),
    ],
)
def test_waypoints_are_the_papers_for_each_dataset(dataset: str, states: int, augmented: bool, waypoints: int):
    config = configure_hd(long_data(dataset, states, augmented), "paper")
    assert (config.waypoints, config.stride, config.prediction) == (waypoints, 25, "eps")
    assert config.horizon == 25 * (waypoints - 1) + 1
    assert config.high == config.low == LevelConfig(256, 8, 32)


@pytest.mark.parametrize("profile", ["smoke", "laptop", "paper"])
@pytest.mark.parametrize("name", PLANNERS)
def test_every_planner_has_settings_that_fit_at_every_profile(name: str, profile):
    data = long_data("pointmaze-medium-stitch-v0", 201)
    config = configure_planner(name, data, profile)
    assert config.profile == profile
    assert PLANNERS[name].for_data(replace(config, **({} if profile == "smoke" else SMALLER)), data).horizon == 101


SMALLER = {"high": SMALL, "low": SMALL}


def test_short_logs_get_waypoints_that_are_closer():
    config = configure_hd(DATA)
    assert (config.stride, config.waypoints) == (8, 5)


def test_horizons_that_do_not_fit_are_refused():
    data = long_data("pointmaze-giant-stitch-v0", 500, augmented=True)
    with pytest.raises(BadInput, match="41 waypoints, 25 steps apart, span 1001 states; the longest episode has 500"):
        HierarchicalDiffuser.for_data(configure_hd(data), data)
    assert configure_hd(data, "smoke").waypoints == 20
    with pytest.raises(BadInput, match="at least 3"):
        configure_hd(long_data("my-own-logs", 4))
    with pytest.raises(BadInput, match="nothing between"):
        replace(CONFIG, stride=1)


def test_what_cannot_be_planned_is_named():
    with pytest.raises(BadInput, match="known to be a place"):
        HierarchicalDiffuser.for_data(CONFIG, DATA.but_meta(position=()))
    with pytest.raises(BadInput, match="places of 2 columns, not of 3"):
        planner().waypoints(np.zeros((1, 3)), np.zeros((1, 3)), rngs(0))
    with pytest.raises(BadInput, match="'cd' is not one of hd"):
        configure_planner("cd", DATA)
