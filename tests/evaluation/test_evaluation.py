"""Closed-loop evaluation with planners that know the way: the same for any workers and company, seeds apart."""

import json
import multiprocessing
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from scots.core.errors import BadInput
from scots.core.files import append_rows
from scots.data.trajectories import Array, Meta
from scots.datasets import toy
from scots.envs.maze import Maze, maze_of
from scots.envs.ogbench import PROTOCOLS, make_simulator, meta_of, share_model
from scots.envs.vector import OGBenchMaze, Task, chosen_tasks, own_task, tasks_of
from scots.evaluation import rollout as evaluation
from scots.evaluation.control import GoalController, PlanFollowing, PointPolicy, SubgoalController
from scots.evaluation.rollout import Episode, EvalResult, evaluate, run
from scots.experiments.recipe import Recipe

TOY = toy.make(episodes=1).meta
POINT = meta_of(PROTOCOLS["pointmaze-medium-stitch-v0"])
WORLD = toy.ToyCorridor()


class ShortestPath:
    """The way through a maze, jittered by the generator of each plan; all of it waypoints."""

    spacings = (1,)

    def __init__(self, horizon: int, step: float, noise: float, route) -> None:
        self.horizon, self.step, self.noise, self.route = horizon, step, noise, route

    def outline(self, start: Array, goal: Array, rng: Sequence[np.random.Generator]) -> Array:
        return np.stack([self.one(a, b, own) for a, b, own in zip(start, goal, rng, strict=True)])

    def one(self, start: Array, goal: Array, rng: np.random.Generator) -> Array:
        corners = np.array([start, *self.route(start, goal), goal], dtype=np.float64)
        along = np.concatenate([[0], np.linalg.norm(np.diff(corners, axis=0), axis=1).cumsum()])
        at = np.minimum(np.arange(self.horizon) * self.step, along[-1])
        plan = np.stack([np.interp(at, along, column) for column in corners.T], axis=1)
        plan[1:-1] += rng.normal(0, self.noise, size=plan[1:-1].shape)
        plan[[0, -1]] = start, goal
        return plan.astype(np.float32)

    def infill(self, ends: Array, spacing: int, rng: Sequence[np.random.Generator]) -> Array:
        raise AssertionError("there is nothing between places one step apart")


def through(maze: Maze):
    """Cell centres from the start's cell to the goal's, both left out."""

    def route(start: Array, goal: Array) -> list[Array]:
        cell, last = (tuple(map(int, maze.cell_of(place))) for place in (start, goal))
        centres = []
        while cell != last:
            centres.append(maze.waypoints(last)[cell])
            cell = tuple(map(int, maze.cell_of(centres[-1])))
        return centres[:-1]

    return route


def along_lattice(start: Array, goal: Array) -> list[Array]:
    node, last = (int(WORLD.node_of(place)) for place in (start, goal))
    nodes = []
    while node != last:
        node = WORLD.neighbour(node, WORLD.towards(node, last))
        nodes.append(WORLD.positions[node])
    return nodes


def toy_controller(noise: float = 0.0) -> SubgoalController:
    planner = ShortestPath(horizon=100, step=0.25, noise=noise, endpoint_width=along_lattice)
    return SubgoalController(planner, PointPolicy(), PlanFollowing(10, 1, 0.1 + noise), (0, 1))


def point_controller() -> SubgoalController:
    planner = ShortestPath(horizon=600, step=0.15, noise=0.05, endpoint_width=through(maze_of(POINT)))
    return SubgoalController(planner, PointPolicy(), PlanFollowing(), (0, 1))


def outcome(finished: list[Episode]) -> list[tuple]:
    return [(done.task, done.number, done.success, done.steps, done.observations.tobytes()) for done in finished]


# ---------------------------------------------------------------------------------------------------------------- toy


def test_who_knows_the_way_arrives_by_the_shortest_path():
    for done in run(toy_controller(), TOY, tasks_of(TOY), episodes=4, max_steps=100, workers=1, record=True):
        assert done.success
        first, goal = (WORLD.node_of(place) for place in (done.observations[0], done.goal))
        assert done.steps == WORLD.distances[first, goal] - 1
        assert len(done.observations) == done.steps + 1
        assert (WORLD.distances[WORLD.node_of(done.observations), goal] > 1).tolist() == [True] * done.steps + [False]


@pytest.mark.slow
def test_outcomes_do_not_depend_on_workers_or_company(monkeypatch: pytest.MonkeyPatch):
    """Two workers, all tasks at once, in small waves, or each episode alone: the same to the bit."""
    settings = {"episodes": 4, "max_steps": 60, "record": True}
    expected = outcome(run(toy_controller(noise=0.15), TOY, tasks_of(TOY), workers=1, **settings))
    assert 0 < sum(success for _, _, success, *_ in expected) < len(expected)
    assert outcome(run(toy_controller(noise=0.15), TOY, tasks_of(TOY), workers=2, **settings)) == expected
    alone = [run(toy_controller(noise=0.15), TOY, [task], workers=1, **settings) for task in tasks_of(TOY)]
    assert [one for finished in alone for one in outcome(finished)] == expected
    for together in (1, 7):
        monkeypatch.setattr(evaluation, "TOGETHER", together)
        assert outcome(run(toy_controller(noise=0.15), TOY, tasks_of(TOY), workers=1, **settings)) == expected


def test_environments_and_planners_have_seeds_of_their_own():
    """Another planner sees the same starts and goals; another seed sees others; noise differs between episodes."""
    tasks, settings = tasks_of(TOY), {"episodes": 6, "max_steps": 40, "workers": 1, "record": True}
    runs = [
        run(controller, TOY, tasks, seed=seed, **settings)
        for controller, seed in (
            (toy_controller(noise=0.15), 0),
            (GoalController(PointPolicy()), 0),
            (toy_controller(noise=0.15), 1),
        )
    ]
    problems = [[(*done.observations[0], *done.goal) for done in finished] for finished in runs]
    assert problems[0] == problems[1]
    assert problems[0] != problems[2]
    paths = {done.observations.tobytes() for done in runs[0] if done.task == tasks[0]}
    assert len(paths) == 6


def test_rows_count_successes_under_every_limit(tmp_path: Path):
    meta = Meta.from_dict({**TOY.to_dict(), "provenance": [{"origin": "made here"}, {"origin": "stitched here"}]})
    rows = evaluate(
        toy_controller(),
        meta,
        episodes=4,
        limits=(100, 36),
        workers=1,
        recipe=Recipe(controller="gciql"),
        profile="smoke",
        training_seed=0,
    )
    assert [(row.task, row.max_steps) for row in rows] == [(task, limit) for limit in (36, 100) for task in range(1, 6)]
    assert [row.successes for row in rows if row.max_steps == 100] == [4] * 5
    assert [row.successes for row in rows if row.max_steps == 36] == [4, 0, 0, 0, 0]
    assert [row.steps is None for row in rows] == [row.successes == 0 for row in rows]
    assert {(row.dataset, row.origin, row.episodes) for row in rows} == {(toy.ID, "made here, stitched here", 4)}
    assert rows[0].execution == PlanFollowing(10, 1, 0.1)
    path = tmp_path / "results" / "evaluations.jsonl"
    append_rows(path, [row.to_dict() for row in rows[:4]])
    append_rows(path, [row.to_dict() for row in rows[4:]])
    assert [EvalResult.from_dict(json.loads(line)) for line in path.read_text().splitlines()] == rows


def test_what_cannot_be_evaluated_is_named(tmp_path: Path):
    with pytest.raises(BadInput, match="task 6: toy-corridor-v0 has tasks 1 to 5"):
        chosen_tasks(TOY, [1, 6])
    with pytest.raises(BadInput, match="task 0"):
        chosen_tasks(POINT, [0])
    with pytest.raises(BadInput, match="the goal 2,2 is inside a wall"):
        own_task(TOY, (1, 1), (2, 2))
    with pytest.raises(BadInput, match="the start 9,1 is outside the map of 8 x 8 cells"):
        own_task(POINT, (9, 1), (1, 1))
    with pytest.raises(BadInput, match="the goal 0,0 is inside a wall"):
        run(toy_controller(), TOY, [Task(0, (1, 1), (0, 0))], episodes=1)
    with pytest.raises(BadInput, match="this maze has no tasks; add lines"):
        tasks_of(replace(POINT, environment="pointmaze-mine-v0", maze=("####", "#..#", "####")))
    with pytest.raises(BadInput, match="no environment to evaluate in"):
        tasks_of(Meta(dataset="my-own-logs"))
    with pytest.raises(BadInput, match="at least one of each"):
        run(toy_controller(), TOY, tasks_of(TOY), episodes=0)
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="cannot write"):
        append_rows(tmp_path / "file" / "rows.jsonl", [])


def test_a_task_of_ones_own():
    done = run(toy_controller(), TOY, [own_task(TOY, (5, 1), (5, 4))], episodes=2, max_steps=30, workers=1)
    assert [one.success for one in done] == [True, True]
    assert done[0].observations is None


def test_limits_are_those_of_the_benchmark_and_of_the_reference():
    assert evaluation.step_limits("pointmaze-giant-stitch-v0") == (1000, 2000)
    assert evaluation.step_limits("pointmaze-large-stitch-v0") == (1000,)
    assert evaluation.step_limits("antmaze-large-stitch-v0") == (1000, 2000)
    assert evaluation.step_limits(None) == (1000,)
    assert set(evaluation.STEP_LIMITS) <= set(PROTOCOLS)


# ------------------------------------------------------------------------------------------------------ real simulator


@pytest.mark.mujoco
@pytest.mark.parametrize("name", ["medium", "large", "giant", "teleport"])
def test_tasks_are_those_of_the_simulator(name: str):
    meta = meta_of(PROTOCOLS[f"pointmaze-{name}-stitch-v0"])
    infos = make_simulator(meta).task_infos
    assert [(task.start, task.goal) for task in tasks_of(meta)] == [
        (info["init_ij"], info["goal_ij"]) for info in infos
    ]
    assert [task.number for task in tasks_of(meta)] == [1, 2, 3, 4, 5]


@pytest.mark.mujoco
@pytest.mark.parametrize("agent", ["point", "ant"])
def test_environments_of_one_model_are_as_good_as_their_own(agent: str):
    """Episodes side by side in twins of one environment, stepped in turn, walk as in environments made one by one."""
    meta = meta_of(PROTOCOLS[f"{agent}maze-medium-stitch-v0"])
    first, tasks = make_simulator(meta), tasks_of(meta)
    twins = [OGBenchMaze(meta, share_model(first)) for _ in tasks]
    others = [OGBenchMaze(meta, make_simulator(meta)) for _ in tasks]
    for task, *both in zip(tasks, twins, others, strict=True):
        begun = [np.stack(world.reset(task, np.random.default_rng(task.number))) for world in both]
        np.testing.assert_array_equal(*begun)
    for action in np.random.default_rng(0).uniform(-1, 1, size=(40, *first.action_space.shape)):
        for twin, other in zip(twins, others, strict=True):
            (ours, success), (theirs, wanted) = twin.step(action), other.step(action)
            np.testing.assert_array_equal(ours, theirs)
            assert success == wanted


@pytest.mark.slow
@pytest.mark.mujoco
def test_who_knows_the_way_through_the_real_maze_arrives():
    """Two workers or one: the same paths to the bit. Nothing but success or the limit ends an episode."""
    settings = {"episodes": 2, "max_steps": 600, "record": True}
    found = [run(point_controller(), POINT, tasks_of(POINT), workers=workers, **settings) for workers in (1, 2)]
    assert outcome(found[0]) == outcome(found[1])
    assert all(done.success for done in found[0])
    maze = maze_of(POINT)
    for done in found[0]:
        assert np.linalg.norm(done.observations[-1] - done.goal) <= 1.0 + 1e-5
        assert not maze.in_wall(done.observations).any()
        assert np.linalg.norm(np.diff(done.observations, axis=0), axis=1).max() < 0.3  # clipped actions
        assert tuple(maze.cell_of(done.goal)) == done.task.goal


@pytest.mark.mujoco
def test_truncation_is_ignored():
    """A policy that stays where it is uses every step of a limit above the registered one."""

    class Stay:
        def act(self, observations: Array, goals: Array, rng: np.random.Generator) -> Array:
            return np.zeros((len(observations), 2))

    [done] = run(GoalController(Stay()), POINT, tasks_of(POINT)[:1], episodes=1, max_steps=1100, workers=1)
    assert (done.success, done.steps) == (False, 1100)


@pytest.mark.mujoco
def test_portals_do_not_mix_the_randomness_of_neighbours():
    """Exits are drawn from numpy's global generator: an episode among others must still walk as it does alone."""
    meta = meta_of(PROTOCOLS["pointmaze-teleport-stitch-v0"])
    tasks = [own_task(meta, (4, 6), (5, 1)), own_task(meta, (5, 1), (4, 6))]  # from portal to portal
    settings = {"episodes": 4, "max_steps": 40, "workers": 1, "record": True}
    together = outcome(run(GoalController(PointPolicy()), meta, tasks, **settings))
    apart = [run(GoalController(PointPolicy()), meta, [task], **settings) for task in tasks]
    assert [one for finished in apart for one in outcome(finished)] == together


def test_a_failure_in_a_worker_is_told():
    broken = Meta(environment="pointmaze-nowhere-v0", maze=("###", "#.#", "###"))
    task = tasks_of(POINT)[0]
    with pytest.raises(BadInput, match="at least two free cells"):
        run(point_controller(), broken, [task], episodes=2, workers=2)


def test_a_killed_worker_is_noticed():
    class Killer(GoalController):
        def act(self, episodes: Array, observations: Array, goals: Array) -> Array:
            for process in multiprocessing.active_children():
                process.kill()
                process.join()
            return super().act(episodes, observations, goals)

    with pytest.raises(RuntimeError, match="was killed"):
        run(Killer(PointPolicy()), TOY, tasks_of(TOY), episodes=1, workers=2)


def test_workers_load_no_networks():
    code = "import sys, scots.envs.vector; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert "torch" not in loaded
