"""Success against minutes of training, for agents that act alone: what a number of steps buys.

    python benchmarks/learning_curves.py train hiql pointmaze-large-stitch-v0 --steps 5000 10000 20000 40000
    python benchmarks/learning_curves.py train hiql aug.npz --steps 20000 --set target_decay=0.99
    python benchmarks/learning_curves.py train hiql aug.npz --steps 5000 20000 --separate
    python benchmarks/learning_curves.py draw               # the picture of all rows
    python benchmarks/learning_curves.py --smoke            # both at a tiny size; keeps no rows

One training is evaluated at each of the given steps; its learning rate falls to zero at the last of them. With
`--separate`, each number of steps is a training of its own, whose rate falls to zero at its end: choose a number of
steps from these. The minutes are those of training alone, on as many cores as it was given.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure

from scots.agents import AGENTS
from scots.agents.base import Agent
from scots.core.config import Profile, Seeds, parse_changes
from scots.core.files import append_rows
from scots.core.versions import code_version, now
from scots.data.trajectories import Trajectories
from scots.datasets import load, toy
from scots.datasets.specs import REGISTERED_LIMIT, spec_of
from scots.evaluation.results import evaluate
from scots.experiments.models import subject_of
from scots.models.training import Limits, fit

ROWS = Path("results/learning_curves.jsonl")
PICTURE = Path(__file__).parents[1] / "docs" / "images" / "learning-curves.png"
_EVALUATION_SEED = 100  # no table's: settings are chosen by these curves, and not on the episodes of results
_COLOURS = {"gciql": "#d1495b", "crl": "#edae49", "hiql": "#2b6cb0", "qrl": "#3c8d53", "gcivl": "#7a5195"}


@dataclass(frozen=True)
class Curve:
    """One agent on one dataset: at which steps it is evaluated, and how."""

    agent: str
    data: Trajectories
    steps: tuple[int, ...]
    changes: dict[str, Any] = field(default_factory=dict)
    profile: Profile = "laptop"
    seed: int = 0
    episodes: int = 20  # of each task
    limit: int = REGISTERED_LIMIT  # steps of an episode
    separate: bool = False

    def trainings(self) -> Iterator[list[dict[str, Any]]]:
        """Train and evaluate: the rows of each training, one per number of steps, printed as they are made."""
        steps = sorted(self.steps)
        yield from (self._train(own) for own in ([[own] for own in steps] if self.separate else [steps]))

    def _train(self, steps: Sequence[int]) -> list[dict[str, Any]]:
        """One training up to the last of these steps, evaluated at each of them."""
        kind = AGENTS[self.agent]
        default = kind.configure(spec_of(self.data), self.profile, alone=True)
        config = default.replace_all({**self.changes, "training.steps": steps[-1]})
        torch.manual_seed(Seeds(self.seed).integer("init"))
        agent = kind.for_data(config, self.data)
        agent.profile, agent.changes = self.profile, config.changes_from(default)
        rows: list[dict[str, Any]] = []
        begin, evaluating = time.monotonic(), 0.0

        def on_step(done: int, metrics: dict[str, float]) -> None:
            nonlocal evaluating
            if done in steps:
                paused = time.monotonic()
                rows.append(self._row(agent, done, (paused - begin - evaluating) / 60))
                evaluating += time.monotonic() - paused

        fit(agent, self.data, seed=self.seed, limits=Limits(on_step=on_step))
        return rows

    def _row(self, agent: Agent, steps: int, minutes: float) -> dict[str, Any]:
        found = evaluate(subject_of(agent.eval()), episodes=self.episodes, limits=(self.limit,), seed=_EVALUATION_SEED)
        agent.train()
        tasks = [row.successes / row.episodes for row in found if row.successes is not None]
        row = {
            "agent": self.agent,
            "dataset": self.data.meta.dataset,
            "augmenter": (self.data.meta.augmentation or {}).get("augmenter"),
            "profile": self.profile,
            "changes": self.changes,
            "separate": self.separate,
            "seed": self.seed,
            "all_steps": sorted(self.steps),
            "steps": steps,
            "minutes": round(minutes, 3),
            "cores": torch.get_num_threads(),
            "success": round(float(np.mean(tasks)), 4),
            "tasks": tasks,
            "evaluation_seed": _EVALUATION_SEED,
            "episodes": self.episodes,
            "max_steps": self.limit,
            "commit": code_version(),
            "date": now(),
        }
        print(json.dumps(row))
        return row


def draw(rows: Sequence[dict[str, Any]], picture: Path) -> None:
    """A panel per dataset, a line per agent, data and setting: success against minutes, both means over seeds."""
    datasets = list(dict.fromkeys(row["dataset"] for row in rows))
    figure = Figure(figsize=(4.5 * len(datasets), 3.6), layout="constrained")
    for axes, dataset in zip(figure.subplots(1, len(datasets), squeeze=False)[0], datasets, strict=True):
        for label, own in lines([row for row in rows if row["dataset"] == dataset]).items():
            data = own[0]["augmenter"] or "recorded"
            style = {"recorded": "o--", "scots": "o-"}.get(data, "o:")
            axes.plot(*points(own), style, color=_COLOURS.get(own[0]["agent"]), label=label)
        axes.set(title=dataset, xlabel="minutes of training", ylabel="success, %", ylim=(0, 100))
        axes.set_xlim(left=0)
        axes.legend(frameon=False, fontsize=8)
    picture.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture, dpi=120)
    print(f"picture: {picture}")


def lines(rows: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Label -> rows. A training to other steps, whose learning rate falls later, is another line, unless separate."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        kind = "separate trainings" if row["separate"] else f"a training of {row['all_steps'][-1]:,} steps"
        changes = [f"{name} {value}" for name, value in row["changes"].items()]
        label = ", ".join([row["agent"], f"{row['augmenter'] or 'recorded'} data", *changes, kind])
        found.setdefault(label, []).append(row)
    return found


def points(rows: Sequence[dict[str, Any]]) -> tuple[list[float], list[float]]:
    """Minutes and percents of a line, by steps: means over the rows of as many steps, which differ in their seeds."""
    by_steps = [[row for row in rows if row["steps"] == steps] for steps in sorted({row["steps"] for row in rows})]
    means = [[float(np.mean([row[name] for row in own])) for own in by_steps] for name in ("minutes", "success")]
    return means[0], [100 * success for success in means[1]]


def smoke() -> None:
    """A curve of two points on the toy maze, in a folder that is removed."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["SCOTS_HOME"] = folder
        curve = Curve("hiql", toy.make(episodes=20), (2, 4), profile="smoke", episodes=1, limit=5)
        draw([row for rows in curve.trainings() for row in rows], Path(folder) / "curves.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="the same at a tiny size, only to see that it runs")
    commands = parser.add_subparsers(dest="command")
    train = commands.add_parser("train")
    train.add_argument("agent", choices=sorted(AGENTS))
    train.add_argument("data", help="dataset id, file or folder")
    train.add_argument("--steps", type=int, nargs="+", required=True)
    train.add_argument("--separate", action="store_true", help="a training of its own for each number of steps")
    train.add_argument("--episodes", type=int, default=20, help="of each task")
    train.add_argument("--limit", type=int, default=REGISTERED_LIMIT, help="steps of an episode")
    train.add_argument("--seed", type=int, default=0)
    train.add_argument("--set", nargs="*", default=[], help="settings that are not the profile's: PATH=VALUE")
    commands.add_parser("draw")
    words = parser.parse_args()
    if words.smoke:
        smoke()
    elif words.command == "draw":
        draw([json.loads(line) for line in ROWS.read_text().splitlines()], PICTURE)
    elif words.command == "train":
        options = {name: getattr(words, name) for name in ("seed", "episodes", "limit", "separate")}
        curve = Curve(words.agent, load(words.data), tuple(words.steps), parse_changes(words.set), **options)
        for rows in curve.trainings():  # each kept as soon as it is there: together they take hours
            append_rows(ROWS, rows)
    else:
        parser.error("train or draw, or --smoke")


if __name__ == "__main__":
    main()
