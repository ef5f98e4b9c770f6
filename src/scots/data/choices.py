"""What a user may say about the columns of own data, and how it is applied to data of any format."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from scots.core.errors import BadInput
from scots.data.angles import parse_angles
from scots.data.inspection import RESAMPLED, column_number, position_columns
from scots.data.resampling import resample
from scots.data.trajectories import Trajectories

TABLES_ONLY = ("episode", "time", "actions", "delimiter")


@dataclass(frozen=True)
class Choices:
    """How to read own data. What is not set is guessed where the data does not say it, and printed."""

    episode: str | None = None
    """Tables: column that names the episode of a row, or several: vehicle_id,day; none: all rows are one episode."""
    time: str | None = None
    """Tables: the time column, with its unit or format where that is in doubt: t=ms, when=%d/%m/%Y; none: no time."""
    position: str | None = None
    """Columns that are the position, by name or number: x,y or 0,1. Degrees become metres: lat,lon or lon=X,lat=Y."""
    state: str | None = None
    """Columns that are the state besides the position: heading,speed (default: all that are numbers)."""
    actions: str | None = None
    """Tables: columns that are the action (default: those whose name begins with action)."""
    ignore: str | None = None
    """Columns to leave out: altitude,battery."""
    delimiter: str | None = None
    """CSV: the character between cells, or tab (default: found out)."""
    angles: str | None = None
    """Columns that wrap around, with their period: heading=360,yaw=6.2832; none: no column does."""
    every: float | None = None
    """Resample to one state every so many seconds."""
    gap: float | None = None
    """Split an episode where a step takes longer, in seconds (default: than five typical steps); inf: nowhere."""

    def given(self) -> dict[str, Any]:
        """Only what is set."""
        return {name: value for name, value in dataclasses.asdict(self).items() if value is not None}


NO_CHOICES = Choices()


def words(text: str | None) -> list[str]:
    """The names in a comma-separated list."""
    return [word.strip() for word in (text or "").split(",") if word.strip()]


def refuse_table_choices(choices: Choices, format: str) -> None:
    """Complain about choices that only a table can follow."""
    for name in (*TABLES_ONLY, *(["gap"] if choices.every is None else [])):
        if getattr(choices, name) is not None:
            raise BadInput(f"--{name} is for tables such as CSV, and this is {format}; leave it out")


def follow(data: Trajectories, choices: Choices, format: str) -> Trajectories:
    """Follow the choices in data of a format whose columns have a fixed meaning."""
    refuse_table_choices(choices, format)
    return evenly(apply(data, choices), choices)


def evenly(data: Trajectories, choices: Choices) -> Trajectories:
    """Data with the even time step that was chosen, if any, and a provenance that says what that took."""
    if choices.every is None:
        return data
    found = resample(data, choices.every, choices.gap)
    step = {"origin": RESAMPLED, "every": choices.every, "resampling": found.describe()}
    return found.data.with_meta(provenance=(*data.meta.provenance, step))


def apply(data: Trajectories, choices: Choices) -> Trajectories:
    """Follow the choices of position, angles and state columns in data whose columns are already decided."""
    changes: dict[str, Any] = {}
    if choices.position:
        changes["position"] = position_columns(data, choices.position)[0]
        changes["geo_origin"] = data.meta.geo_origin if changes["position"] == data.meta.position else ()
    if choices.angles is not None:
        names = data.meta.columns or tuple(map(str, range(data.observations.shape[1])))
        changes["angles"] = parse_angles(choices.angles, names)
    data = data.with_meta(**changes) if changes else data
    return _select(data, words(choices.state), words(choices.ignore)) if choices.state or choices.ignore else data


def _select(data: Trajectories, state: Sequence[str], ignore: Sequence[str]) -> Trajectories:
    """The same rows with fewer observation columns."""
    meta = data.meta
    wanted = set(range(data.observations.shape[1]))
    if state:
        position, assumed = position_columns(data)
        wanted = {*(() if assumed else position), *(column_number(data, name, "--state") for name in state)}
    ignored = {column_number(data, name, "--ignore") for name in ignore}
    quaternions = [first for first in meta.quaternions if set(range(first, first + 4)) <= wanted - ignored]
    kept = sorted(wanted - ignored)
    if not kept:
        raise BadInput("--ignore leaves no state columns; name fewer")
    number = {column: new for new, column in enumerate(kept)}
    placed = set(meta.position) <= set(kept)
    changes: dict[str, Any] = {
        "columns": tuple(meta.columns[column] for column in kept) if meta.columns else (),
        "position": tuple(number[column] for column in meta.position) if placed else (),
        "geo_origin": meta.geo_origin if placed else (),
        "quaternions": tuple(number[first] for first in quaternions),
        "angles": tuple((number[column], period) for column, period in meta.angles if column in number),
    }
    return dataclasses.replace(data, observations=data.observations[:, kept], meta=dataclasses.replace(meta, **changes))
