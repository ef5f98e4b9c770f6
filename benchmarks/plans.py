"""What makes a planner learn a maze on a CPU: plan cleanliness against processor minutes of training.

    python benchmarks/plans.py train AUG --minutes 5        # every variant below, one row each
    python benchmarks/plans.py draw DIR --data AUG --embedding DIR --controller DIR     # one planner, drawn otherwise

A plan is clean if none of its places lies inside a wall: over 200 random pairs of states, and over the five tasks with
20 starts and goals each. The pairs have seeds of their own, which no evaluation uses. Rows go to results/plans.jsonl.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from scots.agents import GCIQL
from scots.augmenters.embedding import TemporalDistance
from scots.core.config import Seeds
from scots.core.files import append_rows
from scots.data import formats
from scots.data.support import Support
from scots.data.trajectories import Array, Trajectories
from scots.envs.maze import Maze, maze_of
from scots.models import diffusion
from scots.models.cache import train
from scots.planners.hd import HierarchicalDiffuser, HierarchicalDiffuserConfig, configure_hd
from scots.planners.search import BestOf

ROWS = Path("results/plans.jsonl")
SEEDS = Seeds(4242)
PAIRS, STARTS = 200, 20
MEASURED_STEPS = (10, 60)  # of two short trainings, whose difference says how long a step takes

VARIANTS: dict[str, dict[str, object]] = {
    "laptop": {},
    "two levels": {"leap": 1},
    "noise prediction": {"prediction": "eps"},
    "x0 prediction": {"prediction": "x0"},
    "no Fourier features": {"high.octaves": 0, "middle.octaves": 0, "low.octaves": 0},
    "no route network": {"high.route": 0, "middle.route": 0},
    "chord frame": {"high.frame": "chord"},
    "64 x 4": {"high.width": 64, "middle.width": 64},
    "128 x 2": {"high.depth": 2, "middle.depth": 2},
    "batch 512": {"training.batch_size": 512, "training.learning_rate": 2e-3},
    "learning rate 3e-4": {"training.learning_rate": 3e-4},
    "half of the windows backwards": {"flip": 0.5},
    "EMA 0.9999": {"ema": 0.9999},
    "loss weighted towards noise": {},
    "loss weighted towards data": {},
}
WEIGHTED: dict[str, Callable[[Tensor], Tensor]] = {
    "loss weighted towards noise": lambda level: level.sqrt(),
    "loss weighted towards data": lambda level: 1 - (1 - level).sqrt(),
}
"""How some variants draw the times they are trained at from uniform numbers: with a density of 2 t, or of 2 (1 - t)."""


def pairs_of(data: Trajectories, maze: Maze) -> tuple[Array, Array]:
    """Starts and goals (B, 2): random pairs of states, then the tasks with jitter."""
    rng = SEEDS.stream("pairs")
    random = data.positions[rng.integers(data.rows, size=(PAIRS, 2))]
    tasks = np.array([[maze.centre(start), maze.centre(goal)] for start, goal in maze.tasks])
    jittered = np.repeat(tasks, STARTS, axis=0) + rng.uniform(-1, 1, (len(tasks) * STARTS, 2, 2))
    both = np.concatenate([random, jittered]).astype(np.float32)
    return both[:, 0], both[:, 1]


def cleanliness(planner: HierarchicalDiffuser, pairs: tuple[Array, Array], maze: Maze) -> dict[str, object]:
    """How many plans are clean, and how much of them is in walls."""
    starts, goals = pairs
    rng = [SEEDS.stream("waypoints", n) for n in range(len(starts))]
    waypoints = planner.waypoints(starts, goals, rng)
    ends = np.stack([waypoints[:, :-1], waypoints[:, 1:]], axis=2).reshape(-1, 2, waypoints.shape[-1])
    dense = planner.infill(ends, 1, [SEEDS.stream("infill", n) for n in range(len(ends))])
    inside = maze.in_wall(dense).reshape(len(starts), -1)
    clean = ~inside.any(axis=1)
    return {
        "clean_pairs": float(clean[:PAIRS].mean()),
        "clean_tasks": clean[PAIRS:].reshape(-1, STARTS).mean(axis=1).round(2).tolist(),
        "places_in_walls": float(inside.mean()),
    }


@contextmanager
def weighted(name: str) -> Iterator[None]:
    """Train with the times of a variant: how often a time is drawn is the weight of its loss."""
    uniform = diffusion.draw_times
    if name in WEIGHTED:
        diffusion.draw_times = lambda count, generator: WEIGHTED[name](uniform(count, generator))
    try:
        yield
    finally:
        diffusion.draw_times = uniform


def train_variant(name: str, data: Trajectories, maze: Maze, minutes: float, folder: Path) -> None:
    """Train for so many processor minutes and measure the plans."""
    config: HierarchicalDiffuserConfig = configure_hd(data)
    for path, value in VARIANTS[name].items():
        config = config.but(path, value)
    steps = _steps(config, data, 60 * minutes, folder / "timed")
    begin = time.process_time()
    training = replace(config.training, steps=steps)
    with weighted(name):
        planner = train(HierarchicalDiffuser, replace(config, training=training), data, 0, folder / "planner", name)
    spent = (time.process_time() - begin) / 60
    row = {"study": "training", "dataset": data.meta.dataset, "variant": name, "steps": steps}
    _keep(row | {"minutes": round(spent, 2)} | cleanliness(planner, pairs_of(data, maze), maze))


def _steps(config: HierarchicalDiffuserConfig, data: Trajectories, seconds: float, folder: Path) -> int:
    """As many steps as fit into the time."""
    spent = []
    for steps in MEASURED_STEPS:
        short = replace(config, training=replace(config.training, steps=steps))
        begin = time.process_time()
        train(HierarchicalDiffuser, short, data, 0, folder / f"{steps}", "timing")
        spent.append(time.process_time() - begin)
    return int(seconds * (MEASURED_STEPS[1] - MEASURED_STEPS[0]) / (spent[1] - spent[0]))


SOLVERS = {
    f"{'DDIM' if order == 1 else 'DPM-Solver++'} {steps}": {"order": order, "steps": steps}
    for order, steps in ((1, 20), (1, 10), (2, 20), (2, 10), (2, 5), (2, 3))
}
TEMPERATURES = {f"{temperature:g}": {"temperature": temperature} for temperature in (0.0, 0.25, 0.5, 1.0)}


def draw(
    planner: HierarchicalDiffuser, embedding: TemporalDistance, support: Support, data: Trajectories, maze: Maze
) -> None:
    """The same planner drawn by other solvers, from more or less noise, and as the best of several candidates."""
    levels = [planner.level(name) for name in planner.levels if name != "low"]
    configs = [level.config for level in levels]
    for study, variants in (("solver", SOLVERS), ("temperature", TEMPERATURES)):
        for name, changes in variants.items():
            for level, config in zip(levels, configs, strict=True):
                level.config = replace(config, sampling=replace(config.sampling, **changes))
            _measure(study, name, planner, data, maze)
    for level, config in zip(levels, configs, strict=True):
        level.config = config
    encode = partial(embedding.encode_places, planner.meta.position)
    for candidates in (1, 2, 4, 8):
        planner.choose = BestOf(support, encode, planner.stride, candidates) if candidates > 1 else None
        _measure("candidates", str(candidates), planner, data, maze)


def _measure(study: str, variant: str, planner: HierarchicalDiffuser, data: Trajectories, maze: Maze) -> None:
    begin = time.process_time()
    found = cleanliness(planner, pairs_of(data, maze), maze)
    row = {"study": study, "dataset": data.meta.dataset, "variant": variant}
    _keep(row | {"seconds": round(time.process_time() - begin, 1)} | found)


def _keep(row: dict[str, object]) -> None:
    print(json.dumps(row), flush=True)
    append_rows(ROWS, [row])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", choices=["train", "draw"])
    parser.add_argument("path", type=Path, help="augmented data, or the folder of a trained planner")
    parser.add_argument("--data", type=Path, help="augmented data the planner was trained on")
    parser.add_argument("--embedding", type=Path, help="folder of the embedding that ranks candidates")
    parser.add_argument("--controller", type=Path, help="folder of the agent that knows where the data has been")
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--variants", nargs="*", default=list(VARIANTS), choices=list(VARIANTS))
    parser.add_argument("--out", type=Path, default=Path("runs/plans"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    data = formats.read(options.path if options.study == "train" else options.data)
    maze = maze_of(data.meta)
    assert maze is not None, "plans are checked against the walls of a maze"
    if options.study == "draw":
        embedding, support = TemporalDistance.load(options.embedding), GCIQL.load(options.controller).support
        draw(HierarchicalDiffuser.load(options.path), embedding, support, data, maze)
        return
    for name in options.variants:
        train_variant(name, data, maze, options.minutes, options.out / name.replace(" ", "-"))


if __name__ == "__main__":
    main()
