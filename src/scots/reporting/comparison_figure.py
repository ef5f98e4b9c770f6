"""A table of success rates as a figure: a panel per dataset, a line per method, over what the table varies."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from scots.datasets.specs import SPECS
from scots.experiments.tables import TABLES, ResultTable
from scots.reporting.cells import rows_of
from scots.reporting.document import Picture
from scots.reporting.intervals import SuccessRate, success_rate
from scots.reporting.maps import INK, save_figure
from scots.reporting.rows import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Line = dict[str, SuccessRate]
"""Place on the axis -> success rate."""
Panels = dict[str, dict[str, Line]]
"""Dataset -> method -> line."""

_PANEL = 3.3  # inches
_COLOURS = ("#2e6f95", "#e07a1f", "#6b8e4e")


def panels_of(table: ResultTable, rows: Sequence[Row]) -> Panels:
    """The lines of a table that have at least two points, at the largest step limit."""
    panels: Panels = {}
    for dataset in table.published:
        for method, columns in table.series.items():
            limit = SPECS[dataset].step_limits[-1]
            own = {place: rows_of(table, column, dataset, rows, limit) for place, column in columns.items()}
            line = {place: success_rate(found) for place, found in own.items() if found}
            if len(line) > 1:
                panels.setdefault(dataset, {})[method] = line
    return panels


def comparison_figure(table: ResultTable, panels: Panels) -> Figure:
    """Success rates with their 95 % intervals; numbers on the axis are joined, names are not."""
    from matplotlib.figure import Figure  # the object interface: no display, no global state

    figure = Figure(figsize=(_PANEL * len(panels) + 0.6, _PANEL), layout="constrained")
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for own, (dataset, lines) in zip(axes, panels.items(), strict=True):
        _draw_lines(own, table, lines)
        own.set_title(dataset.removesuffix("-v0"), fontsize=10)
    axes[0].set_ylabel("success rate, %", color=INK)
    axes[0].set_ylim(-3, 103)
    drawn = {label: handle for own in axes for handle, label in zip(*own.get_legend_handles_labels(), strict=True)}
    figure.legend(drawn.values(), drawn, loc="outside lower center", ncols=len(drawn), frameon=False, fontsize=9)
    return figure


def _draw_lines(axes: Axes, table: ResultTable, lines: dict[str, Line]) -> None:
    for number, ((method, columns), colour) in enumerate(zip(table.series.items(), _COLOURS, strict=False)):
        places, line = list(columns), lines.get(method, {})
        x = [places.index(place) + 0.08 * number for place in line]  # side by side where they agree
        means = [100 * rate.mean for rate in line.values()]
        below = [100 * (rate.mean - rate.low) for rate in line.values()]
        above = [100 * (rate.high - rate.mean) for rate in line.values()]
        style = "-o" if all(map(str.isdigit, places)) else "o"
        if line:
            axes.errorbar(x, means, yerr=(below, above), fmt=style, color=colour, capsize=3, markersize=5, label=method)
        axes.set_xticks(range(len(places)), places, fontsize=9)
        axes.set_xlim(-0.5, len(places) - 0.5)
    axes.grid(axis="y", color="#e5e9ed", linewidth=0.7)
    axes.spines[["top", "right"]].set_visible(False)


# --------------------------------------------------------------------------------------------------------------- files


def comparison_pictures(name: str, table: ResultTable, rows: Sequence[Row]) -> list[Picture]:
    """The figure of a table, in the images beside the results page; none without anything to compare."""
    if not panels_of(table, rows):
        return []
    caption = "The same at the largest step limit of each dataset, with 95 % intervals."
    return [Picture(_path(name), table.title, caption)]


def write_comparison_pictures(page: Path, rows: Sequence[Row]) -> None:
    """Write the figures that a results page shows."""
    for name, table in TABLES.items():
        if panels := panels_of(table, rows):
            save_figure(comparison_figure(table, panels), page.parent / _path(name), numbers_of(panels))


def numbers_of(panels: Panels) -> str:
    """What a figure shows, as text that its file keeps: so a stale one can be told."""
    return json.dumps(panels, default=str)


def _path(name: str) -> Path:
    return Path("images") / f"results-{name.replace('_', '-')}.png"
