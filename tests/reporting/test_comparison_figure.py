"""Figures of tables: drawn from rows, only where there is something to compare, and never stale."""

from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from result_rows import a_row_of

from scots.experiments.tables import TABLES
from scots.reporting.comparison_figure import (
    comparison_figure,
    comparison_pictures,
    numbers_of,
    panels_of,
    write_comparison_pictures,
)
from scots.reporting.results_page import _evaluation_rows, results_document

ROOT = Path(__file__).parents[2]
HORIZON, GIANT = TABLES["controller_horizon"], "antmaze-giant-stitch-v0"


def rows_of_horizons(dataset: str = GIANT, **successes: int) -> list[dict[str, Any]]:
    """Rows at both step limits, those of the smaller with fewer successes."""
    return [
        a_row_of("controller_horizon", name.replace("_", ", "), dataset, successes=count - lost, max_steps=limit)
        for name, count in successes.items()
        for limit, lost in ((1000, 20), (2000, 0))
    ]


def test_a_line_has_the_measured_places_at_the_largest_limit():
    panels = panels_of(HORIZON, rows_of_horizons(SCoTS_25=30, SCoTS_5=50, SCoTS_10=40, CD_5=20))
    assert list(panels) == [GIANT]
    assert list(panels[GIANT]) == ["SCoTS"]  # CD has one point, which compares nothing
    assert {place: rate.mean for place, rate in panels[GIANT]["SCoTS"].items()} == {"5": 1.0, "10": 0.8, "25": 0.6}


def test_the_figure_has_a_panel_per_dataset_and_intervals():
    rows = rows_of_horizons(SCoTS_5=50, SCoTS_10=40, CD_5=20, CD_25=10)
    rows += rows_of_horizons("pointmaze-giant-stitch-v0", SCoTS_5=50, SCoTS_10=50)
    panels = panels_of(HORIZON, rows)
    figure = comparison_figure(HORIZON, panels)
    left, right = figure.axes
    assert [left.get_title(), right.get_title()] == ["antmaze-giant-stitch", "pointmaze-giant-stitch"]
    assert [label.get_text() for label in left.get_xticklabels()] == ["5", "10", "15", "20", "25"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["SCoTS", "CD"]
    scots, cd = (bars.lines[0] for bars in left.containers)
    assert scots.get_ydata() == pytest.approx([100, 80])
    assert cd.get_xdata() == pytest.approx([0, 4], abs=0.1)
    [segments] = left.containers[1].lines[2]
    low, high = segments.get_segments()[0][:, 1]
    rate = panels[GIANT]["CD"]["5"]
    assert (low, high) == pytest.approx((100 * rate.low, 100 * rate.high))


@pytest.mark.parametrize("rows", [[], rows_of_horizons(SCoTS_10=50, CD_5=50)])
def test_there_is_no_figure_where_nothing_is_compared(rows: list[dict[str, Any]], tmp_path: Path):
    assert comparison_pictures("controller_horizon", HORIZON, rows) == []
    write_comparison_pictures(tmp_path / "results.md", rows)
    assert list(tmp_path.iterdir()) == []


def test_lines_of_the_tables_are_their_columns():
    for table in TABLES.values():
        assert {column for columns in table.series.values() for column in columns.values()} <= set(table.recipes)


def test_the_figures_of_the_page_are_not_stale():
    rows, page = _evaluation_rows(ROOT / "results"), results_document(ROOT / "results").markdown()
    for name, table in TABLES.items():
        for picture in comparison_pictures(name, table, rows):
            assert f"](<{picture.path}>)" in page
            with Image.open(ROOT / "docs" / picture.path) as image:
                assert image.text["Description"] == numbers_of(panels_of(table, rows)), "run `make results`"
