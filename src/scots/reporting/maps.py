"""Pictures: trajectories seen from above."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from scots.core.files import atomic
from scots.data.trajectories import Trajectories
from scots.envs.maze import Maze, maze_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK, WALL, FLOOR = "#1f2933", "#c9d1d9", "#ffffff"
DRAWN_EPISODES = 300


def picture(data: Trajectories, columns: tuple[int, ...], path: Path) -> None:
    """Write a PNG: every position visited on the left, single episodes in colour on the right."""
    from matplotlib.figure import Figure  # the object interface: no display, no global state

    maze = maze_of(data.meta)
    figure = Figure(figsize=(13, 5.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    draw_coverage(left, data, columns)
    draw_episodes(right, data, columns)
    for axes in (left, right):
        draw_maze(axes, maze)
        label_axes(axes, data, columns)
    figure.suptitle(f"{data.meta.dataset or path.stem}: {len(data):,} episodes, {data.rows:,} states", fontsize=13)
    with atomic(path) as temporary:
        figure.savefig(temporary, dpi=120, format=path.suffix.lstrip(".") or "png")


def draw_coverage(axes: Axes, data: Trajectories, columns: tuple[int, ...]) -> None:
    """All positions as a density on a logarithmic colour scale."""
    from matplotlib.colors import LogNorm

    places = data.observations[:, list(columns)]
    y = places[:, 1] if len(columns) > 1 else np.concatenate([np.arange(n) for n in data.lengths])
    image = axes.hist2d(places[:, 0], y, bins=160, norm=LogNorm(), cmap="viridis", zorder=1)[3]
    axes.figure.colorbar(image, ax=axes, shrink=0.8, label="states per bin")
    axes.set_title("where the data is", fontsize=11)


def draw_episodes(axes: Axes, data: Trajectories, columns: tuple[int, ...]) -> None:
    """Some episodes as lines, evenly spread over the dataset, with a dot where each starts."""
    from matplotlib import colormaps

    chosen = np.unique(np.linspace(0, len(data) - 1, DRAWN_EPISODES).astype(int))
    for number, episode in enumerate(chosen):
        places = data.observations[data.offsets[episode] : data.offsets[episode + 1], list(columns)]
        x, y = (places[:, 0], places[:, 1]) if len(columns) > 1 else (places[:, 0], np.arange(len(places)))
        colour = colormaps["hsv"](number / len(chosen))
        axes.plot(x, y, color=colour, linewidth=0.8, alpha=0.8, zorder=2)
        axes.plot(x[:1], y[:1], "o", color=colour, markersize=2.5, zorder=3)
    axes.set_title(f"{len(chosen)} episodes, dots where they start", fontsize=11)


def draw_maze(axes: Axes, maze: Maze | None) -> None:
    """The walls of a maze as blocks, if there is one."""
    from matplotlib.collections import PolyCollection

    if maze is None:
        return
    half = maze.unit / 2
    corners = half * np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)])
    blocks = maze.centre(np.argwhere(maze.walls))[:, None] + corners  # (walls, 4, 2): one artist draws them all
    axes.add_collection(PolyCollection(list(blocks), facecolors=WALL, edgecolors=WALL, zorder=0), autolim=False)
    high_y, high_x = (np.array(maze.walls.shape) - 0.5) * maze.unit - maze.origin
    axes.set_xlim(-maze.origin - half, high_x)
    axes.set_ylim(-maze.origin - half, high_y)


def label_axes(axes: Axes, data: Trajectories, columns: tuple[int, ...]) -> None:
    """Column names, equal scales, a quiet frame."""
    names = data.meta.columns or tuple(f"column {n}" for n in range(data.observations.shape[1]))
    axes.set_xlabel(names[columns[0]], color=INK)
    axes.set_ylabel(names[columns[1]] if len(columns) > 1 else "step", color=INK)
    axes.set_facecolor(FLOOR)
    if len(columns) > 1:
        axes.set_aspect("equal")
