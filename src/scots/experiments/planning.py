"""Plans without an environment: the best of several, from what a planner's folder holds, and what it says of itself."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from scots.core.config import Seeds
from scots.core.console import console, progress
from scots.core.errors import BadInput
from scots.core.files import atomic, check_input, check_output
from scots.data import formats, geography
from scots.data.inspection import even_step
from scots.data.support import Support
from scots.data.trajectories import Array, Meta, Trajectories, offsets_from_lengths
from scots.experiments.models import SearchParts, load_model
from scots.models.training import Model
from scots.planners.base import Plan, Planner, PlannerModel
from scots.planners.search import NEAR_STEPS, PlanRating, SearchConfig

CANDIDATES = 8
"""Plans that are drawn for every pair of start and goal, unless told otherwise."""

_MOST_CANDIDATES = 1000  # more would take minutes and hardly find a better plan
_TOGETHER = 64  # pairs that are planned at once: more are no faster
_DEGREES = ("lat", "lon")
_OWN_NAMES = ("x", "y", "z")  # of position columns that the data does not name


@dataclass(frozen=True, eq=False)
class PlannedPath:
    """A plan from a start to a goal, and what it says of itself."""

    positions: Array = field(repr=False)  # (T, P) one per environment step, until it arrives
    columns: tuple[str, ...]  # names of the position columns
    cost: float  # what plan search minimises: steps that cannot be walked, plus a tenth of all steps
    steps: float  # environment steps from start to goal along the plan, by the embedding
    off_support: float  # share of its states that are more than a median step from every recorded box
    replaced: float  # share of its states that are recorded ways, because the plan as drawn left the data
    candidates: tuple[Plan, ...] = field(repr=False)  # plans as drawn, before the search, that it was compared with
    candidate_costs: tuple[float, ...] = field(repr=False)  # of each of them
    geo_origin: tuple[float, ...] = ()  # latitude and longitude around which its positions are metres
    every: float | None = None  # seconds from one state to the next, where the data was made even

    def __str__(self) -> str:
        states, share = f"{len(self.positions)} states", f"{100 * self.off_support:.0f} %"
        said = f"{states}, about {self.steps:.0f} steps, cost {self.cost:.1f}, {share} off the recorded support"
        if not self.replaced:
            return said
        return f"{said}; {100 * self.replaced:.0f} % along recorded ways, where the plan as drawn left the data"


def plan(
    model: Model | str | Path,
    start: npt.ArrayLike,
    goal: npt.ArrayLike,
    *,
    candidates: int = CANDIDATES,
    seed: int = 0,
    allow_outside: bool = False,
    search: bool = True,
    parts: SearchParts | None = None,
) -> list[PlannedPath]:
    """The cheapest of several plans for each pair of start and goal; see `scots.plan`.

    A plan that leaves the recorded data takes recorded ways instead. Without `search` it is the cheapest as drawn,
    which takes no longer where the planner is poor. `parts` are those of the planner's folder, for who plans again and
    again.
    """
    seeds = Seeds(seed)
    if candidates > _MOST_CANDIDATES:
        raise BadInput(f"candidates {candidates}: at most {_MOST_CANDIDATES} plans are compared")
    planner = planner_of(model)
    parts = parts or search_parts(planner)
    starts, goals = _pairs(planner, parts, start, goal)
    for name, positions in (("start", starts), ("goal", goals)):
        _check_inside(name, positions, parts.support, allow_outside, planner.meta)
    chooser = _Chooser(planner, parts, candidates, seeds, search)
    if len(starts) <= _TOGETHER:
        return chooser.best(starts, goals, 0)
    paths = []
    with progress("planning", len(starts), "plans") as bar:
        for first in range(0, len(starts), _TOGETHER):
            some = slice(first, first + _TOGETHER)
            paths += chooser.best(starts[some], goals[some], first)
            bar.advance(len(starts[some]))
    return paths


def planner_of(model: Model | str | Path) -> PlannerModel:
    """The planner itself, or the one that a folder holds; bad input if it is something else."""
    found = model if isinstance(model, Model) else load_model(model)
    if not isinstance(found, PlannerModel):
        raise BadInput(f"{type(found).__name__} does not plan: give a planner, such as `scots train hd` makes")
    return found


def has_search_parts(planner: PlannerModel) -> bool:
    """Whether a planner's folder has what its plans are compared by."""
    return planner.folder is not None and SearchParts.are_in(planner.folder / "search")


def search_parts(planner: PlannerModel) -> SearchParts:
    """The embedding and the support of the recorded data in a planner's folder."""
    if planner.folder is None or not has_search_parts(planner):
        raise BadInput(
            f"{planner.folder or 'this planner'}: has no embedding and support of the recorded data, which plans are "
            "compared by; run the same `scots train` again with --recorded DATA, which adds them"
        )
    return SearchParts.load(planner.folder / "search")


def column_names(planner: PlannerModel) -> tuple[str, ...]:
    """The names of the columns that a planner plans: the data's, or x, y and z."""
    columns, names = planner.columns, planner.meta.columns
    if names:
        return tuple(names[column] for column in columns)
    return _OWN_NAMES[: len(columns)] if len(columns) <= len(_OWN_NAMES) else tuple(f"obs_{n}" for n in columns)


# ------------------------------------------------------------------------------------------------- starts and goals


def _pairs(planner: PlannerModel, parts: SearchParts, start: npt.ArrayLike, goal: npt.ArrayLike) -> tuple[Array, Array]:
    """Starts and goals (B, P); one start serves several goals, and one goal several starts."""
    starts, goals = (_positions(name, ends, planner, parts) for name, ends in (("start", start), ("goal", goal)))
    if len(starts) != len(goals) and 1 not in (len(starts), len(goals)):
        raise BadInput(f"{len(starts)} starts and {len(goals)} goals: give as many of each, or one of either")
    count = max(len(starts), len(goals))
    return np.repeat(starts, count // len(starts), axis=0), np.repeat(goals, count // len(goals), axis=0)


def _positions(name: str, ends: npt.ArrayLike, planner: PlannerModel, parts: SearchParts) -> Array:
    """Positions or whole states, one (C,) or many (B, C) -> positions (B, P)."""
    try:
        with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite, and is refused below
            values = np.atleast_2d(np.asarray(ends, dtype=np.float32))
    except (TypeError, ValueError) as error:
        raise BadInput(f"{name}: expected numbers, and as many of them for each {name}") from error
    recorded = parts.embedding  # angles are two features each, but one column
    width, state = len(planner.columns), recorded.sizes["observation"] - len(recorded.meta.angles)
    if values.ndim != 2 or values.shape[1] not in (width, state) or not len(values):
        whole = f", or a whole state of {state}" if state != width else ""
        names = ", ".join(column_names(planner))
        raise BadInput(f"{name}: expected {width} values ({names}){whole}; got shape {values.shape}")
    if not np.isfinite(values).all():
        raise BadInput(f"{name} {int(np.argwhere(~np.isfinite(values))[0][0])}: is not finite; give numbers")
    return values if values.shape[1] == width else values[:, list(parts.embedding.meta.position)]


def to_position(planner: PlannerModel, flag: str, latitude: float, longitude: float) -> list[float]:
    """A place in degrees as a position, in the metres that the recorded data became."""
    if not planner.meta.geo_origin:
        names = ",".join(column_names(planner))
        raise BadInput(f"{flag} in degrees: the data of this planner had no latitude and longitude; give {names}")
    if not (abs(latitude) <= 90 and abs(longitude) <= 360):
        raise BadInput(f"{flag} lat={latitude:g},lon={longitude:g}: no latitude and longitude in degrees; correct it")
    degrees = np.array([latitude]), np.array([longitude])
    return [float(metres[0]) for metres in geography.to_metres(*degrees, planner.meta.geo_origin)]


def _check_inside(name: str, positions: Array, support: Support, allow_outside: bool, meta: Meta) -> None:
    """Refuse, or only tell of, the first position farther than `NEAR_STEPS` median steps from all recorded boxes."""
    for number, position in enumerate(positions):
        distance, nearest = nearest_recorded(support, position)
        if distance > NEAR_STEPS * support.step:
            problem = (
                f"{name} {number}, {_shown(position)}, is {distance:.4g} ({distance / support.step:.0f} median steps) "
                f"outside the recorded data; the nearest recorded position is about {_shown(nearest)}"
                f"{_in_degrees(nearest, meta.geo_origin)}"
            )
            if not allow_outside:
                raise BadInput(f"{problem}; move it there, or plan all the same with --allow-outside")
            console.print(f"warning: {problem}", markup=False, highlight=False, soft_wrap=True)


def nearest_recorded(support: Support, position: Array) -> tuple[float, Array]:
    """How far a position (P,) is from the nearest recorded box, 0 inside one; and the center of that box (P,)."""
    centers = support.centers()
    gaps = np.maximum(np.abs(position - centers) - support.edge / 2, 0.0)
    distances = np.linalg.norm(gaps.astype(np.float64), axis=1)  # whose squares float32 may not hold
    return float(distances.min()), centers[distances.argmin()]


def off_support_share(support: Support, positions: Array) -> float:
    """Share of positions (T, P) more than a median step from every recorded box: where boxes end is arbitrary."""
    uncovered = positions[~support.covers(positions)]
    return sum(nearest_recorded(support, position)[0] > support.step for position in uncovered) / len(positions)


def _in_degrees(position: Array, origin: tuple[float, ...]) -> str:
    """What the unit of a position is, and the same place in degrees, if it was recorded in these."""
    if not origin:
        return ""
    lat, lon = geography.to_degrees(position[:1], position[1:], origin)
    metres = f" in metres around {origin[0]:.5g},{origin[1]:.5g}"
    return f"{metres}, or lat={lat[0]:.5f},lon={lon[0]:.5f} in degrees"


def _shown(position: Array) -> str:
    return f"({', '.join(f'{value:.4g}' for value in position.tolist())})"


def read_pairs(path: Path, columns: Sequence[str], origin: tuple[float, ...] = ()) -> tuple[Array, Array]:
    """Starts and goals (B, P) from a CSV file with columns start_x,start_y,goal_x,goal_y; others are ignored.

    With an origin they may be start_lat,start_lon,goal_lat,goal_lon, which become metres around it.
    """
    names, degrees = _pair_names(columns), _pair_names(_DEGREES)
    try:
        check_input(path)
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            in_degrees = bool(origin) and set(degrees) <= set(reader.fieldnames or ())
            names = degrees if in_degrees else names
            if missing := [name for name in names if name not in (reader.fieldnames or ())]:
                raise BadInput(f"{path}: no column {missing[0]!r}; the header needs {','.join(names)}")
            rows = [[_number(path, reader.line_num, name, row[name]) for name in names] for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f"{path}: cannot be read ({error}); give a CSV file with {','.join(names)}") from error
    if not rows:
        raise BadInput(f"{path}: no rows below the header; each is a start and a goal")
    starts, goals = np.split(np.array(rows), 2, axis=1)
    if in_degrees:
        starts, goals = (
            np.stack(geography.to_metres(ends[:, 0], ends[:, 1], origin), axis=1) for ends in (starts, goals)
        )
    with np.errstate(over="ignore"):  # what float32 cannot hold is refused as infinite
        return starts.astype(np.float32), goals.astype(np.float32)


def _pair_names(columns: Sequence[str]) -> list[str]:
    return [f"{end}_{column}" for end in ("start", "goal") for column in columns]


def _number(path: Path, line: int, name: str, cell: str | None) -> float:
    try:
        return float(cell or "")
    except ValueError as error:
        raise BadInput(f"{path}: line {line}: column {name!r}: {cell!r} is not a number; fix that row") from error


# --------------------------------------------------------------------------------------------------------------- plans


class _Chooser:
    """Draws candidates for pairs of start and goal, may search for one more plan, and keeps the cheapest."""

    def __init__(self, planner: PlannerModel, parts: SearchParts, candidates: int, seeds: Seeds, search: bool) -> None:
        by_parts = candidates > 1 and planner.has_bridges
        self._search = parts.search(planner, SearchConfig(candidates, mend=by_parts, bisect=by_parts))
        self._single = parts.search(planner, SearchConfig())
        self._columns, self._parts = column_names(planner), parts
        self._origin, self._every = planner.meta.geo_origin, even_step(planner.meta)
        self._candidates, self._seeds, self._searches = candidates, seeds, search and candidates > 1
        self._keeps_to_data = self._searches and not planner.plans_actions  # actions lead where they lead

    def best(self, starts: Array, goals: Array, first: int) -> list[PlannedPath]:
        """The best plans from starts to goals (B, P), of which the first pair has this number among all."""
        drawn = self._drawn(starts, goals, first)
        contenders = drawn
        if self._searches:
            seeds = [self._seeds.integer("plan", first + n) for n in range(len(starts))]
            searched = self._search.plan(starts, goals, seeds)
            contenders = [[found, *own] for found, own in zip(searched, drawn, strict=True)]
        ratings = [self._search.rate(own) for own in contenders]
        best = [_cheapest(own, rated) for own, rated in zip(contenders, ratings, strict=True)]
        fill_in(self._search, [own for own, _ in best])
        return [self._path(*own) for own in zip(best, drawn, ratings, strict=True)]

    def _drawn(self, starts: Array, goals: Array, first: int) -> list[list[Plan]]:
        """Several plans for each pair, as they are drawn."""
        count = self._candidates
        numbers = range(first, first + len(starts))
        seeds = [self._seeds.integer("candidate", number, k) for number in numbers for k in range(count)]
        plans = self._single.plan(np.repeat(starts, count, axis=0), np.repeat(goals, count, axis=0), seeds)
        return [plans[begin : begin + count] for begin in range(0, len(plans), count)]

    def _path(self, best: tuple[Plan, PlanRating], drawn: Sequence[Plan], ratings: Sequence[PlanRating]) -> PlannedPath:
        """What the best plan says of itself; the last ratings are those of the drawn plans."""
        plan, rating = best
        positions, replaced = until_arrival(plan.positions, self._parts.support.step), 0.0
        if self._keeps_to_data:
            positions, on_recorded_ways = self._parts.ways.keep(positions)
            replaced = float(on_recorded_ways.mean())
        if replaced:
            [rating] = self._search.rate([Plan(positions, plan.seed)])
        share = off_support_share(self._parts.support, positions)
        costs = tuple(own.cost for own in ratings[-len(drawn) :])
        return PlannedPath(
            positions,
            self._columns,
            rating.cost,
            rating.steps,
            share,
            replaced,
            tuple(drawn),
            costs,
            self._origin,
            self._every,
        )


def _cheapest(plans: Sequence[Plan], ratings: Sequence[PlanRating]) -> tuple[Plan, PlanRating]:
    """The plan of the lowest cost, the first of several, with its rating."""
    return min(zip(plans, ratings, strict=True), key=lambda rated: rated[1].cost)


def fill_in(planner: Planner, plans: Sequence[Plan]) -> None:
    """Give plans a position for every step."""
    planner.fill_in(plans, [0] * len(plans), [len(plan.positions) for plan in plans])


def until_arrival(positions: Array, step: float) -> Array:
    """Positions (T, P) without the wait at their last: up to the first from which all stay within a step of it."""
    (away,) = np.nonzero(np.linalg.norm(positions - positions[-1], axis=1) > step)
    arrival = int(away[-1]) + 1 if len(away) else 1
    return np.concatenate([positions[:arrival], positions[-1:]])


# --------------------------------------------------------------------------------------------------------------- files


def to_trajectories(paths: Sequence[PlannedPath]) -> Trajectories:
    """Plans as a dataset: one episode of positions each; what they say of themselves is in its provenance."""
    said = [{name: getattr(path, name) for name in ("cost", "steps", "off_support", "replaced")} for path in paths]
    columns, every = paths[0].columns, paths[0].every
    meta = Meta(
        columns=columns,
        position=tuple(range(len(columns))),
        geo_origin=paths[0].geo_origin,
        provenance=({"origin": "planned here", "plans": said},),
    )
    positions = [path.positions for path in paths]
    lengths = [len(own) for own in positions]
    times = None if every is None else np.concatenate([every * np.arange(length) for length in lengths])
    return Trajectories(np.concatenate(positions), offsets_from_lengths(lengths), times=times, meta=meta)


def check_plan_file(path: Path) -> None:
    """Refuse a file that plans are not or cannot be written to."""
    if path.suffix.lower() not in (".csv", ".npz"):
        raise BadInput(f"{path}: plans are written as .csv or .npz; change the name")
    check_output(path)


def write_plans(paths: Sequence[PlannedPath], path: Path) -> None:
    """Write plans as a table with one row per state (.csv), or as a dataset (.npz)."""
    check_plan_file(path)
    if path.suffix.lower() == ".npz":
        formats.write(to_trajectories(paths), path)
        return
    with atomic(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        seconds = [] if paths[0].every is None else ["seconds"]
        degrees = ["latitude", "longitude"] if paths[0].geo_origin else []
        table.writerow(["plan", "step", *seconds, *paths[0].columns, *degrees])
        for number, own in enumerate(paths):
            table.writerows([number, *cells] for cells in _cells(own))


def _cells(path: PlannedPath) -> Iterator[list[str]]:
    """The rows of a plan: step, seconds if the step has a length, the position, and the same in degrees if it was."""
    degrees = np.empty((len(path.positions), 0))
    if path.geo_origin:
        degrees = np.stack(geography.to_degrees(path.positions[:, 0], path.positions[:, 1], path.geo_origin), axis=1)
    for step, (position, place) in enumerate(zip(path.positions, degrees, strict=True)):
        seconds = [] if path.every is None else [f"{step * path.every:.9g}"]
        yield [str(step), *seconds, *(f"{value:.9g}" for value in position), *(f"{value:.8f}" for value in place)]
