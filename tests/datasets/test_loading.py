"""Loading by id, file or folder: the same data and the same position columns from Python and the command line."""

import json
from pathlib import Path

import numpy as np
import pytest

import scots
from scots.cli import main
from scots.core.errors import BadInput
from scots.core.files import home
from scots.data import formats
from scots.data.trajectories import Meta, Trajectories
from scots.datasets import load, toy
from scots.datasets.loading import data_path, known_meta, list_datasets
from scots.datasets.specs import SPECS, spec_of


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCOTS_HOME", str(tmp_path / "home"))


def write_tracks(path: Path, *columns: str, position: tuple[int, ...] = ()) -> Path:
    rng = np.random.default_rng(0)
    observations = rng.normal(size=(60, len(columns))).cumsum(axis=0).astype(np.float32)
    actions = rng.uniform(-1, 1, size=(60, 2)).astype(np.float32)
    meta = Meta(columns=columns, position=position)
    formats.write(Trajectories(observations, [0, 30, 60], actions=actions, meta=meta), path)
    return path


@pytest.mark.parametrize(
    ("columns", "declared", "asked", "expected"),
    [
        (("speed", "x", "y"), (), None, (1, 2)),
        (("speed", "x", "y"), (0, 1), None, (0, 1)),
        (("speed", "x", "y"), (0, 1), "y,x", (2, 1)),
        (("speed", "x", "y"), (), "0,2", (0, 2)),
        (("lat", "lon", "height"), (), None, (0, 1)),
        (("Pos_X", "b", "POS_Y"), (), None, (0, 2)),
    ],
)
def test_python_and_the_commands_agree_on_the_position(
    columns, declared, asked, expected, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = write_tracks(tmp_path / "tracks.npz", *columns, position=declared)
    assert scots.load(path, position=asked).meta.position == expected
    words = ["--position", asked] if asked else []
    assert main(["data", "inspect", str(path), "--json", *words]) == 0
    assert json.loads(capsys.readouterr().out)["position columns"] == [columns[n] for n in expected]


@pytest.mark.slow
def test_a_model_is_trained_on_the_position_that_python_loads(tmp_path: Path):
    path = write_tracks(tmp_path / "tracks.npz", "speed", "x", "y")
    for words in ([], ["--position", "y,speed"]):
        folder = tmp_path / f"model{len(words)}"
        words = ["train", "gciql", "--data", str(path), "--out", str(folder), "--profile", "smoke", *words]
        assert main([*words, "--set", "training.steps=1"]) == 0
    found = [json.loads((tmp_path / name / "config.json").read_text())["data"] for name in ("model0", "model2")]
    assert found[0]["position"] == list(scots.load(path).meta.position) == [1, 2]
    assert found[1]["position"] == list(scots.load(path, position="y,speed").meta.position) == [2, 0]


def test_an_assumed_position_is_announced_and_a_known_one_is_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    load(write_tracks(tmp_path / "a.npz", "x", "y"))
    load(write_tracks(tmp_path / "b.npz", "lat", "lon"), position="lat,lon")
    assert "assumed" not in capsys.readouterr().err
    load(write_tracks(tmp_path / "c.npz", "lat", "lon"))
    assert "position columns assumed: lat, lon; name others with --position" in capsys.readouterr().err


def test_columns_that_are_not_there_are_named(tmp_path: Path):
    with pytest.raises(BadInput, match="no observation column 'z'; choose from x, y"):
        load(write_tracks(tmp_path / "a.npz", "x", "y"), position="x,z")


@pytest.mark.parametrize("name", ["my-maze-giant", "pointmaze-giant-stitch-v0"])
def test_a_file_has_derived_settings_whatever_it_is_called(name: str, tmp_path: Path):
    spec = spec_of(load(write_tracks(tmp_path / f"{name}.npz", "x", "y")))
    assert not spec.is_published
    assert (spec.stitches, spec.waypoints, spec.episode_states) == (8, 5, 30)


def test_a_dataset_of_ones_own_in_the_data_home(tmp_path: Path):
    write_tracks(data_path("my-maze-giant"), "x", "y")
    data = load("my-maze-giant")
    assert (len(data), spec_of(data).is_published) == (2, False)
    (listed,) = [row for row in list_datasets() if row.id == "my-maze-giant"]
    assert (listed.episodes, listed.states, listed.origin) == (2, 30, "unknown origin")


def test_the_toy_needs_no_file():
    assert load(toy.ID).equals(toy.make())
    assert not (home() / "data").exists()


def test_a_toy_that_was_collected_comes_before_the_one_that_is_built_in():
    assert main(["data", "collect", toy.ID, "--seed", "2"]) == 0
    assert load(toy.ID).equals(toy.make(seed=2))


def test_the_validation_twin_of_the_toy_is_other_data():
    validation = load(f"{toy.ID}-val")
    assert (len(validation), validation.meta.dataset) == (toy.EPISODES // 10, toy.ID)
    assert not np.array_equal(validation.observations, load(toy.ID).observations[: validation.rows])


@pytest.mark.parametrize("id", ["pointmaze-medium-stitch-v0", toy.ID])
@pytest.mark.parametrize("twin", ["", "-val"])
def test_a_file_without_meta_in_the_place_of_a_dataset_is_of_its_environment(id: str, twin: str):
    path, tracks = data_path(id + twin), toy.make(3)
    path.parent.mkdir(parents=True)
    np.savez(path, observations=tracks.observations, actions=tracks.actions, episode_ends=tracks.offsets[1:])
    data = load(id + twin)
    assert data.meta == known_meta(id)
    assert spec_of(data) is SPECS[id]


def test_a_file_in_the_place_of_a_dataset_has_its_columns():
    path = data_path("antmaze-medium-stitch-v0")
    path.parent.mkdir(parents=True)
    np.savez(path, observations=toy.make(3).observations, episode_ends=toy.make(3).offsets[1:])
    with pytest.raises(BadInput, match="2 observation columns where antmaze-medium-stitch-v0 has 29"):
        load("antmaze-medium-stitch-v0")


def test_a_guessed_position_stays_a_guess_after_converting(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    paths = [write_tracks(tmp_path / "a.npz", "lat", "lon", "height"), tmp_path / "b.npz"]
    assert main(["data", "convert", *map(str, paths)]) == 0
    assert formats.read(paths[1]).meta.position == ()
    for path in paths:
        capsys.readouterr()
        assert main(["data", "inspect", str(path), "--json"]) == 0
        assert any("assumed" in warning for warning in json.loads(capsys.readouterr().out)["warnings"])
        assert main(["data", "inspect", str(path), "--png", str(tmp_path / "a.png")]) == 0
        assert "warning: position columns are assumed to be ['lat', 'lon']" in capsys.readouterr().out
        assert main(["data", "inspect", str(path), "--position", "lat,lon"]) == 0
        assert "assumed" not in capsys.readouterr().out


def test_what_is_not_here_is_named():
    with pytest.raises(
        BadInput, match="not collected or downloaded yet; run `scots data collect antmaze-giant-stitch-v0`"
    ):
        load("antmaze-giant-stitch-v0")
    with pytest.raises(BadInput, match="did you mean pointmaze-giant-stitch-v0"):
        load("pointmaze-gaint-stitch-v0")


@pytest.mark.parametrize("id", SPECS)
def test_every_id_says_its_environment_without_its_data(id: str):
    meta = known_meta(id)
    assert (meta.dataset, meta.environment) == (id, SPECS[id].environment)
    if meta.environment.startswith("navigation"):  # scans, or their latents, come first
        assert tuple(meta.columns[n] for n in meta.position) in ((), ("x", "y"), ("odometry_x", "odometry_y"))
    else:
        assert meta.position == (0, 1)
