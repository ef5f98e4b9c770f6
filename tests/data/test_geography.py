"""The projection: back and forth, against the great circle, over the date line."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scots.data.geography import EARTH_RADIUS, distortion, middle, to_degrees, to_metres

PLACES = st.tuples(st.floats(-80, 80), st.floats(-180, 179.999999))


def great_circle(a: tuple[float, float], b: tuple[float, float]) -> float:
    """Metres between two places, by the haversine formula."""
    (lat, lon), (lat2, lon2) = np.radians(a), np.radians(b)
    h = np.sin((lat2 - lat) / 2) ** 2 + np.cos(lat) * np.cos(lat2) * np.sin((lon2 - lon) / 2) ** 2
    return float(2 * EARTH_RADIUS * np.arcsin(np.sqrt(h)))


@given(origin=PLACES, east=st.floats(-1e5, 1e5), north=st.floats(-1e5, 1e5))
def test_there_and_back(origin: tuple[float, float], east: float, north: float) -> None:
    latitude, longitude = to_degrees(np.array([east]), np.array([north]), origin)
    assert -180 <= longitude[0] < 180
    x, y = to_metres(latitude, longitude, origin)
    assert (x[0], y[0]) == (pytest.approx(east, abs=1e-5), pytest.approx(north, abs=1e-5))


@given(origin=PLACES, east=st.floats(-1e4, 1e4), north=st.floats(-1e4, 1e4))
def test_float32_metres_keep_millimetres_of_degrees(origin: tuple[float, float], east: float, north: float) -> None:
    stored = np.float32(east), np.float32(north)
    latitude, longitude = to_degrees(np.array([stored[0]]), np.array([stored[1]]), origin)
    x, y = to_metres(latitude, longitude, origin)
    assert np.hypot(x[0] - east, y[0] - north) < 2e-3


@given(origin=st.tuples(st.floats(-60, 60), st.floats(-180, 179)), angle=st.floats(0, 6.28), metres=st.floats(10, 1e4))
def test_distances_are_those_on_the_globe(origin: tuple[float, float], angle: float, metres: float) -> None:
    east, north = metres * np.cos(angle), metres * np.sin(angle)
    latitude, longitude = to_degrees(np.array([east]), np.array([north]), origin)
    assert great_circle(origin, (latitude[0], longitude[0])) == pytest.approx(metres, rel=3e-3)


def test_distortion_grows_with_the_distance() -> None:
    assert distortion(np.array([0.0, 1e4]), (48.0, 11.0)) == pytest.approx(0.0017, abs=2e-4)
    assert distortion(np.array([-1e5, 1e5]), (48.0, 11.0)) == pytest.approx(0.018, abs=1e-3)


def test_the_middle_may_lie_on_the_date_line() -> None:
    latitude, longitude = np.array([-17.0, -16.9, -17.1]), np.array([179.9, -179.9, -179.95])
    origin = middle(latitude, longitude)
    assert origin == (-17.0, -179.95)
    east, _ = to_metres(latitude, longitude, origin)
    assert np.abs(east).max() < 30_000
