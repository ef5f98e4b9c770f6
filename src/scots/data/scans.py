"""Scans of a LiDAR: as occupancy images, and which columns of a log become which columns of a state."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from scots.core.config import Config
from scots.core.errors import BadInput
from scots.data.trajectories import Array, Meta

ENCODED = "scans encoded here"
"""Origin of states that were made of scans; the provenance says by which encoder."""
_LATENT = "latent_"
PIXELS = 64  # sides of an image
_FEWEST_RAYS = 8  # of a scan that an image can be made of


@dataclass(frozen=True)
class ScanGeometry(Config):
    """How rays lie around a robot, counter-clockwise as in ROS, and how much of the floor an image shows."""

    first_angle: float = -math.pi  # of the first ray, from straight ahead
    angle_step: float | None = None  # between rays; None: they go all around
    pixel: float = 0.25  # metres

    def __post_init__(self) -> None:
        if self.pixel <= 0 or self.angle_step == 0:
            raise BadInput(f"pixel must be positive and angle_step not zero: {self}")

    def occupancy(self, ranges: Array) -> Array:
        """Images (N, PIXELS, PIXELS) of scans (N, R): 1 where a ray passes, 0 where it has ended or none goes.

        The robot is in the middle and looks to the right. A range that is no number ends nowhere, like an infinite one;
        minus infinity, which ROS has for what is too close to measure, ends at once.
        """
        ray, distance, seen = self._pixels(ranges.shape[1])
        known = np.where(np.isnan(ranges), np.inf, ranges)
        return ((known[:, ray] > distance) & seen).astype(np.float32)

    def _pixels(self, rays: int) -> tuple[Array, Array, Array]:
        """For every pixel: the ray nearest to its middle, its distance, and whether any ray goes there."""
        step = 2 * math.pi / rays if self.angle_step is None else self.angle_step
        middle = (np.arange(PIXELS) + 0.5 - PIXELS / 2) * self.pixel
        x, y = np.meshgrid(middle, middle)
        turns = (np.arctan2(y, x) - self.first_angle) * np.sign(step) % (2 * math.pi)
        ray = np.rint(turns / abs(step)).astype(np.int64)
        if rays * abs(step) > 2 * math.pi - abs(step):  # all around: beyond the last ray comes the first
            ray %= rays
        return np.minimum(ray, rays - 1), np.hypot(x, y).astype(np.float32), ray < rays


@dataclass(frozen=True)
class ScanColumns(Config):
    """Which columns of a log are a scan, and which others are kept in the state beside the latents of the scan."""

    first: int  # column of the first ray
    rays: int
    kept: tuple[int, ...] = ()  # the first two, if there are any, are the position

    @classmethod
    def named(cls, meta: Meta, prefix: str, kept: tuple[str, ...] = ()) -> ScanColumns:
        """The columns called PREFIX_0, PREFIX_1 and so on, and those of these names."""
        if not meta.columns:
            raise BadInput("the columns of this data have no names, so none is known to be a scan")
        rays = 0
        while f"{prefix}_{rays}" in meta.columns:
            rays += 1
        first = meta.columns.index(f"{prefix}_0") if rays else 0
        expected = tuple(f"{prefix}_{n}" for n in range(rays))
        if rays < _FEWEST_RAYS or meta.columns[first : first + rays] != expected:
            raise BadInput(f"{prefix!r}: found {rays} columns {prefix}_0, {prefix}_1, ... beside each other; {_HINT}")
        for name in kept:
            if name not in meta.columns:
                others = [column for column in meta.columns if column not in expected]
                raise BadInput(f"no column {name!r} to keep; beside the scan there are {', '.join(others) or 'none'}")
        return cls(first, rays, tuple(meta.columns.index(name) for name in kept))

    @property
    def sizes(self) -> dict[str, int]:
        """What an encoder needs to know of them."""
        return {"first": self.first, "rays": self.rays}

    def scans(self, observations: Array) -> Array:
        """The ranges (N, R) of observations (N, O)."""
        return observations[:, self.first : self.first + self.rays]

    def others(self, observations: Array) -> Array:
        """The kept columns (N, kept) of observations (N, O)."""
        return observations[:, list(self.kept)]

    def state_meta(self, meta: Meta, latents: int) -> Meta:
        """What is known of the states, from what is known of the logs."""
        periods = dict(meta.angles)
        return replace(
            meta,
            columns=(*(f"{_LATENT}{n}" for n in range(latents)), *(meta.columns[column] for column in self.kept)),
            position=tuple(range(latents, latents + len(self.kept[:2]))),
            angles=tuple((latents + n, periods[c]) for n, c in enumerate(self.kept) if c in periods),
        )


def encoding_step(meta: Meta) -> dict[str, Any] | None:
    """The provenance entry that says how scans were encoded; None for data that has no encoded scans."""
    return next((step for step in meta.provenance if step.get("origin") == ENCODED), None)


def has_latent_position(meta: Meta) -> bool:
    """Whether latents of scans stand for the position: they are no place on a map."""
    return encoding_step(meta) is not None and any(
        meta.columns[column].startswith(_LATENT) for column in meta.position or (0,)
    )


_HINT = f"at least {_FEWEST_RAYS} are needed; name the scan with --scan PREFIX"
