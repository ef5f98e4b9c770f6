"""`make figures`: the moving picture of the README and the three pictures of the site, from the models of `make demo`.

Record, stitch, plan, walk: real episodes, one stitched trajectory, one plan, and one episode in the simulator. Nothing
is drawn by hand, and what `make demo` has trained is not trained again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from scots.core.console import console
from scots.core.files import atomic
from scots.data.trajectories import Array, Trajectories
from scots.demo import demo_pipelines
from scots.envs import tasks_of
from scots.envs.maze import Maze, maze_of
from scots.experiments.pipeline import Pipeline
from scots.reporting.maps import INK, draw_maze, spread_out
from scots.reporting.rollouts import Rollout, record

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text
    from PIL.Image import Image

_EPISODES = 40  # recorded episodes that are drawn: more would hide how short they are
_TRAJECTORIES = 200  # stitched ones, of which the one that visits most cells is drawn
_SIZE, _DPI = (8.0, 4.0), 100  # inches of a frame, pixels per inch
_STILL_DPI = 120
_FADED, _PLAN, _WALKED, _GOAL = "#c3cad1", "#2e6f95", "#e07a1f", "#d1495b"
_COLOURS = 128  # of the moving picture
_FRAMES = (16, 40, 14, 40)  # of each step
_FRAME, _PAUSE, _END = 80, 1200, 3500  # milliseconds for which a frame, the last one of a step, and the last one stay


@dataclass(frozen=True, eq=False)
class Story:
    """What the pictures show, as positions (., 2) in one maze."""

    maze: Maze
    recorded: Trajectories
    stitched: Trajectories
    chosen: int  # the stitched trajectory that is drawn
    rollout: Rollout

    @classmethod
    def of(cls, pipeline: Pipeline, seed: int = 0) -> Story:
        """The data of a finished pipeline, and the reached task whose goal is farthest from its start."""
        meta, stitched = pipeline.data.meta, pipeline.training_data
        maze = maze_of(meta)
        assert maze is not None
        rollouts = record(pipeline.subject.controller, meta, tasks_of(meta), max_steps=1000, seed=seed)
        reached = [rollout for rollout in rollouts if rollout.episode.success] or rollouts

        farthest = max(reached, key=lambda rollout: _cells_apart(maze, walked_positions(rollout)[0], goal_of(rollout)))
        return cls(maze, pipeline.data, stitched, _widest(maze, stitched), farthest)

    @property
    def segments(self) -> list[Array]:
        """The stitched trajectory in the parts that it was stitched from."""
        own = slice(*self.stitched.offsets[self.chosen : self.chosen + 2])
        assert self.stitched.source is not None
        joins = np.flatnonzero(np.diff(self.stitched.source[own]) != 1) + 1
        return np.split(self.stitched.positions[own], joins)


def _cells_apart(maze: Maze, start: Array, goal: Array) -> int:
    """Cells from one position (2,) to another on the shortest path."""
    first, last = maze.cell_of(np.stack([start, goal])).tolist()
    return int(maze.distances((last[0], last[1]))[first[0], first[1]])


def _widest(maze: Maze, data: Trajectories) -> int:
    """The trajectory among the first that visits most cells."""
    count = min(_TRAJECTORIES, len(data))
    own = (data.positions[data.offsets[n] : data.offsets[n + 1]] for n in range(count))
    return int(np.argmax([len(np.unique(maze.cell_of(path), axis=0)) for path in own]))


def walked_positions(rollout: Rollout) -> Array:
    """Where the agent went (T, 2)."""
    assert rollout.episode.observations is not None
    return rollout.episode.observations[:, :2]


def goal_of(rollout: Rollout) -> Array:
    """Where it was to go (2,)."""
    assert rollout.episode.goal is not None
    return rollout.episode.goal[:2]


# ------------------------------------------------------------------------------------------------------------- drawing


class MazeDrawing:
    """The maze, and one method for each of the four steps that draws it up to a share of its end."""

    def __init__(self, axes: Axes, story: Story) -> None:
        self._axes, self._story = axes, story
        self._drawn: list[Artist] = []
        axes.set_axis_off()
        axes.set_aspect("equal")
        draw_maze(axes, story.maze)
        for low, high, zoom in ((*axes.get_xlim(), axes.set_xlim), (*axes.get_ylim(), axes.set_ylim)):
            zoom(low + story.maze.unit / 2, high - story.maze.unit / 2)  # half of the outer walls is enough

    def clear(self) -> None:
        """Leave only the walls."""
        for artist in self._drawn:
            artist.remove()
        self._drawn = []

    def recorded(self, share: float, faded: bool = False) -> None:
        """Short episodes, each in its own colour; faded where they are the background of another step."""
        from matplotlib import colormaps

        some = spread_out(self._story.recorded, _EPISODES)
        for number in range(len(some)):
            path = some.positions[some.offsets[number] : some.offsets[number + 1]]
            colour = _FADED if faded else colormaps["turbo"](0.05 + 0.9 * (number * 37 % len(some)) / len(some))
            self._line(_until(path, share), color=colour, linewidth=0.6 if faded else 1.3)
            if not faded:
                self._line(path[:1], marker="o", color=colour, markersize=2.5)

    def stitched(self, share: float) -> None:
        """Segments in their order, from dark to bright, with a dot where one was joined to the next."""
        from matplotlib import colormaps

        self.recorded(1, faded=True)
        segments = self._story.segments
        for number, segment in enumerate(segments[: max(1, round(share * len(segments)))]):
            joined = segment if number == 0 else np.concatenate([segments[number - 1][-1:], segment])
            colour = colormaps["viridis"](0.95 * number / len(segments))
            self._line(joined, color=colour, linewidth=2.2, zorder=4)
            self._line(joined[:1], marker="o", color=colour, markersize=4.5, markeredgecolor="white", zorder=5)

    def planned(self, share: float, step: int = 0) -> None:
        """The plan that was followed at a step, with its start and its goal."""
        plan = self._story.rollout.plan_at(step)
        every = max(1, len(plan) // 60)
        self._line(_until(plan, share)[::every], marker="o", color=_PLAN, markersize=3, linewidth=1, zorder=4)
        start = walked_positions(self._story.rollout)[:1]
        self._line(start, marker="o", color="white", markersize=9, markeredgecolor=INK, zorder=6)
        goal = goal_of(self._story.rollout)[None]
        self._line(goal, marker="*", color=_GOAL, markersize=17, markeredgecolor=INK, zorder=6)

    def walked(self, share: float) -> None:
        """The path that the agent took, over the plan that it followed then."""
        path = walked_positions(self._story.rollout)
        steps = max(1, round(share * (len(path) - 1)))
        self.planned(1, steps - 1)
        self._line(path[: steps + 1], color=_WALKED, linewidth=3, zorder=7)
        self._line(path[steps : steps + 1], marker="o", color=_WALKED, markersize=10, markeredgecolor=INK, zorder=8)

    def _line(self, points: Array, **style: Any) -> None:
        self._drawn += self._axes.plot(*points.T, **{"solid_capstyle": "round", "zorder": 3, **style})


def _until(path: Array, share: float) -> Array:
    return path[: max(2, round(share * len(path)))]


Draw = Callable[[MazeDrawing, float], None]
"""Draws a step up to a share of its end."""

_STILLS: dict[str, Draw] = {
    "recorded": MazeDrawing.recorded,
    "stitched-trajectory": MazeDrawing.stitched,
    "walked": MazeDrawing.walked,
}
"""Pictures of the first page, by the name of the file."""


# ------------------------------------------------------------------------------------------------------------- pictures


def steps_of(story: Story) -> list[tuple[Draw, str, int]]:
    """Each step: how it is drawn, what is said of it, and the frames it takes."""
    recorded, stitched, episode = story.recorded, story.stitched, story.rollout.episode
    length, joined = recorded.lengths[0] - 1, stitched.lengths[story.chosen] - 1
    outcome = "reaches the goal" if episode.success else "does not reach the goal"
    captions = {
        MazeDrawing.recorded: f"{len(recorded):,} recorded episodes\nof {length} steps each ({_EPISODES} are drawn)",
        MazeDrawing.stitched: f"Stitched: {len(story.segments)} segments of them,\none trajectory of {joined:,} steps",
        MazeDrawing.planned: f"A diffusion planner, trained on\n{len(stitched):,} of those, draws a plan",
        MazeDrawing.walked: f"The agent follows it in MuJoCo\nand {outcome} in {episode.steps} steps",
    }
    return [(draw, said, count) for (draw, said), count in zip(captions.items(), _FRAMES, strict=True)]


def frames(story: Story) -> Iterator[tuple[Image, int]]:
    """Every frame of the moving picture, and for how many milliseconds it stays."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from PIL import Image

    figure = Figure(figsize=_SIZE, dpi=_DPI, facecolor="white")
    drawing = MazeDrawing(figure.add_axes((0, 0.01, _SIZE[1] / _SIZE[0], 0.98)), story)
    steps, canvas = steps_of(story), FigureCanvasAgg(figure)
    captions = _captions(figure, [said for _, said, _ in steps])
    for number, (draw, _, count) in enumerate(steps):
        for other, caption in enumerate(captions):
            caption.set_color(INK if other == number else _FADED)
        for frame in range(1, count + 1):
            drawing.clear()
            draw(drawing, frame / count)
            canvas.draw()
            stays = _FRAME if frame < count else _PAUSE if number < len(steps) - 1 else _END
            yield Image.fromarray(np.asarray(canvas.buffer_rgba())[..., :3]), stays


def _captions(figure: Figure, texts: list[str]) -> list[Text]:
    """One under the other, right of the maze."""
    left, line = _SIZE[1] / _SIZE[0] + 0.03, 0.84 / len(texts)
    places = [0.92 - line / 2 - line * number for number in range(len(texts))]
    return [
        figure.text(left, y, text, fontsize=14, va="center", linespacing=1.4)
        for y, text in zip(places, texts, strict=True)
    ]


def write_moving_picture(story: Story, path: Path) -> None:
    """Write the four steps one after the other as a GIF that repeats."""
    from PIL import Image

    drawn = list(frames(story))
    last_frames = np.concatenate([np.asarray(image) for image, stays in drawn if stays > _FRAME])
    palette = Image.fromarray(last_frames).quantize(_COLOURS)  # one for all frames: what stands still stays the same
    images = [image.quantize(palette=palette, dither=Image.Dither.NONE) for image, _ in drawn]
    with atomic(path) as temporary:
        images[0].save(
            temporary,
            format="GIF",
            save_all=True,
            append_images=images[1:],
            duration=[stays for _, stays in drawn],
            loop=0,
            optimize=False,
        )


def write_stills(story: Story, folder: Path) -> list[Path]:
    """Write the first, second and last step as a picture each."""
    from matplotlib.figure import Figure

    paths = []
    for name, draw in _STILLS.items():
        figure = Figure(figsize=(4, 4), facecolor="white")
        draw(MazeDrawing(figure.add_axes((0, 0, 1, 1)), story), 1)
        paths.append(folder / f"{name}.png")
        with atomic(paths[-1]) as temporary:
            figure.savefig(temporary, dpi=_STILL_DPI, format="png")
    return paths


def main(demo: Path, folder: Path) -> int:
    """Train what `make demo` has not trained yet, then write all pictures into the folder."""
    pipeline = demo_pipelines(demo)["stitched"]
    pipeline.complete()
    story = Story.of(pipeline)
    write_moving_picture(story, folder / "scots.gif")
    for path in (folder / "scots.gif", *write_stills(story, folder)):
        console.print(f"{path}: {path.stat().st_size / 1000:,.0f} kB", soft_wrap=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
