"""Batched evaluation against a plain loop, as a ratio of wall time in one run, with the same successes.

    python benchmarks/evaluation.py                     # train both models for a minute, then compare
    python benchmarks/evaluation.py PLANNER AGENT       # compare with these trained models, on the tasks of their maze

The batched side is `evaluation.run`: all episodes side by side, environments in worker processes, plans and actions
made for all at once, and plans filled in only as they are walked. The plain loop runs one episode after the other in
this process, on all cores, and fills in every plan as a whole. Both follow the same plans, one drawn at a time.

Models trained for a minute, of the size of profile `laptop`, on PointMaze-Medium stitched without refinement, do not
find every far goal. So their tasks are at all distances: some episodes reach their goal and some do not.
"""

import cProfile
import os
import pstats
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

from scots.agents import GCIQL, configure_agent
from scots.augmenters.scots import augment, configure
from scots.core.config import Seeds
from scots.data.formats import read
from scots.data.trajectories import Meta
from scots.datasets.collect import collect
from scots.envs.maze import maze_of
from scots.envs.ogbench import PROTOCOLS, make_environment, with_episodes
from scots.envs.vector import MazeWorld, Task, own_task, tasks_of
from scots.evaluation.control import SubgoalController, execution_of
from scots.evaluation.rollout import REGISTERED_LIMIT, run
from scots.experiments.pipeline import acting, load_learner
from scots.models.cache import train
from scots.planners import configure_planner
from scots.planners.hd import HierarchicalDiffuser

DATASET = "pointmaze-medium-stitch-v0"
EPISODES, MAX_STEPS, SEED = 50, 300, 0
DISTANCES = (2, 4, 6, 8, 10)  # from start to goal, in cells
STITCHING = {"trajectories": 100, "refine": False, "embedding.training.steps": 1000, "inverse.training.steps": 50}
PLANNER_STEPS, AGENT_STEPS = 600, 2500
TARGET = 5

Result = TypeVar("Result")


def make_controller(planner_folder: Path, agent_folder: Path) -> tuple[SubgoalController, Meta]:
    """A planner, of which one plan is drawn at a time, and its agent."""
    planner, agent = (load_learner(folder) for folder in (planner_folder, agent_folder))
    controller = acting(planner, agent, execution_of(planner.meta.dataset or ""), None)
    assert isinstance(controller, SubgoalController)
    return controller, planner.meta


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


def plain_loop(
    controller: SubgoalController, meta: Meta, tasks: tuple[Task, ...], max_steps: int
) -> list[tuple[bool, int]]:
    """One episode after the other, as one would write it first."""
    done, world, seeds = [], MazeWorld(meta, make_environment(meta)), Seeds(SEED)
    for task in tasks:
        for number in range(EPISODES):
            cells = (*task.start, *task.goal, number)
            observation, goal = world.reset(task, seeds.stream("environment", *cells))
            controller.begin([seeds.integer("planner", *cells)])
            success, steps = False, 0
            while not success and steps < max_steps:
                action = controller.act(np.array([0]), observation[None], goal[None])[0]
                observation, success = world.step(action)
                steps += 1
            done.append((success, steps))
    return done


def timed(work: Callable[[], Result]) -> tuple[Result, float]:
    begin = time.perf_counter()
    return work(), time.perf_counter() - begin


def compare(controller: SubgoalController, meta: Meta, tasks: tuple[Task, ...], max_steps: int) -> None:
    """Run both sides and say how they compare."""
    batched = partial(run, controller, meta, tasks, episodes=EPISODES, max_steps=max_steps, seed=SEED)
    episodes, fast = timed(batched)
    profile = cProfile.Profile()
    profile.runcall(batched)
    controller.whole = True
    plain, slow = timed(partial(plain_loop, controller, meta, tasks, max_steps))
    same = sum(done.success == success for done, (success, _) in zip(episodes, plain, strict=True))
    reached, count = sum(success for success, _ in plain), len(plain)
    print(f"evaluation: {count} episodes, {reached} reached their goal; {same} of {count} outcomes are the same")
    print(f"plain loop {slow:.1f} s, batched {fast:.1f} s: {slow / fast:.1f}x (target {TARGET}x)")
    print("where the time of the batched side goes:")
    pstats.Stats(profile).sort_stats("tottime").print_stats(8)


def main() -> None:
    if len(sys.argv) > 1:
        controller, meta = make_controller(*map(Path, sys.argv[1:]))
        compare(controller, meta, tasks_of(meta), REGISTERED_LIMIT)
        return
    with tempfile.TemporaryDirectory() as name:
        os.environ["SCOTS_HOME"], folder = name, Path(name)
        prepare(folder)
        controller, meta = make_controller(folder / "hd", folder / "gciql")
        compare(controller, meta, tasks_at(meta, DISTANCES), MAX_STEPS)


if __name__ == "__main__":
    main()
