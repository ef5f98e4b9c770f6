"""SCoTS from end to end: embed, search, stitch, refine, label. Short trajectories in, long and diverse ones out.

Where rewards were recorded, trajectories carry rewards; where endings were, they end where an episode would.

The choice of segments never depends on refinement (both ends of a segment are clamped), so it runs in three passes:
train and embed once; walk over row numbers; then refine and label shards of trajectories in large batches, in workers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np
import torch

from scots.augmenters.base import Augmenter
from scots.augmenters.embedding import ENCODERS, StateEncoder, TemporalDistance, TemporalDistanceConfig
from scots.augmenters.index import SegmentIndex, segment_starts
from scots.augmenters.refinement import (
    InverseDynamics,
    Stitcher,
    label_actions,
    refine,
)
from scots.augmenters.rewards import (
    Ends,
    RewardModel,
    TerminationModel,
    environment_ends,
    is_terminal_row,
    kept_states,
    label_rewards,
    until_terminal,
)
from scots.augmenters.settings import FEW_COLUMNS, PROFILES, VARIANTS, ScotsConfig
from scots.augmenters.stitching import Segments, StitchingConfig, assemble, walk
from scots.core.config import Profile, Seeds
from scots.core.console import console
from scots.core.files import atomic
from scots.core.locks import locked
from scots.data.manifold import Manifold, StepUnits
from scots.data.npz import read_npz, write_npz
from scots.data.shards import Make, ShardedJob
from scots.data.strides import StrideDistances
from scots.data.support import Support
from scots.data.trajectories import Array, Meta, Trajectories
from scots.data.ways import RecordedWays
from scots.datasets.specs import DatasetSpec, spec_of
from scots.models.cache import artifact_folder, key_of, load_cached, load_or_train, model_folder


class Scots(Augmenter):
    """State-covering trajectory stitching, with the choices of the official code or of the paper's text."""

    config_class = ScotsConfig

    def __init__(self, name: str, variant: Literal["official", "paper"]) -> None:
        self.name, self.variant = name, variant

    def configure(self, spec: DatasetSpec, profile: Profile, *, for_planner: bool = False) -> ScotsConfig:
        """The paper's settings for a dataset with the choices of the variant, at the profile's scale.

        For a planner only positions are made where whole states would cost much more; not so in the paper.
        """
        choices = {"min_displacement": spec.min_displacement} | VARIANTS[self.variant]
        stitching = StitchingConfig(segment=spec.segment, stitches=spec.stitches, **choices)
        config = ScotsConfig(
            trajectories=max(1, spec.augmented_states // (stitching.states - 1)),
            columns="position" if for_planner and profile != "paper" and spec.columns > FEW_COLUMNS else "all",
            embedding=TemporalDistanceConfig(discount=spec.discount),
            stitching=stitching,
        )
        return PROFILES[profile](config, spec)

    def episode_states(self, config: ScotsConfig, spec: DatasetSpec) -> int:
        """States of a stitched trajectory."""
        return config.stitching.states

    def described(self, config: ScotsConfig) -> str:
        """Lengths of segments and trajectories, and how many there will be."""
        stitching, count = config.stitching, config.trajectories
        trajectories = f"{count:,} {'trajectory' if count == 1 else 'trajectories'} of {stitching.states:,} states"
        return f"segments of {stitching.segment} states, {stitching.stitches:,} to a trajectory; {trajectories}"

    def augment(
        self,
        data: Trajectories,
        config: ScotsConfig,
        *,
        seed: int,
        out: Path | None = None,
        profile: Profile = "laptop",
        workers: int | None = None,
    ) -> Trajectories:
        """Stitch long trajectories, and a validation twin from more walks over the same segments.

        A finished run of the same job is left as it is; another file in its place is never replaced.
        """
        job, recorded = self.job(data, config, seed, profile), recorded_states(data, config)
        shared = 4 * data.rows * (recorded.observations.shape[1] + config.embedding.latent)
        sizes = {"row_bytes": job.row_bytes(recorded), "shared_bytes": shared}
        return self.run_job(job, out, lambda: prepare(data, config, seed), label="stitching", workers=workers, **sizes)

    def job(self, data: Trajectories, config: ScotsConfig, seed: int, profile: Profile) -> StitchingJob:
        """The job that stitches a dataset; nothing is done yet."""
        is_for_planner = config.columns == "position"
        default = self.configure(spec_of(data), profile, for_planner=is_for_planner)
        source, recorded = data.fingerprint(), recorded_states(data, config)
        packages = ("torch", "faiss-cpu")
        step = self.provenance(config, default, profile=profile, seed=seed, source=source, packages=packages)
        return StitchingJob(
            episodes=config.trajectories,
            states=config.stitching.states,
            config=config,
            seed=seed,
            source=source,
            recorded=recorded.fingerprint(),
            labels_actions=recorded.actions is not None,
            meta=replace(recorded.meta, provenance=(*data.meta.provenance, step)),
        )


# ------------------------------------------------------------------------------------------------------- preparation


def train_encoder(data: Trajectories, config: ScotsConfig, seed: int) -> StateEncoder:
    """The state encoder that segments are searched with: from the cache, or trained now."""
    return ENCODERS[config.encoder](config.embedding, data, seed)


def recorded_states(data: Trajectories, config: ScotsConfig) -> Trajectories:
    """The recorded data with the columns that trajectories are made of."""
    return data.only_positions() if config.columns == "position" else data


def prepare(data: Trajectories, config: ScotsConfig, seed: int) -> None:
    """Train the networks, embed every row and index the segments; what is in the cache is not made again."""
    recorded = recorded_states(data, config)
    prepare_segments(data, config, seed)
    if config.refine:
        sizes = config.refinement.sizes(config.stitching.segment)
        load_or_train(Stitcher, config.stitcher, recorded, seed, "stitcher", sizes)
    if recorded.actions is not None:
        load_or_train(InverseDynamics, config.inverse, recorded, seed, "inverse dynamics")
        if recorded.rewards is not None:
            load_or_train(RewardModel, config.inverse, recorded, seed, "rewards")
    if learns_termination(recorded):
        load_or_train(TerminationModel, config.inverse, recorded, seed, "termination")


def prepare_segments(data: Trajectories, config: ScotsConfig, seed: int) -> None:
    """What a walk needs and nothing else: train the encoder, embed every row and index the segments."""
    folder, stitching = segments_folder(config, data.fingerprint(), seed), config.stitching
    if not (folder / "index").exists():  # data without segments is refused before anything is trained on it
        segment_starts(data, stitching.segment, stitching.min_displacement)
    encoder = train_encoder(data, config, seed)
    with locked(folder):
        if not (folder / "index").exists():
            _index(data, recorded_states(data, config), encoder, stitching, seed, folder)


def learns_termination(data: Trajectories) -> bool:
    """Whether where trajectories end is learned: it was recorded, and no rule of an environment says so."""
    return environment_ends(data.meta) is None and bool(is_terminal_row(data).any())


def segments_folder(config: ScotsConfig, source: str, seed: int) -> Path:
    """Where the latents, segments and index of a dataset are: what decides them and nothing else names the folder."""
    stitching = config.stitching
    choices = [stitching.segment, stitching.min_displacement, stitching.index, config.encoder, config.columns]
    key = key_of("segments", source, str(seed), *map(str, choices), config.embedding.to_json())
    return artifact_folder("segments", key)


def _index(
    data: Trajectories, states: Trajectories, encoder: StateEncoder, config: StitchingConfig, seed: int, folder: Path
) -> None:
    """Write what the walk chooses from, by whole states, and the states that its trajectories are made of."""
    latents = encoder.encode(data.observations)
    segments = segment_starts(data, config.segment, config.min_displacement)
    index = SegmentIndex.build(latents[segments], config.index, seed)
    share = len(segments) / len(data.window_starts(config.segment))
    console.print(
        f"segments: {len(segments):,} of {config.segment} states ({share:.0%} of all windows); "
        f"{config.index} index, recall@10 {index.recall:.3f}",
        soft_wrap=True,
    )
    recorded = {name: values for name, values in states.arrays() if name in ("observations", "actions", "rewards")}
    if states.terminated is not None:
        recorded["terminal"] = is_terminal_row(states)
    with atomic(folder / "recorded.npz") as temporary:
        write_npz(temporary, recorded)
    Manifold.of(states).save(folder / "manifold.npz")
    if data.meta.position:
        Support.of(data).save(folder / "support.npz")  # for the search of plans that are learned from what is stitched
        RecordedWays.of(data).save(folder / "ways.npz")
        if isinstance(encoder, TemporalDistance):
            encoder.stride_distances(data).save(folder / "strides.npz")
    # Not as quaternions: a join between q and -q, though the same posture, is one that no refinement can bridge.
    features = StepUnits.of(data.with_meta(quaternions=())).features(data.observations).astype(np.float32)
    Segments(latents, segments, data.episode_of(segments), index, features).save(folder)


# ---------------------------------------------------------------------------------------------------------- stitching


@dataclass(frozen=True)
class StitchingJob(ShardedJob):
    """Everything that decides the bytes of a stitched dataset; where its inputs are follows from it."""

    config: ScotsConfig
    seed: int
    source: str  # fingerprint of the data
    recorded: str  # fingerprint of the data with the columns that trajectories are made of
    labels_actions: bool
    meta: Meta  # of the finished file

    def described(self, validation: bool) -> Meta:
        """The meta of both files."""
        return self.meta

    def row_bytes(self, data: Trajectories) -> int:
        """Bytes of a row: states and actions as float32, one row number, three scores and two flags."""
        columns = data.observations.shape[1] + (0 if data.actions is None else data.actions.shape[1])
        return 4 * columns + 8 + 12 + 2

    def worker(self) -> Make:
        """The memory-mapped inputs, the index and the networks, and a function from trajectory numbers to rows."""
        torch.set_num_threads(1)
        config, seeds, stitching = self.config, Seeds(self.seed), self.config.stitching
        folder = segments_folder(config, self.source, self.seed)
        segments, finish = Segments.load(folder), self._finisher(folder)

        def make(run: range) -> dict[str, Array]:
            chosen = walk(segments, stitching, seeds, run)
            rows = assemble(chosen.segments, stitching.segment)
            scores = chosen.scores_by_state(stitching.segment)
            finished = []
            for number, own, terms in zip(run, rows, scores, strict=True):
                arrays = finish(own, number)
                length = len(arrays["observations"])
                arrays |= {"source": own[:length], "scores": terms[:length]}
                finished.append(arrays | {"terminals": np.arange(length) == length - 1})
            return {name: np.concatenate([arrays[name] for arrays in finished]) for name in finished[0]}

        return make

    def _finisher(self, folder: Path) -> Callable[[Array, int], dict[str, Array]]:
        """From source rows (T,) and the number of a trajectory to its states, refined, and its actions, labelled.

        Where endings were recorded it has fewer states than rows if it ends before.
        """
        refinement, seeds, quaternions = self.config.refinement, Seeds(self.seed), self.meta.quaternions
        stitcher, inverse = self._stitcher(), self._inverse_dynamics()
        manifold = Manifold.load(folder / "manifold.npz")
        recorded = dict(read_npz(folder / "recorded.npz"))
        rewards, ends = self._rewards(recorded), self._ends(recorded)

        def finish(rows: Array, number: int) -> dict[str, Array]:
            if "terminal" in recorded:
                rows = until_terminal(rows, recorded["terminal"])
            states, made = recorded["observations"][rows], np.zeros(len(rows), dtype=np.uint8)
            if stitcher:  # each trajectory draws its noise from its own stream
                noise = torch.Generator().manual_seed(seeds.integer("refine", number))
                states, made = refine(states, rows, stitcher, refinement, noise, manifold.is_on, quaternions)
            length, over = len(rows), False
            if "terminal" in recorded:
                length, over = kept_states(states, rows, made > 0, recorded["terminal"], ends)
                rows, states, made = rows[:length], states[:length], made[:length]
            arrays, keep = {"observations": states, "generated": made}, refinement.keep_actions
            if inverse:
                arrays["actions"] = label_actions(states, rows, made > 0, recorded["actions"], inverse, keep)
            if rewards:
                known = states, arrays["actions"], rows, made > 0, recorded["rewards"]
                arrays["rewards"] = label_rewards(*known, rewards, keep)
            return arrays | ({"terminated": np.array([over])} if "terminal" in recorded else {})

        return finish

    def _stitcher(self) -> Stitcher | None:
        if not self.config.refine:
            return None
        sizes = self.config.refinement.sizes(self.config.stitching.segment)
        config = self.config.stitcher
        return Stitcher.load(model_folder(Stitcher, config, self.recorded, self.seed, sizes), config)

    def _rewards(self, recorded: dict[str, Array]) -> RewardModel | None:
        if not {"actions", "rewards"} <= set(recorded):
            return None
        return RewardModel.load(model_folder(RewardModel, self.config.inverse, self.recorded, self.seed))

    def _ends(self, recorded: dict[str, Array]) -> Ends | None:
        """The rule by which states that were made end a trajectory: the environment's, or a learned one."""
        if (rule := environment_ends(self.meta)) is not None or not recorded.get("terminal", np.zeros(1)).any():
            return rule
        return TerminationModel.load(model_folder(TerminationModel, self.config.inverse, self.recorded, self.seed)).ends

    def _inverse_dynamics(self) -> InverseDynamics | None:
        if not self.labels_actions:
            return None
        return InverseDynamics.load(model_folder(InverseDynamics, self.config.inverse, self.recorded, self.seed))


# ------------------------------------------------------------------------------------------- looking back from the data


_Part = TypeVar("_Part", Support, StrideDistances, RecordedWays)


@dataclass(frozen=True)
class Stitched:
    """How stitched data was made."""

    config: ScotsConfig
    seed: int
    source: str  # fingerprint of the data that was stitched

    @property
    def is_of_positions(self) -> bool:
        """Whether it holds nothing but positions."""
        return self.config.columns == "position"

    def embedding(self) -> TemporalDistance | None:
        """The embedding that it was searched with, if it was learned and is in the cache."""
        if self.config.encoder != "temporal":
            return None
        return load_cached(TemporalDistance, self.config.embedding, self.source, self.seed)

    def support(self) -> Support | None:
        """The support of the data that was stitched, if it is in the cache."""
        return self._cached(Support, "support.npz")

    def strides(self) -> StrideDistances | None:
        """The distances by stride of the data that was stitched, if they are in the cache."""
        return self._cached(StrideDistances, "strides.npz")

    def ways(self) -> RecordedWays | None:
        """The recorded ways of the data that was stitched, if they are in the cache."""
        return self._cached(RecordedWays, "ways.npz")

    def _cached(self, kind: type[_Part], name: str) -> _Part | None:
        path = segments_folder(self.config, self.source, self.seed) / name
        return kind.load(path) if path.exists() else None

    def inverse_dynamics(self) -> InverseDynamics | None:
        """The model that labelled its actions, if it is in the cache."""
        return load_cached(InverseDynamics, self.config.inverse, self.source, self.seed)

    def rewards(self) -> RewardModel | None:
        """The model that labelled its rewards, if it is in the cache."""
        return load_cached(RewardModel, self.config.inverse, self.source, self.seed)

    def inputs(self) -> Path | None:
        """The folder of latents, segments and index, if it is in the cache."""
        folder = segments_folder(self.config, self.source, self.seed)
        return folder if (folder / "index").exists() else None


def stitched_by(meta: Meta) -> Stitched | None:
    """How data was stitched, if SCoTS was the last that augmented it."""
    step = meta.augmentation
    if step is None or not str(step["augmenter"]).startswith("scots"):
        return None
    return Stitched(ScotsConfig.from_dict(step["config"]), int(step["seed"]), str(step["source"]))
