"""What lies behind success rates: why episodes failed, and what planning cost."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from scots.datasets.specs import SPECS
from scots.experiments.tables import ResultTable
from scots.reporting.cells import rows_of
from scots.reporting.document import TableBlock
from scots.reporting.rows import Row

_FAILURES = """Failed episodes by cause, in per cent of all episodes, at the largest step limit; only where there were
any."""
_COST = """What planning cost over all episodes. One call plans for all episodes that need a plan at that moment. A
network call counts once for each sequence in its batch."""


def detail_tables(table: ResultTable, rows: Sequence[Row]) -> list[TableBlock]:
    """The details that a table asks for, each only where there is anything to show."""
    made = {"failures": failures_table, "cost": cost_table}
    blocks = [made[name](table, rows) for name in table.details]
    return [block for block in blocks if block.rows]


def _cells(table: ResultTable, rows: Sequence[Row]) -> Iterator[tuple[str, str, list[Row]]]:
    """Dataset, column and rows of every cell that was measured, at the largest step limit."""
    for dataset in table.published:
        for column in table.columns:
            if own := rows_of(table, column, dataset, rows, SPECS[dataset].step_limits[-1]):
                yield dataset, column, own


def failures_table(table: ResultTable, rows: Sequence[Row]) -> TableBlock:
    """Shares of episodes that failed, in all and for each cause, the most frequent cause first."""
    failed = [
        (dataset, column, own, causes)
        for dataset, column, own in _cells(table, rows)
        if (causes := sum((Counter(row.get("failures") or {}) for row in own), Counter[str]()))
    ]
    every = sum((causes for *_, causes in failed), Counter[str]())
    speeds = any(row.get("speed") for *_, own, _ in failed for row in own)
    lines = []
    for dataset, column, own, causes in failed:
        episodes = sum(row["episodes"] for row in own)
        shares = [causes.total(), *(causes[cause] for cause, _ in every.most_common())]
        cells = [f"{100 * count / episodes:.1f}" if count else "-" for count in shares]
        lines.append([dataset, column, str(episodes), *cells, *([_speed(own)] if speeds else [])])
    header = ["dataset", "method", "episodes", "failed", *(cause for cause, _ in every.most_common())]
    return TableBlock([*header, *(["distance per step"] if speeds else [])], lines, _FAILURES)


def _speed(rows: Sequence[Row]) -> str:
    known = [row["speed"] for row in rows if row.get("speed")]
    return f"{sum(known) / len(known):.3f}" if known else "-"


def cost_table(table: ResultTable, rows: Sequence[Row]) -> TableBlock:
    """Plans, time and network calls of every cell whose rows say what planning cost."""
    lines = []
    for dataset, column, own in _cells(table, rows):
        costs = [row["planning"] for row in _evaluations(own)]
        if not costs:
            continue
        total = {name: sum(cost[name] for cost in costs) for name in costs[0]}
        episodes = sum(row["episodes"] for row in own if row.get("planning"))
        lines.append([dataset, column, *_cost_cells(total, episodes)])
    header = ["plans per episode", "plans per call", "seconds per call", "ms per plan", "network calls per plan"]
    return TableBlock(["dataset", "method", *header], lines, _COST)


def _evaluations(rows: Sequence[Row]) -> list[Row]:
    """A row of each evaluation: all of its tasks say what it cost as a whole."""
    known = [row for row in rows if row.get("planning")]
    return list({json.dumps([row["training_seed"], row["seed"], row["planning"]]): row for row in known}.values())


def _cost_cells(total: dict[str, Any], episodes: int) -> list[str]:
    calls, plans = total["calls"], max(total["plans"], 1)
    per_plan = total["sequences"] / plans
    return [
        f"{plans / episodes:.1f}",
        f"{plans / calls:.0f}",
        f"{total['seconds'] / calls:.2f}",
        f"{1000 * total['seconds'] / plans:.1f}",
        f"{per_plan:,.0f}" if per_plan else "-",
    ]
