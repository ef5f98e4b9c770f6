"""Plans composed of chunks: a denoiser of short windows that overlap, trained on data no longer than one of them.

    chunk 0    s ===============+++++                     the start is inpainted
    chunk 1                     +++++==========+++++      overlaps, + with the chunks beside it
    chunk 2                                    +++++=========== g      the goal is inpainted

One network serves every chunk: on either side it is given an end (inpainted), the noisy overlap of the neighbour, or
nothing. It learns all three from windows of recorded data. Members differ in how the chunks of a plan are denoised
together: `cd` conditions each on its neighbours (Luo et al., 2025), `gsc` averages overlaps (Mishra et al., 2023).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
import torch
from torch import Tensor, nn

from scots.core.config import Config, Profile, Seeds, after_training
from scots.core.errors import BadInput
from scots.data.trajectories import Array, Normalizer, Trajectories
from scots.datasets.specs import DatasetSpec
from scots.models import diffusion
from scots.models.diffusion import Prediction, SamplingConfig, Schedule, SolverStep, TimeDensity
from scots.models.nets import Scale, feature_sizes, fourier_features, mlp
from scots.models.training import EMA, Batch, TrainingConfig
from scots.models.unet import SequenceEncoder, TemporalUnet
from scots.planners.base import Plan, PlannerModel
from scots.planners.canvas import Canvas, blend, overlap_errors

POSITIONS_PER_CALL = 16384  # in one network call: bounds memory, and larger batches are no faster on a CPU
_FLAG_WIDTH = 32  # columns of the condition that say whether an end is inpainted
_FEWEST_POSITIONS = 4  # of a chunk
_MOST_CHUNKS = 20  # a distance that asks for more is not to be trusted

Composition = Literal["interleaved", "parallel"]
"""How CD denoises at every time: chunk after chunk, or all at once."""


@dataclass(frozen=True)
class ChunkConfig(Config):
    """The denoiser of chunks and how plans are composed. The defaults are those of Compositional Diffuser."""

    chunk: int = 160  # positions of a chunk
    overlap: int = 56  # positions that neighbours share
    stride: int = 1  # steps from one position to the next; plans go straight between them
    chunks: int | None = after_training(None)  # of every plan; None: as many as the temporal distance takes
    steps_per_distance: float = after_training(2.5)  # of such a plan: distances fall far short of recorded steps
    width: int = 128
    multipliers: tuple[int, ...] = (1, 2, 4, 8)  # of the width, level by level
    time_sizes: tuple[int, ...] = (96, 192, 192, 96)  # of the layers of the time embedding
    overlap_width: int = 32
    overlap_multipliers: tuple[int, ...] = (1, 2, 3, 4)
    overlap_features: int = 256
    deep_overlaps: bool = True  # two blocks on every level of their encoders, and more at the end
    frequencies: int = 0  # of Fourier features of each position; 0: none
    condition_width: int = 0  # of an MLP of all that a chunk is told, its ends included; 0: each layer has its own
    schedule: Schedule = "cosine"
    prediction: Prediction = "x0"
    time_density: TimeDensity = "uniform"  # of the diffusion times that it is trained at
    unconditioned: float = 0.2  # share of sides that training tells nothing of; the others are half overlap, half end
    lag: float = 1 / 512  # diffusion time by which overlaps are up to ahead of their chunk, and are told to be at most
    front_padding: int = 64  # steps for which a training window may wait at the begin of its episode
    end_padding: int = 0  # steps for which it may wait at the end
    early_arrival: float = 0.0  # share of training windows that arrive early, or before they begin, and then wait
    composition: Composition = after_training("interleaved")
    guidance: float = after_training(2.0)  # CD: weight of the overlaps (classifier-free guidance); 1: no guidance
    candidates: int = after_training(40)  # plans drawn for each that is kept: the one whose overlaps agree best
    sampling: SamplingConfig = after_training(SamplingConfig(steps=50, temperature=1.0))
    eta: float = after_training(1.0)  # share of the variance of stochastic DDIM that is taken out at each step
    ema: float = 0.9995
    training: TrainingConfig = TrainingConfig(steps=2_000_000, batch_size=128, learning_rate=2e-4)

    def __post_init__(self) -> None:
        if not 1 <= self.overlap <= self.chunk // 2:
            raise BadInput(f"an overlap of {self.overlap} positions does not fit twice into a chunk of {self.chunk}")
        if self.chunk % self.granularity:
            levels = len(self.multipliers)
            raise BadInput(
                f"a chunk of {self.chunk} positions is not divisible by {self.granularity}, for {levels} levels"
            )
        if min(self.stride, self.candidates) < 1 or (self.chunks is not None and self.chunks < 1):
            raise BadInput(f"stride, candidates and chunks must be at least 1: {self}")
        if self.steps_per_distance <= 0:
            raise BadInput(f"steps_per_distance must be positive, got {self.steps_per_distance}")
        if self.eta and self.sampling.order == 2:
            raise BadInput("eta is a setting of the first-order solver; use 0 with order 2")

    @property
    def granularity(self) -> int:
        """What divides the positions of a chunk: two for every level of the network after the first."""
        return 2 ** (len(self.multipliers) - 1)

    @property
    def span(self) -> int:
        """Environment states from the first to the last position of a chunk."""
        return (self.chunk - 1) * self.stride + 1

    def positions(self, chunks: int) -> int:
        """Positions of a plan of this many chunks."""
        return chunks * self.chunk - (chunks - 1) * self.overlap


class ChunkDenoiser(nn.Module):
    """A temporal U-Net of noisy chunks, conditioned on the noisy overlaps with both neighbours.

    As published, every residual block has an MLP of the whole condition. With `condition_width` there is one for all of
    them, which is told the inpainted ends too: it costs little, and leaves only the drawing to a narrow U-Net.
    """

    def __init__(self, config: ChunkConfig, columns: int) -> None:
        super().__init__()
        self.frequencies, features = config.frequencies, columns * (1 + 2 * config.frequencies)
        own_time = (config.overlap_width, 4 * config.overlap_width, config.overlap_width)
        encoder = features, config.overlap, config.overlap_width, config.overlap_multipliers, own_time
        features_out, deep = config.overlap_features, config.deep_overlaps
        self.overlaps = nn.ModuleList(SequenceEncoder(*encoder, features_out, deep=deep) for _ in range(2))
        condition, width = 2 * (config.overlap_features + _FLAG_WIDTH), config.condition_width
        self.condition = mlp((condition + 2 * features, *[width] * 3)) if width else None
        self.net = TemporalUnet(
            columns,
            config.width,
            config.multipliers,
            config.time_sizes,
            context=features - columns,
            condition=width or condition,
            condition_hidden=0 if width else 2 * (config.time_sizes[-1] + condition),
        )

    def forward(
        self,
        chunk: Tensor,
        time: Tensor,
        overlaps: Tensor,
        overlap_times: Tensor,
        has_overlap: Tensor,
        is_inpainted: Tensor,
    ) -> Tensor:
        """Chunks (B, T, D) noised at times (B,) -> prediction (B, T, D).

        On both sides: the overlap (B, 2, O, D) with its own time (B, 2), whether it is to be used (B, 2), and whether
        the end of the chunk is inpainted (B, 2).
        """
        positions = fourier_features(chunk, self.frequencies)
        told = [
            encoder(fourier_features(overlaps[:, side], self.frequencies), overlap_times[:, side])
            * has_overlap[:, side, None]
            for side, encoder in enumerate(self.overlaps)
        ]
        told.append(is_inpainted.to(chunk.dtype).repeat_interleave(_FLAG_WIDTH, dim=1))
        if self.condition is None:
            condition = torch.cat(told, dim=-1)
        else:
            ends = positions[:, [0, -1]] * is_inpainted[..., None]
            condition = self.condition(torch.cat([*told, ends.flatten(1)], dim=-1))
        return self.net(chunk, time, positions[..., chunk.shape[-1] :], condition)


class ChunkPlanner(PlannerModel):
    """A planner whose plans are composed of chunks. A member says how one denoising step goes."""

    config_class = ChunkConfig
    weights = "ChunkPlanner"  # members share their training: only what they do with the network differs

    def __init__(self, config: ChunkConfig, sizes: dict[str, int]) -> None:
        super().__init__(config, sizes)
        self.scale = Scale(sizes["position"], sizes.get("angles", 0))
        self.net = ChunkDenoiser(config, sizes["position"])
        self.ema = EMA(self.net, config.ema, warmup=True)

    @classmethod
    def for_data(cls, config: ChunkConfig, data: Trajectories, **sizes: int) -> Self:
        """Sized and scaled for the position columns of a dataset, whose range becomes [-1, 1]."""
        if not data.meta.position:
            raise BadInput("no position columns are known; name them with --position x,y")
        longest = int(data.lengths.max())
        if longest + config.front_padding + config.end_padding < config.span:
            raise BadInput(
                f"{config.chunk} positions, {config.stride} steps apart, span {config.span} states; the longest "
                f"episode has {longest}"
            )
        angles = data.meta.position_angles
        model = cls(config, feature_sizes("position", len(data.meta.position), angles))
        model.scale.fit_angles(data.positions, angles)
        values = model.scale.array_features(data.positions)
        low, high = values.min(axis=0), values.max(axis=0)
        half = np.where(high > low, (high - low) / 2, 1)
        model.scale.fit(Normalizer(((low + high) / 2).astype(np.float32), half.astype(np.float32)))
        return model

    # ------------------------------------------------------------------------------------------------------- training

    def batch(self, data: Trajectories, size: int, rng: np.random.Generator) -> Batch:
        """Windows as long as a chunk, uniform over the episodes with their waits; a share of them arrives early."""
        config: ChunkConfig = self.config
        before, after = config.front_padding, config.end_padding
        ends = np.cumsum(np.maximum(data.lengths + before + after - config.span + 1, 0))
        numbers = rng.integers(ends[-1], size=size)
        episodes = np.searchsorted(ends, numbers, side="right")
        last = data.lengths[episodes] + after - 1 - (ends[episodes] - 1 - numbers)  # step of the window's last position
        steps = last[:, None] - config.stride * np.arange(config.chunk)[::-1]
        rows = data.offsets[episodes][:, None] + np.clip(steps, 0, data.lengths[episodes][:, None] - 1)
        windows, arrived = torch.from_numpy(data.positions[rows]), torch.from_numpy(self._draw_arrival(size, rng))
        return {"chunk": diffusion.hold_after(windows, arrived), "only_waits": arrived == 0}

    def _draw_arrival(self, size: int, rng: np.random.Generator) -> Array:
        """The position from which on each of B windows waits; the last one if it does not arrive early.

        Plans are longer than the way. The chunk that arrives may do so anywhere, and the next ones stand still from
        their first position on: early arrivals are uniform over a window and as long a time before it.
        """
        length = self.config.chunk
        return np.maximum(diffusion.draw_last(2 * length, self.config.early_arrival, size, rng) - length, 0)

    def loss(self, batch: Batch, generator: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
        """The denoising error of chunks that are told an end, an overlap or nothing, on either side by chance.

        A chunk that only waits is never told a start: no plan begins by waiting at its goal, and one that learned to
        would not leave.
        """
        config: ChunkConfig = self.config
        clean = self.scale(batch["chunk"])
        time = diffusion.draw_times(len(clean), generator, config.time_density).to(clean.device)
        noise = torch.randn(clean.shape, generator=generator).to(clean.device)
        told = torch.rand(len(clean), 2, generator=generator).to(clean.device)
        has_overlap = (told >= config.unconditioned) & (told < (1 + config.unconditioned) / 2)
        is_inpainted = told >= (1 + config.unconditioned) / 2
        starts_waiting = is_inpainted[:, 0] & batch["only_waits"]
        has_overlap[:, 0] |= starts_waiting
        is_inpainted[:, 0] &= ~starts_waiting
        mask = torch.zeros(*clean.shape[:2], 1, dtype=torch.bool, device=clean.device)
        mask[:, [0, -1], 0] = is_inpainted
        noisy = torch.where(mask, clean, diffusion.noised(clean, time, noise, config.schedule))
        overlaps = self._noisy_overlaps(clean, time, generator)
        output = self.net(noisy, time, *overlaps, has_overlap, is_inpainted)
        error = output - diffusion.target(config.prediction, clean, time, noise, config.schedule)
        return error.square().masked_fill(mask, 0.0).mean(), {}

    def _noisy_overlaps(self, clean: Tensor, time: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Both overlaps of chunks (B, 2, O, D) with noise of their own, as neighbours have, and their times (B, 2)."""
        length = self.config.overlap
        ahead = self.config.lag * torch.rand(len(clean), 2, generator=generator).to(clean.device)
        times = (time[:, None] - ahead).clamp(min=diffusion.FIRST_TIME)
        overlaps = torch.stack([clean[:, :length], clean[:, -length:]], dim=1)
        noise = torch.randn(overlaps.shape, generator=generator).to(clean.device)
        flat = (overlaps.flatten(0, 1), times.flatten(), noise.flatten(0, 1))
        return diffusion.noised(*flat, self.config.schedule).view_as(overlaps), times

    def ema_copies(self) -> list[tuple[EMA, nn.Module]]:
        """The averaged weights that plan."""
        return [(self.ema, self.net)]

    # ------------------------------------------------------------------------------------------------------- planning

    @torch.inference_mode()
    def plan(self, start: Array, goal: Array | None, seeds: Sequence[int]) -> list[Plan]:
        """The best of the candidates from each start (B, P) to its goal (B, P), all denoised together."""
        assert goal is not None, "a plan that is composed needs a goal"
        ends = np.stack([start, goal], axis=1).astype(np.float32)
        if ends.shape[-1] != self.scale.columns:
            raise BadInput(f"this planner expects {self.scale.columns} position columns, got {ends.shape[-1]}")
        counts, candidates = self.chunk_counts(ends), self.config.candidates
        noise = self._noise(counts, seeds).flatten(0, 1).to(self.device)
        scaled = self.scale(torch.from_numpy(ends).to(self.device)).repeat_interleave(candidates, dim=0)
        repeated = torch.from_numpy(counts).to(self.device).repeat_interleave(candidates)
        chunks = self.compose(scaled, repeated, noise)
        errors = overlap_errors(chunks, repeated, self.config.overlap).view(-1, candidates)
        best = errors.argmin(dim=1) + candidates * torch.arange(len(ends), device=self.device)
        return [
            Plan(self._positions(own[:count], pair), seed)
            for own, count, pair, seed in zip(chunks[best], counts.tolist(), ends, seeds, strict=True)
        ]

    def _noise(self, counts: Array, seeds: Sequence[int]) -> Tensor:
        """Noise of all candidates (B, C, N, T, D), that of each plan from its own seed; zeros past its last chunk."""
        config: ChunkConfig = self.config
        noise = torch.zeros(len(counts), config.candidates, int(counts.max()), config.chunk, self.sizes["position"])
        for own, seed, count in zip(noise, seeds, counts.tolist(), strict=True):
            shape = (config.candidates, count, *noise.shape[3:])
            own[:, :count] = torch.from_numpy(Seeds(seed).stream("chunks").standard_normal(shape, dtype=np.float32))
        return noise

    def fill_in(self, plans: Sequence[Plan], first: Sequence[int], last: Sequence[int]) -> None:
        """Nothing: plans have all their positions from the start."""

    @classmethod
    def needs_distances(cls, config: ChunkConfig) -> bool:
        """Whether the number of chunks follows from the distance of start and goal."""
        return config.chunks is None

    def chunk_counts(self, ends: Array) -> Array:
        """How many chunks a plan between each two positions (B, 2, P) has (B,)."""
        config: ChunkConfig = self.config
        if config.chunks is not None:
            return np.full(len(ends), config.chunks)
        if self.encoder is None:
            raise BadInput(
                "the number of chunks follows from the temporal distance of start and goal, whose embedding is not in "
                f"{self.folder or 'this planner'}: train it with --recorded DATA, or with --set chunks=3"
            )
        latents = self.encoder.encode(ends.reshape(-1, ends.shape[-1])).reshape(len(ends), 2, -1)
        steps = config.steps_per_distance * self.encoder.distance(latents[:, 0], latents[:, 1])
        positions = steps / config.stride
        counts = np.ceil((positions - config.overlap) / (config.chunk - config.overlap))
        return np.clip(counts, 1, _MOST_CHUNKS).astype(np.int64)

    def compose(self, ends: Tensor, counts: Tensor, noise: Tensor) -> Tensor:
        """Denoise chunks (B, N, T, D) of plans between ends (B, 2, D) together; each plan has its own number (B,)."""
        config: ChunkConfig = self.config
        canvas = Canvas(config.sampling.temperature * noise, torch.zeros_like(noise), counts, ends)
        every = canvas.every()
        canvas.chunks[every] = canvas.inpainted(canvas.chunks[every], *every)
        steps = diffusion.solver_steps(config.sampling, config.schedule, config.eta)
        times = [*(step.time for step in steps), diffusion.SOLVER_TIMES[config.schedule][1]]
        for step, next_time in zip(steps, times[1:], strict=True):
            self.denoise(canvas, step, next_time)
        return canvas.chunks

    @abstractmethod
    def denoise(self, canvas: Canvas, step: SolverStep, next_time: float) -> None:
        """Take all chunks one solver step on, to `next_time`."""

    def advance(
        self, canvas: Canvas, plans: Tensor, numbers: Tensor, step: SolverStep, times: tuple[float, float] | None
    ) -> None:
        """Take these chunks (M,) one solver step on; `times` are those of the overlaps before and after, if used."""
        noisy, config = canvas.chunks[plans, numbers], self.config
        inner = canvas.has_neighbours(plans, numbers)
        overlaps = canvas.overlaps(plans, numbers, config.overlap)
        clean = self._clean(noisy, step.time, overlaps, times, inner)
        advanced = step.advance(noisy, clean, canvas.clean[plans, numbers])
        canvas.chunks[plans, numbers] = canvas.inpainted(advanced, plans, numbers)
        canvas.clean[plans, numbers] = clean

    def _clean(
        self, noisy: Tensor, time: float, overlaps: Tensor, times: tuple[float, float] | None, inner: Tensor
    ) -> Tensor:
        """Clean estimates (M, T, D) of noisy chunks, in network calls of a bounded size."""
        size, pieces = max(1, POSITIONS_PER_CALL // noisy.shape[1]), []
        for chunk, own, inside in zip(noisy.split(size), overlaps.split(size), inner.split(size), strict=True):
            now = chunk.new_full((len(chunk),), time)
            output = self._predict(chunk, now, own, times, inside)
            clean = diffusion.to_clean(self.config.prediction, output, chunk, now, self.config.schedule)
            pieces.append(clean.clamp(-1, 1))
        return torch.cat(pieces)

    def _predict(
        self, chunk: Tensor, now: Tensor, overlaps: Tensor, times: tuple[float, float] | None, inner: Tensor
    ) -> Tensor:
        """The network's prediction, guided towards the overlaps; inpainted ends are never dropped."""
        guidance, count = self.config.guidance, len(chunk)
        own_times = chunk.new_tensor(times or (0.0, 0.0)).expand(count, -1)
        told = (inner if times else torch.zeros_like(inner)), ~inner
        if times is None or guidance == 1 or not inner.any():
            return self.ema(chunk, now, overlaps, own_times, *told)
        untold = torch.zeros_like(inner), ~inner
        twice = [torch.cat([part, part]) for part in (chunk, now, overlaps, own_times)]
        guided, free = self.ema(*twice, *(torch.cat(pair) for pair in zip(told, untold, strict=True))).split(count)
        return free + guidance * (guided - free)

    def _positions(self, chunks: Tensor, ends: Array) -> Array:
        """One position per environment step (L, P) from the chunks of a plan (N, T, D); ends are kept to the bit."""
        joined = blend(chunks, self.config.overlap)
        share = torch.arange(self.config.stride, device=joined.device)[:, None] / self.config.stride
        between = torch.lerp(joined[:-1, None], joined[1:, None], share)  # features: angles turn the short way
        dense = torch.cat([between.flatten(0, 1), joined[-1:]])
        positions = self.scale.inverse(dense).cpu().numpy()
        positions[[0, -1]] = ends  # scaling back and forth would round them
        return positions

    # ------------------------------------------------------------------------------------------------------- settings

    @classmethod
    def configure(cls, spec: DatasetSpec, states: int, profile: Profile) -> ChunkConfig:
        """Chunks as published, or as long as episodes of this many states have room for, at the profile's scale."""
        config = replace(ChunkConfig(chunks=spec.chunks), **SCALES[profile])
        if states >= config.span:
            return config
        stride = max(1, (states - 1) // (config.chunk - 1))
        chunk = min(config.chunk, states // config.granularity * config.granularity)
        if chunk < _FEWEST_POSITIONS:
            least = max(_FEWEST_POSITIONS, config.granularity)
            raise BadInput(f"episodes of {states} states are too short to plan with; {least} are needed")
        shorter = replace(config, stride=stride, chunk=chunk, overlap=round(config.overlap / config.chunk * chunk))
        return replace(shorter, front_padding=config.front_padding * shorter.span // config.span)


SCALES: dict[Profile, dict[str, Any]] = {
    "smoke": {  # seconds: everything runs, nothing is learned well
        "chunk": 32,
        "overlap": 12,
        "chunks": 2,
        "width": 16,
        "multipliers": (1, 2),
        "time_sizes": (16, 32, 16),
        "overlap_width": 8,
        "overlap_multipliers": (1, 2),
        "overlap_features": 16,
        "deep_overlaps": False,
        "schedule": "linear",
        "prediction": "v",
        "lag": 0.25,
        "front_padding": 12,
        "early_arrival": 0.5,
        "candidates": 2,
        "sampling": SamplingConfig(steps=4, order=2),
        "eta": 0.0,
        "ema": 0.9,
        "training": TrainingConfig(steps=60, batch_size=32, learning_rate=1e-3),
    },
    "laptop": {  # two CPU cores: every eighth step, and positions as Fourier features, so that walls are learned soon
        "chunk": 20,
        "overlap": 7,
        "stride": 8,
        "chunks": None,
        "width": 32,
        "multipliers": (1, 2, 4),
        "time_sizes": (32, 128, 64),
        "overlap_width": 32,
        "overlap_multipliers": (1, 2),
        "overlap_features": 64,
        "deep_overlaps": False,
        "frequencies": 7,
        "condition_width": 256,
        "schedule": "linear",
        "prediction": "v",
        "time_density": "data",
        "lag": 0.25,  # more than between any two calls of the solver
        "front_padding": 0,  # a plan that waits before it leaves is late
        "early_arrival": 0.5,
        "guidance": 1.0,
        "candidates": 4,
        "sampling": SamplingConfig(steps=10, order=2, temperature=0.5),  # eta damps the noise of the published solver
        "eta": 0.0,
        "ema": 0.999,
        "training": TrainingConfig(
            steps=10_000, batch_size=128, learning_rate=1e-3, weight_decay=1e-5, schedule="cosine", warmup=200
        ),
    },
    "paper": {},  # the published sizes and training lengths: for a GPU
}
"""Profile -> fields."""
