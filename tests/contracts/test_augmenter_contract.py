"""What every augmenter keeps to, those that are registered and the example of a new one."""

from pathlib import Path

import numpy as np
import pytest
from members import Copies

from scots.augmenters import AUGMENTERS, augmenter_of
from scots.augmenters.base import Augmenter
from scots.augmenters.scots import Scots
from scots.core.errors import BadInput
from scots.data import formats
from scots.data.shards import validation_path
from scots.data.trajectories import Trajectories
from scots.datasets import toy
from scots.datasets.specs import spec_of

MEMBERS: dict[str, Augmenter] = {**AUGMENTERS, Copies.name: Copies()}
DATA = toy.make(episodes=40)
SPEC = spec_of(DATA)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One data home for the module: models are trained once."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(autouse=True)
def _home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCOTS_HOME", str(home))


def augment(name: str, out: Path, workers: int = 1, seed: int = 0) -> Trajectories:
    config = MEMBERS[name].configure(SPEC, "smoke")
    return MEMBERS[name].augment(DATA, config, seed=seed, out=out, profile="smoke", workers=workers)


@pytest.fixture(scope="module", params=MEMBERS)
def augmented(request: pytest.FixtureRequest, home: Path) -> tuple[str, Path]:
    """Name and file of a small augmentation."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SCOTS_HOME", str(home))
        augment(request.param, home / f"{request.param}.npz")
    return request.param, home / f"{request.param}.npz"


@pytest.mark.slow
def test_the_output_has_the_type_and_columns_of_the_input(augmented: tuple[str, Path]):
    name, path = augmented
    for data in (formats.read(path), formats.read(validation_path(path))):
        assert data.observations.shape[1] == DATA.observations.shape[1]
        assert data.actions.shape == (data.rows, DATA.actions.shape[1])
        assert np.isfinite(data.observations).all()
        assert (data.meta.position, data.meta.columns) == (DATA.meta.position, DATA.meta.columns)
        states = MEMBERS[name].episode_states(MEMBERS[name].configure(SPEC, "smoke"), SPEC)
        assert np.median(data.lengths) == states


@pytest.mark.slow
def test_the_data_says_how_it_was_made(augmented: tuple[str, Path]):
    name, path = augmented
    step = formats.read(path).meta.augmentation
    config = MEMBERS[name].config_class.from_dict(step["config"])
    assert config == MEMBERS[name].configure(SPEC, "smoke")
    assert (step["augmenter"], step["profile"], step["changes"]) == (name, "smoke", {})
    assert (step["seed"], step["source"]) == (0, DATA.fingerprint())
    assert "scots" in step["versions"]


@pytest.mark.slow
def test_bytes_do_not_depend_on_workers(augmented: tuple[str, Path], tmp_path: Path):
    name, path = augmented
    augment(name, tmp_path / "same.npz", workers=2)
    for ours, theirs in (
        (tmp_path / "same.npz", path),
        (validation_path(tmp_path / "same.npz"), validation_path(path)),
    ):
        assert ours.read_bytes() == theirs.read_bytes()


@pytest.mark.slow
def test_another_seed_is_another_dataset(augmented: tuple[str, Path], tmp_path: Path):
    """It says so; its content differs only where something is drawn."""
    name, path = augmented
    other = augment(name, tmp_path / "other.npz", seed=1)
    assert other.meta.augmentation["seed"] == 1
    if isinstance(MEMBERS[name], Scots):
        assert not np.array_equal(other.observations, formats.read(path).observations)


@pytest.mark.slow
def test_finished_work_is_not_done_again(augmented: tuple[str, Path]):
    name, path = augmented
    files = path, validation_path(path)
    before = [file.stat().st_mtime_ns for file in files]
    augment(name, path)
    assert [file.stat().st_mtime_ns for file in files] == before


@pytest.mark.slow
def test_without_a_path_it_is_kept_in_the_cache(augmented: tuple[str, Path], home: Path):
    name, path = augmented
    config = MEMBERS[name].configure(SPEC, "smoke")
    before = set((home / "artifacts").rglob("*.npz")) if (home / "artifacts").exists() else set()
    cached = MEMBERS[name].augment(DATA, config, seed=0, profile="smoke", workers=1)
    assert cached.fingerprint() == formats.read(path).fingerprint()
    added = set((home / "artifacts").rglob("*.npz")) - before
    assert added
    times = {file: file.stat().st_mtime_ns for file in added}
    MEMBERS[name].augment(DATA, config, seed=0, profile="smoke", workers=1)
    assert {file: file.stat().st_mtime_ns for file in added} == times


@pytest.mark.parametrize("name", MEMBERS)
@pytest.mark.parametrize("profile", ["smoke", "laptop", "paper"])
def test_configs_survive_json_at_every_scale(name: str, profile):
    config = MEMBERS[name].configure(SPEC, profile)
    assert type(config) is MEMBERS[name].config_class
    assert type(config).from_json(config.to_json()) == config


def test_another_file_in_its_place_is_not_taken_for_finished_work(tmp_path: Path):
    name = Copies.name
    augment(name, tmp_path / "a.npz", seed=1)
    assert augment(name, tmp_path / "a.npz").meta.augmentation["seed"] == 0
    assert formats.read_meta(validation_path(tmp_path / "a.npz")).augmentation["seed"] == 0


def test_augmenters_are_registered_under_their_own_names():
    assert {name: augmenter_of(name).name for name in AUGMENTERS} == {name: name for name in AUGMENTERS}
    with pytest.raises(BadInput, match="augmenter 'mixup' is not one of scots"):
        augmenter_of("mixup")
