"""Whether augmented states lie on the recorded data and move like it: precision, recall, step lengths and speeds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.stats import ks_2samp, wasserstein_distance

from scots.core.config import Config
from scots.data.manifold import Manifold
from scots.data.trajectories import Array, Trajectories
from scots.reporting.lineage import column_groups, generated_at
from scots.reporting.metrics import Quantiles, sample_rows

# ------------------------------------------------------------------------------------------------------------ manifold


@dataclass(frozen=True)
class OnData(Config):
    """Which augmented states are near recorded ones, and which recorded states are near augmented ones.

    Distances are to the nearest recorded step in one-step units; thresholds come from held-out recorded episodes.
    """

    states: int  # augmented states measured
    threshold: float
    position_threshold: float
    distance: Quantiles  # of augmented states
    position_distance: Quantiles
    off: float  # share of augmented states that lie off the data: by their position or as a whole
    off_positions: float
    off_generated: float | None  # share of those that refinement made
    recorded_off: float  # share of held-out recorded states, for comparison
    recorded_off_positions: float
    recall: float  # share of recorded states that are near augmented ones

    @property
    def precision(self) -> float:
        """Share of augmented states that are near recorded ones."""
        return 1 - self.off


def measure_on_data(data: Trajectories, aug: Trajectories, count: int, rng: np.random.Generator) -> OnData:
    """Compare `count` states of each dataset with those of the other."""
    manifold = Manifold.of(data)
    rows = sample_rows(np.arange(aug.rows), count, rng)
    states, made = aug.observations[rows], generated_at(data, aug, rows)
    distance, position_distance = manifold.distance(states), manifold.position_distance(states)
    off_positions = position_distance > manifold.position_threshold
    off = off_positions | (distance > manifold.threshold)
    recorded = data.observations[sample_rows(np.arange(data.rows), count, rng)]
    other = manifold.with_states_of(aug)
    return OnData(
        states=len(rows),
        threshold=manifold.threshold,
        position_threshold=manifold.position_threshold,
        distance=Quantiles.of(distance),
        position_distance=Quantiles.of(position_distance),
        off=float(off.mean()),
        off_positions=float(off_positions.mean()),
        off_generated=float(off[made].mean()) if made is not None and made.any() else None,
        recorded_off=manifold.held_out,
        recorded_off_positions=manifold.held_out_positions,
        recall=float(other.is_on(recorded).mean()),
    )


# -------------------------------------------------------------------------------------------------------------- motion


@dataclass(frozen=True)
class Compared(Config):
    """One quantity in recorded and in augmented data."""

    recorded: Quantiles
    augmented: Quantiles
    ks: float  # Kolmogorov-Smirnov statistic: the largest difference of both distribution functions
    wasserstein: float | None  # mean distance that values must be moved, in recorded medians; none if these are 0

    @classmethod
    def of(cls, recorded: Array, augmented: Array) -> Self:
        """Compare two sets of at least one value each."""
        median = float(np.median(recorded))
        moved = float(wasserstein_distance(recorded, augmented))
        ks = float(ks_2samp(recorded, augmented, method="asymp").statistic)
        return cls(Quantiles.of(recorded), Quantiles.of(augmented), ks, moved / median if median > 0 else None)


@dataclass(frozen=True)
class Motion(Config):
    """How fast augmented data moves, beside recorded data."""

    step_length: Compared  # in units of the position columns
    speed: Compared | None  # by time or else by the columns of velocity; none where neither is known


def measure_motion(data: Trajectories, aug: Trajectories, count: int, rng: np.random.Generator) -> Motion | None:
    """Step lengths and speeds of `count` steps of each dataset; None if one of them has no steps."""
    if max(data.lengths) < 2 or max(aug.lengths) < 2:
        return None
    rows = _compared_rows(data, aug, count, rng)
    lengths = [
        np.linalg.norm(part.positions[own + 1] - part.positions[own], axis=1)
        for part, own in zip((data, aug), rows, strict=True)
    ]
    speeds = [_speeds(part, own, length) for part, own, length in zip((data, aug), rows, lengths, strict=True)]
    speed = Compared.of(speeds[0], speeds[1]) if speeds[0] is not None and speeds[1] is not None else None
    return Motion(Compared.of(lengths[0], lengths[1]), speed)


def _compared_rows(data: Trajectories, aug: Trajectories, count: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """First rows of recorded and of augmented steps: the recorded ones are those that the augmented were made from.

    An augmenter leaves out idle windows on purpose, and what it chose is not what it changed.
    """
    augmented = sample_rows(aug.window_starts(2), count, rng)
    if aug.source is None:
        return sample_rows(data.window_starts(2), count, rng), augmented
    sources = aug.source[augmented]
    return sources[sources < data.last_row_of(sources)], augmented


def _speeds(data: Trajectories, rows: Array, lengths: Array) -> Array | None:
    if data.times is not None:
        seconds = data.times[rows + 1] - data.times[rows]
        return lengths[seconds > 0] / seconds[seconds > 0] if (seconds > 0).any() else None
    columns = column_groups(data.meta, data.observations.shape[1]).get("velocities")
    return np.linalg.norm(data.observations[rows][:, columns], axis=1) if columns else None
