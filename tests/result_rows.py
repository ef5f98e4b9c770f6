"""Evaluation rows as an evaluation would write them, for tests of what is made from rows."""

from typing import Any

from scots.datasets.specs import SPECS
from scots.evaluation.results import EvalResult
from scots.experiments.tables import TABLES

DATASET = "pointmaze-medium-stitch-v0"


def a_row_of(table: str, column: str, dataset: str = DATASET, **changes: Any) -> dict[str, Any]:
    """A row of a cell of a table, with the settings of today."""
    recipe = TABLES[table].recipe(column, dataset, "laptop")
    settings = recipe.resolve(SPECS[dataset], "laptop")
    row = EvalResult(
        dataset=dataset,
        recipe=recipe.to_dict(),
        profile="laptop",
        training_seed=0,
        seed=0,
        task=1,
        episodes=50,
        max_steps=1000,
        successes=49,
        steps=300.0,
        mean_return=None,
        normalized_return=None,
        following=settings.following.to_dict() if settings.following else None,
        search=settings.search.to_dict() if settings.search else None,
        origin="collected here, augmented here",
        versions={"scots": "0.1.0"},
        commit="0123456789ab",
        date="2026-01-01T00:00:00+00:00",
        seconds=30.0,
        stages={"augment": 60.0, "planner": 120.0},
        artifacts={},
    )
    return row.to_dict() | changes
