"""Actors that run, their training, and the analogues of D4RL's locomotion datasets that they collect."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from scots.cli import main
from scots.core.config import Seeds
from scots.core.errors import BadInput
from scots.data import formats
from scots.data.shards import validation_path
from scots.datasets import runner_training, runners
from scots.datasets.collect import collect
from scots.datasets.loading import load
from scots.datasets.runners import (
    Ladder,
    Rung,
    RunnerActor,
    RunnerEpisodes,
    finished_ladder,
    measure_actor,
    run_episode,
)
from scots.datasets.sac import SAC
from scots.datasets.specs import SPECS, RunnerCollection, spec_of
from scots.envs.locomotion import RUNNERS, Locomotion

pytestmark = pytest.mark.mujoco
HOPPER = RUNNERS["hopper"]
MEDIUM = SPECS["hopper-medium-v2"].collection
REPLAY = SPECS["hopper-medium-replay-v2"].collection
RUNS = [spec.collection for spec in SPECS.values() if isinstance(spec.collection, RunnerCollection)]


def actor(seed: int) -> RunnerActor:
    layers = SAC(len(HOPPER.columns), HOPPER.actions, 16, 1e-3, np.random.default_rng(seed)).actor.layers
    return RunnerActor([(weight[0], bias[0, 0]) for weight, bias in layers])


def ladder(*rungs: tuple[float, float]) -> Ladder:
    """Random actors of these returns and lengths."""
    told = tuple(Rung(1000 * n, 20, mean, 1.0, length) for n, (mean, length) in enumerate(rungs, start=1))
    return Ladder(told, tuple(map(actor, range(len(rungs)))))


# ------------------------------------------------------------------------------------------------------------- actors


def test_an_actor_draws_from_the_policy_that_was_trained():
    sac = SAC(len(HOPPER.columns), HOPPER.actions, 16, 1e-3, np.random.default_rng(3))
    states = np.random.default_rng(4).normal(size=(5, len(HOPPER.columns))).astype(np.float32)
    for state in states:
        expected = sac.draw(state[None], np.random.default_rng(5)).actions[0]
        np.testing.assert_allclose(actor(3)(state, np.random.default_rng(5)), expected, rtol=1e-5)


def test_a_ladder_comes_back_from_its_file(tmp_path: Path):
    written = ladder((10, 5), (200, 50))
    written.save(tmp_path / "a.safetensors")
    again = Ladder.load(tmp_path / "a.safetensors")
    assert again.rungs == written.rungs
    state = np.ones(len(HOPPER.columns), np.float32)
    for ours, theirs in zip(again.actors, written.actors, strict=True):
        drawn = [one(state, np.random.default_rng(0)) for one in (ours, theirs)]
        np.testing.assert_allclose(*drawn, atol=5e-3)  # half precision
    with pytest.raises(BadInput, match="not a valid ladder of actors"):
        Ladder.load(tmp_path / "b.safetensors")


def test_a_ladder_ends_with_its_first_medium_actor():
    whole = ladder((10, 5), (900, 300), (200, 50), (1000, 200))
    assert [rung.return_mean for rung in whole.up_to(850).rungs] == [10, 900]
    assert len(whole.up_to(950).actors) == 4
    assert whole.up_to(2000).rungs == whole.rungs


def test_replay_has_as_many_steps_of_every_actor():
    lengths = np.array([20, 100, 400])
    shares = ladder(*((0.0, length) for length in lengths)).shares()
    assert shares.sum() == pytest.approx(1)
    np.testing.assert_allclose(shares * lengths, np.full(3, (shares * lengths).mean()))
    assert ladder(*((0.0, length) for length in lengths)).episode_steps() == pytest.approx(3 / (1 / lengths).sum())


def test_medium_data_is_collected_by_the_last_actor(monkeypatch: pytest.MonkeyPatch):
    called: list[str] = []
    rungs = ladder((0, 20), (0, 20), (0, 20))
    named = [lambda state, rng, name=name: called.append(name) or np.zeros(3, np.float32) for name in "abc"]
    for spec, expected in ((MEDIUM, {"c"}), (REPLAY, {"a", "b", "c"})):
        called.clear()
        episodes = RunnerEpisodes(replace(spec, states=3), replace(rungs, actors=tuple(named)))
        for number in range(20):
            episodes.episode(np.random.default_rng(number))
        assert set(called) == expected


@pytest.mark.parametrize("spec", [MEDIUM, REPLAY])
def test_an_unfinished_ladder_is_refused(spec: RunnerCollection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """None of its actors is medium, and replay data is that of training up to the medium one."""
    monkeypatch.setattr(runners, "_ASSETS", tmp_path)
    advice = "`scots data expert hopper --out FOLDER` trains on"
    with pytest.raises(BadInput, match=f"no actors ship yet, a medium one 970; {advice}"):
        finished_ladder(spec)
    ladder((20, 5), (969, 50)).save(tmp_path / "hopper.safetensors")
    with pytest.raises(BadInput, match=f"the best actor that ships earns 969, a medium one 970; {advice}"):
        collect(spec.resized(2), tmp_path / "a.npz")
    assert not (tmp_path / "a.npz").exists()
    finished = ladder((20, 5), (970, 50))
    finished.save(tmp_path / "hopper.safetensors")
    assert finished_ladder(spec).rungs == finished.rungs[-1 if spec is MEDIUM else 0 :]


# ------------------------------------------------------------------------------------------------------------ shipped


@pytest.mark.parametrize("path", sorted(Path(runner_training.__file__).parent.glob("assets/runners/*.safetensors")))
def test_shipped_actors_run_as_their_card_says(path: Path):
    """The first is random; the last is the best so far and earns in a fresh measurement about what is written."""
    shipped = Ladder.load(path)
    returns = [rung.return_mean for rung in shipped.rungs]
    assert returns[0] < 100
    assert returns[-1] == max(returns)
    assert [rung.steps for rung in shipped.rungs] == sorted(rung.steps for rung in shipped.rungs)
    last = shipped.rungs[-1]
    again = measure_actor(path.stem, shipped.actors[-1], 5, seed=7)
    assert abs(again["return_mean"] - last.return_mean) < 4 * last.return_std / np.sqrt(5) + 0.1 * last.return_mean
    assert path.stat().st_size < 3e6


D4RL_ROWS = {"medium": 1_000_000, "hopper medium-replay": 402_000, "walker2d medium-replay": 302_000}


@pytest.mark.parametrize("spec", RUNS, ids=lambda run: run.id)
def test_collections_have_about_as_many_rows_as_those_of_d4rl(spec: RunnerCollection):
    """How many episodes that takes follows from the ladder, so that a new one asks for another number here."""
    ladder = finished_ladder(spec)
    rows = D4RL_ROWS.get(f"{spec.body} {spec.kind}", D4RL_ROWS["medium"])
    fitting = rows / (1 + ladder.episode_steps())
    assert spec.episodes == pytest.approx(fitting, rel=0.2), f"{spec.id}: set its episodes to {fitting:.0f}"


# ----------------------------------------------------------------------------------------------------------- episodes


@pytest.mark.parametrize("steps", [5, 1000])
def test_rows_of_an_episode_replay_in_the_simulator(steps: int):
    """State, action and reward lead from row to row; the last row has no action and says how it ended."""
    environment = Locomotion(HOPPER)
    rows = run_episode(environment, actor(0), steps, np.random.default_rng(1))
    length = len(rows["observations"])
    assert {name: len(values) for name, values in rows.items() if name != "terminated"} == dict.fromkeys(
        ("observations", "actions", "terminals", "rewards", "qpos", "qvel"), length
    )
    assert np.flatnonzero(rows["terminals"]).tolist() == [length - 1]
    assert rows["terminated"].tolist() == [steps == 1000]  # a random hopper falls long before that
    assert HOPPER.has_fallen(rows["observations"]).tolist() == [False] * (length - 1) + [steps == 1000]
    assert rows["rewards"][-1] == 0
    assert not rows["actions"][-1].any()
    for row in range(length - 1):
        environment.simulator.set_state(rows["qpos"][row].astype(float), rows["qvel"][row].astype(float))
        step = environment.step(rows["actions"][row])
        np.testing.assert_allclose(step.observation, rows["observations"][row + 1], atol=2e-3)
        assert step.reward == pytest.approx(rows["rewards"][row], abs=5e-3)


@pytest.fixture(scope="module")
def any_ladder() -> Iterator[None]:
    """Whatever ships is good enough."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runners, "MEDIUM", {"hopper": (0.0, 0)})
        yield


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory, any_ladder: None) -> Path:
    return collect(REPLAY.resized(40), tmp_path_factory.mktemp("data") / "a.npz", workers=2)


@pytest.mark.slow
def test_a_collected_file_is_whole_and_says_that_it_is_an_analogue(small: Path):
    data, twin = formats.read(small), formats.read(validation_path(small))
    assert (len(data), len(twin)) == (40, 4)
    assert data.terminated is not None
    fallen = HOPPER.has_fallen(data.observations[data.offsets[1:] - 1])
    assert data.terminated.tolist() == fallen.tolist()
    assert (data.lengths[~data.terminated] == 1001).all()
    assert data.meta.origin == "collected here as an analogue of D4RL"
    assert data.meta.provenance[0]["protocol"] == REPLAY.resized(40).to_dict()
    ladder = Ladder.shipped("hopper")
    assert data.meta.provenance[0]["versions"]["actors"] == ladder.fingerprint
    assert data.meta.provenance[0]["rungs"] == [rung.to_dict() for rung in ladder.rungs]
    assert spec_of(data) is SPECS[REPLAY.id]
    assert np.unique(data.observations[data.offsets[:-1]], axis=0).shape[0] == 40


@pytest.mark.slow
@pytest.mark.usefixtures("any_ladder")
def test_bytes_do_not_depend_on_workers(small: Path, tmp_path: Path):
    again = collect(REPLAY.resized(40), tmp_path / "a.npz", workers=1)
    assert again.read_bytes() == small.read_bytes()
    assert validation_path(again).read_bytes() == validation_path(small).read_bytes()


def test_rows_on_disk_have_the_size_that_is_announced(tmp_path: Path):
    rows = RunnerEpisodes(replace(REPLAY, states=6)).episode(Seeds(0).stream("episode", 0))
    size = sum(values[:1].nbytes for name, values in rows.items() if name != "terminated")
    assert size == REPLAY.row_bytes


# ------------------------------------------------------------------------------------------------------ D4RL's own file


@pytest.mark.parametrize(
    ("name", "id"),
    [
        ("hopper_medium-v2", "hopper-medium-v2"),
        ("walker2d_medium_replay-v2", "walker2d-medium-replay-v2"),
        ("hopper-medium-replay-v0", "hopper-medium-replay-v2"),
        ("my_hopper_medium-v2", None),
        ("hopper_medium_expert-v2", None),
    ],
)
def test_an_original_file_is_known_by_its_name(tmp_path: Path, name: str, id: str | None):
    """With rewards and terminations as they are; settings are those of the published dataset."""
    import h5py

    columns = len(SPECS[id].collection.meta().columns) if id else 11
    rng = np.random.default_rng(0)
    terminals, timeouts = np.zeros(12, bool), np.zeros(12, bool)
    terminals[4], timeouts[11] = True, True
    arrays = {
        "observations": rng.normal(size=(12, columns)).astype(np.float32),
        "actions": rng.uniform(-1, 1, (12, 3)).astype(np.float32),
        "rewards": rng.normal(size=12).astype(np.float32),
        "terminals": terminals,
        "timeouts": timeouts,
        "next_observations": np.zeros((12, columns), np.float32),
    }
    with h5py.File(tmp_path / f"{name}.hdf5", "w") as file:
        for key, values in arrays.items():
            file[key] = values
    data = load(tmp_path / f"{name}.hdf5")
    assert (data.meta.dataset, spec_of(data).is_published) == (id, id is not None)
    assert main(["data", "convert", str(tmp_path / f"{name}.hdf5"), str(tmp_path / "b.npz")]) == 0
    converted = formats.read(tmp_path / "b.npz")
    formats.write(converted, tmp_path / "c.hdf5")
    for again in (data, converted, formats.read(tmp_path / "c.hdf5")):
        assert again.offsets.tolist() == [0, 5, 12]
        assert again.terminated.tolist() == [True, False]
        for key in ("observations", "actions", "rewards"):
            np.testing.assert_array_equal(getattr(again, key), arrays[key])
        assert again.meta.dataset == id


def test_what_cannot_be_downloaded_says_how_to_get_it(capsys: pytest.CaptureFixture[str]):
    assert main(["data", "download", "hopper-medium-v2"]) == 2
    assert "is not a dataset of OGBench; run `scots data collect hopper-medium-v2` or give D4RL's" in (
        capsys.readouterr().err
    )
    with pytest.raises(BadInput, match=r"not collected or downloaded yet; run .* or give D4RL's own file by its path"):
        load("walker2d-medium-replay-v2")


# ----------------------------------------------------------------------------------------------------------- training


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints after 300 steps, learning from step 200 on, short measurements."""
    for name, value in {"_CHECKPOINT_EVERY": 300, "_RANDOM_STEPS": 200, "_EPISODES": 2, "_BATCH": 32}.items():
        monkeypatch.setattr(runner_training, name, value)
    monkeypatch.setattr(runner_training, "MEDIUM", {"hopper": (1e9, 900)})


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("lost", [("state.npz",), ("state.npz", "log.jsonl")])
def test_training_goes_on_to_the_same_bytes(tmp_path: Path, lost: tuple[str, ...]):
    """Stopped after the second checkpoint, or killed before its state or its log was written."""
    runner_training.train_runner("hopper", tmp_path / "whole", seed=1)
    runner_training.train_runner("hopper", tmp_path / "parts", 300, seed=1)
    before = contents(tmp_path / "parts")
    runner_training.train_runner("hopper", tmp_path / "parts", 600, seed=1)
    for name in lost:
        (tmp_path / "parts" / name).write_bytes(before[name])
    runner_training.train_runner("hopper", tmp_path / "parts", seed=1)
    assert contents(tmp_path / "parts") == contents(tmp_path / "whole")
    log = (tmp_path / "whole" / "log.jsonl").read_text().splitlines()
    assert [json.loads(line)["steps"] // 300 for line in log] == [1, 2, 3]
    assert len(Ladder.load(tmp_path / "whole" / "ladder.safetensors").actors) == 3


@pytest.mark.usefixtures("quick")
def test_training_ends_soon_after_a_medium_actor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(runner_training, "MEDIUM", {"hopper": (0.0, 9000)})
    ladder = runner_training.train_runner("hopper", tmp_path)
    assert len(ladder.rungs) == 1
    assert len((tmp_path / "log.jsonl").read_text().splitlines()) == 3
    with pytest.raises(BadInput, match="--steps 0: expected between 1 and 9,000"):
        runner_training.train_runner("hopper", tmp_path, 0)


@pytest.mark.usefixtures("quick")
def test_training_computes_in_one_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """However many the machine has, so that its sums round alike."""
    threads: set[int] = set()
    update = runner_training.SAC.update

    def watched(*arguments: Any) -> None:
        threads.update(own["num_threads"] for own in threadpool_info() if own["user_api"] == "blas")
        update(*arguments)

    monkeypatch.setattr(runner_training.SAC, "update", watched)
    with threadpool_limits(2, user_api="blas"):
        runner_training.train_runner("hopper", tmp_path, 300)
    assert threads == {1}


@pytest.mark.usefixtures("quick")
def test_the_command_trains_and_measures(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    words = ["data", "expert", "hopper", "--out", str(tmp_path), "--steps", "300", "--episodes", "2"]
    assert main(words) == 0
    shown = capsys.readouterr().out
    assert "return_mean" in shown
    assert main(["data", "expert", "hopper", "--measure", "--episodes", "1"]) == 0
    assert str(Ladder.shipped("hopper").rungs[-1].steps) in capsys.readouterr().out.replace(",", "")


def test_protocols_have_their_published_names():
    assert {run.id for run in RUNS} == {f"{b}-{k}-v2" for b in RUNNERS for k in ("medium", "medium-replay")}
    assert {run.states for run in RUNS} == {1001}
