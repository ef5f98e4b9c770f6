"""SCoTS from end to end: embed, search, stitch, refine, label. Short trajectories in, long and diverse ones out.

The choice of segments never depends on refinement (its ends are clamped), so it runs in three passes: train and embed
once; walk over row numbers; then refine and label whole shards of trajectories in large batches, in worker processes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from scots.augmenters.embedding import Encoder, RawState, TemporalDistance, TemporalDistanceConfig
from scots.augmenters.index import SegmentIndex, segment_starts
from scots.augmenters.refinement import (
    InverseDynamics,
    InverseDynamicsConfig,
    Stitcher,
    StitcherConfig,
    unit_quaternions,
)
from scots.augmenters.stitching import RECIPES, StitchingConfig, Walk, assemble, walk
from scots.core.config import Config, Profile, Seeds
from scots.core.console import console
from scots.core.errors import BadInput
from scots.core.files import atomic
from scots.data import formats
from scots.data.npz import read_npz, write_npz
from scots.data.shards import Make, Shards, validation_path
from scots.data.trajectories import Array, Meta, Trajectories
from scots.models.cache import artifact, clocked, found, model_folder, trained
from scots.models.training import TrainingConfig

ROWS_PER_SHARD = 10_000
REFINED_TOGETHER = 256  # segments in one network call: more do not fit the cache
Recipe = Literal["paper", "official"]


@dataclass(frozen=True)
class ScotsConfig(Config):
    """Everything that decides an augmented dataset, apart from the data and the seed.

    `profile` and `recipe` only name where the settings came from: a small result can never pass for a large one.
    """

    profile: str = "custom"
    recipe: str = "custom"
    trajectories: int = 5000  # N_traj; validation gets a tenth more
    encoder: Literal["temporal", "raw"] = "temporal"
    refine: bool = True
    embedding: TemporalDistanceConfig = TemporalDistanceConfig()
    stitching: StitchingConfig = StitchingConfig()
    stitcher: StitcherConfig = StitcherConfig()
    inverse: InverseDynamicsConfig = InverseDynamicsConfig()

    def __post_init__(self) -> None:
        if self.trajectories < 1:
            raise BadInput(f"at least one trajectory is needed, got {self.trajectories}")
        if self.stitcher.segment != self.stitching.segment:
            raise BadInput(f"segments have {self.stitching.segment} states, the stitcher {self.stitcher.segment}")

    @property
    def validation(self) -> int:
        """Trajectories of the validation twin."""
        return max(1, self.trajectories // 10)

    def changed(self, changes: dict[str, Any]) -> ScotsConfig:
        """A copy with some fields changed, by dotted path; what differs from a recipe goes by its name no longer."""
        config = self
        for path, value in changes.items():
            config = config.but(path, value)
        return self._renamed(config)

    def with_segment(self, states: int) -> ScotsConfig:
        """The same with segments of another length: stitching and stitcher must agree on it."""
        stitching, stitcher = replace(self.stitching, segment=states), replace(self.stitcher, segment=states)
        return self._renamed(replace(self, stitching=stitching, stitcher=stitcher))

    def _renamed(self, config: ScotsConfig) -> ScotsConfig:
        return config if config == self else replace(config, recipe="custom")


# ---------------------------------------------------------------------------------------------------------- profiles


def configure(data: Trajectories, profile: Profile = "laptop", recipe: Recipe = "official") -> ScotsConfig:
    """The config for a dataset: the paper's settings for it, the recipe's choices, at the profile's scale."""
    name = data.meta.dataset or ""
    long = "giant" in name or "explore" in name
    stitching = replace(StitchingConfig(stitches=80 if long else 40), **RECIPES[recipe])
    if "maze" not in name:  # the recipe's threshold is in the metres of the mazes
        stitching = replace(stitching, min_displacement=None)
    config = ScotsConfig(
        profile=profile,
        recipe=recipe,
        trajectories=5_000_000 // (stitching.states - 1),
        embedding=TemporalDistanceConfig(discount=0.995 if "giant" in name else 0.99),
        stitching=stitching,
    )
    return PROFILES[profile](config, data)


def _paper(config: ScotsConfig, data: Trajectories) -> ScotsConfig:
    """The paper's sizes and training lengths: for a GPU."""
    return config


def _laptop(config: ScotsConfig, data: Trajectories) -> ScotsConfig:
    """Well under an hour on two CPU cores: the constrained embedding, smaller networks, a second-order solver."""
    few_columns = data.observations.shape[1] <= 8
    embedding = replace(
        config.embedding,
        form="constrained",
        hidden=(256, 256, 256),
        normalize=True,
        training=TrainingConfig(steps=4000, batch_size=1024, learning_rate=1e-3, schedule="cosine", warmup=100),
    )
    stitcher = replace(
        config.stitcher,
        width=64 if few_columns else 128,
        depth=4,
        prediction="v",
        frame="chord",
        hold=0.0,
        ema=0.999,
        training=replace(
            config.stitcher.training,
            steps=6_000 if few_columns else 12_000,
            batch_size=64 if few_columns else 32,
            learning_rate=1e-3 if few_columns else 3e-3,
            warmup=200,
        ),
        sampling=replace(config.stitcher.sampling, steps=8, order=2),
    )
    inverse = replace(
        config.inverse,
        inputs="difference",
        dropout=0.0,
        training=replace(
            config.inverse.training,
            steps=6_000 if few_columns else 12_000,
            batch_size=1024,
            learning_rate=1e-3 if few_columns else 5e-3,
        ),
    )
    return replace(config, embedding=embedding, stitcher=stitcher, inverse=inverse)


def _smoke(config: ScotsConfig, data: Trajectories) -> ScotsConfig:
    """Seconds: every part runs, nothing is learned well. For tests."""

    def short(training: TrainingConfig) -> TrainingConfig:
        return replace(training, steps=60, batch_size=64, warmup=5)

    small = _laptop(config, data)
    return replace(
        small,
        trajectories=20,
        embedding=replace(small.embedding, hidden=(64, 64), training=short(small.embedding.training)),
        stitching=replace(small.stitching, stitches=6),
        stitcher=replace(small.stitcher, width=32, depth=1, training=short(small.stitcher.training)),
        inverse=replace(small.inverse, hidden=(64, 64), training=short(small.inverse.training)),
    )


PROFILES: dict[str, Callable[[ScotsConfig, Trajectories], ScotsConfig]] = {
    "smoke": _smoke,
    "laptop": _laptop,
    "paper": _paper,
}


# ----------------------------------------------------------------------------------------------------------- one run


@dataclass(frozen=True)
class Job(Config):
    """What decides the bytes of an augmented dataset, and where its inputs are."""

    config: ScotsConfig
    seed: int
    source: str  # fingerprint of the data
    meta: Meta  # of the source
    inputs: str  # folder: observations, latents and segments as npz, and the index
    stitcher: str | None  # folders of trained models
    inverse: str | None

    def runs(self) -> list[range]:
        """Trajectory numbers of every shard; training first, no shard holds both kinds."""
        size = max(1, ROWS_PER_SHARD // self.config.stitching.states)
        train, total = self.config.trajectories, self.config.trajectories + self.config.validation
        return [
            range(n, min(n + size, end)) for begin, end in ((0, train), (train, total)) for n in range(begin, end, size)
        ]


def augment(
    data: Trajectories, config: ScotsConfig, *, seed: int = 0, out: Path | None = None, workers: int | None = None
) -> Trajectories:
    """Compose long trajectories from a dataset, and a validation set from more walks over the same segments.

    Written to `out` (by default among the artifacts) as it goes; the same call continues an interrupted run.
    """
    states = config.stitching.states
    size = f"{config.trajectories:,} + {config.validation:,} trajectories of {states:,} states"
    console.print(f"{data.meta.dataset or 'this data'}: {size}, {_megabytes(data, config):,.0f} MB", soft_wrap=True)
    job = job_of(data, config, seed)
    target = out or augmented_path(job)
    meta = _described(job)
    if finished(target, job):
        return formats.read(target)
    with clocked(augmented_path(job).parent):
        prepare(data, job)
        shards = Shards.beside(target, job.fingerprint(), job.runs())
        shards.complete(_worker, (job,), workers=workers, label="stitching", weight=states, unit="states")
        train = [run for run in shards.runs if run.start < config.trajectories]
        shards.write(train, meta, target)
        shards.write(shards.runs[len(train) :], meta, validation_path(target))
        shards.remove()
    return formats.read(target)


def augmented_path(job: Job) -> Path:
    """Where the augmented data of a job is, unless it was told to be elsewhere."""
    return artifact("augmented", job.to_json()) / "augmented.npz"


def finished(target: Path, job: Job) -> bool:
    """Whether a file and its twin are what a job makes."""
    there = target.exists() and validation_path(target).exists()
    return there and formats.read_meta(target) == _described(job)


def _megabytes(data: Trajectories, config: ScotsConfig) -> float:
    """Size of both files: states and actions as float32, one row number, three scores and a flag per row."""
    columns = data.observations.shape[1] + (0 if data.actions is None else data.actions.shape[1])
    rows = (config.trajectories + config.validation) * config.stitching.states
    return rows * (4 * columns + 8 + 12 + 1) / 1e6


def job_of(data: Trajectories, config: ScotsConfig, seed: int) -> Job:
    """The job that augments a dataset; nothing is done yet."""
    stitching = config.stitching
    settings = [
        stitching.segment,
        stitching.min_displacement,
        stitching.index,
        config.encoder,
        config.embedding.to_json(),
    ]
    source = data.fingerprint()
    inputs = artifact("segments", source, str(seed), *map(str, settings))
    return Job(
        config=config,
        seed=seed,
        source=source,
        meta=data.meta,
        inputs=str(inputs),
        stitcher=str(model_folder(Stitcher, config.stitcher, source, seed)) if config.refine else None,
        inverse=str(model_folder(InverseDynamics, config.inverse, source, seed)) if data.actions is not None else None,
    )


def prepare(data: Trajectories, job: Job) -> None:
    """Train what has to be trained, embed every row, and index the segments; each is done once and kept."""
    config, seed, inputs = job.config, job.seed, Path(job.inputs)
    encoder: Encoder
    if config.encoder == "temporal":
        encoder = trained(TemporalDistance, config.embedding, data, seed, "embedding")
    else:
        encoder = RawState(data)
    if not (inputs / "index").exists():
        _index(data, encoder, config.stitching, seed, inputs)
    if config.refine:
        trained(Stitcher, config.stitcher, data, seed, "stitcher")
    if data.actions is not None:
        trained(InverseDynamics, config.inverse, data, seed, "inverse dynamics")


def _index(data: Trajectories, encoder: Encoder, config: StitchingConfig, seed: int, folder: Path) -> None:
    latents = encoder.encode(data.observations)
    segments = segment_starts(data, config.segment, config.min_displacement)
    index = SegmentIndex.build(latents[segments], config.index, seed)
    share = len(segments) / len(data.window_starts(config.segment))
    console.print(
        f"segments: {len(segments):,} of {config.segment} states ({share:.0%} of all windows); "
        f"{config.index} index, recall@10 {index.recall:.3f}",
        soft_wrap=True,
    )
    members = {"observations": data.observations, "latents": latents, "segments": segments}
    with atomic(folder / "inputs.npz") as temporary:
        write_npz(temporary, {**members, "episodes": data.episode_of(segments)})
    index.save(folder / "index")


def _worker(job: Job) -> Make:
    """What a worker process keeps: the memory-mapped inputs, the index, and the two networks."""
    torch.set_num_threads(1)
    inputs, config, seeds = read_npz(Path(job.inputs) / "inputs.npz"), job.config, Seeds(job.seed)
    observations, latents, segments = (inputs[name] for name in ("observations", "latents", "segments"))
    index = SegmentIndex.load(Path(job.inputs) / "index")
    stitcher = Stitcher.load(Path(job.stitcher)) if job.stitcher else None
    inverse = InverseDynamics.load(Path(job.inverse)) if job.inverse else None

    def make(run: range) -> dict[str, Array]:
        chosen = walk(latents, segments, index, config.stitching, seeds, run, inputs["episodes"])
        rows = assemble(chosen.segments, config.stitching.segment)
        states = observations[rows]  # (B, T, O)
        if stitcher is not None:
            states = refine(states, stitcher, seeds, run, job.meta.quaternions)
        arrays = {"observations": states, "source": rows, "scores": _scores(chosen, config.stitching.segment)}
        if inverse is not None:
            arrays["actions"] = np.concatenate([inverse.label(states[n : n + 1]) for n in range(len(states))])
        arrays["terminals"] = np.broadcast_to(np.arange(states.shape[1]) == states.shape[1] - 1, states.shape[:2])
        return {name: values.reshape(-1, *values.shape[2:]) for name, values in arrays.items()}

    return make


def refine(states: Array, stitcher: Stitcher, seeds: Seeds, run: range, quaternions: tuple[int, ...] = ()) -> Array:
    """Regenerate what lies between segment ends (Eq. 12) in composed trajectories (B, T, O); the ends stay as they are.

    Trajectory n draws its noise from its own stream.
    """
    stride = stitcher.config.segment - 1
    stops = states[:, ::stride]
    ends = np.stack([stops[:, :-1], stops[:, 1:]], axis=2)  # (B, S, 2, O)
    refined = states.copy()
    for place, number in enumerate(run):
        generator = torch.Generator().manual_seed(seeds.integer("refine", number))
        pieces = [
            stitcher.refine(ends[place, n : n + REFINED_TOGETHER], generator)
            for n in range(0, ends.shape[1], REFINED_TOGETHER)
        ]
        inner = unit_quaternions(np.concatenate(pieces)[:, :-1], quaternions)
        refined[place, :-1] = inner.reshape(-1, states.shape[2])
    refined[:, ::stride] = stops
    return refined


def _scores(chosen: Walk, segment: int) -> Array:
    """Progress, novelty and score of the segment each state came with (B, T, 3)."""
    terms = np.stack([chosen.progress, chosen.novelty, chosen.score], axis=2)  # (B, S, 3)
    repeated = np.repeat(terms, segment - 1, axis=1)
    return np.concatenate([terms[:, :1], repeated], axis=1)


@dataclass(frozen=True)
class Stitched:
    """How augmented data was made."""

    config: ScotsConfig
    seed: int
    source: str  # fingerprint of the data that was stitched

    def embedding(self) -> TemporalDistance | None:
        """The embedding it was searched in, if it is still among the artifacts."""
        return found(TemporalDistance, self.config.embedding, self.source, self.seed)


def stitched_by(meta: Meta) -> Stitched | None:
    """What augmented data says of how it was made, if it was made here."""
    step = next((step for step in reversed(meta.provenance) if {"config", "seed", "source"} <= set(step)), None)
    return Stitched(ScotsConfig.from_dict(step["config"]), int(step["seed"]), str(step["source"])) if step else None


def _described(job: Job) -> Meta:
    step: dict[str, Any] = {
        "origin": "stitched here",
        "config": job.config.to_dict(),
        "seed": job.seed,
        "source": job.source,
        "versions": {name: version(name) for name in ("scots", "torch", "faiss-cpu")},
    }
    return replace(job.meta, provenance=(*job.meta.provenance, step))
