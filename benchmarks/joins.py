"""Ways to repair joins, measured against each other on the same stitched trajectories of a dataset.

    python benchmarks/joins.py antmaze-medium-stitch-v0 [--steps 6000] [--keep results/joins.jsonl]
    python benchmarks/joins.py --streets        # street tracks, made here, scored by their map
    python benchmarks/joins.py --smoke          # the toy at a tiny size, only to see that it runs

- unrefined: segments as they are
- fade: the gap at the join is added to the next states, less and less; no network
- whole: all states between the ends of a segment are made (the paper)
- renoised t: whole segments, but the solver starts from the recorded segment, noised to time t
- held m: whole segments, but recorded states stay from the m-th after the join on; the network is not trained for it
- local m, context c: m states around the join are made by a network that was trained on such windows
- checked: windows that leave the data are drawn again, up to three times, and stay as recorded after that

The network is called as often as at profile `laptop`; the variant of the profile is also tried with other numbers of
calls.

Unrefined trajectories are also stitched without a shortlist by posture, which shows what it costs in coverage: cells is
the median number of distinct cells of a maze, or of a grid, that a trajectory visits.

All networks have the same size and training. Dynamic MSE is the median by steps after the join: at the join, and the
average of all places of a segment. Off the data is the share of the made states that lie off the recorded ones. Fine
cells are those of the report (docs/report.md), at equal numbers of states.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

from scots.augmenters import AUGMENTERS
from scots.augmenters.refinement import (
    InverseDynamics,
    RefinementConfig,
    Stitcher,
    label_actions,
    refine,
    unit_quaternions,
)
from scots.augmenters.scots import prepare, segments_folder
from scots.augmenters.settings import ScotsConfig
from scots.augmenters.stitching import Segments, StitchingConfig, assemble, walk
from scots.core.config import Seeds
from scots.core.files import append_rows
from scots.core.versions import code_version, now
from scots.data.manifold import Manifold
from scots.data.trajectories import Array, Trajectories, offsets_from_lengths
from scots.datasets import load, streets, toy
from scots.datasets.specs import spec_of
from scots.envs.maze import maze_of
from scots.models import diffusion
from scots.models.cache import load_or_train
from scots.reporting.dynamics import measure_dynamics
from scots.reporting.fidelity import measure_motion
from scots.reporting.lineage import measure_kept
from scots.reporting.metrics import (
    Cells,
    grid_cells,
    maze_cells,
    measure_clearance,
    measure_equal_coverage,
    measure_visits,
)
from scots.reporting.quality import FINE_PARTS

SEED = 0
FADE = 8  # states over which the gap at a join fades
RENOISED = (0.05, 0.2, 0.5)
HELD = (5, 7, 9)
LOCAL = ((5, 3), (7, 1), (7, 3))  # states made, and context
CALLS = (3, 4, 6, 8, 10)  # of the network for every window, beside the number of profile `laptop`

Repair = Callable[[Array, Array, int], tuple[Array, Array]]
"""States (T, O) and source rows (T,) of a trajectory, and its number -> repaired states and which were made (T,)."""


@dataclass(frozen=True)
class Variant:
    """A way to repair joins."""

    name: str
    repair: Repair
    calls: int | None = None  # of the network for every window
    keep_actions: bool = True  # recorded ones, where states are


@dataclass(frozen=True)
class Study:
    """A dataset, trajectories stitched from it, and what measures them."""

    data: Trajectories
    config: ScotsConfig
    rows: Array  # (B, T)
    manifold: Manifold
    inverse: InverseDynamics | None

    @property
    def calls(self) -> int:
        """Calls of the network for every window, as the config has them."""
        return self.config.stitcher.sampling.steps

    def measure(self, variant: Variant) -> dict[str, Any]:
        """Repair all trajectories and measure what became of them."""
        begin = time.process_time()
        found = [variant.repair(self.data.observations[own], own, number) for number, own in enumerate(self.rows)]
        seconds = time.process_time() - begin
        states, made = (np.stack([part[n] for part in found]) for n in (0, 1))
        aug = self._augmented(states, made, variant.keep_actions)
        return {
            "made": float((made > 0).mean()),
            "off_data": _share(~self.manifold.is_on(states[made > 0])),
            "states_per_second": round(self.rows.size / seconds) if made.any() else None,
            "cells": measure_visits(aug, self._cells()).per_trajectory.median,
            "fine_cells": measure_equal_coverage(self.data, aug, self._cells(FINE_PARTS), self._rng()).augmented,
            **self._fidelity(aug),
            **self._streets(states, made),
            **self._dynamics(aug),
        }

    def _augmented(self, states: Array, made: Array, keep_actions: bool) -> Trajectories:
        """The repaired trajectories (B, T, O) with their lineage, and labelled if the data has actions."""
        flat = {"observations": states, "source": self.rows, "generated": made}
        if self.inverse is not None:
            flat["actions"] = np.stack(
                [
                    label_actions(*parts, self.data.actions, self.inverse, keep_actions)
                    for parts in zip(states, self.rows, made > 0, strict=True)
                ]
            )
        return Trajectories(
            offsets=offsets_from_lengths([states.shape[1]] * len(states)),
            meta=self.data.meta,
            **{name: values.reshape(-1, *values.shape[2:]) for name, values in flat.items()},
        )

    def _cells(self, parts: int = 1) -> Cells:
        columns, maze = self.data.meta.position, maze_of(self.data.meta)
        return maze_cells(maze, columns, parts) if maze else grid_cells(self.data, columns, parts)

    def _fidelity(self, aug: Trajectories) -> dict[str, Any]:
        """What was kept as recorded, step lengths, and distances from walls."""
        kept = measure_kept(self.data, aug, self.config.stitching.segment)
        motion = measure_motion(self.data, aug, 100_000, self._rng())
        assert kept is not None
        assert motion is not None
        row = {"kept_actions": kept.actions, "own_continuation": kept.own_continuation, "gap": kept.refined_gap}
        row["step_lengths"] = motion.step_length.wasserstein
        if maze := maze_of(self.data.meta):
            row["nearer_to_walls"] = measure_clearance(self.data, aug, maze).nearer_than_any
        return row

    def _streets(self, states: Array, made: Array) -> dict[str, float]:
        if self.data.meta.columns != streets.META.columns:
            return {}
        off = ~streets.Streets().on_street(states.reshape(-1, states.shape[2])[:, :2])
        return {"off_street": _share(off), "off_street_made": _share(off[(made > 0).ravel()])}

    def _dynamics(self, aug: Trajectories) -> dict[str, Any]:
        if self.inverse is None:
            return {}
        segment = self.config.stitching.segment
        found = measure_dynamics(self.data, aug, self.inverse, (1000, 300), self._rng(), segment)
        if found is None:
            return {}
        places = list(found.places)
        return {
            "join": places[0],
            "average": float(np.mean(places)),
            "places": [float(f"{place:.3g}") for place in places],
        }

    @staticmethod
    def _rng() -> np.random.Generator:
        """Every variant is measured on the same samples."""
        return np.random.default_rng(SEED)


def _share(flags: Array) -> float:
    return float(flags.mean()) if len(flags) else 0.0


def prepare_study(data: Trajectories, config: ScotsConfig, trajectories: int) -> Study:
    prepare(data, config, SEED)
    folder = segments_folder(config, data.fingerprint(), SEED)
    inverse = None
    if data.actions is not None:
        inverse = load_or_train(InverseDynamics, config.inverse, data, SEED, "inverse dynamics").eval()
    manifold = Manifold.load(folder / "manifold.npz")
    return Study(data, config, stitch(data, config, config.stitching, trajectories), manifold, inverse)


def stitch(data: Trajectories, config: ScotsConfig, stitching: StitchingConfig, trajectories: int) -> Array:
    """Source rows (B, T) of trajectories that are stitched by these settings from the prepared segments."""
    segments = Segments.load(segments_folder(config, data.fingerprint(), SEED))
    return assemble(walk(segments, stitching, Seeds(SEED), range(trajectories)).segments, stitching.segment)


# ------------------------------------------------------------------------------------------------------------- repairs


def unrefined(states: Array, rows: Array, number: int) -> tuple[Array, Array]:
    return states, np.zeros(len(rows), dtype=np.uint8)


def fade(states: Array, rows: Array, number: int, observations: Array) -> tuple[Array, Array]:
    faded, made = states.copy(), np.zeros(len(rows), dtype=np.uint8)
    for join in np.flatnonzero(np.diff(rows) != 1):
        gap = states[join] - observations[rows[join + 1] - 1]  # to the state that the next segment begins with
        after = np.arange(1, FADE)
        faded[join + after] += gap * (1 - after / FADE)[:, None]
        made[join + after] = 1
    return faded, made


def generated(study: Study, refinement: RefinementConfig, calls: int) -> Repair:
    stitcher, quaternions = train_stitcher(study, refinement, calls), study.data.meta.quaternions

    def repair(states: Array, rows: Array, number: int) -> tuple[Array, Array]:
        noise = torch.Generator().manual_seed(number)
        return refine(states, rows, stitcher, refinement, noise, study.manifold.is_on, quaternions)

    return repair


def partly(study: Study, renoised: float | None = None, held: int | None = None) -> Repair:
    """Whole segments by the network of whole segments: from a noised recorded segment, or with a recorded rest."""
    stitcher, quaternions = train_stitcher(study, RefinementConfig(), study.calls), study.data.meta.quaternions
    tokens = stitcher.sizes["tokens"]

    @torch.inference_mode()
    def repair(states: Array, rows: Array, number: int) -> tuple[Array, Array]:
        joins = np.flatnonzero(np.diff(rows) != 1)
        windows = stitcher.scale(torch.from_numpy(states[joins[:, None] + np.arange(tokens)]))
        line = diffusion.chord(diffusion.ends_of(windows, 1), tokens)
        known = (windows - line) / stitcher.deviation
        mask = diffusion.ends_mask(tokens).clone()
        mask[slice(held + 1 if held else tokens - 1, None)] = True
        denoise = diffusion.denoiser(
            stitcher.config.prediction, lambda sequence, time: stitcher.ema(sequence, time, context=line)
        )
        generator = torch.Generator().manual_seed(number)
        if renoised is None:
            sampled = diffusion.sample(denoise, known, mask, stitcher.config.sampling, generator)
        else:
            sampled = resolve(denoise, known, mask, renoised, fewer_calls(renoised, study.calls), generator)
        drawn = stitcher.scale.inverse(line + stitcher.deviation * sampled).numpy()
        new = np.flatnonzero(~mask[:, 0].numpy())
        repaired, made = states.copy(), np.zeros(len(rows), dtype=np.uint8)
        repaired[joins[:, None] + new] = unit_quaternions(drawn[:, new], quaternions)
        made[joins[:, None] + new] = 1
        return repaired, made

    return repair


def resolve(
    denoise: diffusion.Denoiser, known: Any, mask: Any, first: float, calls: int, generator: torch.Generator
) -> Any:
    """DDIM from known sequences that are noised to time `first`."""
    times = torch.linspace(first, diffusion.FIRST_TIME, calls + 1)
    noise = torch.randn(known.shape, generator=generator)
    sequence = torch.where(mask, known, diffusion.noised(known, times[:1].expand(len(known)), noise))
    for now_, next_ in pairwise(times):
        clean = denoise(sequence, now_.expand(len(known)))
        (alpha, sigma), (next_alpha, next_sigma) = (diffusion.alpha_sigma(t) for t in (now_, next_))
        sequence = next_alpha * clean + next_sigma / sigma * (sequence - alpha * clean)
        sequence = torch.where(mask, known, sequence)
    return sequence


def fewer_calls(first: float, calls: int) -> int:
    """From a time between 0 and 1 on the way is shorter."""
    return max(2, round(first * calls))


def train_stitcher(study: Study, refinement: RefinementConfig, calls: int) -> Stitcher:
    """The stitcher of windows of this size, trained once however often it is called when it refines."""
    sizes, label = refinement.sizes(study.config.stitching.segment), "stitcher of {tokens}"
    config = study.config.stitcher
    config = replace(config, sampling=replace(config.sampling, steps=calls))
    return load_or_train(Stitcher, config, study.data, SEED, label.format(**sizes), sizes).eval()


# ---------------------------------------------------------------------------------------------------------------- rows


def variants(study: Study) -> list[Variant]:
    """Every way to repair joins."""
    observations, usual, own = study.data.observations, study.calls, study.config.refinement
    local = [RefinementConfig(*size, draws, keep_actions=True) for size in LOCAL for draws in (0, own.draws)]
    return [
        Variant("unrefined", unrefined),
        Variant(f"fade {FADE}", lambda *parts: fade(*parts, observations)),
        Variant("whole", generated(study, RefinementConfig(), usual), usual, keep_actions=False),
        *(Variant(f"renoised {first}", partly(study, renoised=first), fewer_calls(first, usual)) for first in RENOISED),
        *(Variant(f"held {count}", partly(study, held=count), usual) for count in HELD),
        *(Variant(named(size), generated(study, size, usual), usual) for size in local),
        *(Variant(named(own), generated(study, own, calls), calls) for calls in CALLS if calls != usual),
    ]


def named(local: RefinementConfig) -> str:
    return f"local {local.generated}, context {local.context}" + (", checked" if local.draws else "")


def run(
    data: Trajectories,
    name: str,
    config: ScotsConfig,
    trajectories: int,
    keep: Path | None = None,
    steps: int | None = None,
) -> None:
    """Print a row for every variant; `steps` trains the networks for as many, and not for those of the config."""
    if steps is not None:
        config = config.replace_at("stitcher.training.steps", steps)
    study, stitching = prepare_study(data, config, trajectories), config.stitching

    def keep_row(own: Study, shortlist: int | None, variant: Variant) -> None:
        row = {"dataset": name, "shortlist": shortlist, "variant": variant.name, "calls": variant.calls}
        row |= {"trajectories": trajectories, "steps": steps, **own.measure(variant)}
        row |= {"commit": code_version(), "date": now()}
        print(json.dumps(row), flush=True)
        if keep:
            append_rows(keep, [row])

    if stitching.shortlist is not None:
        nearest = stitch(data, config, replace(stitching, shortlist=None), trajectories)
        keep_row(replace(study, rows=nearest), None, Variant("unrefined", unrefined))
    for variant in variants(study):
        keep_row(study, stitching.shortlist, variant)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", nargs="?", default=toy.ID)
    parser.add_argument("--trajectories", type=int, default=40)
    parser.add_argument("--streets", action="store_true", help="street tracks, made here")
    parser.add_argument("--steps", type=int, help="of training, for every network (default: those of profile laptop)")
    parser.add_argument("--keep", type=Path, help="file to append the rows to")
    parser.add_argument("--smoke", action="store_true", help="the toy at a tiny size, only to see that it runs")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.smoke:
        with tempfile.TemporaryDirectory() as home:
            os.environ["SCOTS_HOME"] = home
            data = toy.make(50)
            run(data, toy.ID, AUGMENTERS["scots"].configure(spec_of(data), "smoke"), 2)
        return
    data = streets.make(irregular=False) if options.streets else load(options.dataset)
    name = "street tracks" if options.streets else options.dataset
    config = AUGMENTERS["scots"].configure(spec_of(data), "laptop")
    run(data, name, config, options.trajectories, options.keep, options.steps)


if __name__ == "__main__":
    main()
