"""Statistics and warnings about a dataset, as `scots data inspect` prints them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from scots.core.errors import BadInput
from scots.data import geography
from scots.data.resampling import GAP_STEPS, typical_step
from scots.data.trajectories import Array, Meta, Trajectories

POSITION_NAMES = (
    ("x", "y"),
    ("pos_x", "pos_y"),
    ("position_x", "position_y"),
    ("px", "py"),
    ("easting", "northing"),
    ("utm_easting", "utm_northing"),
    ("utm_x", "utm_y"),
)
"""Column names that are recognised as a position, in lower case."""

READ_FROM_TABLES = "read from tables"
"""Origin of data whose columns were guessed or chosen; its provenance says what was taken for what."""

RESAMPLED = "resampled"
"""Origin of data that was brought to an even time step."""

HORIZON = 26
"""States in a segment, the paper's H."""

_BLOCK = 1 << 16  # rows processed at a time


@dataclass(frozen=True)
class Inspection:
    """Statistics and warnings about a dataset, ready to print or to write as JSON."""

    facts: dict[str, Any]
    warnings: tuple[str, ...]


def position_columns(data: Trajectories, requested: str | None = None) -> tuple[tuple[int, ...], bool]:
    """Position columns of the observations, and whether they are only a guess.

    In order of preference: the requested columns (names or numbers, comma-separated), those in the metadata, columns
    with a common position name, and as a guess the first two.
    """
    if requested:
        columns = tuple(column_number(data, name.strip(), "--position") for name in requested.split(","))
        if len(set(columns)) < len(columns):
            raise BadInput(f"--position {requested}: names a column twice; name each once")
        return columns, False
    if data.meta.position:
        return data.meta.position, False
    names = [name.lower() for name in data.meta.columns]
    for pair in POSITION_NAMES:
        if all(name in names for name in pair):
            return tuple(names.index(name) for name in pair), False
    return tuple(range(min(2, data.observations.shape[1]))), True


def column_number(data: Trajectories, name: str, flag: str) -> int:
    """The number of an observation column that a flag names or numbers."""
    if name in data.meta.columns:
        return data.meta.columns.index(name)
    columns = data.observations.shape[1]
    if name.isdigit() and int(name) < columns:
        return int(name)
    known = ", ".join(data.meta.columns) or f"0 to {columns - 1}"
    raise BadInput(f"{flag}: no observation column {name!r}; choose from {known}")


def how_read(meta: Meta) -> dict[str, str]:
    """What was taken for what when the data was read from tables: texts by role, in the order to print them."""
    entry = next((step for step in meta.provenance if step.get("origin") == READ_FROM_TABLES), {})
    texts = {role: text for role, text in entry.items() if role not in ("origin", "flags")}
    resampled = next((step for step in meta.provenance if step.get("origin") == RESAMPLED), None)
    return texts | ({"resampled": f"every {resampled['every']:g} s, {resampled['resampling']}"} if resampled else {})


def even_step(meta: Meta) -> float | None:
    """Seconds from one state to the next, where data of this meta, or what it was made from, was made even."""
    steps = [step["every"] for step in meta.provenance if step.get("origin") == RESAMPLED]
    return float(steps[-1]) if steps else None


def inspect(data: Trajectories, position: str | None = None, horizon: int = HORIZON) -> Inspection:
    """Episode lengths, step lengths, constant columns, time jitter, extent, and displacement over a segment."""
    columns, guessed = position_columns(data, position)
    positions = data.observations[:, list(columns)]
    names = data.meta.columns or tuple(str(n) for n in range(data.observations.shape[1]))
    bad_rows = {name: _nonfinite_rows(values) for name, values in data.arrays()}
    low, high = np.nanmin(data.observations, axis=0), np.nanmax(data.observations, axis=0)
    constant = [names[n] for n in np.flatnonzero(low == high)]
    facts: dict[str, Any] = {
        **{f"read: {role}": text for role, text in how_read(data.meta).items()},
        "dataset": data.meta.dataset,
        "origin": data.meta.provenance[-1].get("origin") if data.meta.provenance else None,
        "episodes": len(data),
        "rows": data.rows,
        "transitions": data.rows - len(data),
        "observation columns": data.observations.shape[1],
        "other arrays": {name: list(values.shape[1:]) for name, values in data.arrays() if name != "observations"},
        "episode states": _quantiles(data.lengths),
        "position columns": [names[n] for n in columns],
        "position extent": [[float(low[n]), float(high[n])] for n in columns],
        "step length": _quantiles(_step_lengths(positions, data)),
        "idle steps": float(np.mean(_step_lengths(positions, data) < 1e-6)) if data.rows > len(data) else None,
        "rows with NaN or infinity": {name: len(rows) for name, rows in bad_rows.items() if len(rows)},
        "constant columns": constant,
        f"displacement over {horizon} states": _quantiles(_displacements(positions, data, horizon)),
    }
    if data.times is not None:
        facts["time step"] = _quantiles(_time_steps(data.times, data))
    nonfinite = [
        f"{name}: row {rows[0]} is the first of {len(rows)} with NaN or infinity"
        for name, rows in bad_rows.items()
        if len(rows)
    ]
    return Inspection(facts, (*nonfinite, *_warnings(data, facts, guessed, horizon)))


def _nonfinite_rows(values: Array) -> Array:
    """Rows that hold a NaN or infinity."""
    blocks = [values[n : n + _BLOCK].reshape(len(values[n : n + _BLOCK]), -1) for n in range(0, len(values), _BLOCK)]
    return np.flatnonzero(np.concatenate([~np.isfinite(block).all(axis=1) for block in blocks]))


def _quantiles(values: Array) -> dict[str, float] | None:
    if not len(values):
        return None
    points = np.nanquantile(values, [0, 0.1, 0.5, 0.9, 1])
    return {name: float(value) for name, value in zip(("min", "10%", "median", "90%", "max"), points, strict=True)}


def _step_lengths(positions: Array, data: Trajectories) -> Array:
    starts = data.window_starts(2)
    blocks = [starts[n : n + _BLOCK] for n in range(0, len(starts), _BLOCK)]
    return np.concatenate([np.zeros(0), *(np.linalg.norm(positions[b + 1] - positions[b], axis=1) for b in blocks)])


def _displacements(positions: Array, data: Trajectories, horizon: int) -> Array:
    starts = data.window_starts(horizon)
    return np.linalg.norm(positions[starts + horizon - 1] - positions[starts], axis=1)


def _time_steps(times: Array, data: Trajectories) -> Array:
    starts = data.window_starts(2)
    return times[starts + 1] - times[starts]


def _warnings(data: Trajectories, facts: dict[str, Any], guessed: bool, horizon: int) -> list[str]:
    warnings = []
    if guessed:
        warnings.append(f"position columns are assumed to be {facts['position columns']}; set them with --position")
    if facts["constant columns"]:
        flag = f"leave them out with --ignore {','.join(facts['constant columns'])}"
        warnings.append(f"columns {facts['constant columns']} are constant and carry no information: {flag}")
    if fixed := _fixed_columns(data, facts):
        flag = f"leave them out of the state with --ignore {','.join(fixed)}"
        warnings.append(
            f"columns {fixed} never change within an episode, so trajectories cannot be joined well: {flag}"
        )
    short = int((data.lengths < horizon).sum())
    if short:
        warnings.append(
            f"{short} of {len(data)} episodes are shorter than a segment of {horizon} states and are not used"
        )
    times = facts.get("time step")
    if times and times["min"] <= 0:
        warnings.append("time does not increase on every step")
    elif times and data.times is not None:
        warnings += _time_warnings(_time_steps(data.times, data), times, typical_step(data))
    if data.actions is None:
        warnings.append("no actions: augmented data will have states only")
    step = facts["step length"]
    scale = max(abs(end) for extent in facts["position extent"] for end in extent)
    if step and 0 < step["median"] < 100 * np.spacing(np.float32(scale)):
        warnings.append("steps are close to float32 resolution at this offset: subtract a local origin first")
    if data.meta.geo_origin and scale > geography.FAR:
        error = geography.distortion(data.positions[:, 1].astype(np.float64), data.meta.geo_origin)
        warnings.append(
            f"the data reaches {scale / 1000:,.0f} km from its middle: east-west distances are off by up to {error:.0%}"
        )
    return warnings


def _fixed_columns(data: Trajectories, facts: dict[str, Any]) -> list[str]:
    """Columns that tell episodes apart but not their states, such as the size of a ship; the position is none."""
    if (data.lengths > 1).sum() < 2:
        return []
    low, high = (end.reduceat(data.observations, data.offsets[:-1], axis=0) for end in (np.minimum, np.maximum))
    names = data.meta.columns or tuple(str(n) for n in range(data.observations.shape[1]))
    fixed = [names[n] for n in np.flatnonzero((low == high).all(axis=0))]
    return [name for name in fixed if name not in (*facts["constant columns"], *facts["position columns"])]


def _time_warnings(steps: Array, times: dict[str, float], typical: float) -> list[str]:
    warnings, every = [], f"--every {_short(typical)}"
    if times["90%"] > 1.5 * times["10%"]:
        extent = f"from {_short(times['10%'])} to {_short(times['90%'])} s"
        warnings.append(f"time steps vary by more than half, {extent}: make them even with {every}")
    if gaps := int((steps > GAP_STEPS * typical).sum()):
        warnings.append(f"{gaps} steps are longer than {GAP_STEPS} typical ones: {every} splits there")
    return warnings


def _short(value: float) -> str:
    """Three digits, without an exponent where that can be."""
    return f"{float(f'{value:.3g}'):g}"
