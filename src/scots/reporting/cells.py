"""Which rows a cell of a table shows."""

from __future__ import annotations

from collections.abc import Sequence

from scots.core.config import Profile
from scots.datasets.specs import SPECS
from scots.experiments.tables import ResultTable
from scots.reporting.rows import Row

_SHOWN = ("recipe", "following", "search")
"""Fields that all rows of a cell have in common."""


def rows_of(table: ResultTable, column: str, dataset: str, rows: Sequence[Row], limit: int | None = None) -> list[Row]:
    """The rows that a table's column shows for a dataset, under one step limit or any.

    Those of its recipe that followed and searched for plans as the recipe says today: settings change with the code.
    """
    own = [row for row in rows if row["dataset"] == dataset and limit in (None, row["max_steps"])]
    own = [row for row in own if (row["task"] == 0) == (table.pairs > 0)]  # random pairs are one task of number 0
    shown = {profile: _shown(table, column, dataset, profile) for profile in {row["profile"] for row in own}}
    return [row for row in own if {name: row[name] for name in _SHOWN} == shown[row["profile"]]]


def _shown(table: ResultTable, column: str, dataset: str, profile: Profile) -> Row | None:
    """What rows of a cell have in common; None where only others have published."""
    recipe = table.recipe(column, dataset, profile)
    if recipe is None:
        return None
    settings = recipe.resolve(SPECS[dataset], profile)
    parts = (recipe, settings.following, settings.search)
    return {name: part.to_dict() if part else None for name, part in zip(_SHOWN, parts, strict=True)}
