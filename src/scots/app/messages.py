"""What the page asks and what it is answered, as checked JSON. Points are (x, y) in the units of the data."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from scots.core.config import LARGEST_SEED

MOST_STITCHES = 200
MOST_CANDIDATES = 16

Coordinate = Annotated[float, Field(strict=True, ge=-1e9, le=1e9)]
Point = tuple[Coordinate, Coordinate]
Path = list[Point]
Draw = Annotated[int, Field(strict=True, ge=0, le=LARGEST_SEED)]


class Message(BaseModel):
    """Base of all: no field that is not known, no number that is not finite."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, frozen=True)


# ------------------------------------------------------------------------------------------------------------ requests


class DistanceRequest(Message):
    """How far is every place from the recorded state nearest to this point?"""

    start: Point


class StitchRequest(Message):
    """A trajectory from the recorded state nearest to `start`, chosen segment by segment."""

    start: Point
    direction: Point | None = None  # progress counts towards the state nearest to this point; None: a drawn direction
    draw: Draw = 0  # number of the drawn direction
    novelty_weight: Annotated[float, Field(strict=True, ge=0, le=1000)] = 2.0
    stitches: Annotated[int, Field(strict=True, ge=1, le=MOST_STITCHES)] = 40


class PlanRequest(Message):
    """The best of several plans from one point to another."""

    start: Point
    goal: Point
    candidates: Annotated[int, Field(strict=True, ge=1, le=MOST_CANDIDATES)] = 4
    draw: Draw = 0  # number of the draw: another one gives other candidates


# ------------------------------------------------------------------------------------------------------------- answers


class DistanceAnswer(Message):
    """Temporal distance, in environment steps, from a state to every occupied cell of the scene."""

    state: Point
    distances: list[float]  # in the order of the scene's cells


class Stitch(Message):
    """One step of the walk: the candidate segments, their scores, and the one that is taken."""

    paths: list[Path]  # of every candidate, nearest first
    gap: list[float]
    progress: list[float]
    novelty: list[float]
    score: list[float]
    best: int


class StitchAnswer(Message):
    """A stitched trajectory, not refined, with all that it was chosen from."""

    state: Point
    towards: Point | None  # the state that the direction leads to
    stitches: list[Stitch]


class CandidatePlan(Message):
    """A plan as it was drawn, and what the search minimises."""

    path: Path
    cost: float


class PlanAnswer(Message):
    """The cheapest plan and what it was compared with."""

    path: Path
    cost: float
    steps: float
    off_support: float
    candidates: list[CandidatePlan]


class TimedPlan(Message):
    """A plan that was made at a step of an episode."""

    step: int
    path: Path


class Rollout(Message):
    """An episode to scrub through: of a dataset, or run by a planner and its agent."""

    label: str
    path: Path
    goal: Point | None = None
    subgoals: Path = []
    plans: list[TimedPlan] = []


class Grid(Message):
    """The cells of the map in which states were recorded; cell (i, j) begins at low + (i, j) * edge."""

    low: Point
    edge: float
    cells: list[tuple[int, int]]


class Walls(Message):
    """The blocks of a maze: centers, and the side that all have."""

    centers: Path
    side: float


class StitchDefaults(Message):
    """The settings that the walk of this data has."""

    segment: int
    stitches: int
    novelty_weight: float
    standardised: bool  # progress and novelty are standardised over the candidates before they are added


class Scene(Message):
    """What is drawn before anything is asked, and which questions have an answer."""

    title: str
    facts: list[str]
    axes: tuple[str, str]
    low: Point
    high: Point
    states: Path  # recorded, a sample
    walls: Walls | None
    grid: Grid | None
    stitching: StitchDefaults | None
    rollouts: list[str]  # labels, in the order of their numbers
    missing: dict[str, str]  # distance, stitch, plan or watch -> the command that provides it
