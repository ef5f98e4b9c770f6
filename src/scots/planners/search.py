"""Several draws of every part of a plan, of which the one is kept that is easiest to walk."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch

from scots.data.support import Support
from scots.data.trajectories import Array

PROBES = 5  # places on the line between two waypoints that are looked up
BESIDE = 4.0  # steps within which places are beside each other: so near an end nothing is to blame for where it is
LENGTH = 0.1  # price of a step, in steps that cannot be walked
WAITING = 0.1  # of the longest stretch of a sequence: it waits in those that are shorter
FAULTY = 0.05  # share of the steps of a sequence that faults and detours may cost before it is looked for by halves
HALVINGS = 3

Rngs = Sequence[np.random.Generator]
Draw = Callable[[Array, Rngs], Array]
"""Ends (B, 2, P) and a generator for each -> sequences (B, T, P) from the first to the second."""
Mend = Callable[[Array, Rngs], Array]
"""Sequences (B, T, P) and a generator for each -> such with fewer faults between the same ends."""
PlaceEncoder = Callable[[Array], Array]
"""Places (N, P) -> points (N, Z) whose distance is the number of steps between them."""


class BestOf:
    """Keeps the best of several sequences between the same ends.

    What speaks against a sequence is counted in steps. From one place to the next there are so many and no more: a
    stretch through a wall is short on the map and long in the embedding. And it should stay where the data has been: a
    corner that is cut is nowhere far in the embedding, but nobody was ever recorded inside the wall.

    What is near a planner knows better. So the windows of a plan that have faults nevertheless are drawn again, and a
    plan that still has too many, or goes a long way round, is looked for by halves: to a recorded place halfway, and on
    from there.
    """

    def __init__(self, support: Support, encode: PlaceEncoder, stride: int, candidates: int) -> None:
        """`stride` is how many steps may lie on a straight line."""
        self._support, self._encode, self._stride, self._candidates = support, encode, stride, candidates
        self._places = support.places()
        self._points = torch.from_numpy(encode(self._places))

    def __call__(self, draw: Draw, ends: Array, rng: Rngs, spacing: int, places: int) -> Array:
        """The best of so many sequences (B, T, P) between each two ends (B, 2, P): T places, `spacing` steps apart.

        Nothing is drawn between ends beside each other, most of them stretches in which a plan waits at the goal.
        """
        sequences = self._straight(ends, spacing, places)
        (far,) = np.nonzero(np.linalg.norm(ends[:, 1] - ends[:, 0], axis=1) > BESIDE * self._support.step)
        if len(far):
            sequences[far] = self._best(draw, ends[far], [rng[n] for n in far.tolist()], spacing)
        return sequences

    def _straight(self, ends: Array, spacing: int, places: int) -> Array:
        """Sequences (B, T, P) straight from end to end (B, 2, P) at the usual pace, to wait there."""
        start, way = ends[:, :1], ends[:, 1:] - ends[:, :1]
        gone = spacing * self._support.step * np.arange(places, dtype=ends.dtype)[:, None]
        share = np.minimum(1.0, gone / np.maximum(np.linalg.norm(way, axis=2, keepdims=True), 1e-9))
        return np.where(share < 1, start + share * way, ends[:, 1:]).astype(ends.dtype)

    def _best(self, draw: Draw, ends: Array, rng: Rngs, spacing: int, present: Array | None = None) -> Array:
        """The best of so many draws (B, T, P) between each two ends (B, 2, P), and of what is present (B, T, P)."""
        streams = [child for own in rng for child in own.spawn(self._candidates)]
        drawn = draw(np.repeat(ends, self._candidates, axis=0), streams)
        drawn = drawn.reshape(len(ends), self._candidates, *drawn.shape[1:])
        if present is not None:
            drawn = np.concatenate([present[:, None], drawn], axis=1)
        costs = self._costs(drawn.reshape(-1, *drawn.shape[2:]), spacing).reshape(drawn.shape[:2])
        return drawn[np.arange(len(ends)), costs.argmin(axis=1)]

    def mended(self, draw: Draw, sequences: Array, rng: Rngs, spacing: int, places: int) -> Array:
        """Sequences (B, T, P) whose faulty windows of so many places were drawn again, where that is easier to walk."""
        sequences = sequences.copy()
        for first in (places // 2, 0):  # half a window on there are other places to hold on to
            windows = _windows(sequences, first, places)
            faults, _ = self.judged(windows.reshape(-1, *windows.shape[2:]), spacing)
            rows, numbers = np.nonzero(faults.reshape(windows.shape[:2]))
            if len(rows):
                present, streams = windows[rows, numbers], [rng[row].spawn(1)[0] for row in rows.tolist()]
                windows[rows, numbers] = self._best(draw, present[:, [0, -1]], streams, spacing, present)
        return sequences

    def by_halves(
        self, draw: Draw, mend: Mend, ends: Array, rng: Rngs, spacing: int, halvings: int = HALVINGS
    ) -> Array:
        """Sequences (B, T, P), each drawn as a whole or, if too much speaks against it, by halves."""
        sequences = mend(draw(ends, rng), rng)
        costs, least = self._costs(sequences, spacing), LENGTH * self._steps(ends)[:, 0]
        (hard,) = np.nonzero(costs - least > FAULTY * spacing * (sequences.shape[1] - 1))
        if not halvings or not len(hard):
            return sequences
        ends, rng = ends[hard], [rng[n] for n in hard.tolist()]
        middle = self._halfway(ends)
        halves = (np.stack(half, axis=1) for half in ((ends[:, 0], middle), (middle, ends[:, 1])))
        both = [self.by_halves(draw, mend, half, rng, spacing, halvings - 1) for half in halves]
        joined = mend(np.stack([self.one_after_the_other(*halves) for halves in zip(*both, strict=True)]), rng)
        better = self._costs(joined, spacing) < costs[hard]
        sequences[hard[better]] = joined[better]
        return sequences

    def judged(self, sequences: Array, spacing: int) -> tuple[Array, Array]:
        """Of sequences (B, T, P): steps too many or where nobody was (B,), and steps in all (B,)."""
        steps = self._steps(sequences)
        excess = np.maximum(0.0, steps - spacing).sum(axis=1)
        return excess + self._astray(sequences, spacing), steps.sum(axis=1)

    def one_after_the_other(self, first: Array, second: Array) -> Array:
        """Two sequences (T, P) as one of their length, without their waits: if time is left, it waits at the end."""
        joined = np.concatenate([_moving(first), _moving(second), second[-1:]])
        while len(joined) > len(first):  # leave out the place whose neighbours are nearest to each other
            points = self._encode(joined)
            joined = np.delete(joined, np.linalg.norm(points[2:] - points[:-2], axis=1).argmin() + 1, axis=0)
        return np.concatenate([joined, np.repeat(second[-1:], len(first) - len(joined), axis=0)])

    def _costs(self, sequences: Array, spacing: int) -> Array:
        """What speaks against sequences (B, T, P), in steps that cannot be walked (B,)."""
        faults, steps = self.judged(sequences, spacing)
        return faults + LENGTH * steps

    def _steps(self, sequences: Array) -> Array:
        """Steps from each place of sequences (B, T, P) to the next (B, T - 1)."""
        points = self._encode(sequences.reshape(-1, sequences.shape[2])).reshape(*sequences.shape[:2], -1)
        return np.linalg.norm(np.diff(points, axis=1), axis=2)

    def _astray(self, sequences: Array, spacing: int) -> Array:
        """Steps where nobody was (B,), on the lines between places, or at these where no straight line can be."""
        probes = min(PROBES, spacing) if spacing <= self._stride else 1
        share = np.linspace(0, 1, probes, endpoint=False, dtype=sequences.dtype)[:, None]
        lines = sequences[:, :-1, None] + share * np.diff(sequences, axis=1)[:, :, None]  # (B, T - 1, probes, P)
        beside = (np.linalg.norm(lines - sequences[:, None, [end]], axis=3) for end in (0, -1))
        away = np.minimum(*beside) > BESIDE * self._support.step
        return (away & ~self._support.covers(lines)).sum(axis=(1, 2)) * min(spacing, self._stride) / probes

    def _halfway(self, ends: Array) -> Array:
        """Of the places where somebody was, the one from which neither end (B, 2, P) is far (B, P)."""
        away = (torch.cdist(torch.from_numpy(self._encode(ends[:, n])), self._points) for n in (0, 1))
        return self._places[torch.maximum(*away).argmin(dim=1).numpy()]


def _windows(sequences: Array, first: int, places: int) -> Array:
    """Views (B, N, places, P) of sequences (B, T, P): windows from a first place on, end to end."""
    every = np.lib.stride_tricks.sliding_window_view(sequences, places, axis=1, writeable=True)
    return every[:, first :: places - 1].swapaxes(2, 3)


def _moving(sequence: Array) -> Array:
    """The places of a sequence (T, P) from which it goes on, and its first in any case."""
    stretches = np.linalg.norm(np.diff(sequence, axis=0), axis=1)
    return sequence[:-1][(stretches > WAITING * stretches.max()) | (np.arange(len(stretches)) == 0)]
