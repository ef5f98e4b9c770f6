"""Settings are chosen on random pairs of start and goal, never on the tasks that results are about."""

import json
from pathlib import Path
from typing import Any

import pytest

import scots
from scots.cli import main
from scots.datasets import toy
from scots.envs.toy import ToyEnvironment
from scots.evaluation import results

DATA = toy.make(5)


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small agent."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SCOTS_HOME", str(tmp_path_factory.mktemp("home")))
        return scots.train("gciql", DATA, profile="smoke", steps=1).folder


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The tasks of every evaluation."""
    found, run = [], results.run_episodes

    def spy(controller: Any, meta: Any, tasks: Any, **options: Any) -> Any:
        found.append(tasks)
        return run(controller, meta, tasks, **options)

    monkeypatch.setattr(results, "run_episodes", spy)
    return found


def evaluate(agent: Path, *words: str) -> int:
    return main(["evaluate", str(agent), "--max-steps", "5", "--workers", "1", *words])


def test_random_pairs_take_the_place_of_the_tasks(
    agent: Path, ran: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """They are those of the table of held-out pairs, one row of task 0, and another seed has others."""
    path = tmp_path / "rows.jsonl"
    for seed in ("3", "4"):
        assert evaluate(agent, "--pairs", "6", "--seed", seed, "--keep", str(path)) == 0
    assert "random pairs  " in capsys.readouterr().out
    assert ran == [ToyEnvironment.random_tasks(DATA.meta, 6, seed) for seed in (3, 4)]
    assert ran[0] != ran[1]
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(row["task"], row["episodes"], row["seed"]) for row in rows] == [(0, 6, 3), (0, 6, 4)]


def test_each_pair_has_as_many_episodes_as_asked_for(agent: Path, ran: list[Any], tmp_path: Path):
    assert evaluate(agent, "--pairs", "2", "--episodes", "3", "--keep", str(tmp_path / "rows.jsonl")) == 0
    assert len(ran[0]) == 2
    assert json.loads((tmp_path / "rows.jsonl").read_text())["episodes"] == 6


@pytest.mark.parametrize("words", [("--tasks", "1"), ("--png", "a.png"), ("--rollouts", "a.json")])
def test_pairs_and_what_is_about_the_tasks_exclude_each_other(
    agent: Path,
    ran: list[Any],
    words: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.chdir(tmp_path)
    assert evaluate(agent, "--pairs", "6", *words) == 2
    assert "--pairs takes the place of --tasks" in capsys.readouterr().err
    assert ran == []
    assert evaluate(agent, "--pairs", "0") == 2
    assert "--pairs 0: expected 1 or more" in capsys.readouterr().err
