"""Batched evaluation against a plain loop, as a ratio of wall time in one run, with the same successes.

The batched side is `evaluation.run`: all episodes side by side, environments in worker processes, plans and actions
made for all at once, and only the stretches of a plan filled in that are walked before the next one. The plain loop
runs one episode after the other in this process, on all cores, and fills in every plan as a whole. Both follow the same
plans: a planner and an agent of the size of profile `laptop`, trained for about a minute each on PointMaze-Medium, the
planner on data that was stitched without refinement. Such a planner does not find every far goal, so the tasks are at
all distances: some episodes reach their goal and some do not.
"""

import cProfile
import os
import pstats
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch

from scots.agents import GCIQL, configure_agent
from scots.artifacts import train
from scots.augmentation import augment, configure
from scots.config import Seeds
from scots.control import Execution, SubgoalController
from scots.evaluation import run
from scots.formats import read
from scots.planners import configure_planner
from scots.planners.hd import HierarchicalDiffuser
from scots.sources.collect import collect
from scots.sources.maze import maze_of
from scots.sources.ogbench import PROTOCOLS, make_environment, with_episodes
from scots.trajectories import Meta
from scots.worlds import MazeWorld, Task, own_task

DATASET = "pointmaze-medium-stitch-v0"
EPISODES, MAX_STEPS, SEED = 50, 300, 0
DISTANCES = (2, 4, 6, 8, 10)  # from start to goal, in cells
STITCHING = {"trajectories": 100, "refine": False, "embedding.training.steps": 1000, "inverse.training.steps": 50}
PLANNER_STEPS, AGENT_STEPS = 600, 2500
TARGET = 5

Result = TypeVar("Result")


class FullInfill(SubgoalController):
    """Fills in every plan as a whole."""

    def begin(self, seeds: list[int]) -> None:
        super().begin(seeds)
        self._ahead = self.planner.horizon


def make_controller(kind: type[SubgoalController], folder: Path) -> tuple[SubgoalController, Meta]:
    """A planner and its agent, the same whenever it is called."""
    planner, agent = HierarchicalDiffuser.load(folder / "hd"), GCIQL.load(folder / "gciql")
    return kind(planner, agent, Execution(), planner.meta.position), planner.meta


def prepare(folder: Path) -> None:
    path = folder / "data.npz"
    collect(with_episodes(PROTOCOLS[DATASET], 500), path)
    data = read(path)
    stitching = configure(data).changed(STITCHING)
    stitched = augment(data, stitching, seed=SEED, out=folder / "stitched.npz")
    planner = configure_planner("hd", stitched).but("training.steps", PLANNER_STEPS)
    train(HierarchicalDiffuser, planner, stitched, SEED, folder / "hd", "hd")
    agent = configure_agent("gciql", data).but("training.steps", AGENT_STEPS)
    train(GCIQL, agent, data, SEED, folder / "gciql", "gciql")


def tasks_at(meta: Meta, distances: tuple[int, ...]) -> tuple[Task, ...]:
    """From the first free cell to one at each distance by path."""
    maze = maze_of(meta)
    assert maze is not None
    start = maze.cells[0]
    away = [np.argwhere(maze.distances(start) == cells)[0].tolist() for cells in distances]
    return tuple(own_task(meta, start, (row, column)) for row, column in away)


def plain_loop(controller: SubgoalController, meta: Meta, tasks: tuple[Task, ...]) -> list[tuple[bool, int]]:
    """One episode after the other, as one would write it first."""
    done, world, seeds = [], MazeWorld(meta, make_environment(meta)), Seeds(SEED)
    for task in tasks:
        for number in range(EPISODES):
            cells = (*task.start, *task.goal, number)
            observation, goal = world.reset(task, seeds.stream("environment", *cells))
            controller.begin([seeds.integer("planner", *cells)])
            success, steps = False, 0
            while not success and steps < MAX_STEPS:
                action = controller.act(np.array([0]), observation[None], goal[None])[0]
                observation, success = world.step(action)
                steps += 1
            done.append((success, steps))
    return done


def timed(work: Callable[[], Result]) -> tuple[Result, float]:
    begin = time.perf_counter()
    return work(), time.perf_counter() - begin


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["SCOTS_HOME"] = folder
        prepare(Path(folder))
        controller, meta = make_controller(SubgoalController, Path(folder))
        tasks = tasks_at(meta, DISTANCES)
        batched = partial(run, controller, meta, tasks, episodes=EPISODES, max_steps=MAX_STEPS, seed=SEED)
        episodes, fast = timed(batched)
        plain, slow = timed(partial(plain_loop, make_controller(FullInfill, Path(folder))[0], meta, tasks))
        torch.set_num_threads(1)  # one shift of episodes: the profiler sees no other threads
        profile = cProfile.Profile()
        profile.runcall(batched)
    same = sum(done.success == success for done, (success, _) in zip(episodes, plain, strict=True))
    reached, count = sum(success for success, _ in plain), len(plain)
    print(f"evaluation: {count} episodes, {reached} reached their goal; {same} of {count} outcomes are the same")
    print(f"plain loop {slow:.1f} s, batched {fast:.1f} s: {slow / fast:.1f}x (target {TARGET}x)")
    print("where the time of the batched side goes, on one thread:")
    pstats.Stats(profile).sort_stats("tottime").print_stats(8)


if __name__ == "__main__":
    main()
