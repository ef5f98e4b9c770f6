"""What was measured about augmented data, as a document: the text, the page and the kept row of `scots report`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

import numpy as np

from scots.core.versions import code_version, now, package_versions
from scots.data.trajectories import Meta
from scots.datasets.specs import spec_of_meta
from scots.reporting.document import Commands, Document, Facts, Paragraph, Picture, Section, TableBlock, short_number
from scots.reporting.metrics import NEAR_CELLS, Distribution, Dynamics, Nearest, Quantiles, Visits
from scots.reporting.quality import FINE_PARTS, Quality, Summary

_KINDS = {  # of steps, by the name of their field
    "unrefined_joins": "joins, before refinement",
    "refined_joins": "joins, after refinement",
    "inside": "augmented, not at joins",
    "recorded": "recorded",
    "relabelled": "recorded, with labelled actions",
}


def quality_document(
    quality: Quality, pictures: Sequence[Picture] = (), commands: Sequence[str] = (), name: str = "unnamed data"
) -> Document:
    """All that was measured. `commands` are worth typing next, `name` is what the user calls data without an id."""
    before, after = quality.original, quality.augmented
    profile = quality.augmentation.profile
    scale = f" at profile {profile}" if profile else ""
    lead = (
        f"{after.trajectories:,} trajectories of about {after.states / after.trajectories:,.0f} states, made from "
        f"{before.trajectories:,} of about {before.states / before.trajectories:,.0f}{scale}. Arrows lead from the "
        "original to the augmented data or, at joins, from before to after refinement."
    )
    intro = "Look closer, augment again with other choices, or learn to plan from the augmented data:"
    sections = [
        Section("Summary", [Facts(quality_facts(quality))]),
        Section("Figures", pictures),
        Section("Both datasets", [_both_datasets(before, after)]),
        Section("Steps", _steps(quality)),
        Section("Distance to recorded states", [_nearest(quality.nearest)]),
        Section("Models and repeats", [Facts(details)] if (details := _details(quality)) else []),
        Section("How it was made", [Facts(_provenance(quality))]),
        Section("Next", [Paragraph(intro), Commands(commands)] if commands else []),
    ]
    return Document(f"Augmented data: {quality.dataset or name}", lead, sections)


def quality_facts(quality: Quality) -> dict[str, str]:
    """The few numbers that matter most, by name; what was not measured is left out."""
    before, after, facts = quality.original, quality.augmented, {}
    facts["cells visited"] = f"{before.cells.share:.0%} → {after.cells.share:.0%}"
    spreads = before.cells.per_trajectory, after.cells.per_trajectory
    facts["cells per trajectory"] = f"{spreads[0].median:.0f} → {spreads[1].median:.0f}"
    if before.reach and after.reach:
        facts["reach in maze cells"] = f"{before.reach.median:.0f} → {after.reach.median:.0f}"
    if quality.joins:
        steps = quality.joins.position
        medians = [kind.quantiles.median for kind in (steps.unrefined_joins, steps.refined_joins, steps.inside)]
        facts[f"step length at joins ({medians[2]:.3g} inside)"] = f"{medians[0]:.3g} → {medians[1]:.3g}"
    facts |= _dynamics_fact(quality.dynamics) if quality.dynamics else {}
    if before.walls and after.walls:
        facts["states inside walls"] = f"{before.walls.states:.3%} → {after.walls.states:.3%}"
        facts["steps through walls"] = f"{before.walls.steps:.3%} → {after.walls.steps:.3%}"
    if quality.repeats:
        facts["repeated trajectories"] = f"{quality.repeats.trajectories:.2%}"
    return facts


def _dynamics_fact(dynamics: Dynamics) -> dict[str, str]:
    """Dynamic MSE at joins before and after refinement; without joins, of recorded and of augmented steps."""
    if dynamics.unrefined_joins and dynamics.refined_joins:
        name, pair = "Dynamic MSE at joins", (dynamics.unrefined_joins, dynamics.refined_joins)
    elif dynamics.inside:
        name, pair = "Dynamic MSE", (dynamics.recorded, dynamics.inside)
    else:
        return {}
    return {name: " → ".join(short_number(kind.quantiles.median) for kind in pair)}


def next_commands(data: str, aug: str, meta: Meta) -> list[str]:
    """What to type next; a planner can be evaluated only where there is an environment. `meta` is the augmented data's.

    Plans of a planner that learned from augmented data are searched, which needs something of the recorded data.
    """
    recorded = ["--recorded", data] if meta.augmentation else []
    commands = [
        ["data", "inspect", aug, "--png", "augmented.png"],
        ["augment", data, "--out", "other.npz", "--beta", "20"],
        ["train", "hd", "--data", aug, *recorded, "--out", "planner"],
    ]
    if meta.environment:
        agent = spec_of_meta(meta, columns=len(meta.columns), episode_states=0).controller
        commands += [
            ["train", agent, "--data", data, "--out", "controller"],
            ["evaluate", "planner", "--controller", "controller"],
        ]
    return [shlex.join(["scots", *words]) for words in commands]


# -------------------------------------------------------------------------------------------------------------- tables


def _both_datasets(before: Summary, after: Summary) -> TableBlock:
    """Both datasets side by side; what was not measured is left out."""
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
    if before.reach and after.reach:
        rows.append(("reach in maze cells", _range(before.reach), _range(after.reach)))
    if before.walls and after.walls:
        first_walls, second_walls = before.walls, after.walls
        rows += [
            ("states inside walls", f"{first_walls.states:.3%}", f"{second_walls.states:.3%}"),
            ("trajectories with such states", f"{first_walls.trajectories:.1%}", f"{second_walls.trajectories:.1%}"),
            ("steps through walls", f"{first_walls.steps:.3%}", f"{second_walls.steps:.3%}"),
        ]
    caption = (
        f"Cells are those of the maze, or of a grid over the positions; fine cells divide each side by {FINE_PARTS}, "
        "latent cells are clusters of latents. Reach is the length of the path from a trajectory's start to the "
        "farthest cell it visits. Per trajectory and reach: median (10 to 90 %). Latent cells, reach and walls are "
        "measured on the sampled states."
    )
    return TableBlock(("", "original", "augmented"), rows, caption)


def _steps(quality: Quality) -> list[TableBlock]:
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
    for field, title in _KINDS.items():
        found = [getattr(kinds, field, None) for kinds in measured.values()]
        if any(found):
            rows.append((title, *map(_median, found)))
    caption = "Median and, in brackets, the 90 % quantile: a median alone hides the few steps that no action can make."
    return [TableBlock(("step", *measured), rows, caption)]


def _nearest(nearest: Nearest) -> TableBlock:
    rows = []
    for label, augmented, original in (
        ("position", nearest.augmented_position, nearest.original_position),
        ("normalised state", nearest.augmented_state, nearest.original_state),
    ):
        rows.append((f"{label}, median", f"{original.median:.3g}", f"{augmented.median:.3g}"))
        rows.append((f"{label}, 99 % quantile", f"{original.p99:.3g}", f"{augmented.p99:.3g}"))
    caption = (
        f"To the nearest of {nearest.keys:,} original states, from augmented states and from original states that are "
        "not among them."
    )
    return TableBlock(("", "original", "augmented"), rows, caption)


def _details(quality: Quality) -> dict[str, str]:
    facts = {}
    if quality.residual:
        error, where = quality.residual, "held-out" if quality.residual.held_out else "training"
        facts["inverse dynamics"] = f"error {error.error:.3g} of variance {error.variance:.3g} on {where} data"
    if quality.repeats:
        facts["segments used more than once"] = f"{quality.repeats.reused:.1%} of {quality.repeats.segments:,}"
    if quality.calibration:
        near, overall = (
            "-" if value is None else f"{value:.3f}" for value in (quality.calibration.near, quality.calibration.all)
        )
        words = f"rank correlation {near} up to {NEAR_CELLS} maze cells, {overall} for all pairs"
        facts["latent distance and path length"] = words
    return facts


def _provenance(quality: Quality) -> dict[str, object]:
    made, row = quality.augmentation, quality_row(quality)
    facts = {
        "dataset": quality.dataset,
        "augmentation": made.label,
        "profile": made.profile,
        "seed": made.seed,
        "fingerprint": made.config_fingerprint,
        "origin": quality.origin,
        "versions": ", ".join(f"{name} {number}" for name, number in row["versions"].items()),
        "measured": f"{row['date'].partition('T')[0]} by {row['commit']}",
    }
    return {name: value for name, value in facts.items() if value is not None}


def _median(found: Distribution | None) -> str:
    return f"{short_number(found.quantiles.median)} ({short_number(found.quantiles.p90)})" if found else "-"


def _visited(grid: Visits) -> str:
    return f"{grid.visited:,} of {grid.cells:,} ({grid.share:.1%})"


def _entropy(grid: Visits) -> str:
    return f"{grid.entropy:.2f} of {np.log(grid.cells):.2f}"


def _range(spread: Quantiles) -> str:
    return f"{spread.median:.0f} ({spread.p10:.0f} to {spread.p90:.0f})"


# --------------------------------------------------------------------------------------------------------------- rows


def quality_row(quality: Quality) -> dict[str, Any]:
    """How the data was made and the few numbers that runs are compared by; what was not measured is None."""
    row: dict[str, Any] = {"dataset": quality.dataset, **quality.augmentation.to_dict()}
    for side, summary in (("original", quality.original), ("augmented", quality.augmented)):
        row |= {
            f"{side}_trajectories": summary.trajectories,
            f"{side}_states": summary.states,
            f"{side}_cells": summary.cells.share,
            f"{side}_fine_cells": summary.fine.share,
            f"{side}_cells_per_trajectory": summary.cells.per_trajectory.median,
            f"{side}_reach": summary.reach.median if summary.reach else None,
            f"{side}_states_in_walls": summary.walls.states if summary.walls else None,
            f"{side}_steps_across_walls": summary.walls.steps if summary.walls else None,
        }
    measured, found = quality.dynamics, quality.calibration
    row |= {
        "join_ratio_position": quality.joins.position.ratio if quality.joins else None,
        "join_ratio_state": quality.joins.state.ratio if quality.joins else None,
        **_dynamics_row(measured),
        "inverse_dynamics_error": quality.residual.error if quality.residual else None,
        "repeated_trajectories": quality.repeats.trajectories if quality.repeats else None,
        "nearest_state": quality.nearest.augmented_state.median,
        "rank_correlation_near": found.near if found else None,
        "rank_correlation": found.all if found else None,
    }
    versions = package_versions("torch", "faiss-cpu", *(("mujoco", "ogbench") if measured else ()))
    return {**row, "versions": versions, "commit": code_version(), "date": now()}


def _dynamics_row(dynamics: Dynamics | None) -> dict[str, float | None]:
    """Median and 90 % quantile of the Dynamic MSE of each kind of step: a median can hide a long tail."""
    row: dict[str, float | None] = {}
    for name in ("unrefined_joins", "refined_joins", "inside", "recorded"):
        kind = getattr(dynamics, name, None)
        row |= {
            f"dynamic_mse_{name}": kind and kind.quantiles.median,
            f"dynamic_mse_{name}_p90": kind and kind.quantiles.p90,
        }
    return row
