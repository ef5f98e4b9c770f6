"""The batched walk against the loop of Algorithm 1, as ratios of processor seconds per trajectory in one run.

The inputs are as large as those of the giant mazes: a million rows in a plane, lifted to 32 dimensions by random
Fourier features. Every side computes with one thread in a worker process. The loop is timed twice: scanning all
segments for every stitch, as the official code does, and searching the same index as the walk, one query at a time.
"""

import argparse
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from walk_workers import SEEDS, prepare_naive, prepare_walk

from scots.augmenters.index import SegmentIndex, segment_starts
from scots.augmenters.scots import Scots
from scots.augmenters.settings import VARIANTS
from scots.augmenters.stitching import Segments
from scots.data.npz import read_npz
from scots.data.shards import Shards
from scots.data.trajectories import Array, Meta, Trajectories, offsets_from_lengths
from scots.datasets.specs import SPECS

DATASET = "pointmaze-giant-stitch-v0"  # whose settings are walked with
WORKERS = 2
STATES, LATENT = 201, 32
NAIVE_TRAJECTORIES = 3
TARGET = 20


@dataclass(frozen=True)
class Size:
    """How much there is to search, and how much is walked."""

    episodes: int
    trajectories: int
    shard: int  # trajectories that a worker walks at a time


FULL, SMOKE = Size(episodes=5000, trajectories=5500, shard=275), Size(episodes=20, trajectories=4, shard=2)


def make_positions(episodes: int) -> Trajectories:
    """Episodes that wander through a square at 0.2 a step for a random time and then idle with some noise."""
    rng = SEEDS.stream("positions")
    heading = rng.uniform(0, 2 * np.pi, (episodes, 1)) + rng.normal(0, 0.1, (episodes, STATES)).cumsum(axis=1)
    moving = np.arange(STATES) < rng.integers(60, 140, (episodes, 1))
    steps = np.where(moving, 0.2, 0)[..., None] * np.stack([np.cos(heading), np.sin(heading)], axis=-1)
    paths = rng.uniform(0, 40, (episodes, 1, 2)) + steps.cumsum(axis=1) + rng.normal(0, 0.05, steps.shape)
    walled = 40 - np.abs(paths % 80 - 40)  # reflected at the borders
    meta = Meta(position=(0, 1))
    return Trajectories(walled.reshape(-1, 2), offsets_from_lengths([STATES] * episodes), meta=meta)


def lift(positions: Array) -> Array:
    rng = SEEDS.stream("features")
    phases = positions @ rng.normal(0, 0.1, (2, LATENT)) + rng.uniform(0, 2 * np.pi, LATENT)
    return (60 * np.cos(phases)).astype(np.float32)


def timed(folder: Path, prepare: object, arguments: tuple, runs: list[range], label: str) -> tuple[Array, float, float]:
    """Chosen segments, processor seconds per trajectory, and seconds from start to end."""
    shards = Shards(folder / label.replace(" ", "-"), tuple(runs))
    begin = time.perf_counter()
    shards.complete(prepare, (folder, *arguments), workers=WORKERS, label=label, weight=1, unit="trajectories")
    wall = time.perf_counter() - begin
    parts = [read_npz(shards.path(run)) for run in runs]
    segments, seconds = (np.concatenate([part[name] for part in parts]) for name in ("segments", "seconds"))
    return segments, seconds.sum() / len(segments), wall


def measure(variant: str, data: Trajectories, latents: Array, size: Size, folder: Path) -> None:
    config = Scots("scots", variant).configure(SPECS[DATASET], "paper").stitching
    segments = segment_starts(data, config.segment, config.min_displacement)
    begin = time.perf_counter()
    index = SegmentIndex.build(latents[segments], config.index, SEEDS.integer("index"))
    print(
        f"{variant}: {len(segments):,} segments, index {config.index} in {time.perf_counter() - begin:.1f} s, "
        f"{index.probes} probes, recall {index.recall:.3f}"
    )
    Segments(latents, segments, data.episode_of(segments), index).save(folder)
    runs = [range(begin, begin + size.shard) for begin in range(0, size.trajectories, size.shard)]
    walked, each, wall = timed(folder, prepare_walk, (config,), runs, f"{variant} walk")
    print(
        f"  walk: {size.trajectories} trajectories x {config.stitches} stitches in {wall:.1f} s by {WORKERS} processes"
    )
    for scan, label in ((True, "scanning all segments"), (False, "with the same index")):
        few = [range(NAIVE_TRAJECTORIES)]
        chosen, naive, _ = timed(folder, prepare_naive, (config, scan), few, f"{variant} loop {label}")
        same = np.mean(chosen == walked[:NAIVE_TRAJECTORIES])
        print(
            f"  loop {label}: {naive * 1e3:,.0f} ms per trajectory, walk {each * 1e3:.1f} ms: "
            f"ratio {naive / each:.0f}{f' (target {TARGET})' if scan else ''}, {same:.0%} of the choices equal"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="the same at a tiny size, only to see that it runs")
    size = SMOKE if parser.parse_args().smoke else FULL
    data = make_positions(size.episodes)
    latents = lift(data.observations)
    for variant in VARIANTS:
        with tempfile.TemporaryDirectory() as folder:
            measure(variant, data, latents, size, Path(folder))


if __name__ == "__main__":
    main()
