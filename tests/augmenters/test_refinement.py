"""The stitcher's clamps and masks, quaternions, and inverse dynamics."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import drives

from scots.augmenters.refinement import (
    InverseDynamics,
    InverseDynamicsConfig,
    RefinementConfig,
    Stitcher,
    StitcherConfig,
    label_actions,
    refine,
    unit_quaternions,
)
from scots.core.errors import BadInput
from scots.data.trajectories import Array
from scots.datasets import toy
from scots.models import diffusion
from scots.models.diffusion import SamplingConfig

DATA = toy.make(episodes=10)
CONFIG = StitcherConfig(width=16, depth=1, head_width=8)


def stitcher_of(config: StitcherConfig = CONFIG, segment: int = 9) -> Stitcher:
    return Stitcher.for_data(config, DATA, tokens=segment, context=1)


@pytest.mark.parametrize("frame", ["absolute", "chord"])
def test_refined_ends_are_bit_equal_to_what_was_given(frame):
    stitcher = stitcher_of(replace(CONFIG, frame=frame))
    ends = DATA.observations[np.arange(40).reshape(20, 2)]
    segments = stitcher.refine(ends, torch.Generator().manual_seed(0))
    assert segments.shape == (20, 9, 2)
    assert np.array_equal(segments[:, [0, -1]], ends)
    again = stitcher.refine(ends, torch.Generator().manual_seed(0))
    assert np.array_equal(segments, again)
    assert not np.array_equal(segments, stitcher.refine(ends, torch.Generator().manual_seed(1)))


def test_loss_counts_everything_but_the_ends():
    """At initialisation the network answers zero, so the noise-prediction loss is the mean square of the noise."""
    stitcher = stitcher_of()
    batch = stitcher.batch(DATA, 4000, np.random.default_rng(0))
    loss, _ = stitcher.loss(batch, torch.Generator().manual_seed(0))
    assert loss.item() == pytest.approx(7 / 9, rel=0.02)


def test_every_window_waits_under_the_papers_mask_and_none_without():
    stitcher = stitcher_of()
    last = stitcher.batch(DATA, 4000, np.random.default_rng(0))["last"]
    assert (last.min(), last.max()) == (0, 7)
    free = stitcher_of(replace(CONFIG, early_arrival=0.0)).batch(DATA, 100, np.random.default_rng(0))["last"]
    assert (free == 8).all()


def test_the_chord_joins_the_ends_at_even_steps_and_deviations_have_unit_size():
    stitcher = stitcher_of(replace(CONFIG, frame="chord"))
    windows = stitcher.scale(torch.from_numpy(DATA.windows(DATA.window_starts(9), 9)))
    chord = diffusion.chord(windows[:, [0, -1]], windows.shape[1])
    torch.testing.assert_close(chord[:, [0, -1]], windows[:, [0, -1]])
    torch.testing.assert_close(chord.diff(dim=1), chord.diff(dim=1)[:, :1].expand(-1, 8, -1), rtol=1e-3, atol=1e-5)
    deviation = ((windows - chord) / stitcher.deviation).flatten(0, 1).std(dim=0)
    np.testing.assert_allclose(deviation, 1, rtol=0.05)


def test_segments_need_something_to_refine():
    with pytest.raises(BadInput, match="at least 3"):
        stitcher_of(segment=2)


def test_quaternions_become_unit_and_nothing_else_changes():
    observations = np.random.default_rng(0).normal(size=(3, 5, 9)).astype(np.float32)
    before = observations.copy()
    after = unit_quaternions(observations, (2,))
    np.testing.assert_allclose(np.linalg.norm(after[..., 2:6], axis=-1), 1, rtol=1e-6)
    assert np.array_equal(after[..., [0, 1, 6, 7, 8]], before[..., [0, 1, 6, 7, 8]])


def test_labels_pair_each_state_with_the_next_and_the_last_with_itself():
    inverse = InverseDynamics.for_data(InverseDynamicsConfig(hidden=(8,)), DATA).eval()
    states, rows, made = DATA.observations[:5], np.arange(5), np.zeros(5, dtype=bool)
    actions = label_actions(states, rows, made, DATA.actions, inverse, keep_actions=False)
    with torch.no_grad():
        for t in range(5):
            pair = states[[t]], states[[min(t + 1, 4)]]
            np.testing.assert_allclose(actions[[t]], inverse.action(*map(torch.from_numpy, pair)), rtol=1e-5, atol=1e-6)
    assert np.abs(actions).max() <= 1


def test_recorded_actions_are_kept_between_recorded_states_and_nowhere_else():
    inverse = InverseDynamics.for_data(InverseDynamicsConfig(hidden=(8,)), DATA).eval()
    rows = np.array([3, 4, 5, 6, 30, 31, 32, 33, 34])  # a join between the fourth and the fifth
    made = np.array([0, 0, 0, 0, 0, 1, 0, 0, 0], dtype=bool)
    states = DATA.observations[rows]
    labelled = label_actions(states, rows, made, DATA.actions, inverse, keep_actions=False)
    mixed = label_actions(states, rows, made, DATA.actions, inverse, keep_actions=True)
    kept = np.array([1, 1, 1, 0, 0, 0, 1, 1, 1], dtype=bool)
    assert np.array_equal(mixed[kept], DATA.actions[rows[kept]])
    np.testing.assert_allclose(mixed[~kept], labelled[~kept], rtol=1e-5, atol=1e-6)
    assert not np.isclose(labelled[kept], DATA.actions[rows[kept]]).all(axis=1).any()


# -------------------------------------------------------------------------------------------------------------- windows

LOCAL = RefinementConfig(generated=3, context=2, draws=2, keep_actions=True)
SEGMENT = 13
ROWS = np.concatenate([np.arange(13), np.arange(61, 73), np.arange(73, 85)])  # a join, then a continuation


def refined(config: RefinementConfig, is_on_data, rows: Array = ROWS) -> tuple[Array, Array, Array]:
    stitcher = Stitcher.for_data(CONFIG, DATA, **config.sizes(SEGMENT)).eval()
    noise = torch.Generator().manual_seed(0)
    return DATA.observations[rows], *refine(DATA.observations[rows], rows, stitcher, config, noise, is_on_data)


def everywhere(states: Array) -> Array:
    return np.ones(len(states), dtype=bool)


def nowhere(states: Array) -> Array:
    return np.zeros(len(states), dtype=bool)


def test_local_refinement_changes_only_states_around_joins():
    states, after, drawn = refined(LOCAL, everywhere)
    assert np.flatnonzero(drawn).tolist() == [12, 13, 14]  # state 12 is the last before the join
    assert set(drawn.tolist()) == {0, 1}
    assert np.array_equal(after[drawn == 0], states[drawn == 0])
    assert (after[drawn > 0] != states[drawn > 0]).any(axis=1).all()


def test_whole_segments_are_refined_between_their_ends_as_in_the_paper():
    states, after, drawn = refined(RefinementConfig(), nowhere)  # unchecked: what lies off the data is taken too
    recorded = np.arange(0, len(ROWS), SEGMENT - 1)
    assert np.flatnonzero(drawn == 0).tolist() == recorded.tolist()
    assert np.array_equal(after[recorded], states[recorded])


def test_a_window_off_the_data_is_drawn_again_and_then_left_as_recorded():
    states, after, drawn = refined(LOCAL, nowhere)
    assert np.array_equal(after, states)
    assert not drawn.any()
    calls: list[int] = []

    def second_time(made: Array) -> Array:
        calls.append(len(made))
        return np.full(len(made), len(calls) > 1)

    states, after, drawn = refined(LOCAL, second_time)
    assert calls == [3, 3]
    assert drawn[[12, 13, 14]].tolist() == [2, 2, 2]


def test_one_state_off_the_data_rejects_its_window_alone():
    rows = np.concatenate([np.arange(13), np.arange(61, 73), np.arange(121, 133)])
    config = replace(LOCAL, draws=1)
    _, _, drawn = refined(config, lambda made: np.arange(len(made)) != 4, rows)  # the second of the second window
    assert np.flatnonzero(drawn).tolist() == [12, 13, 14]


@given(segment=st.integers(3, 40), generated=st.integers(1, 40), context=st.integers(1, 9))
def test_windows_never_reach_what_their_neighbours_make(segment: int, generated: int, context: int):
    sizes = RefinementConfig(generated=generated, context=context).sizes(segment)
    made = sizes["tokens"] - 2 * sizes["context"]
    assert 1 <= made <= max(1, (segment - 1) // 2)
    assert made + sizes["context"] <= segment - 1


def test_no_actions_no_inverse_dynamics():
    without = replace(DATA, actions=None)
    with pytest.raises(BadInput, match="no actions"):
        InverseDynamics.for_data(InverseDynamicsConfig(), without)


def drive(heading: float) -> np.ndarray:
    return np.array([0.5, 0.4, heading, 6], np.float32)


def test_the_chord_between_two_headings_is_the_short_way_round():
    """A network that answers zero for the clean data leaves the chord as it is."""
    config = replace(CONFIG, frame="chord", prediction="x0", sampling=SamplingConfig(steps=3, order=2))
    stitcher = Stitcher.for_data(config, drives(3), tokens=9, context=1)
    ends = np.stack([[drive(350), drive(10)], [drive(10), drive(350)], [drive(80), drive(120)]])
    headings = stitcher.refine(ends, torch.Generator().manual_seed(0))[..., 2]
    turn = (np.diff(headings, axis=1) + 180) % 360 - 180
    np.testing.assert_allclose(turn[0], 2.5, atol=0.1)
    np.testing.assert_allclose(turn[1], -2.5, atol=0.1)
    np.testing.assert_allclose(turn[2], 5, atol=0.6)
    assert headings[0, 4] == pytest.approx(0, abs=0.01) or headings[0, 4] == pytest.approx(360, abs=0.01)
    assert headings.min() >= 0
    assert headings.max() < 360


def test_a_turn_through_north_is_as_small_a_change_as_any_other():
    inverse = InverseDynamics.for_data(InverseDynamicsConfig(hidden=(8,), inputs="difference"), drives(3)).eval()

    def change(heading: float, following: float) -> torch.Tensor:
        return inverse.change(torch.from_numpy(drive(following) - drive(heading)))

    torch.testing.assert_close(change(359, 1), change(10, 12))
    torch.testing.assert_close(change(1, 359), change(12, 10))
    assert (change(359, 1) - change(1, 359))[-1] > 0.2, "the sine of the turn is seen"
    assert inverse.change.std[-1] < 0.5, "scaled by turns, not by jumps of 360 degrees"
    states = torch.from_numpy(np.stack([drive(359.999), drive(0.001)]))
    actions = inverse.action(states, torch.from_numpy(drive(2)).expand(2, -1)).detach()
    np.testing.assert_allclose(actions[0], actions[1], atol=1e-3)
