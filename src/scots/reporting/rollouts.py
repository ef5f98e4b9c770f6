"""Episodes to look at: the path taken, the plans and the subgoals, as a figure from above and as a video."""

from __future__ import annotations

import math
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from scots.core.console import console, progress
from scots.core.errors import BadInput
from scots.core.files import atomic
from scots.data.trajectories import Array, Meta
from scots.envs import environment_class
from scots.envs.base import OUT_OF_TIME, Task
from scots.envs.maze import maze_of
from scots.envs.ogbench import OGBenchMaze, make_simulator
from scots.evaluation.control import Controller, SubgoalController
from scots.evaluation.rollout import Encode, Episode, run_episodes
from scots.reporting.maps import INK, draw_maze

if TYPE_CHECKING:
    from matplotlib.animation import AbstractMovieWriter
    from matplotlib.axes import Axes
    from matplotlib.collections import LineCollection
    from matplotlib.figure import Figure

FRAMES = 60  # of a video, at most: longer episodes skip steps
_COLUMNS = 3  # panels in a row
_PLAN, _SUBGOAL, _GOAL, _SEEN = "#2e6f95", "#f2c14e", "#d1495b", "#2a9d8f"
_TIME = "plasma"  # colours of the path taken, from the first step to the last
_DOTS = 40  # drawn on a plan, at most: some plans have a waypoint for every step
_FRAMES_PER_SECOND = 12
_HOLD = 12  # frames for which the end stands still
_PIXELS = 240  # sides of the camera's image
_OPACITY = 0.6  # of the camera's image, so that what is drawn over it stands out
_VIDEO_DPI = 80


# ------------------------------------------------------------------------------------------------------------ recording


@dataclass(frozen=True, eq=False)
class Rollout:
    """A recorded episode and what it was heading for."""

    episode: Episode
    plans: dict[int, Array] = field(default_factory=dict)  # step a plan was made at -> its positions (T, P)
    subgoals: list[Array] = field(default_factory=list)  # at each step (P,); none without a planner

    @property
    def label(self) -> str:
        """The task and how it ended: "task 1: reached in 120 steps", "task 2: collision, 31 steps"."""
        episode = self.episode
        task = f"task {episode.task.number}" if episode.task.number else "own task"
        if episode.failure not in (None, OUT_OF_TIME):
            return f"{task}: {episode.failure}, {episode.steps:,} steps"
        return f"{task}: {'reached' if episode.success else 'not reached'} in {episode.steps:,} steps"

    def plan_at(self, step: int) -> Array:
        """The plan that was followed at a step (T, P); empty without a planner."""
        made = max((at for at in self.plans if at <= step), default=None)
        return np.empty((0, 2)) if made is None else self.plans[made]


class _Recorder:
    """A controller that wraps another and records its plans and subgoals, in the order episodes are begun."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self.plans: list[dict[int, Array]] = []
        self.subgoals: list[list[Array]] = []

    def begin(self, seeds: Sequence[int]) -> None:
        """Start new episodes; the records of earlier ones stay."""
        self._controller.begin(seeds)
        self._first = len(self.plans)
        self.plans += [{} for _ in seeds]
        self.subgoals += [[] for _ in seeds]

    def act(self, episodes: Array, observations: Array, goals: Array | None) -> Array:
        """The actions of the wrapped controller."""
        actions = self._controller.act(episodes, observations, goals)
        if isinstance(self._controller, SubgoalController):
            self._record(self._controller, episodes)
        return actions

    def _record(self, controller: SubgoalController, episodes: Array) -> None:
        for episode, subgoal in zip(episodes.tolist(), controller.subgoals(episodes), strict=True):
            plans, subgoals = self.plans[self._first + episode], self.subgoals[self._first + episode]
            if controller.plan_count(episode) > len(plans):
                plan = controller.plan_of(episode)
                controller.planner.fill_in([plan], [0], [len(plan.positions)])  # draws no other plan than walking it
                plans[len(subgoals)] = plan.positions.copy()
            subgoals.append(subgoal)


def record(
    controller: Controller,
    meta: Meta,
    tasks: Sequence[Task],
    *,
    max_steps: int,
    seed: int = 0,
    encode: Encode | None = None,
) -> list[Rollout]:
    """One episode of each task: the first of those that an evaluation with this seed runs."""
    recorder = _Recorder(controller)
    options: dict[str, Any] = {"max_steps": max_steps, "seed": seed, "encode": encode}
    episodes = run_episodes(recorder, meta, tasks, episodes=1, workers=1, record=True, **options)
    return [Rollout(*parts) for parts in zip(episodes, recorder.plans, recorder.subgoals, strict=True)]


# --------------------------------------------------------------------------------------------------------------- figure


def rollouts_figure(rollouts: Sequence[Rollout], meta: Meta) -> Figure:
    """A panel per task: the first plan, all subgoals, and the path taken, coloured by time."""
    figure, panels = _panels(rollouts, meta)
    for axes, rollout in zip(panels, rollouts, strict=True):
        draw_maze(axes, maze_of(meta))
        artists = _Artists(axes, rollout, meta, _longest(rollouts), dot=3.4)
        artists.show_plan(rollout.plan_at(0))
        artists.show_subgoals(np.array(rollout.subgoals))
        artists.show_path(rollout.episode.steps)
    _legend(figure, panels, artists)
    return figure


class _Artists:
    """What is drawn of one rollout, on top of the maze or of the camera's image."""

    def __init__(self, axes: Axes, rollout: Rollout, meta: Meta, longest: int, dot: float) -> None:
        assert rollout.episode.observations is not None
        assert rollout.episode.goal is not None
        self._environment, self._observations = environment_class(meta), rollout.episode.observations
        self._positions = self._environment.positions(meta, self._observations)
        [goal] = self._environment.positions(meta, rollout.episode.goal[None])
        planned = bool(rollout.plans)
        self._plan = axes.plot([], [], "-o", color=_PLAN, markersize=3.2, linewidth=0.9, zorder=3)[0]
        self._plan.set_label("plan" if planned else "")
        self._subgoals = axes.plot([], [], "o", color=_SUBGOAL, markeredgecolor=INK, markeredgewidth=0.4, zorder=5)[0]
        self._subgoals.set(label="subgoal" if planned else "", markersize=dot)
        self.path = _path(axes, longest)
        senses = len(self._environment.points_seen(self._observations[0])) > 0
        self._seen = axes.plot([], [], ".", color=_SEEN, markersize=2, zorder=2)[0]
        self._seen.set_label("seen" if senses else "")
        for position, shape, colour, size, label in (
            (self._positions[0], "o", "none", 8, "start"),
            (goal, "*", _GOAL, 14, "goal"),
        ):
            [mark] = axes.plot(*position, shape, markersize=size, markeredgecolor=INK, zorder=6, label=label)
            mark.set_markerfacecolor(colour)
        axes.update_datalim(self._positions)  # all of it shows, also where there are no walls to set the limits
        axes.autoscale_view()

    def show_plan(self, waypoints: Array) -> None:
        """Draw waypoints (W, P) as dots joined by a line."""
        self._plan.set_data(*waypoints.T)
        self._plan.set_markevery(max(1, math.ceil(len(waypoints) / _DOTS)))

    def show_subgoals(self, subgoals: Array) -> None:
        """Draw subgoals (B, P) as rings."""
        self._subgoals.set_data(*subgoals.reshape(-1, 2).T)

    def show_path(self, step: int) -> None:
        """Draw the path taken up to a step, and what sensors see there."""
        positions = self._positions[: step + 1]
        self.path.set_segments(list(np.stack([positions[:-1], positions[1:]], axis=1)))
        self.path.set_array(np.arange(len(positions) - 1))
        self._seen.set_data(*self._environment.points_seen(self._observations[step]).T)


def _path(axes: Axes, longest: int) -> LineCollection:
    from matplotlib.collections import LineCollection
    from matplotlib.colors import Normalize

    path = LineCollection([], cmap=_TIME, norm=Normalize(0, longest), linewidths=2.8, capstyle="round", zorder=4)
    axes.add_collection(path, autolim=False)
    return path


def _longest(rollouts: Sequence[Rollout]) -> int:
    return max(rollout.episode.steps for rollout in rollouts)


def _panels(rollouts: Sequence[Rollout], meta: Meta) -> tuple[Figure, list[Axes]]:
    """A figure with a titled panel of the maze's shape for each rollout."""
    from matplotlib.figure import Figure  # the object interface: no display, no global state

    columns = min(_COLUMNS, len(rollouts))
    rows = math.ceil(len(rollouts) / columns)
    maze = maze_of(meta)
    height, width = maze.walls.shape if maze else (1, 1)
    figure = Figure(figsize=(3.4 * columns + 1, (3.4 * height / width + 0.3) * rows + 0.6), layout="compressed")
    panels = list(np.ravel(figure.subplots(rows, columns, squeeze=False)))
    for axes, rollout in zip(panels, rollouts, strict=False):
        axes.set_title(rollout.label, fontsize=10)
        axes.set_xticks([])
        axes.set_yticks([])
        axes.set_aspect("equal")
    for axes in panels[len(rollouts) :]:
        axes.set_axis_off()
    figure.suptitle(meta.dataset or "", fontsize=12)
    return figure, panels[: len(rollouts)]


def _legend(figure: Figure, panels: list[Axes], artists: _Artists) -> None:
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False, fontsize=9)
    figure.colorbar(artists.path, ax=panels, shrink=0.6, label="environment step")


# ---------------------------------------------------------------------------------------------------------------- video


def write_video(rollouts: Sequence[Rollout], meta: Meta, path: Path) -> None:
    """Write a GIF or MP4, by the suffix: all rollouts side by side, as the environment's camera sees them from above.

    Plans, subgoals and the path taken are drawn over its images, or over the walls where there is no camera.
    """
    writer = video_writer(path)
    figure, panels = _panels(rollouts, meta)
    camera = camera_of(meta)
    scenes = [
        _Scene(axes, rollout, meta, _longest(rollouts), camera) for axes, rollout in zip(panels, rollouts, strict=True)
    ]
    _legend(figure, panels, scenes[0].artists)
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # it is laid out now: doing so in every frame would take longer than drawing
    steps = np.unique(np.linspace(0, _longest(rollouts), FRAMES).astype(int))
    steps = np.append(steps, np.full(_HOLD, steps[-1]))
    with atomic(path) as temporary, TemporaryDirectory() as folder, progress("rendering", len(steps), "frames") as bar:
        draft = Path(folder) / path.name  # writers go by the suffix, which the temporary name lacks
        with writer.saving(figure, str(draft), _VIDEO_DPI):
            for step in steps:
                for scene in scenes:
                    scene.show(int(step))
                writer.grab_frame()
                bar.advance()
        shutil.copyfile(draft, temporary)


def video_writer(path: Path) -> AbstractMovieWriter:
    """The writer for a video of this name; bad input if there is none here."""
    from matplotlib.animation import FFMpegWriter, PillowWriter

    if path.suffix.lower() == ".gif":
        return PillowWriter(fps=_FRAMES_PER_SECOND)
    if path.suffix.lower() != ".mp4":
        raise BadInput(f"{path}: a video is a .gif or an .mp4 file")
    if not FFMpegWriter.isAvailable():
        raise BadInput(f"{path}: MP4 needs ffmpeg, which is not on PATH; install it, or write a .gif")
    return FFMpegWriter(fps=_FRAMES_PER_SECOND)


class _Scene:
    """One panel of a video."""

    def __init__(self, axes: Axes, rollout: Rollout, meta: Meta, longest: int, camera: _Camera | None) -> None:
        self._rollout, self._camera, self._columns = rollout, camera, list(meta.position[:2])
        self._shown = 0
        if camera:
            self._view = axes.imshow(self._image(0), extent=camera.extent, alpha=_OPACITY, zorder=1)
        draw_maze(axes, maze_of(meta))
        self.artists = _Artists(axes, rollout, meta, longest, dot=6)

    def show(self, step: int) -> None:
        """Draw the state after this many steps; when the episode is over it stays as it was."""
        step = min(step, self._rollout.episode.steps)
        if self._camera and step != self._shown:
            self._view.set_data(self._image(step))
        self.artists.show_plan(self._rollout.plan_at(step))
        self.artists.show_subgoals(np.array(self._rollout.subgoals[:step][-1:]))
        self.artists.show_path(step)
        self._shown = step

    def _image(self, step: int) -> Array:
        episode = self._rollout.episode
        assert self._camera is not None
        assert episode.observations is not None
        assert episode.goal is not None
        return self._camera.frame(episode.observations[step], episode.goal[self._columns])


class _Camera:
    """The environment's own view of a maze, straight from above."""

    def __init__(self, meta: Meta) -> None:
        self._environment: Any = make_simulator(meta, render_mode="rgb_array", width=_PIXELS, height=_PIXELS)
        self._environment.model.light_castshadow[:] = 0  # without a GPU, shadows take most of the time
        self._environment.reset()
        self._environment.render()  # fails here if nothing can render

    @property
    def extent(self) -> tuple[float, float, float, float]:
        """Left, right, lower and upper edge of the floor in the image."""
        camera = self._environment.custom_camera
        half = camera.distance * math.tan(math.radians(self._environment.model.vis.global_.fovy) / 2)
        x, y = camera.lookat[:2]
        return x - half, x + half, y - half, y + half

    def frame(self, state: Array, goal: Array) -> Array:
        """The image of a state (O,) and a goal (2,): (height, width, 3)."""
        positions, velocities = self._environment.model.nq, self._environment.model.nv
        velocity = state[positions:] if len(state) > positions else np.zeros(velocities)
        self._environment.set_goal(goal_xy=goal)
        self._environment.set_state(state[:positions], velocity)
        return self._environment.render()


def camera_of(meta: Meta) -> _Camera | None:
    """The camera of a dataset's environment; None if it has none or, as is then said, nothing can render here."""
    if not issubclass(environment_class(meta), OGBenchMaze):
        return None
    try:
        return _Camera(meta)
    except Exception as error:  # each graphics library has exceptions of its own, and walls will do
        console.print(f"no camera, drawing walls instead ({error})", markup=False, highlight=False, soft_wrap=True)
        return None
