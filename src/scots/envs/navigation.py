"""A robot with a LiDAR in a corridor and in a building: it moves and collides in ir-sim, its scans are cast here.

ir-sim's own scans would take several times as long as the rest of a step (benchmarks/navigation.py).
"""

from __future__ import annotations

import json
import math
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any, Self

import numpy as np

from scots.core.errors import BadInput, require
from scots.data.trajectories import Array, Meta
from scots.envs.base import OUT_OF_TIME, Environment, Step, Task
from scots.envs.lidar import cast_rays, ray_directions, wall_segments
from scots.envs.maze import FLOOR_PLANS, NEIGHBOURS, Cell, Maze

RAYS, LONGEST_RANGE = 512, 25.0  # of a scan, all around; metres
SCAN = "range"
COLUMNS = (
    *(f"{SCAN}_{n}" for n in range(RAYS)),
    *("x", "y", "yaw"),  # where the robot is
    *("odometry_x", "odometry_y", "odometry_yaw"),  # where it believes to be: nearly right at first, then it drifts
    "bumper",  # 1 after a collision
)
POSE, ODOMETRY, BUMPER = slice(RAYS, RAYS + 3), slice(RAYS + 3, RAYS + 6), RAYS + 6
STEP_SECONDS = 0.2
TOP_SPEED, TOP_TURN = 0.5, 0.64  # metres and radians per second, at an action of 1
GOAL_RADIUS = 1.0
ROBOT_RADIUS, PERSON_RADIUS = 0.3, 0.25
DISTANCES = ((3, 5), (6, 15), (16, 35), (36, 200))
"""Metres along the way from start to goal, at least and at most, of each task: the first is as recorded."""

_SCAN_NOISE = 0.05  # metres: the deviation of an episode's returns is uniform up to it
# Odometry is as good as matching scans makes it: off by some 0.2 m after 45 m. With errors three times as large, as of
# wheels alone, even a planner that knows the way runs into a wall before nearly every goal beyond 36 m.
_START_ERROR = (0.05, 0.05, 0.005)  # deviation of the believed pose at the start
_SCALE_ERROR = 0.003  # deviation of an episode's factors on distances and turns
_TURN_ERROR = 0.0003  # radians: deviation of every step
_JITTER = 0.15  # metres from the middle of a cell to where an episode starts or ends, at most
_PERSON_SPEEDS = (0.2, 0.6)
_PERSON_DISTANCE = 3  # cells between a person and the start, at least


@dataclass(frozen=True)
class World:
    """A floor plan, and how many people walk about in it."""

    plan: str  # a key of FLOOR_PLANS
    people: int = 0

    @property
    def maze(self) -> Maze:
        """The floor plan."""
        return FLOOR_PLANS[self.plan]


WORLDS = {
    "navigation-corridor-v0": World("corridor"),
    "navigation-building-v0": World("building"),
    "navigation-corridor-people-v0": World("corridor", people=4),
    "navigation-building-people-v0": World("building", people=9),
}
"""By environment id."""


def world_of(meta: Meta) -> World:
    """The world of a dataset."""
    if meta.environment not in WORLDS:
        raise BadInput(f"{meta.environment}: unknown world; known are {', '.join(WORLDS)}")
    return WORLDS[meta.environment]


class Navigation(Environment):
    """A differential drive. An action is its speed, from standing still to the top, and its turn; both are in [-1, 1].

    An observation is what the robot logs, see `COLUMNS`; the goal is an observation too. Start and goal are drawn anew
    for every episode, as far apart along the way as the task says. A collision ends the episode.
    """

    packages = ("ir-sim",)

    def __init__(self, world: World) -> None:
        self.world, self._simulator = world, make_simulator(world)
        self._walls = wall_segments(world.maze.outlines())

    @classmethod
    def tasks(cls, meta: Meta) -> tuple[Task, ...]:
        """Goals at growing distances along the way."""
        world_of(meta)
        return tuple(Task(number, (), distances) for number, distances in enumerate(DISTANCES, start=1))

    @classmethod
    def make(cls, meta: Meta, count: int) -> list[Self]:
        """As many simulators; they share nothing."""
        return [cls(world_of(meta)) for _ in range(count)]

    @classmethod
    def positions(cls, meta: Meta, observations: Array) -> Array:
        """Where the robot is, whatever it believes: (N, O) -> (N, 2)."""
        return observations[:, POSE][:, :2]

    @classmethod
    def points_seen(cls, observation: Array) -> Array:
        """Where the rays of a scan end that meet something (n, 2)."""
        ranges, (x, y, yaw) = observation[:RAYS, None], observation[POSE]
        ends = np.array([x, y]) + ranges * ray_directions(yaw, RAYS)
        return ends[ranges[:, 0] < LONGEST_RANGE]

    @classmethod
    def cause_of_failure(cls, meta: Meta, observations: Array, plan: Array | None) -> str:
        """It collided, or time was up."""
        return "collision" if observations[-1, BUMPER] else OUT_OF_TIME

    def reset(self, task: Task, rng: np.random.Generator) -> tuple[Array, Array]:
        """Begin near the middle of a random cell with a random heading; at the goal the robot heads as it arrives."""
        maze = self.world.maze
        cells = draw_route(maze, task.goal, rng)
        self.route = maze.centre(np.array(cells))  # (n, 2) middles of cells on a shortest way from start to goal
        start, goal = (self.route[end] + rng.uniform(-_JITTER, _JITTER, size=2) for end in (0, -1))
        arrival = self.route[-1] - self.route[-2]
        self._goal = np.array([*goal, math.atan2(arrival[1], arrival[0])])
        pose = np.array([*start, rng.uniform(-np.pi, np.pi)])
        self._rng, self._scan_noise = rng, rng.uniform(0, _SCAN_NOISE)
        self._scales = 1 + rng.normal(0, _SCALE_ERROR, size=2)
        self._odometry = pose + rng.normal(0, _START_ERROR)
        self._simulator.robot.set_state(pose.tolist(), init=True)
        self._place_people(cells[0])
        self._simulator.reset()
        return self._observation(), self._seen_from(self._goal, self._goal + rng.normal(0, _START_ERROR))

    def step(self, action: Array) -> Step:
        """Take an action; within a metre of the goal is success, with reward 0 instead of -1."""
        speed, turn = np.clip(action, -1, 1).tolist()
        before = self._pose
        self._simulator.step([TOP_SPEED * (speed + 1) / 2, TOP_TURN * turn])
        self._update_odometry(before, self._pose)
        collided = bool(self._simulator.robot.collision)
        success = not collided and bool(np.linalg.norm(self._pose[:2] - self._goal[:2]) <= GOAL_RADIUS)
        return Step(self._observation(), float(success) - 1.0, success, success or collided)

    @property
    def _pose(self) -> Array:
        """x, y and yaw (3,)."""
        return self._simulator.robot.state[:, 0].copy()

    def _observation(self) -> Array:
        """What the robot logs now (O,)."""
        return self._seen_from(self._pose, self._odometry, bool(self._simulator.robot.collision))

    def _seen_from(self, pose: Array, odometry: Array, bumper: bool = False) -> Array:
        """What the robot would log at a pose (O,); noise is on returns only, not on rays that meet nothing."""
        people = np.array([person.state[:2, 0] for person in self._people]).reshape(-1, 2)
        ranges = cast_rays(self._walls, people, PERSON_RADIUS, pose[:2], pose[2], RAYS, LONGEST_RANGE)
        noisy = np.clip(ranges + self._rng.normal(0, self._scan_noise, size=RAYS), 0, LONGEST_RANGE)
        ranges = np.where(ranges < LONGEST_RANGE, noisy, LONGEST_RANGE)
        return np.concatenate([ranges, _wrapped(pose), _wrapped(odometry), [bumper]]).astype(np.float32)

    def _update_odometry(self, before: Array, after: Array) -> None:
        """Add a step as it is measured: distance and turn with the episode's factors, and some noise."""
        distance, turn = np.linalg.norm(after[:2] - before[:2]), _wrapped(after - before)[2]
        yaw, noise = self._odometry[2], self._rng.normal(0, _TURN_ERROR)
        self._odometry[:2] += self._scales[0] * distance * np.array([math.cos(yaw), math.sin(yaw)])
        self._odometry[2] += self._scales[1] * turn + noise

    @property
    def _people(self) -> list[Any]:
        return [thing for thing in self._simulator.obstacle_list if thing.shape == "circle"]

    def _place_people(self, start: Cell) -> None:
        """Everyone walks back and forth along a straight stretch of floor, at a pace of their own."""
        maze, rng = self.world.maze, self._rng
        distance = maze.distances(start)
        away = [cell for cell in maze.cells if distance[cell] >= _PERSON_DISTANCE]
        for person in self._people:
            cell = away[rng.integers(len(away))]
            ends = np.array([_straight_ahead(maze, cell, step) for step in NEIGHBOURS])
            farthest = ends[np.abs(ends - cell).sum(axis=1).argmax()]
            pace = rng.uniform(*_PERSON_SPEEDS)
            person.vel_min, person.vel_max = np.full((2, 1), -pace), np.full((2, 1), pace)
            person.set_state([*maze.centre(cell), 0.0], init=True)
            person.set_goal(maze.centre(farthest).tolist(), init=True)


def _wrapped(pose: Array) -> Array:
    """A pose, or a difference of two, with its yaw in [-pi, pi)."""
    return np.array([pose[0], pose[1], (pose[2] + np.pi) % (2 * np.pi) - np.pi])


def _straight_ahead(maze: Maze, cell: Cell, step: Cell) -> Cell:
    """The last cell of floor in a direction."""
    row, column = cell
    while not maze.walls[row + step[0], column + step[1]]:
        row, column = row + step[0], column + step[1]
    return row, column


def draw_route(maze: Maze, distances: tuple[float, ...], rng: np.random.Generator) -> list[Cell]:
    """The cells of a shortest way between two random ones that are so many cells apart, at least and at most."""
    low, high = distances
    while True:
        start = maze.cells[rng.integers(len(maze.cells))]
        distance = maze.distances(start)
        goals = np.argwhere((distance >= low) & (distance <= high))
        if len(goals):
            break
    row, column = goals[rng.integers(len(goals))]
    route = [(int(row), int(column))]
    while route[-1] != start:
        row, column = route[-1]
        beside = [(row + i, column + j) for i, j in NEIGHBOURS]
        nearer = [cell for cell in beside if distance[cell] == distance[route[-1]] - 1]
        route.append(nearer[rng.integers(len(nearer))])
    return route[::-1]


def require_simulator() -> ModuleType:
    """ir-sim, or an error that names the extra which installs it; it prints on import which displays there are not."""
    with redirect_stdout(StringIO()):
        return require("irsim", "robot")


def make_simulator(world: World, **robot: Any) -> Any:
    """ir-sim with a robot, people and the walls as a few long lines; without a display. `robot` adds to the robot."""
    irsim = require_simulator()
    height, width = world.maze.walls.shape
    walls = [{"name": "linestring", "vertices": line.tolist()} for line in world.maze.outlines()]
    person = {
        "kinematics": {"name": "omni"},
        "shape": {"name": "circle", "radius": PERSON_RADIUS},
        "behavior": {"name": "dash"},
        "loop": True,
        "goal_threshold": 0.3,
    }
    description = {
        "world": {"width": width, "height": height, "step_time": STEP_SECONDS}
        | {"collision_mode": "unobstructed_obstacles", "control_mode": "auto"},
        "robot": [
            {
                "kinematics": {"name": "diff"},
                "shape": {"name": "circle", "radius": ROBOT_RADIUS},
                "vel_min": [0.0, -TOP_TURN],
                "vel_max": [TOP_SPEED, TOP_TURN],
                **robot,
            }
        ],
        "obstacle": [
            *({"shape": line, "state": [0, 0, 0]} for line in walls),  # by default ir-sim moves things by (1, 1)
            *([person] * world.people),
        ],
    }
    with TemporaryDirectory() as folder:
        path = Path(folder) / "world.yaml"
        path.write_text(json.dumps(description))  # JSON is YAML
        return irsim.make(str(path), headless=True, log_level="ERROR")
