"""Result rows as JSON lines: what tells one result from another, and which row of a result is shown."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from scots.core.errors import BadInput
from scots.core.files import append_rows
from scots.evaluation.results import EvalResult

Row = dict[str, Any]

QUALITY_KEY = ("dataset", "augmenter", "profile", "seed", "config_fingerprint")
EVALUATION_KEY = (
    *("dataset", "origin", "recipe", "profile", "training_seed", "following", "search"),
    *("seed", "task", "episodes", "max_steps"),
)
PLANS_KEY = ("study", "dataset", "variant")
"""Fields that tell one result from another; of rows that agree in all of them the newest counts."""


_DEFAULTS: Row = {
    **{field.name: field.default for field in fields(EvalResult) if field.default is not MISSING},
    "failures": {},
    "planning": {},
    "returns": [],
}
"""What rows of before a field existed would say in it."""


def read_rows(path: Path, key: Sequence[str]) -> list[Row]:
    """All rows of a JSONL file, each with the fields of the key; none if there is no file."""
    if not path.exists():
        return []
    rows = []
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        try:
            row = json.loads(line)
            identity(row, key)
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise BadInput(f"{path}: line {number} is not a result row ({error})") from error
        rows.append(row)
    return rows


def newest(rows: Iterable[Row], key: Sequence[str]) -> list[Row]:
    """Of each result the row with the latest date; one without a date is older, and of equal ones the last counts."""
    found: dict[str, Row] = {}
    for row in rows:
        name = identity(row, key)
        if name not in found or _date(row) >= _date(found[name]):
            found[name] = row
    return list(found.values())


def append_new_rows(path: Path, rows: Sequence[Row]) -> None:
    """Add those evaluation rows to a JSONL file that none of its lines holds yet."""
    present = [_DEFAULTS | row for row in read_rows(path, EVALUATION_KEY)]
    append_rows(path, [row for row in rows if _DEFAULTS | row not in present])


def identity(row: Row, key: Sequence[str]) -> str:
    """The values of the key's fields as one string."""
    return json.dumps([row[name] for name in key], sort_keys=True)


def _date(row: Row) -> str:
    return row.get("date") or ""  # ISO 8601 in UTC: sorted as text
