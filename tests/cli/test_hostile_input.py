"""Hostile arguments and files: one line, exit code 2, quickly, and before any work."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import numpy as np
import pytest

import scots
from scots.cli import main
from scots.data import formats
from scots.datasets import toy

TRILLION = str(10**12)
MEDIUM = "pointmaze-medium-stitch-v0"


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with a home of its own, a file, a folder and a pipe."""
    monkeypatch.setenv("SCOTS_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("")
    Path("folder").mkdir()
    for name in ("pipe", "pipe.csv", "pipe.npz", "pipe.png"):
        os.mkfifo(name)


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small agent."""
    folder = tmp_path_factory.mktemp("model")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SCOTS_HOME", str(folder / "home"))
        model = scots.train("gciql", toy.make(5), profile="smoke", steps=1)
        return shutil.copytree(model.folder, folder / "agent")


def complaint(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The one line that a refused command prints."""
    begin = time.monotonic()
    assert main(list(words)) == 2
    error = capsys.readouterr().err.strip()
    assert error.startswith("scots: ")
    assert len(error.splitlines()) == 1
    assert time.monotonic() - begin < 20  # on a busy machine
    return error


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        # seeds and counts
        (["augment", toy.ID, "--out", "a.npz", "--seed", "-1"], "--seed -1: expected 0 to 2147483647"),
        (["augment", toy.ID, "--out", "a.npz", "--seed", str(10**30)], "expected 0 to 2147483647"),
        (["train", "hd", "--data", toy.ID, "--out", "a", "--seed", "-7"], "--seed -7"),
        (["data", "collect", MEDIUM, "--out", "a.npz", "--seed", "-1"], "--seed -1"),
        (["data", "collect", toy.ID, "--seed", "-1"], "--seed -1"),
        (["data", "tracks", "tracks", "--seed", "-1"], "--seed -1"),
        (["table", "planning", "--dry-run", "--seeds", "0", "-1"], "--seeds -1"),
        (["table", "planning", "--dry-run", "--training-seed", "-1"], "--training-seed -1"),
        (["plan", "folder", "--start", "1,1", "--goal", "2,2", "--seed", "-1"], "--seed -1"),
        (["plan", "folder", "--start", "1,1", "--goal", "2,2", "--candidates", "0"], "--candidates 0"),
        (["evaluate", "folder", "--seed", "-1"], "--seed -1"),
        (["evaluate", "folder", "--episodes", "0"], "--episodes 0: expected 1 or more"),
        (["augment", toy.ID, "--out", "a.npz", "--workers", "0"], "--workers 0: expected 1 to 1024"),
        (["augment", toy.ID, "--out", "a.npz", "--workers", TRILLION], "expected 1 to 1024"),
        (["augment", toy.ID, "--out", "a.npz", "--trajectories", "0"], "--trajectories 0"),
        # empty words
        (["data", "inspect", ""], "the value after 'inspect' is empty"),
        (["augment", toy.ID, "--out", ""], "the value after '--out' is empty"),
        (["train", "hd", "--data", toy.ID, "--out="], "is empty; give one, or leave the argument out"),
        # sizes
        (["data", "collect", MEDIUM, "--episodes", TRILLION, "--out", "a.npz"], "needs 14.6 PB of disk space"),
        (["data", "collect", toy.ID, "--episodes", TRILLION, "--out", "a.npz"], "1,000,000,000,000 episodes of 33"),
        (["data", "tracks", "tracks", "--files", TRILLION], "1,000,000,000,000 tracks of about"),
        # outputs
        (["augment", toy.ID, "--out", "a.xyz"], "no format is written to .xyz"),
        (["augment", toy.ID, "--out", "file/a.npz"], "cannot write"),
        (["augment", toy.ID, "--out", "pipe.npz"], "pipe.npz: is a pipe or device, not a file"),
        (["data", "collect", MEDIUM, "--out", "a.xyz"], "no format is written to .xyz"),
        (["data", "convert", toy.ID, "pipe.csv"], "is a pipe or device"),
        (["data", "convert", "absent.csv", "a.xyz"], "no format is written to .xyz"),
        (["train", "hd", "--data", toy.ID, "--out", "file"], "file: is a file, not a folder"),
        (["train", "hd", "--data", toy.ID, "--out", "pipe"], "pipe: is a pipe or device, not a folder"),
        (["report", toy.ID, toy.ID, "--out", "file"], "not a folder"),
        (["report", toy.ID, toy.ID, "--out", "r", "--keep", "folder"], "folder: is a folder, not a file"),
        (["data", "inspect", toy.ID, "--png", "a.xyz"], "figures are not written as .xyz"),
        (["data", "inspect", toy.ID, "--png", "pipe.png"], "is a pipe or device"),
        (["plan", "folder", "--start", "1,1", "--goal", "2,2", "--png", "file/a.png"], "cannot write"),
        (["plan", "folder", "--start", "1,1", "--goal", "2,2", "--out", "file/a.csv"], "cannot write"),
        # inputs
        (["data", "inspect", "pipe.csv"], "pipe.csv: is a pipe or device, not a file"),
        (["data", "inspect", "pipe.npz"], "is a pipe or device"),
        (["data", "collect", "pointmaze-mine-stitch-v0", "--maze", "pipe"], "is a pipe or device"),
        (["evaluate", "folder"], "not the folder of a trained model"),
        (["evaluate", "pipe"], "not the folder of a trained model"),
        (["train", "hd", "--data", toy.ID, "--out", "a", "--set", "x=" + "[" * 100_000], "nested too deeply"),
    ],
)
def test_arguments(words: list[str], expected: str, capsys: pytest.CaptureFixture[str]):
    assert expected in complaint(capsys, *words)
    assert not Path("home").exists()  # nothing was begun
    assert sorted(os.listdir()) == ["file", "folder", "pipe", "pipe.csv", "pipe.npz", "pipe.png"]


def test_a_trillion_trajectories_are_refused_with_the_arithmetic(capsys: pytest.CaptureFixture[str]):
    assert main(["augment", toy.ID, "--out", "a.npz", "--trajectories", TRILLION]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    size = "1,000,000,000,000 + 100,000,000,000 episodes of 1,001 states of 38 bytes, twice: in shards and joined"
    assert f"a.npz: needs 83.7 PB of disk space ({size})" in error
    assert not Path("home").exists()


def test_a_pipe_among_own_tables(capsys: pytest.CaptureFixture[str]):
    Path("folder/a.csv").write_text("time,x,y\n0,1,2\n1,2,3\n")
    os.mkfifo("folder/b.csv")
    assert "folder/b.csv: is a pipe or device" in complaint(capsys, "data", "inspect", "folder")


def test_arrays_without_columns(capsys: pytest.CaptureFixture[str]):
    np.savez("a.npz", observations=np.empty((4, 0)), episode_ends=[4])
    for command in (["data", "inspect", "a.npz"], ["augment", "a.npz", "--out", "b.npz"]):
        assert "no columns" in complaint(capsys, *command)
    Path("a.csv").write_text("episode,time\n1,0\n1,1\n")
    assert "no observation columns" in complaint(capsys, "data", "inspect", "a.csv")


# ------------------------------------------------------------------------------------------------------ model folders


def damaged(agent: Path, change) -> str:
    """A copy of a model's folder whose config.json is changed."""
    copy = shutil.copytree(agent, Path("agent"))
    description = json.loads((copy / "config.json").read_text())
    change(description)
    (copy / "config.json").write_text(json.dumps(description))
    return str(copy)


@pytest.mark.parametrize(
    "change",
    [
        lambda found: found["sizes"].update(observation=10**6),
        lambda found: found["sizes"].update(observation=10**15),
        lambda found: found["config"].update(hidden=[100_000, 100_000]),
        lambda found: found["config"].update(hidden=[64] * 10_000),
    ],
)
def test_absurd_sizes_in_a_model_folder(change, agent: Path, capsys: pytest.CaptureFixture[str]):
    folder = damaged(agent, change)
    assert "agent: " in complaint(capsys, "evaluate", folder)


def test_deep_json_in_a_model_folder(agent: Path, capsys: pytest.CaptureFixture[str]):
    folder = shutil.copytree(agent, Path("agent"))
    (folder / "config.json").write_text("[" * 100_000)
    assert "nested too deeply" in complaint(capsys, "evaluate", "agent")


@pytest.mark.parametrize("file", ["config.json", "model.safetensors"])
def test_a_pipe_in_a_model_folder(file: str, agent: Path, capsys: pytest.CaptureFixture[str]):
    folder = shutil.copytree(agent, Path("agent"))
    (folder / file).unlink()
    os.mkfifo(folder / file)
    assert "is a pipe or device" in complaint(capsys, "evaluate", "agent")


@pytest.mark.parametrize("change", ["hidden=[1000000,1000000]", "training.batch_size=1000000000000"])
def test_settings_that_no_memory_holds(change: str, capsys: pytest.CaptureFixture[str]):
    formats.write(toy.make(5), Path("toy.npz"))
    words = ["train", "gciql", "--data", "toy.npz", "--out", "a", "--profile", "smoke", "--set", change]
    assert "memory" in complaint(capsys, *words)


def test_more_steps_than_anybody_waits_for(agent: Path, capsys: pytest.CaptureFixture[str]):
    error = complaint(capsys, "evaluate", str(agent), "--episodes", TRILLION)
    assert "1,000,000,000,000 episodes of 1,000 steps: that makes" in error
