"""Tables from elsewhere -> `Trajectories`: roles guessed or chosen, rows grouped and sorted, missing values filled.

What was guessed, left out, dropped and filled is one entry of `meta.provenance`, as short texts to print.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from scots.core.errors import BadInput
from scots.data import geography
from scots.data.angles import angle_period, parse_angles
from scots.data.choices import Choices, words
from scots.data.formats import roles
from scots.data.formats.timestamps import BadCell, Times, is_clock, looks_like_time, to_seconds
from scots.data.inspection import READ_FROM_TABLES, position_columns
from scots.data.resampling import fill_missing, split_at_gaps
from scots.data.trajectories import Array, Meta, Trajectories, offsets_from_lengths

_MOSTLY = 0.5  # a column with a larger share of missing cells is left out; one with fewer numbers is text
_FEW = 0.1  # share of episodes that are dropped for the sake of a column they have no value of
_HUGE = 1e8
_DECIMAL_COMMA = r"[+-]?\d*,\d+([eE][+-]?\d+)?"
_NOT_AVAILABLE = {"heading": 511.0, "trueheading": 511.0, "sog": 102.3}  # codes of the ships' AIS


@dataclass(frozen=True)
class Table:
    """One file: a data frame with the types that were found, and where its rows are."""

    path: Path
    frame: Any
    header: str  # where the column names are, such as "tracks.csv: line 1"
    where: Callable[[int], str]  # row -> place in the file, such as "line 7"
    description: str | None = None  # output of `describe`, if the file contains it
    comma_decimals: bool = False  # a number may be written 1,5


@dataclass
class _Notes:
    """What happened on the way, to be printed."""

    left_out: dict[str, str] = field(default_factory=dict)
    dropped: dict[str, int] = field(default_factory=dict)
    filled: int = 0
    gaps: int = 0

    def drop(self, count: int, what: str) -> None:
        if count:
            self.dropped[what] = self.dropped.get(what, 0) + count


@dataclass(frozen=True)
class _Columns:
    """The role of each column that is used."""

    episode: list[str]
    time: list[str]
    form: str | None  # of the time, as the user said it
    position: list[str]
    degrees: list[str]  # latitude and longitude, if these are the position
    others: dict[str, str]  # name -> field of `Trajectories`

    def field(self, name: str) -> str:
        """The field of `Trajectories` that a column is part of."""
        return self.others.get(name, "observations")


def read_foreign(tables: Sequence[Table], choices: Choices) -> Trajectories:
    """The episodes of one or more tables with the same columns; rows of different tables never share an episode."""
    source, notes = _Source(tables), _Notes()
    try:
        columns = _assign(source, choices, notes)
    except BadInput as error:
        raise BadInput(f"{tables[0].header}: {error}") from error
    if not len(source.frame):
        raise BadInput(f"{tables[0].path}: no rows below the header; an episode needs at least one")
    times = source.times(columns)
    positions, origin = _positions(source, columns)
    rows, offsets = _ordered(source, columns, times, list(positions.values()), notes)
    seconds = times.seconds[rows] if times else None
    cells = _cells(source, columns, positions, rows, notes)
    periods = _periods(cells, columns, choices)
    whole = _fill(cells, seconds, offsets, periods, notes)
    if "observations" not in map(columns.field, cells):
        raise BadInput(f"{tables[0].header}: {_no_observations(source, notes)}")
    data = _build(cells, columns, offsets, seconds, periods, list(positions), origin)
    data = data if whole.all() else data.select(np.flatnonzero(whole))
    if choices.every is None:  # or resampling splits
        data, notes.gaps, single = split_at_gaps(data, choices.gap)
        notes.drop(single, "single states between gaps")
    if choices.position and not columns.position:
        data = data.with_meta(position=position_columns(data, choices.position)[0])
    return data.with_meta(provenance=(_entry(data, columns, times, origin, notes, choices),))


# ------------------------------------------------------------------------------------------------------------- cells


class _Source:
    """The rows of all tables under each other, with cells as numbers on demand."""

    def __init__(self, tables: Sequence[Table]) -> None:
        self.tables = tables
        self.frame = tables[0].frame if len(tables) == 1 else pd.concat([t.frame for t in tables], ignore_index=True)
        self.ends = np.cumsum([len(table.frame) for table in tables])
        self.file = np.repeat(np.arange(len(tables)), [len(table.frame) for table in tables])

    def bad_cell(self, row: int, name: str, problem: str, remedy: str) -> BadInput:
        """The error for one cell."""
        table = self.tables[self.file[row]]
        first = self.ends[self.file[row]] - len(table.frame)
        if row == first and len(table.frame) > 1 and "is not a number" in problem:
            remedy = f"delete that row if it holds units, {remedy.removeprefix('fix that row, ')}"
        return BadInput(f"{table.path}: {table.where(row - first)}: column {name!r}: {problem}; {remedy}")

    def numbers(self, name: str, notes: _Notes | None = None) -> Array | None:
        """A column as numbers with NaN for missing cells; None, with the reason noted, if it is of no use."""
        column = self.frame[name]
        parsed = self._parsed(name, column)
        if notes is not None and (reason := _useless(parsed)):
            notes.left_out[name] = "dates" if column.dtype.kind == "M" else reason
            return None
        if parsed is None:
            raise BadInput(f"column {name!r} is text, not numbers; choose other columns with --position")
        return parsed

    def _parsed(self, name: str, column: Any) -> Array | None:
        if column.dtype.kind in "biuf":
            values = column.to_numpy(dtype=np.float64)
        elif column.dtype.kind == "M":
            return None
        else:
            text = self._text(column)
            numbers = pd.to_numeric(text, errors="coerce")
            bad = np.flatnonzero(numbers.isna() & text.notna())
            if len(bad) > _MOSTLY * text.notna().sum():
                return None
            if bad.size:
                problem = f"{column.iloc[bad[0]]!r} is not a number"
                raise self.bad_cell(int(bad[0]), name, problem, f"fix that row, or use --ignore {name}")
            values = numbers.to_numpy(dtype=np.float64)
        code = _NOT_AVAILABLE.get(roles.plain_name(name))
        return values if code is None else np.where(values == code, np.nan, values)

    def _text(self, column: Any) -> Any:
        """Cells as text, numbers with a decimal point."""
        text = column.astype("str").str.strip()
        if self.tables[0].comma_decimals and text.str.fullmatch(_DECIMAL_COMMA).any():
            return text.str.replace(",", ".", regex=False)
        return text

    def times(self, columns: _Columns) -> Times | None:
        """The time of each row, or None without a time column."""
        if not columns.time:
            return None
        column = self.frame[columns.time[0]]
        if column.dtype.kind not in "biufMm":
            column = self._text(column)
        for other in columns.time[1:]:
            column = column.astype("str") + " " + self._text(self.frame[other])
        name = ",".join(columns.time)
        try:
            times = to_seconds(column, name, columns.form, roles.unit_of(name))
            frames = roles.is_frame(name) and not columns.form and not times.dated
            return Times(times.seconds, "frame numbers, not seconds") if frames else times
        except BadCell as error:
            remedy = f"fix that row, or say how times are written: --time '{name}=%d/%m/%Y %H:%M:%S'"
            raise self.bad_cell(error.row, name, str(error), remedy) from error


def _useless(values: Array | None) -> str | None:
    """Why a column is no state, if it is not."""
    if values is None:
        return "text"
    missing = float(np.isnan(values).mean()) if len(values) else 0.0
    if missing > _MOSTLY:
        return "empty" if missing == 1 else f"{100 * missing:.0f} % missing"
    # An epoch or a code: in float32 such numbers are only good to eight units or worse.
    finite = values[np.isfinite(values)]  # a ray of a scan may be infinite in every row
    return "numbers above 100 million" if len(finite) and np.abs(finite).min() >= _HUGE else None


# ------------------------------------------------------------------------------------------------------------- roles


def _assign(source: _Source, choices: Choices, notes: _Notes) -> _Columns:
    """The role of every column; those without one are noted with the reason."""
    frame = source.frame
    names = _named(list(frame.columns), choices, notes)
    episode = _episode(frame, names, choices)
    time, form = _time(frame, [name for name in names if name not in episode], choices)
    position = roles.position_pair([name for name in names if name not in {*episode, *time}], choices)
    state = roles.existing("--state", words(choices.state), names)
    actions = roles.existing("--actions", words(choices.actions), names)
    for flag, chosen in (("--state", state), ("--actions", actions)):
        _check_has_no_role(flag, chosen, {"episode": episode, "time": time})
    others: dict[str, str] = {}
    for name in names:
        if name in {*episode, *time, *position}:
            continue
        field = roles.role_of(name) if choices.actions is None else roles.chosen_role(name, actions)
        reason = _no_state(name, state, choices) if field in ("observations", "episode", "times") else None
        if reason:
            notes.left_out[name] = reason
        else:
            others[name] = "observations" if field in ("episode", "times") else field
    if not position and "observations" not in others.values():
        raise _no_observations(source, notes)
    return _Columns(episode, time, form, position, roles.degrees(position, choices), others)


def _check_has_no_role(flag: str, chosen: list[str], taken: dict[str, list[str]]) -> None:
    """Refuse to make a state or an action of a column that has another role, rather than leave it out in silence."""
    for role, columns in taken.items():
        if both := [name for name in chosen if name in columns]:
            raise BadInput(f"{flag}: column {both[0]!r} is the {role}; leave it out there, or add --{role} none")


def _named(header: list[str], choices: Choices, notes: _Notes) -> list[str]:
    """Columns that have a name and are not ignored."""
    names = [name for name in header if name]
    if len(names) < len(header):
        notes.left_out["a column"] = "no name"
    ignored = roles.existing("--ignore", words(choices.ignore), names)
    notes.left_out |= dict.fromkeys(ignored, "--ignore")
    return [name for name in names if name not in ignored]


def _episode(frame: Any, names: list[str], choices: Choices) -> list[str]:
    """The columns that together name the episode. A trip of another vehicle is another episode."""
    episode = roles.episode_column(names, choices)
    if choices.episode is not None:
        return episode
    # A number that no two rows share counts rows.
    movers = [name for name in names if roles.is_mover(name) and frame[name].duplicated().any()]
    complete = [name for name in movers if frame[name].notna().all()]
    return episode + complete or roles.only(movers, "episode", "--episode")


def _time(frame: Any, names: list[str], choices: Choices) -> tuple[list[str], str | None]:
    """The time column, or a date and a time of day, and the format the user gave."""
    if choices.time is not None:
        text, _, form = choices.time.partition("=")
        return ([], None) if text.lower() == "none" else (roles.existing("--time", words(text), names), form or None)
    named = roles.only([name for name in names if roles.is_time(name)], "times", "--time")
    dates = [name for name in names if roles.plain_name(name) == "date"]
    if named and len(dates) == 1 and is_clock(frame[named[0]]):
        return dates + named, None
    if named:
        return named, None
    dated = roles.only([name for name in names if looks_like_time(frame[name])], "times", "--time")
    return dated or dates[:1] or roles.only([n for n in names if roles.is_frame(n)], "times", "--time"), None


def _no_state(name: str, state: list[str], choices: Choices) -> str | None:
    """Why a column is not part of the state, or None if it is."""
    if choices.state is not None:
        return None if name in state else "not in --state"
    if roles.is_identifier(name):
        return "identifier"
    if roles.is_time(name) or roles.is_frame(name):
        return "another time"
    if roles.is_end(name):
        return "end of an episode"
    return "degrees, not the position" if roles.is_latitude(name) or roles.is_longitude(name) else None


def _no_observations(source: _Source, notes: _Notes) -> BadInput:
    found = ", ".join(map(repr, filter(None, source.frame.columns))) or "no columns"
    left_out = "".join(f"; {name} is left out ({reason})" for name, reason in notes.left_out.items() if name)
    hint = "; choose another --delimiter if these are several" if len(source.frame.columns) == 1 else ""
    return BadInput(f"no observation columns; the header has {found}{left_out}{hint}")


# --------------------------------------------------------------------------------------------------- rows and values


def _positions(source: _Source, columns: _Columns) -> tuple[dict[str, Array], tuple[float, ...]]:
    """The position columns, and the origin if they were degrees and are now metres."""
    found = {name: source.numbers(name) for name in columns.position}
    plain = {name: values for name, values in found.items() if values is not None}
    if not columns.degrees:
        return plain, ()
    lat, lon = (plain[name] for name in columns.degrees)
    valid = _valid_degrees(lat, lon)
    if valid.sum() <= _MOSTLY * (~np.isnan(lat)).sum():
        return plain, ()  # metres under the name of degrees
    origin = geography.middle(lat[valid], lon[valid])
    east, north = (np.where(valid, metres, np.nan) for metres in geography.to_metres(lat, lon, origin))
    taken = {"x", "y"} & {name.lower() for name in columns.others}
    return dict(zip(("east", "north") if taken else ("x", "y"), (east, north), strict=True)), origin


def _valid_degrees(lat: Array, lon: Array) -> Array:
    """Rows with a fix: in range, and not at 0, 0 where receivers without one place themselves."""
    limit = 180 if np.mean(np.abs(lon) <= 180) > _MOSTLY else 360
    return (np.abs(lat) <= 90) & (np.abs(lon) <= limit) & ((lat != 0) | (lon != 0))


def _ordered(
    source: _Source, columns: _Columns, times: Times | None, positions: list[Array], notes: _Notes
) -> tuple[Array, Array]:
    """The rows to keep, by episode in order of appearance and then by time, and the offsets of the episodes."""
    frame = source.frame
    named = frame[columns.episode].notna().all(axis=1).to_numpy() if columns.episode else np.ones(len(frame), bool)
    timed = ~np.isnan(times.seconds) if times else np.ones(len(frame), bool)
    placed = np.logical_and.reduce([np.ones(len(frame), bool), *(~np.isnan(values) for values in positions)])
    notes.drop(int((~named).sum()), "rows without an episode")
    notes.drop(int((named & ~timed).sum()), "rows without a time")
    notes.drop(int((named & timed & ~placed).sum()), "rows without a position")
    rows = np.flatnonzero(named & timed & placed)
    if not rows.size:
        lost = ", ".join(f"{what} ({count})" for what, count in notes.dropped.items())
        raise BadInput(f"no rows are left: {lost}; choose other columns with --episode, --time or --position")
    keys = frame.iloc[rows][columns.episode].assign(**{"": source.file[rows]})
    group = keys.groupby(list(keys.columns), sort=False).ngroup().to_numpy()
    if times is None:
        order = np.argsort(group, kind="stable")
        return rows[order], offsets_from_lengths(np.bincount(group))
    _check_restarts(source, columns, times, rows)
    order = np.lexsort((times.seconds[rows], group))  # stable
    rows, group = rows[order], group[order]
    fresh = np.concatenate([[True], (np.diff(times.seconds[rows]) != 0) | (np.diff(group) != 0)])
    notes.drop(int((~fresh).sum()), "rows with the time of the row before")
    return rows[fresh], offsets_from_lengths(np.bincount(group[fresh]))


def _check_restarts(source: _Source, columns: _Columns, times: Times, rows: Array) -> None:
    """A clock that starts again is a new run, not a row out of place; only the user can tell which column says so."""
    if columns.episode or times.dated:
        return
    back = np.flatnonzero((np.diff(times.seconds[rows]) < 0) & (np.diff(source.file[rows]) == 0))
    if back.size:
        remedy = "name the episode column with --episode, or sort all rows into one episode with --episode none"
        raise source.bad_cell(int(rows[back[0] + 1]), columns.time[0], "time goes back", remedy)


def _cells(
    source: _Source, columns: _Columns, positions: dict[str, Array], rows: Array, notes: _Notes
) -> dict[str, Array]:
    """The values of these rows by column, in the order of the table; metres that were degrees come first."""
    found = {name: values for name in columns.others if (values := source.numbers(name, notes)) is not None}
    found |= positions
    order = [name for name in positions if name not in source.frame.columns]
    return {name: found[name][rows] for name in [*order, *source.frame.columns] if name in found}


def _periods(cells: dict[str, Array], columns: _Columns, choices: Choices) -> dict[str, float]:
    """The angles among the state columns, with their periods."""
    names = [name for name in cells if columns.field(name) == "observations"]
    if choices.angles is not None:
        return {names[column]: period for column, period in parse_angles(choices.angles, names)}
    found = {name: angle_period(name, cells[name]) for name in names}
    return {name: period for name, period in found.items() if period}


def _fill(
    cells: dict[str, Array], seconds: Array | None, offsets: Array, periods: dict[str, float], notes: _Notes
) -> Array:
    """Fill missing values in place; remove columns that many episodes lack. Which episodes then lack none (E,)."""
    clock = np.arange(float(offsets[-1])) if seconds is None else seconds
    whole = np.ones(len(offsets) - 1, dtype=bool)
    for name, values in list(cells.items()):
        missing = np.isnan(values)
        if not missing.any():
            continue
        filled = fill_missing(values, clock, offsets, periods.get(name))
        lacking = np.logical_or.reduceat(np.isnan(filled), offsets[:-1])
        if lacking.mean() > _FEW:
            notes.left_out[name] = f"no value in {lacking.sum()} of {len(lacking)} episodes"
            del cells[name]
            continue
        whole &= ~lacking
        notes.filled += int((missing & ~np.isnan(filled)).sum())
        cells[name] = filled
    if not whole.any():
        raise BadInput("every episode lacks all values of some column; leave the emptiest out with --ignore")
    notes.drop(int((~whole).sum()), "episodes without any value of a column")
    return whole


# ------------------------------------------------------------------------------------------------------------ result


def _build(
    values: dict[str, Array],
    columns: _Columns,
    offsets: Array,
    seconds: Array | None,
    periods: dict[str, float],
    position: list[str],
    origin: tuple[float, ...],
) -> Trajectories:
    fields: dict[str, list[str]] = {}
    for name in values:
        fields.setdefault(columns.field(name), []).append(name)
    names = fields["observations"]
    arrays: dict[str, Any] = {}
    for role, members in fields.items():
        stacked = np.stack([values[name] for name in members], axis=1)
        arrays[role] = stacked[:, 0] if role in ("rewards", "source", "generated") else stacked.astype(np.float32)
    meta = Meta(
        columns=tuple(names),
        position=tuple(names.index(name) for name in position),
        angles=tuple((names.index(name), period) for name, period in periods.items() if name in names),
        geo_origin=origin,
    )
    return Trajectories(offsets=offsets, times=seconds, meta=meta, **arrays)


def _entry(
    data: Trajectories,
    columns: _Columns,
    times: Times | None,
    origin: tuple[float, ...],
    notes: _Notes,
    choices: Choices,
) -> dict[str, Any]:
    """The provenance of data read from tables: short texts that say what was taken for what."""
    source = ", ".join(columns.position or [data.meta.columns[column] for column in data.meta.position])
    metres = f" -> metres around {origin[0]:.3f}, {origin[1]:.3f}" if origin else _hint(data, columns, times)
    texts = {
        "episodes": f"column {' and '.join(columns.episode)}" if columns.episode else "one per file",
        "time": f"column {' and '.join(columns.time)} ({times.how})" if times else "none",
        "split": f"at gaps in time ({notes.gaps}); --gap says from how many seconds on" if notes.gaps else "",
        "position": (source or "not known") + metres,
        "state": ", ".join(data.meta.columns),
        "angles": ", ".join(
            f"{data.meta.columns[column]} (period {period:.5g})" for column, period in data.meta.angles
        ),
        "left out": ", ".join(f"{name} ({reason})" for name, reason in notes.left_out.items()),
        "dropped": ", ".join(f"{what} ({count})" for what, count in notes.dropped.items()),
        "filled": f"missing values by interpolation ({notes.filled})" if notes.filled else "",
    }
    given = {name: value for name, value in choices.given().items() if name != "every"}
    return {"origin": READ_FROM_TABLES} | {k: v for k, v in texts.items() if v} | ({"flags": given} if given else {})


def _hint(data: Trajectories, columns: _Columns, times: Times | None) -> str:
    """What to say of x and y of a dated track that may be degrees: in their range, and with small steps."""
    if not (times and times.dated and len(columns.position) == len(data.meta.position) == 2):
        return ""
    x, y = data.positions.T
    starts = data.window_starts(2)
    steps = np.abs(x[starts + 1] - x[starts]) + np.abs(y[starts + 1] - y[starts])
    if not len(steps) or np.abs(x).max() > 180 or np.abs(y).max() > 90 or np.median(steps) > 0.01:
        return ""
    return f" (if these are degrees: --position lon={columns.position[0]},lat={columns.position[1]})"
