"""What a dataset is like: the numbers behind `scots data inspect`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from scots.core.errors import BadInput
from scots.data.trajectories import Array, Trajectories

HORIZON = 26  # states in a segment, the paper's H
POSITION_NAMES = (("x", "y"), ("pos_x", "pos_y"), ("position_x", "position_y"), ("px", "py"))
BLOCK = 1 << 16  # rows looked at together


@dataclass(frozen=True)
class Inspection:
    """Facts and warnings about a dataset, ready to print or to write as JSON."""

    facts: dict[str, Any]
    warnings: tuple[str, ...]


def position_columns(data: Trajectories, wanted: str | None = None) -> tuple[tuple[int, ...], bool]:
    """Observation columns that are a place: asked for, declared, named, or (True: only assumed) the first two."""
    if wanted:
        return tuple(_column(data, name.strip()) for name in wanted.split(",")), False
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
    raise BadInput(f"--position: no observation column {name!r}; there are {known}")


def inspect(data: Trajectories, position: str | None = None, horizon: int = HORIZON) -> Inspection:
    """Episodes, lengths, steps, constant columns, time jitter, extent, and how far a segment gets."""
    columns, assumed = position_columns(data, position)
    places = data.observations[:, list(columns)]
    names = data.meta.columns or tuple(str(n) for n in range(data.observations.shape[1]))
    bad = {name: _not_finite(values) for name, values in data.arrays()}
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
        "step length": _quantiles(_steps(places, data)),
        "idle steps": float(np.mean(_steps(places, data) < 1e-6)) if data.rows > len(data) else None,
        "rows with NaN or infinity": {name: len(rows) for name, rows in bad.items() if len(rows)},
        "constant columns": constant,
        f"displacement over {horizon} states": _quantiles(_displacement(places, data, horizon)),
    }
    if data.times is not None:
        facts["time step"] = _quantiles(_differences(data.times, data))
    broken = [
        f"{name}: row {rows[0]} is the first of {len(rows)} with NaN or infinity"
        for name, rows in bad.items()
        if len(rows)
    ]
    return Inspection(facts, (*broken, *_warnings(data, facts, assumed, horizon)))


def _not_finite(values: Array) -> Array:
    """Rows that hold a NaN or infinity."""
    blocks = [values[n : n + BLOCK].reshape(len(values[n : n + BLOCK]), -1) for n in range(0, len(values), BLOCK)]
    return np.flatnonzero(np.concatenate([~np.isfinite(block).all(axis=1) for block in blocks]))


def _quantiles(values: Array) -> dict[str, float] | None:
    if not len(values):
        return None
    points = np.nanquantile(values, [0, 0.1, 0.5, 0.9, 1])
    return {name: float(value) for name, value in zip(("min", "10%", "median", "90%", "max"), points, strict=True)}


def _steps(places: Array, data: Trajectories) -> Array:
    starts = data.window_starts(2)
    blocks = [starts[n : n + BLOCK] for n in range(0, len(starts), BLOCK)]
    return np.concatenate([np.zeros(0), *(np.linalg.norm(places[b + 1] - places[b], axis=1) for b in blocks)])


def _displacement(places: Array, data: Trajectories, horizon: int) -> Array:
    starts = data.window_starts(horizon)
    return np.linalg.norm(places[starts + horizon - 1] - places[starts], axis=1)


def _differences(times: Array, data: Trajectories) -> Array:
    starts = data.window_starts(2)
    return times[starts + 1] - times[starts]


def _warnings(data: Trajectories, facts: dict[str, Any], assumed: bool, horizon: int) -> list[str]:
    found = []
    if assumed:
        found.append(f"position columns are assumed to be {facts['position columns']}; say --position to choose")
    if facts["constant columns"]:
        found.append(f"columns {facts['constant columns']} never change and carry nothing")
    short = int((data.lengths < horizon).sum())
    if short:
        found.append(f"{short} of {len(data)} episodes are shorter than a segment of {horizon} states and are not used")
    times = facts.get("time step")
    if times and times["min"] <= 0:
        found.append("time does not increase on every step")
    elif times and times["90%"] > 1.5 * times["10%"]:
        found.append("time steps vary by more than half: resample to an even rate before learning temporal distance")
    if data.actions is None:
        found.append("no actions: augmented data will have states only")
    step = facts["step length"]
    scale = max(abs(end) for extent in facts["position extent"] for end in extent)
    if step and 0 < step["median"] < 100 * np.spacing(np.float32(scale)):
        found.append("steps are close to float32 resolution at this offset: subtract a local origin first")
    return found
