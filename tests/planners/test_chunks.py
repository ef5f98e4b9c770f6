"""Composed plans: chunks, overlaps and ends against naive loops and closed forms, for CD and GSC alike."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_chunks import CONFIG, GOALS, KINDS, STARTS, Steps, noise_for, planner
from strategies import drives
from torch import Tensor

from scots.core.config import Profile
from scots.core.errors import BadInput
from scots.datasets.specs import SPECS
from scots.models import diffusion
from scots.models.diffusion import SamplingConfig
from scots.planners.canvas import Canvas, blend, overlap_errors
from scots.planners.cd import CompositionalDiffuser
from scots.planners.chunks import ChunkConfig, ChunkPlanner
from scots.planners.gsc import GenerativeSkillChaining, average_overlaps

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
    """One plan, chunk by chunk with textbook steps of DDIM or DPM-Solver++(2M), as one would write it first: (N, T, D).

    Steps of the latter are all as long in log-SNR, and the last call of the network is the outcome.
    """
    config: ChunkConfig = model.config
    length, is_gsc = config.overlap, isinstance(model, GenerativeSkillChaining)
    chunks = [config.sampling.temperature * noise[number].clone() for number in range(count)]
    second = config.sampling.order == 2
    grid = diffusion.time_grid(config.sampling).tolist()
    steps = [*pairwise(grid), *([(grid[-1], grid[-1])] if second else [])]
    cleans: dict[int, Tensor] = {}  # the latest estimate of each chunk

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
        if now == then:
            return clean
        towards = clean + (clean - cleans.get(number, clean)) / 2 if second else clean
        cleans[number] = clean
        return alpha_then * towards + sigma_then * (noisy - alpha * towards) / sigma

    inpaint()
    for now, then in steps:
        if is_gsc:
            for left, right in pairwise(chunks):
                mean = (left[-length:] + right[:length]) / 2
                left[-length:], right[:length] = mean.clone(), mean.clone()
        if is_gsc or config.composition == "parallel":
            chunks = [stepped(number, now, then, (now, now)) for number in range(count)]
        else:
            for number in range(count):
                chunks[number] = stepped(number, now, then, (max(then, now - config.lag), now))
        inpaint()
    return torch.stack(chunks)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize(("composition", "lag"), [("interleaved", 0.3), ("interleaved", 0.1), ("parallel", 0.3)])
def test_all_plans_at_once_are_denoised_like_each_by_a_naive_loop(
    kind: type[ChunkPlanner], composition, lag: float, order
):
    """Plans of one to four chunks side by side; the times of five steps of first order are 0.2 apart."""
    sampling = SamplingConfig(steps=5, order=order, temperature=0.7)
    changes = {"composition": composition, "lag": lag, "sampling": sampling}
    model = planner(kind, replace(CONFIG, **changes)).double()  # so that only the order of the sums may differ
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


@pytest.mark.parametrize("profile", ["laptop", "paper"])
def test_neighbours_are_told_to_be_no_further_ahead_than_in_training(profile: Profile):
    """At `laptop` that is where they are; the solver of `paper` makes steps of ten times the lag, as published."""
    settings = CompositionalDiffuser.configure(SPECS["pointmaze-giant-stitch-v0"], 200, profile)
    names = ("schedule", "prediction", "lag", "sampling", "eta", "guidance")
    model, told = planner(config=replace(CONFIG, **{name: getattr(settings, name) for name in names})), []
    model.ema.register_forward_pre_hook(lambda _, inputs: told.append((inputs[1][0].item(), *inputs[3][0].tolist())))
    model.plan(STARTS[:1], GOALS[:1], [0])
    now, before, after = np.array(told).reshape(settings.sampling.steps, 3, 3)[:, 1].T  # of the chunk in the middle
    assert np.array_equal(after, now)
    reached = np.append(now[1:], now[-1])  # the last step ends at clean data, for which there is no earlier time
    lag = 0.25 if profile == "laptop" else 1 / 512
    assert (now - before).max() <= lag + 1e-6
    np.testing.assert_allclose(before, np.maximum(reached, now - lag), atol=1e-6)
    assert (profile == "laptop") == np.allclose(before, reached, atol=1e-6)


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


def test_both_overlaps_of_neighbours_become_their_mean():
    noise = noise_for(CONFIG, 3, 4)
    canvas = Canvas(noise.clone(), noise.clone(), torch.tensor([4, 2, 3]), torch.zeros(3, 2, 2))
    average_overlaps(canvas, 3)
    assert torch.equal(canvas.chunks[1, 2:], noise[1, 2:])
    assert torch.equal(canvas.chunks[2, 3], noise[2, 3])
    for row, count in ((0, 4), (1, 2), (2, 3)):
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
