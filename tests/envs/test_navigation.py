"""The robot's world: floor plans, motion, noise, odometry, collisions, people."""

import numpy as np
import pytest

from scots.core.errors import BadInput
from scots.data.trajectories import Meta
from scots.envs.base import Task
from scots.envs.maze import FLOOR_PLANS, maze_of
from scots.envs.navigation import (
    BUMPER,
    COLUMNS,
    DISTANCES,
    GOAL_RADIUS,
    LONGEST_RANGE,
    ODOMETRY,
    POSE,
    RAYS,
    ROBOT_RADIUS,
    STEP_SECONDS,
    TOP_SPEED,
    TOP_TURN,
    WORLDS,
    Navigation,
    draw_route,
)

CORRIDOR = Meta(environment="navigation-corridor-v0")
FORWARD, STAY, TURN = np.array([1.0, 0.0]), np.array([-1.0, 0.0]), np.array([-1.0, 1.0])


@pytest.fixture(scope="module")
def robot() -> Navigation:
    return Navigation.make(CORRIDOR, 1)[0]


def begin(robot: Navigation, seed: int = 0, task: int = 1) -> np.ndarray:
    return robot.reset(Navigation.tasks(CORRIDOR)[task - 1], np.random.default_rng(seed))[0]


@pytest.mark.parametrize(("name", "size"), [("corridor", (39, 35)), ("building", (50, 110))])
def test_floor_plans_have_the_sizes_of_the_paper(name: str, size: tuple[int, int]):
    maze = FLOOR_PLANS[name]
    assert maze.walls.shape == size
    assert maze.unit == 1
    assert all(maze.distances(maze.cells[0])[cell] >= 0 for cell in maze.cells)  # one can get everywhere
    np.testing.assert_array_equal(maze.centre((0, 0)), [0.5, 0.5])
    assert maze_of(Meta(environment=f"navigation-{name}-v0")) is maze
    assert len(maze.outlines()) <= 26


@pytest.mark.parametrize("name", FLOOR_PLANS)
def test_routes_are_shortest_ways_of_the_asked_length(name: str):
    maze, rng = FLOOR_PLANS[name], np.random.default_rng(0)
    for distances in DISTANCES * 3:
        route = draw_route(maze, distances, rng)
        assert distances[0] <= len(route) - 1 <= distances[1]
        assert len(route) - 1 == maze.distances(route[0])[route[-1]]
        assert np.abs(np.diff(route, axis=0)).sum(axis=1).tolist() == [1] * (len(route) - 1)


def test_commands_move_as_a_differential_drive_does(robot: Navigation):
    before = begin(robot)[POSE]
    turned = robot.step(TURN).observation[POSE]
    assert turned[2] - before[2] == pytest.approx(TOP_TURN * STEP_SECONDS, abs=1e-5)
    moved = robot.step(FORWARD).observation[POSE]
    step = TOP_SPEED * STEP_SECONDS * np.array([np.cos(turned[2]), np.sin(turned[2])])
    np.testing.assert_allclose(moved[:2] - turned[:2], step, atol=1e-5)
    np.testing.assert_array_equal(robot.step(STAY).observation[POSE], moved)


def test_noise_is_on_returns_only_and_as_large_as_the_episode_draws_it():
    [robot] = Navigation.make(Meta(environment="navigation-building-v0"), 1)
    spreads = []
    for seed in range(6):
        robot.reset(Task(0, (), DISTANCES[0]), np.random.default_rng(seed))
        scans = np.stack([robot.step(STAY).observation[:RAYS] for _ in range(20)])
        missed = (scans == LONGEST_RANGE).all(axis=0)
        assert ((scans == LONGEST_RANGE).any(axis=0) == missed).all()  # a ray that meets nothing never does
        spreads.append(float(scans[:, ~missed].std(axis=0).mean()))
    assert max(spreads) < 0.06
    assert max(spreads) > 2 * min(spreads)


def test_odometry_begins_near_the_pose_and_drifts(robot: Navigation):
    errors = []
    for seed in range(8):
        first = begin(robot, seed)
        assert 0 < np.linalg.norm(first[ODOMETRY][:2] - first[POSE][:2]) < 0.3
        for _ in range(100):
            last = robot.step(TURN).observation
        gap = last[ODOMETRY][2] - last[POSE][2] - (first[ODOMETRY][2] - first[POSE][2])
        errors.append(abs((gap + np.pi) % (2 * np.pi) - np.pi))
    assert 0.01 < np.mean(errors) < 0.1  # a turn of 12.8 radians with an error of 0.3 per cent, and noise


def test_a_collision_ends_the_episode_and_is_the_cause_of_its_failure(robot: Navigation):
    path = [begin(robot, task=4)]
    for _ in range(400):
        step = robot.step(FORWARD)
        path.append(step.observation)
        if step.done:
            break
    assert step.done
    assert not step.success
    assert step.observation[BUMPER] == 1
    assert WORLDS["navigation-corridor-v0"].maze.clearance(step.observation[POSE][None, :2])[0] < ROBOT_RADIUS
    assert Navigation.cause_of_failure(CORRIDOR, np.stack(path), None) == "collision"
    assert Navigation.cause_of_failure(CORRIDOR, np.stack(path[:-1]), None) == "out of time"
    assert begin(robot)[BUMPER] == 0  # and the next begins afresh


def test_the_goal_is_reached_within_its_radius(robot: Navigation):
    """Straight at a goal in the same corridor, with the robot turned towards it first."""
    for seed in range(30):
        first, goal = robot.reset(Task(0, (), (3, 3)), np.random.default_rng(seed))
        way = goal[POSE][:2] - first[POSE][:2]
        if np.abs(way).min() > 0.4:
            continue  # around a corner
        step = robot.step(STAY)
        while (error := np.arctan2(way[1], way[0]) - step.observation[POSE][2]) ** 2 > 0.01:
            step = robot.step(np.array([-1.0, np.clip((error + np.pi) % (2 * np.pi) - np.pi, -1, 1)]))
        while not step.done:
            step = robot.step(FORWARD)
        assert step.success
        assert step.reward == 0
        assert np.linalg.norm(step.observation[POSE][:2] - goal[POSE][:2]) <= GOAL_RADIUS
        return
    raise AssertionError("no straight way was drawn")


def test_people_walk_and_are_seen():
    meta = Meta(environment="navigation-corridor-people-v0")
    [crowd], [alone] = Navigation.make(meta, 1), Navigation.make(CORRIDOR, 1)
    first = crowd.reset(Task(0, (), DISTANCES[0]), np.random.default_rng(3))[0]
    before = [person.state[:2, 0].copy() for person in crowd._people]
    for _ in range(10):
        crowd.step(STAY)
    moved = [np.linalg.norm(person.state[:2, 0] - old) for person, old in zip(crowd._people, before, strict=True)]
    assert len(moved) == 4
    assert all(0.3 < distance <= 1.3 for distance in moved)
    assert np.isfinite(first).all()
    assert len(alone._people) == 0


def test_columns_say_what_an_observation_is(robot: Navigation):
    assert len(begin(robot)) == len(COLUMNS) == 519
    assert COLUMNS[POSE] == ("x", "y", "yaw")
    assert COLUMNS[BUMPER] == "bumper"


def test_an_unknown_world_is_named():
    with pytest.raises(BadInput, match="navigation-attic-v0: unknown world; known are navigation-corridor-v0"):
        Navigation.tasks(Meta(environment="navigation-attic-v0"))
