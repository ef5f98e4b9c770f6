"""A run from data to rows in the toy world: pure keys, each stage once, continued after an interruption."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from scots.cli import main
from scots.core.errors import BadInput
from scots.data import formats
from scots.data.trajectories import Meta
from scots.datasets import data_path, toy
from scots.datasets.collect import collect
from scots.datasets.specs import SPECS
from scots.envs.maze import parse_maze
from scots.evaluation.results import EvalResult
from scots.experiments import pipeline, tables
from scots.experiments.pipeline import DataStage, Pipeline, Run
from scots.experiments.recipe import Recipe
from scots.experiments.tables import TABLES, ResultTable, fill, work_list
from scots.planners.hd import HierarchicalDiffuser
from scots.planners.search import SearchConfig

SEARCHED = {"search.candidates": 2, "search.mend": True, "search.bisect": True}
SCOTS, HD = Recipe("scots", "hd", "gciql", SEARCHED), Recipe(None, "hd", "gciql")
RUN = Run(toy.ID, SCOTS, "smoke")
MAZE = "pointmaze-medium-stitch-v0"
TABLE = ResultTable(
    "toy", {"HD": lambda _: HD, "SCoTS": lambda _: SCOTS, "Oracle": None}, {toy.ID: {"Oracle": "100±0"}}
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home."""
    monkeypatch.setenv("SCOTS_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[EvalResult]]:
    """The home of a finished run, and its rows."""
    folder = tmp_path_factory.mktemp("finished")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SCOTS_HOME", str(folder))
        return folder, Pipeline(RUN).rows()


def write_as(meta: Meta, path: Path) -> None:
    """A few walks in a file that says this of itself."""
    formats.write(replace(toy.make(episodes=3), meta=meta), path)


def outcome(rows: list[EvalResult]) -> list[EvalResult]:
    """Rows without what differs between equal runs."""
    return [replace(row, date="", seconds=0, stages={}, planning={}, peak_memory=None) for row in rows]


def keys(run: Run) -> dict[str, str]:
    """The key of every stage; of the evaluation the name of its folder."""
    line = Pipeline(run)
    return {name: stage.key() for name, stage in line.stages.items()} | {"evaluate": line._rows_path().parent.name}


def differing(run: Run, other: Run) -> set[str]:
    ours, theirs = keys(run), keys(other)
    return {name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name)}


# --------------------------------------------------------------------------------------------------------------- keys


def test_an_agent_alone_learns_from_augmented_data_or_from_both(home: Path):
    both = Recipe("synther", None, "gciql", {"data.keep_recorded": True})
    alone = Run(toy.ID, Recipe("synther", None, "gciql"), "smoke")
    line = Pipeline(replace(alone, recipe=both))
    assert differing(alone, line.run) == {"agent", "evaluate"}
    line.augment.run()
    assert (len(line.augment.data), len(line.training_data)) == (200, 200 + toy.EPISODES)
    assert line.training_data.meta == line.augment.data.meta
    assert line.training_data.rows == 400 + line.data.rows
    assert len(Pipeline(alone).training_data) == 200


@pytest.mark.mujoco
@pytest.mark.parametrize("dataset", [toy.ID, MAZE])
def test_looking_makes_nothing(dataset: str, home: Path):
    line = Pipeline(Run(dataset, SCOTS, "smoke"))
    pending = ["augment", "planner", "agent", "search", "evaluate"]
    assert line.pending() == (["collect"] if dataset == MAZE else []) + pending
    for stage in line.stages.values():
        assert stage.folder.parent.name == "artifacts" or stage.folder == line.planner.folder / "search"
        assert stage.folder.name == ("search" if stage.name == "search" else f"{stage.name}-{stage.key()}")
        assert stage.seconds is None
    assert line.seconds() == {}
    assert len(work_list([line.run]).splitlines()) == len(line.pending()) + 1
    assert not home.exists()


@pytest.mark.mujoco
def test_keys_hold_no_path(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    run = Run(MAZE, SCOTS, "smoke")
    here = keys(run)
    monkeypatch.setenv("SCOTS_HOME", str(tmp_path / "elsewhere"))
    monkeypatch.chdir(tmp_path)
    assert keys(run) == here


@pytest.mark.mujoco
@pytest.mark.parametrize(
    ("change", "stages"),
    [
        ({"seed": 1}, {"evaluate"}),
        ({"training_seed": 1}, {"augment", "planner", "agent", "search", "evaluate"}),
        ({"recipe": SCOTS.replace_at("following.lookahead", 3)}, {"evaluate"}),
        ({"recipe": SCOTS.replace_at("search.candidates", 3)}, {"evaluate"}),
        ({"recipe": SCOTS.replace_at("following.lookahead", 10)}, set()),  # as it is
        ({"recipe": Recipe("scots", "hd", "gciql")}, {"search", "evaluate"}),
        ({"recipe": SCOTS.replace_at("agent.training.steps", 3)}, {"agent", "evaluate"}),
        ({"recipe": SCOTS.replace_at("planner.training.steps", 3)}, {"planner", "search", "evaluate"}),
        ({"recipe": SCOTS.replace_at("augmenter.trajectories", 30)}, {"augment", "planner", "search", "evaluate"}),
        (
            {"recipe": SCOTS.replace_at("augmenter.embedding.training.steps", 30)},
            {"augment", "planner", "search", "evaluate"},
        ),
        ({"recipe": HD}, {"augment", "planner", "search", "evaluate"}),  # the agent learns from recorded data
        ({"recipe": Recipe("scots", None, "gciql")}, {"planner", "agent", "search", "evaluate"}),
        ({"dataset": "pointmaze-large-stitch-v0"}, {"collect", "augment", "planner", "agent", "search", "evaluate"}),
    ],
)
def test_a_key_changes_with_what_decides_the_stage_and_nothing_else(change: dict, stages: set[str], home: Path):
    run = Run(MAZE, SCOTS, "smoke")
    assert differing(run, replace(run, **change)) == stages


def test_planners_of_chunks_share_their_training(home: Path):
    """CD and GSC differ in the evaluation alone, and have an embedding where the distance decides their plans."""
    cd, gsc = (replace(RUN, recipe=Recipe(None, name, "gciql", {"planner.chunks": None})) for name in ("cd", "gsc"))
    assert differing(cd, gsc) == {"evaluate"}
    assert [Pipeline(run).planner.folder for run in (cd, gsc)] == [Pipeline(cd).planner.folder] * 2
    assert list(Pipeline(cd).stages) == ["planner", "agent", "search"]
    fixed = replace(RUN, recipe=Recipe(None, "cd", "gciql"))
    assert list(Pipeline(fixed).stages) == ["planner", "agent"]


@pytest.mark.slow
def test_composed_plans_are_evaluated_from_their_distances(home: Path):
    """The second run finds all that the first has trained; rows say what planning cost."""
    cd, gsc = (replace(RUN, recipe=Recipe(None, name, "gciql", {"planner.chunks": None})) for name in ("cd", "gsc"))
    first = Pipeline(cd).rows()
    assert Pipeline(gsc).pending() == ["evaluate"]
    for rows, planner in ((first, "cd"), (Pipeline(gsc).rows(), "gsc")):
        assert {row.recipe["planner"] for row in rows} == {planner}
        assert rows[0].planning["plans"] >= 10
        assert rows[0].planning["network_calls"] >= 4 * rows[0].planning["calls"]


@pytest.mark.mujoco
def test_collecting_changes_no_key(home: Path, monkeypatch: pytest.MonkeyPatch):
    """What a file would say of itself before it is there is what it says then."""
    spec = SPECS[MAZE]
    monkeypatch.setitem(SPECS, MAZE, replace(spec, collection=spec.collection.resized(2)))
    run = Run(MAZE, SCOTS, "smoke")
    before = keys(run)
    Pipeline(run).stages["collect"].run()
    assert Pipeline(run).pending()[0] == "augment"
    assert keys(run) == before


@pytest.mark.mujoco
@pytest.mark.parametrize(
    ("episodes", "seed", "complaint"),
    [
        (7, 0, "holds 7 episodes where the dataset has 5,000; collect it again with --force, or give"),
        (2, 3, "episodes of seed 3 where the dataset has seed 0"),
    ],
)
def test_a_part_of_a_dataset_does_not_pass_for_it(episodes: int, seed: int, complaint: str, home: Path):
    collect(SPECS[MAZE].collection.resized(episodes), data_path(MAZE), seed=seed, workers=1)
    run = Run(MAZE, HD, "smoke")
    for look in (Pipeline(run).rows, Pipeline(run).pending, DataStage(MAZE).key):
        with pytest.raises(BadInput, match=complaint):
            look()
    assert not (home / "artifacts").exists()


@pytest.mark.mujoco
def test_a_part_of_a_dataset_that_is_asked_for_is_used(home: Path):
    part, run = SPECS[MAZE].collection.resized(2), Run(MAZE, HD, "smoke")
    before = Pipeline(run, part)
    assert before.pending()[0] == "collect"
    assert before.source.key() != DataStage(MAZE).key()
    before.source.run()
    assert Pipeline(run, part).pending()[0] == "planner"
    assert Pipeline(run, part).source.key() == before.source.key()
    with pytest.raises(BadInput, match="holds 2 episodes where the dataset has 3"):
        Pipeline(run, part.resized(3)).pending()


def test_a_custom_maze_in_the_place_of_a_dataset_has_not_its_settings(home: Path):
    giant = "pointmaze-giant-stitch-v0"
    ring = parse_maze(("########", "#......#", "#.####.#", "#......#", "########"), "giant")
    origin = {"origin": "collected here", "protocol": SPECS[giant].collection.to_dict(), "seed": 0}
    write_as(SPECS[giant].collection.meta(ring, (origin,)), data_path(giant))
    assert (DataStage(giant).spec().stitches, DataStage(giant).spec().waypoints) == (20, 11)  # as long as the ring is
    with pytest.raises(BadInput, match="holds a custom maze where the dataset has one of the benchmark"):
        Pipeline(Run(giant, HD, "smoke")).rows()


def test_a_file_without_meta_in_the_place_of_a_dataset_can_be_evaluated(home: Path):
    write_as(Meta(), data_path(MAZE))
    assert DataStage(MAZE).is_done
    assert DataStage(MAZE).meta().environment == "pointmaze-medium-v0"


def test_a_file_of_another_origin_that_names_no_environment_is_refused_at_once(home: Path):
    write_as(Meta(dataset=MAZE, provenance=({"origin": "elsewhere"},)), data_path(MAZE))
    with pytest.raises(BadInput, match="no environment is known for it"):
        Pipeline(Run(MAZE, HD, "smoke")).rows()
    assert not (home / "artifacts").exists()


def test_what_was_downloaded_is_not_compared_with_what_is_collected(home: Path):
    write_as(SPECS[MAZE].collection.meta(provenance=({"origin": "downloaded"},)), data_path(MAZE))
    assert DataStage(MAZE).is_done


def test_a_file_of_ones_own_is_known_by_its_content(home: Path, tmp_path: Path):
    files = [tmp_path / name for name in ("a.npz", "b.npz", "c.npz")]
    for path, seed in zip(files, (0, 0, 1), strict=True):
        formats.write(toy.make(episodes=3, seed=seed), path)
    first, same, other = (Run(str(path), HD, "smoke") for path in files)
    assert differing(first, same) == set()
    assert differing(first, other) == {"planner", "agent", "evaluate"}


# --------------------------------------------------------------------------------------------------------------- runs


@pytest.mark.slow
def test_rows_are_complete(finished: tuple[Path, list[EvalResult]]):
    folder, rows = finished
    assert [(row.task, row.episodes, row.max_steps) for row in rows] == [(task, 2, 1000) for task in range(1, 6)]
    row = rows[0]
    assert (row.dataset, row.profile, row.training_seed, row.seed) == (toy.ID, "smoke", 0, 0)
    assert Recipe.from_dict(row.recipe) == SCOTS
    assert row.origin == "made here, augmented here"
    assert (row.following["replan_every"], row.following["replan_late"]) == (0, True)
    assert row.search == SearchConfig(2, mend=True, bisect=True).to_dict()
    assert set(row.stages) == set(row.artifacts) == {"augment", "planner", "agent", "search"}
    for name in ("augment", "planner", "agent"):
        assert (folder / "artifacts" / f"{name}-{row.artifacts[name]}").exists()
    assert all(seconds >= 0 for seconds in row.stages.values())
    assert row.stages["planner"] > 0


@pytest.mark.slow
def test_a_second_run_does_nothing(finished: tuple[Path, list[EvalResult]], monkeypatch: pytest.MonkeyPatch):
    folder, rows = finished
    monkeypatch.setenv("SCOTS_HOME", str(folder))
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    assert Pipeline(RUN).pending() == []
    assert Pipeline(RUN).rows() == rows
    assert work_list([RUN]) == "nothing is left to do"
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


@pytest.mark.slow
def test_a_moved_home_has_everything_done(
    finished: tuple[Path, list[EvalResult]], home: Path, monkeypatch: pytest.MonkeyPatch
):
    """Also for another evaluation of the same models, which loads all that is in it."""
    folder, rows = finished
    shutil.copytree(folder, home)
    hidden = folder.rename(folder.with_name("hidden"))
    try:
        assert Pipeline(RUN).pending() == []
        assert Pipeline(RUN).rows() == rows
        again = Pipeline(replace(RUN, seed=1))
        assert again.pending() == ["evaluate"]
        monkeypatch.setattr("scots.models.cache.fit", lambda *_, **__: pytest.fail("trained twice"))
        (made,) = {row.seed for row in again.rows()}
        assert made == 1
    finally:
        hidden.rename(folder)


@pytest.mark.slow
def test_an_interrupted_stage_continues_to_the_same_rows(
    finished: tuple[Path, list[EvalResult]], home: Path, monkeypatch: pytest.MonkeyPatch
):
    folder, rows = finished
    shutil.copytree(folder, home)
    for made in (Pipeline(RUN).stages["planner"].folder, Pipeline(RUN)._rows_path().parent):
        shutil.rmtree(made)
    assert Pipeline(RUN).pending() == ["planner", "search", "evaluate"]
    draw, drawn = HierarchicalDiffuser.batch, []

    def counted(model, data, size, rng):
        if size != 10_000:  # not the sample that scales a new model
            drawn.append(size)
            if len(drawn) == 20:
                os.kill(os.getpid(), 15)  # as if someone had stopped the command
        return draw(model, data, size, rng)

    monkeypatch.setattr(HierarchicalDiffuser, "batch", counted)
    with pytest.raises(KeyboardInterrupt):
        Pipeline(RUN).rows()
    assert Pipeline(RUN).pending() == ["planner", "search", "evaluate"]
    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "evaluate", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            Pipeline(RUN).rows()
    assert len(drawn) == Pipeline(RUN).settings.planner.training.steps  # none of them twice
    assert Pipeline(RUN).pending() == ["evaluate"]
    monkeypatch.setattr("scots.models.cache.fit", lambda *_, **__: pytest.fail("trained twice"))
    assert outcome(Pipeline(RUN).rows()) == outcome(rows)


@pytest.mark.slow
def test_what_runs_share_is_made_once(finished: tuple[Path, list[EvalResult]], home: Path):
    shutil.copytree(finished[0], home)
    assert Pipeline(Run(toy.ID, HD, "smoke")).pending() == ["planner", "evaluate"]  # they share the agent
    runs = TABLE.runs(seeds=(0,), profile="smoke")
    assert [line.split("·")[1].strip() for line in work_list(runs).splitlines()[:2]] == [
        "planner hd",
        "evaluate hd + gciql",
    ]
    rows = [row for done in fill(runs) for row in done]
    assert work_list(runs) == "nothing is left to do"
    assert [Recipe.from_dict(row.recipe) for row in rows] == [HD] * 5 + [SCOTS] * 5
    assert [row.search["candidates"] for row in rows] == [1] * 5 + [2] * 5


@pytest.mark.slow
def test_the_table_command_keeps_each_row_once(
    finished: tuple[Path, list[EvalResult]],
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    shutil.copytree(finished[0], home)
    monkeypatch.setitem(TABLES, "toy", TABLE)
    words = ["table", "toy", "--profile", "smoke", "--columns", "SCoTS", "--keep", str(home / "rows.jsonl")]
    for _ in range(2):
        assert main(words) == 0
        lines = (home / "rows.jsonl").read_text().splitlines()
        assert [EvalResult.from_dict(json.loads(line)) for line in lines] == finished[1]
    assert "(100±0)" in capsys.readouterr().out  # beside what others have published


def test_every_piece_of_work_is_listed_once_with_its_time(home: Path):
    table = TABLES["planning"]
    runs = table.runs(["pointmaze-giant-stitch-v0"], ["HD", "SCoTS + search"], seeds=(0, 1))
    lines = work_list(runs).splitlines()
    assert [line.split("·")[1].strip() for line in lines[:-1]] == [
        "collect",
        "planner hd",
        "agent gciql",
        *["evaluate hd + gciql"] * 2,
        "augment scots",
        "planner hd",
        "search",
        *["evaluate hd + gciql"] * 2,
    ]
    minutes = SPECS["pointmaze-giant-stitch-v0"].minutes
    total = sum(minutes[line.split("·")[1].split()[0]] for line in lines[:-1])
    assert lines[-1].split() == [f"{total:.0f}", "min", "in", "all,", "on", "two", "cores"]


def test_the_training_that_planners_share_is_listed_once(home: Path):
    lines = work_list(TABLES["planning"].runs(["pointmaze-giant-stitch-v0"], ["GSC", "CD"])).splitlines()
    work = [line.split("·")[1].strip() for line in lines[:-1]]
    assert work == ["collect", "planner gsc", "agent gciql", "search", "evaluate gsc + gciql", "evaluate cd + gciql"]


def test_what_a_table_does_not_have_is_named():
    with pytest.raises(BadInput, match="'antmaze' cannot be made in this table; it has pointmaze-medium-stitch-v0"):
        TABLES["planning"].runs(["antmaze"])
    with pytest.raises(BadInput, match="'QRL' cannot be made in this table; it has GSC, CD, HD, SCoTS"):
        TABLES["planning"].runs(columns=["QRL"])
    with pytest.raises(BadInput, match="table 'plans' is not one of planning"):
        tables.table_of("plans")


def test_data_without_an_environment_is_refused_before_anything_is_trained(home: Path, tmp_path: Path):
    formats.write(toy.make(episodes=3).with_meta(environment=None, dataset=None), tmp_path / "own.npz")
    with pytest.raises(BadInput, match="no environment is known for it"):
        Pipeline(Run(str(tmp_path / "own.npz"), HD, "smoke")).rows()
    assert not (home / "artifacts").exists()
