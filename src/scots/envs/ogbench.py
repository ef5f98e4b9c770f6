"""The OGBench mazes: which datasets there are, how each was collected, and the environments behind them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from scots.core.config import Config
from scots.core.errors import BadInput, require
from scots.data.trajectories import Array, Meta
from scots.envs.maze import MAZES, Maze, parse_maze
from scots.envs.rendering import choose_gl_backend


@dataclass(frozen=True)
class Protocol(Config):
    """How a maze dataset is collected (OGBench's own settings, by dataset)."""

    agent: Literal["point", "ant"]
    maze: str  # a key of MAZES, or the name of a custom maze
    kind: Literal["stitch", "navigate", "explore"]
    episodes: int  # training episodes; the validation twin has a tenth
    states: int  # rows per episode
    noise: float  # standard deviation added to the action

    @property
    def id(self) -> str:
        """The dataset id."""
        return f"{self.agent}maze-{self.maze}-{self.kind}-v0"

    @property
    def environment(self) -> str:
        """The environment id."""
        return f"{self.agent}maze-{self.maze}-v0"

    @property
    def row_bytes(self) -> int:
        """Bytes of one row on disk: observation, action, qpos, qvel as float32 and one flag."""
        return 4 * (2 + 2 + 2 + 2) + 1 if self.agent == "point" else 4 * (29 + 8 + 15 + 14) + 1


def _protocol(agent: Literal["point", "ant"], maze: str, kind: Literal["stitch", "navigate", "explore"]) -> Protocol:
    episodes, states = {"stitch": (5000, 201), "navigate": (1000, 1001), "explore": (10000, 501)}[kind]
    if kind == "navigate" and maze == "giant":
        episodes, states = 500, 2001
    noise = 1.0 if kind == "explore" else {"point": 0.5, "ant": 0.2}[agent]
    return Protocol(agent, maze, kind, episodes, states, noise)


PROTOCOLS: dict[str, Protocol] = {
    protocol.id: protocol
    for protocol in [
        *(_protocol("point", maze, kind) for kind in ("stitch", "navigate") for maze in MAZES),
        *(_protocol("ant", maze, kind) for kind in ("stitch", "navigate") for maze in MAZES),
        *(_protocol("ant", maze, "explore") for maze in ("medium", "large", "teleport")),
    ]
}
"""Every dataset that can be collected here: id -> protocol."""

_ID = re.compile(r"(point|ant)maze-([\w.]+)-(stitch|navigate|explore)-v0$")


def custom_protocol(dataset: str, maze: Maze) -> Protocol:
    """The protocol of a dataset id in a custom maze: the id's size is replaced by the maze's name."""
    if not (match := _ID.match(dataset)):
        raise BadInput(
            f"{dataset}: with --maze the id must look like pointmaze-NAME-stitch-v0 or antmaze-NAME-explore-v0"
        )
    agent, _, kind = match.groups()
    return _protocol(agent, maze.name, kind)  # type: ignore[arg-type]


def meta_of(protocol: Protocol, maze: Maze | None = None, provenance: tuple[dict[str, Any], ...] = ()) -> Meta:
    """What is known of a dataset from its protocol alone; `maze` only for a custom one."""
    ant = (
        "x",
        "y",
        "z",
        "qw",
        "qx",
        "qy",
        "qz",
        *(f"joint_{n}" for n in range(8)),
        *(f"velocity_{n}" for n in range(14)),
    )
    return Meta(
        dataset=protocol.id,
        environment=protocol.environment,
        columns=("x", "y") if protocol.agent == "point" else ant,
        position=(0, 1),
        quaternions=() if protocol.agent == "point" else (3,),
        maze=maze.to_text() if maze else (),
        provenance=provenance,
    )


def make_environment(meta: Meta, **options: Any) -> Any:
    """The unwrapped maze environment a dataset belongs to: real MuJoCo, no step limit of its own."""
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


def twin_environment(environment: Any) -> Any:
    """Another maze environment of the same compiled model, with a state of its own.

    All twins share the mark of the goal, which nothing collides with: pictures of them would show that of the last.
    """
    mujoco = require("mujoco", "ogbench")
    twin = object.__new__(type(environment))  # copying would make it anew, model and all
    twin.__dict__.update(environment.__dict__, data=mujoco.MjData(environment.model))
    return twin


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


def seed_environment(environment: Any, rng: np.random.Generator) -> None:
    """Tie all randomness of a maze environment to one generator.

    OGBench draws start and goal jitter and portal exits from numpy's global generator, so that one is seeded too.
    """
    seeds = rng.integers(2**31, size=3)
    environment.np_random = np.random.default_rng(int(seeds[0]))
    environment.action_space.seed(int(seeds[1]))
    np.random.seed(int(seeds[2]))


def unit_vector(vector: Array) -> Array:
    """The direction of a 2-vector, as OGBench scales it: a vanishing one stays near zero."""
    return vector / (np.sqrt(vector[0] * vector[0] + vector[1] * vector[1]) + 1e-6)


def with_episodes(protocol: Protocol, episodes: int | None) -> Protocol:
    """The protocol at another size."""
    if episodes is not None and episodes < 1:
        raise BadInput(f"--episodes {episodes}: at least one episode is needed")
    return protocol if episodes is None else replace(protocol, episodes=episodes)
