"""What every registered augmenter keeps to, only because it is registered."""

from pathlib import Path

import numpy as np
import pytest

from scots.augmenters import AUGMENTERS, augmenter_of
from scots.core.errors import BadInput
from scots.data import formats
from scots.data.shards import validation_path
from scots.data.trajectories import Trajectories
from scots.datasets import toy
from scots.datasets.specs import spec_of

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
    config = AUGMENTERS[name].configure(SPEC, "smoke")
    return AUGMENTERS[name].augment(DATA, config, seed=seed, out=out, profile="smoke", workers=workers)


@pytest.fixture(scope="module", params=AUGMENTERS)
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
        states = AUGMENTERS[name].episode_states(AUGMENTERS[name].configure(SPEC, "smoke"), SPEC)
        assert np.median(data.lengths) == states


@pytest.mark.slow
def test_the_data_says_how_it_was_made(augmented: tuple[str, Path]):
    name, path = augmented
    step = formats.read(path).meta.augmentation
    config = AUGMENTERS[name].config_class.from_dict(step["config"])
    assert config == AUGMENTERS[name].configure(SPEC, "smoke")
    assert (step["augmenter"], step["profile"], step["changes"]) == (name, "smoke", {})
    assert (step["seed"], step["source"]) == (0, DATA.fingerprint())
    assert "scots" in step["versions"]


@pytest.mark.slow
def test_bytes_depend_on_the_seed_and_not_on_workers(augmented: tuple[str, Path], tmp_path: Path):
    name, path = augmented
    augment(name, tmp_path / "same.npz", workers=2)
    assert (tmp_path / "same.npz").read_bytes() == path.read_bytes()
    assert not np.array_equal(
        augment(name, tmp_path / "other.npz", seed=1).observations, formats.read(path).observations
    )


@pytest.mark.slow
def test_finished_work_is_not_done_again(augmented: tuple[str, Path]):
    name, path = augmented
    before = path.stat().st_mtime_ns
    augment(name, path)
    assert path.stat().st_mtime_ns == before


@pytest.mark.parametrize("name", AUGMENTERS)
@pytest.mark.parametrize("profile", ["smoke", "laptop", "paper"])
def test_configs_survive_json_at_every_scale(name: str, profile):
    config = AUGMENTERS[name].configure(SPEC, profile)
    assert type(config) is AUGMENTERS[name].config_class
    assert type(config).from_json(config.to_json()) == config


def test_augmenters_are_registered_under_their_own_names():
    assert {name: augmenter_of(name).name for name in AUGMENTERS} == {name: name for name in AUGMENTERS}
    with pytest.raises(BadInput, match="augmenter 'mixup' is not one of scots"):
        augmenter_of("mixup")
