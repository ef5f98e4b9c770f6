"""How augmented data was made, as far as it tells: its settings, and the models behind it that are still cached.

All that reports know of augmenters is here. Data may come from anywhere: what is unknown is None.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from scots.augmenters import AUGMENTERS
from scots.augmenters.embedding import RawState, StateEncoder
from scots.augmenters.refinement import InverseDynamics
from scots.augmenters.rewards import RewardModel
from scots.augmenters.scots import stitched_by
from scots.augmenters.settings import ScotsConfig
from scots.augmenters.stitching import Segments, assemble, walk
from scots.core.config import Config, Seeds
from scots.core.errors import BadInput
from scots.data.choices import flags_of, kept_choices
from scots.data.trajectories import Array, Trajectories

_OPTIONS = {
    "trajectories": "--trajectories",
    "stitching.stitches": "--stitches",
    "stitching.segment": "--segment",
    "stitching.novelty_weight": "--beta",
    "stitching.candidates": "--candidates",
    "stitching.min_displacement": "--min-displacement",
    "stitching.distinct_episodes": "--distinct-episodes",
    "refine": "--refine",
    "encoder": "--encoder",
}
"""Options of `scots augment`, by the setting that they change."""


# ------------------------------------------------------------------------------------------------------------ settings


@dataclass(frozen=True)
class AugmentationSettings(Config):
    """All that decided augmented data apart from the original, and how it differs from an augmenter's defaults."""

    augmenter: str  # by name, or the origin that data from elsewhere gives
    profile: str | None  # the scale by name
    seed: int | None
    changes: dict[str, Any]  # dotted path -> value, where it is not the augmenter's for the dataset at this profile
    config: dict[str, Any]  # all settings
    config_fingerprint: str  # or that of the data, where it tells no config

    @property
    def asked(self) -> dict[str, Any]:
        """What `scots augment` has to be told to make such data: the changes, and the columns that a planner wants."""
        only_positions = self.config.get("columns") == "position"
        return ({"columns": "position"} if only_positions else {}) | self.changes

    @property
    def label(self) -> str:
        """The augmenter and what it was asked for: "scots", "scots, trajectories=400"."""
        return ", ".join([self.augmenter, *(f"{path}={_shown(value)}" for path, value in self.asked.items())])

    @property
    def scale(self) -> str | None:
        """The profile, and whether settings differ from it: "laptop", "laptop, custom"."""
        return f"{self.profile}, custom" if self.profile and self.changes else self.profile

    @property
    def segment(self) -> int | None:
        """States in a segment that was stitched, if the settings tell."""
        stitching = self.config.get("stitching")
        return stitching.get("segment") if isinstance(stitching, dict) else None

    @classmethod
    def of(cls, aug: Trajectories) -> Self:
        """The settings that augmented data carries, as far as its last step tells."""
        if (step := aug.meta.augmentation) is not None:
            digest = hashlib.sha256(json.dumps(step["config"], sort_keys=True).encode()).hexdigest()[:12]
            names = ("augmenter", "profile", "seed", "changes", "config")
            return cls(**{name: step[name] for name in names}, config_fingerprint=digest)
        last = aug.meta.provenance[-1] if aug.meta.provenance else {}
        origin, config = str(last.get("origin", "unknown")), last.get("config", {})
        return cls(origin, None, last.get("seed"), {}, config, aug.fingerprint())


def _shown(value: Any) -> str:
    return str(value).removesuffix(".0") if isinstance(value, float) else str(value)


def augment_command(dataset: str, settings: AugmentationSettings, out: str) -> str | None:
    """The command that makes such data, with every changed setting; None for data from elsewhere."""
    if settings.augmenter not in AUGMENTERS:
        return None
    words = ["scots", "augment", dataset, "--out", out]
    words += ["--augmenter", settings.augmenter] if settings.augmenter != "scots" else []
    words += ["--profile", settings.profile] if settings.profile not in (None, "laptop") else []
    own = {path: value for path, value in settings.asked.items() if path in _OPTIONS and value is not None}
    others = [f"{path}={json.dumps(value)}" for path, value in settings.asked.items() if path not in own]
    words += [word for path, value in own.items() for word in _option(path, value)]
    words += ["--set", *others] if others else []
    return shlex.join([*words, *(["--seed", str(settings.seed)] if settings.seed else [])])


def _option(path: str, value: Any) -> list[str]:
    if isinstance(value, bool):
        return [_OPTIONS[path] if value else _OPTIONS[path].replace("--", "--no-")]
    return [_OPTIONS[path], _shown(value)]


# -------------------------------------------------------------------------------------------------------------- models


@dataclass(frozen=True, eq=False)
class Walker:
    """Stitching without refinement, from the latents, segments and index that an augmentation left in a folder."""

    folder: Path
    config: ScotsConfig

    def rows(self, novelty_weight: float, stitches: int, trajectories: range) -> Array:
        """Rows of the original that make up the trajectories of these numbers (B, T)."""
        changed = replace(self.config.stitching, novelty_weight=novelty_weight, stitches=stitches)
        chosen = walk(self._segments, changed, Seeds(0), trajectories)
        return assemble(chosen.segments, changed.segment)

    @cached_property
    def _segments(self) -> Segments:
        return Segments.load(self.folder)


@dataclass(frozen=True, eq=False)
class Augmentation:
    """How augmented data was made, and what is still cached of the models that made it."""

    settings: AugmentationSettings
    encoder: StateEncoder | None = None
    inverse: InverseDynamics | None = None
    rewards: RewardModel | None = None
    walker: Walker | None = None


def augmentation_of(data: Trajectories, aug: Trajectories) -> Augmentation:
    """The settings that augmented data carries, and the cached models that they name.

    Data that cannot be compared with the original, or says that it was made from another one, is refused.
    """
    stitched = stitched_by(aug.meta)
    _check_comparable(data.only_positions() if stitched and stitched.is_of_positions else data, aug)
    if not (stitched and stitched.is_of_positions):
        data = data.with_meta(position=aug.meta.position)  # as it was when it was augmented
    source = next((step["source"] for step in reversed(aug.meta.provenance) if "source" in step), None)
    if source is not None and source != data.fingerprint():
        raise BadInput(
            f"augmented from data of fingerprint {source}, the original given has {data.fingerprint()}: "
            f"give the data it was made from{_as_read(aug)}"
        )
    settings = AugmentationSettings.of(aug)
    if stitched is None:
        return Augmentation(settings)
    inputs = stitched.inputs()
    walker = Walker(inputs, stitched.config) if inputs else None
    if stitched.is_of_positions:  # its encoder sees whole states
        return Augmentation(settings, walker=walker)
    return Augmentation(
        settings=settings,
        encoder=RawState(data) if stitched.config.encoder == "raw" else stitched.embedding(),
        inverse=stitched.inverse_dynamics(),
        rewards=stitched.rewards(),
        walker=walker,
    )


def _as_read(aug: Trajectories) -> str:
    """How the original was read when it was augmented, if that took choices."""
    flags = flags_of(kept_choices(aug.meta))
    return f", as it was read then: {flags}" if flags else ""


def _check_comparable(data: Trajectories, aug: Trajectories) -> None:
    for name in ("observations", "actions"):
        first, second = getattr(data, name), getattr(aug, name)
        if first is not None and second is not None and first.shape[1] != second.shape[1]:
            raise BadInput(
                f"the original has {first.shape[1]} columns of {name}, the augmented data {second.shape[1]}: "
                f"they cannot be compared; give the data it was made from{_as_read(aug)}"
            )
    if aug.source is not None and aug.source.max() >= data.rows:
        problem = "the source rows of the augmented data do not fit the original"
        raise BadInput(f"{problem}: give the data it was made from{_as_read(aug)}")
