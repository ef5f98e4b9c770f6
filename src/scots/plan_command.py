"""The command `scots plan`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, UseAppendAction, arg

from scots.arguments import Count, OptionalFigure, Seed
from scots.core.errors import BadInput
from scots.data.choices import Choices

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scots.data.trajectories import Array, Trajectories
    from scots.experiments.planning import PlannedPath
    from scots.planners.base import PlannerModel

Ends = UseAppendAction[Annotated[tuple[str, ...], arg(metavar="X,Y")]]


@dataclass(frozen=True)
class PlanPaths:
    """Plan from starts to goals with a trained planner: no environment and no agent is needed."""

    model: Positional[Annotated[Path, arg(metavar="DIR")]]
    """Folder of a trained planner."""
    start: Ends = ()
    """Where to start, in the unit of the recorded data: a position, or a whole state; lat=Y,lon=X if it had degrees."""
    goal: Ends = ()
    """Where to go. One start serves several goals, one goal several starts."""
    pairs: Annotated[Path | None, arg(metavar="FILE")] = None
    """CSV file with many pairs: columns start_x,start_y,goal_x,goal_y, by your position columns, or start_lat,..."""
    candidates: Count = 8
    """Plans to draw and compare for every pair; 1 keeps the plan that is drawn."""
    png: Annotated[OptionalFigure, arg(metavar="FILE")] = None
    """Draw a map: the recorded support, the candidates and the best plan."""
    data: Annotated[str | None, arg(metavar="DATA")] = None
    """The recorded data, by id, file or folder: drawn on the map in place of its support."""
    out: Annotated[Path | None, arg(metavar="FILE")] = None
    """Write the plans: .csv has one row per plan state, .npz is a dataset with one episode per plan."""
    columns: Choices = Choices()
    """How to read --data, where that is not as it was when it was augmented."""
    seed: Seed = 0
    """Seed of what is drawn."""
    allow_outside: bool = False
    """Only warn of a start or goal more than 4 median steps outside the recorded data."""

    def run(self) -> None:
        """Print what each plan says of itself; write and draw the plans."""
        from scots.experiments import planning

        if self.out:
            planning.check_plan_file(self.out)
        if self.data and not self.png:
            raise BadInput("--data is drawn on the map: give --png FILE too")
        if self.columns.given() and not self.data:
            raise BadInput(f"--{next(iter(self.columns.given()))} says how to read --data: give --data DATA too")
        planner = planning.planner_of(self.model)
        starts, goals = self._ends(planner)
        recorded = self._recorded(planner) if self.data else None
        options: dict[str, Any] = {
            "candidates": self.candidates,
            "seed": self.seed,
            "allow_outside": self.allow_outside,
        }
        paths = planning.plan(planner, starts, goals, **options)
        for number, path in enumerate(paths):
            print(f"plan {number}: {path}")
        if self.out:
            planning.write_plans(paths, self.out)
            print(f"plans: {self.out}", file=sys.stderr)
        if self.png:
            _draw(self.png, planner, paths, recorded)
            print(f"picture: {self.png}", file=sys.stderr)

    def _recorded(self, planner: PlannerModel) -> Trajectories:
        """The recorded data as the planner knows it."""
        from scots.datasets.loading import load_original
        from scots.experiments.planning import search_parts

        data = load_original(self.data or "", planner.meta, **self.columns.given())[0]
        return data.with_meta(position=search_parts(planner).embedding.meta.position)

    def _ends(self, planner: PlannerModel) -> tuple[Array | list[list[float]], Array | list[list[float]]]:
        """Starts and goals as they were given: by flags or in a file."""
        from scots.experiments.planning import column_names, read_pairs

        columns = column_names(planner)
        if self.pairs and (self.start or self.goal):
            raise BadInput("--pairs has the starts and goals: give it without --start and --goal")
        if self.pairs:
            return read_pairs(self.pairs, columns, planner.meta.geo_origin)
        if not self.start or not self.goal:
            raise BadInput(f"give --start {','.join(columns)} and --goal {','.join(columns)}, or --pairs FILE")
        starts, goals = (
            [_end(planner, flag, text) for text in texts]
            for flag, texts in (("--start", self.start), ("--goal", self.goal))
        )
        return starts, goals


def _draw(png: Path, planner: PlannerModel, paths: Sequence[PlannedPath], recorded: Trajectories | None) -> None:
    from scots.experiments.planning import fill_in, search_parts
    from scots.reporting.maps import save_figure
    from scots.reporting.plan_figure import plan_figure

    fill_in(planner, [plan for path in paths for plan in path.candidates])
    save_figure(plan_figure(paths, search_parts(planner).support, planner.meta, recorded), png)


def _end(planner: PlannerModel, flag: str, text: str) -> list[float]:
    """A position or a whole state in the unit of the recorded data, or a place in degrees."""
    from scots.data.formats.roles import is_latitude, is_longitude
    from scots.experiments.planning import to_position

    if "=" not in text:
        return _numbers(flag, text)
    said = [part.partition("=") for part in text.split(",")]
    latitude, longitude = ([value for name, _, value in said if is_it(name)] for is_it in (is_latitude, is_longitude))
    if (len(said), len(latitude), len(longitude)) != (2, 1, 1):
        raise BadInput(f"{flag} {text}: expected a position in degrees, such as {flag} lat=48.11,lon=11.52")
    return to_position(planner, flag, *_numbers(flag, f"{latitude[0]},{longitude[0]}"))


def _numbers(flag: str, text: str) -> list[float]:
    try:
        return [float(number) for number in text.split(",")]
    except ValueError as error:
        raise BadInput(f"{flag} {text}: expected numbers with commas between them, such as 1.5,-2") from error
