"""Collecting datasets in the real environments, mazes by OGBench's protocol: parallel, resumable, byte-identical.

Episode n is a function of (collection spec, seed, n) alone, so a run that was killed at any moment continues with the
same command and ends in the same bytes, whatever the number of workers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import ClassVar

import numpy as np

from scots.core.config import Seeds
from scots.core.console import console
from scots.core.errors import BadInput, require
from scots.core.locks import locked
from scots.data import formats
from scots.data.shards import Make, ShardedJob
from scots.data.trajectories import Array, Meta
from scots.datasets.driving import NavigationEpisodes
from scots.datasets.experts import Actor, AntActor, follow_command
from scots.datasets.protocols import CollectionSpec, EncodedScans, NavigationCollection
from scots.datasets.runners import Rung, RunnerEpisodes, finished_ladder
from scots.datasets.specs import MazeCollection, RunnerCollection
from scots.envs import environment_class
from scots.envs.maze import Maze, maze_of
from scots.envs.navigation import require_simulator
from scots.envs.ogbench import make_simulator, seed_simulator, unit_vector

_STITCH_CELLS = 4  # distance from start to goal in the stitch datasets
_REDRAW_EVERY = 10  # steps between new random directions in the explore datasets


@dataclass(frozen=True)
class CollectedEpisode:
    """One collected episode: the arrays of the file, and what only measuring an expert needs."""

    arrays: dict[str, Array]  # by name, T rows each
    directions: Array  # (T, 2) commanded
    goal: Array  # (2,) the last goal position


class MazeWalker:
    """Walks one body through one maze by the collection spec, an episode at a time."""

    def __init__(self, spec: MazeCollection, meta: Meta, actor: Actor | None = None) -> None:
        maze = maze_of(meta)
        assert maze is not None
        self.spec, self.maze = spec, maze
        self.environment = make_simulator(meta, terminate_at_goal=False)
        self.actor = actor or (follow_command if spec.body == "point" else AntActor())

    def episode(self, rng: np.random.Generator) -> CollectedEpisode:
        """Collect one episode; every draw comes from `rng`."""
        states, environment = self.spec.states, self.environment
        start, goal = self._draw_cells(rng)
        seed_simulator(environment, rng)
        observation, _ = environment.reset(options={"task_info": {"init_ij": start, "goal_ij": goal}})
        shapes = {"observations": observation.size, "actions": environment.action_space.shape[0], "terminals": 0}
        shapes |= {"qpos": environment.model.nq, "qvel": environment.model.nv}
        rows: dict[str, Array] = {name: np.empty((states, size), dtype=np.float32) for name, size in shapes.items()}
        rows["terminals"] = np.arange(states) == states - 1
        directions = np.empty((states, 2))
        noise = rng.normal(0, self.spec.noise, size=rows["actions"].shape)
        for t in range(states):
            directions[t] = self._direction(t, directions, rng)
            action = np.clip(self.actor(environment.get_ob(), directions[t]) + noise[t], -1, 1)
            rows["observations"][t], rows["actions"][t] = observation, action
            rows["qpos"][t], rows["qvel"][t] = environment.data.qpos, environment.data.qvel
            if t < states - 1:  # the last row has no successor
                observation, _, _, _, info = environment.step(action)
                if info["success"] and self.spec.kind == "navigate":
                    self._set_goal(rng)
        return CollectedEpisode(rows, directions, np.array(environment.cur_goal_xy))

    def _draw_cells(self, rng: np.random.Generator) -> tuple[tuple[int, int], tuple[int, int]]:
        start = self.maze.cells[rng.integers(len(self.maze.cells))]
        if self.spec.kind == "stitch":
            goals = self.maze.cells_at(start, _STITCH_CELLS) or (start,)
        else:
            goals = self.maze.junctions or self.maze.cells
        return start, goals[rng.integers(len(goals))]

    def _set_goal(self, rng: np.random.Generator) -> None:
        cell = self.maze.junctions[rng.integers(len(self.maze.junctions))]
        self.environment.set_goal(goal_xy=self.maze.centre(cell) + rng.uniform(-1, 1, size=2))

    def _direction(self, t: int, directions: Array, rng: np.random.Generator) -> Array:
        """Where to walk now: towards the next cell of the shortest path, or a random way kept for some steps."""
        if self.spec.kind == "explore":
            return unit_vector(rng.normal(size=2)) if t % _REDRAW_EVERY == 0 else directions[t - 1]
        environment = self.environment
        position = environment.data.qpos[:2]
        goal = environment.xy_to_ij(environment.cur_goal_xy)
        return unit_vector(self.maze.waypoints(goal)[environment.xy_to_ij(position)] - position)


# ---------------------------------------------------------------------------------------------------------- one run


@dataclass(frozen=True)
class CollectionJob(ShardedJob):
    """Everything that decides the bytes of a collected dataset."""

    spec: CollectionSpec
    meta: Meta  # without provenance
    seed: int
    versions: dict[str, str]  # of the simulator, and of the actors that are not part of its spec
    rungs: tuple[Rung, ...] = ()  # of the ladder of actors, where one collects

    verb: ClassVar[str] = "collecting"  # what progress says it does

    def described(self, validation: bool) -> Meta:
        """The meta of the file, with how it was collected."""
        origin = {
            "origin": self.spec.origin,
            "protocol": self.spec.to_dict(),
            "seed": self.seed,
            "episodes": self.validation if validation else self.episodes,
            "versions": {"scots": version("scots"), **self.versions},
        }
        if self.rungs:
            origin["rungs"] = [rung.to_dict() for rung in self.rungs]
        return Meta.from_dict({**self.meta.to_dict(), "provenance": [origin]})

    def prepare(self, workers: int | None) -> None:
        """Make what the workers need and is not there yet."""

    def worker(self) -> Make:
        """A simulator, and a function from episode numbers to their rows."""
        seeds, episode = Seeds(self.seed), self._walker()

        def make(run: range) -> dict[str, Array]:
            episodes = [episode(seeds.stream("episode", number)) for number in run]
            return {name: np.concatenate([arrays[name] for arrays in episodes]) for name in episodes[0]}

        return make

    def _walker(self) -> Callable[[np.random.Generator], dict[str, Array]]:
        """Collects an episode: from its generator to its arrays."""
        if isinstance(self.spec, RunnerCollection):
            return RunnerEpisodes(self.spec).episode
        if isinstance(self.spec, NavigationCollection):
            return NavigationEpisodes(self.spec, self.meta).episode
        assert isinstance(self.spec, MazeCollection)
        walker = MazeWalker(self.spec, self.meta)
        return lambda rng: walker.episode(rng).arrays


def collection_job(spec: CollectionSpec, maze: Maze | None = None, seed: int = 0) -> CollectionJob:
    """The job that collects a dataset; nothing is done yet."""
    actors: dict[str, str] = {}
    rungs: tuple[Rung, ...] = ()
    if isinstance(spec, RunnerCollection):
        require("gymnasium", "ogbench")
        ladder = finished_ladder(spec)
        actors["actors"], rungs = ladder.fingerprint, ladder.rungs
    elif isinstance(spec, NavigationCollection | EncodedScans):
        require_simulator()
    else:
        require("ogbench", "ogbench")
    versions = {name: version(name) for name in environment_class(spec.meta()).packages} | actors
    return _job_class(spec)(spec.episodes, spec.states, spec, spec.meta(maze), seed, versions, rungs)


def _job_class(spec: CollectionSpec) -> type[CollectionJob]:
    if not isinstance(spec, EncodedScans):
        return CollectionJob
    from scots.datasets.encoding import EncodingJob  # it loads torch, which nothing else here needs

    return EncodingJob


def collect(
    spec: CollectionSpec,
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
    job = collection_job(spec, maze, seed)
    with locked(out):
        if not force and job.is_done(out):
            console.print(f"{out}: already collected with the same settings", soft_wrap=True)
            job.shards(out).remove()  # left by a kill during the last clean-up
            return out
        formats.check_target(out)
        size = job.check_room(out, spec.row_bytes)
        if out.exists() and not (force or job.shards(out).folder.exists()):
            raise BadInput(f"{out}: another file is there; --force replaces it, --out FILE writes elsewhere")
        console.print(f"{spec.id}: {size} to {out}", soft_wrap=True)
        job.prepare(workers)
        job.run(out, workers=workers, label=f"{job.verb} {spec.id}", unit="steps")
    return out
