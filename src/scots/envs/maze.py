"""Maze geometry without a simulator: cells, walls, shortest paths, and a text format."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from scots.core.errors import BadInput
from scots.data.trajectories import Array, Meta
from scots.envs import floorplans

Cell = tuple[int, int]  # (row, column) of the map
NEIGHBOURS: tuple[Cell, ...] = ((-1, 0), (0, -1), (1, 0), (0, 1))


@dataclass(frozen=True, eq=False)
class Maze:
    """A grid of walls and free cells in OGBench's coordinates: cell (i, j) is centred on (4j - 4, 4i - 4)."""

    name: str
    walls: Array  # (I, J) bool
    tasks: tuple[tuple[Cell, Cell], ...] = ()  # (start cell, goal cell); task ids start at 1
    unit: float = 4.0  # side length of a cell
    origin: float = 4.0  # the centre of cell (0, 0) is at (-origin, -origin)

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """All free cells, in row order."""
        return tuple((int(i), int(j)) for i, j in np.argwhere(~self.walls))

    @cached_property
    def junctions(self) -> tuple[Cell, ...]:
        """Free cells that are not inside a straight corridor."""

        def is_corridor(cell: Cell) -> bool:
            up, left, down, right = (self.walls[cell[0] + i, cell[1] + j] for i, j in NEIGHBOURS)
            return bool(up == down and left == right and up != left)

        return tuple(cell for cell in self.cells if not is_corridor(cell))

    def cell_of(self, position: Array) -> Array:
        """Cell (row, column) of each position (..., 2); positions outside the map get the nearest border cell."""
        scaled = (np.asarray(position)[..., ::-1] + self.origin + self.unit / 2) / self.unit
        return np.clip(scaled.astype(np.int64), 0, np.array(self.walls.shape) - 1)

    def centre(self, cell: Cell | Array) -> Array:
        """Position (..., 2) of the centre of each cell (..., 2)."""
        return np.asarray(cell)[..., ::-1] * self.unit - self.origin

    def in_wall(self, position: Array) -> Array:
        """Whether each position (..., 2) lies inside a wall block."""
        cell = self.cell_of(position)
        return self.walls[cell[..., 0], cell[..., 1]]

    def clearance(self, position: Array) -> Array:
        """Distance of each position (N, 2) to the nearest wall block (N,): 0 inside, and at most the side of a cell."""
        around = self.cell_of(position)[:, None] + np.array([(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1)])
        inside = ((around >= 0) & (around < self.walls.shape)).all(axis=-1)
        block = np.where(inside[..., None], around, 0)
        gaps = np.maximum(np.abs(np.asarray(position)[:, None] - self.centre(around)) - self.unit / 2, 0)
        is_wall = ~inside | self.walls[block[..., 0], block[..., 1]]
        distance = np.where(is_wall, np.linalg.norm(gaps, axis=-1), self.unit).min(axis=1)
        return np.where(self.in_wall(position), 0, np.minimum(distance, self.unit))

    def distances(self, goal: Cell) -> Array:
        """Shortest-path length in cells from every cell to the goal (I, J); -1 where there is no path."""
        if goal not in self._distances:
            distance = np.full(self.walls.shape, -1)
            distance[goal] = 0
            queue = deque([goal])
            while queue:
                cell = queue.popleft()
                for neighbour in self._free_neighbours(cell):
                    if distance[neighbour] == -1:
                        distance[neighbour] = distance[cell] + 1
                        queue.append(neighbour)
            self._distances[goal] = distance
        return self._distances[goal]

    @cached_property
    def _distances(self) -> dict[Cell, Array]:
        return {}

    def cells_at(self, cell: Cell, steps: int) -> tuple[Cell, ...]:
        """Free cells exactly this many steps away."""
        distance = self.distances(cell)
        return tuple(other for other in self.cells if distance[other] == steps)

    def waypoints(self, goal: Cell) -> Array:
        """Centre of the next cell towards the goal (I, J, 2), for every cell; its own at the goal or without a path.

        The table is built once per goal and saves a path search at every step.
        """
        if goal not in self._waypoints:
            distance = self.distances(goal)
            table = np.empty((*self.walls.shape, 2))
            for cell in np.ndindex(self.walls.shape):
                nearest = cell
                for neighbour in self._free_neighbours(cell):
                    if distance[neighbour] < distance[nearest]:
                        nearest = neighbour
                table[cell] = self.centre(nearest)
            self._waypoints[goal] = table
        return self._waypoints[goal]

    @cached_property
    def _waypoints(self) -> dict[Cell, Array]:
        return {}

    def _free_neighbours(self, cell: Cell) -> list[Cell]:
        neighbours = [(cell[0] + i, cell[1] + j) for i, j in NEIGHBOURS]
        inside = [(i, j) for i, j in neighbours if 0 <= i < self.walls.shape[0] and 0 <= j < self.walls.shape[1]]
        return [(i, j) for i, j in inside if not self.walls[i, j]]

    def outlines(self) -> list[Array]:
        """The edges between floor and walls as closed lines (n, 2) with the floor on their left, corners only."""
        ahead: dict[Cell, list[Cell]] = {}  # corner -> the corners that edges lead to from it, both (column, row)
        for i, j in self.cells:
            corners = ((j, i), (j + 1, i), (j + 1, i + 1), (j, i + 1))
            beside = ((i - 1, j), (i, j + 1), (i + 1, j), (i, j - 1))
            for n, cell in enumerate(beside):
                if self.walls[cell]:
                    ahead.setdefault(corners[n], []).append(corners[(n + 1) % 4])
        lines = []
        while ahead:
            line = [next(iter(ahead))]
            while line[-1] in ahead:
                line.append(ahead[line[-1]].pop())
                if not ahead[line[-2]]:
                    del ahead[line[-2]]
            lines.append((_corners(np.array(line)) - 0.5) * self.unit - self.origin)
        return lines

    def to_text(self) -> tuple[str, ...]:
        """The lines of a maze file: the map, then one line per task."""
        rows = ["".join("#" if wall else "." for wall in row) for row in self.walls]
        return (*rows, *(f"{a[0]},{a[1]} -> {b[0]},{b[1]}" for a, b in self.tasks))


def _corners(line: Array) -> Array:
    """A closed line (n, 2) without the points at which it does not turn."""
    steps = np.diff(line, axis=0)
    turns = np.flatnonzero((steps != np.roll(steps, 1, axis=0)).any(axis=1))
    return line[[*turns, turns[0]]]


_TASK = re.compile(r"(\d+)\s*,\s*(\d+)\s*->\s*(\d+)\s*,\s*(\d+)$")


def parse_maze(lines: tuple[str, ...], name: str, where: str = "maze") -> Maze:
    """Build a maze from text: rows of `#` and `.`, then start/goal pairs as `row,column -> row,column`."""
    rows: list[str] = []
    tasks: list[tuple[Cell, Cell]] = []
    for number, line in enumerate((line.strip() for line in lines), start=1):
        if not line:
            continue
        if set(line) <= {"#", "."}:
            rows.append(line)
        elif match := _TASK.match(line):
            a, b, c, d = map(int, match.groups())
            tasks.append(((a, b), (c, d)))
        else:
            raise BadInput(f"{where}: line {number} is neither a map row of '#' and '.' nor 'row,column -> row,column'")
    if len(rows) < 3 or len({len(row) for row in rows}) != 1:
        raise BadInput(f"{where}: expected at least 3 map rows of equal length, got lengths {[len(r) for r in rows]}")
    walls = np.array([[character == "#" for character in row] for row in rows])
    border = np.concatenate([walls[0], walls[-1], walls[:, 0], walls[:, -1]])
    if not border.all():
        raise BadInput(f"{where}: the border of the map must be all walls ('#')")
    maze = Maze(name, walls, tuple(tasks))
    if len(maze.cells) < 2:
        raise BadInput(f"{where}: the map needs at least two free cells ('.')")
    for start, goal in tasks:
        if start not in maze.cells or goal not in maze.cells or maze.distances(goal)[start] < 0:
            raise BadInput(f"{where}: task {start} -> {goal} must connect two free cells by a path")
    return maze


def load_maze(path: Path) -> Maze:
    """Read a maze file; the maze takes the name of the file."""
    try:
        lines = tuple(path.read_text().splitlines())
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: cannot read the maze file: {error}") from error
    return parse_maze(lines, path.stem, str(path))


MAZES: dict[str, Maze] = {
    name: parse_maze(tuple(text.split("|")), name)
    for name, text in {
        "medium": (
            "########|#..##..#|#..#...#|##...###|#..#...#|#.#..#.#|#...#..#|########"
            "|1,1 -> 6,6|6,1 -> 1,6|5,3 -> 4,2|6,5 -> 6,1|2,6 -> 1,1"
        ),
        "large": (
            "############|#....#.....#|#.##.#.#.#.#|#......#...#|#.####.###.#|#..#.#.....#|##.#.#.#.###|#..#...#...#"
            "|############|1,1 -> 7,10|5,4 -> 7,1|7,4 -> 1,10|3,8 -> 5,4|1,1 -> 5,4"
        ),
        "giant": (
            "################|#.#......##....#|#.#.##.#.#..##.#|#...#..#...#...#|#.###.######.#.#|#...#...#....#.#"
            "|###.#.#..#.#.###|#...#..#...#...#|#.#.#.######.#.#|#.###...#...##.#|#.....#...#....#|################"
            "|1,1 -> 10,14|1,14 -> 10,1|8,14 -> 1,1|8,3 -> 5,12|5,9 -> 3,8"
        ),
        "teleport": (
            "############|#.....#.#..#|##.#...#..##|##.###.....#|#....#.#.#.#|#.##.#.#.#.#|#.##.#.#.#.#|#....#...#.#"
            "|############"
        ),
    }.items()
}
"""OGBench's mazes. The teleport maze has no tasks here: they lead through its portals, so no path connects them."""

FLOOR_PLANS: dict[str, Maze] = {
    name: replace(parse_maze(tuple(text.split()), name), unit=1.0, origin=-0.5)
    for name, text in {"corridor": floorplans.CORRIDOR, "building": floorplans.BUILDING}.items()
}
"""Where the robot drives: positions are in metres from the south-western corner."""

_MAPS = {"pointmaze": MAZES, "antmaze": MAZES, "navigation": FLOOR_PLANS}


def maze_of(meta: Meta) -> Maze | None:
    """The maze or floor plan that a dataset was collected in, or None if unknown."""
    if meta.maze:
        return parse_maze(meta.maze, "custom")
    family, _, rest = (meta.environment or "").partition("-")
    return _MAPS.get(family, {}).get(rest.partition("-")[0])
