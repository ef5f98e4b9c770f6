"""Success rates with their intervals, or returns, by task and beside the published numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from scots.datasets.specs import SPECS
from scots.envs.base import OUT_OF_TIME
from scots.evaluation.results import EvalResult
from scots.experiments.tables import ResultTable
from scots.reporting.breakdown import detail_tables
from scots.reporting.cells import rows_of
from scots.reporting.document import Strong, TableBlock
from scots.reporting.intervals import success_rate
from scots.reporting.rows import Row

_BOOTSTRAP_DRAWS = 2000


def outcome(rows: Sequence[Row]) -> str:
    """The success rate of rows, or their mean return where there is no goal to reach."""
    counted = [row for row in rows if row["successes"] is not None]
    return str(success_rate(counted)) if counted else _mean_return(rows)


def _mean_return(rows: Sequence[Row]) -> str:
    """The mean return; normalised, where that is known, with its 95 % bootstrap interval if rows have all returns."""
    mean = np.mean([row["mean_return"] for row in rows])
    normalized = [row["normalized_return"] for row in rows]
    if None in normalized:
        return f"return {mean:.1f}"
    return f"return {mean:.1f} ({np.mean(normalized):.1f}{_interval(rows)} normalised)"


def _interval(rows: Sequence[Row]) -> str:
    """The bootstrap draws episodes anew within each row."""
    if not all(row.get("returns") for row in rows):
        return ""
    rng, means = np.random.default_rng(0), []
    for row in rows:
        returns = np.array(row["returns"])
        drawn = rng.choice(returns, size=(_BOOTSTRAP_DRAWS, len(returns))).mean(1)
        random, expert = SPECS[row["dataset"]].reference_returns or (0.0, 100.0)
        means.append(100 * (drawn - random) / (expert - random))
    low, high = np.quantile(np.mean(means, axis=0), [0.025, 0.975])
    return f" [{low:.1f}, {high:.1f}]"


def success_table(rows: Sequence[EvalResult]) -> TableBlock:
    """Successes of every task under every step limit, and the success rate over all tasks; returns without a goal."""
    limits = sorted({row.max_steps for row in rows})
    lines: list[list[str]] = []
    for task in sorted({row.task for row in rows}):
        own = {row.max_steps: row for row in rows if row.task == task}
        steps = own[limits[-1]].steps
        cells = (_count(own[limit]) for limit in limits)
        lines.append([str(task or "random pairs"), *cells, "-" if steps is None else f"{steps:.0f}"])
    overall = (outcome([row.to_dict() for row in rows if row.max_steps == limit]) for limit in limits)
    lines.append(["all" if all(row.successes is None for row in rows) else "all, %", *overall, ""])
    return TableBlock(["task", *(f"within {limit}" for limit in limits), "median steps"], lines)


def _count(row: EvalResult) -> str:
    return _mean_return([row.to_dict()]) if row.successes is None else f"{row.successes} of {row.episodes}"


def result_tables(table: ResultTable, rows: Sequence[Row]) -> list[TableBlock]:
    """What there is to show of a table: the comparison; below it tasks, failures and costs, where it asks for them."""
    tasks = [tasks_table(table, rows)] if table.tasks else []
    return [comparison_table(table, rows), *tasks, *detail_tables(table, rows)]


def comparison_table(table: ResultTable, rows: Sequence[Row]) -> TableBlock:
    """A table of the paper: our results where there are rows, the published numbers in brackets beside them."""
    lines: list[list[object]] = []
    for dataset, published in table.published.items():
        for limit in SPECS[dataset].step_limits:
            cells = []
            for column in table.columns:
                own = rows_of(table, column, dataset, rows, limit)
                averaged = [row for row in own if row["task"] in (table.published_tasks or (row["task"],))]
                beside = published.get(column) if limit == table.published_limit(column, dataset) else None
                cells.append(_cell(averaged, beside))
            if any(str(cell) for cell in cells):
                lines.append([dataset, str(limit), *cells])
    return TableBlock(["dataset", "steps", *table.columns], lines)


def measured(block: TableBlock) -> TableBlock:
    """The rows and columns of a comparison that have results of ours; the dataset and the step limit stay."""
    rows = [row for row in block.rows if any(isinstance(cell, Strong) for cell in row)]
    columns = [n for n in range(len(block.header)) if n < 2 or any(isinstance(row[n], Strong) for row in rows)]
    return _some_columns(TableBlock(block.header, rows, block.caption), columns)


def without_empty_columns(block: TableBlock) -> TableBlock:
    """A comparison without the columns that have no number, of ours or published."""
    return _some_columns(block, [n for n in range(len(block.header)) if any(str(row[n]) for row in block.rows)])


def _some_columns(block: TableBlock, columns: Sequence[int]) -> TableBlock:
    return TableBlock(
        [block.header[n] for n in columns], [[row[n] for n in columns] for row in block.rows], block.caption
    )


def tasks_table(table: ResultTable, rows: Sequence[Row]) -> TableBlock:
    """Success by task, with the share of episodes that failed for each cause but time, at the largest step limit."""
    lines: list[list[object]] = []
    for dataset in table.published:
        limit = SPECS[dataset].step_limits[-1]
        for column in table.columns:
            own = rows_of(table, column, dataset, rows, limit)
            cells = [_with_failures([row for row in own if row["task"] == task]) for task in table.tasks]
            if any(cells):
                lines.append([dataset, str(limit), column, *cells])
    return TableBlock(["dataset", "steps", "method", *table.tasks.values()], lines)


def _with_failures(rows: Sequence[Row]) -> str:
    """The success rate in per cent, then each cause of failure but time with its share of the episodes."""
    if not rows:
        return ""
    episodes, failures = sum(row["episodes"] for row in rows), Counter[str]()
    for row in rows:
        failures.update(row["failures"])
    shares = [f"{cause} {100 * n / episodes:.0f}" for cause, n in failures.items() if cause != OUT_OF_TIME]
    return ", ".join([f"{100 * sum(row['successes'] for row in rows) / episodes:.0f}", *shares])


def _cell(ours: Sequence[Row], published: str | None) -> Strong | str:
    beside = f"({published})" if published else ""
    return Strong(outcome(ours), beside) if ours else beside
