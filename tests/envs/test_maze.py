"""Maze geometry against known values of the OGBench mazes and a naive search."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scots.core.errors import BadInput
from scots.data.trajectories import Meta
from scots.envs.maze import MAZES, Maze, load_maze, maze_of, parse_maze
from scots.envs.ogbench import OGBenchMaze

TASK_LENGTHS = {"medium": [10, 10, 6, 10, 8], "large": [15, 19, 12, 14, 15], "giant": [30, 26, 30, 26, 17]}
FREE_CELLS = {"medium": 26, "large": 46, "giant": 86}


@pytest.mark.parametrize("name", TASK_LENGTHS)
def test_task_lengths_and_sizes_of_the_ogbench_mazes(name: str):
    maze = MAZES[name]
    assert [maze.distances(goal)[start] for start, goal in maze.tasks] == TASK_LENGTHS[name]
    assert len(maze.cells) == FREE_CELLS[name]


@pytest.mark.parametrize("maze", MAZES.values(), ids=list(MAZES))
def test_distances_match_bellman_ford(maze):
    """A naive Bellman-Ford over all cells."""
    goal = maze.cells[len(maze.cells) // 2]
    far = 10_000
    slow = dict.fromkeys(maze.cells, far) | {goal: 0}
    for _ in maze.cells:
        for i, j in maze.cells:
            near = [slow.get(cell, far) for cell in ((i - 1, j), (i + 1, j), (i, j - 1), (i, j + 1))]
            slow[i, j] = min(slow[i, j], 1 + min(near))
    fast = maze.distances(goal)
    assert all(fast[cell] == (-1 if slow[cell] >= far else slow[cell]) for cell in maze.cells)


@pytest.mark.parametrize("maze", MAZES.values(), ids=list(MAZES))
def test_waypoints_follow_the_shortest_path(maze):
    goal = maze.cells[-1]
    table = maze.waypoints(goal)
    for start in maze.cells:
        cell, steps = start, 0
        while cell != goal and maze.distances(goal)[start] >= 0:
            cell = tuple(int(n) for n in maze.cell_of(table[cell]))
            steps += 1
        assert steps == max(maze.distances(goal)[start], 0)


def test_cells_and_positions_are_inverse():
    maze = MAZES["giant"]
    cells = np.array(maze.cells)
    assert (maze.cell_of(maze.centre(cells)) == cells).all()
    assert (maze.cell_of(maze.centre(cells) + 1.99) == cells).all()
    assert maze.centre((1, 1)).tolist() == [0, 0]
    assert not maze.in_wall(maze.centre(cells)).any()
    assert maze.in_wall(np.array([[-4.0, -4.0], [4.0, 0.0]])).all()


def test_junctions_are_the_cells_outside_straight_corridors():
    maze = parse_maze(("#####", "#...#", "#.#.#", "#...#", "#####"), "ring")
    assert set(maze.cells) - set(maze.junctions) == {(1, 2), (2, 1), (2, 3), (3, 2)}


def test_text_round_trip_and_meta(tmp_path: Path):
    maze = MAZES["large"]
    path = tmp_path / "mine.txt"
    path.write_text("\n".join(maze.to_text()))
    again = load_maze(path)
    assert again.name == "mine"
    assert again.tasks == maze.tasks
    assert np.array_equal(again.walls, maze.walls)
    assert maze_of(Meta(maze=again.to_text())).tasks == maze.tasks
    assert maze_of(Meta(environment="antmaze-giant-v0")) is MAZES["giant"]
    assert maze_of(Meta(environment="hopper-medium-v2")) is None
    assert maze_of(Meta()) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("####\n#..#\n###", "equal length"),
        ("####\n#..#\n#.##", "border"),
        ("####\n#.##\n####", "two free cells"),
        ("####\n#..#\n####\n1,1 -> 0,0", "must connect two free cells"),
        ("#####\n#.#.#\n#####\n1,1 -> 1,3", "by a path"),
        ("####\n#xx#\n####", "line 2"),
        ("", "at least 3"),
    ],
)
def test_error_names_a_bad_maze_file(tmp_path: Path, text: str, message: str):
    path = tmp_path / "bad.txt"
    path.write_text(text)
    with pytest.raises(BadInput, match=rf"bad\.txt: .*{message}"):
        load_maze(path)


def test_random_tasks_lead_along_paths_and_follow_the_seed():
    meta = Meta("pointmaze-medium-stitch-v0", "pointmaze-medium-v0", position=(0, 1))
    tasks = OGBenchMaze.random_tasks(meta, 100, seed=3)
    maze = MAZES["medium"]
    assert len(set(tasks)) == 100
    assert all(maze.distances(task.goal)[task.start] > 0 and task.number == 0 for task in tasks)
    assert tasks == OGBenchMaze.random_tasks(meta, 100, seed=3) != OGBenchMaze.random_tasks(meta, 100, seed=4)
    assert len(OGBenchMaze.random_tasks(meta, 10_000, seed=0)) == 26 * 25  # all pairs of its 26 cells


def test_failures_are_told_by_their_cause():
    meta = Meta("antmaze-medium-stitch-v0", "antmaze-medium-v0", position=(0, 1), quaternions=(3,))
    walked = np.zeros((100, 29))
    walked[:, 0] = np.linspace(0, 4, 100)
    walked[:, 3] = 1.0  # upright
    stuck = walked * [[0.2] + [1.0] * 28]
    fallen = stuck.copy()
    fallen[-1, 3:7] = 0, 1, 0, 0
    free, through = np.array([[0.0, 0.0], [4.0, 0.0]]), np.array([[0.0, 0.0], [8.0, 0.0]])
    cause = OGBenchMaze.cause_of_failure
    assert cause(meta, fallen, free) == "fell"
    assert cause(meta, stuck, through) == "stuck"
    assert cause(meta, walked, through) == "plan through a wall"
    assert cause(meta, walked, free) == cause(meta, walked, None) == "out of time"


@given(st.integers(0, 2**32 - 1))
def test_outlines_enclose_the_floor(seed: int):
    """By the shoelace formula: lines with the floor on their left have the area of all free cells, holes taken off."""
    walls = np.ones((7, 9), dtype=bool)
    walls[1:-1, 1:-1] = np.random.default_rng(seed).random((5, 7)) < 0.4
    maze = Maze("random", walls, unit=2.0, origin=1.0)
    lines, area = maze.outlines(), 0.0
    for line in lines:
        np.testing.assert_array_equal(line[0], line[-1])
        steps = np.diff(line, axis=0)
        assert ((steps == 0).sum(axis=1) == 1).all()  # along one axis each, and every corner turns
        assert (steps * np.roll(steps, 1, axis=0)).sum(axis=1).tolist() == [0.0] * len(steps)
        area += (line[:-1, 0] * line[1:, 1] - line[1:, 0] * line[:-1, 1]).sum() / 2
    assert area == pytest.approx(4.0 * len(maze.cells))
