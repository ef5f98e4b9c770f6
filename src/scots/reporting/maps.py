"""Maps of trajectories seen from above, and the drawing that all figures share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from scots.core.errors import BadInput
from scots.core.files import atomic, check_output
from scots.data.scans import has_latent_position
from scots.data.trajectories import Array, Trajectories
from scots.envs.maze import Maze, maze_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#1f2933"
_WALL, _FLOOR = "#c9d1d9", "#ffffff"
_EPISODES = 300  # drawn as lines
_BINS = 160
_DPI = 120


def dataset_figure(data: Trajectories, columns: tuple[int, ...], name: str = "") -> Figure:
    """Every position visited on the left, single episodes in colour on the right; `name` is for data without an id."""
    from matplotlib.figure import Figure  # the object interface: no display, no global state

    figure = Figure(figsize=(13, 5.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    _draw_density(left, data, columns)
    chosen = spread_out(data, _EPISODES)
    draw_episodes(right, chosen, columns)
    right.set_title(f"{len(chosen)} episodes, dots where they start", fontsize=11)
    for axes in (left, right):
        draw_maze(axes, None if has_latent_position(data.meta) else maze_of(data.meta))
        label_axes(axes, data, columns)
    figure.suptitle(f"{data.meta.dataset or name}: {len(data):,} episodes, {data.rows:,} states", fontsize=13)
    return figure


def check_figure(path: Path) -> str:
    """The format that a figure is written in by the name of its file; refuses a file that cannot be written."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    kind, known = path.suffix.lstrip(".").lower() or "png", FigureCanvasAgg.get_supported_filetypes()
    if kind not in known:
        raise BadInput(f"{path}: figures are not written as .{kind}; choose one of {', '.join(sorted(known))}")
    check_output(path)
    return kind


def save_figure(figure: Figure, path: Path, description: str = "") -> None:
    """Write a figure; the format follows from the name and is PNG where that says nothing. A PNG may be described."""
    kind = check_figure(path)
    with atomic(path) as temporary:
        metadata = {"Description": description} if description else None
        figure.savefig(temporary, dpi=_DPI, format=kind, bbox_inches="tight", metadata=metadata)


def spread_out(data: Trajectories, count: int) -> Trajectories:
    """At most `count` trajectories, evenly spread over the dataset."""
    return data.select(np.unique(np.linspace(0, len(data) - 1, count).astype(int)))


def points(positions: Array, steps: Array) -> Array:
    """Where positions (N, P) are drawn (N, 2): by their first two columns or, if there is one, by it and the step."""
    return positions[:, :2] if positions.shape[1] > 1 else np.stack([positions[:, 0], steps], axis=1)


def points_of_rows(data: Trajectories, columns: tuple[int, ...], rows: Array) -> Array:
    """Where rows of a dataset are drawn (N, 2)."""
    return points(data.observations[rows][:, list(columns)], rows - data.offsets[data.episode_of(rows)])


def draw_episodes(axes: Axes, data: Trajectories, columns: tuple[int, ...]) -> None:
    """Every episode as a line of its own colour, with a dot where it starts."""
    from matplotlib import colormaps

    for number in range(len(data)):
        path = points_of_rows(data, columns, np.arange(data.offsets[number], data.offsets[number + 1]))
        colour = colormaps["hsv"](number / len(data))
        axes.plot(*path.T, color=colour, linewidth=0.8, alpha=0.8, zorder=2)
        axes.plot(*path[0], "o", color=colour, markersize=2.5, zorder=3)


def draw_maze(axes: Axes, maze: Maze | None) -> None:
    """The walls of a maze as blocks, if there is one; the axes then show all of it."""
    from matplotlib.collections import PolyCollection

    if maze is None:
        return
    half = maze.unit / 2
    corners = half * np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)])
    blocks = maze.centre(np.argwhere(maze.walls))[:, None] + corners  # (walls, 4, 2): one artist draws them all
    axes.add_collection(PolyCollection(list(blocks), facecolors=_WALL, edgecolors=_WALL, zorder=0), autolim=False)
    high_y, high_x = (np.array(maze.walls.shape) - 0.5) * maze.unit - maze.origin
    axes.set_xlim(-maze.origin - half, high_x)
    axes.set_ylim(-maze.origin - half, high_y)


def label_axes(axes: Axes, data: Trajectories, columns: tuple[int, ...]) -> None:
    """Column names, and equal scales where both axes are positions."""
    names = data.meta.columns or tuple(f"column {n}" for n in range(data.observations.shape[1]))
    axes.set_xlabel(names[columns[0]], color=INK)
    axes.set_ylabel(names[columns[1]] if len(columns) > 1 else "step", color=INK)
    axes.set_facecolor(_FLOOR)
    if len(columns) > 1:
        axes.set_aspect("equal")


def _draw_density(axes: Axes, data: Trajectories, columns: tuple[int, ...]) -> None:
    """All positions as a density on a logarithmic colour scale."""
    from matplotlib.colors import LogNorm

    x, y = points_of_rows(data, columns, np.arange(data.rows)).T
    image = axes.hist2d(x, y, bins=_BINS, norm=LogNorm(), cmap="viridis", zorder=1)[3]
    axes.figure.colorbar(image, ax=axes, shrink=0.8, label="states per bin")
    axes.set_title("states per position", fontsize=11)
