"""GPS-like tracks of vehicles in a small street network: an example of own logs, with no simulator behind it.

Files as a logger writes them: time, x, y, heading, speed at irregular times, with repeated rows and gaps, and no word
on what a column means. The map is for scoring alone; nothing that learns sees it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np
from scipy.spatial import cKDTree

from scots.core.config import Seeds
from scots.core.errors import BadInput
from scots.core.files import atomic
from scots.core.resources import check_memory
from scots.data.trajectories import Array, Meta, Trajectories, offsets_from_lengths

FILES = 60
META = Meta(columns=("x", "y", "heading", "speed"), position=(0, 1), angles=((2, 360.0),))

_ROWS = (30, 375)  # of a file, both included
_CRUISE = (5.0, 8.0)  # m/s, one for each vehicle
_ACCELERATION, _SIDEWAYS = 1.5, 1.5  # m/s^2 along the street, and across it in a turn
_CRAWL = 1.5  # m/s, the least speed
_CORNER = 4  # metres before and after a corner over which a vehicle turns
_JITTER = 0.15  # seconds, of intervals of one second
_REPEATS, _GAPS = 0.01, 0.005  # shares of intervals
_GAP = (8.0, 30.0)  # seconds
_NOISE = (1.0, 1.0, 2.0, 0.2)  # of x and y (m), heading (degrees) and speed (m/s)
_NOISE_MEMORY = 10.0  # seconds after which errors have changed: those of a receiver drift, they do not jump
_MADE_BYTES = 100  # of memory for a row while it is made, and less on the disk
_BLOCK = 1 << 14  # positions whose distances are measured at a time

_JUNCTIONS = {
    **{"A": (60, 120), "B": (330, 60), "C": (620, 110), "D": (930, 80)},
    **{"E": (100, 400), "F": (380, 330), "G": (600, 420), "H": (900, 360)},
    **{"I": (150, 700), "J": (420, 620), "K": (680, 680), "L": (940, 640)},
    **{"M": (330, 880), "N": (640, 930), "O": (890, 900)},
    **{"P": (530, 790), "Q": (30, 810), "R": (540, 230)},  # dead ends
}
_STREETS: tuple[tuple[str, tuple[tuple[int, int], ...]], ...] = (  # from and to, and the points between them
    ("AB", ((170, 70), (250, 50))),
    ("BC", ((420, 100), (530, 130))),
    ("CD", ()),
    ("AE", ((40, 220), (50, 320))),
    ("BF", ((310, 150), (330, 250))),
    ("CH", ((720, 150), (810, 220), (870, 300))),
    ("DH", ((980, 170), (970, 280))),
    ("EF", ((200, 430), (300, 390))),
    ("FG", ((490, 390),)),
    ("GH", ((690, 380), (790, 370))),
    ("EI", ((80, 500), (90, 610))),
    ("FJ", ((370, 430), (390, 540))),
    ("GJ", ((520, 480), (470, 550))),
    ("GK", ((610, 520), (640, 610))),
    ("KL", ((770, 710), (860, 690))),
    ("HL", ((850, 450), (870, 560))),
    ("IJ", ((240, 650), (330, 610))),
    ("IM", ((180, 790), (240, 850))),
    ("JM", ((400, 710), (350, 800))),
    ("KN", ((720, 770), (700, 860))),
    ("MN", ((430, 930), (540, 950))),
    ("NO", ((760, 920),)),
    ("LO", ((980, 730), (950, 830))),
    ("KP", ((600, 700),)),
    ("IQ", ((90, 730),)),
    ("FR", ((440, 270),)),
)


@dataclass(frozen=True)
class Street:
    """A polyline from one junction to another."""

    ends: tuple[str, str]
    points: Array  # (n, 2) metres, both junctions included

    @property
    def length(self) -> float:
        """Metres along the street."""
        return float(np.linalg.norm(np.diff(self.points, axis=0), axis=1).sum())

    def along(self, spacing: float) -> Array:
        """Points at most `spacing` metres apart from end to end (n, 2)."""
        pieces = []
        for start, end in pairwise(self.points):
            steps = int(np.ceil(np.linalg.norm(end - start) / spacing))
            pieces.append(start + (end - start) * np.arange(steps)[:, None] / steps)
        return np.concatenate([*pieces, self.points[-1:]])

    def from_end(self, junction: str) -> Street:
        """The same street, driven from this junction."""
        return self if junction == self.ends[0] else Street(self.ends[::-1], self.points[::-1])


class Streets:
    """The street network: what tracks are driven on and what they, and all that is made of them, are scored by."""

    def __init__(self) -> None:
        self.streets = tuple(
            Street((name[0], name[1]), np.array([_JUNCTIONS[name[0]], *between, _JUNCTIONS[name[1]]], dtype=np.float64))
            for name, between in _STREETS
        )

    def distance(self, positions: Array) -> Array:
        """Metres from positions (N, 2) to the nearest street (N,)."""
        starts, ends = self._pieces
        ways = ends - starts
        nearest = np.empty(len(positions))
        for first in range(0, len(positions), _BLOCK):
            offsets = positions[first : first + _BLOCK, None].astype(np.float64) - starts
            share = np.clip((offsets * ways).sum(axis=-1) / np.square(ways).sum(axis=-1), 0, 1)
            gaps = np.linalg.norm(offsets - share[..., None] * ways, axis=-1)
            nearest[first : first + _BLOCK] = gaps.min(axis=1)
        return nearest

    def on_street(self, positions: Array, tolerance: float = 5.0) -> Array:
        """Whether positions (N, 2) lie within this many metres of a street (N,)."""
        return self.distance(positions) <= tolerance

    def coverage(self, positions: Array, within: float = 10.0) -> Array:
        """The share of every street (streets,) that has one of the positions (N, 2) within this many metres."""
        tree = cKDTree(positions)
        return np.array([(tree.query(street.along(5.0))[0] <= within).mean() for street in self.streets])

    @cached_property
    def _pieces(self) -> tuple[Array, Array]:
        pairs = [pair for street in self.streets for pair in pairwise(street.points)]
        return np.array([start for start, _ in pairs]), np.array([end for _, end in pairs])

    def at(self, junction: str) -> list[Street]:
        """The streets that begin or end at a junction, as driven from it."""
        return [street.from_end(junction) for street in self.streets if junction in street.ends]

    def is_dead_end(self, junction: str) -> bool:
        """Whether only one street leads there."""
        return len(self.at(junction)) == 1

    def route(self, first: int, length: float, rng: np.random.Generator) -> list[Street]:
        """Streets to drive one after the other, at least this many metres: no turning back, out of dead ends."""
        ends = self.streets[first].ends
        dead = [end for end in ends if self.is_dead_end(end)]
        route = [self.streets[first].from_end(dead[0] if dead else ends[rng.integers(2)])]
        while sum(street.length for street in route) < length:
            back, here = route[-1].ends
            onward = [s for s in self.at(here) if s.ends[1] != back and not self.is_dead_end(s.ends[1])]
            route.append(onward[rng.integers(len(onward))])
        return route


def make(files: int = FILES, seed: int = 0, irregular: bool = True) -> Trajectories:
    """Tracks of vehicles, one per file; with `irregular=False` one row each second, without repeats and gaps."""
    if files < 1:
        raise BadInput(f"expected at least one file, got {files}")
    streets, seeds = Streets(), Seeds(seed)
    tracks = [_track(streets, number, seeds.stream("track", number), irregular) for number in range(files)]
    return Trajectories(
        observations=np.concatenate([observations for _, observations in tracks]),
        times=np.concatenate([times for times, _ in tracks]),
        offsets=offsets_from_lengths([len(times) for times, _ in tracks]),
        meta=META.replace_at("provenance", ({"origin": "made here", "files": files, "seed": seed},)),
    )


def write_csv(folder: Path, files: int = FILES, seed: int = 0) -> Trajectories:
    """Write the irregular tracks as a folder of CSV files, and return them.

    As from any logger, nothing but a header says what the columns are.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadInput(f"{folder}: is there and will not be replaced; remove it or choose another path")
    rows = sum(_ROWS) // 2
    check_memory(files * rows * _MADE_BYTES, f"{files:,} tracks of about {rows} rows")
    data = make(files, seed)
    header = ",".join(("time", *META.columns))
    with atomic(folder) as temporary:
        temporary.mkdir()
        for number, episode in enumerate(data.episodes()):
            assert episode.times is not None
            table = np.column_stack([episode.times, episode.observations])
            path = temporary / f"track_{number:03d}.csv"
            np.savetxt(path, table, ["%.3f", *["%.2f"] * 4], delimiter=",", header=header, comments="")
    return data


def _track(streets: Streets, number: int, rng: np.random.Generator, irregular: bool) -> tuple[Array, Array]:
    """Times (T,) and observations (T, 4) of one vehicle, with the decimals that a logger writes."""
    cruise, rows = rng.uniform(*_CRUISE), int(rng.integers(_ROWS[0], _ROWS[1], endpoint=True))
    intervals = _intervals(rows - 1, rng) if irregular else np.ones(rows - 1)
    elapsed = np.append(0.0, np.cumsum(intervals))
    route = streets.route(number % len(streets.streets), cruise * elapsed[-1] + 2 * _CORNER, rng)
    path = _smooth(np.concatenate([street.along(1.0)[:-1] for street in route] + [route[-1].points[-1:]]))
    clean = _drive(path, cruise, elapsed)
    observations = clean + np.array(_NOISE) * _drift(intervals, rng)
    observations[:, 3] = np.maximum(observations[:, 3], 0)
    observations = np.round(observations, 2)
    observations[:, 2] = np.round(observations[:, 2] % 360, 2) % 360
    times = np.round(rng.uniform(0, 80_000) + elapsed, 3)
    return times, observations.astype(np.float32)


def _intervals(count: int, rng: np.random.Generator) -> Array:
    """Seconds from row to row: about one, none where a row is repeated, many where the receiver was lost."""
    usual = np.clip(rng.normal(1, _JITTER, count), 0.5, 1.5)
    draw, gaps = rng.random(count), rng.uniform(*_GAP, count)
    return np.select([draw < _REPEATS, draw > 1 - _GAPS], [np.zeros(count), gaps], usual)


def _smooth(points: Array) -> Array:
    """The path of a vehicle along points one metre apart (n, 2): corners are rounded."""
    window = 2 * _CORNER + 1
    return np.stack([np.convolve(column, np.full(window, 1 / window), "valid") for column in points.T], axis=1)


def _drive(path: Array, cruise: float, elapsed: Array) -> Array:
    """x, y, heading and speed (T, 4) at these seconds of a drive along a path (n, 2), as fast as limits allow."""
    steps = np.diff(path, axis=0)
    lengths = np.linalg.norm(steps, axis=1)
    distance = np.append(0.0, np.cumsum(lengths))
    headings = np.unwrap(np.arctan2(steps[:, 0], steps[:, 1]))  # as a compass: from north, clockwise
    bend = np.abs(np.gradient(headings, (distance[1:] + distance[:-1]) / 2))
    limit = np.clip(np.sqrt(_SIDEWAYS / np.maximum(bend, 1e-6)), _CRAWL, cruise)
    speed = _within_acceleration(np.concatenate([[_CRAWL], limit[1:], limit[-1:]]), distance)
    seconds = np.append(0.0, np.cumsum(2 * lengths / (speed[1:] + speed[:-1])))
    travelled = np.interp(elapsed, seconds, distance)
    middle = (distance[1:] + distance[:-1]) / 2
    columns = [np.interp(travelled, distance, column) for column in path.T]
    columns += [np.degrees(np.interp(travelled, middle, headings)), np.interp(elapsed, seconds, speed)]
    return np.stack(columns, axis=1)


def _within_acceleration(limit: Array, distance: Array) -> Array:
    """The largest speeds (n,) below a limit that neither speed up nor brake harder than a vehicle can.

    Over a way d the square of the speed changes by at most 2 a d.
    """
    gain = 2 * _ACCELERATION * distance
    squares = np.minimum.accumulate(np.square(limit) - gain) + gain
    return np.sqrt(np.minimum.accumulate((squares + gain)[::-1])[::-1] - gain)


def _drift(intervals: Array, rng: np.random.Generator) -> Array:
    """Errors (T, 4) of unit variance that fade with time; a row that is repeated has those of the row before."""
    errors = rng.standard_normal((len(intervals) + 1, len(_NOISE)))
    for row, kept in enumerate(np.exp(-intervals / _NOISE_MEMORY), start=1):
        errors[row] = kept * errors[row - 1] + np.sqrt(1 - kept**2) * errors[row]
    return errors
