"""Angles: columns that wrap around, found by name and range, and differences the short way round."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from scots.core.errors import BadInput
from scots.data.trajectories import Array

DEGREES, RADIANS = 360.0, 2 * float(np.pi)
_NAMES = {"heading", "hdg", "bearing", "course", "cog", "yaw", "theta", "psi", "azimuth", "orientation", "direction"}
_DERIVED = {"rate", "speed", "velocity", "vel", "dot", "accuracy", "error", "std", "var", "sin", "cos"}  # no angles


def parse_angles(text: str, names: Sequence[str]) -> tuple[tuple[int, float], ...]:
    """The columns and periods of `--angles`: "heading=360,yaw=6.2832", or "none"."""
    if text.strip().lower() == "none":
        return ()
    return tuple(_parse_angle(word.strip(), names) for word in text.split(","))


def _parse_angle(word: str, names: Sequence[str]) -> tuple[int, float]:
    name, _, period = (part.strip() for part in word.partition("="))
    if name not in names:
        raise BadInput(f"--angles: no state column {name!r}; choose from {', '.join(names)}")
    try:
        value = float(period)
    except ValueError:
        value = 0.0
    if not 0 < value < np.inf:
        raise BadInput(
            f"--angles: {word!r} needs a period, such as {name}=360 for degrees or {name}=6.2832 for radians"
        )
    # 6.28 and 6.2832 both mean a full turn.
    return names.index(name), RADIANS if abs(value - RADIANS) < 0.01 else value


def angle_period(name: str, values: Array) -> float | None:
    """The period of a column whose name and range say that it is an angle: 360, 2 pi, or None."""
    parts = set(re.findall(r"[a-z]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", name).lower()))
    finite = values[np.isfinite(values)]
    if not parts & _NAMES or parts & _DERIVED or not finite.size or finite.min() == finite.max():
        return None
    # A column within one turn of radians is radians: degrees that all lie within six are unlikely.
    for period in (RADIANS, DEGREES):
        slack = 1e-3 * period
        if finite.min() >= -period / 2 - slack and finite.max() <= period + slack and np.ptp(finite) <= period + slack:
            return period
    return None


def turn(start: Array, end: Array, period: float) -> Array:
    """The difference from one angle to another, the short way round: in [-period / 2, period / 2)."""
    return (end - start + period / 2) % period - period / 2


def into_range(values: Array, like: Array, period: float) -> Array:
    """Angles moved by whole turns into the range that the recorded ones use: around zero, or from zero up."""
    low = -period / 2 if np.nanmin(like) < 0 else 0.0
    inside = (values >= low) & (values < low + period)  # these are not touched, not even by rounding
    return np.where(inside, values, (values - low) % period + low)
