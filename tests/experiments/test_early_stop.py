"""Training that ends early, from Python and the command line: usable at once, honest about itself, continued later."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import scots
from scots.cli import main
from scots.datasets import toy
from scots.models.training import Model

DATA = toy.make(episodes=10)


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCOTS_HOME", str(tmp_path / "home"))


def same_weights(a: Model, b: Model) -> bool:
    pairs = zip(a.state_dict().values(), b.state_dict().values(), strict=True)
    return all(np.array_equal(x, y) for x, y in pairs)


def test_a_stopped_model_is_usable_passes_for_no_profile_and_goes_on() -> None:
    stopped = scots.train("gciql", DATA, "smoke", steps=6, on_step=lambda step, metrics: step < 3)
    assert (stopped.stopped_at, stopped.config.training.steps) == (3, 6)
    [row, *_] = scots.evaluate(stopped, episodes=1, limits=(3,))
    assert row.profile == "custom"
    finished = scots.train("gciql", DATA, "smoke", steps=6)
    assert finished.stopped_at is None
    assert finished.folder == stopped.folder
    assert not same_weights(finished, stopped)
    [other, *_] = scots.evaluate(finished, episodes=1, limits=(3,))
    assert other.profile == "smoke"
    assert other.artifacts != row.artifacts


def test_stopping_and_going_on_changes_no_bit() -> None:
    straight = scots.train("crl", DATA, "smoke", changes={"training.steps": 6})
    assert straight.folder is not None
    for file in straight.folder.iterdir():
        if file.is_file():
            file.unlink()
    scots.train("crl", DATA, "smoke", steps=6, minutes=1e-9)
    assert same_weights(scots.train("crl", DATA, "smoke", steps=6), straight)


def test_command_line_ends_after_minutes_and_continues(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    DATA.save(tmp_path / "toy.npz")
    out = tmp_path / "agent"
    words = ["train", "gciql", "--data", str(tmp_path / "toy.npz"), "--out", str(out), "--profile", "smoke", "--log"]
    assert main([*words, "none", "--steps", "5", "--minutes", "1e-9"]) == 0
    assert "gciql: stopped after 1 of 5 steps" in capsys.readouterr().err
    assert json.loads((out / "config.json").read_text())["stopped_at"] == 1
    assert not (out / "metrics.jsonl").exists()
    assert not (out / "tensorboard").exists()
    assert main([*words, "tensorboard", "--steps", "5"]) == 0
    assert [json.loads(line)["step"] for line in (out / "metrics.jsonl").open()] == [2, 3, 4, 5]
    assert main([*words, "none", "--steps", "5"]) == 0
    assert "already trained" in capsys.readouterr().err
    assert main([*words, "none", "--steps", "5", "--minutes", "0"]) == 2
    assert "minutes must be positive" in capsys.readouterr().err
