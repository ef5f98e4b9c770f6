"""A run from data to rows in the toy world: each stage once, continued after an interruption, rows complete."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest
from pictures import frames_of, share_drawn

import scots
from scots import cli
from scots.agents import AGENTS, configure_agent
from scots.augmenters.embedding import TemporalDistance, TemporalDistanceConfig
from scots.cli import main
from scots.core.errors import BadInput
from scots.datasets import toy
from scots.envs.vector import chosen_tasks
from scots.evaluation.control import PlanFollowing
from scots.evaluation.rollout import EvalResult
from scots.experiments import pipeline as experiments
from scots.experiments.pipeline import Line, Run, Trained, acting, load_learner
from scots.experiments.recipe import Recipe
from scots.experiments.tables import TABLES, Table, fill, work_list
from scots.models.cache import train
from scots.planners import PLANNERS, configure_planner
from scots.reporting.rows import EVALUATION_KEY, append_new_rows, read_rows
from scots.reporting.success import comparison_table, success_rate

SCOTS, HD = Recipe("official", "hd", "gciql"), Recipe(None, "hd", "gciql")
TABLE = Table("toy", {"HD": lambda _: HD, "SCoTS": lambda _: SCOTS, "Oracle": None}, {toy.ID: {"Oracle": "100±0"}})


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SCOTS_HOME", str(tmp_path / "home"))
    return tmp_path


@pytest.mark.slow
def test_a_run_does_every_stage_once_and_continues(home: Path, monkeypatch: pytest.MonkeyPatch):
    run = Run(toy.ID, SCOTS, "smoke")
    assert Line(run).pending() == ["augment", "learner", "controller", "evaluate"]
    with monkeypatch.context() as patch:  # the run dies after the data was augmented and the planner trained
        patch.setattr(experiments, "acting", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            Line(run).rows()
    assert Line(run).pending() == ["evaluate"]
    with monkeypatch.context() as patch:
        patch.setattr("scots.models.cache.fit", lambda *_, **__: pytest.fail("trained twice"))
        patch.setattr("scots.augmenters.scots.prepare", lambda *_: pytest.fail("augmented twice"))
        rows = Line(run).rows()
    assert Line(run).pending() == []
    assert [(row.task, row.episodes, row.max_steps) for row in rows] == [(task, 2, 1000) for task in range(1, 6)]
    row = rows[0]
    assert (row.dataset, row.recipe, row.profile, row.training_seed, row.seed) == (toy.ID, SCOTS, "smoke", 0, 0)
    assert row.origin == "made here, stitched here"
    assert row.execution == PlanFollowing(candidates=2)
    assert set(row.stages) == set(row.artifacts) == {"augment", "learner", "controller"}
    assert all((home / "home" / "artifacts" / name).exists() for name in row.artifacts.values())
    assert all(seconds > 0 for seconds in row.stages.values())
    with monkeypatch.context() as patch:
        patch.setattr(experiments, "evaluate", lambda *_, **__: pytest.fail("evaluated twice"))
        assert Line(run).rows() == rows

    other_seed = Line(Run(toy.ID, SCOTS, "smoke", seed=1))
    assert other_seed.pending() == ["evaluate"]
    original = Line(Run(toy.ID, HD, "smoke"))
    assert original.pending() == ["learner", "evaluate"]  # the controller is shared

    runs = TABLE.runs(seeds=(0,), profile="smoke")
    assert work_list(runs).splitlines()[0].split() == ["unknown", toy.ID, "·", "learner", "hd", "·", "original"]
    rows = [row for done in fill(runs) for row in done]
    assert work_list(runs) == "nothing is left to do"
    path = home / "evaluations.jsonl"
    for _ in range(2):
        append_new_rows(path, [row.to_dict() for row in rows])
    assert len(path.read_text().splitlines()) == len(rows) == 10
    append_new_rows(path, [{**rows[0].to_dict(), "successes": 2}])  # measured again, with another result
    assert [row["successes"] for row in read_rows(path, EVALUATION_KEY)] == [2, *(row.successes for row in rows[1:])]
    text = comparison_table(TABLE, read_rows(path, EVALUATION_KEY)).markdown()
    assert text.splitlines()[0] == "| dataset | steps | HD | SCoTS | Oracle |"
    assert text.splitlines()[2].endswith("| (100±0) |")
    assert text.count("**") == 4


def test_what_a_table_does_not_have_is_named():
    with pytest.raises(BadInput, match="'antmaze' cannot be made in this table; it has pointmaze-medium-stitch-v0"):
        TABLES["planning"].runs(["antmaze"])
    with pytest.raises(BadInput, match="'QRL' cannot be made in this table; it has HD, SCoTS"):
        TABLES["planning"].runs(columns=["QRL"])


def test_success_counts_tasks_and_seeds_alike():
    rows = [{"episodes": 50, "successes": n} for n in (50, 50, 25, 0, 25)]
    found = success_rate(rows)
    assert found.mean == pytest.approx(0.6)
    assert 0.5 < found.low < found.mean < found.high < 0.7
    assert str(success_rate([{"episodes": 50, "successes": 50}])) == "100.0 [100.0, 100.0]"


# ---------------------------------------------------------------------------------------------------- trained folders


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root, data = tmp_path_factory.mktemp("models"), toy.make(episodes=40)
    for name, kind, config in (
        ("hd", PLANNERS["hd"], configure_planner("hd", data, "smoke")),
        ("gciql", AGENTS["gciql"], configure_agent("gciql", data, "smoke")),
    ):
        train(kind, config.but("training.steps", 5), data, 3, root / name, name)
    larger = replace(data, observations=2 * data.observations, meta=replace(data.meta, dataset="toy-large-v0"))
    other = configure_planner("hd", larger, "smoke").but("training.steps", 5)
    train(PLANNERS["hd"], other, larger, 3, root / "hd-other", "hd")
    return {name: root / name for name in ("hd", "gciql", "hd-other")}


def evaluated(folder: Path, controller: Path | None, dataset: str | None = None, **changes) -> list[EvalResult]:
    models = Trained.load(folder, controller, dataset=dataset, **changes)
    return models.evaluate(chosen_tasks(models.meta, (1,)), episodes=2, limits=(30,), workers=1)


def test_folders_remember_what_they_were_trained_on(folders: dict[str, Path]):
    [row] = evaluated(folders["hd"], folders["gciql"], settings={"replan_every": 7})
    assert (row.dataset, row.training_seed, row.profile, row.max_steps) == (toy.ID, 3, "smoke", 30)
    assert row.recipe == Recipe(None, "hd", "gciql", {"execution.replan_every": 7})
    assert row.execution == PlanFollowing(replan_every=7)
    [alone] = evaluated(folders["gciql"], None, toy.ID)
    assert (alone.recipe, alone.execution) == (Recipe(None, "gciql"), None)


def test_folders_that_cannot_be_used_are_named(folders: dict[str, Path], tmp_path: Path):
    hd, gciql = folders["hd"], folders["gciql"]
    cases = {
        "not the folder of a trained model": (tmp_path, gciql),
        "only plans: give the agent": (hd, None),
        "acts by itself": (gciql, gciql),
        "the controller must be an agent": (hd, hd),
    }
    for message, (learner, controller) in cases.items():
        with pytest.raises(BadInput, match=message):
            evaluated(learner, controller)
    with pytest.raises(BadInput, match="was trained for toy-corridor-v0, not for pointmaze-medium-v0"):
        evaluated(hd, gciql, "pointmaze-medium-stitch-v0")
    with pytest.raises(BadInput, match="no such dataset id"):
        evaluated(hd, gciql, "pointmaze-tiny-stitch-v0")

    missing = shutil.copytree(hd, tmp_path / "missing")
    (missing / "model.safetensors").unlink()
    with pytest.raises(BadInput, match="not a usable HierarchicalDiffuser"):
        evaluated(missing, gciql)
    shapes = shutil.copytree(hd, tmp_path / "shapes")
    description = json.loads((shapes / "config.json").read_text())
    description["config"]["waypoints"] += 1
    description["config"]["high"]["width"] *= 2
    (shapes / "config.json").write_text(json.dumps(description))
    with pytest.raises(BadInput, match="size mismatch"):
        evaluated(shapes, gciql)
    mixed = shutil.copytree(hd, tmp_path / "mixed")
    shutil.copy(folders["hd-other"] / "model.safetensors", mixed)  # the same shapes, for a world twice as large
    with pytest.raises(BadInput, match="do not belong together"):
        evaluated(mixed, gciql)
    for text in (json.dumps({**description, "sizes": None}).encode(), b"\xff\xfe", b"[]", b'{"model": "HierarchicalDi'):
        damaged = shutil.copytree(hd, tmp_path / "damaged", dirs_exist_ok=True)
        (damaged / "config.json").write_bytes(text)
        with pytest.raises(BadInput, match="damaged: not"):
            evaluated(damaged, gciql)
    other = shutil.copytree(hd, tmp_path / "other")
    (other / "config.json").write_text(json.dumps({**description, "model": "Stitcher"}))
    with pytest.raises(BadInput, match="neither a planner nor an agent"):
        load_learner(other)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"environment": "pointmaze-giant-v0"},
            "the GCIQL was trained for pointmaze-giant-v0, not for toy-corridor-v0",
        ),
        ({"dataset": "toy-corridor-play-v0"}, f"the GCIQL was trained on toy-corridor-play-v0, not on {toy.ID}"),
        ({"maze": ("###", "#.#", "###")}, "the GCIQL was trained for another maze of the name toy-corridor-v0"),
    ],
)
def test_a_controller_from_elsewhere_is_refused(
    changes: dict[str, Any], message: str, folders: dict[str, Path], tmp_path: Path
):
    agent = load_learner(folders["gciql"])
    agent.meta = replace(agent.meta, **changes)
    agent.save(tmp_path)
    with pytest.raises(BadInput, match=message):
        evaluated(folders["hd"], tmp_path)


def test_the_command_trains_whatever_is_registered():
    """The command line names the learners itself, so that its help does not have to load networks."""
    hint = get_type_hints(cli.Train)["learner"]
    assert list(get_args(hint)) == list(experiments.LEARNERS)


def test_acting_alone(folders: dict[str, Path]):
    assert acting(load_learner(folders["gciql"]), None, PlanFollowing()).execution is None


def test_choosing_among_candidates_leaves_the_planner_as_it_was(folders: dict[str, Path]):
    planner, policy = load_learner(folders["hd"]), load_learner(folders["gciql"])
    embedding = TemporalDistance.for_data(TemporalDistanceConfig(hidden=(8,)), toy.make(episodes=2))
    chosen, plain = (acting(planner, policy, PlanFollowing(candidates=n), embedding) for n in (2, 1))
    assert chosen.planner.choose is not None
    assert plain.planner.choose is planner.choose is None


@pytest.mark.slow
def test_plans_are_ranked_with_the_embedding_that_the_data_was_stitched_by(home: Path, folders: dict[str, Path]):
    data = toy.make(episodes=40)
    planner, policy = scots.train("hd", scots.augment(data, "smoke"), "smoke"), load_learner(folders["gciql"])
    models = Trained.of(planner, policy)
    assert models.recipe == SCOTS
    assert models.controller.execution.candidates == 2
    places, (made,) = data.positions[:50], (home / "home" / "artifacts").glob("temporaldistance-*")
    by_hand = TemporalDistance.load(made).encode_positions(data.meta.position, places)
    np.testing.assert_array_equal(models.controller.planner.choose._encode(places), by_hand)
    assert Trained.of(planner, policy, settings={"candidates": 2}).recipe == SCOTS  # as it is anyway

    shutil.rmtree(made)
    alone = Trained.of(planner, policy)
    assert (alone.recipe.settings, alone.controller.planner.choose) == ({"execution.candidates": 1}, None)
    with pytest.raises(BadInput, match="4 plans need an embedding that ranks them"):
        Trained.of(planner, policy, settings={"candidates": 4})


@pytest.mark.slow
def test_changed_stitching_does_not_go_by_the_name_of_its_recipe(home: Path, folders: dict[str, Path]):
    changed = scots.augment(toy.make(episodes=40), "smoke", stitching__novelty_weight=0.0, refine=False)
    planner = scots.train("hd", changed, "smoke")
    assert Trained.of(planner, load_learner(folders["gciql"])).recipe.augment == "custom"


@pytest.mark.slow
def test_commands(home: Path, capsys: pytest.CaptureFixture[str]):
    for learner in ("hd", "gciql"):
        assert main(["train", learner, "--data", toy.ID, "--out", str(home / learner), "--profile", "smoke"]) == 0
    words = ["evaluate", str(home / "hd"), "--controller", str(home / "gciql"), "--episodes", "2", "--max-steps", "20"]
    words += ["--workers", "1"]
    files = ["--keep", str(home / "rows.jsonl"), "--png", str(home / "way.png"), "--video", str(home / "way.gif")]
    assert main([*words, *files, "--replan", "0"]) == 0
    printed = capsys.readouterr().out
    assert "within 20" in printed
    assert "all, %" in printed
    (picture,), film = frames_of(home / "way.png"), frames_of(home / "way.gif")
    assert min(map(share_drawn, [picture, *film])) > 0.001
    assert len({frame.tobytes() for frame in film}) > 1
    assert main([*words, "--tasks", "6"]) == 2
    assert "task 6" in capsys.readouterr().err
    assert main([*words, "--video", "way.avi"]) == 2
    assert capsys.readouterr().err.count("\n") == 1  # before anything is evaluated
    (home / "gciql" / "model.safetensors").unlink()
    assert main(words) == 2
    assert "gciql: not a usable GCIQL" in capsys.readouterr().err
    rows = read_rows(home / "rows.jsonl", ("task",))
    assert [row["recipe"]["settings"] for row in rows] == [{"execution.replan_every": 0}] * 5
    assert main(["table", "planning", "--dry-run", "--datasets", "pointmaze-giant-stitch-v0"]) == 0
    assert "pointmaze-giant-stitch-v0 · augment · official" in capsys.readouterr().out
    assert main(["table", "plans"]) == 2
    assert "table 'plans' is not one of planning" in capsys.readouterr().err
