"""Gaps in a recording, an even time step for data recorded at uneven ones, and missing values inside episodes."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from scots.core.errors import BadInput
from scots.data.angles import into_range, turn
from scots.data.trajectories import Array, Trajectories, offsets_from_lengths

GAP_STEPS = 5  # a step longer than so many typical ones is a gap
_RARE = 0.05  # share of steps: where more are that long, the sampling is uneven and nothing is missing
_EVEN = 1e-3  # relative deviation of a step that still counts as even
_MAX_ROWS = 1 << 31


@dataclass(frozen=True)
class Resampled:
    """Data with an even time step, and what it took."""

    data: Trajectories
    duplicates: int  # rows dropped because their time was there already
    gaps: int  # places where an episode was split
    short: int  # pieces dropped because fewer than two states were left
    lost: tuple[str, ...]  # arrays that cannot be interpolated

    def describe(self) -> str:
        """One line: what was dropped and split."""
        counts = [
            f"duplicate times dropped ({self.duplicates})" if self.duplicates else "",
            f"split at gaps ({self.gaps})" if self.gaps else "",
            f"pieces of fewer than two states dropped ({self.short})" if self.short else "",
            f"{', '.join(self.lost)} dropped: they cannot be interpolated" if self.lost else "",
        ]
        return "; ".join(count for count in counts if count) or "nothing dropped"


def typical_step(data: Trajectories) -> float:
    """The median time between neighbouring states of an episode, or nan if no step takes time."""
    starts = data.window_starts(2)
    steps = np.zeros(0) if data.times is None else data.times[starts + 1] - data.times[starts]
    steps = steps[steps > 0]
    return float(np.median(steps)) if steps.size else float("nan")


def split_at_gaps(data: Trajectories, gap: float | None = None) -> tuple[Trajectories, int, int]:
    """Episodes that end where the recording stopped for a while; the number of splits, and of single states dropped.

    A step is a gap if it takes longer than `gap` seconds, or than five typical ones if such are rare.
    """
    if gap is not None and not gap > 0:
        raise BadInput(f"--gap {gap:g}: expected seconds above zero")
    if data.times is None:
        return data, 0, 0
    starts = data.window_starts(2)
    long = data.times[starts + 1] - data.times[starts] > (GAP_STEPS * typical_step(data) if gap is None else gap)
    if not long.any() or (gap is None and long.mean() > _RARE):
        return data, 0, 0
    pieces = _split(data, starts[long])
    kept = pieces.select(np.flatnonzero(pieces.lengths > 1))
    return kept, int(long.sum()), len(pieces) - len(kept)


def resample(data: Trajectories, every: float, gap: float | None = None) -> Resampled:
    """One state every so many seconds, by linear interpolation; angles turn the short way.

    A row whose time was there already is dropped. An episode is split where a step takes longer than `gap`, or than
    five typical ones (the median, or `every` if that is longer), and a piece with fewer than two states is dropped.
    Actions, rewards and other arrays are kept only where all steps are even already, because then no state is
    interpolated.
    """
    times = _checked_times(data, every)
    unique = _without_duplicates(data, times)
    gaps, even = _steps(unique, every, gap)
    pieces = _split(unique if even else _states_only(unique), gaps)
    pieces = pieces if even else _interpolated(pieces, every)
    long = np.flatnonzero(pieces.lengths > 1)
    if not long.size:
        raise BadInput(f"--every {every:g}: no episode lasts that long; the typical step is {typical_step(data):.3g} s")
    kept = pieces if len(long) == len(pieces) else pieces.select(long)
    lost = tuple(name for name, _ in unique.arrays() if getattr(kept, name) is None)
    return Resampled(kept, data.rows - unique.rows, len(gaps), len(pieces) - len(long), lost)


def _steps(data: Trajectories, every: float, gap: float | None) -> tuple[Array, bool]:
    """The rows before gaps, and whether all other steps are even already."""
    assert data.times is not None
    starts = data.window_starts(2)
    steps = data.times[starts + 1] - data.times[starts]
    is_gap = steps > (GAP_STEPS * max(every, typical_step(data)) if gap is None else gap)
    return starts[is_gap], bool((np.abs(steps[~is_gap] - every) <= _EVEN * every).all())


def _checked_times(data: Trajectories, every: float) -> Array:
    """The times, if the data can be resampled."""
    if data.times is None:
        raise BadInput("--every needs times, and this data has none; name their column with --time")
    if data.meta.quaternions:
        raise BadInput("--every cannot interpolate quaternions; leave it out")
    if not (np.isfinite(every) and every > 0):
        raise BadInput(f"--every {every:g}: expected seconds above zero")
    starts = data.window_starts(2)
    if (back := starts[data.times[starts + 1] < data.times[starts]]).size:
        raise BadInput(f"times: row {back[0] + 1} is earlier than the row before; sort each episode by time")
    duration = float(np.sum(data.times[data.offsets[1:] - 1] - data.times[data.offsets[:-1]]))
    if duration / every > _MAX_ROWS:
        raise BadInput(
            f"--every {every:g} makes {duration / every:.2g} states of {duration:.3g} s; choose a longer one"
        )
    return data.times


def _states_only(data: Trajectories) -> Trajectories:
    other: dict[str, Any] = {name: None for name, _ in data.arrays() if name not in ("observations", "times")}
    return dataclasses.replace(data, **other)


def _without_duplicates(data: Trajectories, times: Array) -> Trajectories:
    """Without the rows whose time is that of the row before in the same episode."""
    keep = np.concatenate([[True], np.diff(times) != 0])
    keep[data.offsets[:-1]] = True
    if keep.all():
        return data
    changes: dict[str, Any] = {name: values[keep] for name, values in data.arrays()}
    changes["offsets"] = offsets_from_lengths(np.add.reduceat(keep.astype(np.int64), data.offsets[:-1]))
    return dataclasses.replace(data, **changes)


def _split(data: Trajectories, gaps: Array) -> Trajectories:
    """Episodes that end at the rows before gaps; only the last piece of an episode ends as the episode did."""
    starts = np.union1d(data.offsets[:-1], gaps + 1)
    offsets = np.append(starts, data.rows)
    terminated = None
    if data.terminated is not None:
        ends_episode = np.isin(offsets[1:], data.offsets[1:])
        terminated = data.terminated[data.episode_of(starts)] & ends_episode
    return dataclasses.replace(data, offsets=offsets, terminated=terminated)


def _interpolated(data: Trajectories, every: float) -> Trajectories:
    """States at the first time of each episode and every so many seconds later, as far as it goes."""
    assert data.times is not None
    first, final = data.offsets[:-1], data.offsets[1:] - 1
    duration = data.times[final] - data.times[first]
    lengths = np.floor(duration / every + _EVEN).astype(np.int64) + 1
    offsets = offsets_from_lengths(lengths)
    episode = np.repeat(np.arange(len(data)), lengths)
    since = (np.arange(offsets[-1]) - offsets[episode]) * every  # time since the start of the episode
    # One increasing clock over all episodes, so that one search serves them all.
    begin = np.concatenate([[0.0], np.cumsum(duration + every)[:-1]])
    clock = data.times - np.repeat(data.times[first] - begin, data.lengths)
    left = np.searchsorted(clock, begin[episode] + since, side="right") - 1
    left = np.clip(left, first[episode], np.maximum(final[episode] - 1, first[episode]))
    right = np.minimum(left + 1, final[episode])
    step = data.times[right] - data.times[left]
    passed = data.times[first][episode] + since - data.times[left]
    weight = np.clip(np.divide(passed, step, out=np.zeros(len(step)), where=step > 0), 0, 1)
    return dataclasses.replace(
        data,
        observations=_between(data, left, right, weight),
        times=data.times[first][episode] + since,
        offsets=offsets,
    )


def _between(data: Trajectories, left: Array, right: Array, weight: Array) -> Array:
    """Observations at a fraction of the way from one row to another."""
    states = np.empty((len(left), data.observations.shape[1]), dtype=np.float32)
    periods = dict(data.meta.angles)
    for column, values in enumerate(data.observations.T.astype(np.float64)):
        start, end = values[left], values[right]
        if period := periods.get(column):
            states[:, column] = into_range(start + weight * turn(start, end, period), values, period)
        else:
            states[:, column] = start + weight * (end - start)
    return states


def fill_missing(values: Array, clock: Array, offsets: Array, period: float | None = None) -> Array:
    """Replace NaN by interpolation inside each episode; at its ends the nearest value is held.

    An episode without any value is left as it is. The clock (N,) increases inside each episode.
    """
    filled = np.array(values, dtype=np.float64)
    missing = np.isnan(filled)
    for episode in np.unique(np.searchsorted(offsets, np.flatnonzero(missing), side="right") - 1):
        rows = slice(offsets[episode], offsets[episode + 1])
        known = ~missing[rows]
        if known.any():
            recorded = filled[rows][known]
            curve = np.unwrap(recorded, period=period) if period else recorded
            guessed = np.interp(clock[rows][~known], clock[rows][known], curve)
            filled[rows][~known] = into_range(guessed, values, period) if period else guessed
    return filled
