"""What makes a planner learn a maze on a CPU: plan cleanliness against processor minutes of training.

    python benchmarks/plans.py train AUG --minutes 5        # every variant below, one row each
    python benchmarks/plans.py draw DIR --data AUG --embedding DIR --controller DIR     # one planner, drawn otherwise
    python benchmarks/plans.py --smoke          # both at a tiny size, only to see that they run; keeps no rows

A plan is clean if none of its places lies inside a wall: over 200 random pairs of states, and over the five tasks with
20 starts and goals each. The pairs have seeds of their own, which no evaluation uses. Rows go to results/plans.jsonl.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from scots.agents import GCIQL, configure_agent
from scots.augmenters.embedding import TemporalDistance, TemporalDistanceConfig
from scots.core.config import Seeds
from scots.core.files import append_rows
from scots.data import formats
from scots.data.support import Support
from scots.data.trajectories import Array, Trajectories
from scots.datasets.collect import collect
from scots.envs.maze import Maze, maze_of
from scots.envs.ogbench import PROTOCOLS, with_episodes
from scots.models import diffusion
from scots.models.cache import train
from scots.models.training import TrainingConfig
from scots.planners.hd import HierarchicalDiffuser, HierarchicalDiffuserConfig, configure_hd
from scots.planners.search import BestOf

SEEDS = Seeds(4242)


@dataclass(frozen=True)
class Size:
    """How much is trained and drawn, and where the rows go."""

    pairs: int  # random pairs of states
    starts: int  # starts and goals of each task
    measured_steps: tuple[int, int]  # of two short trainings, whose difference says how long a step takes
    changes: dict[str, object]  # of the planner's settings, in every variant
    rows: Path | None  # printed only, if there is no file


FULL = Size(pairs=200, starts=20, measured_steps=(10, 60), changes={}, rows=Path("results/plans.jsonl"))
TINY = {"width": 32, "depth": 1}
SMOKE = Size(
    pairs=4,
    starts=1,
    measured_steps=(1, 2),
    changes={f"{level}.{name}": value for level in ("high", "middle", "low") for name, value in TINY.items()}
    | {"leap": 2, "training.batch_size": 8},
    rows=None,
)

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


def pairs_of(data: Trajectories, maze: Maze, size: Size) -> tuple[Array, Array]:
    """Starts and goals (B, 2): random pairs of states, then the tasks with jitter."""
    rng = SEEDS.stream("pairs")
    random = data.positions[rng.integers(data.rows, size=(size.pairs, 2))]
    tasks = np.array([[maze.centre(start), maze.centre(goal)] for start, goal in maze.tasks])
    jittered = np.repeat(tasks, size.starts, axis=0) + rng.uniform(-1, 1, (len(tasks) * size.starts, 2, 2))
    both = np.concatenate([random, jittered]).astype(np.float32)
    return both[:, 0], both[:, 1]


def cleanliness(planner: HierarchicalDiffuser, data: Trajectories, maze: Maze, size: Size) -> dict[str, object]:
    """How many plans are clean, and how much of them is in walls."""
    starts, goals = pairs_of(data, maze, size)
    rng = [SEEDS.stream("waypoints", n) for n in range(len(starts))]
    waypoints = planner.waypoints(starts, goals, rng)
    ends = np.stack([waypoints[:, :-1], waypoints[:, 1:]], axis=2).reshape(-1, 2, waypoints.shape[-1])
    dense = planner.infill(ends, 1, [SEEDS.stream("infill", n) for n in range(len(ends))])
    inside = maze.in_wall(dense).reshape(len(starts), -1)
    clean = ~inside.any(axis=1)
    return {
        "clean_pairs": float(clean[: size.pairs].mean()),
        "clean_tasks": clean[size.pairs :].reshape(-1, size.starts).mean(axis=1).round(2).tolist(),
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


def train_variant(name: str, data: Trajectories, maze: Maze, minutes: float, folder: Path, size: Size) -> None:
    """Train for so many processor minutes and measure the plans."""
    config: HierarchicalDiffuserConfig = configure_hd(data)
    for path, value in (size.changes | VARIANTS[name]).items():
        config = config.but(path, value)
    steps = _steps(config, data, 60 * minutes, folder / "timed", size.measured_steps)
    begin = time.process_time()
    training = replace(config.training, steps=steps)
    with weighted(name):
        planner = train(HierarchicalDiffuser, replace(config, training=training), data, 0, folder / "planner", name)
    spent = (time.process_time() - begin) / 60
    row = {"study": "training", "dataset": data.meta.dataset, "variant": name, "steps": steps}
    _keep(row | {"minutes": round(spent, 2)} | cleanliness(planner, data, maze, size), size)


def _steps(
    config: HierarchicalDiffuserConfig, data: Trajectories, seconds: float, folder: Path, measured: tuple[int, int]
) -> int:
    """As many steps as fit into the time, at least one."""
    spent = []
    for steps in measured:
        short = replace(config, training=replace(config.training, steps=steps))
        begin = time.process_time()
        train(HierarchicalDiffuser, short, data, 0, folder / f"{steps}", "timing")
        spent.append(time.process_time() - begin)
    return max(1, int(seconds * (measured[1] - measured[0]) / (spent[1] - spent[0])))


SOLVERS = {
    f"{'DDIM' if order == 1 else 'DPM-Solver++'} {steps}": {"order": order, "steps": steps}
    for order, steps in ((1, 20), (1, 10), (2, 20), (2, 10), (2, 5), (2, 3))
}
TEMPERATURES = {f"{temperature:g}": {"temperature": temperature} for temperature in (0.0, 0.25, 0.5, 1.0)}


def draw(
    planner: HierarchicalDiffuser,
    embedding: TemporalDistance,
    support: Support,
    data: Trajectories,
    maze: Maze,
    size: Size,
) -> None:
    """The same planner drawn by other solvers, from more or less noise, and as the best of several candidates."""
    levels = [planner.level(name) for name in planner.levels if name != "low"]
    configs = [level.config for level in levels]
    for study, variants in (("solver", SOLVERS), ("temperature", TEMPERATURES)):
        for name, changes in variants.items():
            for level, config in zip(levels, configs, strict=True):
                level.config = replace(config, sampling=replace(config.sampling, **changes))
            _measure(study, name, planner, data, maze, size)
    for level, config in zip(levels, configs, strict=True):
        level.config = config
    encode = partial(embedding.encode_positions, planner.meta.position)
    for candidates in (1, 2, 4, 8):
        planner.choose = BestOf(support, encode, planner.stride, candidates) if candidates > 1 else None
        _measure("candidates", str(candidates), planner, data, maze, size)


def _measure(
    study: str, variant: str, planner: HierarchicalDiffuser, data: Trajectories, maze: Maze, size: Size
) -> None:
    begin = time.process_time()
    found = cleanliness(planner, data, maze, size)
    row = {"study": study, "dataset": data.meta.dataset, "variant": variant}
    _keep(row | {"seconds": round(time.process_time() - begin, 1)} | found, size)


def _keep(row: dict[str, object], size: Size) -> None:
    print(json.dumps(row), flush=True)
    if size.rows:
        append_rows(size.rows, [row])


def run(options: argparse.Namespace, size: Size) -> None:
    data = formats.read(options.path if options.study == "train" else options.data)
    maze = maze_of(data.meta)
    assert maze is not None, "plans are checked against the walls of a maze"
    if options.study == "draw":
        embedding, support = TemporalDistance.load(options.embedding), GCIQL.load(options.controller).support
        draw(HierarchicalDiffuser.load(options.path), embedding, support, data, maze, size)
        return
    for name in options.variants:
        train_variant(name, data, maze, options.minutes, options.out / name.replace(" ", "-"), size)


def run_smoke(parser: argparse.ArgumentParser, folder: Path) -> None:
    """Both studies on a few episodes that are collected for them, with models that have learned nothing."""
    path, out, embedding, controller = (folder / name for name in ("data.npz", "plans", "embedding", "gciql"))
    collect(with_episodes(PROTOCOLS["pointmaze-medium-stitch-v0"], 4), path)
    data, short = formats.read(path), TrainingConfig(steps=1, batch_size=8, learning_rate=1e-3)
    config = TemporalDistanceConfig(form="constrained", hidden=(32,), training=short)
    train(TemporalDistance, config, data, 0, embedding, "embedding")
    train(GCIQL, replace(configure_agent("gciql", data, "smoke"), training=short), data, 0, controller, "gciql")
    run(parser.parse_args(["train", str(path), "--minutes", "0", "--out", str(out)]), SMOKE)
    models = ["--embedding", str(embedding), "--controller", str(controller)]
    run(parser.parse_args(["draw", str(out / "laptop" / "planner"), "--data", str(path), *models]), SMOKE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", nargs="?", choices=["train", "draw"])
    parser.add_argument("path", nargs="?", type=Path, help="augmented data, or the folder of a trained planner")
    parser.add_argument("--data", type=Path, help="augmented data the planner was trained on")
    parser.add_argument("--embedding", type=Path, help="folder of the embedding that ranks candidates")
    parser.add_argument("--controller", type=Path, help="folder of the agent that knows where the data has been")
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--variants", nargs="*", default=list(VARIANTS), choices=list(VARIANTS))
    parser.add_argument("--out", type=Path, default=Path("runs/plans"))
    parser.add_argument("--smoke", action="store_true", help="the same at a tiny size, only to see that it runs")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.smoke:
        with tempfile.TemporaryDirectory() as folder:
            run_smoke(parser, Path(folder))
    elif options.path is None:
        parser.error("give a study and its path, or --smoke")
    else:
        run(options, FULL)


if __name__ == "__main__":
    main()
