"""Statistics and warnings about a dataset, as `scots data inspect` prints them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from scots.core.errors import BadInput
from scots.data.trajectories import Array, Trajectories

POSITION_NAMES = (("x", "y"), ("pos_x", "pos_y"), ("position_x", "position_y"), ("px", "py"))
"""Column names that are recognised as a position, in lower case."""

_HORIZON = 26  # states in a segment, the paper's H
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
        return tuple(_column(data, name.strip()) for name in requested.split(",")), False
    if data.meta.position:
        return data.meta.position, False
    names = [name.lower() for name in data.meta.columns]
    for pair in POSITION_NAMES:
        if all(name in names for name in pair):
            return tuple(names.index(name) for name in pair), False
    return tuple(range(min(2, data.observations.shape[1]))), True


def _column(data: Trajectories, name: str) -> int:
    if name in data.meta.columns:
        return data.meta.columns.index(name)
    columns = data.observations.shape[1]
    if name.isdigit() and int(name) < columns:
        return int(name)
    known = ", ".join(data.meta.columns) or f"0 to {columns - 1}"
    raise BadInput(f"--position: no observation column {name!r}; choose from {known}")


def inspect(data: Trajectories, position: str | None = None, horizon: int = _HORIZON) -> Inspection:
    """Episode lengths, step lengths, constant columns, time jitter, extent, and displacement over a segment."""
    columns, guessed = position_columns(data, position)
    positions = data.observations[:, list(columns)]
    names = data.meta.columns or tuple(str(n) for n in range(data.observations.shape[1]))
    bad_rows = {name: _nonfinite_rows(values) for name, values in data.arrays()}
    low, high = np.nanmin(data.observations, axis=0), np.nanmax(data.observations, axis=0)
    constant = [names[n] for n in np.flatnonzero(low == high)]
    facts: dict[str, Any] = {
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
        warnings.append(f"columns {facts['constant columns']} are constant and carry no information")
    short = int((data.lengths < horizon).sum())
    if short:
        warnings.append(
            f"{short} of {len(data)} episodes are shorter than a segment of {horizon} states and are not used"
        )
    times = facts.get("time step")
    if times and times["min"] <= 0:
        warnings.append("time does not increase on every step")
    elif times and times["90%"] > 1.5 * times["10%"]:
        warnings.append("time steps vary by more than half: resample to a fixed rate before learning temporal distance")
    if data.actions is None:
        warnings.append("no actions: augmented data will have states only")
    step = facts["step length"]
    scale = max(abs(end) for extent in facts["position extent"] for end in extent)
    if step and 0 < step["median"] < 100 * np.spacing(np.float32(scale)):
        warnings.append("steps are close to float32 resolution at this offset: subtract a local origin first")
    return warnings
