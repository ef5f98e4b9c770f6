"""What a run or a dataset offers to the page: its states on a map, the walk, plans, and episodes to watch.

Nothing is trained here. What a run does not hold is missing from the page, with the command that makes it.
"""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, cast, get_args

import numpy as np
from scipy.spatial import KDTree

from scots.app import messages
from scots.app.explorer import Explorer, States
from scots.app.run_folder import RunFolder
from scots.augmenters import augmenter_of
from scots.augmenters.scots import Stitched, prepare_segments, stitched_by
from scots.augmenters.settings import ScotsConfig
from scots.augmenters.stitching import Segments, StitchingConfig
from scots.core.config import Profile
from scots.core.errors import BadInput
from scots.data.npz import read_npz
from scots.data.trajectories import Array, Meta, Trajectories
from scots.datasets import load
from scots.datasets.specs import spec_of
from scots.envs.maze import maze_of
from scots.experiments import planning
from scots.planners.base import PlannerModel
from scots.reporting.maps import spread_out
from scots.reporting.rollout_file import SavedRollout, load_rollouts

ROLLOUTS = "rollouts.json"
"""Name of the recorded episodes in a planner's folder."""

_STATES = 4000  # recorded states that are drawn, at most
_EPISODES = 24  # of a dataset that can be watched, at most
_MARGIN = 0.03  # around what is drawn, as a share of its longer side


@dataclass(frozen=True, eq=False)
class Session:
    """Everything that a page can ask about."""

    scene: messages.Scene
    states: States | None = None  # none without an embedding
    explorer: Explorer | None = None  # none without segments
    plans: Plans | None = None  # none without a planner
    rollouts: tuple[messages.Rollout, ...] = ()


class Plans:
    """Plans between points of the map. Only recorded places are planned between."""

    def __init__(self, planner: PlannerModel) -> None:
        self.planner, self.parts = planner, planning.search_parts(planner)
        self.centers = self.parts.support.centers()
        self._tree = KDTree(self.centers[:, :2])

    def states(self) -> States:
        """The recorded boxes with the latents of their centers, for a planner whose data is not here."""
        return States(self.centers[:, :2], self.parts.encoder.encode(self.centers), float(self.parts.support.edge))

    def plan(self, request: messages.PlanRequest) -> messages.PlanAnswer:
        """The cheapest of several plans, and the others as they were drawn."""
        start, goal = self._position(request.start), self._position(request.goal)
        options: dict[str, Any] = {"candidates": request.candidates, "seed": request.draw, "search": False}
        [best] = planning.plan(self.planner, start, goal, parts=self.parts, **options)
        drawn = zip(best.candidates, best.candidate_costs, strict=True)
        return messages.PlanAnswer(
            path=self._path(best.positions),
            cost=round(best.cost, 2),
            steps=round(best.steps, 1),
            off_support=round(best.off_support, 4),
            candidates=[messages.CandidatePlan(path=self._path(own.positions), cost=round(c, 2)) for own, c in drawn],
        )

    def _position(self, point: messages.Point) -> Array:
        """The point itself where states were recorded, else the middle of the nearest place where they were (P,)."""
        support, width = self.parts.support, self.centers.shape[1]
        if width == 2 and support.covers(np.array(point)):
            return np.array(point, dtype=np.float32)
        return self.centers[self._tree.query(point)[1]]

    def _path(self, positions: Array) -> messages.Path:
        """What is known of a plan, until it arrives."""
        known = positions[np.isfinite(positions).all(axis=1)]
        return np.round(planning.until_arrival(known, self.parts.support.step)[:, :2].astype(float), 4).tolist()


# ------------------------------------------------------------------------------------------------------------- opening


@dataclass(frozen=True)
class Options:
    """How a run or a dataset is opened."""

    profile: Profile = "laptop"
    seed: int = 0
    prepare: bool = False  # train the embedding of recorded data and index its segments, where the cache has none
    columns: dict[str, Any] = field(default_factory=dict)  # how own data is read: fields of `Choices`


def open_session(name: str, options: Options) -> Session:
    """What a run folder, a planner's folder, or a dataset by id, file or folder offers."""
    folder = Path(name)
    if RunFolder.is_at(folder):
        run = RunFolder.load(folder)
        os.environ["SCOTS_HOME"] = str(folder / run.home)
        data, planner = load(folder / run.data), planning.planner_of(folder / run.planner)
        return _Parts(name, data.meta, data, stitched_by(data.meta), planner, _saved(folder / run.rollouts)).session()
    if (folder / "config.json").is_file():
        planner = planning.planner_of(folder)
        recorded = _recorded_data(planner)
        stitched = stitched_by(planner.meta) if recorded is None else _stitched(recorded, options)
        return _Parts(name, planner.meta, recorded, stitched, planner, _saved(folder / ROLLOUTS)).session()
    data = load(name, **options.columns)
    return _Parts(name, data.meta, data, _stitched(data, options)).session()


def _recorded_data(planner: PlannerModel) -> Trajectories | None:
    """The data that a planner learned from, if it is a recorded dataset with an id that is here."""
    if planner.meta.augmentation is not None or planner.meta.dataset is None:
        return None
    try:
        data = load(planner.meta.dataset)
    except BadInput:  # it is not here any more
        return None
    return data if data.fingerprint() == planner.data_fingerprint else None


def _stitched(data: Trajectories, options: Options) -> Stitched | None:
    """How data was stitched or, if it is as recorded, would be; its inputs may have to be prepared first."""
    if data.meta.augmentation is not None:
        return stitched_by(data.meta)
    profiles = [options.profile, *(profile for profile in get_args(Profile) if profile != options.profile)]
    configs = [cast(ScotsConfig, augmenter_of("scots").configure(spec_of(data), profile)) for profile in profiles]
    if options.prepare:
        prepare_segments(data, configs[0], options.seed)
    found = (Stitched(config, options.seed, data.fingerprint()) for config in configs)
    return next((own for own in found if own.inputs()), None)


@dataclass(frozen=True, eq=False)
class _Parts:
    """What was found of a run or a dataset, and what follows from it."""

    name: str  # as the user gave it
    meta: Meta
    data: Trajectories | None
    stitched: Stitched | None
    planner: PlannerModel | None = None
    saved: tuple[messages.Rollout, ...] = ()  # recorded episodes of a planner

    def session(self) -> Session:
        """Put together what there is."""
        if (found := len(self.meta.position)) < 2:
            raise BadInput(
                f"{self.name}: the page draws two position columns, found {found}; name them: --position x,y"
            )
        return Session(self.scene(), self.states, self.explorer, self.plans, self.rollouts)

    @cached_property
    def explorer(self) -> Explorer | None:
        """The walk over the segments in the cache, if they are there."""
        if self.stitched is None or (folder := self.stitched.inputs()) is None:
            return None
        support = self.stitched.support()
        assert support is not None, "the data has position columns"
        segments, columns = Segments.load(folder), list(self.meta.position[:2])
        points = np.asarray(read_npz(folder / "recorded.npz")["observations"][:, columns])
        return Explorer(States(points, segments.latents, float(support.edge)), segments, self.stitched.config.stitching)

    @cached_property
    def plans(self) -> Plans | None:
        """Plans, if the planner's folder has what plans are compared by."""
        return Plans(self.planner) if self.planner and planning.has_search_parts(self.planner) else None

    @cached_property
    def states(self) -> States | None:
        """Recorded states with their latents."""
        return self.explorer.states if self.explorer else self.plans.states() if self.plans else None

    @cached_property
    def rollouts(self) -> tuple[messages.Rollout, ...]:
        """Episodes to watch: those of the planner, or else of the data."""
        return self.saved or (() if self.data is None else _episodes(self.data))

    def scene(self) -> messages.Scene:
        """What is drawn before anything is asked."""
        points, walls = self._points(), _walls(self.meta)
        corners = points if walls is None else np.concatenate([points, np.array(walls.centers)])
        low, high = corners.min(axis=0), corners.max(axis=0)
        margin = max(_MARGIN * float((high - low).max()), self.states.grid.edge if self.states else 0) or 1.0
        columns = self.meta.columns or tuple(f"column {n}" for n in range(max(self.meta.position) + 1))
        return messages.Scene(
            title=self.meta.dataset or Path(self.name).name,
            facts=self._facts(),
            axes=(columns[self.meta.position[0]], columns[self.meta.position[1]]),
            low=_point(low - margin),
            high=_point(high + margin),
            states=_path(points[np.unique(np.linspace(0, len(points) - 1, _STATES).astype(int))]),
            walls=walls,
            grid=self.states.grid if self.states else None,
            stitching=_defaults(self.explorer.config) if self.explorer else None,
            rollouts=[rollout.label for rollout in self.rollouts],
            missing=self._missing(),
        )

    def _points(self) -> Array:
        """Where states were recorded (N, 2)."""
        if self.states:
            return self.states.points
        if self.data is not None:
            return self.data.positions[:, :2]
        raise BadInput(
            f"{self.name}: nothing to draw: the planner has no support of its recorded data; run the same "
            "`scots train` again with --recorded DATA, which adds it"
        )

    def _facts(self) -> list[str]:
        """What is on the page, in a few words each."""
        facts = []
        if self.data is not None:
            kind = "stitched trajectories" if self.data.meta.augmentation else "recorded episodes"
            facts.append(f"{len(self.data):,} {kind}, {self.data.rows:,} states")
        if self.explorer:
            facts.append(f"{len(self.explorer.segments.starts):,} segments of {self.explorer.config.segment} states")
        if self.planner:
            facts.append(f"planner {self.planner.name}, profile {self.planner.profile or 'custom'}")
        return facts

    def _missing(self) -> dict[str, str]:
        """What cannot be asked, and the command after which it can."""
        is_recorded = self.planner is None and self.meta.augmentation is None
        prepare = shlex.join(["scots", "app", self.name if is_recorded else self.meta.dataset or "DATA", "--prepare"])
        found = {"distance": self.states, "stitch": self.explorer, "plan": self.plans, "watch": self.rollouts}
        commands = {"distance": prepare, "stitch": prepare, "plan": self._train_command()}
        commands["watch"] = shlex.join(
            ["scots", "evaluate", self.name, "--controller", "AGENT", "--rollouts", str(Path(self.name) / ROLLOUTS)]
        )
        return {part: command for part, command in commands.items() if not found[part]}

    def _train_command(self) -> str:
        """How a planner is made that can be asked for plans."""
        recorded = ["--recorded", self.meta.dataset or "DATA"] if self.meta.augmentation else []
        model, data, folder = (self.planner.name, "DATA", self.name) if self.planner else ("hd", self.name, "planner")
        train = ["scots", "train", model, "--data", data, *recorded, "--out", folder]
        return f"{shlex.join(train)} && {shlex.join(['scots', 'app', folder])}"


def _defaults(config: StitchingConfig) -> messages.StitchDefaults:
    return messages.StitchDefaults(
        segment=config.segment,
        stitches=min(config.stitches, messages.MOST_STITCHES),
        novelty_weight=config.novelty_weight,
        standardised=config.score_scale == "zscore",
    )


def _walls(meta: Meta) -> messages.Walls | None:
    """The blocks of a dataset's maze, if it has one."""
    maze = maze_of(meta)
    if maze is None:
        return None
    return messages.Walls(centers=maze.centre(np.argwhere(maze.walls)).astype(float).tolist(), side=maze.unit)


# ------------------------------------------------------------------------------------------------------------ episodes


def _episodes(data: Trajectories) -> tuple[messages.Rollout, ...]:
    """Episodes of a dataset to watch, evenly spread over it."""
    kind = "stitched trajectory" if data.meta.augmentation else "recorded episode"
    numbers = np.unique(np.linspace(0, len(data) - 1, _EPISODES).astype(int)).tolist()
    return tuple(
        messages.Rollout(label=f"{kind} {number}, {episode.rows:,} states", path=_path(episode.positions))
        for number, episode in zip(numbers, spread_out(data, _EPISODES).episodes(), strict=True)
    )


def _saved(path: Path) -> tuple[messages.Rollout, ...]:
    """The recorded episodes of a file, if it is there."""
    return tuple(_played(saved) for saved in load_rollouts(path)) if path.exists() else ()


def _played(saved: SavedRollout) -> messages.Rollout:
    """A recorded episode as the page plays it."""
    return messages.Rollout(
        label=saved.label,
        path=_path(np.array(saved.positions)),
        goal=None if saved.goal is None else _point(np.array(saved.goal)),
        subgoals=_path(np.array(saved.subgoals)) if saved.subgoals else [],
        plans=[messages.TimedPlan(step=own.step, path=_path(np.array(own.positions))) for own in saved.plans],
    )


def _path(positions: Array) -> messages.Path:
    return np.round(positions[:, :2].astype(float), 4).tolist()


def _point(position: Array) -> messages.Point:
    x, y = np.round(position[:2].astype(float), 4).tolist()
    return x, y
