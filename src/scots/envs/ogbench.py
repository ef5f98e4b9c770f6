"""The mazes of OGBench in real MuJoCo, those of its benchmark and those of a user's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import numpy as np

from scots.core.errors import BadInput, require
from scots.data.trajectories import Array, Meta
from scots.envs.base import MazeEnvironment, Step, Task, cell_of, numbered_tasks
from scots.envs.maze import MAZES, Maze, maze_of, parse_maze
from scots.envs.rendering import choose_gl_backend


class OGBenchMaze(MazeEnvironment):
    """A point or an ant in a maze. Only success ends an episode."""

    packages = ("mujoco", "ogbench")

    def __init__(self, meta: Meta, simulator: Any) -> None:
        self._simulator = simulator
        self._has_portals = self.maze(meta).name == "teleport"

    @classmethod
    def maze(cls, meta: Meta) -> Maze:
        """The maze of a dataset."""
        if (maze := maze_of(meta)) is None:
            raise BadInput(f"{meta.environment}: unknown maze; known are {', '.join(MAZES)}, or give --maze FILE")
        return maze

    @classmethod
    def tasks(cls, meta: Meta) -> tuple[Task, ...]:
        """The tasks of the maze; those of the teleport maze cross portals, so only the simulator knows them."""
        if cls.maze(meta).name != "teleport":
            return super().tasks(meta)
        infos = make_simulator(meta).task_infos
        return numbered_tasks([(cell_of(info["init_ij"]), cell_of(info["goal_ij"])) for info in infos], meta)

    @classmethod
    def make(cls, meta: Meta, count: int) -> list[Self]:
        """Environments that share one compiled model."""
        simulator = make_simulator(meta)
        return [cls(meta, share_model(simulator)) for _ in range(count)]

    def reset(self, task: Task, rng: np.random.Generator) -> tuple[Array, Array]:
        """Begin near the start cell; start and goal are jittered as OGBench does."""
        self._rng = rng
        seed_simulator(self._simulator, rng)
        cells = {"init_ij": cell_of(task.start), "goal_ij": cell_of(task.goal)}
        observation, info = self._simulator.reset(options={"task_info": cells})
        return observation.astype(np.float32), info["goal"].astype(np.float32)

    def step(self, action: Array) -> Step:
        """Take an action; the point obeys actions of any size, so they are clipped to the range of the data."""
        if self._has_portals:  # exits are drawn from numpy's global generator, which all environments here share
            np.random.seed(self._rng.integers(2**31))
        observation, reward, _, _, info = self._simulator.step(np.clip(action, -1, 1).astype(np.float64))
        success = bool(info["success"])
        return Step(observation.astype(np.float32), float(reward), success, success)


# --------------------------------------------------------------------------------------------------------- simulators


def make_simulator(meta: Meta, **options: Any) -> Any:
    """The unwrapped OGBench environment that a dataset belongs to: real MuJoCo, without a step limit."""
    choose_gl_backend()
    module = require("ogbench.locomaze.maze", "ogbench")
    agent, _, rest = (meta.environment or "").partition("maze-")
    if agent not in ("point", "ant"):
        raise BadInput(f"{meta.dataset or 'this dataset'}: no environment known for {meta.environment!r}")
    maze_type = rest.removesuffix("-v0")
    if not meta.maze and maze_type not in MAZES:
        raise BadInput(
            f"{meta.environment}: unknown maze {maze_type!r}; known are {', '.join(MAZES)}, or give --maze FILE"
        )
    if meta.maze:
        environment = _custom(module, agent, parse_maze(meta.maze, "custom"), options)
    else:
        environment = module.make_maze_env(agent, "maze", maze_type=maze_type, **options)
    Path(environment.fullpath).unlink(missing_ok=True)  # the model is compiled; OGBench leaves its XML file behind
    return environment


def share_model(environment: Any) -> Any:
    """Another simulator with the same compiled model and a state of its own.

    They share the goal marker, which nothing collides with: rendered, each would show that of the last reset.
    """
    mujoco = require("mujoco", "ogbench")
    other = object.__new__(type(environment))  # its constructor would compile the model again
    other.__dict__.update(environment.__dict__, data=mujoco.MjData(environment.model))
    return other


def _custom(module: Any, agent: str, maze: Maze, options: dict[str, Any]) -> Any:
    """OGBench fixes its maps inside a constructor; a subclass puts ours in place just before the walls are built."""
    template = module.make_maze_env(agent, "maze", maze_type="medium")
    Path(template.fullpath).unlink(missing_ok=True)

    class CustomMaze(type(template)):  # type: ignore[misc]
        def update_tree(self, tree: Any) -> None:
            self.maze_map = maze.walls.astype(int)
            super().update_tree(tree)

        def set_tasks(self) -> None:
            self.task_infos = [
                {
                    "task_name": f"task{n}",
                    "init_ij": a,
                    "init_xy": self.ij_to_xy(a),
                    "goal_ij": b,
                    "goal_xy": self.ij_to_xy(b),
                }
                for n, (a, b) in enumerate(maze.tasks, start=1)
            ]

    return CustomMaze(maze_type="medium", **options)


def seed_simulator(environment: Any, rng: np.random.Generator) -> None:
    """Tie all randomness of a simulator to one generator.

    OGBench draws start and goal jitter and portal exits from numpy's global generator, so that one is seeded too.
    """
    seeds = rng.integers(2**31, size=3)
    environment.np_random = np.random.default_rng(int(seeds[0]))
    environment.action_space.seed(int(seeds[1]))
    np.random.seed(int(seeds[2]))


def unit_vector(vector: Array) -> Array:
    """The direction of a 2-vector, as OGBench scales it: a vanishing one stays near zero."""
    return vector / (np.sqrt(vector[0] * vector[0] + vector[1] * vector[1]) + 1e-6)
