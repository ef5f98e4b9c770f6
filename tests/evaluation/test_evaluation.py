"""Closed-loop evaluation with planners that know the way: the same for any workers and company, seeds apart."""

import json
import multiprocessing
import subprocess
import sys
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest

from scots.core.errors import BadInput
from scots.core.files import append_rows
from scots.core.versions import code_version
from scots.data.trajectories import Array, Meta
from scots.datasets import toy
from scots.datasets.loading import known_meta
from scots.envs import ENVIRONMENTS, tasks_of
from scots.envs.base import Environment, Step, Task
from scots.envs.maze import Maze, maze_of
from scots.envs.ogbench import OGBenchMaze, make_simulator, share_model
from scots.envs.toy import ToyCorridor, ToyEnvironment
from scots.envs.vector import vector_environment
from scots.evaluation import rollout
from scots.evaluation.control import Controller, GoalController, PlanFollowing, PointPolicy, SubgoalController
from scots.evaluation.results import EvalResult, Subject, evaluate
from scots.evaluation.rollout import Episode, run_episodes
from scots.planners.base import Plan

TOY = toy.make(episodes=1).meta
POINT = known_meta("pointmaze-medium-stitch-v0")
WORLD = ToyCorridor()


class ShortestPath:
    """The way through a maze, jittered by the seed of each plan; all of it at once."""

    def __init__(self, horizon: int, step: float, noise: float, route) -> None:
        self.horizon, self.step, self.noise, self.route = horizon, step, noise, route

    def plan(self, start: Array, goal: Array, seeds: Sequence[int]) -> list[Plan]:
        return [Plan(self.one(*own), own[2]) for own in zip(start, goal, seeds, strict=True)]

    def one(self, start: Array, goal: Array, seed: int) -> Array:
        corners = np.array([start, *self.route(start, goal), goal], dtype=np.float64)
        along = np.concatenate([[0], np.linalg.norm(np.diff(corners, axis=0), axis=1).cumsum()])
        at = np.minimum(np.arange(self.horizon) * self.step, along[-1])
        plan = np.stack([np.interp(at, along, column) for column in corners.T], axis=1)
        plan[1:-1] += np.random.default_rng(seed).normal(0, self.noise, size=plan[1:-1].shape)
        plan[[0, -1]] = start, goal
        return plan.astype(np.float32)

    def fill_in(self, plans: Sequence[Plan], first: Sequence[int], last: Sequence[int]) -> None:
        raise AssertionError("there is nothing to fill in")


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
    planner = ShortestPath(horizon=100, step=0.25, noise=noise, route=along_lattice)
    return SubgoalController(planner, PointPolicy(), PlanFollowing(10, 1, 0.1 + noise), (0, 1))


def point_controller() -> SubgoalController:
    planner = ShortestPath(horizon=600, step=0.15, noise=0.05, route=through(maze_of(POINT)))
    return SubgoalController(planner, PointPolicy(), PlanFollowing(), (0, 1))


def outcome(finished: list[Episode]) -> list[tuple]:
    return [(done.task, done.number, done.success, done.steps, done.observations.tobytes()) for done in finished]


# ---------------------------------------------------------------------------------------------------------------- toy


def test_who_knows_the_way_arrives_by_the_shortest_path():
    for done in run_episodes(toy_controller(), TOY, tasks_of(TOY), episodes=4, max_steps=100, workers=1, record=True):
        assert done.success
        first, goal = (WORLD.node_of(place) for place in (done.observations[0], done.goal))
        assert done.steps == WORLD.distances[first, goal] - 1
        assert len(done.observations) == done.steps + 1
        assert (WORLD.distances[WORLD.node_of(done.observations), goal] > 1).tolist() == [True] * done.steps + [False]


class Resting(PointPolicy):
    """Never goes anywhere."""

    def act(self, observations: Array, goals: Array, rng: Any = None) -> Array:
        return np.zeros((len(observations), 2), dtype=np.float32)


@pytest.mark.parametrize("policy", [Resting(), PointPolicy()])
def test_progress_is_counted_in_steps_so_that_episodes_without_end_have_an_eta_too(
    policy: PointPolicy, monkeypatch: pytest.MonkeyPatch
):
    advances, totals = [], []

    class Bar:
        advance = staticmethod(advances.append)

    @contextmanager
    def progress(label: str, total: int, unit: str):
        totals.append((total, unit))
        yield Bar()

    monkeypatch.setattr(rollout, "progress", progress)
    tasks = tasks_of(TOY)
    finished = run_episodes(GoalController(policy), TOY, tasks, episodes=3, max_steps=20, workers=1)
    assert totals == [(3 * len(tasks) * 20, "steps")]
    if isinstance(policy, Resting):
        assert not any(done.success for done in finished)
        assert advances == [3 * len(tasks)] * 20
    assert sum(advances) == 3 * len(tasks) * 20


def test_absurd_numbers_of_episodes_are_refused_at_once():
    with pytest.raises(
        BadInput, match=r"1,000,000,000,000 episodes of 100 steps: that makes 500,000,000,000,000 steps"
    ):
        run_episodes(toy_controller(), TOY, tasks_of(TOY), episodes=10**12, max_steps=100)


@pytest.mark.slow
def test_outcomes_do_not_depend_on_workers_or_company(monkeypatch: pytest.MonkeyPatch):
    """Two workers, all tasks at once, in small waves, or each episode alone: the same to the bit."""
    settings = {"episodes": 4, "max_steps": 60, "record": True}
    expected = outcome(run_episodes(toy_controller(noise=0.15), TOY, tasks_of(TOY), workers=1, **settings))
    assert 0 < sum(success for _, _, success, *_ in expected) < len(expected)
    assert outcome(run_episodes(toy_controller(noise=0.15), TOY, tasks_of(TOY), workers=2, **settings)) == expected
    alone = [run_episodes(toy_controller(noise=0.15), TOY, [task], workers=1, **settings) for task in tasks_of(TOY)]
    assert [one for finished in alone for one in outcome(finished)] == expected
    for together in (1, 7):
        monkeypatch.setattr(rollout, "_EPISODES_TOGETHER", together)
        assert outcome(run_episodes(toy_controller(noise=0.15), TOY, tasks_of(TOY), workers=1, **settings)) == expected


def test_environments_and_planners_have_seeds_of_their_own():
    """Another planner sees the same starts and goals; another seed sees others; noise differs between episodes."""
    tasks, settings = tasks_of(TOY), {"episodes": 6, "max_steps": 40, "workers": 1, "record": True}
    runs = [
        run_episodes(controller, TOY, tasks, seed=seed, **settings)
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


# --------------------------------------------------------------------------------------------------------------- rows


def subject(controller: Controller, meta: Meta, **known: Any) -> Subject:
    return Subject(controller, meta, {"agent": "gciql"}, "smoke", training_seed=7, **{"step_limits": (1000,)} | known)


def test_rows_count_successes_under_every_limit(tmp_path: Path):
    """One run serves both limits, and the rows survive their file."""
    rows = evaluate(subject(toy_controller(), TOY), episodes=4, limits=(100, 36), workers=1)
    assert [(row.task, row.max_steps) for row in rows] == [(task, limit) for limit in (36, 100) for task in range(1, 6)]
    assert [row.successes for row in rows if row.max_steps == 100] == [4] * 5
    assert [row.successes for row in rows if row.max_steps == 36] == [4, 0, 0, 0, 0]
    assert [row.steps is None for row in rows] == [row.successes == 0 for row in rows]
    path = tmp_path / "results" / "evaluations.jsonl"
    append_rows(path, [row.to_dict() for row in rows[:4]])
    append_rows(path, [row.to_dict() for row in rows[4:]])
    assert [EvalResult.from_dict(json.loads(line)) for line in path.read_text().splitlines()] == rows


def test_one_run_for_two_limits_gives_the_rows_of_two_runs():
    limits, options = (36, 100), {"episodes": 3, "workers": 1}
    together = evaluate(subject(toy_controller(0.15), TOY), limits=limits, **options)
    apart = [row for limit in limits for row in evaluate(subject(toy_controller(0.15), TOY), limits=[limit], **options)]
    varies = {
        "date": "",
        "seconds": 0,
        "failures": {},
        "planning": {},
        "peak_memory": 0,
        "speed": 0,
    }  # one that arrives later on was only out of time
    assert [replace(row, **varies) for row in together] == [replace(row, **varies) for row in apart]
    assert len({row.successes for row in together}) > 2
    for row in [*together, *apart]:
        assert sum(row.failures.values()) == row.episodes - row.successes


def test_rows_say_how_far_a_step_goes_and_how_much_memory_there_was():
    """The path of every episode, summed by a loop over its recorded positions; any Python takes more than 10 MB."""
    options = {"episodes": 2, "workers": 1}
    (task,) = tasks_of(TOY, [2])
    paths = run_episodes(toy_controller(0.15), TOY, [task], max_steps=60, record=True, **options)
    walked = [sum(np.linalg.norm(b[:2] - a[:2]) for a, b in pairwise(done.observations)) for done in paths]
    assert [done.travelled for done in paths] == pytest.approx(walked)
    (row,) = evaluate(subject(toy_controller(0.15), TOY), [task], limits=(60,), **options)
    assert row.speed == pytest.approx(sum(walked) / sum(done.steps for done in paths), abs=1e-4)
    assert row.speed > 0
    assert 1e7 < row.peak_memory < 1e12


def test_random_pairs_are_one_row():
    tasks = ToyEnvironment.random_tasks(TOY, 12, seed=0)
    (row,) = evaluate(subject(toy_controller(), TOY), tasks, episodes=1, limits=(100,), workers=1)
    assert (row.task, row.episodes, row.successes, row.failures) == (0, 12, 12, {})


def test_rows_say_what_decided_them():
    meta = replace(TOY, provenance=({"origin": "made here"}, {"origin": "augmented here"}))
    known = {"following": {"lookahead": 1}, "search": {"candidates": 2}, "step_limits": (5, 9)}
    made = {"stages": {"planner": 1.5}, "artifacts": {"planner": "planner-0"}}
    begun = datetime.now(UTC).replace(microsecond=0)
    rows = evaluate(subject(toy_controller(), meta, **known, **made), tasks_of(TOY, [2]), episodes=2, seed=3, workers=1)
    assert [row.max_steps for row in rows] == [5, 9]  # those of the dataset
    row = rows[0]
    assert (row.dataset, row.origin) == (toy.ID, "made here, augmented here")
    assert (row.recipe, row.profile, row.training_seed) == ({"agent": "gciql"}, "smoke", 7)
    assert (row.seed, row.task, row.episodes) == (3, 2, 2)
    assert (row.following, row.search) == (known["following"], known["search"])
    assert (row.stages, row.artifacts) == ({"planner": 1.5}, {"planner": "planner-0"})
    assert set(row.versions) == {"scots", "torch"}  # the toy has no simulator
    assert row.commit == code_version()
    assert begun <= datetime.fromisoformat(row.date) <= datetime.now(UTC)
    assert row.seconds > 0


def test_a_task_that_is_named_twice_is_evaluated_once():
    rows = evaluate(subject(toy_controller(), TOY), tasks_of(TOY, [1, 2, 1]), episodes=2, limits=(50, 50), workers=1)
    assert [(row.task, row.max_steps) for row in rows] == [(1, 50), (2, 50)]
    assert max(row.successes for row in rows) <= 2


class Ledge(Environment):
    """A walk along a line: each step to the right earns its length; past 3 it falls, which ends it without success."""

    @classmethod
    def tasks(cls, meta: Meta) -> tuple[Task, ...]:
        return (Task(1),)

    @classmethod
    def make(cls, meta: Meta, count: int) -> list[Self]:
        return [cls() for _ in range(count)]

    def reset(self, task: Task, rng: np.random.Generator) -> tuple[Array, Array | None]:
        self.at = np.zeros(1, dtype=np.float32)
        return self.at, None

    def step(self, action: Array) -> Step:
        self.at = self.at + np.float32(action[0])
        return Step(self.at, float(action[0]), success=False, done=bool(self.at[0] > 3))


class HalfLedge(Ledge):
    """Some of its tasks have a goal."""

    def reset(self, task: Task, rng: np.random.Generator) -> tuple[Array, Array | None]:
        return np.zeros(1, dtype=np.float32), np.array(task.goal, dtype=np.float32) if task.goal else None


class Runner:
    """A controller for tasks without goals: episode n goes n steps of a half to the right, then stays."""

    def begin(self, seeds: Sequence[int]) -> None:
        self.left = np.arange(len(seeds))

    def act(self, episodes: Array, observations: Array, goals: Array | None) -> Array:
        assert goals is None
        going = self.left[episodes] > 0
        self.left[episodes] -= 1
        return np.where(going, 0.5, 0.0)[:, None]


@pytest.fixture
def ledge(monkeypatch: pytest.MonkeyPatch) -> Meta:
    monkeypatch.setitem(ENVIRONMENTS, "ledge", Ledge)
    return Meta(dataset="ledge-walks", environment="ledge-v0")


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_tasks_with_and_without_goals_are_not_mixed(workers: int, ledge: Meta):
    with (
        vector_environment(HalfLedge, ledge, 2, workers) as environments,
        pytest.raises(BadInput, match="with and without goals cannot be run together"),
    ):
        environments.reset([(Task(1), 0), (Task(2, (), (3.0,)), 0)], seed=0)


def test_a_fall_ends_an_episode_without_success(ledge: Meta):
    done = run_episodes(Runner(), ledge, tasks_of(ledge), episodes=9, max_steps=20, workers=1, record=True)
    assert [one.steps for one in done] == [20] * 7 + [7] * 2  # the seventh step leads past 3
    assert not any(one.success for one in done)
    assert [one.rewards.sum() for one in done] == [0.5 * min(n, 7) for n in range(9)]
    assert [len(one.observations) for one in done] == [one.steps + 1 for one in done]
    assert all(one.goal is None for one in done)


def test_returns_are_sums_within_the_limit_and_normalized_where_it_is_known_how(ledge: Meta):
    known = {"step_limits": (2, 20), "reference_returns": (-1.0, 3.0)}
    rows = evaluate(subject(Runner(), ledge, **known), episodes=3, workers=1)
    assert [(row.max_steps, row.mean_return) for row in rows] == [(2, 0.5), (20, 0.5)]  # 0, 0.5 and 1
    rows = evaluate(subject(Runner(), ledge, **known), episodes=9, workers=1)
    assert [row.mean_return for row in rows] == pytest.approx(
        [(0 + 0.5 + 7) / 9, 0.5 * (0 + 1 + 2 + 3 + 4 + 5 + 6 + 7 + 7) / 9]
    )
    assert [row.normalized_return for row in rows] == [pytest.approx(25 * (row.mean_return + 1)) for row in rows]
    assert [(row.successes, row.steps) for row in rows] == [(None, None)] * 2
    (unknown,) = evaluate(subject(Runner(), ledge), episodes=1, workers=1)
    assert unknown.normalized_return is None


def test_the_toy_pays_minus_one_a_step_until_the_goal():
    (row,) = evaluate(subject(toy_controller(), TOY), tasks_of(TOY, [1]), episodes=1, limits=(100,), workers=1)
    assert row.successes == 1
    assert row.mean_return == 1 - row.steps


def test_what_cannot_be_evaluated_is_named(tmp_path: Path):
    with pytest.raises(BadInput, match="task 6: toy-corridor-v0 has tasks 1 to 5"):
        tasks_of(TOY, [1, 6])
    with pytest.raises(BadInput, match="task 0"):
        tasks_of(POINT, [0])
    with pytest.raises(BadInput, match="the goal 0,0 is inside a wall"):
        run_episodes(toy_controller(), TOY, [Task(0, (1, 1), (0, 0))], episodes=1, max_steps=5)
    with pytest.raises(BadInput, match="this maze has no tasks; add lines"):
        tasks_of(replace(POINT, environment="pointmaze-mine-v0", maze=("####", "#..#", "####")))
    with pytest.raises(BadInput, match="my-own-logs: no environment is known for it"):
        tasks_of(Meta(dataset="my-own-logs"))
    for wrong in ({"episodes": 0}, {"max_steps": 0}, {"tasks": ()}):
        with pytest.raises(BadInput, match="at least one of each"):
            run_episodes(toy_controller(), TOY, **{"tasks": tasks_of(TOY), "episodes": 1, "max_steps": 5} | wrong)
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="cannot write"):
        append_rows(tmp_path / "file" / "rows.jsonl", [])


def test_a_task_of_ones_own():
    done = run_episodes(toy_controller(), TOY, [Task(0, (5, 1), (5, 4))], episodes=2, max_steps=30, workers=1)
    assert [one.success for one in done] == [True, True]
    assert done[0].observations is None


# ------------------------------------------------------------------------------------------------------ real simulator


@pytest.mark.mujoco
@pytest.mark.parametrize("name", ["medium", "large", "giant", "teleport"])
def test_tasks_are_those_of_the_simulator(name: str):
    meta = known_meta(f"pointmaze-{name}-stitch-v0")
    infos = make_simulator(meta).task_infos
    assert [(task.start, task.goal) for task in tasks_of(meta)] == [
        (info["init_ij"], info["goal_ij"]) for info in infos
    ]
    assert [task.number for task in tasks_of(meta)] == [1, 2, 3, 4, 5]


@pytest.mark.mujoco
@pytest.mark.parametrize("agent", ["point", "ant"])
def test_environments_of_one_model_are_as_good_as_their_own(agent: str):
    """Episodes side by side in twins of one environment, stepped in turn, walk as in environments made one by one."""
    meta = known_meta(f"{agent}maze-medium-stitch-v0")
    first, tasks = make_simulator(meta), tasks_of(meta)
    twins = [OGBenchMaze(meta, share_model(first)) for _ in tasks]
    others = [OGBenchMaze(meta, make_simulator(meta)) for _ in tasks]
    for task, *both in zip(tasks, twins, others, strict=True):
        begun = [np.stack(world.reset(task, np.random.default_rng(task.number))) for world in both]
        np.testing.assert_array_equal(*begun)
    for action in np.random.default_rng(0).uniform(-1, 1, size=(40, *first.action_space.shape)):
        for twin, other in zip(twins, others, strict=True):
            ours, theirs = twin.step(action), other.step(action)
            np.testing.assert_array_equal(ours.observation, theirs.observation)
            assert ours[1:] == theirs[1:]


@pytest.mark.slow
@pytest.mark.mujoco
def test_who_knows_the_way_through_the_real_maze_arrives():
    """Two workers or one: the same paths to the bit. Nothing but success or the limit ends an episode."""
    settings = {"episodes": 2, "max_steps": 600, "record": True}
    found = [
        run_episodes(point_controller(), POINT, tasks_of(POINT), workers=workers, **settings) for workers in (1, 2)
    ]
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

    [done] = run_episodes(GoalController(Stay()), POINT, tasks_of(POINT)[:1], episodes=1, max_steps=1100, workers=1)
    assert (done.success, done.steps) == (False, 1100)


@pytest.mark.mujoco
def test_portals_do_not_mix_the_randomness_of_neighbours():
    """Exits are drawn from numpy's global generator: an episode among others must still walk as it does alone."""
    meta = known_meta("pointmaze-teleport-stitch-v0")
    tasks = [Task(0, (4, 6), (5, 1)), Task(0, (5, 1), (4, 6))]  # from portal to portal
    settings = {"episodes": 4, "max_steps": 40, "workers": 1, "record": True}
    together = outcome(run_episodes(GoalController(PointPolicy()), meta, tasks, **settings))
    apart = [run_episodes(GoalController(PointPolicy()), meta, [task], **settings) for task in tasks]
    assert [one for finished in apart for one in outcome(finished)] == together


def test_a_failure_in_a_worker_is_told():
    broken = Meta(environment="pointmaze-nowhere-v0", maze=("###", "#.#", "###"))
    task = tasks_of(POINT)[0]
    with pytest.raises(BadInput, match="at least two free cells"):
        run_episodes(point_controller(), broken, [task], episodes=2, max_steps=5, workers=2)


def test_a_killed_worker_is_noticed():
    class Killer(GoalController):
        def act(self, episodes: Array, observations: Array, goals: Array) -> Array:
            for process in multiprocessing.active_children():
                process.kill()
                process.join()
            return super().act(episodes, observations, goals)

    with pytest.raises(RuntimeError, match="was killed"):
        run_episodes(Killer(PointPolicy()), TOY, tasks_of(TOY), episodes=1, max_steps=5, workers=2)


def test_workers_load_no_networks():
    code = "import sys, scots.envs.vector; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert "torch" not in loaded
