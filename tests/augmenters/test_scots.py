"""Augmentation as a whole: same bytes for any workers and after a kill, genuine ends, lineage, any data."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from scots.augmenters.scots import ScotsConfig, augment, configure
from scots.augmenters.stitching import assemble
from scots.cli import main
from scots.core.errors import BadInput
from scots.data import formats
from scots.data.shards import validation_path
from scots.data.trajectories import Meta, Trajectories
from scots.envs import toy

DATA = toy.make(episodes=60)
CONFIG = replace(configure(DATA, "smoke").with_segment(9), trajectories=500)  # three shards, one for validation
STATES = 6 * 8 + 1


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One data home for the module: models are trained once."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(autouse=True)
def _home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCOTS_HOME", str(home))


@pytest.fixture(scope="module")
def small(home: Path) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SCOTS_HOME", str(home))
        augment(DATA, CONFIG, out=home / "aug.npz", workers=2)
    return home / "aug.npz"


@pytest.mark.slow
def test_shapes_meta_and_the_validation_twin(small: Path):
    data, validation = formats.read(small), formats.read(validation_path(small))
    assert (len(data), set(data.lengths)) == (500, {STATES})
    assert (len(validation), set(validation.lengths)) == (50, {STATES})
    assert data.actions.shape == (data.rows, 2)
    assert data.meta.position == DATA.meta.position
    assert [step["origin"] for step in data.meta.provenance] == ["made here", "stitched here"]
    assert data.meta.provenance[-1]["source"] == DATA.fingerprint()
    assert ScotsConfig.from_dict(data.meta.provenance[-1]["config"]) == CONFIG


@pytest.mark.slow
def test_segment_ends_are_genuine_states_and_the_rest_is_drawn(small: Path):
    data = formats.read(small)
    states, source = (values.reshape(len(data), STATES, -1) for values in (data.observations, data.source))
    original = DATA.observations[source[..., 0]]
    assert np.array_equal(states[:, ::8], original[:, ::8])
    inner = np.arange(STATES) % 8 != 0
    assert not np.array_equal(states[:, inner], original[:, inner])


@pytest.mark.slow
def test_lineage_names_real_segments(small: Path):
    data = formats.read(small)
    source = data.source.reshape(len(data), STATES)
    firsts = np.concatenate([source[:, :1], source[:, 1::8][:, 1:] - 1], axis=1)
    assert np.array_equal(assemble(firsts, 9), source)
    assert np.array_equal(DATA.episode_of(firsts), DATA.episode_of(firsts + 8))  # no segment crosses an episode
    scores = data.scores.reshape(len(data), STATES, 3)
    assert (scores[:, 1:].reshape(len(data), 6, 8, 3) == scores[:, 1::8][:, :, None]).all()


@pytest.mark.slow
def test_ogbench_loads_it_for_its_own_agents(small: Path):
    from ogbench.utils import load_dataset

    compact = load_dataset(str(small), compact_dataset=True)
    assert compact["terminals"].sum() == 2 * 500
    assert compact["valids"].sum() == 500 * (STATES - 1)
    regular = load_dataset(str(small))
    assert regular["next_observations"].shape == (500 * (STATES - 1), 2)
    assert regular["actions"].dtype == np.float32


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 4])
def test_bytes_do_not_depend_on_workers(small: Path, tmp_path: Path, workers: int):
    augment(DATA, CONFIG, out=tmp_path / "aug.npz", workers=workers)
    assert (tmp_path / "aug.npz").read_bytes() == small.read_bytes()
    assert validation_path(tmp_path / "aug.npz").read_bytes() == validation_path(small).read_bytes()


@pytest.mark.slow
def test_a_killed_run_continues_to_the_same_bytes(small: Path, tmp_path: Path):
    data, out = tmp_path / "toy.npz", tmp_path / "aug.npz"
    DATA.save(data)
    words = ["augment", str(data), "--out", str(out), "--profile", "smoke", "--segment", "9", "--trajectories", "500"]
    command = [sys.executable, "-m", "scots.cli", *words]
    process = subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    while not list(tmp_path.glob(".aug.npz.*.parts/*.npz")):  # until the first shard is there
        assert process.poll() is None
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not out.exists()
    subprocess.run(command, check=True, capture_output=True)
    assert out.read_bytes() == small.read_bytes()


@pytest.mark.slow
def test_models_are_trained_once_and_shared(small: Path, home: Path, tmp_path: Path):
    before = {path: path.stat().st_mtime_ns for path in home.glob("artifacts/*/model.safetensors")}
    assert len(before) == 3
    other = replace(CONFIG, trajectories=5, stitching=replace(CONFIG.stitching, novelty_weight=0.0))
    augment(DATA, other, out=tmp_path / "aug.npz", workers=1)
    assert {path: path.stat().st_mtime_ns for path in home.glob("artifacts/*/model.safetensors")} == before


@pytest.mark.slow
def test_without_refinement_every_state_is_a_source_row(tmp_path: Path):
    data = augment(DATA, replace(CONFIG, refine=False, trajectories=5), out=tmp_path / "aug.npz", workers=1)
    assert np.array_equal(data.observations, DATA.observations[data.source])


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["paper", "official"])
@pytest.mark.parametrize("encoder", ["temporal", "raw"])
def test_recipes_and_encoders_run(recipe, encoder, tmp_path: Path):
    config = replace(configure(DATA, "smoke", recipe).with_segment(9), encoder=encoder, trajectories=5)
    assert len(augment(DATA, config, out=tmp_path / "aug.npz", workers=1)) == 5


@pytest.mark.slow
def test_own_tracks_without_actions_or_environment(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """A CSV folder of 2-D tracks goes through the command with no code and no options but the segment."""
    rng = np.random.default_rng(0)
    tracks = np.cumsum(rng.normal(0.1, 0.1, size=(12, 40, 2)), axis=1).reshape(-1, 2)
    Trajectories(tracks, np.arange(13) * 40, meta=Meta(columns=("x", "y"))).save(tmp_path / "tracks")
    out = tmp_path / "aug.csv"
    assert (
        main(["augment", str(tmp_path / "tracks"), "--out", str(out), "--profile", "smoke", "--trajectories", "4"]) == 0
    )
    data = formats.read(out)
    assert (len(data), data.actions) == (4, None)
    assert data.meta.position == (0, 1)


@pytest.mark.slow
def test_a_plain_script_without_a_main_guard_works(tmp_path: Path):
    script = tmp_path / "script.py"
    script.write_text(
        "import scots\n"
        "data = scots.load('toy-corridor-stitch-v0')\n"
        "aug = scots.augment(data[:40], profile='smoke', trajectories=3, stitching__stitches=2)\n"
        "print(len(aug), aug.rows)\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    assert done.stdout == "3 153\n"


def test_too_short_data_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    short = toy.make(episodes=3)
    Trajectories(short.observations, np.arange(0, 100, 9)).save(tmp_path / "short.npz")
    assert main(["augment", str(tmp_path / "short.npz"), "--out", str(tmp_path / "a.npz"), "--profile", "smoke"]) == 2
    assert "26 states" in capsys.readouterr().err


def test_configs_follow_the_dataset():
    def of(name: str, **choices) -> ScotsConfig:
        return configure(DATA.but_meta(dataset=name), **choices)

    giant, medium = of("pointmaze-giant-stitch-v0", profile="paper"), of("antmaze-medium-stitch-v0", profile="paper")
    assert (giant.stitching.states, medium.stitching.states) == (2001, 1001)
    assert (giant.trajectories, medium.trajectories) == (2500, 5000)
    assert (giant.embedding.discount, medium.embedding.discount) == (0.995, 0.99)
    assert of("antmaze-large-explore-v0").stitching.stitches == 80
    assert of("antmaze-large-explore-v0").stitching.min_displacement == 2.0
    assert of("my-robot").stitching.min_displacement is None
    assert of("x", recipe="paper").stitching.score_scale == "raw"
    with pytest.raises(BadInput, match="segments have 9 states, the stitcher 26"):
        replace(giant, stitching=replace(giant.stitching, segment=9))
