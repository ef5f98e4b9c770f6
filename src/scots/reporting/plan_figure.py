"""A map of plans: where data was recorded, the candidates faintly, and the best plan from start to goal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from scots.data.support import Support
from scots.data.trajectories import Array, Meta, Trajectories
from scots.envs.maze import maze_of
from scots.experiments.planning import PlannedPath, to_trajectories, until_arrival
from scots.reporting.maps import INK, draw_maze, label_axes, points, points_of_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BOX, _DOT, _CANDIDATE, _GOAL = "#d3e5f3", "#b3c0cc", "#6b7b8c", "#d1495b"
_PLANS = ("#2e6f95", "#e08e45", "#3f8f5b", "#8e5ea2", "#b5527a", "#6d7f2f")  # one colour after the other
_WIDTH = 7.5  # inches
_RECORDED_STATES = 20_000  # drawn as dots, at most


def plan_figure(
    paths: Sequence[PlannedPath], support: Support, meta: Meta, recorded: Trajectories | None = None
) -> Figure:
    """All plans on one map, over the recorded data if it is given, else over its support; `meta` is the planner's.

    Candidates are drawn as far as they are filled in.
    """
    from matplotlib.figure import Figure  # the object interface: no display, no global state

    figure = Figure(figsize=(_WIDTH, _WIDTH), layout="compressed")
    axes = figure.subplots()
    plans = to_trajectories(paths)
    if recorded is None:
        _draw_support(axes, support, max(map(len, (path.positions for path in paths))))
    else:
        _draw_recorded(axes, recorded)
    for number, path in enumerate(paths):
        candidates = [until_arrival(own.positions, support.step) for own in path.candidates]
        _draw_plan(axes, path.positions, candidates, _PLANS[number % len(_PLANS)], labelled=number == 0)
    if len(plans.meta.columns) > 1:
        draw_maze(axes, maze_of(meta))
        figure.set_figheight(_height(axes))
    label_axes(axes, plans, plans.meta.position)
    axes.set_title(_title(paths), fontsize=11, color=INK)
    figure.legend(loc="outside lower center", ncols=5, frameon=False, fontsize=9)
    return figure


def _height(axes: Axes) -> float:
    """The height of a figure whose map has equal scales, with room for title and legend."""
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    return 1 + _WIDTH * float(np.clip((high - low) / (right - left), 0.3, 1.3))


def _title(paths: Sequence[PlannedPath]) -> str:
    return str(paths[0]).replace("; ", "\n") if len(paths) == 1 else f"{len(paths)} plans"


def _draw_support(axes: Axes, support: Support, steps: int) -> None:
    """The recorded boxes as squares; where there is one position column, as bands along the steps."""
    from matplotlib.collections import PolyCollection

    edge = float(support.edge)
    low = support.low + support.boxes * edge
    boxes = np.unique(points(low, np.zeros(len(low))), axis=0)
    height = edge if support.boxes.shape[1] > 1 else float(steps)
    corners = boxes[:, None] + np.array([(0, 0), (edge, 0), (edge, height), (0, height)])
    squares = PolyCollection(list(corners), facecolors=_BOX, edgecolors=_BOX, linewidths=0.3, zorder=1)
    squares.set_label("recorded support")
    axes.add_collection(squares)


def _draw_recorded(axes: Axes, recorded: Trajectories) -> None:
    """Recorded positions as dots, evenly spread over the data."""
    rows = np.unique(np.linspace(0, recorded.rows - 1, _RECORDED_STATES).astype(int))
    shown = points_of_rows(recorded, recorded.meta.position, rows)
    axes.plot(*shown.T, ".", color=_DOT, markersize=3, zorder=1, label="recorded data")


def _draw_plan(axes: Axes, positions: Array, candidates: Sequence[Array], colour: str, labelled: bool) -> None:
    """A plan, what it was chosen from, and its ends; only one plan is named in the legend."""

    def label(text: str) -> str:
        return text if labelled else ""

    for number, candidate in enumerate(candidates):
        name = label("candidates") if number == 0 else ""
        axes.plot(*_line(candidate), color=_CANDIDATE, linewidth=0.8, alpha=0.35, zorder=2, label=name)
    line = _line(positions)
    axes.plot(*line, color=colour, linewidth=2.2, zorder=4, label=label("best plan"))
    ends: dict[str, Any] = {"markeredgecolor": INK, "linestyle": "none", "zorder": 5}
    axes.plot(*line[:, :1], "o", markersize=9, markerfacecolor="white", label=label("start"), **ends)
    axes.plot(*line[:, -1:], "*", markersize=15, markerfacecolor=_GOAL, label=label("goal"), **ends)


def _line(positions: Array) -> Array:
    """Where the positions (T, P) that are known are drawn: (2, T)."""
    (known,) = np.nonzero(np.isfinite(positions[:, 0]))
    return points(positions[known], known).T
