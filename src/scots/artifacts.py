"""What was computed is kept: content-addressed folders under the data home, so that nothing is trained twice."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TypeVar

import torch

from scots.config import Config, Seeds
from scots.console import console
from scots.files import home
from scots.training import Model, fit
from scots.trajectories import Trajectories

SomeModel = TypeVar("SomeModel", bound=Model)


def artifact(stage: str, *inputs: str) -> Path:
    """The folder of what a stage makes from these inputs; the same inputs always name the same folder."""
    key = hashlib.sha256("\n".join([stage, *inputs]).encode()).hexdigest()[:16]
    return home() / "artifacts" / f"{stage}-{key}"


def model_folder(kind: type[Model], config: Config, data: Trajectories, seed: int) -> Path:
    """Where the model of this config, trained on this data with this seed, is or will be."""
    return artifact(kind.__name__.lower(), config.to_json(), data.fingerprint(), str(seed))


def trained(kind: type[SomeModel], config: Config, data: Trajectories, seed: int, label: str) -> SomeModel:
    """The model of this config trained on this data with this seed: loaded if it is there, else trained and kept."""
    folder = model_folder(kind, config, data, seed)
    if (folder / "config.json").exists():
        console.print(f"{label}: found in {folder}", soft_wrap=True)
        return kind.load(folder)
    with torch.random.fork_rng():
        torch.manual_seed(Seeds(seed).integer("init"))
        model = kind.for_data(config, data)
    fit(model, data, seed=seed, folder=folder, label=label)
    return model
