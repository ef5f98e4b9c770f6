"""The cache: pure keys, nothing trained twice, folders that can be moved."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from scots.augmenters.refinement import InverseDynamics, InverseDynamicsConfig
from scots.core.errors import BadInput
from scots.core.files import home
from scots.datasets import toy
from scots.models import cache
from scots.models.cache import load_cached, load_or_train, model_key, seconds_spent, train
from scots.models.training import TrainingConfig

DATA = toy.make(episodes=10)
CONFIG = InverseDynamicsConfig(hidden=(16,), training=TrainingConfig(steps=3, batch_size=8, learning_rate=1e-3))


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCOTS_HOME", str(tmp_path / "home"))


def forbid_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "fit", lambda *_, **__: pytest.fail("trained again"))


def test_what_is_cached_is_not_trained_again(monkeypatch: pytest.MonkeyPatch):
    first = load_or_train(InverseDynamics, CONFIG, DATA, 0, "inverse")
    assert first.folder is not None
    assert seconds_spent(first.folder) > 0
    forbid_training(monkeypatch)
    again = load_or_train(InverseDynamics, CONFIG, DATA, 0, "inverse")
    assert again.folder == first.folder


@pytest.mark.parametrize("what", ["config", "data", "seed", "sizes", "format"])
def test_everything_that_decides_a_model_is_in_its_key(what: str, monkeypatch: pytest.MonkeyPatch):
    arguments = {"config": CONFIG, "data_key": DATA.fingerprint(), "seed": 0, "sizes": {}}
    before = model_key(InverseDynamics, *arguments.values())
    if what == "format":
        monkeypatch.setattr(cache, "FORMAT", cache.FORMAT + 1)
    else:
        changed = {
            "config": replace(CONFIG, dropout=0.0),
            "data": DATA[:5].fingerprint(),
            "seed": 1,
            "sizes": {"segment": 9},
        }
        arguments["data_key" if what == "data" else what] = changed[what]
    assert model_key(InverseDynamics, *arguments.values()) != before


def test_a_moved_cache_is_found_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    load_or_train(InverseDynamics, CONFIG, DATA, 0, "inverse")
    shutil.move(home(), tmp_path / "elsewhere")
    assert load_cached(InverseDynamics, CONFIG, DATA.fingerprint(), 0) is None
    monkeypatch.setenv("SCOTS_HOME", str(tmp_path / "elsewhere"))
    assert load_cached(InverseDynamics, CONFIG, DATA.fingerprint(), 0) is not None


def test_looking_makes_nothing():
    assert load_cached(InverseDynamics, CONFIG, DATA.fingerprint(), 0) is None
    assert not home().exists()


def test_a_finished_folder_is_loaded_or_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = tmp_path / "model"
    train(InverseDynamics, CONFIG, DATA, 0, folder, "inverse", profile="smoke", changes={"dropout": 0.2})
    forbid_training(monkeypatch)
    loaded = train(InverseDynamics, CONFIG, DATA, 0, folder, "inverse")
    assert (loaded.profile, loaded.changes, loaded.data_fingerprint) == ("smoke", {"dropout": 0.2}, DATA.fingerprint())
    with pytest.raises(BadInput, match="other settings, data or seed; --force"):
        train(InverseDynamics, CONFIG, DATA, 1, folder, "inverse")
    with pytest.raises(BadInput, match="other settings, data or seed; --force"):
        train(InverseDynamics, CONFIG, DATA[:5], 0, folder, "inverse")
