"""What was computed is kept: content-addressed folders under the data home, so that nothing is trained twice."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import torch

from scots.core.config import Config, Seeds
from scots.core.console import console
from scots.core.files import home, write_text
from scots.data.trajectories import Trajectories
from scots.models.training import Model, fit

SomeModel = TypeVar("SomeModel", bound=Model)


def artifact(stage: str, *inputs: str) -> Path:
    """The folder of what a stage makes from these inputs; the same inputs always name the same folder."""
    key = hashlib.sha256("\n".join([stage, *inputs]).encode()).hexdigest()[:16]
    return home() / "artifacts" / f"{stage}-{key}"


@contextmanager
def clocked(folder: Path) -> Iterator[None]:
    """Add the wall time of the block to what was spent on an artifact; what an interrupted attempt took counts too."""
    begin = time.monotonic()
    try:
        yield
    finally:
        spent = (seconds_spent(folder) or 0.0) + time.monotonic() - begin
        write_text(folder / "seconds.json", json.dumps(round(spent, 2)))


def seconds_spent(folder: Path) -> float | None:
    """Wall time that went into an artifact, if it is known."""
    path = folder / "seconds.json"
    return float(json.loads(path.read_text())) if path.exists() else None


def model_folder(kind: type[Model], config: Config, fingerprint: str, seed: int) -> Path:
    """Where the model of this config, trained on data of this fingerprint with this seed, is or will be."""
    return artifact(kind.__name__.lower(), config.to_json(), fingerprint, str(seed))


def found(kind: type[SomeModel], config: Config, fingerprint: str, seed: int) -> SomeModel | None:
    """The model of this config, trained on data of this fingerprint with this seed, if it is still there."""
    folder = model_folder(kind, config, fingerprint, seed)
    return kind.load(folder) if (folder / "config.json").exists() else None


def trained(kind: type[SomeModel], config: Config, data: Trajectories, seed: int, label: str) -> SomeModel:
    """The model of this config trained on this data with this seed: loaded if it is there, else trained and kept."""
    folder = model_folder(kind, config, data.fingerprint(), seed)
    if (folder / "config.json").exists():
        console.print(f"{label}: found in {folder}", soft_wrap=True)
        return kind.load(folder)
    with clocked(folder):
        return train(kind, config, data, seed, folder, label)


def train(kind: type[SomeModel], config: Config, data: Trajectories, seed: int, folder: Path, label: str) -> SomeModel:
    """Train a model from the initial weights of this seed; what is half done in the folder is continued."""
    with torch.random.fork_rng():
        torch.manual_seed(Seeds(seed).integer("init"))
        model = kind.for_data(config, data)
    fit(model, data, seed=seed, folder=folder, label=label)
    return model
