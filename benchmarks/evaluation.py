"""Batched evaluation against a plain loop, as a ratio of wall time in one run, with the same successes.

    python benchmarks/evaluation.py                     # train both models for a minute, then compare
    python benchmarks/evaluation.py PLANNER AGENT       # compare with these trained models, on the tasks of their maze

The batched side is `evaluation.run`: all episodes side by side, environments in worker processes, plans and actions
made for all at once, and plans filled in only as they are walked. The plain loop runs one episode after the other in
this process, on all cores, and fills in every plan as a whole. Both follow the same plans, one drawn at a time.

Models trained for a minute, of the size of profile `laptop`, on PointMaze-Medium stitched without refinement, do not
find every far goal. So their tasks are at all distances: some episodes reach their goal and some do not.
"""

import argparse
import cProfile
import os
import pstats
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

from scots.agents import GCIQL, configure_agent
from scots.augmenters.scots import augment, configure
from scots.core.config import Profile, Seeds
from scots.data.formats import read
from scots.data.trajectories import Meta
from scots.datasets.collect import collect
from scots.envs.maze import maze_of
from scots.envs.ogbench import PROTOCOLS, make_simulator, with_episodes
from scots.envs.vector import OGBenchMaze, Task, own_task, tasks_of
from scots.evaluation.control import SubgoalController, execution_of
from scots.evaluation.rollout import REGISTERED_LIMIT, run
from scots.experiments.pipeline import acting, load_learner
from scots.models.cache import train
from scots.planners import configure_planner
from scots.planners.hd import HierarchicalDiffuser

DATASET = "pointmaze-medium-stitch-v0"
SEED = 0
TARGET = 5


@dataclass(frozen=True)
class Size:
    """The models that are trained for the comparison, and what they are compared on."""

    profile: Profile
    collected: int  # episodes of the data
    stitched: int  # trajectories that the planner learns from
    embedding_steps: int
    inverse_steps: int
    planner_steps: int
    agent_steps: int
    distances: tuple[int, ...]  # from start to goal, in cells
    episodes: int  # for each distance
    max_steps: int


FULL = Size(
    profile="laptop",
    collected=500,
    stitched=100,
    embedding_steps=1000,
    inverse_steps=50,
    planner_steps=600,
    agent_steps=2500,
    distances=(2, 4, 6, 8, 10),
    episodes=50,
    max_steps=300,
)
SMOKE = Size(
    profile="smoke",
    collected=20,
    stitched=4,
    embedding_steps=2,
    inverse_steps=2,
    planner_steps=2,
    agent_steps=2,
    distances=(1, 4),
    episodes=2,
    max_steps=20,
)

Result = TypeVar("Result")


def make_controller(planner_folder: Path, agent_folder: Path) -> tuple[SubgoalController, Meta]:
    """A planner, of which one plan is drawn at a time, and its agent."""
    planner, agent = (load_learner(folder) for folder in (planner_folder, agent_folder))
    controller = acting(planner, agent, execution_of(planner.meta.dataset or ""), None)
    assert isinstance(controller, SubgoalController)
    return controller, planner.meta


def prepare(size: Size, folder: Path) -> None:
    path = folder / "data.npz"
    collect(with_episodes(PROTOCOLS[DATASET], size.collected), path)
    data = read(path)
    steps = {"embedding.training.steps": size.embedding_steps, "inverse.training.steps": size.inverse_steps}
    config = configure(data, size.profile).changed({"trajectories": size.stitched, "refine": False} | steps)
    stitched = augment(data, config, seed=SEED, out=folder / "stitched.npz")
    planner = configure_planner("hd", stitched, size.profile).but("training.steps", size.planner_steps)
    train(HierarchicalDiffuser, planner, stitched, SEED, folder / "hd", "hd")
    agent = configure_agent("gciql", data, size.profile).but("training.steps", size.agent_steps)
    train(GCIQL, agent, data, SEED, folder / "gciql", "gciql")


def tasks_at(meta: Meta, distances: tuple[int, ...]) -> tuple[Task, ...]:
    """From the first free cell to one at each distance by path."""
    maze = maze_of(meta)
    assert maze is not None
    start = maze.cells[0]
    away = [np.argwhere(maze.distances(start) == cells)[0].tolist() for cells in distances]
    return tuple(own_task(meta, start, (row, column)) for row, column in away)


def plain_loop(
    controller: SubgoalController, meta: Meta, tasks: tuple[Task, ...], episodes: int, max_steps: int
) -> list[tuple[bool, int]]:
    """One episode after the other, as one would write it first."""
    done, world, seeds = [], OGBenchMaze(meta, make_simulator(meta)), Seeds(SEED)
    for task in tasks:
        for number in range(episodes):
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


def compare(controller: SubgoalController, meta: Meta, tasks: tuple[Task, ...], count: int, max_steps: int) -> None:
    """Run both sides and say how they compare."""
    batched = partial(run, controller, meta, tasks, episodes=count, max_steps=max_steps, seed=SEED)
    episodes, fast = timed(batched)
    profile = cProfile.Profile()
    profile.runcall(batched)
    controller.whole = True
    plain, slow = timed(partial(plain_loop, controller, meta, tasks, count, max_steps))
    same = sum(done.success == success for done, (success, _) in zip(episodes, plain, strict=True))
    reached, total = sum(success for success, _ in plain), len(plain)
    print(f"evaluation: {total} episodes, {reached} reached their goal; {same} of {total} outcomes are the same")
    print(f"plain loop {slow:.1f} s, batched {fast:.1f} s: {slow / fast:.1f}x (target {TARGET}x)")
    print("where the time of the batched side goes:")
    pstats.Stats(profile).sort_stats("tottime").print_stats(8)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("planner", nargs="?", type=Path, help="folder of a trained planner")
    parser.add_argument("agent", nargs="?", type=Path, help="folder of the agent that follows its plans")
    parser.add_argument("--smoke", action="store_true", help="the same at a tiny size, only to see that it runs")
    options = parser.parse_args()
    if options.planner and not options.agent:
        parser.error("give the agent that follows the plans too")
    if options.planner:
        controller, meta = make_controller(options.planner, options.agent)
        compare(controller, meta, tasks_of(meta), FULL.episodes, REGISTERED_LIMIT)
        return
    with tempfile.TemporaryDirectory() as name:
        os.environ["SCOTS_HOME"], folder = name, Path(name)
        size = SMOKE if options.smoke else FULL
        prepare(size, folder)
        controller, meta = make_controller(folder / "hd", folder / "gciql")
        compare(controller, meta, tasks_at(meta, size.distances), size.episodes, size.max_steps)


if __name__ == "__main__":
    main()
