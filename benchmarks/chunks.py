"""Where plans of chunks leave the free space: what one chunk knows, and what other ways of composing it change.

    python benchmarks/chunks.py DIR --data RECORDED [--keep results/chunks.jsonl]      # a trained cd or gsc
    python benchmarks/chunks.py --smoke         # the same at a tiny size, only to see that it runs

A plan is clean if none of its positions lies inside a wall. Plans are between random cells of the maze, with starts and
goals that no evaluation uses; the single chunk is between the ends of recorded windows, so that a clean one exists.
"""

import argparse
import json
import os
import tempfile
from pathlib import Path
from typing import Any

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
from scots.experiments.models import SearchParts, train_model
from scots.planners.cd import CompositionalDiffuser
from scots.planners.chunks import ChunkPlanner
from scots.planners.gsc import GenerativeSkillChaining

SEEDS = Seeds(777)
PAIRS, SMOKE_PAIRS = 100, 3
MANY = 4  # chunks of a plan, from which on it is one of many

CD, GSC = CompositionalDiffuser, GenerativeSkillChaining
WAYS: dict[str, tuple[type[ChunkPlanner], dict[str, Any]]] = {
    "CD": (CD, {}),
    "CD, parallel": (CD, {"composition": "parallel"}),
    "CD, temperature 0.25": (CD, {"sampling.temperature": 0.25}),
    "CD, temperature 1": (CD, {"sampling.temperature": 1.0}),
    "CD, 30 calls": (CD, {"sampling.steps": 30}),
    "CD, guidance 2": (CD, {"guidance": 2.0}),
    "CD, 1 candidate": (CD, {"candidates": 1}),
    "CD, 40 candidates": (CD, {"candidates": 40}),
    "CD, 1.5 steps per distance": (CD, {"steps_per_distance": 1.5}),
    "CD, 3.5 steps per distance": (CD, {"steps_per_distance": 3.5}),
    "GSC": (GSC, {}),
}
"""Name -> planner and settings other than those it was trained with; none of them trains anything."""


def single_chunks(folder: Path, data: Trajectories, maze: Maze, count: int) -> dict[str, Any]:
    """One chunk each between the first and last positions of recorded windows as long as a chunk."""
    planner = CD.load(folder)
    planner = CD.load(folder, planner.config.replace_all({"chunks": 1, "candidates": 1}))
    first = data.random_rows(planner.config.span, count, SEEDS.stream("windows"))
    ends = data.positions[first[:, None] + [0, planner.config.span - 1]]
    return cleanliness(planner, ends, maze)


def composed(folder: Path, way: str, maze: Maze, count: int) -> dict[str, Any]:
    """Plans between random cells, composed in one of the ways."""
    kind, changes = WAYS[way]
    planner = kind.load(folder, kind.load(folder).config.replace_all(changes))
    planner.encoder = SearchParts.load(folder / "search").encoder
    rng = SEEDS.stream("pairs")
    centres = np.array([maze.centre(cell) for cell in maze.cells])
    ends = centres[rng.integers(len(centres), size=(count, 2))] + rng.uniform(-1, 1, size=(count, 2, 2))
    return cleanliness(planner, ends, maze)


def cleanliness(planner: ChunkPlanner, ends: Array, maze: Maze) -> dict[str, Any]:
    """How many plans between these ends (B, 2, P) are clean, those of many chunks by themselves too."""
    ends = ends.astype(np.float32)
    plans = planner.plan(ends[:, 0], ends[:, 1], [SEEDS.integer("plan", n) for n in range(len(ends))])
    inside = [maze.in_wall(plan.positions) for plan in plans]
    clean, chunks = np.array([not own.any() for own in inside]), planner.chunk_counts(ends)
    many = chunks >= MANY
    return {
        "chunks": float(chunks.mean()),
        "clean": float(clean.mean()),
        "clean_many": float(clean[many].mean()) if many.any() else None,
        "in_walls": float(np.mean([own.mean() for own in inside])),
    }


def run(folder: Path, data: Trajectories, count: int, rows: Path | None) -> None:
    maze = maze_of(data.meta)
    assert maze is not None, "plans are checked against the walls of a maze"
    steps = CD.load(folder).config.training.steps
    found = {"one chunk, ends of recorded windows": single_chunks(folder, data, maze, count)}
    found |= {way: composed(folder, way, maze, count) for way in WAYS}
    for way, measured in found.items():
        about = {"dataset": data.meta.dataset, "steps": steps, "way": way, "plans": count}
        row = about | measured | {"commit": code_version(), "date": now()}
        print(json.dumps(row), flush=True)
        if rows:
            append_rows(rows, [row])


def run_smoke(folder: Path) -> None:
    """A few episodes, and a planner that has learned nothing."""
    collection = SPECS["pointmaze-medium-stitch-v0"].collection
    assert collection is not None
    data = formats.read(collect(collection.resized(4), folder / "recorded.npz"))
    train_model("cd", data, profile="smoke", changes={"training.steps": 1, "chunks": None}, folder=folder / "cd")
    run(folder / "cd", data, SMOKE_PAIRS, None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", nargs="?", type=Path, help="folder of the trained planner")
    parser.add_argument("--data", type=Path, help="recorded data that it was trained on")
    parser.add_argument("--keep", type=Path, help="add the rows to this JSONL file")
    parser.add_argument("--smoke", action="store_true", help="the same at a tiny size, only to see that it runs")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.smoke:
        with tempfile.TemporaryDirectory() as folder:
            os.environ["SCOTS_HOME"] = folder
            run_smoke(Path(folder))
    elif options.path is None or options.data is None:
        parser.error("give the folder of a planner and --data, or --smoke")
    else:
        run(options.path, formats.read(options.data), PAIRS, options.keep)


if __name__ == "__main__":
    main()
