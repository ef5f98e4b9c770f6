"""Batched evaluation against a plain loop, as a ratio of wall time in one run, with the same successes.

    python benchmarks/evaluation.py                     # train both models for a minute, then compare
    python benchmarks/evaluation.py PLANNER AGENT       # compare with these trained models, on the tasks of their maze

The batched side is `run_episodes`: all episodes side by side, environments in worker processes, plans and actions
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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

from scots.core.config import Profile, Seeds
from scots.data.formats import read
from scots.data.trajectories import Array, Meta
from scots.datasets.collect import collect
from scots.datasets.specs import REGISTERED_LIMIT, SPECS
from scots.envs import environment_class, tasks_of
from scots.envs.base import Task
from scots.envs.maze import maze_of
from scots.evaluation.control import SubgoalController
from scots.evaluation.rollout import run_episodes
from scots.experiments.models import augment, load_model, subject_of, train_model
from scots.planners.base import Plan, Planner
from scots.planners.search import SearchConfig

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
    """A planner whose plans are not searched for, and the agent that follows them."""
    plain = {f"search.{name}": value for name, value in SearchConfig().to_dict().items()}
    subject = subject_of(load_model(planner_folder), load_model(agent_folder), changes=plain)
    assert isinstance(subject.controller, SubgoalController)
    return subject.controller, subject.meta


def prepare(size: Size, folder: Path) -> None:
    path = folder / "data.npz"
    collection = SPECS[DATASET].collection
    assert collection is not None
    collect(collection.resized(size.collected), path)
    data = read(path)
    steps = {"embedding.training.steps": size.embedding_steps, "inverse.training.steps": size.inverse_steps}
    changes = {"trajectories": size.stitched, "refine": False} | steps
    stitched = augment(data, "scots", size.profile, changes, seed=SEED, out=folder / "stitched.npz")
    for name, source, count in (("hd", stitched, size.planner_steps), ("gciql", data, size.agent_steps)):
        changes = {"training.steps": count}
        train_model(name, source, profile=size.profile, seed=SEED, folder=folder / name, changes=changes)


def tasks_at(meta: Meta, distances: tuple[int, ...]) -> tuple[Task, ...]:
    """From the first free cell to one at each distance by path."""
    maze = maze_of(meta)
    assert maze is not None
    start = maze.cells[0]
    away = [np.argwhere(maze.distances(start) == cells)[0].tolist() for cells in distances]
    return tuple(Task(0, start, (row, column)) for row, column in away)


class WholePlans:
    """A planner that fills in every plan from start to goal as soon as it is drawn."""

    def __init__(self, planner: Planner) -> None:
        self._planner = planner

    def plan(self, start: Array, goal: Array | None, seeds: Sequence[int]) -> list[Plan]:
        plans = self._planner.plan(start, goal, seeds)
        self.fill_in(plans, [0] * len(plans), [len(plan.positions) - 1 for plan in plans])
        return plans

    def fill_in(self, plans: Sequence[Plan], first: Sequence[int], last: Sequence[int]) -> None:
        self._planner.fill_in(plans, first, last)


def plain_loop(
    controller: SubgoalController, meta: Meta, tasks: tuple[Task, ...], episodes: int, max_steps: int
) -> list[tuple[bool, int]]:
    """One episode after the other, as one would write it first."""
    outcomes, seeds = [], Seeds(SEED)
    (environment,) = environment_class(meta).make(meta, 1)
    for task in tasks:
        for number in range(episodes):
            observation, goal = environment.reset(task, seeds.stream(f"environment {task.label}", number))
            assert goal is not None
            controller.begin([seeds.integer(f"controller {task.label}", number)])
            success, done, steps = False, False, 0
            while not done and steps < max_steps:
                action = controller.act(np.array([0]), observation[None], goal[None])[0]
                observation, _, success, done = environment.step(action)
                steps += 1
            outcomes.append((success, steps))
    return outcomes


def timed(work: Callable[[], Result]) -> tuple[Result, float]:
    begin = time.perf_counter()
    return work(), time.perf_counter() - begin


def compare(controller: SubgoalController, meta: Meta, tasks: tuple[Task, ...], count: int, max_steps: int) -> None:
    """Run both sides and say how they compare."""
    batched = partial(run_episodes, controller, meta, tasks, episodes=count, max_steps=max_steps, seed=SEED)
    episodes, fast = timed(batched)
    profile = cProfile.Profile()
    profile.runcall(batched)
    whole = SubgoalController(
        WholePlans(controller.planner), controller.policy, controller.following, meta.position, controller.passage
    )
    plain, slow = timed(partial(plain_loop, whole, meta, tasks, count, max_steps))
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
