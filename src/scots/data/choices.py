"""What a user may say about the columns of own data, and how it is applied to data of any format."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from scots.core.errors import BadInput
from scots.data.angles import parse_angles
from scots.data.inspection import READ_FROM_TABLES, RESAMPLED, column_number, position_columns
from scots.data.resampling import resample
from scots.data.trajectories import Meta, Trajectories

TABLES_ONLY = ("episode", "time", "actions", "delimiter")

CHOSEN = "columns chosen"
"""Origin of data whose columns have a fixed meaning, some of which the user chose or left out."""


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


def kept_choices(meta: Meta) -> dict[str, Any]:
    """The choices that data was read with, as its provenance tells them; what it was made from is read so again."""
    kept: dict[str, Any] = {}
    for step in meta.provenance:
        if step.get("origin") in (READ_FROM_TABLES, CHOSEN):
            kept |= step.get("flags", {})
        elif step.get("origin") == RESAMPLED:
            kept["every"] = step["every"]
    known = {field.name for field in dataclasses.fields(Choices)}
    return {name: value for name, value in kept.items() if name in known}


def flags_of(choices: dict[str, Any]) -> str:
    """The choices as they are typed: "--every 2 --ignore speed"."""
    typed = ((name, f"{value:g}" if isinstance(value, float) else str(value)) for name, value in choices.items())
    return shlex.join(word for name, value in typed for word in (f"--{name}", value))


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
    if choices.every is not None and data.meta.augmentation is not None:
        raise BadInput("--every is for recorded data, and this was made from it; leave it out")
    refuse_table_choices(choices, format)
    chosen = apply(data, choices)
    if given := {name: value for name, value in choices.given().items() if name != "every"}:
        chosen = chosen.with_meta(provenance=(*data.meta.provenance, {"origin": CHOSEN, "flags": given}))
    return evenly(chosen, choices)


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
