"""The tables of `scots report`: the verdict's measures, both datasets, distances, steps, and Dynamic MSE."""

from __future__ import annotations

import numpy as np

from scots.reporting.document import Strong, TableBlock, short_number
from scots.reporting.dynamics import Dynamics
from scots.reporting.fidelity import Motion, OnData
from scots.reporting.lineage import Kept
from scots.reporting.metrics import CLEARANCE_QUANTILE, Clearance, Distribution, Quantiles, Visits
from scots.reporting.quality import FINE_PARTS, Quality
from scots.reporting.verdict import GOOD, PLANNING_ONLY, UNUSABLE, Check, Verdict

_KINDS = {  # of steps, by the name of their field
    "unrefined_joins": "joins, before refinement",
    "refined_joins": "joins, after refinement",
    "inside": "augmented, not at joins",
    "generated": "- of these, with a generated state",
    "kept": "- of these, recorded transitions",
    "recorded": "recorded",
    "relabelled": "recorded, with labelled actions",
}


def _kinds(is_refined: bool) -> dict[str, str]:
    """The kinds of steps by field; joins that were not refined are not said to be, and there is one kind of them."""
    if is_refined:
        return _KINDS
    return {"refined_joins": "joins, not refined"} | {
        field: title for field, title in _KINDS.items() if not field.endswith("joins")
    }


def verdict_table(verdict: Verdict) -> TableBlock:
    """Every measure that the verdict rests on, beside its limit."""
    rows = [(check.finding, *_limits(check), _outcome(check)) for check in verdict.checks]
    caption = (
        "Each measure beside its limits: for data that agents learn from, and for data that planners alone learn from, "
        "whose plans are followed by agents that know recorded data."
    )
    return TableBlock(("measure", "limit for agents", "limit for planning", "outcome"), rows, caption)


def _limits(check: Check) -> tuple[str, str]:
    scale, unit = (1, "") if check.measure == "gap" else (100, " %")
    words = "at least" if check.measure == "coverage" else "at most"
    first, second = (
        "-" if limit is None else f"{words} {scale * limit:.3g}{unit}" for limit in (check.agents, check.planning)
    )
    return first, second


def _outcome(check: Check) -> object:
    words = {GOOD: "good", PLANNING_ONLY: Strong("planning only"), UNUSABLE: Strong("do not use")}
    return words[check.outcome]


def both_datasets_table(quality: Quality) -> TableBlock:
    """Both datasets side by side; what was not measured is left out."""
    before, after = quality.original, quality.augmented
    rows = [
        ("trajectories", f"{before.trajectories:,}", f"{after.trajectories:,}"),
        ("states", f"{before.states:,}", f"{after.states:,}"),
        ("sampled states", f"{before.sampled_states:,}", f"{after.sampled_states:,}"),
    ]
    grids = {
        "cells": (before.cells, after.cells),
        "fine cells": (before.fine, after.fine),
        "latent cells": (before.latent, after.latent),
    }
    for label, (first, second) in grids.items():
        if first and second:
            rows.append((f"{label} visited", _visited(first), _visited(second)))
            rows.append((f"{label}, entropy of visits in nats", _entropy(first), _entropy(second)))
            rows.append((f"{label} per trajectory", _range(first.per_trajectory), _range(second.per_trajectory)))
    equal = quality.coverage
    label = f"of {equal.cells:,} original fine cells, visited by {equal.states:,} states"
    rows.append((label, f"{equal.original:.1%}", f"{equal.augmented:.1%}"))
    if before.reach and after.reach:
        rows.append(("reach in maze cells", _range(before.reach), _range(after.reach)))
    if before.walls and after.walls:
        first_walls, second_walls = before.walls, after.walls
        rows += [
            ("states inside walls", f"{first_walls.states:.3%}", f"{second_walls.states:.3%}"),
            ("trajectories with such states", f"{first_walls.trajectories:.1%}", f"{second_walls.trajectories:.1%}"),
            ("steps through walls", f"{first_walls.steps:.3%}", f"{second_walls.steps:.3%}"),
        ]
    rows += _clearance_rows(quality.clearance) if quality.clearance else []
    caption = (
        f"Cells are those of the maze, or of a grid over the positions; fine cells divide each side by {FINE_PARTS}, "
        "latent cells are clusters of latents. Reach is the length of the path from a trajectory's start to the "
        "farthest cell it visits. Per trajectory and reach: median (10 to 90 %). Latent cells, reach and walls are "
        "measured on the sampled states, distances to walls on all."
    )
    return TableBlock(("", "original", "augmented"), rows, caption)


def _clearance_rows(walls: Clearance) -> list[tuple[str, str, str]]:
    low = f"{1 - CLEARANCE_QUANTILE:.1%}"
    return [
        ("smallest distance to a wall", f"{walls.recorded_min:.3g}", f"{walls.augmented_min:.3g}"),
        (f"distance to a wall that {low} keep", f"{walls.recorded_low:.3g}", f"{walls.augmented_low:.3g}"),
        ("states nearer to a wall than any original", "0.000%", f"{walls.nearer_than_any:.3%}"),
        (f"states nearer than {low} of the original", f"{CLEARANCE_QUANTILE:.3%}", f"{walls.nearer_than_low:.3%}"),
    ]


def on_data_table(found: OnData) -> TableBlock:
    """How far augmented states are from recorded ones, and which lie off the data."""
    rows = [
        ("states off the data", f"{found.recorded_off:.2%}", f"{found.off:.2%}"),
        ("positions off the data", f"{found.recorded_off_positions:.2%}", f"{found.off_positions:.2%}"),
        ("generated states off the data", "-", "-" if found.off_generated is None else f"{found.off_generated:.2%}"),
        ("precision: augmented states near recorded ones", "-", f"{found.precision:.2%}"),
        ("recall: recorded states near augmented ones", f"{found.recall:.2%}", "-"),
        ("distance of positions, median (90 %)", "-", _spread(found.position_distance)),
        ("distance of states, median (90 %)", "-", _spread(found.distance)),
    ]
    caption = (
        f"Distances are to the nearest recorded step, in one-step units of each column, of {found.states:,} augmented "
        "states. The original is measured on held-out episodes: distances that hardly any of them exceed are the "
        f"thresholds, {found.position_threshold:.3g} for positions and {found.threshold:.3g} for whole states."
    )
    return TableBlock(("", "original", "augmented"), rows, caption)


def motion_table(motion: Motion) -> TableBlock:
    """Step lengths and speeds of both datasets."""
    rows = []
    for label, found in (("step length", motion.step_length), ("speed", motion.speed)):
        if found:
            quantiles = (_quantiles(part) for part in (found.recorded, found.augmented))
            moved = "-" if found.wasserstein is None else f"{found.wasserstein:.3f}"
            rows.append((label, *quantiles, f"{found.ks:.3f}", moved))
    caption = (
        "Quantiles of 10, 50, 90 and 99 %. KS is the largest difference of the two distribution functions; the "
        "Wasserstein distance is in medians of the original."
    )
    return TableBlock(("", "original", "augmented", "KS", "Wasserstein"), rows, caption)


def steps_tables(quality: Quality) -> list[TableBlock]:
    """Lengths and Dynamic MSE of each kind of step, as far as they were measured."""
    measured: dict[str, object] = {}
    if quality.joins:
        measured["length in position"] = quality.joins.position
        measured["length in normalised state"] = quality.joins.state
    if quality.dynamics:
        measured["Dynamic MSE"] = quality.dynamics
    if not measured:
        return []
    rows = []
    for field, title in _kinds(quality.is_refined).items():
        found = [getattr(kinds, field, None) for kinds in measured.values()]
        if any(found):
            rows.append((title, *map(_median, found)))
    caption = "Median and, in brackets, the 90 % quantile: a median alone hides the few steps that no action can make."
    tables = [TableBlock(("step", *measured), rows, caption)]
    if quality.dynamics:
        tables += [_groups_table(quality.dynamics, _kinds(quality.is_refined)), *_places_table(quality.dynamics)]
    return tables + ([_gaps_table(quality.kept, quality.is_refined)] if quality.kept and quality.kept.gap else [])


def _groups_table(dynamics: Dynamics, kinds: dict[str, str]) -> TableBlock:
    """Dynamic MSE by groups of columns and kinds of steps, and per step over the whole."""
    groups = [*dynamics.groups["recorded"]]
    rows = []
    for kind, title in kinds.items():
        if kind in dynamics.groups:
            found = (short_number(100 * dynamics.groups[kind][group]) for group in groups)
            share = f"{dynamics.shares[kind]:.1%}" if kind in dynamics.shares else "-"
            mean = short_number(100 * dynamics.means[kind] / dynamics.one_step)
            rows.append((title, share, *found, mean))
    whole = short_number(100 * dynamics.whole / dynamics.one_step)
    rows.append(("augmented, per step over the whole", "100.0%", *("-" for _ in groups), whole))
    caption = (
        "Dynamic MSE in percent of the mean square of a recorded step, which is the error of standing still "
        f"({short_number(dynamics.one_step)} for all columns): the median of each group of columns, and the mean over "
        f"all columns. Over the whole, medians weighted by their share of the steps give a Dynamic MSE of "
        f"{short_number(dynamics.typical)} per step."
    )
    return TableBlock(("step", "share", *groups, "mean"), rows, caption)


def _places_table(dynamics: Dynamics) -> list[TableBlock]:
    """Dynamic MSE by steps after the join: the first ones, then fewer."""
    medians, shown = dynamics.places, (0, 1, 2, 3, 4, 5, 6, 8, 10, 15, 20)
    if not medians:
        return []
    places = [place for place in dict.fromkeys((*shown, len(medians) - 1)) if place < len(medians)]
    row = ["Dynamic MSE", *(short_number(medians[place]) for place in places), short_number(float(np.mean(medians)))]
    header = ["steps after the join", *map(str, places), f"all {len(medians)}"]
    return [TableBlock(header, [row], "Medians by place in the segment; 0 is the join. The last is their average.")]


def _gaps_table(kept: Kept, is_refined: bool) -> TableBlock:
    caption = "Median change across joins, in root mean square recorded steps: 1 is like a recorded step."
    if not is_refined:
        return TableBlock(
            ("columns", "joins, not refined"), [(name, f"{gap:.2f}") for name, gap in kept.gap.items()], caption
        )
    rows = [(name, f"{gap:.2f}", f"{kept.refined_gap[name]:.2f}") for name, gap in kept.gap.items()]
    return TableBlock(("columns", "joins, before refinement", "joins, after refinement"), rows, caption)


def _median(found: Distribution | None) -> str:
    return f"{short_number(found.quantiles.median)} ({short_number(found.quantiles.p90)})" if found else "-"


def _visited(grid: Visits) -> str:
    return f"{grid.visited:,} of {grid.cells:,} ({grid.share:.1%})"


def _entropy(grid: Visits) -> str:
    return f"{grid.entropy:.2f} of {np.log(grid.cells):.2f}"


def _range(spread: Quantiles) -> str:
    return f"{spread.median:.0f} ({spread.p10:.0f} to {spread.p90:.0f})"


def _spread(spread: Quantiles) -> str:
    return f"{short_number(spread.median)} ({short_number(spread.p90)})"


def _quantiles(spread: Quantiles) -> str:
    return ", ".join(f"{value:.3g}" for value in (spread.p10, spread.median, spread.p90, spread.p99))
