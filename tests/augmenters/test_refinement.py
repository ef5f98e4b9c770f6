"""The stitcher's clamps and masks, quaternions, and inverse dynamics."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from scots.augmenters.refinement import (
    InverseDynamics,
    InverseDynamicsConfig,
    Stitcher,
    StitcherConfig,
    unit_quaternions,
)
from scots.core.errors import BadInput
from scots.datasets import toy
from scots.models import diffusion

DATA = toy.make(episodes=10)
CONFIG = StitcherConfig(width=16, depth=1, head_width=8)


def stitcher_of(config: StitcherConfig = CONFIG, segment: int = 9) -> Stitcher:
    return Stitcher.for_data(config, DATA, segment=segment)


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
    states = DATA.windows(np.array([0, 40]), 5)
    actions = inverse.label(states)
    with torch.no_grad():
        for t in range(5):
            pair = states[:, t], states[:, min(t + 1, 4)]
            np.testing.assert_allclose(
                actions[:, t], inverse.action(*map(torch.from_numpy, pair)), rtol=1e-5, atol=1e-6
            )
    assert np.abs(actions).max() <= 1


def test_no_actions_no_inverse_dynamics():
    without = replace(DATA, actions=None)
    with pytest.raises(BadInput, match="no actions"):
        InverseDynamics.for_data(InverseDynamicsConfig(), without)
