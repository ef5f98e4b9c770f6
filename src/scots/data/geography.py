"""Latitude and longitude as metres around an origin, and back.

The projection is equirectangular: x = R cos(lat0) (lon - lon0) to the east, y = R (lat - lat0) to the north. East-west
distances are off by about y tan(lat0) / R: at 48 degrees by 0.2 % at 10 km from the origin and by 2 % at 100 km, which
is as far as it should be used; `distortion` tells the error for given data. Metres around an origin keep their
centimetres in float32, degrees do not.
"""

from __future__ import annotations

import numpy as np

from scots.data.trajectories import Array

EARTH_RADIUS = 6_371_008.8  # metres, the mean radius
FAR = 100e3  # metres from the origin beyond which the projection deserves a warning


def middle(latitude: Array, longitude: Array) -> tuple[float, float]:
    """The origin of data in degrees: its median, to a millionth of a degree; data may cross the date line."""
    east = _around(longitude, longitude[0])
    lon = float(_around(np.median(east) + longitude[0], 0.0))
    return round(float(np.median(latitude)), 6), round(lon, 6)


def to_metres(latitude: Array, longitude: Array, origin: tuple[float, ...]) -> tuple[Array, Array]:
    """Degrees -> metres to the east and to the north of the origin, in double precision."""
    scale = np.radians(1) * EARTH_RADIUS
    return scale * np.cos(np.radians(origin[0])) * _around(longitude, origin[1]), scale * (latitude - origin[0])


def to_degrees(east: Array, north: Array, origin: tuple[float, ...]) -> tuple[Array, Array]:
    """The inverse of `to_metres`: latitude and longitude in double precision, longitude in [-180, 180)."""
    scale = np.radians(1) * EARTH_RADIUS
    latitude = np.asarray(north, dtype=np.float64) / scale + origin[0]
    longitude = np.asarray(east, dtype=np.float64) / (scale * np.cos(np.radians(origin[0]))) + origin[1]
    return latitude, _around(longitude, 0.0)


def distortion(north: Array, origin: tuple[float, ...]) -> float:
    """The largest relative error of an east-west distance this far north or south of the origin."""
    latitude = np.radians(np.clip(to_degrees(np.zeros_like(north), north, origin)[0], -89, 89))
    return float(np.max(np.abs(np.cos(np.radians(origin[0])) / np.cos(latitude) - 1)))


def _around(longitude: Array, origin: float) -> Array:
    """Degrees to the east of an origin, in [-180, 180)."""
    return np.asarray((longitude - origin + 180) % 360 - 180)
