"""Collecting maze datasets in the real environments, by OGBench's protocol: parallel, resumable, byte-identical.

Episode n is a function of (protocol, seed, n) alone. Workers write blocks of episodes as shards, each atomically; when
all are there they are joined into the dataset and its validation twin. A run killed at any moment continues with the
same command and ends in the same bytes, whatever the number of workers.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np

from scots.core.config import Config, Seeds
from scots.core.console import console
from scots.core.errors import BadInput, require
from scots.data import formats
from scots.data.shards import Make, Shards, validation_path
from scots.data.trajectories import Array, Meta
from scots.datasets.experts import Actor, AntActor, follow_command
from scots.envs.maze import Maze, maze_of
from scots.envs.ogbench import Protocol, make_environment, meta_of, seed_environment, unit_vector

ROWS_PER_SHARD = 10_000
ARRAYS = ("observations", "actions", "terminals", "qpos", "qvel")
STITCH_CELLS = 4  # distance from start to goal in the stitch datasets
REDRAW_EVERY = 10  # steps between new random directions in the explore datasets


@dataclass(frozen=True)
class Episode:
    """One collected episode: what goes to the file, and what only measuring wants."""

    arrays: dict[str, Array]  # by name, T rows each
    directions: Array  # (T, 2) commanded
    goal: Array  # (2,) the last goal position


class MazeWalker:
    """Walks one agent through one maze as the protocol says, an episode at a time."""

    def __init__(self, protocol: Protocol, meta: Meta, actor: Actor | None = None) -> None:
        maze = maze_of(meta)
        assert maze is not None
        self.protocol, self.maze = protocol, maze
        self.environment = make_environment(meta, terminate_at_goal=False)
        self.actor = actor or (follow_command if protocol.agent == "point" else AntActor())

    def episode(self, rng: np.random.Generator) -> Episode:
        """Collect one episode; every draw comes from `rng`."""
        states, environment = self.protocol.states, self.environment
        start, goal = self._draw_cells(rng)
        seed_environment(environment, rng)
        observation, _ = environment.reset(options={"task_info": {"init_ij": start, "goal_ij": goal}})
        shapes = {"observations": observation.size, "actions": environment.action_space.shape[0]}
        shapes |= {"qpos": environment.model.nq, "qvel": environment.model.nv}
        rows: dict[str, Array] = {name: np.empty((states, size), dtype=np.float32) for name, size in shapes.items()}
        rows["terminals"] = np.arange(states) == states - 1
        directions = np.empty((states, 2))
        noise = rng.normal(0, self.protocol.noise, size=rows["actions"].shape)
        for t in range(states):
            directions[t] = self._direction(t, directions, rng)
            action = np.clip(self.actor(environment.get_ob(), directions[t]) + noise[t], -1, 1)
            rows["observations"][t], rows["actions"][t] = observation, action
            rows["qpos"][t], rows["qvel"][t] = environment.data.qpos, environment.data.qvel
            if t < states - 1:  # the last row has no successor
                observation, _, _, _, info = environment.step(action)
                if info["success"] and self.protocol.kind == "navigate":
                    self._set_goal(rng)
        return Episode(rows, directions, np.array(environment.cur_goal_xy))

    def _draw_cells(self, rng: np.random.Generator) -> tuple[tuple[int, int], tuple[int, int]]:
        start = self.maze.cells[rng.integers(len(self.maze.cells))]
        if self.protocol.kind == "stitch":
            goals = self.maze.cells_at(start, STITCH_CELLS) or (start,)
        else:
            goals = self.maze.junctions or self.maze.cells
        return start, goals[rng.integers(len(goals))]

    def _set_goal(self, rng: np.random.Generator) -> None:
        cell = self.maze.junctions[rng.integers(len(self.maze.junctions))]
        self.environment.set_goal(goal_xy=self.maze.centre(cell) + rng.uniform(-1, 1, size=2))

    def _direction(self, t: int, directions: Array, rng: np.random.Generator) -> Array:
        """Where to walk now: towards the next cell of the shortest path, or a random way kept for some steps."""
        if self.protocol.kind == "explore":
            return unit_vector(rng.normal(size=2)) if t % REDRAW_EVERY == 0 else directions[t - 1]
        environment = self.environment
        position = environment.data.qpos[:2]
        goal = environment.xy_to_ij(environment.cur_goal_xy)
        return unit_vector(self.maze.waypoints(goal)[environment.xy_to_ij(position)] - position)


# ---------------------------------------------------------------------------------------------------------- one run


@dataclass(frozen=True)
class Job(Config):
    """Everything that decides the bytes of a collected dataset; its fingerprint names the folder of shards."""

    protocol: Protocol
    meta: Meta  # without provenance
    seed: int
    mujoco: str
    ogbench: str

    @property
    def validation(self) -> int:
        """Episodes of the validation twin."""
        return max(1, self.protocol.episodes // 10)

    def runs(self) -> list[range]:
        """Episode numbers of every shard; training episodes first, no shard holds both kinds."""
        size = max(1, ROWS_PER_SHARD // self.protocol.states)
        train, total = self.protocol.episodes, self.protocol.episodes + self.validation
        parts = [(0, train), (train, total)]
        return [range(n, min(n + size, end)) for begin, end in parts for n in range(begin, end, size)]


def collect(
    protocol: Protocol,
    out: Path,
    *,
    maze: Maze | None = None,
    workers: int | None = None,
    seed: int = 0,
    force: bool = False,
) -> Path:
    """Collect a dataset and its `-val` twin to `out`; continues an interrupted run of the same job.

    A finished run of the same job is left as it is; another file in its place is replaced only by `force`.
    """
    require("ogbench", "ogbench")
    job = Job(protocol, meta_of(protocol, maze), seed, version("mujoco"), version("ogbench"))
    shards = Shards.beside(out, job.fingerprint(), job.runs())
    if not force and _is_done(job, out):
        console.print(f"{out}: collected already, by the same settings")
        shards.remove()  # left by a kill during the last tidying
        return out
    if out.exists() and not (force or shards.folder.exists()):
        raise BadInput(f"{out}: something else is already there; --force replaces it, --out FILE writes elsewhere")
    _announce(job, out)
    label, weight = f"collecting {protocol.id}", protocol.states
    shards.complete(_walker, (job,), workers=workers, label=label, weight=weight, unit="steps")
    train = [run for run in shards.runs if run.start < protocol.episodes]
    shards.write(train, _described(job, protocol.episodes), out)
    shards.write(shards.runs[len(train) :], _described(job, job.validation), validation_path(out))
    shards.remove()
    return out


def _walker(job: Job) -> Make:
    """What a worker process keeps: the simulator, and a function from episode numbers to their rows."""
    walker, seeds = MazeWalker(job.protocol, job.meta), Seeds(job.seed)

    def make(run: range) -> dict[str, Array]:
        episodes = [walker.episode(seeds.stream("episode", number)).arrays for number in run]
        return {name: np.concatenate([episode[name] for episode in episodes]) for name in ARRAYS}

    return make


def _is_done(job: Job, out: Path) -> bool:
    """Whether both files are there and say that this very job made them."""
    counts = {out: job.protocol.episodes, validation_path(out): job.validation}
    return all(
        path.exists() and formats.read_meta(path) == _described(job, episodes) for path, episodes in counts.items()
    )


def _announce(job: Job, out: Path) -> None:
    protocol = job.protocol
    rows = (protocol.episodes + job.validation) * protocol.states
    size = f"{rows * protocol.row_bytes / 1e6:,.0f} MB"
    episodes = f"{protocol.episodes:,} + {job.validation:,} episodes of {protocol.states} states"
    console.print(f"{protocol.id}: {episodes}, {size} to {out}", soft_wrap=True)


def _described(job: Job, episodes: int) -> Meta:
    origin = {
        "origin": "collected here",
        "protocol": job.protocol.to_dict(),
        "seed": job.seed,
        "episodes": episodes,
        "versions": {"scots": version("scots"), "mujoco": job.mujoco, "ogbench": job.ogbench},
    }
    return Meta.from_dict({**job.meta.to_dict(), "provenance": [origin]})
