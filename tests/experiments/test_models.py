"""Trained folders: finished once, continued by the same command only, self-contained, refused where they do not fit."""

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pictures import frames_of, share_drawn

import scots
from scots.agents import AGENTS
from scots.agents.gciql import GCIQL
from scots.augmenters.embedding import TemporalDistance
from scots.cli import main
from scots.core.errors import BadInput
from scots.data import formats
from scots.data.support import Support
from scots.datasets import toy
from scots.envs import tasks_of
from scots.evaluation.control import GoalController, PlanFollowing
from scots.evaluation.results import EvalResult, evaluate
from scots.experiments.models import build_controller, load_model, oracle_for, subject_of, train_model
from scots.experiments.recipe import Recipe
from scots.models.training import Model
from scots.planners import PLANNERS
from scots.planners.search import PlanSearch, SearchConfig

SEARCHED = {"search.candidates": 2, "search.mend": True, "search.bisect": True}
SCOTS = Recipe("scots", "hd", "gciql")
DATA = toy.make(episodes=40)
FEW = {"training.steps": 5}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home: whatever works in it needs no cache."""
    monkeypatch.setenv("SCOTS_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    """Planners and an agent of recorded data, and the file that some tests train on."""
    root = tmp_path_factory.mktemp("models")
    larger = replace(DATA, observations=2 * DATA.observations, meta=replace(DATA.meta, dataset="toy-large-v0"))
    for folder, name, data in (("hd", "hd", DATA), ("gciql", "gciql", DATA), ("hd-other", "hd", larger)):
        train_model(name, data, profile="smoke", seed=3, folder=root / folder, changes=FEW)
    formats.write(DATA, root / "data.npz")
    formats.write(toy.make(episodes=40, seed=1), root / "other.npz")
    return {path.stem: path for path in root.iterdir()}


@pytest.fixture(scope="module")
def stitched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home in which data was stitched, and beside its cache: aug.npz, and hd, a planner of it."""
    root = tmp_path_factory.mktemp("stitched")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SCOTS_HOME", str(root / "home"))
        augmented = scots.augment(DATA, profile="smoke", changes={"stitching.novelty_weight": 1.5, "refine": False})
        formats.write(augmented, root / "aug.npz")
        train_model("hd", augmented, profile="smoke", folder=root / "hd", changes={"training.steps": 5})
    return root


def evaluated(model: Path, agent: Path | None, dataset: str | None = None, **changes: Any) -> list[EvalResult]:
    subject = subject_of(load_model(model), load_model(agent) if agent else None, dataset, changes)
    rows = evaluate(subject, tasks_of(subject.meta, (1, 3)), episodes=2, limits=(30,), workers=1)
    return [replace(row, date="", seconds=0, planning={}, peak_memory=None) for row in rows]


def train_words(model: str, data: Path, out: Path, *more: str) -> list[str]:
    return [
        "train",
        model,
        "--data",
        str(data),
        "--out",
        str(out),
        "--profile",
        "smoke",
        "--set",
        "training.steps=30",
        *more,
    ]


# ----------------------------------------------------------------------------------------------------------- training


def test_a_finished_folder_is_not_trained_again(
    folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    words = train_words("gciql", folders["data"], tmp_path / "agent")
    assert main(words) == 0
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "agent").rglob("*")}
    monkeypatch.setattr("scots.models.cache.fit", lambda *_, **__: pytest.fail("trained twice"))
    capsys.readouterr()
    assert main(words) == 0
    printed = capsys.readouterr()
    assert f"gciql: already trained, in {tmp_path / 'agent'}" in printed.err
    assert printed.out == f"{tmp_path / 'agent'}\n"
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "agent").rglob("*")} == before


def test_a_finished_folder_of_another_run_is_refused_and_replaced_only_by_force(
    folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    out = tmp_path / "agent"
    assert main(train_words("gciql", folders["data"], out)) == 0
    weights = (out / "model.safetensors").read_bytes()
    others = [
        train_words("gciql", folders["other"], out),
        train_words("gciql", folders["data"], out, "--seed", "1"),
        [*train_words("gciql", folders["data"], out)[:-1], "training.steps=31"],
    ]
    for words in others:
        assert main(words) == 2
        assert "trained with other settings, data or seed; --force replaces it" in capsys.readouterr().err
    assert main(train_words("crl", folders["data"], out)) == 2
    assert "holds a GCIQL, not a CRL" in capsys.readouterr().err
    assert (out / "model.safetensors").read_bytes() == weights
    assert main([*others[0], "--force"]) == 0
    assert load_model(out).data_fingerprint == formats.read(folders["other"]).fingerprint()
    assert (out / "model.safetensors").read_bytes() != weights


def test_force_trains_again_to_the_same_bits(folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    out, batch, drawn = tmp_path / "agent", GCIQL.batch, []
    monkeypatch.setattr(GCIQL, "batch", lambda *given: drawn.append(1) or batch(*given))
    files = []
    for more in ([], ["--force"]):
        assert main(train_words("gciql", folders["data"], out, *more)) == 0
        files.append((out / "model.safetensors").read_bytes())
    assert len(drawn) == 60
    assert files[0] == files[1]


def test_what_was_stopped_is_continued_by_the_same_command_only(
    folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    out, batch, drawn = tmp_path / "agent", GCIQL.batch, []

    def stopped(*given: Any) -> Any:
        drawn.append(1)
        if len(drawn) == 10:
            os.kill(os.getpid(), 15)
        return batch(*given)

    monkeypatch.setattr(GCIQL, "batch", stopped)
    assert main(train_words("gciql", folders["data"], out)) == 130
    assert not (out / "config.json").exists()
    assert main(train_words("gciql", folders["other"], out)) == 2
    assert "belongs to a run with other settings or other data" in capsys.readouterr().err
    with pytest.raises(BadInput, match="not the folder of a trained model"):
        load_model(out)
    assert main(train_words("gciql", folders["data"], out)) == 0
    assert len(drawn) == 30  # none twice
    whole = tmp_path / "whole"
    assert main(train_words("gciql", folders["data"], whole)) == 0
    assert (out / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()


def test_what_cannot_be_trained_is_named(folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(train_words("dreamer", folders["data"], tmp_path / "a")) == 2
    known = f"neither a planner ({', '.join(PLANNERS)}) nor an agent ({', '.join(AGENTS)})"
    assert f"'dreamer' is {known}" in capsys.readouterr().err
    assert main(train_words("hd", folders["data"], tmp_path / "a", "--set", "high.speed=3")) == 2
    assert "LevelConfig has no field 'speed'" in capsys.readouterr().err
    assert not (tmp_path / "a").exists()


# ------------------------------------------------------------------------------------------------------------- folders


def test_a_planner_that_needs_distances_has_them_in_its_folder(folders: dict[str, Path], tmp_path: Path):
    """Trained on recorded data it needs no --recorded. It plans, is evaluated, and names what is missing."""
    folder = tmp_path / "cd"
    train_model("cd", DATA, profile="smoke", seed=3, folder=folder, changes={"chunks": None} | FEW)
    start, goal = DATA.positions[[0, 5]], DATA.positions[[100, 205]]
    for path, first, last in zip(scots.plan(folder, start, goal, candidates=2), start, goal, strict=True):
        assert np.array_equal(path.positions[[0, -1]], [first, last])
    rows = evaluated(folder, folders["gciql"])
    assert rows[0].recipe["overrides"] == {f"{part}.training.steps": 5 for part in ("agent", "planner")} | {
        "planner.chunks": None
    }
    shutil.rmtree(folder / "search")
    with pytest.raises(BadInput, match="train it with --recorded DATA"):
        evaluated(folder, folders["gciql"])


def test_folders_remember_what_they_were_trained_on(folders: dict[str, Path]):
    row, _ = evaluated(folders["hd"], folders["gciql"], **{"following.replan_every": 7})
    assert (row.dataset, row.training_seed, row.profile, row.max_steps) == (toy.ID, 3, "smoke", 30)
    few = {"agent.training.steps": 5, "planner.training.steps": 5}
    assert Recipe.from_dict(row.recipe) == Recipe(None, "hd", "gciql", few | {"following.replan_every": 7})
    assert row.following == PlanFollowing(replan_every=7, replan_late=True).to_dict()
    assert row.search == SearchConfig().to_dict()
    alone, _ = evaluated(folders["gciql"], None, toy.ID)
    assert Recipe.from_dict(alone.recipe) == Recipe(None, None, "gciql", {"agent.training.steps": 5})
    assert (alone.following, alone.search) == (None, None)


def test_an_agent_trained_to_follow_plans_does_not_pass_for_one_that_acts_alone(tmp_path: Path):
    """At the profile where the two differ, rows of the one say where its settings are not those of the other."""
    controller = train_model("gciql", DATA, profile="laptop", steps=1, folder=tmp_path / "controller")
    alone = train_model("gciql", DATA, profile="laptop", steps=1, folder=tmp_path / "alone", alone=True)
    found, own = (Recipe.from_dict(subject_of(agent).recipe).overrides for agent in (controller, alone))
    assert own == {"agent.training.steps": 1}
    assert found == own | {"agent.discount": 0.95}
    assert train_model("hiql", DATA, profile="laptop", steps=1, folder=tmp_path / "hiql").config.discount == 0.99


def test_settings_that_are_not_those_of_acting_are_named(folders: dict[str, Path]):
    for path, message in {
        "planner.waypoints": "'planner.waypoints' is not a setting of how plans are followed or searched for",
        "following.speed": "PlanFollowing has no field 'speed'",
    }.items():
        with pytest.raises(BadInput, match=message):
            evaluated(folders["hd"], folders["gciql"], **{path: 3})
    with pytest.raises(BadInput, match=r"following.lookahead' is not a setting"):
        evaluated(folders["gciql"], None, **{"following.lookahead": 3})


def test_folders_that_do_not_go_together_are_named(folders: dict[str, Path], tmp_path: Path):
    hd, gciql = folders["hd"], folders["gciql"]
    tmp_path.joinpath("empty").mkdir()
    cases = {
        "not the folder of a trained model": (tmp_path / "empty", gciql),
        "only plans: give the agent": (hd, None),
        "acts by itself": (gciql, gciql),
        "the controller must be an agent": (hd, hd),
        f"the GCIQL was trained on {toy.ID}, not on toy-large-v0": (folders["hd-other"], gciql),
    }
    for message, (model, agent) in cases.items():
        with pytest.raises(BadInput, match=message):
            evaluated(model, agent)
    with pytest.raises(BadInput, match="was trained for toy-corridor-v0, not for pointmaze-medium-v0"):
        evaluated(hd, gciql, "pointmaze-medium-stitch-v0")
    with pytest.raises(BadInput, match="no such dataset id"):
        evaluated(hd, gciql, "pointmaze-tiny-stitch-v0")


def test_damaged_folders_are_named(folders: dict[str, Path], tmp_path: Path):
    hd, gciql = folders["hd"], folders["gciql"]
    missing = shutil.copytree(hd, tmp_path / "missing")
    (missing / "model.safetensors").unlink()
    with pytest.raises(BadInput, match="not a usable HierarchicalDiffuser"):
        evaluated(missing, gciql)
    shapes = shutil.copytree(hd, tmp_path / "shapes")
    description = json.loads((shapes / "config.json").read_text())
    description["config"]["waypoints"] += 1
    description["config"]["high"]["width"] *= 2
    (shapes / "config.json").write_text(json.dumps(description))
    with pytest.raises(BadInput, match=r"larger network than model\.safetensors holds"):
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
    (other / "config.json").write_text(json.dumps({**description, "model": "Nonsense"}))
    with pytest.raises(BadInput, match="holds a Nonsense, which is not a known model"):
        load_model(other)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"environment": "pointmaze-giant-v0"},
            "the GCIQL was trained for pointmaze-giant-v0, not for toy-corridor-v0",
        ),
        ({"dataset": "toy-corridor-play-v0"}, f"the GCIQL was trained on toy-corridor-play-v0, not on {toy.ID}"),
        ({"maze": ("###", "#.#", "###")}, "the GCIQL was trained for another maze called toy-corridor-v0"),
    ],
)
def test_an_agent_from_elsewhere_is_refused(
    changes: dict[str, Any], message: str, folders: dict[str, Path], tmp_path: Path
):
    agent = load_model(folders["gciql"])
    agent.meta = replace(agent.meta, **changes)
    agent.save(tmp_path / "agent")
    with pytest.raises(BadInput, match=message):
        evaluated(folders["hd"], tmp_path / "agent")


def test_a_model_that_does_not_know_its_dataset_is_told(folders: dict[str, Path], tmp_path: Path):
    """A model of a table without ids; it must still fit the observations of the dataset."""
    agent = load_model(folders["gciql"])
    agent.meta = replace(agent.meta, dataset=None, environment=None)
    agent.save(tmp_path / "agent")
    with pytest.raises(BadInput, match="no environment is known"):
        evaluated(tmp_path / "agent", None)
    rows = evaluated(tmp_path / "agent", None, toy.ID)
    assert [row.successes for row in rows] == [row.successes for row in evaluated(folders["gciql"], None)]
    with pytest.raises(BadInput, match="for an unknown environment, not for antmaze-medium-v0"):
        evaluated(tmp_path / "agent", None, "antmaze-medium-stitch-v0")


# -------------------------------------------------------------------------------------------------------------- search


def test_an_agent_alone_and_plans_as_they_are_drawn_need_no_search(folders: dict[str, Path]):
    planner, agent = load_model(folders["hd"]), load_model(folders["gciql"])
    assert isinstance(build_controller(None, agent, None, None, None), GoalController)
    assert build_controller(planner, agent, PlanFollowing(), SearchConfig(), None).planner is planner
    with pytest.raises(BadInput, match="searching among 4 candidates needs"):
        build_controller(planner, agent, PlanFollowing(), SearchConfig(4), None)


@pytest.mark.slow
def test_a_planner_of_stitched_data_holds_what_search_needs(stitched: Path):
    """The very embedding that the data was stitched with, and the support of the recorded data."""
    (cached,) = (stitched / "home" / "artifacts").glob("temporaldistance-*")
    saved, made = (TemporalDistance.load(folder) for folder in (stitched / "hd" / "search" / "embedding", cached))
    assert np.array_equal(saved.encode(DATA.observations), made.encode(DATA.observations))
    support = Support.load(stitched / "hd" / "search" / "support.npz")
    assert np.array_equal(support.centers(), Support.of(DATA).centers())


@pytest.mark.slow
def test_a_planner_folder_needs_no_cache(
    stitched: Path, folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Rows are the same with the cache that made it, and copied elsewhere without any."""
    copy = shutil.copytree(stitched / "hd", tmp_path / "copy")
    with monkeypatch.context() as patch:
        patch.setenv("SCOTS_HOME", str(stitched / "home"))
        with_cache = evaluated(stitched / "hd", folders["gciql"], **SEARCHED)
    assert evaluated(copy, folders["gciql"], **SEARCHED) == with_cache
    assert with_cache[0].search == SearchConfig(2, mend=True, bisect=True).to_dict()
    assert with_cache[0].origin == "made here, augmented here"


@pytest.mark.slow
def test_changes_of_the_augmentation_are_part_of_the_recipe(stitched: Path, folders: dict[str, Path]):
    planner, agent = load_model(stitched / "hd"), load_model(folders["gciql"])
    expected = {
        "augmenter.stitching.novelty_weight": 1.5,
        "augmenter.refine": False,
        "agent.training.steps": 5,
        "planner.training.steps": 5,
    }
    assert Recipe.from_dict(subject_of(planner, agent).recipe) == replace(SCOTS, overrides=expected)
    as_it_is = subject_of(planner, agent, changes={"search.candidates": 1})
    assert Recipe.from_dict(as_it_is.recipe).overrides == expected
    assert as_it_is.controller.planner is planner
    searched = subject_of(planner, agent, changes=SEARCHED)
    assert Recipe.from_dict(searched.recipe).overrides == expected | SEARCHED
    assert isinstance(searched.controller.planner, PlanSearch)


@pytest.mark.slow
@pytest.mark.parametrize("lost", ["search", "search/support.npz"])
def test_search_is_never_given_up_silently(lost: str, stitched: Path, folders: dict[str, Path], tmp_path: Path):
    folder = shutil.copytree(stitched / "hd", tmp_path / "hd")
    path = folder / lost
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(BadInput, match=r"searching among 2 candidates .*--recorded DATA.*--candidates 1"):
        evaluated(folder, folders["gciql"], **SEARCHED)
    assert evaluated(folder, folders["gciql"])[0].search == SearchConfig().to_dict()


@pytest.mark.slow
def test_what_search_needs_is_made_of_recorded_data(
    stitched: Path, folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """Where the cache is gone: without --recorded it is said that there will be no search, with it there is."""
    words = ["train", "hd", "--data", str(stitched / "aug.npz"), "--out", str(tmp_path / "hd"), "--profile", "smoke"]
    words += ["--set", "training.steps=5"]
    assert main(words) == 0
    assert "plan search will not be possible" in capsys.readouterr().err
    with pytest.raises(BadInput, match="--recorded DATA"):
        evaluated(tmp_path / "hd", folders["gciql"], **SEARCHED)
    assert main([*words, "--recorded", str(folders["data"])]) == 0
    assert "already trained" in capsys.readouterr().err
    made, kept = (evaluated(folder / "hd", folders["gciql"], **SEARCHED) for folder in (tmp_path, stitched))
    assert made == kept


@pytest.mark.slow
def test_force_leaves_nothing_of_the_planner_that_was_there(stitched: Path, folders: dict[str, Path], tmp_path: Path):
    """Else plans of the new one would be searched by the embedding of the old one's data."""
    folder = shutil.copytree(stitched / "hd", tmp_path / "hd")
    assert main(train_words("hd", folders["other"], folder, "--force")) == 0
    with pytest.raises(BadInput, match="searching among 4 candidates"):
        evaluated(folder, folders["gciql"], **{"search.candidates": 4})


def test_python_trains_into_the_cache_once(home: Path, monkeypatch: pytest.MonkeyPatch):
    first = scots.train("gciql", DATA, "smoke", FEW)
    assert first.folder.parent == home / "artifacts"
    monkeypatch.setattr("scots.models.cache.fit", lambda *_, **__: pytest.fail("trained twice"))
    again = scots.train("gciql", DATA, "smoke", FEW)
    assert again.folder == first.folder
    rows = scots.evaluate(again, episodes=1, limits=(5,), workers=1)
    assert [row.task for row in rows] == [1, 2, 3, 4, 5]


def test_models_are_loaded_by_what_their_folder_holds(folders: dict[str, Path]):
    found: list[Model] = [load_model(folders[name]) for name in ("hd", "gciql")]
    assert [type(model).__name__ for model in found] == ["HierarchicalDiffuser", "GCIQL"]


# ------------------------------------------------------------------------------------------------------------ commands


@pytest.mark.slow
def test_commands(folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    words = ["evaluate", str(folders["hd"]), "--controller", str(folders["gciql"]), "--episodes", "2"]
    words += ["--max-steps", "20", "--workers", "1"]
    files = {name: tmp_path / name for name in ("rows.jsonl", "way.png", "way.gif")}
    more = ["--keep", str(files["rows.jsonl"]), "--png", str(files["way.png"]), "--video", str(files["way.gif"])]
    assert main([*words, *more, "--replan", "7"]) == 0
    assert "within 20" in capsys.readouterr().out
    (picture,), film = frames_of(files["way.png"]), frames_of(files["way.gif"])
    assert min(map(share_drawn, [picture, *film])) > 0.001
    assert len({frame.tobytes() for frame in film}) > 1
    assert main([*words, "--tasks", "6"]) == 2
    assert "task 6" in capsys.readouterr().err
    assert main([*words, "--video", "way.avi"]) == 2
    assert capsys.readouterr().err.count("\n") == 1  # before anything is evaluated
    rows = [EvalResult.from_dict(json.loads(line)) for line in files["rows.jsonl"].read_text().splitlines()]
    assert [row.task for row in rows] == [1, 2, 3, 4, 5]
    assert {row.following["replan_every"] for row in rows} == {7}


def test_an_agent_follows_the_shortest_path_over_the_true_map(
    folders: dict[str, Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    words = [
        "evaluate",
        str(folders["gciql"]),
        "--oracle-path",
        "--episodes",
        "1",
        "--max-steps",
        "5",
        "--workers",
        "1",
    ]
    assert main(words) == 0
    assert "within 5" in capsys.readouterr().out
    agent = load_model(folders["gciql"])
    subject = subject_of(oracle_for(agent), agent)
    assert (subject.recipe["augmenter"], subject.recipe["planner"]) == (None, "oracle")
    agent.meta = replace(agent.meta, dataset=None)
    with pytest.raises(BadInput, match="does not know its dataset"):
        oracle_for(agent)


def test_the_work_of_a_table_is_listed(capsys: pytest.CaptureFixture[str]):
    assert main(["table", "planning", "--dry-run", "--datasets", "pointmaze-giant-stitch-v0"]) == 0
    assert "pointmaze-giant-stitch-v0 · augment scots" in capsys.readouterr().out
    assert main(["table", "plans"]) == 2
    assert "table 'plans' is not one of planning" in capsys.readouterr().err


def test_rows_of_parts_that_were_trained_alike_say_so(folders: dict[str, Path]):
    row = evaluated(folders["hd"], folders["gciql"])[0]
    assert (row.profile, row.training_seed) == ("smoke", 3)
    assert set(row.artifacts) == {"planner", "agent"}


@pytest.mark.parametrize("difference", ["profile", "seed", "data"])
def test_rows_of_parts_that_were_trained_otherwise_pass_for_no_profile(
    difference: str, folders: dict[str, Path], tmp_path: Path
):
    """A table shows the rows of a profile: an agent of another one must not slip in under the planner's."""
    settings = {"profile": "smoke", "seed": 3, "changes": FEW}
    settings |= {"profile": {"profile": "laptop"}, "seed": {"seed": 4}, "data": {}}[difference]
    train_model("gciql", DATA[:30] if difference == "data" else DATA, folder=tmp_path / "agent", **settings)
    row = evaluated(folders["hd"], tmp_path / "agent")[0]
    alike = evaluated(folders["hd"], folders["gciql"])[0]
    assert (row.profile, row.training_seed) != (alike.profile, alike.training_seed)
    assert row.profile == ("smoke" if difference == "seed" else "custom")
    assert row.training_seed == (None if difference == "seed" else 3)
    assert row.artifacts["agent"] != alike.artifacts["agent"]
    assert row.artifacts["planner"] == alike.artifacts["planner"]


@pytest.mark.slow
def test_other_data_than_what_was_stitched_makes_no_search_parts(stitched: Path, tmp_path: Path):
    data = formats.read(stitched / "aug.npz")
    with pytest.raises(BadInput, match="give the data that was augmented"):
        train_model("hd", data, profile="smoke", folder=tmp_path / "hd", changes=FEW, recorded=DATA[:20])
    renamed = DATA.with_meta(position=(1, 0), angles=((0, 360.0),))  # what counts is as the augmentation had it
    train_model("hd", data, profile="smoke", folder=tmp_path / "hd", changes=FEW, recorded=renamed)
    assert (tmp_path / "hd" / "search" / "support.npz").exists()
