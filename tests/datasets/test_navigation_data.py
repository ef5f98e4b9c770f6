"""Logs of the robot and the states that are made of them: rules of collection, bytes, the encoder and where it is."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from scots.augmenters.index import segment_starts
from scots.core.errors import BadInput
from scots.data import formats
from scots.data.scans import encoding_step
from scots.data.shards import Shards, validation_path
from scots.datasets import load
from scots.datasets.collect import collect, collection_job
from scots.datasets.encoding import SMOKE, StateEncoding
from scots.datasets.loading import known_meta
from scots.datasets.protocols import EncodedScans, NavigationCollection
from scots.datasets.specs import SPECS
from scots.envs.maze import FLOOR_PLANS
from scots.envs.navigation import BUMPER, WORLDS
from scots.evaluation.results import evaluate
from scots.experiments.models import load_model, subject_of, train_model
from scots.models.cache import artifact_folder

pytestmark = pytest.mark.slow
EPISODES = 6
LOGS, LATENT, POSES = (
    SPECS[f"navigation-corridor{variant}-v0"].collection.resized(EPISODES) for variant in ("", "-latent", "-pose")
)
LATENT, POSES = (replace(spec, encoder=SMOKE) for spec in (LATENT, POSES))


@pytest.fixture(autouse=True, scope="module")
def _home(tmp_path_factory: pytest.TempPathFactory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SCOTS_HOME", str(tmp_path_factory.mktemp("home")))
        yield


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return collect(LOGS, tmp_path_factory.mktemp("data") / "logs.npz", workers=2)


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return collect(POSES, tmp_path_factory.mktemp("data") / "states.npz", workers=2)


def test_the_robot_drives_short_ways_on_the_floor(logs: Path):
    data, maze = formats.read(logs), FLOOR_PLANS["corridor"]
    assert len(data) == EPISODES
    assert data.lengths.max() <= LOGS.states
    for episode in data.episodes():
        cells = [tuple(map(int, maze.cell_of(place))) for place in episode.positions[[0, -1]]]
        assert maze.distances(cells[0])[cells[1]] <= 6
    assert not maze.in_wall(data.positions).any()
    assert np.abs(data.actions).max() <= 1
    assert not data.observations[:, BUMPER].any()
    assert known_meta(LOGS.id).columns == data.meta.columns


def test_bytes_do_not_depend_on_workers(logs: Path, tmp_path: Path):
    again = collect(LOGS, tmp_path / "logs.npz", workers=1)
    assert again.read_bytes() == logs.read_bytes()
    assert validation_path(again).read_bytes() == validation_path(logs).read_bytes()


def test_states_are_latents_and_odometry_of_the_same_episodes(logs: Path, states: Path):
    raw, made = formats.read(logs), formats.read(states)
    np.testing.assert_array_equal(raw.offsets, made.offsets)
    np.testing.assert_array_equal(raw.actions, made.actions)
    np.testing.assert_array_equal(made.qpos, raw.positions)
    np.testing.assert_array_equal(made.observations[:, 8:], raw.observations[:, 515:518])
    assert made.meta.columns[8:] == ("odometry_x", "odometry_y", "odometry_yaw")
    assert made.meta.position == (8, 9)
    encoding = StateEncoding.behind(made.meta)
    np.testing.assert_allclose(encoding.encode(raw.observations), made.observations, rtol=1e-4, atol=1e-5)
    twin = formats.read(validation_path(states))
    expected = encoding.encode(formats.read(validation_path(logs)).observations)
    np.testing.assert_allclose(twin.observations, expected, rtol=1e-4, atol=1e-5)


def test_how_a_robot_turns_round_is_part_of_what_is_stitched(states: Path):
    """It starts with any heading, in evaluations too, so no segment is left out because it stays in place."""
    data, spec = formats.read(states), SPECS[POSES.id]
    starts = segment_starts(data, spec.segment, spec.min_displacement)
    np.testing.assert_array_equal(starts, data.window_starts(spec.segment))
    begins = data.offsets[:-1][data.lengths >= spec.segment]
    displacements = np.linalg.norm(data.positions[begins + spec.segment - 1] - data.positions[begins], axis=1)
    assert displacements.min() < 1  # there are such segments


def test_what_a_file_will_say_is_known_before_it_is_made(states: Path):
    assert formats.read_meta(states) == collection_job(POSES).described(validation=False)
    assert [step["origin"] for step in formats.read_meta(states).provenance] == ["collected here", "scans encoded here"]


def test_both_variants_share_one_encoder_and_one_log(states: Path, tmp_path: Path):
    keys = {encoding_step(collection_job(spec).described(False))["encoder"] for spec in (LATENT, POSES)}
    assert len(keys) == 1
    folders = {path.name for path in artifact_folder("", "").parent.iterdir()}
    latent = formats.read(collect(LATENT, tmp_path / "latent.npz", workers=1))
    assert {path.name for path in artifact_folder("", "").parent.iterdir()} == folders  # nothing was made again
    np.testing.assert_array_equal(latent.observations, formats.read(states).observations[:, :8])


def test_latents_are_not_taken_for_a_position(tmp_path: Path):
    data = load(collect(LATENT, tmp_path / "latent.npz", workers=1))
    assert data.meta.position == ()


def test_an_interrupted_run_ends_in_the_same_bytes(states: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Stopped after the training file: the shards are still there, and the same command finishes."""
    out, write = tmp_path / "states.npz", Shards.write

    def stops_at_validation(shards, runs, meta, path):
        if path != out:
            raise KeyboardInterrupt
        write(shards, runs, meta, path)

    with monkeypatch.context() as patch:
        patch.setattr(Shards, "write", stops_at_validation)
        with pytest.raises(KeyboardInterrupt):
            collect(POSES, out, workers=1)
    assert collect(POSES, out, workers=1).read_bytes() == states.read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["states-val.npz", "states.npz"]


def test_a_model_folder_holds_the_encoder_it_acts_with(states: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Also where the cache is gone; and without the encoder the error says what to do."""
    train_model("hiql", load(states), profile="smoke", folder=tmp_path / "hiql")
    monkeypatch.setenv("SCOTS_HOME", str(tmp_path / "empty"))
    subject = subject_of(load_model(tmp_path / "hiql"))
    rows = evaluate(subject, episodes=1, limits=[15], workers=1)
    assert [row.task for row in rows] == [1, 2, 3, 4]
    assert all(row.successes + sum(row.failures.values()) == 1 for row in rows)
    assert all(set(row.failures) <= {"collision", "out of time"} for row in rows)
    with pytest.raises(BadInput, match="is not in the cache; run `scots data collect navigation-corridor-pose-v0`"):
        train_model("hiql", load(states), profile="smoke", folder=tmp_path / "other")
    (tmp_path / "hiql" / "states" / "columns.json").unlink()
    with pytest.raises(BadInput, match="the encoder of the scans is not there; train the model again"):
        subject_of(load_model(tmp_path / "hiql"))


def test_every_world_has_logs_and_both_kinds_of_states():
    collections = [spec.collection for id, spec in SPECS.items() if id.startswith("navigation-")]
    assert {own.id for own in collections if isinstance(own, NavigationCollection)} == set(WORLDS)
    assert sum(isinstance(own, EncodedScans) for own in collections) == 2 * len(WORLDS)
