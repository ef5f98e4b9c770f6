"""Data that needs flags to be read: what was chosen when it was augmented is chosen again by all that follows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import scots
from scots.cli import main
from scots.core.errors import BadInput
from scots.data.choices import flags_of, kept_choices
from scots.data.inspection import how_read
from scots.datasets import toy
from scots.datasets.loading import load_original
from scots.experiments import models
from scots.models import training

DATA = toy.make(episodes=30)
FLAGS = ["--episode", "track", "--every", "0.5", "--ignore", "load"]
FEW = ["--profile", "smoke", "--segment", "9", "--trajectories", "4", "--workers", "1", "--log", "none"]


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCOTS_HOME", str(tmp_path / "home"))


def ambiguous(path: Path) -> Path:
    """A log that two columns may cut into episodes, at half the time step that is wanted."""
    episode = np.repeat(np.arange(len(DATA)), DATA.lengths)
    step = np.arange(DATA.rows) - DATA.offsets[episode]
    columns = {"track": episode, "run": 7, "t": 0.25 * step, "load": 3.5 + 0.1 * episode}
    pd.DataFrame(columns | dict(zip("xy", DATA.positions.T, strict=True))).to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the log and what was augmented of it."""
    root = tmp_path_factory.mktemp("flags")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SCOTS_HOME", str(root / "home"))
        log, out = str(ambiguous(root / "amb.csv")), str(root / "aug.npz")
        few = [f"{part}.training.steps=5" for part in ("embedding", "stitcher")]
        assert main(["augment", log, "--out", out, *FLAGS, *FEW, "--set", *few, "refinement.draws=0"]) == 0
    return root


@pytest.mark.slow
def test_flags_are_typed_once(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, aug, planner = str(made / "amb.csv"), str(made / "aug.npz"), str(tmp_path / "planner")
    assert main(["report", log, aug, "--out", str(tmp_path / "report")]) == 0
    assert "--episode track --ignore load --every 0.5" in (tmp_path / "report" / "report.html").read_text()
    train = ["train", "hd", "--data", aug, "--recorded", log, "--out", planner, "--log", "none", "--profile", "smoke"]
    assert main([*train, "--steps", "3", *FLAGS]) == 0  # who types them again is right, too
    assert main([*train, "--steps", "3"]) == 0
    ends = [",".join(map(str, DATA.positions[row].tolist())) for row in (0, 70)]
    drawn = ["--candidates", "1", "--data", log, "--png", str(tmp_path / "plan.png")]
    assert main(["plan", planner, "--start", ends[0], "--goal", ends[1], *drawn]) == 0
    assert "both mean" not in capsys.readouterr().err


@pytest.mark.slow
def test_other_data_is_refused_before_training(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(models, "train", lambda *_, **__: pytest.fail("trained before the data was compared"))
    monkeypatch.setattr(training, "fit", lambda *_, **__: pytest.fail("trained before the data was compared"))
    log, aug = str(made / "amb.csv"), str(made / "aug.npz")
    words = ["--data", aug, "--recorded", log, "--out", str(tmp_path / "z"), "--profile", "smoke"]
    assert main(["train", "hd", *words, "--every", "0.75"]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.endswith("as it was read then: --episode track --ignore load --every 0.5")
    assert main(["report", log, aug, "--out", str(tmp_path / "r"), "--every", "0.75"]) == 2
    assert "as it was read then: --episode track" in capsys.readouterr().err.splitlines()[-1]
    assert main(["train", "hd", "--data", aug, "--out", str(tmp_path / "z"), "--every", "0.5"]) == 2
    assert "--every is for recorded data, and this was made from it; leave it out" in capsys.readouterr().err


def test_choices_are_kept_and_followed_again(tmp_path: Path) -> None:
    log = ambiguous(tmp_path / "amb.csv")
    data = scots.load(log, episode="track", every=0.5, ignore="load")
    kept = kept_choices(data.meta)
    assert flags_of(kept) == "--episode track --ignore load --every 0.5"
    again, used = load_original(str(log), data.meta)
    assert (again.fingerprint(), used) == (data.fingerprint(), kept)
    data.save(tmp_path / "converted.npz")  # which tells its columns itself, and has no episode column
    converted, used = load_original(str(tmp_path / "converted.npz"), data.meta)
    assert (converted.fingerprint(), used) == (data.fingerprint(), {})
    with pytest.raises(BadInput, match=r"absent\.csv: no such"):
        load_original(str(tmp_path / "absent.csv"), data.meta)


def test_choices_of_arrays_are_kept_too(tmp_path: Path) -> None:
    wide = scots.Trajectories(np.concatenate([DATA.observations, DATA.observations], axis=1), DATA.offsets)
    wide.save(tmp_path / "wide.npz")
    data = scots.load(tmp_path / "wide.npz", position="0,1", ignore="3")
    assert kept_choices(data.meta) == {"position": "0,1", "ignore": "3"}
    assert load_original(str(tmp_path / "wide.npz"), data.meta)[0].fingerprint() == data.fingerprint()
    assert not how_read(data.meta)
    assert json.loads(json.dumps(data.meta.to_dict()))["provenance"][0]["origin"] == "columns chosen"
    assert not scots.load(tmp_path / "wide.npz").meta.provenance
