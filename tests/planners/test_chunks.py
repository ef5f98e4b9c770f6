"""Composed plans: chunks, overlaps and ends against naive loops and closed forms, for CD and GSC alike."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import drives
from torch import Tensor

from scots.core.errors import BadInput
from scots.data.trajectories import Array, Meta, Trajectories
from scots.datasets import toy
from scots.datasets.specs import SPECS, spec_of
from scots.models import diffusion
from scots.models.diffusion import SamplingConfig
from scots.models.training import TrainingConfig
from scots.planners.cd import CompositionalDiffuser
from scots.planners.chunks import Canvas, ChunkConfig, ChunkPlanner, blend, overlap_errors
from scots.planners.gsc import GenerativeSkillChaining, average_overlaps
from scots.planners.hd import HierarchicalDiffuser

DATA = toy.make(episodes=10)
CONFIG = ChunkConfig(
    chunk=8,
    overlap=3,
    chunks=3,
    width=8,
    multipliers=(1, 2),
    time_sizes=(8, 16, 8),
    overlap_width=8,
    overlap_multipliers=(1, 2),
    overlap_features=8,
    frequencies=1,
    schedule="linear",
    prediction="v",
    lag=0.2,
    front_padding=6,
    candidates=2,
    sampling=SamplingConfig(steps=4, order=2, temperature=1.0),
    eta=0.0,
    training=TrainingConfig(steps=1, batch_size=4, learning_rate=1e-3),
)
KINDS: list[type[ChunkPlanner]] = [CompositionalDiffuser, GenerativeSkillChaining]
STARTS, GOALS = DATA.observations[[3, 90, 200, 7]], DATA.observations[[250, 4, 17, 120]]


def planner(kind: type[ChunkPlanner] = CompositionalDiffuser, config: ChunkConfig = CONFIG) -> ChunkPlanner:
    torch.manual_seed(0)
    return kind.for_data(config, DATA).eval()


def noise_for(config: ChunkConfig, plans: int, chunks: int) -> Tensor:
    return torch.randn(plans, chunks, config.chunk, 2, generator=torch.Generator().manual_seed(5))


class Steps:
    """Distances that are given: a latent is the first coordinate of a position."""

    def encode(self, positions: Array) -> Array:
        return positions[:, :1]

    def distance(self, start: Array, goal: Array) -> Array:
        return np.abs(start - goal)[..., 0]


# -------------------------------------------------------------------------------------------------------------- plans


@pytest.mark.slow
@given(
    st.sampled_from(KINDS),
    st.integers(1, 4),
    st.integers(1, 3),
    st.sampled_from(["interleaved", "parallel"]),
    st.sampled_from(["eps", "x0", "v"]),
    st.integers(0, 100),
)
def test_plans_have_the_length_and_the_ends_they_should(
    kind: type[ChunkPlanner], chunks: int, stride: int, composition, prediction, seed: int
):
    changes = {"chunks": chunks, "stride": stride, "composition": composition, "prediction": prediction}
    model = planner(kind, replace(CONFIG, **changes))
    plans = model.plan(STARTS, GOALS, range(seed, seed + 4))
    for plan, start, goal in zip(plans, STARTS, GOALS, strict=True):
        assert plan.positions.shape == ((chunks * 8 - (chunks - 1) * 3 - 1) * stride + 1, 2)
        assert plan.positions.dtype == np.float32
        assert np.isfinite(plan.positions).all()
        assert np.array_equal(plan.positions[0], start)
        assert np.array_equal(plan.positions[-1], goal)
    assert all(
        np.array_equal(a.positions, b.positions)
        for a, b in zip(plans, model.plan(STARTS, GOALS, range(seed, seed + 4)), strict=True)
    )
    before = [plan.positions.copy() for plan in plans]
    model.fill_in(plans, [0] * 4, [1000] * 4)
    assert all(np.array_equal(plan.positions, kept) for plan, kept in zip(plans, before, strict=True))


def naive(model: ChunkPlanner, ends: Tensor, count: int, noise: Tensor) -> Tensor:
    """One plan, chunk by chunk with the textbook DDIM step, as one would write it first: (N, T, D)."""
    config: ChunkConfig = model.config
    length, is_gsc = config.overlap, isinstance(model, GenerativeSkillChaining)
    chunks = [config.sampling.temperature * noise[number].clone() for number in range(count)]
    grid = torch.linspace(1, diffusion.FIRST_TIME, config.sampling.steps + 1, dtype=torch.float64).tolist()

    def inpaint() -> None:
        chunks[0][0], chunks[-1][-1] = ends[0], ends[1]

    def predict(number: int, now: float, times: tuple[float, float]) -> Tensor:
        nothing = noise.new_zeros(length, 2)
        before, after = number > 0, number < count - 1
        overlaps = torch.stack(
            [chunks[number - 1][-length:] if before else nothing, chunks[number + 1][:length] if after else nothing]
        )

        def network(use: bool) -> Tensor:
            told = torch.tensor([[before and use, after and use]]), torch.tensor([[not before, not after]])
            inputs = chunks[number][None], noise.new_tensor([now]), overlaps[None], noise.new_tensor([times])
            return model.ema(*inputs, *told)[0]

        free = network(False)
        return free if is_gsc else free + config.guidance * (network(True) - free)

    def stepped(number: int, now: float, then: float, times: tuple[float, float]) -> Tensor:
        noisy, output = chunks[number], predict(number, now, times)
        (alpha, sigma), (alpha_then, sigma_then) = (
            [level.item() for level in diffusion.alpha_sigma(torch.tensor(time, dtype=torch.float64))]
            for time in (now, then)
        )
        clean = (alpha * noisy - sigma * output).clamp(-1, 1)  # of a v-prediction
        return alpha_then * clean + sigma_then * (noisy - alpha * clean) / sigma

    inpaint()
    for n, (now, then) in enumerate(pairwise(grid)):
        at_next = grid[n + 1] if n + 2 < len(grid) else now  # the last call has no later one
        if is_gsc and count >= 3:
            for left, right in pairwise(chunks):
                mean = (left[-length:] + right[:length]) / 2
                left[-length:], right[:length] = mean.clone(), mean.clone()
        if is_gsc or config.composition == "parallel":
            chunks = [stepped(number, now, then, (now, now)) for number in range(count)]
        else:
            for number in range(count):
                chunks[number] = stepped(number, now, then, (at_next, now))
        inpaint()
    return torch.stack(chunks)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("composition", ["interleaved", "parallel"])
def test_all_plans_at_once_are_denoised_like_each_by_a_naive_loop(kind: type[ChunkPlanner], composition):
    """Plans of one to four chunks side by side."""
    model = planner(kind, replace(CONFIG, composition=composition, sampling=SamplingConfig(steps=5, temperature=0.7)))
    model = model.double()  # so that only the order of the sums may differ
    counts, noise = torch.tensor([4, 1, 2, 3]), noise_for(CONFIG, 4, 4).double()
    ends = model.scale(torch.from_numpy(np.stack([STARTS, GOALS], axis=1)))
    with torch.inference_mode():
        together = model.compose(ends, counts, noise)
        for row, count in enumerate(counts.tolist()):
            alone = naive(model, ends[row], count, noise[row])
            torch.testing.assert_close(together[row, :count], alone, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("order", [1, 2])
def test_one_chunk_is_plain_inpainting(kind: type[ChunkPlanner], order):
    sampling = SamplingConfig(steps=6, order=order, temperature=0.5)
    model, noise = planner(kind, replace(CONFIG, sampling=sampling)), noise_for(CONFIG, 4, 1)
    ends = model.scale(torch.from_numpy(np.stack([STARTS, GOALS], axis=1)))

    def denoise(sequence: Tensor, time: Tensor) -> Tensor:
        sides = torch.zeros(4, 2, 3, 2), torch.zeros(4, 2), torch.zeros(4, 2, dtype=torch.bool)
        output = model.ema(sequence, time, *sides, torch.ones(4, 2, dtype=torch.bool))
        return diffusion.to_clean("v", output, sequence, time).clamp(-1, 1)

    known = torch.zeros(4, 8, 2)
    known[:, [0, -1]] = ends
    with torch.inference_mode():
        expected = diffusion.sample(denoise, known, diffusion.ends_mask(8), sampling, noise[:, 0])
        composed = model.compose(ends, torch.ones(4, dtype=torch.long), noise)
    torch.testing.assert_close(composed[:, 0], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_plan_depends_on_its_own_seed_alone(kind: type[ChunkPlanner], monkeypatch: pytest.MonkeyPatch):
    """Among longer and shorter plans, alone, or split over network calls: the same up to rounding."""
    model = planner(kind, replace(CONFIG, chunks=None))
    model.encoder = Steps()
    starts, goals = (
        np.zeros((6, 2), np.float32),
        np.array([[5, 1], [9, 0], [1, 0], [17, 2], [12, 1], [9, 9]], np.float32),
    )
    together = model.plan(starts, goals, range(6))
    assert len({len(plan.positions) for plan in together}) > 2
    for n, plan in enumerate(together):
        (alone,) = model.plan(starts[n : n + 1], goals[n : n + 1], [n])
        np.testing.assert_allclose(alone.positions, plan.positions, rtol=1e-4, atol=1e-3)
    monkeypatch.setattr("scots.planners.chunks.POSITIONS_PER_CALL", 17)
    for plan, again in zip(together, model.plan(starts, goals, range(6)), strict=True):
        np.testing.assert_allclose(again.positions, plan.positions, rtol=1e-4, atol=1e-3)
    assert not np.allclose(together[0].positions, model.plan(starts[:1], goals[:1], [7])[0].positions)


@pytest.mark.parametrize(
    ("kind", "composition", "calls"),
    [
        (CompositionalDiffuser, "interleaved", 12),
        (CompositionalDiffuser, "parallel", 4),
        (GenerativeSkillChaining, "interleaved", 4),
    ],
)
def test_one_network_call_a_step_and_chunk_serves_all_plans_and_candidates(kind, composition, calls: int):
    model, sizes = planner(kind, replace(CONFIG, composition=composition)), []
    model.ema.register_forward_pre_hook(lambda _, inputs: sizes.append(len(inputs[0])))
    model.plan(STARTS, GOALS, range(4))
    assert len(sizes) == calls
    branches = 1 if kind is GenerativeSkillChaining else 2
    assert sum(sizes) == 4 * CONFIG.candidates * 3 * CONFIG.sampling.steps * branches


def test_guidance_weighs_the_overlaps_and_leaves_the_ends():
    model = planner(config=replace(CONFIG, guidance=3.0))
    seen: list[tuple[Tensor, Tensor]] = []

    def network(chunk: Tensor, time: Tensor, overlaps: Tensor, times: Tensor, has_overlap: Tensor, ends: Tensor):
        seen.append((has_overlap, ends))
        return chunk + has_overlap.sum(dim=1)[:, None, None]

    model.ema.average.forward = network
    chunk, inner = torch.randn(3, 8, 2), torch.tensor([[False, True], [True, True], [True, False]])
    guided = model._predict(chunk, torch.ones(3), torch.zeros(3, 2, 3, 2), (0.5, 0.5), inner)
    torch.testing.assert_close(guided, chunk + 3.0 * inner.sum(dim=1)[:, None, None])
    ((has_overlap, ends),) = seen
    assert torch.equal(has_overlap, torch.cat([inner, torch.zeros_like(inner)]))
    assert torch.equal(ends, torch.cat([~inner, ~inner]))


# ------------------------------------------------------------------------------------------------- from chunks to plans


def test_overlaps_fade_by_the_published_exponential():
    earlier, later = torch.zeros(6, 1), torch.ones(6, 1)
    joined = blend(torch.stack([earlier, later, later]), overlap=3)
    middle = 1 - (np.exp(-1) - np.exp(-2)) / (1 - np.exp(-2))
    np.testing.assert_allclose(joined[:, 0], [0, 0, 0, 0, middle, 1, 1, 1, 1, 1, 1, 1], atol=1e-6)
    assert torch.equal(blend(earlier[None], 3), earlier)


@given(st.integers(2, 5), st.integers(1, 4), st.integers(0, 1000))
def test_chunks_cut_from_one_sequence_come_back_as_it(count: int, overlap: int, seed: int):
    """Where overlaps agree, blending changes nothing."""
    whole = torch.randn(count * 8 - (count - 1) * overlap, 2, generator=torch.Generator().manual_seed(seed))
    chunks = torch.stack([whole[n * (8 - overlap) : n * (8 - overlap) + 8] for n in range(count)])
    torch.testing.assert_close(blend(chunks, overlap), whole)
    assert overlap_errors(chunks[None], torch.tensor([count]), overlap).item() == 0


def test_overlap_errors_are_sums_over_the_joins_of_a_plan():
    chunks = noise_for(CONFIG, 3, 4)
    for row, count in enumerate((4, 2, 1)):
        pairs = [(chunks[row, n, -3:], chunks[row, n + 1, :3]) for n in range(count - 1)]
        expected = sum((a - b).square().mean().item() for a, b in pairs)
        found = overlap_errors(chunks, torch.tensor([4, 2, 1]), 3)[row].item()
        assert found == pytest.approx(expected)


def test_the_candidate_whose_overlaps_agree_is_kept(monkeypatch: pytest.MonkeyPatch):
    """One of five candidates is planted; it is another one for every plan."""
    model = planner(config=replace(CONFIG, candidates=5))
    whole = torch.linspace(-0.5, 0.5, 18)[:, None].expand(-1, 2)
    agreeing = torch.stack([whole[n * 5 : n * 5 + 8] for n in range(3)])

    def compose(ends: Tensor, counts: Tensor, noise: Tensor) -> Tensor:
        chunks = noise.clone()
        for row, best in enumerate((3, 0, 4, 1)):
            chunks[5 * row + best] = agreeing + 0.01 * row
        return chunks

    monkeypatch.setattr(model, "compose", compose)
    for row, plan in enumerate(model.plan(STARTS, GOALS, range(4))):
        inner = model.scale(torch.from_numpy(plan.positions))[1:-1]
        torch.testing.assert_close(inner, whole[1:-1] + 0.01 * row, rtol=1e-4, atol=1e-4)


def test_positions_between_those_of_chunks_lie_on_straight_lines():
    model = planner(config=replace(CONFIG, stride=4))
    (plan,) = model.plan(STARTS[:1], GOALS[:1], [0])
    knots = plan.positions[4:-4:4]
    expected = np.concatenate([np.linspace(a, b, 4, endpoint=False) for a, b in pairwise(knots)])
    np.testing.assert_allclose(plan.positions[4 : 4 + len(expected)], expected, atol=1e-4)


def test_overlaps_are_averaged_in_plans_of_three_chunks_or_more():
    noise = noise_for(CONFIG, 3, 4)
    canvas = Canvas(noise.clone(), noise.clone(), torch.tensor([4, 2, 3]), torch.zeros(3, 2, 2))
    average_overlaps(canvas, 3)
    assert torch.equal(canvas.chunks[1], noise[1])
    assert torch.equal(canvas.chunks[2, 3], noise[2, 3])
    for row, count in ((0, 4), (2, 3)):
        for n in range(count - 1):
            mean = (noise[row, n, -3:] + noise[row, n + 1, :3]) / 2
            torch.testing.assert_close(canvas.chunks[row, n, -3:], mean)
            torch.testing.assert_close(canvas.chunks[row, n + 1, :3], mean)
        assert torch.equal(canvas.chunks[row, :count, 3:-3], noise[row, :count, 3:-3])


def test_turning_plans_take_the_short_way_round():
    """Knots are joined in features of angles, so nothing lies between 350 and 10 degrees but 0."""
    config = replace(CONFIG, stride=2, chunks=2)
    model = CompositionalDiffuser.for_data(config, drives(3).with_meta(position=(3, 2))).eval()
    (plan,) = model.plan(np.array([[6, 350]]), np.array([[6, 10]]), [0])
    assert plan.positions[:, 1].min() >= 0
    assert plan.positions[:, 1].max() < 360
    with pytest.raises(BadInput, match="expects 2 position columns, got 3"):
        model.plan(np.zeros((1, 3)), np.zeros((1, 3)), [0])


# ----------------------------------------------------------------------------------------------------- number of chunks


def test_the_number_of_chunks_follows_from_the_distance():
    """1.2 positions for each step of distance: chunks of 8, each after the first adding 5."""
    model = planner(config=replace(CONFIG, chunks=None))
    model.encoder = Steps()
    distances = np.array([0, 6.6, 6.7, 10.8, 10.9, 15, 1e6])
    ends = np.zeros((len(distances), 2, 2), np.float32)
    ends[:, 1, 0] = distances
    assert model.chunk_counts(ends).tolist() == [1, 1, 2, 2, 3, 3, 20]
    for count, distance in zip((1, 2, 2, 3), distances[1:5], strict=True):
        assert model.config.positions(count) >= 1.2 * distance
    strided = planner(config=replace(CONFIG, chunks=None, stride=2))
    strided.encoder = Steps()
    assert strided.chunk_counts(2 * ends).tolist() == [1, 1, 2, 2, 3, 3, 20]
    assert planner().chunk_counts(ends).tolist() == [3] * 7


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


def test_chunks_are_no_longer_than_episodes():
    spec = spec_of(DATA)
    for profile in ("smoke", "laptop", "paper"):
        config = CompositionalDiffuser.configure(spec, 33, profile)
        assert config.span <= 33
        assert config.chunk % config.granularity == 0
        CompositionalDiffuser.for_data(replace(config, width=8, multipliers=config.multipliers[:2]), DATA)
    with pytest.raises(BadInput, match="episodes of 5 states are too short"):
        CompositionalDiffuser.configure(spec, 5, "laptop")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"overlap": 5}, "an overlap of 5 positions does not fit twice into a chunk of 8"),
        ({"overlap": 0}, "an overlap of 0 positions"),
        ({"chunk": 9}, "a chunk of 9 positions is not divisible by 2, for 2 levels"),
        ({"stride": 0}, "at least 1"),
        ({"chunks": 0}, "at least 1"),
        ({"candidates": 0}, "at least 1"),
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
