"""Collection speed against the bare simulator, as a ratio of two wall times in one run.

Both sides start the same number of processes, build the same environment, and take the same number of steps. The bare
side steps recorded actions and keeps nothing; the other side is `scots data collect` from start to finished files.
"""

import argparse
import multiprocessing
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from scots.data import formats
from scots.data.shards import validation_path
from scots.data.trajectories import Array, Meta
from scots.datasets.collect import collect
from scots.datasets.protocols import CollectionSpec
from scots.datasets.specs import SPECS
from scots.envs.ogbench import make_simulator

WORKERS = 2
TARGETS = {"pointmaze-giant-stitch-v0": (1000, 0.7), "antmaze-giant-stitch-v0": (300, 0.8)}  # episodes, ratio
SMOKE_EPISODES = 2


def step_all(meta: Meta, actions: Array) -> None:
    environment = make_simulator(meta, terminate_at_goal=False)
    environment.reset()
    for action in actions:
        environment.step(action)


def bare_seconds(meta: Meta, actions: Array) -> float:
    begin = time.perf_counter()
    with ProcessPoolExecutor(WORKERS, multiprocessing.get_context("spawn")) as pool:
        list(pool.map(step_all, [meta] * WORKERS, [actions[n::WORKERS].astype(float) for n in range(WORKERS)]))
    return time.perf_counter() - begin


def collect_seconds(spec: CollectionSpec, out: Path) -> float:
    begin = time.perf_counter()
    collect(spec, out, workers=WORKERS)
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="the same at a tiny size, only to see that it runs")
    smoke = parser.parse_args().smoke
    for id, (episodes, target) in TARGETS.items():
        collection = SPECS[id].collection
        assert collection is not None
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "a.npz"
            ours = collect_seconds(collection.resized(SMOKE_EPISODES if smoke else episodes), out)
            train, validation = formats.read(out), formats.read(validation_path(out))
            steps = train.rows + validation.rows
            bare = bare_seconds(train.meta, train.actions) * steps / train.rows
        rates = f"{steps / ours:,.0f} steps/s collected, {steps / bare:,.0f} steps/s bare, {WORKERS} processes each"
        print(f"{id}: {rates}: ratio {bare / ours:.2f} (target {target})")


if __name__ == "__main__":
    main()
