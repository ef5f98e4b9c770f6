"""What makes a planner learn a maze on a CPU: plan cleanliness against processor minutes of training.

    python benchmarks/plans.py train AUG --minutes 5        # every variant below, one row each
    python benchmarks/plans.py draw DIR --data AUG          # one trained planner, with other ways of drawing its plans
    python benchmarks/plans.py --smoke          # both at a tiny size, only to see that they run; keeps no rows

A plan is clean if none of its positions lies inside a wall: over 200 random pairs of states, and over the five tasks
with 20 starts and goals each. The pairs have seeds of their own, which no evaluation uses. Rows go to
results/plans.jsonl. The planner's folder must hold what plan search needs, as `scots train` leaves it there.
"""

import argparse
import json
import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from scots.core.config import Seeds
from scots.core.files import append_rows
from scots.core.versions import code_version, now
from scots.data import formats
from scots.data.trajectories import Array, Trajectories
from scots.datasets.collect import collect
from scots.datasets.specs import SPECS
from scots.envs.maze import Maze, maze_of
from scots.experiments.models import SearchParts, augment, train_model
from scots.planners.base import Planner
from scots.planners.hd import HierarchicalDiffuser
from scots.planners.search import SearchConfig

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
    | {"high_every": 2, "training.batch_size": 8},
    rows=None,
)

VARIANTS: dict[str, dict[str, object]] = {
    "laptop": {},
    "two levels": {"high_every": 1},
    "noise prediction": {"prediction": "eps"},
    "x0 prediction": {"prediction": "x0"},
    "no Fourier features": {"high.frequencies": 0, "middle.frequencies": 0, "low.frequencies": 0},
    "no endpoint MLP": {"high.endpoint_width": 0, "middle.endpoint_width": 0},
    "chord frame": {"high.frame": "chord"},
    "64 x 2": {"high.width": 64, "middle.width": 64},
    "128 x 4": {"high.depth": 4, "middle.depth": 4},
    "batch 128": {"training.batch_size": 128},
    "batch 512": {"training.batch_size": 512, "training.learning_rate": 2e-3},
    "arrives at any time": {"arrival_quantile": None},
    "learning rate 3e-4": {"training.learning_rate": 3e-4},
    "half of the windows backwards": {"reversed_windows": 0.5},
    "EMA 0.9999": {"ema": 0.9999},
    "loss weighted towards noise": {"time_density": "noise"},
    "uniform times": {"time_density": "uniform"},
}
"""What is trained differently: settings that replace those of profile `laptop`, by dotted path."""


def pairs_of(data: Trajectories, maze: Maze, size: Size) -> tuple[Array, Array]:
    """Starts and goals (B, 2): random pairs of states, then the tasks with jitter."""
    rng = SEEDS.stream("pairs")
    random = data.positions[rng.integers(data.rows, size=(size.pairs, 2))]
    tasks = np.array([[maze.centre(start), maze.centre(goal)] for start, goal in maze.tasks])
    jittered = np.repeat(tasks, size.starts, axis=0) + rng.uniform(-1, 1, (len(tasks) * size.starts, 2, 2))
    both = np.concatenate([random, jittered]).astype(np.float32)
    return both[:, 0], both[:, 1]


def cleanliness(planner: Planner, data: Trajectories, maze: Maze, size: Size) -> dict[str, object]:
    """How many plans are clean, and how much of them is in walls."""
    starts, goals = pairs_of(data, maze, size)
    plans = planner.plan(starts, goals, [SEEDS.integer("plan", n) for n in range(len(starts))])
    planner.fill_in(plans, [0] * len(plans), [len(plan.positions) - 1 for plan in plans])
    positions = np.stack([plan.positions for plan in plans])
    assert not np.isnan(positions).any(), "some plans are not filled in"
    inside = maze.in_wall(positions)
    clean = ~inside.any(axis=1)
    return {
        "clean_pairs": float(clean[: size.pairs].mean()),
        "clean_tasks": clean[size.pairs :].reshape(-1, size.starts).mean(axis=1).round(2).tolist(),
        "positions_in_walls": float(inside.mean()),
    }


def train_variant(name: str, data: Trajectories, maze: Maze, minutes: float, folder: Path, size: Size) -> None:
    """Train for this many processor minutes and measure the plans."""
    changes = size.changes | VARIANTS[name]
    short, long = (train_planner(data, changes, steps, folder / f"timed-{steps}")[1] for steps in size.measured_steps)
    steps = max(1, int(60 * minutes * np.diff(size.measured_steps).item() / (long - short)))
    planner, seconds = train_planner(data, changes, steps, folder / "planner")
    row = {"study": "training", "dataset": data.meta.dataset, "variant": name, "steps": steps}
    _keep(row | {"minutes": round(seconds / 60, 2)} | cleanliness(planner, data, maze, size), size)


def train_planner(
    data: Trajectories, changes: dict[str, object], steps: int, folder: Path
) -> tuple[HierarchicalDiffuser, float]:
    """A planner trained for this many steps, and the processor seconds that it took."""
    begin = time.process_time()
    planner = train_model("hd", data, folder=folder, changes=changes | {"training.steps": steps})
    assert isinstance(planner, HierarchicalDiffuser)
    return planner, time.process_time() - begin


SOLVERS = {
    f"{'DDIM' if order == 1 else 'DPM-Solver++'} {steps}": {"order": order, "steps": steps}
    for order, steps in ((1, 20), (1, 10), (2, 20), (2, 10), (2, 5), (2, 3))
}
TEMPERATURES = {f"{temperature:g}": {"temperature": temperature} for temperature in (0.0, 0.25, 0.5, 1.0)}


def draw(planner: HierarchicalDiffuser, parts: SearchParts, data: Trajectories, maze: Maze, size: Size) -> None:
    """Plans of one planner by other solvers, from more or less noise, and the best of several candidates.

    Candidates are searched as in an evaluation: faulty windows are drawn again, and plans that stay faulty are
    bisected. A single candidate is a plan as the planner draws it, without a search.
    """
    for study, variants in (("solver", SOLVERS), ("temperature", TEMPERATURES)):
        for name, sampling in variants.items():
            _measure(study, name, sampled_with(planner, sampling), data, maze, size)
    _measure("candidates", "1", planner, data, maze, size)
    for candidates in (2, 4, 8):
        search = parts.search(planner, SearchConfig(candidates, mend=True, bisect=True))
        _measure("candidates", str(candidates), search, data, maze, size)


def sampled_with(planner: HierarchicalDiffuser, sampling: dict[str, object]) -> HierarchicalDiffuser:
    """The same planner with other settings for sampling waypoints; the steps between them stay as they are."""
    levels = [name for name in planner.levels if name != "low"]
    changes = {f"{level}.sampling.{name}": value for level in levels for name, value in sampling.items()}
    copy = HierarchicalDiffuser(planner.config.replace_all(changes), planner.sizes)
    copy.load_state_dict(planner.state_dict())
    return copy.eval()


def _measure(study: str, variant: str, planner: Planner, data: Trajectories, maze: Maze, size: Size) -> None:
    begin = time.process_time()
    found = cleanliness(planner, data, maze, size)
    row = {"study": study, "dataset": data.meta.dataset, "variant": variant}
    _keep(row | {"seconds": round(time.process_time() - begin, 1)} | found, size)


def _keep(row: dict[str, object], size: Size) -> None:
    row = row | {"commit": code_version(), "date": now()}
    print(json.dumps(row), flush=True)
    if size.rows:
        append_rows(size.rows, [row])


def run(options: argparse.Namespace, size: Size) -> None:
    data = formats.read(options.path if options.study == "train" else options.data)
    maze = maze_of(data.meta)
    assert maze is not None, "plans are checked against the walls of a maze"
    if options.study == "draw":
        planner, parts = HierarchicalDiffuser.load(options.path), SearchParts.load(options.path / "search")
        draw(planner, parts, data, maze, size)
        return
    for name in options.variants:
        train_variant(name, data, maze, options.minutes, options.out / name.replace(" ", "-"), size)


def run_smoke(parser: argparse.ArgumentParser, folder: Path) -> None:
    """Both studies on a few episodes, collected and stitched for them, with models that have learned nothing."""
    recorded, stitched, out = (folder / name for name in ("recorded.npz", "stitched.npz", "plans"))
    collection = SPECS["pointmaze-medium-stitch-v0"].collection
    assert collection is not None
    collect(collection.resized(4), recorded)
    steps = {f"{part}.training.steps": 1 for part in ("embedding", "inverse")}
    augment(formats.read(recorded), "scots", "smoke", {"trajectories": 4, "refine": False} | steps, out=stitched)
    run(parser.parse_args(["train", str(stitched), "--minutes", "0", "--out", str(out)]), SMOKE)
    run(parser.parse_args(["draw", str(out / "laptop" / "planner"), "--data", str(stitched)]), SMOKE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", nargs="?", choices=["train", "draw"])
    parser.add_argument("path", nargs="?", type=Path, help="augmented data, or the folder of a trained planner")
    parser.add_argument("--data", type=Path, help="augmented data the planner was trained on")
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--variants", nargs="*", default=list(VARIANTS), choices=list(VARIANTS))
    parser.add_argument("--out", type=Path, default=Path("runs/plans"))
    parser.add_argument("--smoke", action="store_true", help="the same at a tiny size, only to see that it runs")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.smoke:
        with tempfile.TemporaryDirectory() as folder:
            os.environ["SCOTS_HOME"] = folder
            run_smoke(parser, Path(folder))
    elif options.path is None:
        parser.error("give a study and its path, or --smoke")
    else:
        run(options, FULL)


if __name__ == "__main__":
    main()
