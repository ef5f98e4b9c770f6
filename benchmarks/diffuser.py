"""What Diffuser is worth, by parts: does the value rank, do plans obey the simulator, and what does its data earn.

    python benchmarks/diffuser.py hopper-medium-v2 --steps 3000     # every variant below, one row each
    python benchmarks/diffuser.py hopper-medium-v2 --planner DIR    # a planner that is trained
    python benchmarks/diffuser.py --smoke       # at a tiny size, on a few episodes, only to see that it runs

Measured on the validation twin: the rank correlation of values with returns, on windows with the noise at which plans
are ranked; and how far the planned next state is from where the simulator gets by the planned action, over the
deviation of each column, at the first step and over the whole plan, beside the same for recorded steps and for a state
that stays as it is.
"""

import argparse
import json
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

import scots
from scots.core.config import Seeds
from scots.core.files import append_rows
from scots.core.versions import code_version, now
from scots.data import formats
from scots.data.shards import validation_path
from scots.data.trajectories import Array, Trajectories
from scots.datasets.loading import data_path
from scots.datasets.runners import Ladder, RunnerEpisodes
from scots.datasets.specs import SPECS, RunnerCollection
from scots.envs.locomotion import Locomotion, runner_of
from scots.experiments.models import train_model
from scots.planners.diffuser import Diffuser

SEEDS = Seeds(4242)


@dataclass(frozen=True)
class Size:
    """How much is trained and measured."""

    windows: int  # whose values are compared with their returns
    plans: int
    changes: dict[str, object]  # of the planner's settings, in every variant


FULL = Size(windows=2000, plans=32, changes={})
SMOKE = Size(
    windows=50,
    plans=2,
    changes={"width": 8, "multipliers": [1, 2], "diffusion_steps": 4, "guidance.candidates": 2, "training.warmup": 0},
)

VARIANTS: dict[str, dict[str, object]] = {
    "laptop": {},
    "v prediction": {"prediction": "v"},
    "absolute": {"relative": False},
    "no bypass": {"bypass": False},
    "absolute, no bypass": {"relative": False, "bypass": False},
    "unguided": {"guidance.climbs": 0},
    "warm start": {"guidance.warm_steps": 2},
}
"""What is different: settings that replace those of profile `laptop`, by dotted path."""


def rank_correlation(one: Array, other: Array) -> float:
    """Spearman's."""
    ranks = [values.argsort().argsort() for values in (one, other)]
    return float(np.corrcoef(*ranks)[0, 1])


def value_ranks(planner: Diffuser, held_out: Trajectories, size: Size) -> float:
    """Rank correlation of values with returns on held-out windows, noised as plans are when they are ranked."""
    batch = planner.batch(held_out, size.windows, SEEDS.stream("windows"))
    clean = planner.windows(batch["states"], batch["actions"])
    noise = torch.randn(clean.shape, generator=torch.Generator().manual_seed(0))
    first = torch.zeros(len(clean), dtype=torch.long)
    noisy = planner.process.noised(clean, first, noise)
    noisy[:, 0, planner.actions.columns :] = clean[:, 0, planner.actions.columns :]
    with torch.no_grad():
        return rank_correlation(planner.values(noisy, 0).numpy(), batch["returns"].numpy())


def errors(states: Array, actions: Array, environment: Locomotion, deviation: Array) -> Array:
    """How far states (B, T, O) are from where the simulator gets from the one before, in deviations (B, T - 1)."""
    reached = np.array(
        [
            [environment.step_from(state, action).observation for state, action in zip(own[:-1], does, strict=False)]
            for own, does in zip(states, actions, strict=True)
        ]
    )
    return np.sqrt((((reached - states[:, 1:]) / deviation) ** 2).mean(axis=-1))


def dynamics(planner: Diffuser, held_out: Trajectories, size: Size) -> dict[str, object]:
    """Errors of plans in the simulator, beside those of recorded steps and of states that stay."""
    assert held_out.actions is not None
    environment, deviation = Locomotion(runner_of(held_out.meta)), held_out.observations.std(axis=0)
    rows = held_out.random_rows(2, size.plans, SEEDS.stream("starts"))
    begin = time.process_time()
    plans = planner.plan(held_out.observations[rows], None, [SEEDS.integer("plan", n) for n in range(size.plans)])
    seconds = time.process_time() - begin
    states, actions = np.stack([p.positions for p in plans]), np.stack([p.planned_actions for p in plans])
    planned = errors(states, actions, environment, deviation)
    pairs = held_out.observations[rows[:, None] + np.arange(2)]
    recorded = errors(pairs, held_out.actions[rows][:, None], environment, deviation)
    stays = np.sqrt((((pairs[:, 1] - pairs[:, 0]) / deviation) ** 2).mean(axis=-1))
    figures = {"first_step": planned[:, 0], "plan": planned, "recorded_step": recorded, "stays": stays}
    means = {name: round(float(values.mean()), 4) for name, values in figures.items()}
    return {
        **means,
        "largest_action": round(float(np.abs(actions).max()), 2),
        "plan_ms": round(1e3 * seconds / size.plans),
    }


def measure(variant: str, planner: Diffuser, held_out: Trajectories, size: Size, keep: Path | None) -> None:
    """Print a row, and keep it where a file is given."""
    assert held_out.rewards is not None
    earned = np.add.reduceat(held_out.rewards, held_out.offsets[:-1])
    row: dict[str, object] = {"dataset": held_out.meta.dataset, "variant": variant}
    row |= {"steps": planner.config.training.steps, "behaviour_return": round(float(earned.mean()), 1)}
    row |= {"value_ranks": round(value_ranks(planner, held_out, size), 3), **dynamics(planner, held_out, size)}
    row |= {"commit": code_version(), "date": now()}
    print(json.dumps(row), flush=True)
    if keep:
        append_rows(keep, [row])


def study(data: Trajectories, held_out: Trajectories, options: argparse.Namespace, size: Size, folder: Path) -> None:
    """Train the variants that differ in training, and measure all of them."""
    trained: dict[str, Diffuser] = {}
    for variant in options.variants:
        changes = size.changes | VARIANTS[variant]
        learned = {name: value for name, value in changes.items() if not name.startswith("guidance.")}
        key = json.dumps(learned, sort_keys=True)
        if key not in trained:
            settings = changes | {"training.steps": options.steps}
            planner = train_model("diffuser", data, folder=folder / variant.replace(" ", "-"), changes=settings)
            assert isinstance(planner, Diffuser)
            trained[key] = planner
        measure(variant, with_guidance(trained[key], changes), held_out, size, options.keep)


def with_guidance(planner: Diffuser, changes: dict[str, object]) -> Diffuser:
    """The same networks, guided by these settings."""
    guidance = {name: value for name, value in changes.items() if name.startswith("guidance.")}
    copy = Diffuser(planner.config.replace_all(guidance), planner.sizes)
    copy.load_state_dict(planner.state_dict())
    return copy.eval()


def few_episodes(episodes: int, seed: int) -> Trajectories:
    """What hopper's actors do that ship with the package, whatever they earn."""
    spec = SPECS["hopper-medium-replay-v2"].collection
    assert isinstance(spec, RunnerCollection)
    collector = RunnerEpisodes(spec, Ladder.shipped("hopper"))
    rows = [collector.episode(Seeds(seed).stream("episode", n)) for n in range(episodes)]
    names = ("observations", "actions", "rewards", "terminated")
    arrays = {name: np.concatenate([own[name] for own in rows]) for name in names}
    offsets = np.cumsum([0, *(len(own["actions"]) for own in rows)])
    return Trajectories(arrays.pop("observations"), offsets, **arrays, meta=spec.meta())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?", help="id or file of locomotion data, with its validation twin beside it")
    parser.add_argument("--planner", type=Path, help="folder of a trained planner, instead of training variants")
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--variants", nargs="*", default=list(VARIANTS), choices=list(VARIANTS))
    parser.add_argument("--keep", type=Path, help="file to add the rows to")
    parser.add_argument("--smoke", action="store_true", help="the same at a tiny size, only to see that it runs")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if not (options.smoke or options.data):
        parser.error("give a dataset, or --smoke")
    with tempfile.TemporaryDirectory() as folder:
        if options.smoke:
            options.steps = 2
            study(few_episodes(12, 0), few_episodes(4, 1), options, SMOKE, Path(folder))
            return
        data, path = scots.load(options.data), Path(options.data)
        held_out = formats.read(validation_path(path if path.exists() else data_path(options.data)))
        if options.planner:
            measure(str(options.planner), Diffuser.load(options.planner), held_out, FULL, options.keep)
        else:
            study(data, held_out, options, FULL, Path(folder))


if __name__ == "__main__":
    main()
