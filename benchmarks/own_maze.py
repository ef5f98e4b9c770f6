"""A maze of one's own from end to end: 300 short episodes in a spiral of 49 cells, and plans from anywhere in it.

    python benchmarks/own_maze.py [--folder runs/spiral] [--keep results/own_maze.jsonl] [--smoke]

No setting is typed: lengths of trajectories and plans and the step limit follow from the maze. The folder keeps what
is made, and the same command goes on after a kill.
"""

import argparse
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from scots.core.config import Profile
from scots.core.files import append_rows
from scots.core.versions import code_version, now
from scots.data import formats
from scots.datasets.collect import collect
from scots.datasets.specs import custom_collection, spec_of
from scots.envs.base import Task
from scots.envs.maze import parse_maze
from scots.evaluation.results import evaluate
from scots.experiments.models import augment, subject_of, train_model

ID = "pointmaze-spiral-stitch-v0"
SPIRAL = (
    "###########",
    "#.........#",
    "#########.#",
    "#.......#.#",
    "#.#####.#.#",
    "#.#...#.#.#",
    "#.#.###.#.#",
    "#.#.....#.#",
    "#.#######.#",
    "#.........#",
    "###########",
)
TASKS = tuple(  # between the ends of the spiral, and three other ways that are longer than any episode
    Task(number, start, goal)
    for number, (start, goal) in enumerate(
        [((1, 1), (5, 5)), ((5, 5), (1, 1)), ((1, 9), (7, 7)), ((9, 1), (1, 5)), ((3, 7), (9, 9))], start=1
    )
)


def measure(folder: Path, profile: Profile, recorded: int, episodes: int) -> dict[str, Any]:
    """The whole line, as far as the folder does not hold it, and the successes of its last stage."""
    maze = parse_maze(SPIRAL, "spiral")
    data = formats.read(collect(custom_collection(ID).resized(recorded), folder / "recorded.npz", maze=maze))
    long = augment(data, profile=profile, out=folder / "stitched.npz")
    agent = train_model("gciql", data, profile=profile, folder=folder / "gciql")
    planner = train_model("hd", long, profile=profile, folder=folder / "hd", recorded=data)
    rows = evaluate(subject_of(planner, agent), TASKS, episodes=episodes)
    spec = spec_of(data)
    return {
        "dataset": ID,
        "profile": profile,
        "cells": len(maze.cells),
        "recorded_episodes": len(data),
        "states": long.rows,
        "path_steps": spec.path_steps,
        "waypoints": spec.waypoints,
        "max_steps": rows[0].max_steps,
        "tasks": len(rows),
        "episodes": sum(row.episodes for row in rows),
        "training_seed": rows[0].training_seed,
        "seed": rows[0].seed,
        "success": sum(row.successes or 0 for row in rows) / sum(row.episodes for row in rows),
        "failures": {cause: sum(row.failures.get(cause, 0) for row in rows) for row in rows for cause in row.failures},
        "commit": code_version(),
        "date": now(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("runs/spiral"))
    parser.add_argument("--keep", type=Path, help="file to append the row to")
    parser.add_argument("--smoke", action="store_true", help="a tiny size, only to see that it runs")
    options = parser.parse_args()
    if options.smoke:
        with tempfile.TemporaryDirectory() as home:
            os.environ["SCOTS_HOME"] = home
            print(json.dumps(measure(Path(home) / "run", "smoke", recorded=12, episodes=1)))
        return
    row = measure(options.folder, "laptop", recorded=300, episodes=50)
    print(json.dumps(row), flush=True)
    if options.keep:
        append_rows(options.keep, [row])


if __name__ == "__main__":
    main()
