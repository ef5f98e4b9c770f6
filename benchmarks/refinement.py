"""States per second of refinement and labelling: whole segments as in the paper, against local windows, in one run.

    python benchmarks/refinement.py [--smoke]

Both with the networks of profile `laptop` for a dataset of 29 columns, on one thread. The weights are untrained, which
costs the same. Local windows are also checked against the data, as they are when a dataset is augmented.
"""

import argparse
import time
from dataclasses import dataclass, replace

import numpy as np
import torch

from scots.augmenters import AUGMENTERS
from scots.augmenters.refinement import (
    InverseDynamics,
    RefinementConfig,
    Stitcher,
    StitcherConfig,
    label_actions,
    refine,
)
from scots.augmenters.settings import ScotsConfig
from scots.augmenters.stitching import assemble
from scots.data.manifold import Manifold
from scots.data.trajectories import Array, Meta, Trajectories, offsets_from_lengths
from scots.datasets.specs import SPECS

DATASET = "antmaze-medium-stitch-v0"  # whose settings are measured
STATES = 201  # of an episode
TARGET = 3


@dataclass(frozen=True)
class Size:
    """How much is refined."""

    episodes: int
    trajectories: int
    stitcher: dict[str, int]  # changes of its settings


FULL, SMOKE = Size(1000, 40, {}), Size(20, 2, {"width": 32, "depth": 1})


def make_data(episodes: int) -> Trajectories:
    """Random motion of 29 columns with actions."""
    rng = np.random.default_rng(0)
    steps = rng.normal(0, 0.1, (episodes, STATES, 29)).cumsum(axis=1)
    states = (steps + rng.normal(0, 3, (episodes, 1, 29))).astype(np.float32).reshape(-1, 29)
    actions = rng.uniform(-1, 1, (len(states), 8)).astype(np.float32)
    offsets = offsets_from_lengths([STATES] * episodes)
    return Trajectories(states, offsets, actions, meta=Meta(position=(0, 1), quaternions=(3,)))


def refine_and_label(data: Trajectories, rows: Array, config: ScotsConfig, manifold: Manifold) -> tuple[float, float]:
    """States per second, and the share of the states that is made."""
    sizes = config.refinement.sizes(config.stitching.segment)
    stitcher = Stitcher.for_data(config.stitcher, data, **sizes).eval()
    inverse = InverseDynamics.for_data(config.inverse, data).eval()

    def is_on_data(states: Array) -> Array:
        manifold.is_on(states)  # for the time it takes: what untrained networks make is never on the data
        return np.ones(len(states), dtype=bool)

    made, begin = 0, time.perf_counter()
    for number, own in enumerate(rows):
        noise = torch.Generator().manual_seed(number)
        states, drawn = refine(data.observations[own], own, stitcher, config.refinement, noise, is_on_data, (3,))
        label_actions(states, own, drawn > 0, data.actions, inverse, config.refinement.keep_actions)
        made += int((drawn > 0).sum())
    return rows.size / (time.perf_counter() - begin), made / rows.size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="the same at a tiny size, only to see that it runs")
    size = SMOKE if parser.parse_args().smoke else FULL
    torch.set_num_threads(1)
    data = make_data(size.episodes)
    local = AUGMENTERS["scots"].configure(SPECS[DATASET], "laptop")
    stitcher: StitcherConfig = replace(local.stitcher, **size.stitcher)
    local = replace(local, stitcher=stitcher)
    whole = replace(local, refinement=RefinementConfig())
    rng, stitching = np.random.default_rng(1), local.stitching
    starts = rng.choice(data.window_starts(stitching.segment), (size.trajectories, stitching.stitches))
    rows, manifold = assemble(starts, stitching.segment), Manifold.of(data)
    for config in (whole, local):  # warm up
        refine_and_label(data, rows[:1], config, manifold)
    (before, all_made), (after, some_made) = (refine_and_label(data, rows, c, manifold) for c in (whole, local))
    print(
        f"refinement: whole segments {before:,.0f} states/s ({all_made:.0%} of the states made), local windows "
        f"{after:,.0f} states/s ({some_made:.0%} made): ratio {after / before:.1f} (target {TARGET})"
    )


if __name__ == "__main__":
    main()
