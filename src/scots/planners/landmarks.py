"""Recorded positions as landmarks: how far apart in time they are by the embedding, and which of them lie halfway."""

from __future__ import annotations

import numpy as np

from scots.data.trajectories import Array
from scots.planners.base import PositionEncoder


class Landmarks:
    """Recorded positions and their latents."""

    def __init__(self, positions: Array, encoder: PositionEncoder) -> None:
        self.positions, self._encoder = positions, encoder
        self._latents = encoder.encode(positions)

    def halfway(self, ends: Array) -> Array:
        """Of all landmarks, the one from which neither end (B, 2, P) is far (B, P)."""
        start, goal = (self._encoder.encode(ends[:, n]) for n in (0, 1))
        distance = self._encoder.distance
        farther = [
            np.maximum(distance(a, self._latents), distance(self._latents, b)) for a, b in zip(start, goal, strict=True)
        ]
        return self.positions[[distances.argmin() for distances in farther]]

    def steps(self, ends: Array) -> Array:
        """Steps from start to goal (B, 2, P) by the embedding: (B,)."""
        return self._encoder.distance(self._encoder.encode(ends[:, 0]), self._encoder.encode(ends[:, 1]))
