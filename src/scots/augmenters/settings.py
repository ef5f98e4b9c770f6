"""The settings of SCoTS: all that decides an augmented dataset, its two variants, and the scales of the profiles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from scots.augmenters.embedding import ENCODERS, TemporalDistanceConfig
from scots.augmenters.refinement import InverseDynamicsConfig, RefinementConfig, StitcherConfig
from scots.augmenters.stitching import First, StitchingConfig
from scots.core.config import Config, Profile
from scots.core.errors import BadInput
from scots.datasets.specs import DatasetSpec
from scots.models.diffusion import SamplingConfig
from scots.models.training import TrainingConfig

FEW_COLUMNS = 8  # up to this many, whole states cost little more than positions

VARIANTS: dict[str, dict[str, Any]] = {
    "paper": {
        "score_scale": "raw",
        "memory": "states",
        "first": "sampled",
        "index": "ivf",
        "min_displacement": None,
    },
    "official": {
        "score_scale": "zscore",
        "memory": "endpoints",
        "first": "nearest",
        "index": "exact",
    },
}
"""Where the paper's text and its official code differ: the fields of `StitchingConfig` that each of them sets."""


@dataclass(frozen=True)
class ScotsConfig(Config):
    """Everything that decides an augmented dataset, apart from the data and the seed."""

    trajectories: int = 5000  # N_traj; the validation twin has a tenth more
    columns: Literal["all", "position"] = "all"  # of the states that trajectories are made of
    encoder: str = "temporal"  # a key of ENCODERS; it sees whole states
    refine: bool = True
    refinement: RefinementConfig = RefinementConfig()
    embedding: TemporalDistanceConfig = TemporalDistanceConfig()
    stitching: StitchingConfig = StitchingConfig()
    stitcher: StitcherConfig = StitcherConfig()
    inverse: InverseDynamicsConfig = InverseDynamicsConfig()

    def __post_init__(self) -> None:
        if self.trajectories < 1:
            raise BadInput(f"at least one trajectory is needed, got {self.trajectories}")
        if self.encoder not in ENCODERS:
            raise BadInput(f"encoder {self.encoder!r} is not one of {', '.join(ENCODERS)}")
        if self.refine and self.stitching.segment < 3:
            segment = f"a segment of {self.stitching.segment} states"
            raise BadInput(f"{segment} has nothing to refine; use --segment 3 or more, or --no-refine")


# ---------------------------------------------------------------------------------------------------------- profiles


def _paper(config: ScotsConfig, spec: DatasetSpec) -> ScotsConfig:
    """The paper's sizes and training lengths: for a GPU."""
    return config


def _laptop(config: ScotsConfig, spec: DatasetSpec) -> ScotsConfig:
    """Well under an hour on two CPU cores: the constrained embedding, smaller networks, a second-order solver."""
    few_columns = spec.columns <= FEW_COLUMNS or config.columns == "position"
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
        early_arrival=0.0,
        time_density="uniform" if few_columns else "data",  # limbs change much in a step: what is left is small
        ema=0.999,
        training=replace(
            config.stitcher.training,
            steps=6_000 if few_columns else 20_000,
            batch_size=64 if few_columns else 32,
            learning_rate=1e-3 if few_columns else 3e-3,
            warmup=200,
        ),
        sampling=SamplingConfig(steps=6 if few_columns else 8, order=2, temperature=0.0),
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
    windows = (
        {"generated": 5, "context": 3} if few_columns else {"generated": 7, "context": 1}
    )  # by benchmarks/joins.py
    return replace(
        config,
        embedding=embedding,
        stitching=replace(config.stitching, shortlist=100, first=_first(config.stitching, spec)),
        refinement=RefinementConfig(draws=3, keep_actions=True, **windows),
        stitcher=stitcher,
        inverse=inverse,
    )


def _first(stitching: StitchingConfig, spec: DatasetSpec) -> First:
    """Where trajectories begin: of own data, which is often little, where its episodes do."""
    return "episode" if not spec.is_published and stitching.first == "nearest" else stitching.first


def _smoke(config: ScotsConfig, spec: DatasetSpec) -> ScotsConfig:
    """Seconds: every part runs, nothing is learned well. For tests."""

    def short(training: TrainingConfig) -> TrainingConfig:
        return replace(training, steps=60, batch_size=64, warmup=5)

    small = _laptop(config, spec)
    return replace(
        small,
        trajectories=20,
        embedding=replace(small.embedding, hidden=(64, 64), training=short(small.embedding.training)),
        stitching=replace(small.stitching, stitches=6),
        stitcher=replace(small.stitcher, width=32, depth=1, training=short(small.stitcher.training)),
        inverse=replace(small.inverse, hidden=(64, 64), training=short(small.inverse.training)),
    )


PROFILES: dict[Profile, Callable[[ScotsConfig, DatasetSpec], ScotsConfig]] = {
    "smoke": _smoke,
    "laptop": _laptop,
    "paper": _paper,
}
"""Profile -> settings at its scale."""
