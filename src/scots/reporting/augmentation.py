"""How augmented data was made, as far as it tells: its settings, and the models behind it that are still cached.

All that reports know of augmenters is here. Data may come from anywhere: what is unknown is None.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from scots.augmenters.embedding import Encoder, RawState
from scots.augmenters.index import SegmentIndex
from scots.augmenters.refinement import InverseDynamics
from scots.augmenters.scots import ScotsConfig, Stitched, job_of, stitched_by
from scots.augmenters.stitching import assemble, walk
from scots.core.config import Seeds
from scots.core.errors import BadInput
from scots.data.npz import read_npz
from scots.data.trajectories import Array, Meta, Trajectories
from scots.models.cache import found


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
    """What is known of how augmented data was made, and what is still cached of it."""

    config: ScotsConfig | None = None
    seed: int | None = None
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
    return Augmentation() if stitched is None else _scots(data, stitched)


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
        config=config,
        seed=made.seed,
        encoder=made.embedding() if config.encoder == "temporal" else RawState(data),
        inverse=found(InverseDynamics, config.inverse, made.source, made.seed),
        walker=Walker(folder, config) if (folder / "index").exists() else None,
    )
