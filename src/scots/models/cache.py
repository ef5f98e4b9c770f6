"""Load or train: models and other artifacts in content-addressed folders, so that nothing is computed twice.

A key is a pure function of what decides an artifact: its kind, its config, the keys of what goes into it, and a format
version. It holds no path, so a cache can be moved; and computing it never makes anything.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import torch

from scots.core.config import Config, Seeds
from scots.core.console import console
from scots.core.errors import BadInput
from scots.core.files import home, write_text
from scots.core.locks import locked
from scots.core.resources import available_memory, check_memory
from scots.data.trajectories import Trajectories
from scots.models.training import NO_LIMITS, Limits, Model, fit, identity, parameter_limit

FORMAT = 2  # raise it when artifacts of the same key would hold something else

_BYTES_PER_PARAMETER = 16  # weight, gradient and two moments, in training
_UNKNOWN_MEMORY = 1 << 40  # bytes, assumed where the system does not tell

_SomeModel = TypeVar("_SomeModel", bound=Model)
_Sizes = Mapping[str, int]
_NO_SIZES: _Sizes = MappingProxyType({})
_NO_CHANGES: Mapping[str, Any] = MappingProxyType({})


def key_of(kind: str, *inputs: str) -> str:
    """The key of an artifact: sixteen hex digits of its kind, what goes into it, and the format version."""
    text = json.dumps([FORMAT, kind, *inputs])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def artifact_folder(kind: str, key: str) -> Path:
    """Where the artifact of this key is or will be."""
    return home() / "artifacts" / f"{kind}-{key}"


@contextmanager
def record_time(folder: Path) -> Iterator[None]:
    """Add the wall time of the block to what was spent on an artifact; interrupted attempts count too."""
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


# ------------------------------------------------------------------------------------------------------------- models


def model_key(kind: type[Model], config: Config, data_key: str, seed: int, sizes: _Sizes = _NO_SIZES) -> str:
    """The key of a model: its class, config for training, data and seed, and sizes that the data does not tell."""
    settings = json.dumps(config.training_dict(), sort_keys=True, indent=1)
    return key_of(kind.training_name(), settings, data_key, str(seed), json.dumps(dict(sizes), sort_keys=True))


def model_folder(kind: type[Model], config: Config, data_key: str, seed: int, sizes: _Sizes = _NO_SIZES) -> Path:
    """Where the model of this key is or will be."""
    return artifact_folder(kind.training_name().lower(), model_key(kind, config, data_key, seed, sizes))


def is_trained(folder: Path) -> bool:
    """Whether a folder holds a finished model; one that was stopped early has its checkpoint beside it."""
    return (folder / "config.json").exists() and not (folder / "checkpoint.safetensors").exists()


def load_cached(
    kind: type[_SomeModel], config: Config, fingerprint: str, seed: int, sizes: _Sizes = _NO_SIZES
) -> _SomeModel | None:
    """The cached model of this config, trained on data of this fingerprint with this seed, or None."""
    folder = model_folder(kind, config, fingerprint, seed, sizes)
    return kind.load(folder, config) if is_trained(folder) else None


def load_or_train(
    kind: type[_SomeModel], config: Config, data: Trajectories, seed: int, label: str, sizes: _Sizes = _NO_SIZES
) -> _SomeModel:
    """The model of this config trained on this data with this seed: from the cache, or trained and cached."""
    folder = model_folder(kind, config, data.fingerprint(), seed, sizes)
    with nullcontext() if is_trained(folder) else locked(folder):
        if is_trained(folder):
            console.print(f"{label}: cached in {folder}", soft_wrap=True)
            return kind.load(folder, config)
        with record_time(folder):
            return train(kind, config, data, seed, folder, label, sizes=sizes)


def train(
    kind: type[_SomeModel],
    config: Config,
    data: Trajectories,
    seed: int,
    folder: Path,
    label: str,
    *,
    profile: str | None = None,
    changes: Mapping[str, Any] = _NO_CHANGES,
    sizes: _Sizes = _NO_SIZES,
    limits: Limits = NO_LIMITS,
) -> _SomeModel:
    """Train a model in a folder, resuming what is half done there; a finished one of the same run is loaded.

    `profile` and `changes` say where the config came from; they are saved with the model and decide nothing.
    """
    model = _untrained(kind, config, data, seed, sizes)
    model.meta, model.data_fingerprint, model.seed = data.meta, data.fingerprint(), seed
    model.profile, model.changes = profile, changes
    with locked(folder):
        if is_trained(folder):
            finished = kind.load(folder)
            if identity(finished) != identity(model):
                raise BadInput(
                    f"{folder}: holds a {kind.__name__} trained with other settings, data or seed; --force replaces it"
                )
            console.print(f"{label}: already trained, in {folder}", soft_wrap=True)
            return finished if finished.config == config else _resaved(finished, model)
        if kind.learns:
            fit(model, data, seed=seed, folder=folder, label=label, limits=limits)
        else:
            model.eval().save(folder)
    return model


def _resaved(finished: _SomeModel, asked: Model) -> _SomeModel:
    """The finished model in its folder with other settings of what it does after training."""
    assert finished.folder is not None
    model = finished.load(finished.folder, asked.config)
    model.profile, model.changes = asked.profile, asked.changes
    model.save(finished.folder)
    return model


def _untrained(kind: type[_SomeModel], config: Any, data: Trajectories, seed: int, sizes: _Sizes) -> _SomeModel:
    """A model as training begins with it, if the memory has room for it, its training and its batches."""
    if kind.learns:
        batch, columns = config.training.batch_size, data.observations.shape[1]
        check_memory(4 * batch * columns, f"batches of {batch:,} states with {columns} columns of 4 bytes")
    most = (available_memory() or _UNKNOWN_MEMORY) // _BYTES_PER_PARAMETER
    too_large = f"{kind.__name__}: needs more than the {most:,} parameters that fit in memory; choose smaller sizes"
    with torch.random.fork_rng(), parameter_limit(most, too_large):
        torch.manual_seed(Seeds(seed).integer("init"))
        return kind.for_data(config, data, **sizes)
