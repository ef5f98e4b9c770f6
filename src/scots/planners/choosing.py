"""Several draws of every part of a plan, of which the one is kept that is easiest to walk."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch

from scots.support import Support
from scots.trajectories import Array

PROBES = 5  # places on the line between two waypoints that are looked up
BESIDE = 4.0  # steps from an end within which a sequence is not to blame for where it is
LENGTH = 0.1  # price of a step, in steps that cannot be walked
WAITING = 0.1  # of the longest stretch of a sequence: it waits in those that are shorter
FAULTY = 0.05  # share of the steps of a sequence that may be faults before it is looked for by halves
HALVINGS = 3

Rngs = Sequence[np.random.Generator]
Draw = Callable[[Array, Rngs], Array]
"""Ends (B, 2, P) and a generator for each -> sequences (B, T, P) from the first to the second."""
PlaceEncoder = Callable[[Array], Array]
"""Places (N, P) -> points (N, Z) whose distance is the number of steps between them."""


class BestOf:
    """Keeps the best of several sequences between the same ends.

    What speaks against a sequence is counted in steps. From one place to the next there are so many and no more: a
    stretch through a wall is short on the map and long in the embedding. And it should stay where the data has been: a
    corner that is cut is nowhere far in the embedding, but nobody was ever recorded inside the wall. A plan that has
    faults nevertheless is looked for by halves: to a recorded place halfway, and on from there. What is near a planner
    knows better.
    """

    def __init__(self, support: Support, encode: PlaceEncoder, stride: int, candidates: int) -> None:
        """`stride` is how many steps may lie on a straight line."""
        self._support, self._encode, self._stride, self._candidates = support, encode, stride, candidates
        self._places = support.places()
        self._points = torch.from_numpy(encode(self._places))

    def __call__(self, draw: Draw, ends: Array, rng: Rngs, spacing: int) -> Array:
        """The best of so many sequences (B, T, P) between each two ends (B, 2, P), places `spacing` steps apart."""
        streams = [child for own in rng for child in own.spawn(self._candidates)]
        drawn = draw(np.repeat(ends, self._candidates, axis=0), streams)
        faults, steps = self.judged(drawn, spacing)
        costs = (faults + LENGTH * steps).reshape(len(ends), self._candidates)
        return drawn[costs.argmin(axis=1) + self._candidates * np.arange(len(ends))]

    def by_halves(self, draw: Draw, ends: Array, rng: Rngs, spacing: int, halvings: int = HALVINGS) -> Array:
        """Sequences (B, T, P), each drawn as a whole or, if it has too many faults, by halves."""
        sequences = draw(ends, rng)
        faults, _ = self.judged(sequences, spacing)
        (hard,) = np.nonzero(faults > FAULTY * spacing * (sequences.shape[1] - 1))
        if not halvings or not len(hard):
            return sequences
        ends, rng = ends[hard], [rng[n] for n in hard.tolist()]
        middle = self._halfway(ends)
        halves = (np.stack(half, axis=1) for half in ((ends[:, 0], middle), (middle, ends[:, 1])))
        both = [self.by_halves(draw, half, rng, spacing, halvings - 1) for half in halves]
        joined = np.stack([one_after_the_other(*halves) for halves in zip(*both, strict=True)])
        better = self.judged(joined, spacing)[0] < faults[hard]
        sequences[hard[better]] = joined[better]
        return sequences

    def judged(self, sequences: Array, spacing: int) -> tuple[Array, Array]:
        """Of sequences (B, T, P): steps too many or where nobody was (B,), and steps in all (B,)."""
        points = self._encode(sequences.reshape(-1, sequences.shape[2])).reshape(*sequences.shape[:2], -1)
        steps = np.linalg.norm(np.diff(points, axis=1), axis=2)  # (B, T - 1)
        excess = np.maximum(0.0, steps - spacing).sum(axis=1)
        return excess + self._astray(sequences, spacing), steps.sum(axis=1)

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


def one_after_the_other(first: Array, second: Array) -> Array:
    """Two sequences (T, P) as one of their length, without their waits: it waits at the end, if there is time left."""
    joined = np.concatenate([_moving(first), _moving(second), second[-1:]])
    while len(joined) > len(first):  # make one of the two stretches that are the shortest together
        stretches = np.linalg.norm(np.diff(joined, axis=0), axis=1)
        joined = np.delete(joined, (stretches[1:] + stretches[:-1]).argmin() + 1, axis=0)
    return np.concatenate([joined, np.repeat(second[-1:], len(first) - len(joined), axis=0)])


def _moving(sequence: Array) -> Array:
    """The places of a sequence (T, P) from which it goes on."""
    stretches = np.linalg.norm(np.diff(sequence, axis=0), axis=1)
    return sequence[:-1][stretches > WAITING * stretches.max()]
