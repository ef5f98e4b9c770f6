"""What an augmenter is: trajectories in, more or longer trajectories out, with a note of how they were made."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from scots.core.config import Config, Profile
from scots.core.console import console
from scots.core.errors import BadInput
from scots.core.locks import locked
from scots.core.versions import package_versions
from scots.data import formats
from scots.data.shards import ShardedJob, memory_estimate, validation_path
from scots.data.trajectories import Meta, Trajectories
from scots.datasets.specs import DatasetSpec
from scots.models.cache import artifact_folder, key_of, record_time


class Augmenter(ABC):
    """Base of every augmenter. Nothing downstream needs to know which one made its data."""

    name: str  # in the registry
    config_class: ClassVar[type[Config]]

    @abstractmethod
    def configure(self, spec: DatasetSpec, profile: Profile, *, for_planner: bool = False) -> Any:
        """The settings for a dataset at a profile's scale: an instance of `config_class`.

        `for_planner`: a planner of positions is all that learns from what is made, so nothing else has to be.
        """

    @abstractmethod
    def episode_states(self, config: Any, spec: DatasetSpec) -> int:
        """States of a trajectory that it makes from a dataset."""

    def described(self, config: Any) -> str:
        """What will be made with these settings, to be printed before; empty where there is nothing to say."""
        return ""

    @abstractmethod
    def augment(
        self,
        data: Trajectories,
        config: Any,
        *,
        seed: int,
        out: Path | None = None,
        profile: Profile = "laptop",
        workers: int | None = None,
    ) -> Trajectories:
        """Make the augmented dataset and its validation twin in `out`, by default in the cache.

        An interrupted call is continued by the next. `profile` is recorded beside the settings; it decides nothing.
        """

    def provenance(
        self, config: Any, default: Any, *, profile: str, seed: int, source: str, packages: tuple[str, ...]
    ) -> dict[str, Any]:
        """How data was augmented: the settings in full, and how they differ from the profile's for the dataset."""
        return {
            "origin": "augmented here",
            "augmenter": self.name,
            "profile": profile,
            "changes": config.changes_from(default),
            "config": config.to_dict(),
            "seed": seed,
            "source": source,  # fingerprint of the data that was augmented
            "versions": package_versions(*packages),
        }

    def read_or_make(
        self, out: Path | None, meta: Meta, make: Callable[[], tuple[Trajectories, Trajectories]]
    ) -> Trajectories:
        """The dataset of this meta in `out`, by default in the cache; if need be, made and written with its twin.

        For augmenters that hold in memory what they make; larger work is a `ShardedJob`, see `run_job`.
        """
        folder = artifact_folder("augmented", key_of("augmented", meta.to_json()))
        target = out or folder / "augmented.npz"
        files = target, validation_path(target)
        with locked(target):
            if not all(path.exists() and formats.read_meta(path) == meta for path in files):
                with record_time(folder) if out is None else nullcontext():
                    for data, path in zip(make(), files, strict=True):
                        formats.write(replace(data, meta=meta), path)
        return formats.read(target)

    def run_job(
        self,
        job: ShardedJob,
        out: Path | None,
        prepare: Callable[[], None],
        *,
        label: str,
        row_bytes: int,
        shared_bytes: int,
        workers: int | None,
    ) -> Trajectories:
        """The dataset that a job makes in `out`, by default in the cache; an interrupted job is continued.

        A finished one is left as it is; another file in its place is never replaced. `prepare` makes what the workers
        of the job read, about `shared_bytes`; a row of what they write has `row_bytes`.
        """
        folder = artifact_folder("augmented", key_of("augmented", job.to_json()))
        target = out or folder / "augmented.npz"
        with locked(target):
            if job.is_done(target):
                if out is not None:
                    console.print(f"{out}: already made with the same settings", soft_wrap=True)
                job.shards(target).remove()  # left by a kill during the last clean-up
                return formats.read(target)
            size = job.check_room(target, row_bytes)
            there = [path for path in (target, validation_path(target)) if path.exists()]
            if there and not job.shards(target).folder.exists():
                raise BadInput(f"{there[0]}: another file is there; --force replaces it, --out FILE writes elsewhere")
            name, memory = job.described(validation=False).dataset, memory_estimate(shared_bytes, workers)
            console.print(f"{name or 'this data'}: {size}; {memory}", soft_wrap=True)
            with record_time(folder) if out is None else nullcontext():
                prepare()
                job.run(target, workers=workers, label=label, unit="states")
        return formats.read(target)
