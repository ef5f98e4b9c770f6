"""How augmented data was made, as far as it tells: its settings, and the models behind it that are still cached.

All that reports know of augmenters is here. Data may come from anywhere: what is unknown is None.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import Any, Self, cast

from scots.augmenters.embedding import Encoder, RawState
from scots.augmenters.index import SegmentIndex
from scots.augmenters.refinement import InverseDynamics
from scots.augmenters.scots import PROFILES, Recipe, ScotsConfig, Stitched, configure, job_of, stitched_by
from scots.augmenters.stitching import RECIPES, assemble, walk
from scots.core.config import Config, Profile, Seeds
from scots.core.errors import BadInput
from scots.data.npz import read_npz
from scots.data.trajectories import Array, Meta, Trajectories
from scots.models.cache import found

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
    """All that decided augmented data apart from the original, and what of it differs from a named recipe."""

    recipe: str  # a named recipe, "custom" where none is near, or the origin that data from elsewhere gives
    profile: str | None  # the scale by name
    seed: int | None
    changes: dict[str, Any]  # dotted path -> value, where it is not the recipe's at this profile
    config: dict[str, Any]  # all settings
    config_fingerprint: str  # or that of the data, where it tells no config

    @property
    def label(self) -> str:
        """The recipe and what was changed: "official", "official, trajectories=400"."""
        return ", ".join([self.recipe, *(f"{path}={_shown(value)}" for path, value in self.changes.items())])

    @classmethod
    def of_config(cls, config: ScotsConfig, data: Trajectories, seed: int) -> Self:
        """The settings of a config, beside the recipe for this dataset from which it differs least.

        The name that a config carries proves nothing: what it says is compared.
        """
        recipe, changes = "custom", {}
        if config.profile in PROFILES:
            usual = (configure(data, cast(Profile, config.profile), cast(Recipe, name)) for name in RECIPES)
            differing = {name: _changes(config, other) for name, other in zip(RECIPES, usual, strict=True)}
            recipe = min(differing, key=lambda name: (len(differing[name]), name != config.recipe))
            changes = differing[recipe]
        return cls(recipe, config.profile, seed, changes, config.to_dict(), config.fingerprint())

    @classmethod
    def of_unknown(cls, aug: Trajectories) -> Self:
        """The settings of data that was not stitched here, as far as its last step tells."""
        step = aug.meta.provenance[-1] if aug.meta.provenance else {}
        seed, origin = step.get("seed"), str(step.get("origin", "unknown"))
        return cls(origin, None, seed, {}, step.get("config", {}), aug.fingerprint())


def _changes(config: ScotsConfig, usual: ScotsConfig) -> dict[str, Any]:
    """Settings that differ from the usual ones, by dotted path in order; the recipe's name is not a setting."""
    expected, own = dict(_leaves(usual.to_dict())), sorted(_leaves(config.to_dict()), key=itemgetter(0))
    return {path: value for path, value in own if path != "recipe" and value != expected[path]}


def _leaves(values: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def augment_command(dataset: str, settings: AugmentationSettings, out: str) -> str | None:
    """The command that makes such data, with every changed setting; None for settings that no recipe is near to.

    Settings for which `scots augment` has no option are set from Python.
    """
    if settings.recipe not in RECIPES:
        return None
    changes = dict(settings.changes)
    if changes.get("stitcher.segment") == changes.get("stitching.segment"):
        changes.pop("stitcher.segment", None)  # one option sets both
    if all(path in _OPTIONS and value is not None for path, value in changes.items()):
        words = ["scots", "augment", dataset, "--out", out]
        words += ["--profile", settings.profile or "laptop"] if settings.profile != "laptop" else []
        words += ["--recipe", settings.recipe] if settings.recipe != "official" else []
        words += [word for path, value in changes.items() for word in _option(path, value)]
        return shlex.join([*words, *(["--seed", str(settings.seed)] if settings.seed else [])])
    named = "".join(f", {path.replace('.', '__')}={value!r}" for path, value in changes.items())
    made = f"scots.augment(scots.load({dataset!r}), {settings.profile!r}, {settings.recipe!r}, {settings.seed}{named})"
    return shlex.join(["python", "-c", f"import scots; {made}.save({out!r})"])


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
        latents, segments, episodes = (self._arrays[name] for name in ("latents", "segments", "episodes"))
        changed = replace(self.config.stitching, novelty_weight=novelty_weight, stitches=stitches)
        chosen = walk(latents, segments, self._index, changed, Seeds(0), trajectories, episodes)
        return assemble(chosen.segments, changed.segment)

    @cached_property
    def _arrays(self) -> Mapping[str, Array]:
        return read_npz(self.folder / "inputs.npz")

    @cached_property
    def _index(self) -> SegmentIndex:
        return SegmentIndex.load(self.folder / "index")


@dataclass(frozen=True, eq=False)
class Augmentation:
    """How augmented data was made, and what is still cached of the models that made it."""

    settings: AugmentationSettings
    encoder: Encoder | None = None
    inverse: InverseDynamics | None = None
    walker: Walker | None = None


def augmentation_of(data: Trajectories, aug: Trajectories) -> Augmentation:
    """The settings that augmented data carries, and the cached models that they name.

    Data that cannot be compared with the original, or says that it was made from another one, is refused.
    """
    _check_comparable(data, aug)
    data = data.but_meta(position=aug.meta.position)  # as it was when it was augmented
    source = next((step["source"] for step in reversed(aug.meta.provenance) if "source" in step), None)
    if source is not None and source != data.fingerprint():
        raise BadInput(
            f"augmented from data of fingerprint {source}, the original given has {data.fingerprint()}: "
            "give the data it was made from"
        )
    stitched = _stitched(aug.meta)
    if stitched is None:
        return Augmentation(AugmentationSettings.of_unknown(aug))
    return _scots(data, stitched)


def _check_comparable(data: Trajectories, aug: Trajectories) -> None:
    for name in ("observations", "actions"):
        first, second = getattr(data, name), getattr(aug, name)
        if first is not None and second is not None and first.shape[1] != second.shape[1]:
            raise BadInput(
                f"the original has {first.shape[1]} columns of {name}, the augmented data {second.shape[1]}: "
                "they cannot be compared"
            )
    if aug.source is not None and aug.source.max() >= data.rows:
        raise BadInput("the source rows of the augmented data do not fit the original: give the data it was made from")


def _stitched(meta: Meta) -> Stitched | None:
    """The stitching that made this data, if that was the last step with settings."""
    steps = [step for step in meta.provenance if "config" in step]
    return stitched_by(meta) if steps and steps[-1].get("origin") == "stitched here" else None


def _scots(data: Trajectories, made: Stitched) -> Augmentation:
    config, folder = made.config, Path(job_of(data, made.config, made.seed).inputs)
    return Augmentation(
        settings=AugmentationSettings.of_config(config, data, made.seed),
        encoder=made.embedding() if config.encoder == "temporal" else RawState(data),
        inverse=found(InverseDynamics, config.inverse, made.source, made.seed),
        walker=Walker(folder, config) if (folder / "index").exists() else None,
    )
