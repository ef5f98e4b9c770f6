"""Adding a member of each kind takes its own class, a registry line and a row of settings: done here, end to end.

A walker on a line, an agent, a planner and an augmenter for it, all of `members.py`, are registered in this test alone,
then trained, evaluated and put into a table through the command line.
"""

import json
from pathlib import Path

import pytest
from members import DATASET, LINE, Clone, Copies, LineEnvironment, StraightPlanner, line_data

from scots.agents import AGENTS
from scots.augmenters import AUGMENTERS
from scots.cli import main
from scots.data import formats
from scots.datasets.loading import data_path
from scots.datasets.specs import SPECS
from scots.envs import ENVIRONMENTS
from scots.experiments.recipe import Recipe
from scots.experiments.tables import TABLES, ResultTable
from scots.planners import PLANNERS


@pytest.fixture(autouse=True)
def _members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each kind takes one line, and the dataset one row of settings."""
    monkeypatch.setenv("SCOTS_HOME", str(tmp_path / "home"))
    monkeypatch.setitem(ENVIRONMENTS, "line", LineEnvironment)
    monkeypatch.setitem(AGENTS, Clone.name, Clone)
    monkeypatch.setitem(PLANNERS, StraightPlanner.name, StraightPlanner)
    monkeypatch.setitem(AUGMENTERS, Copies.name, Copies())
    monkeypatch.setitem(SPECS, DATASET, LINE)
    columns = {
        "clone": lambda spec: Recipe(None, None, "clone"),
        "straight": lambda spec: Recipe("copies", "straight", spec.controller, {"search.candidates": 1} | NO_SEARCH),
    }
    monkeypatch.setitem(TABLES, "line", ResultTable("A line", columns, {DATASET: {"clone": "50±1"}}))
    formats.write(line_data(), data_path(DATASET))


NO_SEARCH = {"search.mend": False, "search.bisect": False}


@pytest.mark.slow
def test_new_members_go_through_augment_train_evaluate_and_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    def run(*words: object) -> str:
        assert main(list(map(str, words))) == 0
        return capsys.readouterr().out

    monkeypatch.chdir(tmp_path)
    run("augment", DATASET, "--out", "aug.npz", "--augmenter", "copies", "--set", "copies=3")
    assert len(formats.read(tmp_path / "aug.npz")) == 120
    run("train", "straight", "--data", "aug.npz", "--out", "planner")
    run("train", "clone", "--data", DATASET, "--out", "agent")
    shown = run("evaluate", "planner", "--controller", "agent", "--candidates", 1, "--episodes", 3, "--workers", 1,
                "--keep", "rows.jsonl")  # fmt: skip
    assert "3 of 3" in shown
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert {row["recipe"]["augmenter"] for row in rows} == {"copies"}
    assert rows[0]["recipe"]["overrides"]["augmenter.copies"] == 3
    assert all(row["normalized_return"] == row["mean_return"] + 100 for row in rows)
    assert "straight + clone" in run("table", "line", "--dry-run", "--profile", "smoke")
    table = run("table", "line", "--profile", "smoke")
    assert "100.0" in table
    assert "(50±1)" in table
    assert "nothing is left to do" in run("table", "line", "--dry-run", "--profile", "smoke")


def test_unknown_members_are_named_with_those_that_exist(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["train", "sarsa", "--data", DATASET, "--out", str(tmp_path / "x")]) == 2
    message = capsys.readouterr().err
    assert f"'sarsa' is neither a planner ({', '.join(PLANNERS)}) nor an agent ({', '.join(AGENTS)})" in message
    assert main(["augment", DATASET, "--out", str(tmp_path / "a.npz"), "--augmenter", "mixup"]) == 2
    assert f"'mixup' is not one of {', '.join(AUGMENTERS)}" in capsys.readouterr().err
