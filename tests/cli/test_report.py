"""`scots report` from end to end on the toy corridor: augment, report, pictures, and a row that is kept."""

import json
import runpy
import shlex
import sys
from dataclasses import replace
from html import unescape
from pathlib import Path

import numpy as np
import pytest
import tyro
from browser import without_terms
from pictures import frames_of, share_drawn

from scots.augmenters import AUGMENTERS
from scots.augmenters.settings import ScotsConfig
from scots.cli import Command, main
from scots.data import formats
from scots.data.trajectories import Meta, Trajectories
from scots.datasets import loading, streets, toy
from scots.datasets.specs import spec_of
from scots.reporting import plots
from scots.reporting.dynamics import Dynamics
from scots.reporting.metrics import Distribution
from scots.reporting.quality import Quality
from scots.reporting.quality_document import quality_document

ROOT = Path(__file__).parents[2]


def parse(command: str) -> None:
    """Fail if the command line does not know this command or one of its options."""
    program, *words = shlex.split(command)
    assert program == "scots"
    tyro.cli(Command, args=words, config=(tyro.conf.OmitArgPrefixes,))


QUICK = {
    "stitching.segment": 9,  # fits the toy's episodes
    **{f"{part}.training.steps": 5 for part in ("embedding", "stitcher", "inverse")},
}


def quick(data: Trajectories) -> ScotsConfig:
    """The smoke profile with a few steps of training each."""
    return AUGMENTERS["scots"].configure(spec_of(data), "smoke").replace_all(QUICK)


@pytest.fixture(autouse=True)
def _few_latents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plots, "LATENTS", 60)  # t-SNE takes its time


@pytest.mark.slow
def test_report_on_the_toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setenv("SCOTS_HOME", str(tmp_path / "home"))
    data, aug, out = toy.make(), tmp_path / "aug.npz", tmp_path / "report"
    made = AUGMENTERS["scots"].augment(data, quick(data), seed=0, out=aug, profile="smoke", workers=1)
    capsys.readouterr()
    assert main(["report", toy.ID, str(aug), "--out", str(out), "--keep", str(tmp_path / "rows.jsonl")]) == 0
    printed = capsys.readouterr().out
    found = Quality.from_json((out / "report.json").read_text())
    assert printed.startswith(f"Augmented {toy.ID}: {found.verdict.headline}\n")
    for section in repr(found).split("\n\n")[1:]:  # with pictures and commands between them
        assert section in printed
    assert (found.original.states, found.augmented.trajectories) == (data.rows, len(made))
    assert found.joins.count > 0
    assert found.residual.variance > 0
    assert found.augmented.latent is not None
    assert found.dynamics is None  # the corridor has no simulator
    pictures = {path.stem: frames_of(path)[0] for path in out.glob("*.png")}
    expected = {"trajectories", "coverage", "joins", "latents", "novelty-weight"}
    assert pictures.keys() == expected | ({"off-data"} if found.on_data.off_positions > 0 else set())
    assert {name for name, picture in pictures.items() if share_drawn(picture) < 0.001} == set()
    assert len({picture.tobytes() for picture in pictures.values()}) == len(pictures)
    page = without_terms((out / "report.html").read_text(encoding="utf-8"))
    assert page.count('src="data:image/png;base64,') == page.count("<img") == len(pictures)
    spreads = [side.cells.per_trajectory for side in (found.original, found.augmented)]
    arrow = " → ".join(f"{spread.median:.0f}" for spread in spreads)
    changes = "embedding.training.steps=5, inverse.training.steps=5, stitcher.training.steps=5, stitching.segment=9"
    for words in (arrow, f"scots, {changes}", "at profile smoke, custom", "Progress against novelty", "cores", "torch"):
        assert words in page
    assert "Dynamic MSE" not in page
    made_by, commands = (unescape(block.split("</code>")[0]).splitlines() for block in page.split("<code>")[1:3])
    for command in (*made_by, *commands):
        parse(command)
    assert made_by[0].startswith(f"scots augment {toy.ID} --out {aug} --profile smoke --segment 9 --set ")
    assert made_by[1] == f"scots report {toy.ID} {aug} --out {out}"
    assert page.index('<div class="verdict') < page.index("<h2>Why</h2>") < page.index("<img")
    assert f"scots train hd --data {aug} --recorded {toy.ID} --out planner" in commands

    steps = Distribution.of(np.full(9, 2e-5))
    kinds = ("unrefined_joins", "refined_joins", "inside", "generated", "kept", "recorded")
    everywhere = {kind: {"position": 0.01} for kind in kinds}
    simulated = Dynamics(
        *(steps for _ in kinds),
        relabelled=None,
        one_step=0.002,
        shares={"refined_joins": 0.1, "generated": 0.9},
        means=dict.fromkeys(kinds, 2e-5),
        groups=everywhere,
        places=(2e-5,) * 8,
    )
    page = without_terms(quality_document(replace(found, dynamics=simulated)).html())
    assert "<dt>Dynamic MSE at joins</dt><dd>2e-5 → 2e-5</dd>" in page
    assert '<td data-column="Dynamic MSE">2e-5 (2e-5)</td>' in page
    text = quality_document(replace(found, dynamics=simulated, kept=replace(found.kept, states=1.0))).text()
    assert "The joins are not refined." in " ".join(text.split())  # no state was made: nothing is said to be refined
    assert "joins, not refined" in text
    assert "after refinement" not in text
    assert "before refinement" not in text

    row = json.loads((tmp_path / "rows.jsonl").read_text())
    assert row["config"] == quick(data).to_dict()
    assert (row["augmenter"], row["profile"], row["seed"], row["changes"]) == ("scots", "smoke", 0, QUICK)
    assert row["augmented_trajectories"] == row["config"]["trajectories"] == len(made)
    assert row["augmented_cells"] == pytest.approx(found.augmented.cells.share)


@pytest.mark.slow
def test_report_without_models_has_what_needs_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """A user's own tracks, as files, with no environment and no artifacts in the data home."""
    monkeypatch.setenv("SCOTS_HOME", str(tmp_path / "home"))
    walks = np.cumsum(np.random.default_rng(0).normal(size=(80, 2)), axis=0)
    tracks = Trajectories(walks, [0, 40, 80], meta=Meta(columns=("x", "y")))
    source = np.array([*range(0, 15), *range(50, 65)])
    stitched = Trajectories(walks[source], [0, 30], source=source, meta=tracks.meta)
    tracks.save(tmp_path / "tracks.csv")
    stitched.save(tmp_path / "stitched.csv")
    words = ["report", str(tmp_path / "tracks.csv"), str(tmp_path / "stitched.csv"), "--out", str(tmp_path / "out")]
    assert main(words) == 0
    assert "cells visited" in capsys.readouterr().out
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "coverage.png",
        "joins.png",
        "report.html",
        "report.json",
        "trajectories.png",
    ]
    words[2] = words[1]  # no lineage: what needs none is measured and drawn
    words[4] = str(tmp_path / "again")
    assert main(words) == 0
    assert "cells visited" in capsys.readouterr().out
    assert sorted(path.stem for path in (tmp_path / "again").glob("*.png")) == ["coverage", "trajectories"]


@pytest.mark.slow
def test_every_command_of_the_results_page_can_be_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Every option is known, nothing that is needed is left out, and datasets and columns are those of the table."""
    monkeypatch.setenv("SCOTS_HOME", str(tmp_path))
    blocks = (ROOT / "docs" / "results.md").read_text().split("```\n")[1::2]
    commands = [line for block in blocks for line in block.splitlines()]
    assert len(commands) > 10
    for command in commands:
        program, *words = shlex.split(command)
        if program == "scots":
            parse(command)
        else:
            assert program == "python"
            read_first_file_of(words, monkeypatch)
        if words[0] == "table":
            kept = words.index("--keep") if "--keep" in words else len(words)
            assert main([*words[:kept], "--dry-run"]) == 0


def read_first_file_of(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a benchmark until it reads or makes its data: its arguments are right then."""

    class Reading(Exception):
        pass

    def read(*arguments: object, **options: object) -> None:
        raise Reading

    monkeypatch.setattr(formats, "read", read)
    monkeypatch.setattr(loading, "load_declared", read)
    monkeypatch.setattr(streets, "make", read)
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(Reading):
        runpy.run_path(str(ROOT / words[0]), run_name="__main__")
