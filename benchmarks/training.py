"""Training throughput as a fraction of the matmul peak, measured in the same run: the stitcher and every agent.

Each is timed as `fit` trains it, and with torch's default products.
Agents have OGBench's size: three hidden layers of 512, batches of 1024, the 29 columns and 8 actions of the ant. Their
bound is the number of updates at which all floating-point operations would run at the peak.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from scots.agents import AGENTS
from scots.augmenters.refinement import Stitcher, StitcherConfig
from scots.augmenters.stitching import StitchingConfig
from scots.data.trajectories import Meta, Trajectories
from scots.datasets.specs import SPECS
from scots.models.training import Model, fast_products

SIZES = {"paper, 29 columns": (256, 8, 29), "laptop, 29 columns": (128, 4, 29), "laptop, 2 columns": (64, 4, 2)}
BATCH, STEPS = 64, 8
SMOKE_SIZES, SMOKE_STEPS = {"smoke, 2 columns": (32, 1, 2)}, 1
AGENT_HIDDEN, AGENT_BATCH = (512, 512, 512), 1024
SMOKE_HIDDEN, SMOKE_BATCH = (32, 32), 16


def matmul_peak() -> float:
    """FLOP/s of a large product as `fit` computes it: the best of several."""
    matrix = torch.randn(2048, 2048)
    seconds = []
    for _ in range(6):
        begin = time.perf_counter()
        matrix @ matrix
        seconds.append(time.perf_counter() - begin)
    return 2 * 2048**3 / min(seconds)


def step_of(model: Model, data: Trajectories, batch: int) -> Callable[[], None]:
    """One step of training, as the training loop makes it."""
    optimizer = torch.optim.AdamW([p for p in model.train().parameters() if p.requires_grad], fused=True)
    rng, generator = np.random.default_rng(0), torch.Generator()

    def step() -> None:
        loss, _ = model.loss(model.batch(data, batch, rng), generator)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        for average, source in model.ema_copies():
            average.update(source, 1)

    return step


def timed(step: Callable[[], None], steps: int) -> tuple[float, float, int]:
    """Seconds of a step as `fit` makes it, seconds with torch's default products, and its floating-point operations."""
    with FlopCounterMode(display=False) as counter:
        step()
    plain = seconds_of(step, steps)
    with fast_products(torch.device("cpu")):
        step()
        return seconds_of(step, steps), plain, counter.get_total_flops()


def seconds_of(step: Callable[[], None], steps: int) -> float:
    begin = time.perf_counter()
    for _ in range(steps):
        step()
    return (time.perf_counter() - begin) / steps


def random_data(columns: int, actions: int) -> Trajectories:
    rng = np.random.default_rng(0)
    meta = Meta(position=(0, 1))
    return Trajectories(
        rng.normal(size=(5000, columns)), np.arange(0, 5001, 100), rng.normal(size=(5000, actions)), meta=meta
    )


def stitchers(sizes: dict[str, tuple[int, int, int]], steps: int, peak: float) -> None:
    for name, (width, depth, columns) in sizes.items():
        config, segment, data = (
            StitcherConfig(width=width, depth=depth),
            StitchingConfig().segment,
            random_data(columns, 2),
        )
        model = Stitcher.for_data(config, data, tokens=segment, context=1)
        seconds, plain, flops = timed(step_of(model, data, BATCH), steps)
        speed = f"{BATCH / seconds:.0f} samples/s, {plain / seconds:.2f}x of torch's default"
        print(f"{name} ({width} x {depth}): {speed}, {flops / seconds / peak:.0%} of the matmul peak")


def agents(hidden: tuple[int, ...], batch: int, steps: int, peak: float) -> None:
    data = random_data(columns=29, actions=8)
    for name, kind in AGENTS.items():
        config = replace(kind.configure(SPECS["antmaze-medium-stitch-v0"], "paper"), hidden=hidden)
        seconds, plain, flops = timed(step_of(kind.for_data(config, data), data, batch), steps)
        size = f"{hidden[0]} x {len(hidden)}, batch {batch}"
        speed = f"{1 / seconds:.1f} updates/s, {plain / seconds:.2f}x of torch's default"
        print(
            f"{name} ({size}): {speed}, bound {peak / flops:.1f} at the matmul peak, {flops / seconds / peak:.0%} of it"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="the same at a tiny size, only to see that it runs")
    smoke = parser.parse_args().smoke
    steps = SMOKE_STEPS if smoke else STEPS
    with fast_products(torch.device("cpu")):
        peak = matmul_peak()
    print(f"matmul peak {peak / 1e9:.0f} GFLOP/s with {torch.get_num_threads()} threads")
    stitchers(SMOKE_SIZES if smoke else SIZES, steps, peak)
    agents(*((SMOKE_HIDDEN, SMOKE_BATCH) if smoke else (AGENT_HIDDEN, AGENT_BATCH)), steps, peak)


if __name__ == "__main__":
    main()
