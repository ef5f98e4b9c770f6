"""Equal commands at once: one works, the other waits. Full disks: one line, and nothing is lost."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from scots.cli import main
from scots.data import formats
from scots.datasets import toy

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCOTS_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    formats.write(toy.make(30), Path("toy.npz"))


def start(*words: str, limit: int | None = None) -> subprocess.Popen[str]:
    """A command of its own; no file that it writes can be larger than the limit, as on a full disk."""

    def full_disk() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return subprocess.Popen(
        [sys.executable, "-m", "scots", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=full_disk if limit is not None else None,
    )


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["train", "gciql", "--data", "toy.npz", "--out", "made", "--profile", "smoke"], "already trained, in made"),
        (
            ["augment", "toy.npz", "--out", "made.npz", "--profile", "smoke", "--workers", "1"],
            "already made with the same settings",
        ),
        (
            ["data", "collect", "pointmaze-medium-stitch-v0", "--episodes", "5", "--out", "made.npz", "--workers", "1"],
            "already collected with the same settings",
        ),
    ],
)
def test_the_second_of_two_equal_commands_waits_and_takes_what_the_first_has_made(words: list[str], found: str):
    processes = [start(*words) for _ in range(2)]
    errors = [" ".join(process.communicate()[1].split()) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], errors
    assert sorted(found in error for error in errors) == [False, True]
    second = next(error for error in errors if found in error)
    assert "another process is working on it; waiting until it is done" in second
    assert not list(Path().glob(".*"))


def test_augmenting_to_two_files_trains_once():
    outs = ("a.npz", "b.npz")
    words = ["augment", "toy.npz", "--profile", "smoke", "--workers", "1", "--out"]
    processes = [start(*words, out) for out in outs]
    errors = [process.communicate()[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], errors
    assert sum(error.count("embedding: cached in") for error in errors) == 1
    a, b = (formats.read(Path(out)) for out in outs)
    assert np.array_equal(a.observations, b.observations)


def test_a_full_disk_when_a_model_is_saved(capsys: pytest.CaptureFixture[str]):
    words = ["train", "gciql", "--data", "toy.npz", "--out", "model", "--profile", "smoke", "--log", "none"]
    process = start(*words, limit=20_000)  # the weights take more
    error = process.communicate()[1].strip().splitlines()[-1]
    assert process.returncode == 2
    assert error.startswith("scots: model/model.safetensors: cannot write: ")
    assert not list(Path("model").glob("*.safetensors"))
    assert main(words) == 0


def test_training_says_where_it_continues_and_when_it_is_done(capsys: pytest.CaptureFixture[str]):
    words = ["train", "gciql", "--data", "toy.npz", "--out", "model", "--profile", "smoke"]
    assert main([*words, "--minutes", "0.0001"]) == 0
    stopped = capsys.readouterr().err
    assert "stopped after 1 of 60 steps" in stopped
    assert main(words) == 0
    assert "gciql: continuing from step 1 of 60" in capsys.readouterr().err
    assert main(words) == 0
    assert "gciql: already trained, in model" in capsys.readouterr().err


def test_a_damaged_checkpoint_is_named(capsys: pytest.CaptureFixture[str]):
    words = ["train", "gciql", "--data", "toy.npz", "--out", "model", "--profile", "smoke"]
    assert main([*words, "--minutes", "0.0001"]) == 0
    Path("model/checkpoint.safetensors").write_bytes(b"junk")
    capsys.readouterr()
    assert main(words) == 2
    assert "checkpoint.safetensors: cannot be read" in capsys.readouterr().err
