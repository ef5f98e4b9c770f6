"""Ray casting against closed forms, a plain loop, and ir-sim's own scans."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scots.data.trajectories import Array
from scots.envs.lidar import cast_rays, ray_directions, wall_segments
from scots.envs.maze import FLOOR_PLANS
from scots.envs.navigation import LONGEST_RANGE, PERSON_RADIUS, RAYS, WORLDS, make_simulator

NOBODY = np.empty((0, 2))
ROOM = [np.array([(0, 0), (4, 0), (4, 6), (0, 6), (0, 0)], dtype=float)]  # the floor is on the left


def ranges_at(walls: Array, position: Array, heading: float, people: Array = NOBODY, rays: int = RAYS) -> Array:
    return cast_rays(walls, people, PERSON_RADIUS, position, heading, rays, LONGEST_RANGE)


def naive_ranges(walls: Array, position: Array, directions: Array) -> list[float]:
    """Every ray against every wall, from either side."""
    found = []
    for direction in directions:
        nearest = LONGEST_RANGE
        for begin, end in walls:
            matrix = np.stack([direction, begin - end], axis=1)
            if abs(np.linalg.det(matrix)) > 1e-12:
                distance, share = np.linalg.solve(matrix, begin - position)
                if distance > 0 and -1e-9 <= share <= 1 + 1e-9:
                    nearest = min(nearest, distance)
        found.append(nearest)
    return found


def test_a_room_is_seen_as_it_is():
    """Backwards, to the right, ahead, to the left."""
    np.testing.assert_allclose(ranges_at(wall_segments(ROOM), np.array([1.0, 2.0]), 0.0, rays=4), [1, 2, 3, 4])
    np.testing.assert_allclose(
        ranges_at(wall_segments(ROOM), np.array([1.0, 2.0]), math.pi / 2, rays=4), [2, 3, 4, 1], atol=1e-12
    )


def test_walls_beyond_the_longest_range_are_not_seen():
    far = wall_segments([50 * ROOM[0]])
    assert (ranges_at(far, np.array([100.0, 150.0]), 0.3) == LONGEST_RANGE).all()


@given(st.integers(0, 2**32 - 1))
def test_it_equals_a_plain_loop(seed: int):
    rng, maze = np.random.default_rng(seed), FLOOR_PLANS["corridor"]
    walls = wall_segments(maze.outlines())
    position = maze.centre(maze.cells[rng.integers(len(maze.cells))]) + rng.uniform(-0.49, 0.49, size=2)
    heading = rng.uniform(-4, 4)
    expected = naive_ranges(walls, position, ray_directions(heading, 6))
    np.testing.assert_allclose(ranges_at(walls, position, heading, rays=6), expected, rtol=1e-9)


def test_a_person_is_a_disc():
    """Straight ahead three metres away; the ray that just touches it goes by."""
    walls, position = wall_segments([10 * ROOM[0]]), np.array([10.0, 30.0])
    ranges = ranges_at(walls, position, 0.0, position + np.array([[3.0, 0.0]]), rays=3600)
    assert ranges[1800] == pytest.approx(3 - PERSON_RADIUS)
    half_angle = math.asin(PERSON_RADIUS / 3)
    seen = np.flatnonzero(ranges < 3)
    assert len(seen) == pytest.approx(2 * half_angle / (2 * math.pi / 3600), abs=1)
    ends = ranges[seen, None] * ray_directions(0.0, 3600)[seen]
    np.testing.assert_allclose(np.linalg.norm(ends - np.array([3.0, 0.0]), axis=1), PERSON_RADIUS)


@pytest.mark.parametrize("world", WORLDS)
def test_scans_are_those_of_ir_sim(world: str):
    """People are polygons there, so rays that touch one may differ."""
    rng, maze = np.random.default_rng(0), WORLDS[world].maze
    lidar = {"name": "lidar2d", "range_max": LONGEST_RANGE, "number": RAYS + 1, "angle_range": 6.2831853}
    simulator, walls = make_simulator(WORLDS[world], sensors=[lidar]), wall_segments(maze.outlines())
    cells = maze.centre(np.array(maze.cells))
    people = [thing for thing in simulator.obstacle_list if thing.shape == "circle"]
    for _ in range(5):
        places = cells[rng.integers(len(cells), size=1 + len(people))]
        position, heading = places[0] + rng.uniform(-0.2, 0.2, size=2), rng.uniform(-3, 3)
        for person, place in zip(people, places[1:] + 0.5, strict=True):
            person.set_state([*place, 0.0])
        simulator.robot.set_state([*position, heading])
        simulator.refresh()
        expected = np.array(simulator.get_lidar_scan()["ranges"])[:RAYS]
        found = ranges_at(walls, position, heading, places[1:] + 0.5)
        if np.linalg.norm(places[1:] + 0.5 - position, axis=1).min(initial=1) > PERSON_RADIUS:
            differs = np.abs(found - expected) > 0.01
            assert differs.mean() <= 0.004 * len(people)
