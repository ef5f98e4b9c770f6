"""docs/results.md, made from the rows that runs left in results/: no measured number in it is typed by hand."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table as RichTable

from scots.core.errors import BadInput
from scots.core.files import append_rows, write_text
from scots.evaluation.rollout import REGISTERED_LIMIT, STEP_LIMITS, EvalResult, step_limits
from scots.experiments.pipeline import EPISODES
from scots.experiments.recipe import Recipe
from scots.experiments.tables import TABLES, Table

Row = dict[str, Any]
PROFILE = "laptop"
"""The profile whose results the pages show."""
STAGES = ("collect", "augment", "learner", "controller")
TABLE_BEGIN, TABLE_END = "<!-- results: made by `make results` -->", "<!-- end of results -->"

HEAD = """# Results

Made by `make results` from the rows in `results/`; a test fails if this page is stale. Every row was measured by the
command above its table, on data collected here unless it says otherwise.
"""

SUCCESS_FOOT = """Success in per cent, the mean over five tasks with 50 episodes each per seed, and its 95 % bootstrap
interval over episodes, which has no width where all of them end alike; in brackets the paper's mean ± deviation over
five seeds. Ours: profile `laptop`, evaluated with the seeds of the command as far as they were run, each network
trained once, or as often as the table of times says (`--training-seed`). SCoTS follows the best of eight plans unless a
column says otherwise, HD the only one. `steps` is the limit of an episode: 1000 is OGBench's, 2000 that of the paper's
reference code for the giant maze, with which its numbers were made.
"""

TIME_HEAD = """## Time

Wall minutes on two cores; what has a dash was not measured and is not in the sum. The line of pointmaze-large with
training seed 1 was made from nothing and had both cores for itself; the others shared them with other work. `augment`
is the training of its networks and the stitching of five million states, or stitching alone where an earlier run had
left the networks, as on pointmaze-giant: together they took 12.7 minutes there. Networks that two lines share are
counted in both. The paper reports 9.3, 18 and 2.5 hours of an A10 for `augment`, `learner` and `controller`.
"""

PLANS_HEAD = """## Plans on pointmaze-giant-stitch-v0

`python benchmarks/plans.py`. A plan is clean if none of its places lies inside a wall: over 200 random pairs of states,
and over the tasks with 20 starts and goals each. Time is that of one core.
"""

STUDIES = {
    "training": "What makes the planner learn: variants of profile `laptop`, each for about four minutes",
    "solver": "The trained planner by solver and network calls",
    "temperature": "The trained planner by the spread of the noise it begins from",
    "candidates": "The trained planner as the best of several candidates",
}

QUALITY_HEAD = """## Quality of augmented data

`scots augment DATA --out AUG`, then `scots report DATA AUG --out DIR --keep FILE`.
"""

QUALITY_FOOT = """
Before → after: original and augmented data, or joins without and with refinement. Dynamic MSE is the median squared
distance between the next state and where the simulator gets by the labelled action, with the 90 % quantile beside it;
`inside` is the same inside refined segments. The last column is the rank correlation of latent distance with
shortest-path length.
"""

QUALITY: dict[str, Callable[[Row], str]] = {
    "dataset": lambda row: f"{row['dataset']}",
    "recipe, profile, seed": lambda row: f"{row['recipe']}, {row['profile']}, {row['seed']}",
    "states": lambda row: f"{row['original_states']:,} → {row['augmented_states']:,}",
    "free cells visited": lambda row: _pair(row, "cells", "{:.0%}"),
    "cells per trajectory": lambda row: _pair(row, "cells_per_trajectory", "{:.0f}"),
    "states in walls": lambda row: _number(row["augmented_states_in_walls"], "{:.3%}"),
    "join step / inside": lambda row: _number(row["join_ratio_position"], "{:.2f}"),
    "Dynamic MSE at joins": lambda row: _arrow(row["dynamic_mse_unrefined_joins"], row["dynamic_mse_refined_joins"]),
    "its 90 %": lambda row: _arrow(row["dynamic_mse_unrefined_joins_p90"], row["dynamic_mse_refined_joins_p90"]),
    "inside, its 90 %": lambda row: (
        f"{_number(row['dynamic_mse_inside'], '{:.2g}')}, {_number(row['dynamic_mse_inside_p90'], '{:.2g}')}"
    ),
    "φ and path length, ≤ 8 cells": lambda row: _number(row["rank_correlation_near"], "{:.3f}"),
}
"""Columns of the quality table: title -> cell of a row."""


def _number(value: float | None, pattern: str) -> str:
    return "-" if value is None else pattern.format(value)


def _pair(row: Row, name: str, pattern: str) -> str:
    return f"{pattern.format(row[f'original_{name}'])} → {pattern.format(row[f'augmented_{name}'])}"


def _arrow(before: float | None, after: float | None) -> str:
    return "-" if before is None or after is None else f"{before:.2g} → {after:.2g}"


QUALITY_KEY = ("dataset", "recipe", "profile", "seed")
EVALUATION_KEY = ("dataset", "recipe", "profile", "training_seed", "seed", "task", "max_steps", "execution")
PLANS_KEY = ("study", "dataset", "variant")
"""What tells one result from another; of rows that agree in it the newest counts."""
LINE_KEY = ("dataset", "recipe", "training_seed")
"""What rows share that went through the same stages before their evaluation."""


def read_rows(path: Path, key: Sequence[str] = QUALITY_KEY) -> list[Row]:
    """The rows of a JSONL file; of rows about the same run, the newest."""
    if not path.exists():
        return []
    newest: dict[str, Row] = {}
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        try:
            row = json.loads(line)
            newest[_identity(row, key)] = row
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise BadInput(f"{path}: line {number} is not a result row ({error})") from error
    return list(newest.values())


def keep(path: Path, rows: Sequence[Row]) -> None:
    """Add to a file those evaluation rows that it does not hold yet; the newest result of a run counts."""
    there = read_rows(path, EVALUATION_KEY)
    append_rows(path, [row for row in rows if row not in there])


def evaluation_rows(folder: Path) -> list[Row]:
    """The evaluations that the pages show: those of one profile, of whole tasks."""
    rows = read_rows(folder / "evaluations.jsonl", EVALUATION_KEY)
    return [row for row in rows if row["profile"] == PROFILE and row["episodes"] == EPISODES[PROFILE]]


def _identity(row: Row, key: Sequence[str]) -> str:
    return json.dumps([row[name] for name in key], sort_keys=True)


# ------------------------------------------------------------------------------------------------------------- success


@dataclass(frozen=True)
class Success:
    """Share of episodes that reached their goal: mean over tasks and seeds, and its 95 % bootstrap interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{100 * self.mean:.1f} [{100 * self.low:.1f}, {100 * self.high:.1f}]"


def success(rows: Sequence[Row]) -> Success:
    """Each task and seed counts alike; episodes are drawn again within them."""
    episodes = np.array([row["episodes"] for row in rows])
    rate = np.array([row["successes"] for row in rows]) / episodes
    drawn = np.random.default_rng(0).binomial(episodes, rate, size=(10_000, len(rows))) / episodes
    low, high = np.quantile(drawn.mean(1), [0.025, 0.975])
    return Success(float(rate.mean()), float(low), float(high))


def success_table(rows: Sequence[EvalResult]) -> RichTable:
    """Success of every task under every step limit, to print."""
    limits = sorted({row.max_steps for row in rows})
    table = RichTable("task", *(f"within {limit}" for limit in limits), "median steps", box=None, header_style="bold")
    for task in sorted({row.task for row in rows}):
        own = {row.max_steps: row for row in rows if row.task == task}
        steps = own[limits[-1]].steps
        cells = (f"{own[limit].successes} of {own[limit].episodes}" for limit in limits)
        table.add_row(str(task), *cells, "-" if steps is None else f"{steps:.0f}")
    overall = (success([row.to_dict() for row in rows if row.max_steps == limit]) for limit in limits)
    table.add_row("all, %", *map(str, overall), "")
    return table


def comparison(table: Table, rows: Sequence[Row]) -> str:
    """A table of the paper as Markdown: ours where there are rows, the published numbers in brackets beside them."""
    lines = [["dataset", "steps", *table.columns]]
    for dataset, published in table.published.items():
        own = [row for row in rows if row["dataset"] == dataset]
        for limit in step_limits(dataset):
            cells = []
            for column in table.columns:
                theirs = published.get(column) if limit == STEP_LIMITS.get(dataset, REGISTERED_LIMIT) else None
                cells.append(_cell(_ours(table, column, own, limit), theirs))
            if any(cells):
                lines.append([dataset, str(limit), *cells])
    return markdown(lines)


def _ours(table: Table, column: str, rows: Sequence[Row], limit: int) -> list[Row]:
    """The rows of a column: those of its recipe, under this step limit."""
    recipe = table.columns[column]
    return [row for row in rows if recipe and row["max_steps"] == limit and _made_by(recipe, row)]


def _made_by(recipe: Callable[[str], Recipe], row: Row) -> bool:
    return bool(row["recipe"] == recipe(row["dataset"]).plain(row["dataset"], row["profile"]).to_dict())


def _cell(ours: Sequence[Row], theirs: str | None) -> str:
    return " ".join([*([f"**{success(ours)}**"] if ours else []), *([f"({theirs})"] if theirs else [])])


def times(rows: Sequence[Row]) -> str:
    """Wall minutes of every stage, one line per dataset, recipe and training seed, as Markdown."""
    lines = [["dataset", "data", "what acts", "training seed", *STAGES, "evaluation", "in all"]]
    firsts: dict[str, Row] = {}
    for row in rows:
        if not row["recipe"]["settings"]:
            firsts.setdefault(_identity(row, LINE_KEY), row)
    for line, first in firsts.items():
        spent = [first["stages"].get(name) for name in STAGES]
        same = [row for row in rows if _identity(row, LINE_KEY) == line and row["seed"] == first["seed"]]
        spent.append(sum(row["seconds"] for row in {row["task"]: row for row in same}.values()))
        spent.append(sum(seconds or 0.0 for seconds in spent))
        minutes = ["-" if seconds is None else f"{seconds / 60:.1f}" for seconds in spent]
        recipe = Recipe.from_dict(first["recipe"])
        made = [first["dataset"], recipe.augment or "original", recipe.learner_name, str(first["training_seed"])]
        lines.append([*made, *minutes])
    return markdown(lines)


def markdown(lines: Sequence[Sequence[str]]) -> str:
    """Rows of cells, the first of them the titles."""
    head, *body = ["| " + " | ".join(cells) + " |" for cells in lines]
    return "\n".join([head, "|" + "---|" * len(lines[0]), *body])


def plans(rows: Sequence[Row], study: str) -> str:
    """A study of plans as Markdown."""
    lines = [["variant", "clean pairs", "clean plans of tasks 1 to 5", "places in walls", "steps", "time"]]
    for row in (row for row in rows if row["study"] == study):
        tasks = ", ".join(f"{share:.0%}" for share in row["clean_tasks"])
        spent = f"{row['minutes']:.1f} min" if "minutes" in row else f"{row['seconds']:.0f} s"
        places = f"{row['places_in_walls']:.1%}"
        shown = [f"{row['clean_pairs']:.0%}", tasks, places, f"{row.get('steps', '')}", spent]
        lines.append([row["variant"], *shown])
    filled = [n for n in range(len(lines[0])) if any(line[n] for line in lines[1:])]
    return markdown([[line[n] for n in filled] for line in lines])


# --------------------------------------------------------------------------------------------------------------- pages


def page(folder: Path) -> str:
    """The whole page of results from the rows in a folder."""
    evaluations, parts = evaluation_rows(folder), [HEAD]
    for name, table in TABLES.items():
        parts += [f"## {table.title}\n\n`scots table {name} --seeds 0 1 2`\n", comparison(table, evaluations), ""]
    parts += [SUCCESS_FOOT, TIME_HEAD, times(evaluations), ""]
    drawn = read_rows(folder / "plans.jsonl", PLANS_KEY)
    done = {row["study"] for row in drawn}
    studies = {study: title for study, title in STUDIES.items() if study in done}
    parts += [PLANS_HEAD] if studies else []
    parts += [*(f"### {title}\n\n{plans(drawn, study)}\n" for study, title in studies.items())]
    quality = [[*QUALITY], *([cell(row) for cell in QUALITY.values()] for row in read_rows(folder / "quality.jsonl"))]
    return "\n".join([*parts, QUALITY_HEAD, markdown(quality), QUALITY_FOOT])


def with_table(readme: str, folder: Path) -> str:
    """The README with its results table made anew from the rows."""
    rows = evaluation_rows(folder)
    before, rest = readme.split(TABLE_BEGIN)
    return "\n".join([before + TABLE_BEGIN, comparison(TABLES["planning"], rows), TABLE_END + rest.split(TABLE_END)[1]])


def main(folder: Path, target: Path, readme: Path) -> None:
    """Write the page and the table of the README."""
    write_text(target, page(folder))
    write_text(readme, with_table(readme.read_text(), folder))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
