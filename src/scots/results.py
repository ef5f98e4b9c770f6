"""docs/results.md, made from the rows that runs left in results/: no number in it is typed by hand."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from scots.errors import BadInput
from scots.files import write_text

Row = dict[str, Any]

HEAD = """# Results

Made by `make results` from the rows in `results/`; a test fails if this page is stale. Every row was measured by the
command above its table, on data collected here unless it says otherwise.
"""

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


def read_rows(path: Path) -> list[Row]:
    """The rows of a JSONL file; of rows about the same run, the newest."""
    if not path.exists():
        return []
    newest: dict[tuple[Any, ...], Row] = {}
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        try:
            row = json.loads(line)
            newest[row["dataset"], row["recipe"], row["profile"], row["seed"]] = row
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise BadInput(f"{path}: line {number} is not a result row ({error})") from error
    return list(newest.values())


def page(folder: Path) -> str:
    """The whole page from the rows in a folder."""
    rows = read_rows(folder / "quality.jsonl")
    table = ["| " + " | ".join(QUALITY) + " |", "|" + "---|" * len(QUALITY)]
    table += ["| " + " | ".join(cell(row) for cell in QUALITY.values()) + " |" for row in rows]
    return "\n".join([HEAD, QUALITY_HEAD, *table, QUALITY_FOOT])


def main(folder: Path, target: Path) -> None:
    """Write the page."""
    write_text(target, page(folder))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
