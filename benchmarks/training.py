"""Training throughput of the diffusion stitcher as a fraction of the matmul peak, measured in the same run."""

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from scots.augmenters.refinement import Stitcher, StitcherConfig
from scots.augmenters.stitching import StitchingConfig
from scots.data.trajectories import Trajectories

SIZES = {"paper, 29 columns": (256, 8, 29), "laptop, 29 columns": (128, 4, 29), "laptop, 2 columns": (64, 4, 2)}
BATCH, STEPS = 64, 8
SMOKE_SIZES, SMOKE_STEPS = {"smoke, 2 columns": (32, 1, 2)}, 1


def matmul_peak() -> float:
    """FLOP/s of a large single-precision product: the best of several."""
    matrix = torch.randn(2048, 2048)
    seconds = []
    for _ in range(6):
        begin = time.perf_counter()
        matrix @ matrix
        seconds.append(time.perf_counter() - begin)
    return 2 * 2048**3 / min(seconds)


def step_of(width: int, depth: int, columns: int) -> Callable[[], None]:
    rng = np.random.default_rng(0)
    data = Trajectories(rng.normal(size=(5000, columns)), np.arange(0, 5001, 100))
    config, segment = StitcherConfig(width=width, depth=depth), StitchingConfig().segment
    model = Stitcher.for_data(config, data, tokens=segment, context=1).train()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], fused=True)
    generator = torch.Generator()

    def step() -> None:
        loss, _ = model.loss(model.batch(data, BATCH, rng), generator)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        for average, source in model.ema_copies():
            average.update(source, 1)

    return step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="the same at a tiny size, only to see that it runs")
    smoke = parser.parse_args().smoke
    sizes, steps = (SMOKE_SIZES, SMOKE_STEPS) if smoke else (SIZES, STEPS)
    peak = matmul_peak()
    print(f"matmul peak {peak / 1e9:.0f} GFLOP/s with {torch.get_num_threads()} threads")
    for name, (width, depth, columns) in sizes.items():
        step = step_of(width, depth, columns)
        with FlopCounterMode(display=False) as counter:
            step()
        begin = time.perf_counter()
        for _ in range(steps):
            step()
        seconds = (time.perf_counter() - begin) / steps
        share = counter.get_total_flops() / seconds / peak
        print(f"{name} ({width} x {depth}): {BATCH / seconds:.0f} samples/s, {share:.0%} of the matmul peak")


if __name__ == "__main__":
    main()
