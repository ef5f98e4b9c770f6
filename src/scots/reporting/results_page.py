"""docs/results.md and the table of the README, made from the rows in results/: no measured number is typed by hand."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from scots.core.config import Profile
from scots.core.files import write_text
from scots.datasets.specs import REGISTERED_LIMIT, SPECS
from scots.experiments.pipeline import EPISODES
from scots.experiments.recipe import Recipe
from scots.experiments.tables import TABLES, ResultTable
from scots.reporting.augmentation import AugmentationSettings, augment_command
from scots.reporting.calibration import NEAR_CELLS
from scots.reporting.cells import rows_of
from scots.reporting.comparison_figure import comparison_pictures, write_comparison_pictures
from scots.reporting.document import Block, Commands, Document, Paragraph, Section, TableBlock, short_number
from scots.reporting.rows import EVALUATION_KEY, PLANS_KEY, QUALITY_KEY, Row, identity, newest, read_rows
from scots.reporting.studies import STUDIES
from scots.reporting.success import comparison_table, measured, result_tables, without_empty_columns
from scots.reporting.which_planner import advice

_PROFILE: Profile = "laptop"
"""The profile whose results the pages show."""
_DATASETS = list(SPECS)
_STAGES = ("collect", "augment", "search", "planner", "agent")
_LINE_KEY = ("dataset", "recipe", "training_seed")
"""Fields of an evaluation row that decide the stages before the evaluation."""
_STORED = "stored in "
"""What the commit of a row begins with if it is not known which code made it, only which commit added the row."""
_TABLE_BEGIN, _TABLE_END = "<!-- results: made by `make results` -->", "<!-- end of results -->"
_PAPER_HOURS = {"augment": 9.3, "planner": 18, "agent": 2.5}
"""What the paper reports for its stages, on an A10 GPU."""

_LEAD = """Made by `make results` from the rows in `results/`; a test fails if this page is stale. The commands above a
table measure its rows. Tables that would show nothing of their own are named at the end."""


# ------------------------------------------------------------------------------------------------------------- success


def _evaluation_rows(folder: Path) -> list[Row]:
    """The evaluations that the pages show: those of one profile with all episodes of a task."""
    rows = read_rows(folder / "evaluations.jsonl", EVALUATION_KEY)
    whole = {EPISODES[_PROFILE], *(table.pairs for table in TABLES.values())}
    shown = [row for row in rows if row["profile"] == _PROFILE and row["episodes"] in whole]
    return newest(shown, EVALUATION_KEY)


def _commits_note(rows: Sequence[Row]) -> list[Block]:
    """Which code made rows, as far as they say."""
    commits = sorted({row["commit"] for row in rows if row.get("commit")})
    made = [commit for commit in commits if not commit.startswith(_STORED)]
    stored = [commit.removeprefix(_STORED) for commit in commits if commit.startswith(_STORED)]
    sentences = []
    if made:
        sentences.append(f"Commits that made the rows: {_listed(made)}.")
    if stored:
        sentences.append(f"""Commits that stored rows, which say "{_STORED.strip()}": {_listed(stored)}. Such a row was
            made by code at or before that commit. Settings and random streams have changed since, so its command does
            not give the same numbers again.""")
    return [Paragraph(" ".join(sentences))] if sentences else []


def _listed(commits: Sequence[str]) -> str:
    return ", ".join(f"`{commit}`" for commit in commits)


def _success_notes(rows: Sequence[Row]) -> list[Block]:
    """How to read the tables of success rates, as far as it holds of all rows."""
    means = f"""Success rate in per cent: the mean over trainings, tasks and evaluation seeds
        ({EPISODES[_PROFILE]} episodes of each task per seed and training), and its 95 % interval
        ([how it is made](method.md#intervals)). In parentheses the paper's mean ± standard deviation over five
        seeds."""
    limits = f"""`steps` is the step limit of an episode: {REGISTERED_LIMIT} is OGBench's, a larger one that of the
        paper's reference code. A published number stands at the limit that it was made with: for agents that act alone
        OGBench's, for GSC and CD that of CD's reference code, from whose paper they are, for HD and SCoTS that of the
        paper's."""
    if not rows:
        return []
    origins = " or ".join(f'"{origin}"' for origin in sorted({row["origin"] for row in rows}))
    made = f"""Profile `{_PROFILE}`; origin of the training data: {origins}. Plans on one dataset are followed by the
        same agent, one at a time, and replaced when it is late, unless a column says otherwise. {_alike()}"""
    return [Paragraph(f"{means} {_spread(rows)}"), Paragraph(limits), Paragraph(made), *_commits_note(rows)]


def _spread(rows: Sequence[Row]) -> str:
    """What intervals say of how trainings differ."""
    seeds: dict[str, set[int]] = {}
    for row in rows:
        seeds.setdefault(identity(row, ("dataset", "recipe")), set()).add(row["training_seed"])
    most = max(map(len, seeds.values()))
    if most == 1:
        return """Each number is of one training: its interval says what chance its episodes leave, and nothing of how
            trainings differ."""
    return f"Numbers are of one to {most} trainings: the interval of one says nothing of how trainings differ."


def _alike() -> str:
    """In what the planners of the tables are alike and in what they are not, by their settings."""
    table, dataset = TABLES["planning"], next(iter(TABLES["planning"].published))
    configs: dict[str, Any] = {}
    for column in ("HD", "SCoTS", "CD", "GSC"):
        recipe = table.recipe(column, dataset, _PROFILE)
        assert recipe is not None
        configs[column] = recipe.resolve(SPECS[dataset], _PROFILE).planner
    size = {
        name: f"{config.training.steps:,} steps of {config.training.batch_size} windows"
        for name, config in configs.items()
    }
    assert size["HD"] == size["SCoTS"]
    assert configs["CD"] == configs["GSC"]
    return f"""HD and SCoTS have the same network (transformers, level by level) and training ({size["HD"]}) and draw
        one plan, whose length follows from the data that it is learned from. CD and GSC share another network, a U-Net
        of chunks ({size["CD"]}), and draw {configs["CD"].candidates} candidates for each plan, of which they keep the
        one whose overlaps agree best. Planners without diffusion train no network, except the embedding of `landmarks`.
        Agents that act alone have settings of their own. Columns that name the same planner or agent differ in what
        their names say and in nothing else."""


def _shown_tables(rows: Sequence[Row]) -> dict[str, ResultTable]:
    """Tables with a row of their own: all that others would show stands in one before them, or in none."""
    shown: set[int] = set()
    tables = {}
    for name, table in TABLES.items():
        cells = ((column, dataset) for column in table.columns for dataset in table.published)
        own = {id(row) for cell in cells for row in rows_of(table, *cell, rows)} - shown
        if own:
            tables[name] = table
        shown |= own
    return tables


def _table_blocks(name: str, table: ResultTable, rows: Sequence[Row]) -> list[Block]:
    """A table with the commands that measured it, what a reader has to know, and its details."""
    comparison, *details = result_tables(table, rows)
    filled = measured(comparison).header
    missing = [column for column in table.recipes if column not in filled]
    notes = [table.note, f"Not measured here: {', '.join(missing)}." if missing else ""]
    return [
        Commands(_table_commands(name, table, rows)),
        *(Paragraph(note) for note in notes if note),
        without_empty_columns(comparison),
        *comparison_pictures(name, table, rows),
        *details,
        *([advice(rows)] if name == "without_diffusion" else []),
    ]


def _not_shown(shown: Collection[str]) -> list[Block]:
    """The tables that are left to measure."""
    left = {name: table for name, table in TABLES.items() if name not in shown}
    words = """Nothing was measured of these tables that another does not show already. `scots table NAME --dry-run`
        says how long one takes; when it is made, the paper's numbers stand beside ours."""
    lines = [[table.title, f"`scots table {name}`"] for name, table in left.items()]
    return [Paragraph(words), TableBlock(["table", "command"], lines)] if left else []


def _table_commands(name: str, table: ResultTable, rows: Sequence[Row]) -> list[str]:
    """The commands that measured a table: one for all datasets and columns that were run with the same seeds."""
    groups: dict[tuple[int, tuple[int, ...], tuple[str, ...]], list[str]] = {}
    for dataset in table.published:
        columns: dict[tuple[int, tuple[int, ...]], list[str]] = {}
        for column in table.columns:
            own = rows_of(table, column, dataset, rows)
            for training_seed in sorted({row["training_seed"] for row in own}):
                seeds = sorted({row["seed"] for row in own if row["training_seed"] == training_seed})
                columns.setdefault((training_seed, tuple(seeds)), []).append(column)
        for (training_seed, run), shown in columns.items():
            groups.setdefault((training_seed, run, tuple(shown)), []).append(dataset)
    commands = []
    for (training_seed, run, shown_columns), datasets in groups.items():
        words = ["scots", "table", name, "--datasets", *datasets, "--columns", *shown_columns]
        words += ["--seeds", *map(str, run), *(["--training-seed", str(training_seed)] if training_seed else [])]
        commands.append(shlex.join([*words, "--keep", "results/evaluations.jsonl"]))
    return commands or [f"scots table {name}"]


# ---------------------------------------------------------------------------------------------------------------- time


def _time_note() -> str:
    hours = ", ".join(f"{hours:g} hours for `{stage}`" for stage, hours in _PAPER_HOURS.items())
    return f"""Wall minutes of each stage on two CPU cores, which other work may have shared. A dash: not measured, and
        not in the sum. `augment` includes the training of its networks, unless an earlier run had left them in the
        cache. A stage that several lines share is counted in each of them. The paper reports {hours}, on an A10 GPU.
        Peak memory is that of the process when it had evaluated, and of its largest child: all that the process had
        done before is in it, and stages that others had done are not."""


def times_table(rows: Sequence[Row]) -> TableBlock:
    """Wall minutes of every stage, one line per dataset, recipe and training seed; datasets in their usual order."""
    firsts: dict[str, Row] = {}
    for row in rows:
        if not row["recipe"]["overrides"]:
            firsts.setdefault(identity(row, _LINE_KEY), row)
    lines = []
    for line, first in firsts.items():
        spent = [first["stages"].get(name) for name in _STAGES]
        same = [row for row in rows if identity(row, _LINE_KEY) == line and row["seed"] == first["seed"]]
        spent.append(sum(row["seconds"] for row in {row["task"]: row for row in same}.values()))
        spent.append(sum(seconds or 0.0 for seconds in spent))
        minutes = ["-" if seconds is None else f"{seconds / 60:.1f}" for seconds in spent]
        recipe = Recipe.from_dict(first["recipe"])
        made = [first["dataset"], recipe.augmenter or "recorded", recipe.actor, str(first["training_seed"])]
        lines.append([*made, *minutes, _gigabytes(same)])
    lines.sort(key=lambda line: (_DATASETS.index(line[0]) if line[0] in _DATASETS else len(_DATASETS), line[:4]))
    header = ["dataset", "data", "policy", "training seed", *_STAGES, "evaluation", "total", "peak memory, GB"]
    return TableBlock(header, lines)


def _gigabytes(rows: Sequence[Row]) -> str:
    known = [row["peak_memory"] for row in rows if row.get("peak_memory")]
    return f"{max(known) / 1e9:.1f}" if known else "-"


# --------------------------------------------------------------------------------------------------------------- plans


_STUDIES = {
    "training": "Settings of the planner: variants of profile `laptop`, each trained for {minutes} processor minutes",
    "solver": "The trained planner by solver and number of network calls",
    "temperature": "The trained planner by the standard deviation of the noise that it starts from",
    "candidates": "Plan search by its number of candidates: with more than one, all parts of the search are on",
}

_PLANS_NOTE = """A plan is collision-free if none of its positions lies inside a wall: over random pairs of states, and
over the starts and goals of each task in turn. A variant of a training differs in one setting from profile `laptop` as
it was at the commit of its row, and was trained once. Time is that of one core."""


def _plans(rows: Sequence[Row]) -> list[Section]:
    """A section per dataset that plans were studied on."""
    return [
        Section(
            f"Plans on {dataset}",
            [
                Commands(_plans_commands(dataset, own)),
                Paragraph(_PLANS_NOTE),
                *_commits_note(own),
                *(_plans_table(own, study) for study in _STUDIES if any(row["study"] == study for row in own)),
            ],
        )
        for dataset in dict.fromkeys(row["dataset"] for row in rows)
        if (own := [row for row in rows if row["dataset"] == dataset])
    ]


def _plans_commands(dataset: str, rows: Sequence[Row]) -> list[str]:
    minutes = [row["minutes"] for row in rows if "minutes" in row]
    commands = [f"scots augment {dataset} --out augmented.npz"]
    if minutes:
        commands.append(f"python benchmarks/plans.py train augmented.npz --minutes {np.median(minutes):.0f}")
    return [
        *commands,
        "scots train hd --data augmented.npz --out hd",
        "python benchmarks/plans.py draw hd --data augmented.npz",
    ]


def _plans_table(rows: Sequence[Row], study: str) -> TableBlock:
    """One study of plans; columns that none of its rows fills are left out."""
    header = [
        "variant",
        "collision-free, random pairs",
        "collision-free, by task",
        "positions in walls",
        "training steps",
        "time",
    ]
    own = [row for row in rows if row["study"] == study]
    lines = []
    for row in own:
        tasks = ", ".join(f"{share:.0%}" for share in row["clean_tasks"])
        spent = f"{row['minutes']:.1f} min" if "minutes" in row else f"{row['seconds']:.0f} s"
        shares = [f"{row['clean_pairs']:.0%}", tasks, f"{row['positions_in_walls']:.1%}"]
        lines.append([row["variant"], *shares, f"{row.get('steps', '')}", spent])
    filled = [n for n in range(len(header)) if any(line[n] for line in lines)]
    minutes = [row["minutes"] for row in own if "minutes" in row]
    caption = _STUDIES[study].format(minutes=f"{min(minutes):.1f} to {max(minutes):.1f}" if minutes else "some")
    return TableBlock([header[n] for n in filled], [[line[n] for n in filled] for line in lines], caption)


# ------------------------------------------------------------------------------------------------------------- quality


_QUALITY_NOTE = f"""A row is what its command made at or before its commit: the settings of a recipe change with the
code. Arrows lead from the original to the augmented data or, at joins, from before to after refinement. Fine cells are
those that were recorded, and the share of them that equal numbers of states visit. Own continuation is the share of
joins at which the walk goes on in the same episode. The step ratio divides the median length of refined steps at joins
by that inside segments. Dynamic MSE is the squared distance between the next state and the state the simulator reaches
under the labelled action: its median, and its 90 % quantile in brackets. Relabelled is that of recorded steps with
labelled actions, the floor of all labelled steps; steps with their recorded actions are below it. The rank correlation
is that of latent distance with the length of the shortest path, for pairs of states at most {NEAR_CELLS} maze cells
apart. [report.md](report.md) says what the other measures are."""

_QUALITY_COLUMNS: dict[str, Callable[[Row], str]] = {
    "dataset": lambda row: f"{row['dataset']}",
    "augmentation": lambda row: _settings_of(row).label,
    "profile": lambda row: f"{row['profile'] or '-'}",
    "seed": lambda row: _number(row["seed"], "{}"),
    "commit": lambda row: f"{row['commit'][:7]}",
    "verdict": lambda row: row.get("verdict") or "-",
    "off the data": lambda row: _number(row.get("off_data"), "{:.1%}"),
    "nearer to walls": lambda row: _number(row.get("nearer_to_walls_than_recorded"), "{:.2%}"),
    "recorded states": lambda row: _number(row.get("recorded_states"), "{:.0%}"),
    "trajectories": lambda row: _pair(row, "trajectories", "{:,}"),
    "states": lambda row: _pair(row, "states", "{:,}"),
    "cells visited": lambda row: _pair(row, "cells", "{:.0%}"),
    "fine cells": lambda row: _pair(row, "fine_cells_equal", "{:.0%}"),
    "recall": lambda row: _number(row.get("recall"), "{:.0%}"),
    "cells per trajectory": lambda row: _pair(row, "cells_per_trajectory", "{:.0f}"),
    "states in walls": lambda row: _number(row["augmented_states_in_walls"], "{:.3%}"),
    "own continuation": lambda row: _number(row.get("own_continuation"), "{:.1%}"),
    "step ratio": lambda row: _number(row["join_ratio_position"], "{:.2f}"),
    "Dynamic MSE at joins": lambda row: (
        f"{_dynamic_mse(row, 'unrefined_joins')} → {_dynamic_mse(row, 'refined_joins')}"
    ),
    "Dynamic MSE inside": lambda row: _dynamic_mse(row, "inside"),
    "Dynamic MSE per step": lambda row: _short(row.get("dynamic_mse_per_step")),
    "relabelled": lambda row: _short(row.get("dynamic_mse_relabelled")),
    "rank correlation": lambda row: _number(row["rank_correlation_near"], "{:.3f}"),
}
"""Columns of the quality table: title -> cell of a row. Columns that no row fills are left out: old rows lack some."""


def _number(value: float | None, pattern: str) -> str:
    return "-" if value is None else pattern.format(value)


def _short(value: float | None) -> str:
    return "-" if value is None else short_number(value)


def _pair(row: Row, name: str, pattern: str) -> str:
    before, after = row.get(f"original_{name}"), row.get(f"augmented_{name}")
    return "-" if before is None else f"{pattern.format(before)} → {pattern.format(after)}"


def _dynamic_mse(row: Row, kind: str) -> str:
    median, tail = row[f"dynamic_mse_{kind}"], row[f"dynamic_mse_{kind}_p90"]
    return "-" if median is None else f"{short_number(median)} ({short_number(tail)})"


def _settings_of(row: Row) -> AugmentationSettings:
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


def _quality(rows: Sequence[Row]) -> list[Block]:
    """The rows of each dataset together; of what one command makes, the newest."""
    latest = {
        (str(row["dataset"]), _settings_of(row).label, row["profile"], row["seed"]): row
        for row in sorted(rows, key=lambda row: row.get("date") or "")
    }
    ordered = sorted(latest.values(), key=lambda row: str(row["dataset"]))
    columns = {title: [cell(row) for row in ordered] for title, cell in _QUALITY_COLUMNS.items()}
    filled = {title: cells for title, cells in columns.items() if set(cells) != {"-"}}
    table = TableBlock([*filled], list(zip(*filled.values(), strict=True)))
    return [Commands(_quality_commands(ordered)), table, Paragraph(_QUALITY_NOTE)]


# --------------------------------------------------------------------------------------------------------------- pages


def results_document(folder: Path) -> Document:
    """All results, from the rows in a folder."""
    evaluations = _evaluation_rows(folder)
    quality = newest(read_rows(folder / "quality.jsonl", QUALITY_KEY), QUALITY_KEY)
    plans = newest(read_rows(folder / "plans.jsonl", PLANS_KEY), PLANS_KEY)
    shown = _shown_tables(evaluations)
    tables = [Section(table.title, _table_blocks(name, table, evaluations)) for name, table in shown.items()]
    sections = [
        Section("Success rates", _success_notes(evaluations)),
        *tables,
        Section("Time", [Paragraph(_time_note()), times_table(evaluations)] if evaluations else []),
        *_plans(plans),
        Section("Quality of augmented data", _quality(quality) if quality else []),
        *(study.section(folder) for study in STUDIES),
        Section("Not measured yet", _not_shown(shown)),
    ]
    return Document("Results", _LEAD, sections)


def updated_readme(readme: str, folder: Path) -> str:
    """The README with its results table made anew from the rows: what was measured of it."""
    before, rest = readme.split(_TABLE_BEGIN)
    table = measured(comparison_table(TABLES["planning"], _evaluation_rows(folder))).markdown()
    return "\n".join([before + _TABLE_BEGIN, table, _TABLE_END + rest.split(_TABLE_END)[1]])


def main(folder: Path, target: Path, readme: Path) -> None:
    """Write the page with its figures, and the table of the README."""
    write_comparison_pictures(target, _evaluation_rows(folder))
    write_text(target, results_document(folder).markdown())
    write_text(readme, updated_readme(readme.read_text(), folder))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
