"""Composed plans of all episodes and candidates together, against one episode at a time, as a ratio in one run.

    python benchmarks/composition.py [--smoke]

Plans of as many chunks as CD has on PointMaze-Giant, with the networks of profile `laptop`, on one thread. The weights
are untrained, which costs the same. Both sides draw the same plans, as tests/planners/test_chunks.py makes sure, and
candidates of one episode are always denoised together.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch

from scots.data.trajectories import Array, Meta, Trajectories
from scots.datasets.specs import SPECS
from scots.planners import PLANNERS
from scots.planners.chunks import ChunkPlanner

SPEC = SPECS["pointmaze-giant-stitch-v0"]
TARGET = 2
COMPOSITIONS = {"cd, interleaved": "interleaved", "cd, parallel": "parallel", "gsc": "interleaved"}


@dataclass(frozen=True)
class Size:
    """How many plans are drawn, and of how many chunks."""

    episodes: int
    chunks: int
    solver_steps: int


FULL = Size(episodes=20, chunks=SPEC.chunks or 8, solver_steps=10)
SMOKE = Size(episodes=3, chunks=3, solver_steps=2)


def make_planner(name: str, composition: str, size: Size) -> ChunkPlanner:
    kind = PLANNERS[name]
    assert issubclass(kind, ChunkPlanner)
    config = kind.configure(SPEC, SPEC.episode_states, "laptop")
    sampling = replace(config.sampling, steps=size.solver_steps)
    corners = np.array([[-1.0, -1.0], [1.0, 1.0]] * (SPEC.episode_states // 2))
    data = Trajectories(corners, [0, len(corners)], meta=Meta(position=(0, 1)))
    torch.manual_seed(0)
    changes = {"chunks": size.chunks, "composition": composition, "sampling": sampling.to_dict()}
    return kind.for_data(config.replace_all(changes), data).eval()


def timed(work: Callable[[], object]) -> float:
    """Processor seconds."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


def compare(name: str, composition: str, size: Size) -> None:
    """Plan on both sides and say how they compare."""
    planner, calls = make_planner(name.partition(",")[0], composition, size), []
    planner.ema.register_forward_pre_hook(lambda _, inputs: calls.append(len(inputs[0])))
    rng = np.random.default_rng(0)
    ends: Array = rng.uniform(-1, 1, (2, size.episodes, 2)).astype(np.float32)
    planner.plan(ends[0, :1], ends[1, :1], [0])  # warm up
    calls.clear()
    fast = timed(lambda: planner.plan(ends[0], ends[1], range(size.episodes)))
    batched = len(calls)
    slow = timed(lambda: [planner.plan(ends[0, n : n + 1], ends[1, n : n + 1], [n]) for n in range(size.episodes)])
    print(
        f"{name}: {size.episodes} plans of {size.chunks} chunks, {batched} network calls together {fast:.1f} s, "
        f"{len(calls) - batched} calls one at a time {slow:.1f} s: ratio {slow / fast:.1f} (target {TARGET})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="the same at a tiny size, only to see that it runs")
    size = SMOKE if parser.parse_args().smoke else FULL
    torch.set_num_threads(1)
    for name, composition in COMPOSITIONS.items():
        compare(name, composition, size)


if __name__ == "__main__":
    main()
