"""Own logs from end to end: street tracks in, long tracks out, and plans between random places, scored by the map.

    python benchmarks/streets.py [--seeds 1 2] [--keep results/streets.jsonl] [--smoke]

Every seed is another set of 60 CSV files. Nothing that learns sees the map. A plan counts as on the streets if all of
its positions are, within the tolerance; so does a recorded row.
"""

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import scots
from scots.core.config import Profile
from scots.core.files import append_rows
from scots.core.versions import code_version, now
from scots.data.trajectories import Array
from scots.datasets import load, streets
from scots.experiments.planning import plan

PAIRS = 100
TOLERANCE = 5.0  # metres


def random_places(count: int, rng: np.random.Generator) -> Array:
    """Positions (N, 2) on streets chosen at random, each as likely as it is long."""
    every = np.concatenate([street.along(1.0) for street in streets.Streets().streets])
    return rng.choice(every, size=count)


def off_street(positions: Array) -> float:
    return float((~streets.Streets().on_street(positions, TOLERANCE)).mean())


def measure(seed: int, profile: Profile, files: int, pairs: int) -> dict[str, Any]:
    """One set of tracks: stitched, learned from, planned with."""
    network = streets.Streets()
    with tempfile.TemporaryDirectory() as folder:
        streets.write_csv(Path(folder) / "logs", files, seed)
        data = load(str(Path(folder) / "logs"))
    begin = time.monotonic()
    long = scots.augment(data, profile=profile)
    augmented = time.monotonic()
    planner = scots.train("hd", long, profile=profile, recorded=data)
    trained = time.monotonic()
    rng = np.random.default_rng(seed)
    starts, goals = random_places(pairs, rng), random_places(pairs, rng)
    row: dict[str, Any] = {
        "seed": seed,
        "profile": profile,
        "files": files,
        "rows": data.rows,
        "states": long.rows,
        "off_street_recorded": off_street(data.positions),
        "off_street": off_street(long.positions),
        "least_covered_recorded": float(network.coverage(data.positions).min()),
        "least_covered": float(network.coverage(long.positions).min()),
        "pairs": pairs,
    }
    ways = {"one plan": (1, False), "cheapest of 8 as drawn": (8, False), "scots plan": (8, True)}
    for name, (candidates, search) in ways.items():
        paths = plan(planner, starts, goals, candidates=candidates, seed=seed, allow_outside=True, search=search)
        on = [off_street(path.positions) == 0 for path in paths]
        row |= {f"{name}, on streets": float(np.mean(on))}
        row |= {f"{name}, states off streets": off_street(np.concatenate([path.positions for path in paths]))}
        row |= {f"{name}, replaced": float(np.mean([path.replaced for path in paths]))}
    row |= {"augment_minutes": (augmented - begin) / 60, "train_minutes": (trained - augmented) / 60}
    return row | {"commit": code_version(), "date": now()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--keep", type=Path, help="file to append the rows to")
    parser.add_argument("--smoke", action="store_true", help="a tiny size, only to see that it runs")
    options = parser.parse_args()
    if options.smoke:
        with tempfile.TemporaryDirectory() as home:
            os.environ["SCOTS_HOME"] = home
            print(json.dumps(measure(0, "smoke", files=12, pairs=3)))
        return
    for seed in options.seeds:
        row = measure(seed, "laptop", streets.FILES, PAIRS)
        print(json.dumps(row), flush=True)
        if options.keep:
            append_rows(options.keep, [row])


if __name__ == "__main__":
    main()
