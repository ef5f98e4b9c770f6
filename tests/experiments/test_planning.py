"""Plans without an environment: from start to goal, chosen by cost, honest about themselves, refused far outside."""

import doctest
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from members import StraightConfig, StraightPlanner

import scots
import scots.agents.base
from scots.cli import main
from scots.core.errors import BadInput
from scots.data import formats
from scots.data.geography import to_degrees
from scots.data.inspection import inspect
from scots.data.support import Support
from scots.data.trajectories import Array, Meta, Trajectories
from scots.datasets import toy
from scots.experiments import planning
from scots.experiments.models import SearchParts, load_model, train_model
from scots.experiments.planning import (
    PlannedPath,
    nearest_recorded,
    off_support_share,
    plan,
    read_pairs,
    search_parts,
    to_trajectories,
    until_arrival,
    write_plans,
)
from scots.models.training import fit
from scots.planners.base import PlannerModel
from scots.planners.hd import HierarchicalDiffuser

TOY = toy.make(episodes=40)
SPEED = np.linspace(0, 1, TOY.rows, dtype=np.float32)[:, None]
DATA = replace(  # as an own log: a state beyond the position, no environment
    TOY,
    observations=np.concatenate([SPEED, TOY.observations], axis=1),
    meta=Meta(columns=("speed", "x", "y"), position=(1, 2)),
)
START, GOAL = TOY.positions[0], TOY.positions[70]
FEW = {"training.steps": 5}


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCOTS_HOME", str(tmp_path / "home"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A planner, with what its plans are compared by."""
    root = tmp_path_factory.mktemp("planner")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SCOTS_HOME", str(root / "home"))
        train_model("hd", DATA, profile="smoke", folder=root / "hd", recorded=DATA, changes=FEW)
    return root / "hd"


@pytest.fixture(scope="module")
def planner(folder: Path) -> PlannerModel:
    return HierarchicalDiffuser.load(folder)


def same(first: PlannedPath, second: PlannedPath) -> bool:
    return np.array_equal(first.positions, second.positions) and str(first) == str(second)


# --------------------------------------------------------------------------------------------------------------- plans


def test_a_plan_leads_from_start_to_goal_and_says_what_it_is(planner: PlannerModel, folder: Path):
    [path] = scots.plan(planner, START, GOAL)
    assert path.columns == ("x", "y")
    assert np.array_equal(path.positions[[0, -1]], [START, GOAL])
    assert len(path.candidates) == len(path.candidate_costs) == 8
    assert path.cost <= min(path.candidate_costs) or path.replaced  # recorded ways may be longer than what leaves them
    assert all(np.array_equal(own.positions[[0, -1]], [START, GOAL]) for own in path.candidates)
    assert path.steps > 0
    assert path.cost >= (1 - 1e-6) * 0.1 * path.steps  # all that is added to the price of its length are faults
    assert path.off_support == off_support_share(Support.of(DATA), path.positions)
    assert f"about {path.steps:.0f} steps, cost {path.cost:.1f}" in str(path)
    assert same(path, scots.plan(str(folder), START, GOAL)[0])  # a folder says as much as the model


def test_a_plan_depends_on_its_seed_and_not_on_the_others(planner: PlannerModel):
    goals = TOY.positions[[70, 300, 500]]
    together = plan(planner, START, goals, candidates=3)
    [again] = plan(planner, START, goals[0], candidates=3)
    assert np.allclose(together[0].positions, again.positions, atol=1e-5)  # batches may round otherwise
    [drawn], [other] = (plan(planner, START, goals[0], candidates=3, seed=seed, search=False) for seed in (0, 1))
    assert not np.array_equal(drawn.positions, other.positions)
    for path, goal in zip(together, goals, strict=True):
        assert np.array_equal(path.positions[[0, -1]], [START, goal])


def test_many_pairs_are_planned_block_by_block(planner: PlannerModel, monkeypatch: pytest.MonkeyPatch):
    goals = TOY.positions[[70, 300, 500]]
    at_once = plan(planner, START, goals, candidates=2)
    monkeypatch.setattr(planning, "_TOGETHER", 2)
    for whole, block in zip(at_once, plan(planner, START, goals, candidates=2), strict=True):
        assert np.allclose(whole.positions, block.positions, atol=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_more_candidates_never_cost_more_than_one(planner: PlannerModel, seed: int):
    """The plan that is drawn alone is among the candidates."""
    alone, *several = (plan(planner, START, GOAL, candidates=count, seed=seed, search=False)[0] for count in (1, 2, 6))
    assert np.array_equal(
        alone.positions, until_arrival(alone.candidates[0].positions, search_parts(planner).support.step)
    )
    for path in several:
        stride = planner.config.stride
        waypoints = [own.candidates[0].positions[::stride] for own in (alone, path)]
        assert np.allclose(*waypoints, atol=1e-5)
        assert path.cost <= alone.cost + 1e-3
        assert path.cost == min(path.candidate_costs)


def test_a_planner_without_bridges_is_compared_plan_by_plan(tmp_path: Path, folder: Path):
    straight = StraightPlanner.for_data(StraightConfig(), TOY)
    fit(straight, TOY, seed=0, folder=tmp_path / "straight")
    SearchParts.load(folder / "search").save(tmp_path / "straight" / "search")
    straight.meta = DATA.meta
    ahead = TOY.positions[9]  # straight on: a line to it keeps to the data
    first, second = plan(straight, START, [ahead, START], candidates=3)
    line = START + np.linspace(0, 1, 12)[:, None] * (ahead - START)
    assert np.allclose(first.positions, until_arrival(line, Support.of(DATA).step), atol=1e-5)
    assert len(first.candidates) == 3
    assert second.positions.tolist() == [START.tolist()] * 2  # at the goal from the beginning


def test_a_plan_through_a_wall_takes_recorded_ways_instead(tmp_path: Path, folder: Path):
    straight = StraightPlanner.for_data(StraightConfig(), TOY)
    fit(straight, TOY, seed=0, folder=tmp_path / "straight")
    SearchParts.load(folder / "search").save(tmp_path / "straight" / "search")
    straight.meta = DATA.meta
    [drawn] = plan(straight, START, GOAL, candidates=1)
    [kept] = plan(straight, START, GOAL, candidates=2)
    assert (drawn.replaced, drawn.off_support > 0) == (0, True)
    assert (kept.replaced > 0.5, kept.off_support) == (True, 0)
    assert "along recorded ways, where the plan as drawn left the data" in str(kept)
    recorded = {tuple(position) for position in TOY.positions.tolist()}
    assert {tuple(position) for position in kept.positions.tolist()} <= recorded
    np.testing.assert_array_equal(kept.positions[[0, -1]], [START, GOAL])


def test_whole_states_are_planned_by_their_position(planner: PlannerModel):
    [path] = plan(planner, DATA.observations[0], DATA.observations[70], candidates=2)
    assert same(path, plan(planner, START, GOAL, candidates=2)[0])


@given(st.lists(st.integers(0, 9), min_size=2, max_size=30))
def test_the_wait_at_the_goal_is_left_out(distances: list[int]):
    """Beside a loop that walks back from the end."""
    positions = np.array([*distances, 0], dtype=np.float32)[:, None]
    arrival = len(positions) - 1
    while arrival > 1 and distances[arrival - 1] <= 2:
        arrival -= 1
    kept = until_arrival(positions, step=2)
    assert kept[:, 0].tolist() == [*positions[:arrival, 0], 0]


# ------------------------------------------------------------------------------------------------- starts and goals


@pytest.mark.parametrize(
    ("start", "goal", "complaint"),
    [
        ((1, 1, 1, 1), (1, 1), r"start: expected 2 values \(x, y\), or a whole state of 3; got shape \(1, 4\)"),
        (1.0, (1, 1), r"start: expected 2 values .* got shape \(1, 1\)"),
        ((1, 1), np.zeros((1, 1, 2)), r"goal: expected 2 values .* got shape \(1, 1, 2\)"),
        ((1, 1), np.zeros((0, 2)), r"goal: expected 2 values .* got shape \(0, 2\)"),
        ((1, 1), [(1, 1), (1, 1, 1)], "goal: expected numbers"),
        ("here", (1, 1), "start: expected numbers"),
        ((1, np.nan), (1, 1), "start 0: is not finite"),
        ((1, 1), [(1, 1), (1e39, 1)], "goal 1: is not finite"),
        (np.ones((2, 2)), np.ones((3, 2)), "2 starts and 3 goals: give as many of each, or one of either"),
    ],
)
def test_wrong_shapes_are_named(planner: PlannerModel, start, goal, complaint: str):
    with pytest.raises(BadInput, match=complaint):
        plan(planner, start, goal)


def test_ends_far_outside_are_refused_with_how_far(planner: PlannerModel, capsys: pytest.CaptureFixture[str]):
    """Steps are a quarter of a cell, boxes twice that: the walks end at (7, 5), their boxes at 7.5."""
    with pytest.raises(BadInput) as refused:
        plan(planner, START, [GOAL, (9.5, 5.1)])
    found = "goal 1, (9.5, 5.1), is 2 (8 median steps) outside the recorded data"
    assert f"{found}; the nearest recorded position is about (7.25, 5.25); move it there" in str(refused.value)
    with pytest.raises(BadInput, match=r"start 0, \(9.5, 5.1\)"):
        plan(planner, (9.5, 5.1), GOAL)
    [near] = plan(planner, START, (8.4, 5.1), candidates=1)
    assert near.positions[-1].tolist() == pytest.approx([8.4, 5.1])
    capsys.readouterr()
    _, far = plan(planner, START, [GOAL, (9.5, 5.1)], candidates=1, allow_outside=True)
    assert far.positions[-1].tolist() == pytest.approx([9.5, 5.1])
    assert f"warning: {found}" in capsys.readouterr().err


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, unique=True), st.integers(0, 2**32 - 1))
def test_distance_to_the_support_is_that_of_a_loop(boxes: list[tuple[int, int]], seed: int):
    low, edge = np.array([-3.0, 2.0], dtype=np.float32), np.array(0.5, dtype=np.float32)
    support = Support(low, edge, np.array(boxes, dtype=np.int32))
    position = np.random.default_rng(seed).uniform(-6, 8, size=2).astype(np.float32)

    def gap(box: tuple[int, int]) -> float:
        first = low + np.array(box) * edge
        return float(np.linalg.norm(position - np.clip(position, first, first + edge)))

    distance, center = nearest_recorded(support, position)
    assert distance == pytest.approx(min(map(gap, boxes)), abs=1e-5)
    assert support.covers(center)
    if support.covers(position):
        assert distance == pytest.approx(0, abs=1e-5)


def test_states_are_off_support_a_step_beyond_its_boxes():
    support = Support(np.zeros(2, dtype="f4"), np.array(2, dtype="f4"), np.array([[0, 0], [5, 0]], dtype=np.int32))
    assert support.step == 1
    positions = np.array(
        [[1, 1], [2.9, 1], [-0.9, 1], [2.6, 2.6], [10.5, 1], [3.1, 1], [1, -1.1], [2.8, 2.8]], dtype="f4"
    )
    assert off_support_share(support, positions) == 3 / 8


def test_what_does_not_plan_is_refused(tmp_path: Path, folder: Path):
    train_model("gciql", TOY, profile="smoke", folder=tmp_path / "agent", changes=FEW)
    with pytest.raises(BadInput, match="GCIQL does not plan: give a planner"):
        plan(tmp_path / "agent", START, GOAL)
    train_model("hd", TOY, profile="smoke", folder=tmp_path / "hd", changes=FEW)
    with pytest.raises(BadInput, match=r"hd: has no embedding and support .* again with --recorded DATA"):
        plan(tmp_path / "hd", START, GOAL)
    train_model("hd", TOY, profile="smoke", folder=tmp_path / "hd", recorded=TOY, changes=FEW)  # as the error says
    assert len(plan(tmp_path / "hd", START, GOAL, candidates=2)) == 1
    with pytest.raises(BadInput, match="candidates 0: at least one plan"):
        plan(folder, START, GOAL, candidates=0)
    with pytest.raises(BadInput, match="candidates 10000000: at most 1000"):
        plan(folder, START, GOAL, candidates=10_000_000)
    with pytest.raises(BadInput, match="seed -1"):
        plan(folder, START, GOAL, seed=-1)


# --------------------------------------------------------------------------------------------------------------- files


def test_pairs_are_read_by_column_name(tmp_path: Path):
    file = tmp_path / "pairs.csv"
    file.write_text("\ufeffgoal_y,name,start_x,start_y,goal_x\n4,home,1,2,3\n-8,work,5,6,7e0\n")
    starts, goals = read_pairs(file, ("x", "y"))
    assert starts.tolist() == [[1, 2], [5, 6]]
    assert goals.tolist() == [[3, 4], [7, -8]]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (None, "no such file"),
        ("", "no column 'start_x'; the header needs start_x,start_y,goal_x,goal_y"),
        ("start_x,start_y,goal_x\n1,2,3\n", "no column 'goal_y'"),
        ("start_x,start_y,goal_x,goal_y\n", "no rows below the header"),
        ("start_x,start_y,goal_x,goal_y\n1,2,3,4\n1,2,3,north\n", "line 3: column 'goal_y': 'north' is not a number"),
        ("start_x,start_y,goal_x,goal_y\n1,2,3\n", "line 2: column 'goal_y': None is not a number"),
    ],
)
def test_malformed_pairs_are_named(tmp_path: Path, text: str | None, complaint: str):
    if text is not None:
        (tmp_path / "pairs.csv").write_text(text)
    with pytest.raises(BadInput, match=complaint):
        read_pairs(tmp_path / "pairs.csv", ("x", "y"))


def path_of(positions: Array, **said: float) -> PlannedPath:
    return PlannedPath(
        positions,
        ("x", "y, north"),
        **{"cost": 1.5, "steps": 2, "off_support": 0.5, "replaced": 0.0, **said},
        candidates=(),
        candidate_costs=(),
    )


def test_written_plans_are_read_back(tmp_path: Path):
    rng = np.random.default_rng(0)
    paths = [path_of(rng.normal(size=(3, 2)).astype("f4")), path_of(rng.normal(size=(5, 2)).astype("f4"), cost=4.0)]
    for name in ("plans.csv", "plans.npz"):
        write_plans(paths, tmp_path / name)
    header, *rows = (tmp_path / "plans.csv").read_text().splitlines()
    assert header == 'plan,step,x,"y, north"'
    table = np.array([row.split(",") for row in rows], dtype=np.float64)
    assert table[:, :2].tolist() == [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2], [1, 3], [1, 4]]
    assert np.array_equal(table[:, 2:].astype("f4"), np.concatenate([path.positions for path in paths]))
    data = formats.read(tmp_path / "plans.npz")
    assert data.equals(to_trajectories(paths))
    assert inspect(data).facts["episodes"] == 2
    assert [said["cost"] for said in data.meta.provenance[0]["plans"]] == [1.5, 4.0]
    assert data.meta.origin == "planned here"
    with pytest.raises(BadInput, match=r"plans are written as .csv or .npz"):
        write_plans(paths, tmp_path / "plans.txt")


# ------------------------------------------------------------------------------------------- angles, degrees, seconds

ORIGIN = (48.1, 11.5)
EVERY = 2.0


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A planner of tracks that were recorded in degrees, with a heading, and made even."""
    root, heading = tmp_path_factory.mktemp("driver"), 360 * SPEED % 360
    meta = Meta(
        columns=("x", "y", "heading"),
        position=(0, 1),
        angles=((2, 360.0),),
        geo_origin=ORIGIN,
        provenance=({"origin": "resampled", "every": EVERY, "resampling": "nothing dropped"},),
    )
    driven = Trajectories(np.concatenate([TOY.observations, heading], axis=1), TOY.offsets, meta=meta)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SCOTS_HOME", str(root / "home"))
        train_model("hd", driven, profile="smoke", folder=root / "hd", recorded=driven, changes=FEW)
    return root / "hd"


def test_a_whole_state_may_hold_angles(driver: Path):
    [by_state] = plan(str(driver), [*START, 90.0], GOAL, candidates=1)
    assert same(by_state, plan(str(driver), START, GOAL, candidates=1)[0])
    with pytest.raises(BadInput, match=r"expected 2 values \(x, y\), or a whole state of 3; got shape \(1, 4\)"):
        plan(str(driver), [*START, 0.0, 1.0], GOAL)


def degrees_of(position: Array) -> tuple[float, float]:
    lat, lon = to_degrees(position[:1], position[1:], ORIGIN)
    return float(lat[0]), float(lon[0])


def test_degrees_go_in_and_come_out(driver: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (start_lat, start_lon), (goal_lat, goal_lon) = map(degrees_of, (START, GOAL))
    ends = ["--start", f"lat={start_lat},lon={start_lon}", "--goal", f"longitude={goal_lon},latitude={goal_lat}"]
    files = tmp_path / "plan.csv", tmp_path / "plan.npz", tmp_path / "back.csv"
    for file in files[:2]:
        assert main(["plan", str(driver), *ends, "--candidates", "1", "--out", str(file)]) == 0
    header, *rows = [line.split(",") for line in files[0].read_text().splitlines()]
    assert header == ["plan", "step", "seconds", "x", "y", "latitude", "longitude"]
    table = np.array(rows, dtype=np.float64)
    assert np.array_equal(table[:, 2], EVERY * table[:, 1])
    assert table[[0, -1], 3:5] == pytest.approx(np.stack([START, GOAL]), abs=1e-4)
    assert table[[0, -1], 5:] == pytest.approx(np.array([[start_lat, start_lon], [goal_lat, goal_lon]]), abs=1e-7)
    saved = formats.read(files[1])
    assert saved.meta.geo_origin == ORIGIN
    assert np.array_equal(saved.times, table[:, 2])
    assert main(["data", "convert", str(files[1]), str(files[2]), "--geographic"]) == 0
    pairs = tmp_path / "pairs.csv"
    pairs.write_text(f"start_lat,start_lon,goal_lat,goal_lon\n{start_lat},{start_lon},{goal_lat},{goal_lon}\n")
    capsys.readouterr()
    assert main(["plan", str(driver), *ends, "--candidates", "1"]) == 0
    by_flags = capsys.readouterr().out
    assert main(["plan", str(driver), "--pairs", str(pairs), "--candidates", "1"]) == 0
    assert capsys.readouterr().out == by_flags


@pytest.mark.parametrize(
    ("start", "complaint"),
    [
        ("48.11,11.52", r"in metres around 48.1,11.5, or lat=\S+,lon=11.5\d+ in degrees; move it there"),
        ("lat=48.11", "--start lat=48.11: expected a position in degrees, such as --start lat=48.11,lon=11.52"),
        ("lat=48.11,lon=east", "expected numbers"),
        ("lat=481.1,lon=11.5", "no latitude and longitude in degrees"),
        ("1e30,0", r"start 0, \(1e\+30, 0\), is 1e\+30"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_what_is_no_place_in_the_data_says_how_places_are_given(
    driver: Path, start: str, complaint: str, capsys: pytest.CaptureFixture[str]
):
    assert main(["plan", str(driver), "--start", start, "--goal", "1,1"]) == 2
    assert re.search(complaint, capsys.readouterr().err)


def test_degrees_need_data_that_had_them(folder: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["plan", str(folder), "--start", "lat=1,lon=1", "--goal", "1,1"]) == 2
    assert "the data of this planner had no latitude and longitude; give x,y" in capsys.readouterr().err


# -------------------------------------------------------------------------------------------------------------- models


@pytest.mark.slow
def test_every_kind_of_model_is_loaded_from_its_folder(tmp_path: Path, folder: Path):
    scots.augment(TOY, profile="smoke", changes={"trajectories": 2, "stitching.segment": 9})
    kinds = {json.loads(file.read_text())["model"]: file.parent for file in tmp_path.rglob("config.json")}
    assert set(kinds) == {"TemporalDistance", "Stitcher", "InverseDynamics"}
    train_model("crl", TOY, profile="smoke", folder=tmp_path / "crl", changes=FEW)
    for name, own in {**kinds, "HierarchicalDiffuser": folder, "CRL": tmp_path / "crl"}.items():
        model = scots.load_model(str(own))
        assert type(model).__name__ == name
        assert model.folder == own
    with pytest.raises(BadInput, match="a TemporalDistance does not act"):
        scots.evaluate(load_model(folder / "search" / "embedding"))


@pytest.mark.slow
@pytest.mark.parametrize("documented", [scots.plan, scots.load_model, scots.agents.base.Agent.act])
def test_examples_in_docstrings_run(documented):
    [test] = doctest.DocTestFinder().find(documented, "example", globs={"scots": scots, "np": np})
    assert test.examples
    assert doctest.DocTestRunner().run(test).failed == 0


def test_columns_without_names_are_x_and_y(tmp_path: Path):
    nameless = Trajectories(TOY.observations, TOY.offsets, meta=Meta(position=(1, 0)))
    model = train_model("hd", nameless, profile="smoke", folder=tmp_path / "hd", recorded=nameless, changes=FEW)
    [path] = plan(model, START[::-1], GOAL[::-1], candidates=1)
    assert path.columns == ("x", "y")
    assert search_parts(model).support.covers(path.positions[0])
