"""docs/results.md and the table of the README, made from the rows in results/: no measured number is typed by hand."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path

from scots.core.files import write_text
from scots.experiments.pipeline import EPISODES
from scots.experiments.recipe import Recipe
from scots.experiments.tables import TABLES
from scots.reporting.augmentation import AugmentationSettings, augment_command
from scots.reporting.document import Block, Commands, Document, Paragraph, Section, TableBlock
from scots.reporting.rows import EVALUATION_KEY, PLANS_KEY, QUALITY_KEY, Row, identity, read_rows
from scots.reporting.success import comparison_table

PROFILE = "laptop"
"""The profile whose results the pages show."""
STAGES = ("collect", "augment", "learner", "controller")
LINE_KEY = ("dataset", "recipe", "training_seed")
"""Fields of an evaluation row that decide the stages before the evaluation."""
TABLE_BEGIN, TABLE_END = "<!-- results: made by `make results` -->", "<!-- end of results -->"

LEAD = """Made by `make results` from the rows in `results/`; a test fails if this page is stale. Every row was measured
by the command above its table, on data collected here unless it says otherwise."""

SUCCESS_NOTE = """Success in per cent, the mean over five tasks with 50 episodes each per seed, and its 95 % bootstrap
interval over episodes, which has no width where all of them end alike; in brackets the paper's mean ± deviation over
five seeds. Ours: profile `laptop`, evaluated with the seeds of the command as far as they were run, each network
trained once, or as often as the table of times says (`--training-seed`). SCoTS follows the best of eight plans unless a
column says otherwise, HD the only one. `steps` is the limit of an episode: 1000 is OGBench's, 2000 that of the paper's
reference code for the giant maze, with which its numbers were made."""

TIME_NOTE = """Wall minutes on two cores; what has a dash was not measured and is not in the sum. The line of
pointmaze-large with training seed 1 was made from nothing and had both cores for itself; the others shared them with
other work. `augment` is the training of its networks and the stitching of five million states, or stitching alone where
an earlier run had left the networks, as on pointmaze-giant: together they took 12.7 minutes there. Networks that two
lines share are counted in both. The paper reports 9.3, 18 and 2.5 hours of an A10 for `augment`, `learner` and
`controller`."""

PLANS_NOTE = """A plan is clean if none of its places lies inside a wall: over 200 random pairs of states, and over the
tasks with 20 starts and goals each. Time is that of one core."""

STUDIES = {
    "training": "What makes the planner learn: variants of profile `laptop`, each for about four minutes",
    "solver": "The trained planner by solver and network calls",
    "temperature": "The trained planner by the spread of the noise it begins from",
    "candidates": "The trained planner as the best of several candidates",
}

QUALITY_NOTE = """A row is what its command made at its commit: the settings of a recipe change with the code. Before
→ after: original and augmented data, or joins without and with refinement. Dynamic MSE is the median squared distance
between the next state and where the simulator gets by the labelled action, with the 90 % quantile beside it; `inside`
is the same inside refined segments. The last column is the rank correlation of latent distance with shortest-path
length."""

QUALITY_COLUMNS: dict[str, Callable[[Row], str]] = {
    "dataset": lambda row: f"{row['dataset']}",
    "augmentation": lambda row: _settings_of(row).label,
    "profile": lambda row: f"{row['profile'] or '-'}",
    "seed": lambda row: _number(row["seed"], "{}"),
    "commit": lambda row: f"{row['commit'][:7]}",
    "trajectories": lambda row: f"{row['original_trajectories']:,} → {row['augmented_trajectories']:,}",
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


# -------------------------------------------------------------------------------------------------------------- tables


def evaluation_rows(folder: Path) -> list[Row]:
    """The evaluations that the pages show: those of one profile with all episodes of a task."""
    rows = read_rows(folder / "evaluations.jsonl", EVALUATION_KEY)
    return [row for row in rows if row["profile"] == PROFILE and row["episodes"] == EPISODES[PROFILE]]


def times_table(rows: Sequence[Row]) -> TableBlock:
    """Wall minutes of every stage, one line per dataset, recipe and training seed."""
    firsts: dict[str, Row] = {}
    for row in rows:
        if not row["recipe"]["settings"]:
            firsts.setdefault(identity(row, LINE_KEY), row)
    lines = []
    for line, first in firsts.items():
        spent = [first["stages"].get(name) for name in STAGES]
        same = [row for row in rows if identity(row, LINE_KEY) == line and row["seed"] == first["seed"]]
        spent.append(sum(row["seconds"] for row in {row["task"]: row for row in same}.values()))
        spent.append(sum(seconds or 0.0 for seconds in spent))
        minutes = ["-" if seconds is None else f"{seconds / 60:.1f}" for seconds in spent]
        recipe = Recipe.from_dict(first["recipe"])
        made = [first["dataset"], recipe.augment or "original", recipe.learner_name, str(first["training_seed"])]
        lines.append([*made, *minutes])
    return TableBlock(["dataset", "data", "what acts", "training seed", *STAGES, "evaluation", "in all"], lines)


def _plans_table(rows: Sequence[Row], study: str) -> TableBlock:
    """One study of plans; columns that none of its rows fills are left out."""
    header = ["variant", "clean pairs", "clean plans of tasks 1 to 5", "places in walls", "steps", "time"]
    lines = []
    for row in (row for row in rows if row["study"] == study):
        tasks = ", ".join(f"{share:.0%}" for share in row["clean_tasks"])
        spent = f"{row['minutes']:.1f} min" if "minutes" in row else f"{row['seconds']:.0f} s"
        shares = [f"{row['clean_pairs']:.0%}", tasks, f"{row['places_in_walls']:.1%}"]
        lines.append([row["variant"], *shares, f"{row.get('steps', '')}", spent])
    filled = [n for n in range(len(header)) if any(line[n] for line in lines)]
    return TableBlock([header[n] for n in filled], [[line[n] for n in filled] for line in lines], STUDIES[study])


def _plans(rows: Sequence[Row], studies: Sequence[str]) -> list[Block]:
    tables = [_plans_table(rows, study) for study in studies]
    return [Commands(["python benchmarks/plans.py"]), Paragraph(PLANS_NOTE), *tables]


def _settings_of(row: Row) -> AugmentationSettings:
    """How the augmented data of a quality row was made."""
    return AugmentationSettings.from_dict({field.name: row[field.name] for field in fields(AugmentationSettings)})


def _quality_commands(rows: Sequence[Row]) -> list[str]:
    """What makes and measures the data of each row, as far as it can be said in a command."""
    commands: dict[str, None] = {}  # in order, each pair once
    for row in rows:
        data = row["dataset"] or "DATA"
        out = f"{data}-augmented.npz"
        if command := augment_command(data, _settings_of(row), out):
            report = ["scots", "report", data, out, "--out", "report", "--keep", "results/quality.jsonl"]
            commands[f"{command}\n{shlex.join(report)}"] = None
    return [line for pair in commands for line in pair.splitlines()]


def _quality_table(rows: Sequence[Row]) -> TableBlock:
    return TableBlock([*QUALITY_COLUMNS], [[cell(row) for cell in QUALITY_COLUMNS.values()] for row in rows])


# --------------------------------------------------------------------------------------------------------------- pages


def results_document(folder: Path) -> Document:
    """All results, from the rows in a folder."""
    evaluations = evaluation_rows(folder)
    plans = read_rows(folder / "plans.jsonl", PLANS_KEY)
    quality = sorted(read_rows(folder / "quality.jsonl", QUALITY_KEY), key=lambda row: str(row["dataset"]))
    studies = [study for study in STUDIES if any(row["study"] == study for row in plans)]
    sections = [
        Section(table.title, [Commands([f"scots table {name} --seeds 0 1 2"]), comparison_table(table, evaluations)])
        for name, table in TABLES.items()
    ]
    sections += [
        Section("How to read these tables", [Paragraph(SUCCESS_NOTE)]),
        Section("Time", [Paragraph(TIME_NOTE), times_table(evaluations)]),
    ]
    if studies:
        sections.append(Section("Plans on pointmaze-giant-stitch-v0", _plans(plans, studies)))
    blocks: list[Block] = [Commands(_quality_commands(quality)), _quality_table(quality), Paragraph(QUALITY_NOTE)]
    sections.append(Section("Quality of augmented data", blocks))
    return Document("Results", LEAD, sections)


def updated_readme(readme: str, folder: Path) -> str:
    """The README with its results table made anew from the rows."""
    before, rest = readme.split(TABLE_BEGIN)
    table = comparison_table(TABLES["planning"], evaluation_rows(folder)).markdown()
    return "\n".join([before + TABLE_BEGIN, table, TABLE_END + rest.split(TABLE_END)[1]])


def main(folder: Path, target: Path, readme: Path) -> None:
    """Write the page and the table of the README."""
    write_text(target, results_document(folder).markdown())
    write_text(readme, updated_readme(readme.read_text(), folder))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
