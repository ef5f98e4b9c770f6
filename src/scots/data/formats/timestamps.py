"""Times as people write them -> seconds: ISO 8601 or day-first text with or without a zone, epochs, plain numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from scots.core.errors import BadInput
from scots.data.trajectories import Array

_ISO = r"\d{4}[-/]?\d{1,2}[-/]?\d{1,2}([T ]\d{1,2}.*)?"
_ZONE = r".*\d\s*(Z|UTC|GMT)|.*:\d{2}(\.\d+)?\s*[+-]\d{2}(:?\d{2})?"
_INSTANT = r"(\d{4}[-/]\d{1,2}[-/]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4})[T ,]+\d{1,2}:\d{2}.*"
_DATE = r"\d{4}[-/]\d{1,2}[-/]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{4}"
_NUMERIC = re.compile(r"\s*(\d{1,2})([./-])(\d{1,2})[./-](\d{4}|\d{2})(?:[T ,]+(.*))?")
_CLOCK = re.compile(r"\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?")
_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_EPOCHS = ((1e17, 1e-9, "nanoseconds"), (1e14, 1e-6, "microseconds"), (1e11, 1e-3, "milliseconds"), (1e8, 1, "seconds"))


@dataclass(frozen=True)
class Times:
    """Seconds of each row, NaN where there are none, and how the cells were read."""

    seconds: Array
    how: str
    dated: bool = False  # instants of a calendar, so that time never starts again


class BadCell(Exception):
    """A cell that is no time: its row and what is wrong."""

    def __init__(self, row: int, problem: str) -> None:
        super().__init__(problem)
        self.row = row


def looks_like_time(column: Any) -> bool:
    """Whether nearly all cells of a column are dates with a time of day."""
    if column.dtype.kind == "M":
        return True
    cells = column.dropna().head(1000)
    if column.dtype.kind in "biuf" or not len(cells):
        return False
    return bool(cells.astype(str).str.strip().str.fullmatch(_INSTANT).mean() > 0.9)


def is_instant(cell: str) -> bool:
    """Whether a cell is a date, a time of day or both: no name of a column."""
    return bool(re.fullmatch(f"{_INSTANT}|{_DATE}|{_CLOCK.pattern}", cell.strip()))


def is_clock(column: Any) -> bool:
    """Whether the cells of a column are times of day without a date."""
    if column.dtype.kind in "biufM" or column.isna().all():
        return False
    return bool(column.dropna().astype(str).str.strip().str.fullmatch(_CLOCK).all())


def to_seconds(column: Any, name: str, form: str | None = None, unit: float | None = None) -> Times:
    """The times of a column.

    Dates and epochs count from the first instant of the column; other numbers stay as they are. `form` is what the
    user said: a unit such as "ms", or a format such as "%d/%m/%Y %H:%M". `unit` is what the name said, in seconds.
    """
    if column.dtype.kind == "M":
        return _since_first(pd.to_datetime(column, utc=True), "timestamps")
    if column.dtype.kind == "m":
        return Times(column.dt.total_seconds().to_numpy(dtype=np.float64), "durations")
    numbers = pd.to_numeric(column, errors="coerce")
    mostly = numbers.notna().sum() > (numbers.isna() & column.notna()).sum()  # then a cell that is none is at fault
    if form in _UNITS or (form is None and (mostly or not column.notna().any())):
        return _from_numbers(column, numbers, _UNITS[form] if form else unit)
    text = column.astype("str").str.strip()
    if form is None and is_clock(text):
        return Times(_seconds_of_day(text), "times of day")
    parsed, how = _chosen(text, form) if form else _parse(text, name)
    if (bad := np.flatnonzero(parsed.isna() & text.notna())).size:
        raise BadCell(int(bad[0]), f"{text.iloc[bad[0]]!r} is no time like the others")
    zone = "with zone" if text.dropna().str.fullmatch(_ZONE).any() else "no zone: taken as UTC"
    return _since_first(parsed, f"{how}, {zone}")


def _seconds_of_day(text: Any) -> Array:
    parts = text.str.split(":", expand=True).astype(float).fillna(0.0)
    seconds = sum(parts[part] * 60.0 ** (2 - part) for part in parts)
    return np.where(text.isna(), np.nan, np.asarray(seconds, dtype=np.float64))


def _from_numbers(column: Any, numbers: Any, unit: float | None) -> Times:
    if (bad := np.flatnonzero(numbers.isna() & column.notna())).size:
        raise BadCell(int(bad[0]), f"{column.iloc[bad[0]]!r} is not a number like the others")
    values = numbers.to_numpy(dtype=np.float64)
    if np.isnan(values).all():
        return Times(values, "empty")
    size = float(np.nanmedian(np.abs(values)))
    for least, seconds, word in _EPOCHS:
        if size >= least and unit in (None, seconds):
            first = numbers.min()
            start = _iso(pd.to_datetime(float(first) * seconds, unit="s", utc=True))
            since = (numbers - first).to_numpy(dtype=np.float64) * seconds
            return Times(since, f"epoch {word}, from {start}", dated=True)
    if unit is None or unit == 1:
        return Times(values, "seconds")
    return Times(values * unit, f"units of {unit:g} s")


def _since_first(parsed: Any, how: str) -> Times:
    first = parsed.min()
    if pd.isna(first):
        return Times(np.full(len(parsed), np.nan), "empty")
    seconds = (parsed - first).dt.total_seconds().to_numpy(dtype=np.float64)
    return Times(seconds, f"{how}, from {_iso(first)}", dated=True)


def _iso(instant: Any) -> str:
    return str(instant.isoformat()).replace("+00:00", "Z")


def _chosen(text: Any, form: str) -> tuple[Any, str]:
    try:
        return pd.to_datetime(text, format=form, utc=True, errors="coerce"), f"as {form}"
    except ValueError as error:
        raise BadInput(
            f"--time: {form!r} is no format ({error}); write a unit (ms) or one like %d/%m/%Y %H:%M"
        ) from error


def _parse(text: Any, name: str) -> tuple[Any, str]:
    cells = text.dropna()
    if cells.str.fullmatch(_ISO).mean() > 0.5:
        zoned = text.str.replace(r"\s*(UTC|GMT)$", "Z", regex=True)
        return pd.to_datetime(zoned, format="ISO8601", utc=True, errors="coerce"), "ISO 8601"
    day_first = _day_first(cells, name)
    how = "other dates" if day_first is None else "day first" if day_first else "month first"
    form = None if day_first is None else _format_of(cells.iloc[0], day_first)
    if form:
        parsed = pd.to_datetime(text, format=form, utc=True, errors="coerce")
        if not (parsed.isna() & text.notna()).any():
            return parsed, how
    parsed = pd.to_datetime(text, format="mixed", dayfirst=bool(day_first), utc=True, errors="coerce")
    return parsed, how


def _day_first(cells: Any, name: str) -> bool | None:
    """Whether dates such as 31/12/2024 have the day first; None for dates of another kind."""
    parts = cells.str.extract(_NUMERIC)
    numbers = parts[[0, 2]].dropna().astype(int)
    if numbers.empty:
        return None
    if (numbers[0] > 12).any():
        return True
    if (numbers[2] > 12).any():
        return False
    if (parts[1] == ".").all():  # nobody writes the month first with dots
        return True
    example = cells.iloc[0]
    form = _format_of(example, True) or "%d/%m/%Y"
    raise BadInput(
        f"column {name!r}: {example!r} may have the day or the month first; say which: --time '{name}={form}'"
    )


def _format_of(cell: str, day_first: bool) -> str | None:
    """The format of a date in digits with a plain clock, so that all cells are parsed fast; None for any other."""
    match = _NUMERIC.fullmatch(cell)
    if not match:
        return None
    separator, year = match[2], "%Y" if len(match[4]) == 4 else "%y"
    date = separator.join(["%d", "%m", year] if day_first else ["%m", "%d", year])
    between = cell[match.end(4) : match.start(5)] if match[5] else ""
    clock = _CLOCK.fullmatch(match[5] or "")
    if not match[5]:
        return date
    return date + between + ("%H:%M:%S.%f" if clock[2] else "%H:%M:%S" if clock[1] else "%H:%M") if clock else None
