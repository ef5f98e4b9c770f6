"""A LiDAR among straight walls and round people: one scan, exact, with work only where a ray can meet a wall."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scots.data.trajectories import Array

_EDGE = 1e-9  # rays by which neighbouring walls overlap, so that none slips through between them


def wall_segments(outlines: Sequence[Array]) -> Array:
    """The pieces (S, 2, 2) of lines (n, 2) that have the floor on their left."""
    return np.concatenate([np.stack([line[:-1], line[1:]], axis=1) for line in outlines])


def ray_directions(heading: float, rays: int) -> Array:
    """Unit vectors (R, 2) of rays all around, counter-clockwise; the first points backwards."""
    angles = heading - np.pi + 2 * np.pi / rays * np.arange(rays)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def cast_rays(
    walls: Array, people: Array, radius: float, position: Array, heading: float, rays: int, longest: float
) -> Array:
    """Ranges (R,) from a position on the floor to walls (S, 2, 2) and to people (P, 2), `longest` where nothing is.

    A wall that faces the position covers an interval of ray numbers; only these rays are intersected with it.
    """
    directions, ranges = ray_directions(heading, rays), np.full(rays, longest)
    begin, end = walls[:, 0] - position, walls[:, 1] - position
    facing = _cross(begin, end) > 0
    begin, end = begin[facing], end[facing]
    first, count = _rays_of(begin, end, heading, rays)
    wall = np.repeat(np.arange(len(begin)), count)
    within = np.arange(len(wall)) - np.repeat(np.cumsum(count) - count, count)
    ray = (first[wall] + within) % rays
    along = (end - begin)[wall]
    with np.errstate(divide="ignore"):  # a ray along a wall meets it at infinity
        distance = _cross(begin[wall], along) / _cross(directions[ray], along)
    np.minimum.at(ranges, ray, np.where(distance > 0, distance, np.inf))
    return np.minimum(ranges, _nearest_person(people - position, radius, directions)) if len(people) else ranges


def _rays_of(begin: Array, end: Array, heading: float, rays: int) -> tuple[Array, Array]:
    """Of walls (S, 2) as seen from the origin, the number of the first ray and how many rays meet each (S,)."""
    step = 2 * np.pi / rays
    low = (np.arctan2(begin[:, 1], begin[:, 0]) - heading + np.pi) / step
    span = (np.arctan2(end[:, 1], end[:, 0]) - np.arctan2(begin[:, 1], begin[:, 0])) % (2 * np.pi) / step
    first = np.ceil(low - _EDGE)
    count = np.floor(low + span + _EDGE) - first + 1
    return first.astype(np.int64), np.maximum(count, 0).astype(np.int64)


def _nearest_person(people: Array, radius: float, directions: Array) -> Array:
    """Distance along every ray (R,) to the nearest of people (P, 2), who are discs; infinity where there is none."""
    ahead = people @ directions.T  # (P, R) of the centre, along the ray
    inside = radius**2 - (np.square(people).sum(axis=1)[:, None] - np.square(ahead))
    hit = (inside >= 0) & (ahead > 0)
    return np.where(hit, ahead - np.sqrt(np.maximum(inside, 0)), np.inf).min(axis=0)


def _cross(a: Array, b: Array) -> Array:
    return a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]
