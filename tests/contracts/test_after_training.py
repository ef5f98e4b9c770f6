"""Settings marked as mattering only after training: they change no weight, and trying another value trains nothing."""

import dataclasses
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from scots.augmenters.refinement import Stitcher, StitcherConfig
from scots.core.config import Config
from scots.data.trajectories import Trajectories
from scots.datasets import toy
from scots.datasets.specs import spec_of
from scots.models import cache
from scots.models.cache import load_or_train, model_key, train
from scots.models.diffusion import SamplingConfig
from scots.models.training import Model, TrainingConfig
from scots.planners import PLANNERS
from scots.planners.diffuser import GuidanceConfig

DATA = toy.make(episodes=20)
REWARDED = replace(DATA, rewards=np.ones(len(DATA.observations), dtype=np.float32))
SHORT = TrainingConfig(steps=2, batch_size=4, learning_rate=1e-3)
SIZES = {"tokens": 5, "context": 1}
ANOTHER = {  # a value other than that of profile `smoke`, by type or by name
    SamplingConfig: SamplingConfig(steps=3, order=1, temperature=0.1),
    GuidanceConfig: GuidanceConfig(candidates=2, climbs=1),
    "chunks": 2,
    "steps_per_distance": 1.0,
    "composition": "parallel",
    "guidance": 1.5,
    "candidates": 3,
    "eta": 0.5,
}


def kinds() -> Iterator[tuple[str, type[Model], Config]]:
    spec = spec_of(DATA)
    for name in ("hd", "cd", "gsc", "diffuser"):
        yield name, PLANNERS[name], PLANNERS[name].configure(spec, spec.episode_states, "smoke")
    yield "stitcher", Stitcher, StitcherConfig(width=32, depth=1)


KINDS = {name: (kind, replace(config, training=SHORT)) for name, kind, config in kinds()}


def with_others(config: Config) -> Config:
    """The config with another value for every marked field, at any depth."""
    changes: dict[str, Any] = {}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if field.metadata:
            changes[field.name] = ANOTHER.get(type(value)) or ANOTHER[field.name]
        elif isinstance(value, Config):
            changes[field.name] = with_others(value)
    return replace(config, **changes)


def data_for(name: str) -> Trajectories:
    return REWARDED if name == "diffuser" else DATA


def sizes_for(name: str) -> dict[str, int]:
    return SIZES if name == "stitcher" else {}


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCOTS_HOME", str(tmp_path / "home"))


@pytest.mark.parametrize("name", KINDS)
def test_they_change_no_weight(name: str, tmp_path: Path):
    kind, config = KINDS[name]
    other = with_others(config)
    assert config.changes_from(other)
    data, sizes = data_for(name), sizes_for(name)
    first, second = (
        train(kind, own, data, 0, tmp_path / str(number), name, sizes=sizes).state_dict()
        for number, own in enumerate((config, other))
    )
    assert all(torch.equal(first[key], second[key]) for key in first)
    keys = {model_key(kind, own, data.fingerprint(), 0, sizes) for own in (config, other)}
    assert len(keys) == 1


@pytest.mark.parametrize("name", KINDS)
def test_another_value_is_taken_without_training_again(name: str, monkeypatch: pytest.MonkeyPatch):
    kind, config = KINDS[name]
    load_or_train(kind, config, data_for(name), 0, name, sizes_for(name))
    monkeypatch.setattr(cache, "fit", lambda *_, **__: pytest.fail("trained again"))
    other = with_others(config)
    assert load_or_train(kind, other, data_for(name), 0, name, sizes_for(name)).config == other


def test_a_finished_folder_takes_the_new_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    kind, config = KINDS["hd"]
    train(kind, config, DATA, 0, tmp_path / "hd", "hd")
    monkeypatch.setattr(cache, "fit", lambda *_, **__: pytest.fail("trained again"))
    other, changes = with_others(config), {"low.sampling.steps": 3}
    train(kind, other, DATA, 0, tmp_path / "hd", "hd", changes=changes)
    loaded = kind.load(tmp_path / "hd")
    assert (loaded.config, loaded.changes) == (other, changes)
