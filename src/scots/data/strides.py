"""How far apart in the embedding recorded positions are, by the steps between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np

from scots.core.files import atomic
from scots.data.npz import read_npz, write_npz
from scots.data.trajectories import Array, Trajectories

_QUANTILE = 0.99  # of the distances of recorded windows, so that they pass for windows that can be walked
_STRIDES = 16  # strides that are measured
_WINDOWS = 4000  # of each


@dataclass(frozen=True, eq=False)
class StrideDistances:
    """How far apart in the embedding recorded positions are at most that lie this many steps apart.

    An embedding of positions is no clock: a body that sways covers more distance in a step than its path does.
    """

    strides: Array  # (N,) increasing
    distances: Array  # (N,)

    @classmethod
    def of(
        cls, data: Trajectories, encode: Callable[[Array], Array], distance: Callable[[Array, Array], Array]
    ) -> Self:
        """Measured on windows of recorded data, from one step to its longest episode.

        `encode` takes positions (N, P) to latents (N, Z), `distance` two of them to steps (N,).
        """
        rng, longest = np.random.default_rng(0), int(data.lengths.max()) - 1
        strides = np.unique(np.geomspace(1, max(1, longest), _STRIDES).round().astype(np.int64))
        found = []
        for stride in strides.tolist():
            rows = data.random_rows(stride + 1, _WINDOWS, rng)
            first, last = (encode(data.positions[own]) for own in (rows, rows + stride))
            found.append(np.quantile(distance(first, last), _QUANTILE))
        return cls(strides, np.array(found))

    @classmethod
    def exact(cls) -> Self:
        """A clock: every step is one step."""
        return cls(np.ones(1), np.ones(1))

    def at(self, stride: float) -> float:
        """The most that positions this many steps apart should be apart; never less than that many steps.

        Beyond the longest window that was recorded it grows in proportion.
        """
        beyond = max(1.0, stride / float(self.strides[-1]))
        return max(float(stride), float(np.interp(stride, self.strides, self.distances)) * beyond)

    def save(self, path: Path) -> None:
        """Write the table as an npz file."""
        with atomic(path) as temporary:
            write_npz(temporary, {"strides": self.strides, "distances": self.distances})

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what `save` wrote."""
        file = read_npz(path)
        return cls(np.array(file["strides"]), np.array(file["distances"]))
