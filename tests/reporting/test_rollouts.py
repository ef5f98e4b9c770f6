"""What is recorded of episodes, and what figures and videos of them show, with a camera and without."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.figure import Figure
from PIL import Image

from scots.core.errors import BadInput
from scots.data.trajectories import Array, Meta
from scots.datasets import toy
from scots.datasets.specs import SPECS
from scots.envs import tasks_of
from scots.envs.base import Task
from scots.envs.navigation import COLUMNS, POSE, WORLDS
from scots.evaluation import rollout as evaluation
from scots.evaluation.control import GoalController, PlanFollowing, PointPolicy, SubgoalController
from scots.evaluation.rollout import Episode, run_episodes
from scots.planners.base import CoarseToFine, Plan, Planner
from scots.reporting.maps import save_figure
from scots.reporting.rollout_file import load_rollouts, save_rollouts
from scots.reporting.rollouts import FRAMES, Rollout, camera_of, record, rollouts_figure, write_video

TOY = toy.make(episodes=1).meta
POINT = SPECS["pointmaze-medium-stitch-v0"].collection.meta()


class Near:
    """A bridge of evenly spaced positions on the straight line, some way off it between the ends."""

    def __init__(self, tokens: int, spacing: int, noise: float = 0.0) -> None:
        self.tokens, self.spacing, self._noise = tokens, spacing, noise

    def draw(self, ends: Array, rng: Sequence[np.random.Generator], delays: Array | None = None) -> Array:
        share = np.linspace(0, 1, self.tokens, dtype=np.float32)[None, :, None]
        drawn = ends[:, :1] * (1 - share) + ends[:, 1:] * share
        drawn[:, 1:-1] += np.stack([own.normal(0, self._noise, size=(self.tokens - 2, 2)) for own in rng])
        drawn[:, [0, -1]] = ends
        return drawn.astype(np.float32)


class Whole:
    """A planner that is no bridge: it draws plans at once, and there is nothing to fill in."""

    def plan(self, start: Array, goal: Array, seeds: Sequence[int]) -> list[Plan]:
        bridge, rng = Near(31, 1, 0.1), [np.random.default_rng(seed) for seed in seeds]
        drawn = bridge.draw(np.stack([start, goal], axis=1), rng)
        return [Plan(positions, seed) for positions, seed in zip(drawn, seeds, strict=True)]

    def fill_in(self, plans: Sequence[Plan], first: Sequence[int], last: Sequence[int]) -> None:
        pass


PLANNERS = {
    "coarse to fine": CoarseToFine([Near(4, 10, 0.2), Near(3, 5, 0.1), Near(6, 1, 0.05)]),
    "at once": Whole(),
}


def controller(planner: Planner = PLANNERS["coarse to fine"]) -> SubgoalController:
    return SubgoalController(planner, PointPolicy(), PlanFollowing(replan_every=10, lookahead=2), (0, 1))


def content(rollouts: list[Rollout]) -> list[tuple]:
    return [
        (
            rollout.episode.observations.tobytes(),
            {step: plan.tobytes() for step, plan in rollout.plans.items()},
            np.array(rollout.subgoals).tobytes(),
        )
        for rollout in rollouts
    ]


@pytest.mark.parametrize("planner", PLANNERS)
def test_records_tell_what_was_followed_and_change_nothing(planner: str, monkeypatch: pytest.MonkeyPatch):
    """Plans are recorded from end to end, also where an episode never walked them."""
    tasks = tasks_of(TOY)
    rollouts = record(controller(PLANNERS[planner]), TOY, tasks, max_steps=35, seed=3)
    plain = run_episodes(
        controller(PLANNERS[planner]), TOY, tasks, episodes=1, max_steps=35, seed=3, workers=1, record=True
    )
    for rollout, episode in zip(rollouts, plain, strict=True):
        assert np.array_equal(rollout.episode.observations, episode.observations)
        assert list(rollout.plans) == list(range(0, episode.steps, 10))
        assert len(rollout.subgoals) == episode.steps
        for step, plan in rollout.plans.items():
            assert plan.shape == (31, 2)
            assert np.isfinite(plan).all()
            np.testing.assert_allclose(plan[[0, -1]], [episode.observations[step], episode.goal], rtol=1e-6)
        for step, subgoal in enumerate(rollout.subgoals):  # each is a position of the plan of its step, to the bit
            assert (rollout.plan_at(step) == subgoal).all(axis=1).any()
        assert rollout.plan_at(9) is rollout.plans[0]
    assert any(rollout.plan_at(10) is rollout.plans[10] for rollout in rollouts if rollout.episode.steps > 10)
    monkeypatch.setattr(evaluation, "_EPISODES_TOGETHER", 2)
    assert content(record(controller(PLANNERS[planner]), TOY, tasks, max_steps=35, seed=3)) == content(rollouts)


def test_without_a_planner_there_is_the_path_alone():
    rollouts = record(GoalController(PointPolicy()), TOY, tasks_of(TOY)[:2], max_steps=5)
    assert [(rollout.plans, rollout.subgoals, len(rollout.plan_at(3))) for rollout in rollouts] == [({}, [], 0)] * 2
    figure = rollouts_figure(rollouts, TOY)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["start", "goal"]
    for axes, rollout in zip(panels(figure), rollouts, strict=True):
        np.testing.assert_array_equal(path_of(axes), rollout.episode.observations)


def test_a_robot_is_drawn_where_it_is_whatever_its_policy_sees():
    """States of two columns are made of observations and goals; the path is that of the robot, over the floor plan."""
    meta, seen = Meta("navigation-corridor-latent-v0", "navigation-corridor-v0"), []

    class Turn:
        def act(self, observations: Array, goals: Array, rng: np.random.Generator) -> Array:
            seen.append((observations, goals))
            return np.tile([0.0, 1.0], (len(observations), 1))

    def encode(observations: Array) -> Array:
        return observations[:, :2] + 1

    rollouts = record(GoalController(Turn()), meta, tasks_of(meta)[:2], max_steps=4, encode=encode)
    figure = rollouts_figure(rollouts, meta)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["seen", "start", "goal"]
    assert [(states.shape, goals.shape) for states, goals in seen] == [((2, 2), (2, 2))] * 4
    for number, (axes, rollout) in enumerate(zip(panels(figure), rollouts, strict=True)):
        path = rollout.episode.observations
        np.testing.assert_array_equal(seen[0][0][number], path[0, :2] + 1)
        np.testing.assert_array_equal(seen[-1][1][number], rollout.episode.goal[:2] + 1)
        np.testing.assert_array_equal(path_of(axes), path[:, POSE][:, :2])
        assert any(isinstance(part, PolyCollection) for part in axes.collections)  # the walls
        seen_points = max((line.get_xydata() for line in axes.lines), key=len)  # with noise of 5 cm
        assert WORLDS["navigation-corridor-v0"].maze.clearance(seen_points).max() < 0.3


def test_what_is_saved_of_a_robot_is_its_path_on_the_map(tmp_path: Path):
    """Its states are latents and odometry; the columns of their position are rays of what the environment gives."""
    meta = SPECS["navigation-corridor-pose-v0"].collection.meta()
    observations = np.arange(4 * len(COLUMNS), dtype=np.float32).reshape(4, -1)
    rollout = Rollout(Episode(Task(2), 0, False, 2, np.zeros(2), observations[3], observations[:3], "collision"))
    save_rollouts([rollout], meta, tmp_path / "rollouts.json")
    [saved] = load_rollouts(tmp_path / "rollouts.json")
    np.testing.assert_array_equal([*saved.positions, saved.goal], observations[:, POSE][:, :2])
    assert saved.label == "task 2: collision, 2 steps"


def panels(figure: Figure) -> list[Axes]:
    return [axes for axes in figure.axes if axes.get_title()]


def path_of(axes: Axes) -> Array:
    """The path drawn in a panel (T, 2), put together from its segments."""
    [path] = [part for part in axes.collections if isinstance(part, LineCollection)]
    segments = np.array(path.get_segments())
    assert np.array_equal(segments[:-1, 1], segments[1:, 0])
    return np.concatenate([segments[:1, 0], segments[:, 1]])


def test_the_figure_shows_plan_subgoals_and_path():
    rollouts = record(controller(), TOY, tasks_of(TOY)[:4], max_steps=35, seed=3)
    figure = rollouts_figure(rollouts, TOY)
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["plan", "subgoal", "start", "goal"]
    for axes, rollout in zip(panels(figure), rollouts, strict=True):
        episode = rollout.episode
        drawn = {line.get_label(): line.get_xydata() for line in axes.lines}
        np.testing.assert_array_equal(drawn["plan"], rollout.plans[0])
        np.testing.assert_array_equal(drawn["subgoal"], rollout.subgoals)
        np.testing.assert_array_equal(drawn["start"], episode.observations[:1])
        np.testing.assert_array_equal(drawn["goal"], [episode.goal])
        np.testing.assert_array_equal(path_of(axes), episode.observations)
        outcome = "reached" if episode.success else "not reached"
        assert axes.get_title() == f"task {episode.task.number}: {outcome} in {episode.steps} steps"
        low, high = np.array([axes.get_xlim(), axes.get_ylim()]).T
        assert (low <= episode.observations).all()
        assert (episode.observations <= high).all()


@pytest.mark.mujoco
def test_the_figure_has_a_panel_per_task(tmp_path: Path):
    tasks = (*tasks_of(POINT)[:3], Task(0, (1, 1), (1, 2)))
    rollouts = record(controller(), POINT, tasks, max_steps=40)
    assert [rollout.episode.success for rollout in rollouts] == [False, False, False, True]
    sizes = []
    for count in (1, 3, 4):
        figure = rollouts_figure(rollouts[-count:], POINT)
        assert len(panels(figure)) == count
        assert panels(figure)[-1].get_title().startswith("own task: reached in ")
        sizes.append(tuple(figure.get_size_inches()))
        save_figure(figure, tmp_path / "rollouts.png")
        assert Image.open(tmp_path / "rollouts.png").width > 300
    assert sizes[0][0] < sizes[1][0] == sizes[2][0]
    assert sizes[0][1] == sizes[1][1] < sizes[2][1]


# ---------------------------------------------------------------------------------------------------------------- video


@pytest.mark.slow
def test_a_video_without_a_camera(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    rollouts = record(controller(), TOY, tasks_of(TOY)[:2], max_steps=12)
    write_video(rollouts, TOY, tmp_path / "video.gif")
    assert "no camera" not in capsys.readouterr().err  # it never has one
    with Image.open(tmp_path / "video.gif") as found:
        assert (found.format, found.info["loop"]) == ("GIF", 0)
        assert 1 < found.n_frames <= FRAMES
    assert [path.name for path in tmp_path.iterdir()] == ["video.gif"]


@pytest.mark.slow
@pytest.mark.mujoco
def test_a_video_by_the_camera(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    if camera_of(POINT) is None:
        pytest.skip("nothing can render here (on Debian: apt install libegl1)")
    write_video(record(controller(), POINT, tasks_of(POINT)[:1], max_steps=8), POINT, tmp_path / "video.gif")
    assert "no camera" not in capsys.readouterr().err
    with Image.open(tmp_path / "video.gif") as found:
        first = np.asarray(found.convert("RGB"), dtype=int)
        found.seek(found.n_frames - 1)
        last = np.asarray(found.convert("RGB"), dtype=int)
    changed = np.abs(first - last).max(axis=2) > 60
    assert 0 < changed.mean() < 0.1  # the agent and its path, not the maze around it


@pytest.mark.mujoco
@pytest.mark.parametrize("name", ["pointmaze-medium-stitch-v0", "antmaze-giant-stitch-v0"])
def test_the_camera_sees_the_agent_where_it_is(name: str):
    """Two frames differ only around the two positions, by the camera's own measure of the floor."""
    meta = SPECS[name].collection.meta()
    camera = camera_of(meta)
    if camera is None:
        pytest.skip("nothing can render here (on Debian: apt install libegl1)")
    positions = np.array([(0.0, 0.0), (8.0, 16.0)])  # free in both mazes
    states = np.zeros((2, len(meta.columns)))
    if meta.quaternions:
        states[:, [2, 3]] = 0.75, 1.0  # above the floor, upright
    states[:, :2] = positions
    before, after = (camera.frame(state, np.array([20.0, 0.0])).astype(int) for state in states)
    rows, columns = np.nonzero(np.abs(before - after).max(axis=2) > 60)
    left, right, lower, upper = camera.extent
    seen = np.stack(
        [
            left + (columns + 0.5) / before.shape[1] * (right - left),
            upper - (rows + 0.5) / before.shape[0] * (upper - lower),
        ],
        axis=1,
    )
    gaps = np.linalg.norm(seen[:, None] - positions, axis=2)
    assert (gaps.min(axis=0) < 0.7).all()
    assert (gaps.min(axis=1) < 2.5).mean() > 0.9  # it carries a lamp, which lights some of the floor around it


@pytest.mark.mujoco
def test_no_graphics_is_no_failure():
    code = (
        "from scots.reporting.rollouts import camera_of; from scots.datasets.specs import SPECS;"
        "print(camera_of(SPECS['pointmaze-medium-stitch-v0'].collection.meta()))"
    )
    environment = {**os.environ, "MUJOCO_GL": "disable"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, "None"), done.stderr
    assert "no camera" in done.stderr


def test_videos_that_cannot_be_written_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    rollouts = record(controller(), TOY, tasks_of(TOY)[:1], max_steps=2)
    with pytest.raises(BadInput, match=r"video\.avi: a video is a \.gif or an \.mp4 file"):
        write_video(rollouts, TOY, tmp_path / "video.avi")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BadInput, match=r"MP4 needs ffmpeg.*install it, or write a \.gif"):
        write_video(rollouts, TOY, tmp_path / "video.mp4")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="no ffmpeg on PATH (on Debian: apt install ffmpeg)")
def test_mp4(tmp_path: Path):
    write_video(record(controller(), TOY, tasks_of(TOY)[:1], max_steps=4), TOY, tmp_path / "video.mp4")
    assert (tmp_path / "video.mp4").read_bytes()[4:8] == b"ftyp"
