"""What chunks learn from, how many a plan has, and their settings, for CD and GSC alike."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_chunks import CONFIG, DATA, GOALS, KINDS, STARTS, Steps, planner
from torch import Tensor

from scots.core.errors import BadInput
from scots.data.trajectories import Meta, Trajectories
from scots.datasets.specs import SPECS, spec_of
from scots.models import diffusion
from scots.planners.cd import CompositionalDiffuser
from scots.planners.chunks import ChunkConfig, ChunkPlanner
from scots.planners.gsc import GenerativeSkillChaining
from scots.planners.hd import HierarchicalDiffuser

# ----------------------------------------------------------------------------------------------------- number of chunks


def test_the_number_of_chunks_follows_from_the_distance():
    """Here half as many positions again as steps of distance: chunks of 8, each after the first adding 5."""
    config = replace(CONFIG, chunks=None, steps_per_distance=1.5)
    model = planner(config=config)
    model.encoder = Steps()
    distances = np.array([0, 5.3, 5.4, 8.6, 8.7, 12, 1e6])
    ends = np.zeros((len(distances), 2, 2), np.float32)
    ends[:, 1, 0] = distances
    assert model.chunk_counts(ends).tolist() == [1, 1, 2, 2, 3, 3, 20]
    strided = planner(config=replace(config, stride=2))
    strided.encoder = Steps()
    assert strided.chunk_counts(2 * ends).tolist() == [1, 1, 2, 2, 3, 3, 20]
    assert planner().chunk_counts(ends).tolist() == [3] * 7


PLANNER = planner()


@given(st.floats(0, 60), st.floats(0.5, 4), st.integers(1, 3), st.sampled_from([(8, 3), (8, 1), (12, 6)]))
def test_plans_are_as_long_as_the_distance_asks_for_and_no_longer(
    distance: float, steps_per_distance: float, stride: int, sizes: tuple[int, int]
):
    chunk, overlap = sizes
    config = replace(CONFIG, chunks=None, stride=stride, chunk=chunk, overlap=overlap)
    config = replace(config, steps_per_distance=steps_per_distance)
    PLANNER.config, PLANNER.encoder = config, Steps()
    ends = np.array([[[0, 0], [distance, 0]]])
    (count,) = PLANNER.chunk_counts(ends)
    needed = steps_per_distance * distance / stride
    assert config.positions(count) >= needed - 1e-9 or count == 20
    assert count == 1 or config.positions(count - 1) < needed


def test_without_distances_the_missing_embedding_is_named():
    with pytest.raises(BadInput, match="train it with --recorded DATA, or with --set chunks=3"):
        planner(config=replace(CONFIG, chunks=None)).plan(STARTS, GOALS, range(4))
    assert CompositionalDiffuser.needs_distances(replace(CONFIG, chunks=None))
    assert not CompositionalDiffuser.needs_distances(CONFIG)
    assert not HierarchicalDiffuser.needs_distances(None)


# ----------------------------------------------------------------------------------------------------------- training


@pytest.mark.parametrize(("stride", "front", "end"), [(1, 0, 0), (2, 6, 0), (3, 5, 9)])
def test_windows_are_uniform_over_episodes_and_their_waits(stride: int, front: int, end: int):
    """Positions that count the rows show which rows a window took; episodes have different lengths."""
    lengths = [30, 26, 40]
    rows = np.stack([np.arange(96), np.zeros(96)], axis=1)
    data = Trajectories(rows, np.cumsum([0, *lengths]), meta=Meta(position=(0, 1)))
    config = replace(CONFIG, stride=stride, front_padding=front, end_padding=end)
    model = CompositionalDiffuser.for_data(config, data)
    windows = model.batch(data, 40_000, np.random.default_rng(0))["chunk"][..., 0].long().numpy()
    every = {}
    for first, length in zip((0, 30, 56), lengths, strict=True):
        for begin in range(-front, length + end - config.span + 1):
            steps = np.clip(begin + stride * np.arange(8), 0, length - 1)
            every.setdefault(tuple((first + steps).tolist()), 0)
            every[tuple((first + steps).tolist())] += 1
    found, counts = np.unique(windows, axis=0, return_counts=True)
    assert {tuple(window) for window in found.tolist()} == set(every)
    expected = np.array([every[tuple(window)] for window in found.tolist()])
    np.testing.assert_allclose(counts / 40_000, expected / expected.sum(), atol=0.006)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_a_share_of_windows_arrives_early_or_before_it_begins(share: float):
    """Rows are numbered, so a window tells from where on it waits; a chunk of 8 may have arrived 8 positions before."""
    data = Trajectories(np.stack([np.arange(60), np.zeros(60)], axis=1), [0, 60], meta=Meta(position=(0, 1)))
    model = CompositionalDiffuser.for_data(replace(CONFIG, early_arrival=share, front_padding=0, stride=2), data)
    windows = model.batch(data, 60_000, np.random.default_rng(0))["chunk"][..., 0].long().numpy()
    arrived = (windows - windows[:, :1]).max(axis=1) // 2
    assert np.array_equal(windows, windows[:, :1] + 2 * np.minimum(np.arange(8), arrived[:, None]))
    expected = share / 15 * np.array([9, *[1] * 6, 0]) + (1 - share) * (np.arange(8) == 7)
    np.testing.assert_allclose(np.bincount(arrived, minlength=8) / 60_000, expected, atol=0.006)


def captured(config: ChunkConfig, count: int, answer: Callable[..., Tensor]) -> tuple[float, list[Tensor], Tensor]:
    """The loss with a network that answers as told, what it was given, and the clean chunks."""
    model = planner(config=config)
    given_: list[Tensor] = []

    def network(*inputs: Tensor) -> Tensor:
        given_.extend(inputs)
        return answer(*inputs)

    model.net.forward = network
    batch = model.batch(DATA, count, np.random.default_rng(0))
    loss, _ = model.loss(batch, torch.Generator().manual_seed(0))
    return loss.item(), given_, model.scale(batch["chunk"])


def test_chunks_that_only_wait_are_told_an_overlap_where_others_are_told_a_start():
    waiting = replace(CONFIG, early_arrival=1.0, front_padding=0)
    _, (_, _, _, _, has_overlap, is_end), clean = captured(waiting, 4000, lambda chunk, *_: chunk)
    waits = planner(config=waiting).batch(DATA, 4000, np.random.default_rng(0))["only_waits"]
    assert waits.float().mean().item() == pytest.approx(9 / 15, abs=0.03)
    assert (clean[waits] == clean[waits, :1]).all()
    assert not is_end[waits, 0].any()
    shares = torch.stack([side[waits].float().mean(dim=0) for side in (has_overlap, is_end)])
    torch.testing.assert_close(shares, torch.tensor([[0.8, 0.4], [0.0, 0.4]]), rtol=0, atol=0.03)


def test_each_side_is_told_an_overlap_an_end_or_nothing():
    _, (chunk, time, overlaps, times, has_overlap, is_end), clean = captured(CONFIG, 4000, lambda chunk, *_: chunk)
    assert not (has_overlap & is_end).any()
    shares = [side.float().mean(dim=0) for side in (has_overlap, is_end, ~has_overlap & ~is_end)]
    torch.testing.assert_close(torch.stack(shares), torch.tensor([[0.4] * 2, [0.4] * 2, [0.2] * 2]), rtol=0, atol=0.03)
    both = (has_overlap[:, 0] & is_end[:, 1]).float().mean()
    assert both.item() == pytest.approx(0.16, abs=0.02)  # the sides are independent
    for side, index in enumerate((0, -1)):
        assert torch.equal(chunk[is_end[:, side], index], clean[is_end[:, side], index])
        assert not (chunk[~is_end[:, side], index] == clean[~is_end[:, side], index]).any()
    late = time[:, None] - times
    assert (late >= -1e-6).all()
    assert late.max().item() == pytest.approx(0.2, abs=0.01)
    assert times.min() >= diffusion.FIRST_TIME
    own = torch.stack([clean[:, :3], clean[:, -3:]], dim=1)
    alpha, sigma = (level[..., None, None] for level in diffusion.alpha_sigma(times))
    noise = (overlaps - alpha * own) / sigma
    torch.testing.assert_close(noise[times > 0.1].std(), torch.tensor(1.0), rtol=0, atol=0.02)
    level, spread = (part[:, None, None] for part in diffusion.alpha_sigma(time))
    chunk_noise = ((chunk - level * clean) / spread)[:, 1:3]
    correlation = (chunk_noise * noise[:, 0, 1:])[time > 0.2].mean().item()
    assert abs(correlation) < 0.03  # noise of its own


def test_the_loss_leaves_out_inpainted_ends():
    """A network that answers the clean chunk plus one everywhere errs by one, except where ends are given."""
    config = replace(CONFIG, prediction="x0")
    clean = captured(config, 2000, lambda chunk, *_: chunk)[2]
    loss, (*_, is_end), _ = captured(config, 2000, lambda *_: clean + 1)
    assert loss == pytest.approx(1 - is_end.float().sum().item() / (2000 * 8), rel=1e-5)


def test_positions_are_scaled_to_the_range_of_the_data():
    scaled = planner().scale(torch.from_numpy(DATA.positions.copy()))
    torch.testing.assert_close(scaled.amin(dim=0), torch.tensor([-1.0, -1.0]))
    torch.testing.assert_close(scaled.amax(dim=0), torch.tensor([1.0, 1.0]))
    still = Trajectories(np.ones((40, 2)), [0, 40], meta=Meta(position=(0, 1)))
    assert torch.equal(CompositionalDiffuser.for_data(CONFIG, still).scale.std, torch.ones(2))


def test_members_share_their_training(tmp_path: Path):
    """A folder of one can be loaded as the other, and plans differently."""
    model = planner()
    model.save(tmp_path)
    again, other = CompositionalDiffuser.load(tmp_path), GenerativeSkillChaining.load(tmp_path)
    mine, same, different = (one.plan(STARTS, GOALS, range(4))[0].positions for one in (model, again, other))
    assert np.array_equal(mine, same)
    assert not np.allclose(mine, different)
    with pytest.raises(BadInput, match="holds a CompositionalDiffuser, not a HierarchicalDiffuser"):
        HierarchicalDiffuser.load(tmp_path)


# ---------------------------------------------------------------------------------------------------------- settings


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("dataset", "chunks"),
    [
        ("pointmaze-medium-stitch-v0", 3),
        ("pointmaze-large-stitch-v0", 6),
        ("pointmaze-giant-stitch-v0", 8),
        ("antmaze-giant-stitch-v0", 9),
        ("antmaze-medium-explore-v0", 5),
        ("antmaze-large-navigate-v0", None),
    ],
)
def test_the_published_settings_are_those_of_profile_paper(kind: type[ChunkPlanner], dataset: str, chunks: int | None):
    spec = SPECS[dataset]
    assert kind.configure(spec, spec.episode_states, "paper") == ChunkConfig(chunks=chunks)
    laptop = kind.configure(spec, spec.episode_states, "laptop")
    assert (laptop.chunks, laptop.chunk * laptop.stride, laptop.overlap * laptop.stride) == (None, 160, 56)
    assert (laptop.steps_per_distance, laptop.early_arrival, laptop.sampling.temperature) == (2.5, 0.5, 0.5)
    assert laptop.front_padding == 0


def test_the_published_training_and_sampling_are_the_defaults():
    config = ChunkConfig()
    assert (config.lag, config.front_padding, config.end_padding, config.early_arrival) == (1 / 512, 64, 0, 0)
    assert (config.sampling.temperature, config.guidance, config.candidates) == (1, 2, 40)


def test_chunks_are_no_longer_than_episodes():
    spec = spec_of(DATA)
    for profile in ("smoke", "laptop", "paper"):
        config = CompositionalDiffuser.configure(spec, 33, profile)
        assert 20 <= config.span <= 33
        assert config.chunk % config.granularity == 0
        assert config.chunk / 3 < config.overlap < config.chunk / 2
        assert config.front_padding < config.span / 2
        CompositionalDiffuser.for_data(replace(config, width=8, multipliers=config.multipliers[:2]), DATA)
    assert CompositionalDiffuser.configure(spec, 60, "laptop").stride == 3
    with pytest.raises(BadInput, match="episodes of 3 states are too short to plan with; 4 are needed"):
        CompositionalDiffuser.configure(spec, 3, "laptop")
    with pytest.raises(BadInput, match="episodes of 7 states are too short to plan with; 8 are needed"):
        CompositionalDiffuser.configure(spec, 7, "paper")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"overlap": 5}, "an overlap of 5 positions does not fit twice into a chunk of 8"),
        ({"overlap": 0}, "an overlap of 0 positions"),
        ({"chunk": 9}, "a chunk of 9 positions is not divisible by 2, for 2 levels"),
        ({"stride": 0}, "at least 1"),
        ({"chunks": 0}, "at least 1"),
        ({"candidates": 0}, "at least 1"),
        ({"steps_per_distance": 0.0}, "steps_per_distance must be positive, got 0.0"),
        ({"eta": 1.0}, "eta is a setting of the first-order solver"),
    ],
)
def test_settings_that_cannot_be_are_named(changes: dict, message: str):
    with pytest.raises(BadInput, match=message):
        replace(CONFIG, **changes)


def test_data_that_cannot_be_planned_is_named():
    with pytest.raises(BadInput, match="no position columns are known; name them with --position"):
        CompositionalDiffuser.for_data(CONFIG, DATA.with_meta(position=()))
    with pytest.raises(BadInput, match="8 positions, 6 steps apart, span 43 states; the longest episode has 33"):
        CompositionalDiffuser.for_data(replace(CONFIG, stride=6), DATA)
