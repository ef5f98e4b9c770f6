"""What augmented data owes to recorded data: joins, the states and actions that were kept, and repeats."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from scots.core.config import Config
from scots.data.manifold import column_changes
from scots.data.trajectories import Array, Meta, Normalizer, Trajectories
from scots.reporting.metrics import Distribution, sample_rows

_NAMED_GROUPS = {
    "joint angles": ("joint", "hip", "ankle", "knee"),
    "velocities": ("velocity", "vel_", "speed", "vx", "vy", "vz", "qvel"),
}
"""Groups of columns, by how the names of their columns begin."""
REPAIRS = ("first draw", "drawn again", "left as recorded")
"""What becomes of joins in refinement."""
_MEASURED_STEPS = 100_000  # from which the mean square of a step is estimated


# --------------------------------------------------------------------------------------------------- groups of columns


def column_groups(meta: Meta, columns: int) -> dict[str, list[int]]:
    """The observation columns by kind, as far as their names and the meta tell; the rest are "other columns"."""
    groups = {"position": list(meta.position)}
    groups["orientation"] = [first + n for first in meta.quaternions for n in range(4)]
    groups["angles"] = [column for column, _ in meta.angles]
    for group, begins in _NAMED_GROUPS.items():
        groups[group] = [n for n, name in enumerate(meta.columns) if name.lower().startswith(begins)]
    taken: set[int] = set()
    for group, members in groups.items():
        groups[group] = [column for column in members if column not in taken]
        taken.update(members)
    groups["other columns"] = [column for column in range(columns) if column not in taken]
    return {group: members for group, members in groups.items() if members}


def one_step_squares(data: Trajectories, groups: dict[str, list[int]]) -> dict[str, float]:
    """The mean square of each group's change in one recorded step: the unit of errors; 0 where nothing moves."""
    rows = sample_rows(data.window_starts(2), _MEASURED_STEPS, np.random.default_rng(0))
    squares = np.square(column_changes(data.observations[rows], data.observations[rows + 1], data.meta)).mean(axis=0)
    return {group: float(squares[members].sum()) for group, members in groups.items()}


# -------------------------------------------------------------------------------------------------------------- joins


@dataclass(frozen=True)
class StepLengths(Config):
    """Lengths of steps at joins and inside segments, before and after refinement."""

    unrefined_joins: Distribution
    refined_joins: Distribution
    inside: Distribution  # inside segments, after refinement
    recorded: Distribution  # inside segments, as the source recorded them
    ratio: float | None  # median at refined joins over median inside segments; none where nothing moves


@dataclass(frozen=True)
class Joins(Config):
    """The steps where one segment follows another."""

    count: int  # joins measured
    position: StepLengths  # in units of the position columns
    state: StepLengths  # of whole observations, each column in its standard deviations


def join_rows(aug: Trajectories) -> tuple[Array, Array]:
    """Rows of augmented data whose step to the next is a join, and those of all other steps.

    Without lineage no step is known to be a join.
    """
    rows = aug.window_starts(2)
    if aug.source is None:
        return rows[:0], rows
    jumps = aug.source[rows + 1] != aug.source[rows] + 1
    return rows[jumps], rows[~jumps]


def measure_joins(data: Trajectories, aug: Trajectories, columns: tuple[int, ...], scale: Normalizer) -> Joins | None:
    """Compare steps at joins with steps inside segments; None without lineage or joins."""
    source_rows, (at_joins, inside) = aug.source, join_rows(aug)
    if source_rows is None or not len(at_joins) or not len(inside):
        return None

    def steps(chosen: list[int], units: Array) -> StepLengths:
        def lengths(observations: Array, rows: Array, following: Array) -> Array:
            change = observations[following][:, chosen] - observations[rows][:, chosen]
            return np.linalg.norm(change / units, axis=1)

        source, next_source = source_rows[:-1], source_rows[1:]
        before = [lengths(data.observations, source[rows], next_source[rows]) for rows in (at_joins, inside)]
        after = [lengths(aug.observations, rows, rows + 1) for rows in (at_joins, inside)]
        medians = [float(np.median(values)) for values in after]
        return StepLengths(
            unrefined_joins=Distribution.of(before[0]),
            refined_joins=Distribution.of(after[0]),
            inside=Distribution.of(after[1]),
            recorded=Distribution.of(before[1]),
            ratio=medians[0] / medians[1] if medians[1] > 0 else None,
        )

    everything = list(range(data.observations.shape[1]))
    return Joins(len(at_joins), steps(list(columns), np.ones(len(columns))), steps(everything, scale.std))


@dataclass(frozen=True)
class Repeats(Config):
    """How much of the augmented data is repeated."""

    trajectories: float  # share of trajectories whose source rows are those of an earlier one
    segments: int  # distinct runs of source rows between joins
    reused: float  # share of these that are used more than once


def measure_repeats(aug: Trajectories) -> Repeats | None:
    """Count trajectories and segments that come from the same source rows; None without lineage."""
    if aug.source is None:
        return None
    first = np.concatenate([aug.offsets[:-1], join_rows(aug)[0] + 1])
    first.sort()
    last = np.append(first[1:], aug.rows) - 1
    uses = np.unique(np.stack([aug.source[first], aug.source[last]]), axis=1, return_counts=True)[1]
    runs = (aug.source[begin:end] for begin, end in zip(aug.offsets[:-1], aug.offsets[1:], strict=True))
    distinct = {hashlib.blake2b(run.tobytes(), digest_size=16).digest() for run in runs}
    return Repeats(1 - len(distinct) / len(aug), len(uses), float((uses > 1).mean()))


# --------------------------------------------------------------------------------------------------------------- kept


@dataclass(frozen=True)
class Kept(Config):
    """How much of the augmented data is as it was recorded, and how well the joined segments fit."""

    states: float  # share of states that are recorded ones
    actions: float | None  # share of transitions that are recorded ones with their recorded actions
    own_continuation: float | None  # share of joins at which the walk went on in the same episode; none if unknown
    repairs: dict[str, float]  # REPAIRS -> share of the joins; empty where the data does not say
    gap: dict[str, float]  # group of columns -> median length of the step across a join before refinement
    refined_gap: dict[str, float]  # the same after refinement; both in root mean square recorded steps


def generated_at(data: Trajectories, aug: Trajectories, rows: Array) -> Array | None:
    """Which of these states refinement made: as the data says, or else those that differ from their source rows."""
    if aug.generated is not None:
        return aug.generated[rows] > 0
    if aug.source is None:
        return None
    return (aug.observations[rows] != data.observations[aug.source[rows]]).any(axis=1)


def kept_steps(data: Trajectories, aug: Trajectories, rows: Array) -> Array:
    """Which of the steps that begin at these rows are recorded transitions; none without lineage."""
    before, after = generated_at(data, aug, rows), generated_at(data, aug, rows + 1)
    if before is None or after is None or aug.source is None:
        return np.zeros(len(rows), dtype=bool)
    return ~before & ~after & (aug.source[rows + 1] == aug.source[rows] + 1)


def places_of(aug: Trajectories, rows: Array, segment: int | None) -> Array | None:
    """The place in its segment of each step that begins at these rows: 0 is the join, -1 the first segment.

    None if the length of the segments is unknown, or source rows jump where none begins.
    """
    if aug.source is None or segment is None or segment < 2:
        return None
    steps = rows - aug.offsets[aug.episode_of(rows)]
    places = np.where(steps < segment - 1, -1, steps % (segment - 1))
    jumps = aug.source[rows + 1] != aug.source[rows] + 1
    return None if (places[jumps] != 0).any() else places


def measure_kept(data: Trajectories, aug: Trajectories, segment: int | None) -> Kept | None:
    """Shares of recorded states and transitions, and the gaps at joins; None without lineage or steps."""
    made, rows = generated_at(data, aug, np.arange(aug.rows)), aug.window_starts(2)
    if made is None or aug.source is None or not len(rows):
        return None
    kept, actions = kept_steps(data, aug, rows), None
    if data.actions is not None and aug.actions is not None:
        actions = float((kept & (aug.actions[rows] == data.actions[aug.source[rows]]).all(axis=1)).mean())
    places, jumps = places_of(aug, rows, segment), aug.source[rows + 1] != aug.source[rows] + 1
    own = None if places is None or not (places == 0).any() else float((~jumps[places == 0]).mean())
    joins, source = rows[jumps], aug.source
    return Kept(
        states=float((~made).mean()),
        actions=actions,
        own_continuation=own,
        repairs={} if aug.generated is None or not len(joins) else _repairs(aug.generated[joins + 1]),
        gap=_gaps(data, data.observations[source[joins]], data.observations[source[joins + 1]]),
        refined_gap=_gaps(data, aug.observations[joins], aug.observations[joins + 1]),
    )


def _repairs(draws: Array) -> dict[str, float]:
    """Shares of joins by the draw that made the state after each: 0 where refinement left it as recorded."""
    shares = (float(chosen.mean()) for chosen in (draws == 1, draws > 1, draws == 0))
    return dict(zip(REPAIRS, shares, strict=True))


def _gaps(data: Trajectories, before: Array, after: Array) -> dict[str, float]:
    """Median change of each group of columns that moves at all, in root mean square recorded steps."""
    groups = column_groups(data.meta, data.observations.shape[1])
    squares, units = np.square(column_changes(before, after, data.meta)), one_step_squares(data, groups)
    return {
        group: float(np.median(np.sqrt(squares[:, members].sum(axis=1) / units[group])))
        for group, members in groups.items()
        if len(before) and units[group] > 0
    }
