"""Augmentation as a whole: same bytes for any workers and after a kill, genuine ends, lineage, any data."""

import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from scots.augmenters import AUGMENTERS
from scots.augmenters import scots as scots_module
from scots.augmenters.scots import stitched_by
from scots.augmenters.settings import ScotsConfig
from scots.augmenters.stitching import assemble
from scots.cli import main
from scots.core.errors import BadInput
from scots.data import formats
from scots.data.shards import validation_path
from scots.data.trajectories import Meta, Trajectories
from scots.datasets import streets, toy
from scots.datasets.specs import SPECS, spec_of
from scots.reporting.quality import measure_quality

DATA = toy.make(episodes=60)
SCOTS = AUGMENTERS["scots"]
SMOKE: ScotsConfig = SCOTS.configure(spec_of(DATA), "smoke").replace_at("stitching.segment", 9)
CONFIG = replace(SMOKE, trajectories=500)  # three shards, one for validation
STATES = 6 * 8 + 1


def augment(data: Trajectories, config: ScotsConfig, out: Path, workers: int, seed: int = 0) -> Trajectories:
    return SCOTS.augment(data, config, seed=seed, out=out, profile="smoke", workers=workers)


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
    assert [step["origin"] for step in data.meta.provenance] == ["made here", "augmented here"]
    assert data.meta.provenance[-1]["source"] == DATA.fingerprint()
    assert stitched_by(data.meta).config == CONFIG
    step = data.meta.augmentation
    assert (step["augmenter"], step["profile"]) == ("scots", "smoke")
    assert step["changes"] == {"stitching.segment": 9, "trajectories": 500}


@pytest.mark.slow
def test_states_are_recorded_ones_but_for_those_around_joins(small: Path):
    data = formats.read(small)
    made, original = data.generated > 0, DATA.observations[data.source]
    assert 0 < made.mean() < 0.7
    assert np.array_equal(data.observations[~made], original[~made])
    assert not np.array_equal(data.observations[made], original[made])


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
@pytest.mark.parametrize("name", ["scots", "scots-paper"])
@pytest.mark.parametrize("encoder", ["temporal", "raw"])
def test_variants_and_encoders_run(name, encoder, tmp_path: Path):
    default = AUGMENTERS[name].configure(spec_of(DATA), "smoke")
    config = default.replace_all({"stitching.segment": 9, "encoder": encoder, "trajectories": 5})
    data = AUGMENTERS[name].augment(DATA, config, seed=0, out=tmp_path / "aug.npz", workers=1)
    assert (len(data), data.meta.augmentation["augmenter"]) == (5, name)


@pytest.mark.slow
def test_a_moved_cache_is_found_whole(small: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Nothing is trained or embedded again, and the bytes are the same."""
    shutil.copytree(home / "artifacts", tmp_path / "moved" / "artifacts")
    monkeypatch.setenv("SCOTS_HOME", str(tmp_path / "moved"))
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("moved/artifacts/*/*") if path.is_file()}
    augment(DATA, CONFIG, out=tmp_path / "aug.npz", workers=2)
    assert (tmp_path / "aug.npz").read_bytes() == small.read_bytes()
    after = {path: path.stat().st_mtime_ns for path in before if path.name != "seconds.json"}
    assert after == {path: time for path, time in before.items() if path in after}


def test_the_same_settings_have_one_identity():
    """However they were given: an override that changes nothing leaves no trace."""
    twice = SMOKE.replace_all({"trajectories": 500, "stitching.stitches": 6})
    jobs = [SCOTS.job(DATA, config, 0, "smoke") for config in (CONFIG, twice)]
    assert jobs[0] == jobs[1]
    assert jobs[0].fingerprint() == jobs[1].fingerprint()


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
def test_street_tracks_come_out_as_clean_as_they_went_in(tmp_path: Path):
    """By their map, which nothing that learns has seen; networks of two steps leave the streets where none checks."""
    streets.write_csv(tmp_path / "tracks", files=30, seed=12)
    data = formats.read(tmp_path / "tracks")
    hardly = {"trajectories": 50, "embedding.training.steps": 5, "stitcher.training.steps": 2}
    shares = {}
    for draws in (3, 0):
        config = SCOTS.configure(spec_of(data), "smoke").replace_at("refinement.draws", draws)
        for path, value in hardly.items():
            config = config.replace_at(path, value)
        aug = augment(data, config, tmp_path / f"{draws}.npz", workers=1)
        shares[draws] = 1 - streets.Streets().on_street(aug.positions).mean()
    assert streets.Streets().on_street(data.positions).all()
    assert shares[3] < 0.001
    assert shares[0] > 0.005


@pytest.mark.slow
def test_a_plain_script_without_a_main_guard_works(tmp_path: Path):
    script = tmp_path / "script.py"
    script.write_text(
        "import scots\n"
        "data = scots.load('toy-corridor-stitch-v0')\n"
        "aug = scots.augment(data[:40], profile='smoke', changes={'trajectories': 3, 'stitching.stitches': 2})\n"
        "print(len(aug), aug.rows)\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    assert done.stdout == "3 153\n"


def test_too_short_data_is_named_before_anything_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(scots_module, "train_encoder", lambda *_: pytest.fail("trained on data without segments"))
    short = toy.make(episodes=3)
    Trajectories(short.observations, np.arange(0, 100, 9)).save(tmp_path / "short.npz")
    words = ["augment", str(tmp_path / "short.npz"), "--out", str(tmp_path / "a.npz"), "--profile", "smoke"]
    assert main([*words, "--segment", "26"]) == 2
    error = capsys.readouterr().err
    assert "a segment needs 26 states, but the longest episode has 9; use shorter segments with --segment" in error


@pytest.mark.parametrize(
    ("flags", "printed"),
    [
        ([], "segments of 17 states, 6 to a trajectory; 20 trajectories of 97 states"),
        (
            ["--segment", "5", "--stitches", "3"],
            "segments of 5 states, 3 to a trajectory; 20 trajectories of 13 states",
        ),
        (["--segment", "9", "--trajectories", "1"], "6 to a trajectory; 1 trajectory of 49 states"),
    ],
)
def test_the_lengths_that_are_used_are_printed(
    flags: list[str], printed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(scots_module.Scots, "run_job", lambda *_, **__: "made")
    toy.make(episodes=9).with_meta(dataset=None, environment=None).save(tmp_path / "own.npz")
    words = ["augment", str(tmp_path / "own.npz"), "--out", str(tmp_path / "a.npz"), "--profile", "smoke"]
    assert main([*words, *flags]) == 0
    error = capsys.readouterr().err
    assert printed in error
    assert error.count("segments of") == 1


def test_configs_follow_the_dataset():
    def of(name: str, profile="paper", augmenter="scots") -> ScotsConfig:
        return AUGMENTERS[augmenter].configure(SPECS[name], profile)

    giant, medium = of("pointmaze-giant-stitch-v0"), of("antmaze-medium-stitch-v0")
    assert (giant.stitching.states, medium.stitching.states) == (2001, 1001)
    assert (giant.trajectories, medium.trajectories) == (2500, 5000)
    assert (giant.embedding.discount, medium.embedding.discount) == (0.995, 0.99)
    assert of("antmaze-large-explore-v0").stitching.stitches == 80
    assert of("antmaze-large-explore-v0").stitching.min_displacement == 2.0
    assert of("antmaze-large-explore-v0", augmenter="scots-paper").stitching.min_displacement is None
    assert of("antmaze-large-explore-v0", augmenter="scots-paper").stitching.score_scale == "raw"


def test_a_planner_is_given_positions_where_whole_states_cost_more():
    def columns(name: str, profile="laptop") -> str:
        return SCOTS.configure(SPECS[name], profile, for_planner=True).columns

    assert columns("antmaze-medium-stitch-v0") == "position"
    assert columns("antmaze-medium-stitch-v0", "paper") == "all"
    assert columns("pointmaze-medium-stitch-v0") == "all"
    names = ("antmaze-medium-stitch-v0", "pointmaze-medium-stitch-v0")
    ant, point = (SCOTS.configure(SPECS[name], "laptop", for_planner=True) for name in names)
    assert ant.stitcher == point.stitcher  # positions of both have two columns


def test_positions_alone_are_those_of_the_same_walk(tmp_path: Path):
    data = with_other_columns(DATA)
    whole, alone = (
        SCOTS.augment(data, replace(SMOKE, columns=columns), seed=0, out=tmp_path / f"{columns}.npz", profile="smoke")
        for columns in ("all", "position")
    )
    np.testing.assert_array_equal(whole.source, alone.source)
    assert (alone.observations.shape[1], alone.actions) == (2, None)
    assert alone.meta.columns == ("x", "y")
    kept = (whole.generated == 0) & (alone.generated == 0)
    assert kept.mean() > 0.3
    np.testing.assert_array_equal(whole.positions[kept], alone.positions[kept])
    found = measure_quality(data, alone)
    assert found.dynamics is None
    assert found.on_data.off_positions <= 1.0


def with_other_columns(data: Trajectories) -> Trajectories:
    """The same episodes with two columns in front of the position."""
    others = np.sin(data.observations[:, ::-1])
    meta = replace(data.meta, columns=("a", "b", "x", "y"), position=(2, 3), environment=None)
    return replace(data, observations=np.concatenate([others, data.observations], axis=1), meta=meta)


def test_the_segment_length_is_stored_once_and_changed_anywhere():
    config = SMOKE.replace_at("stitching.segment", 12)
    assert config.to_json().count("12") == SMOKE.to_json().count("12") + 1
    with pytest.raises(BadInput, match="nothing to refine"):
        SMOKE.replace_at("stitching.segment", 2)
