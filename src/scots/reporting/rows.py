"""Result rows as JSON lines: what tells one result from another, and which row of a result is shown."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scots.core.errors import BadInput
from scots.core.files import append_rows

Row = dict[str, Any]

QUALITY_KEY = ("dataset", "augmenter", "profile", "seed", "config_fingerprint")
EVALUATION_KEY = ("dataset", "recipe", "profile", "training_seed", "seed", "task", "max_steps", "following", "search")
PLANS_KEY = ("study", "dataset", "variant")
"""Fields that tell one result from another; of rows that agree in all of them the newest counts."""


def read_rows(path: Path, key: Sequence[str]) -> list[Row]:
    """The rows of a JSONL file, of each result the newest; none if there is no file."""
    if not path.exists():
        return []
    newest: dict[str, Row] = {}
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        try:
            row = json.loads(line)
            newest[identity(row, key)] = row
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise BadInput(f"{path}: line {number} is not a result row ({error})") from error
    return list(newest.values())


def append_new_rows(path: Path, rows: Sequence[Row]) -> None:
    """Add those evaluation rows to a JSONL file that it does not hold yet."""
    present = read_rows(path, EVALUATION_KEY)
    append_rows(path, [row for row in rows if row not in present])


def identity(row: Row, key: Sequence[str]) -> str:
    """The values of the key's fields as one string."""
    return json.dumps([row[name] for name in key], sort_keys=True)
