"""What was measured about augmented data, as a document: the text, the page and the kept row of `scots report`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from scots.core.resources import machine
from scots.core.versions import code_version, now, package_versions
from scots.data.trajectories import Meta
from scots.datasets.specs import spec_of_meta
from scots.reporting.calibration import NEAR_CELLS
from scots.reporting.document import Commands, Document, Facts, Finding, Paragraph, Picture, Section, short_number
from scots.reporting.dynamics import Dynamics
from scots.reporting.lineage import REPAIRS
from scots.reporting.quality import Quality
from scots.reporting.quality_tables import (
    both_datasets_table,
    motion_table,
    on_data_table,
    steps_tables,
    verdict_table,
)
from scots.reporting.returns import Returns, returns_table
from scots.reporting.verdict import GOOD, PLANNING_ONLY, UNUSABLE, Verdict

_TONES: dict[str, Literal["good", "caution", "bad"]] = {GOOD: "good", PLANNING_ONLY: "caution", UNUSABLE: "bad"}


def quality_document(
    quality: Quality,
    pictures: Sequence[Picture] = (),
    commands: Sequence[str] = (),
    name: str = "unnamed data",
    made_by: Sequence[str] = (),
) -> Document:
    """All that was measured, the verdict first.

    `commands` are worth typing next, `made_by` made this page and the data, `name` is what the user calls data without
    an id.
    """
    before, after = quality.original, quality.augmented
    scale = f" at profile {quality.augmentation.scale}" if quality.augmentation.scale else ""
    lead = (
        f"{after.trajectories:,} trajectories of about {after.states / after.trajectories:,.0f} states, made from "
        f"{before.trajectories:,} of about {before.states / before.trajectories:,.0f}{scale}. "
    )
    lead += (
        "Arrows lead from the original to the augmented data or, at joins, from before to after refinement."
        if quality.is_refined
        else "Arrows lead from the original to the augmented data. The joins are not refined."
    )
    intro = "Look closer, augment again with other choices, or learn to plan from the augmented data:"
    sections = [
        Section("Verdict", [verdict_finding(quality.verdict)]),
        Section("Why", [verdict_table(quality.verdict)]),
        Section("Summary", [Facts(quality_facts(quality))]),
        Section("Figures", pictures),
        Section("Both datasets", [both_datasets_table(quality)]),
        Section("Returns", [returns_table(quality.returns)] if quality.returns else []),
        Section("Distance to recorded states", [on_data_table(quality.on_data)]),
        Section("Motion", [motion_table(quality.motion)] if quality.motion else []),
        Section("Steps", steps_tables(quality)),
        Section("Models and repeats", [Facts(details)] if (details := _details(quality)) else []),
        Section("How it was made", [Facts(_provenance(quality)), *([Commands(made_by)] if made_by else [])]),
        Section("Next", [Paragraph(intro), Commands(commands)] if commands else []),
    ]
    return Document(f"Augmented {quality.dataset or name}: {quality.verdict.headline}", lead, sections)


def verdict_finding(verdict: Verdict) -> Finding:
    """What the data is good for, and the findings that decided it."""
    return Finding(_TONES[verdict.label], verdict.label, verdict.reasons)


def quality_facts(quality: Quality) -> dict[str, str]:
    """The few numbers that matter most, by name; what was not measured is left out."""
    before, after, on = quality.original, quality.augmented, quality.on_data
    facts = {"states off the data": f"{on.recorded_off:.1%} → {on.off:.1%}"}
    if on.off != on.off_positions:
        facts["positions off the data"] = f"{on.recorded_off_positions:.1%} → {on.off_positions:.1%}"
    if quality.clearance:
        facts["nearer to walls than any original"] = f"{quality.clearance.nearer_than_any:.2%}"
    if quality.returns:
        earned = quality.returns
        facts["mean return"] = f"{earned.original.mean:.0f} → {earned.augmented.mean:.0f}"
        facts["trajectories that earn more than any recorded one"] = f"{earned.beyond_best:.1%}"
    facts |= _dynamics_fact(quality.dynamics, quality.is_refined) if quality.dynamics else {}
    if quality.kept:
        facts["states as recorded"] = f"{quality.kept.states:.0%}"
    if quality.joins:
        steps = quality.joins.position
        medians = [kind.quantiles.median for kind in (steps.unrefined_joins, steps.refined_joins, steps.inside)]
        change = f"{medians[0]:.3g} → {medians[1]:.3g}" if quality.is_refined else f"{medians[1]:.3g}, not refined"
        facts[f"step length at joins ({medians[2]:.3g} inside)"] = change
    facts["original fine cells visited, equal numbers"] = (
        f"{quality.coverage.original:.0%} → {quality.coverage.augmented:.0%}"
    )
    spreads = before.cells.per_trajectory, after.cells.per_trajectory
    facts["cells per trajectory"] = f"{spreads[0].median:.0f} → {spreads[1].median:.0f}"
    if before.reach and after.reach:
        facts["reach in maze cells"] = f"{before.reach.median:.0f} → {after.reach.median:.0f}"
    if before.walls and after.walls:
        facts["steps through walls"] = f"{before.walls.steps:.3%} → {after.walls.steps:.3%}"
    if quality.repeats:
        facts["repeated trajectories"] = f"{quality.repeats.trajectories:.2%}"
    return facts


def _dynamics_fact(dynamics: Dynamics, is_refined: bool) -> dict[str, str]:
    """Dynamic MSE at joins before and after refinement; without joins, of recorded and of augmented steps."""
    name, kinds = "Dynamic MSE", [dynamics.recorded, dynamics.inside]
    if dynamics.unrefined_joins and dynamics.refined_joins:
        name, kinds = "Dynamic MSE at joins", [dynamics.unrefined_joins, dynamics.refined_joins]
        if not is_refined:
            name, kinds = f"{name}, not refined", [dynamics.refined_joins]
    medians = [short_number(kind.quantiles.median) for kind in kinds if kind]
    if len(medians) < len(kinds):
        return {}
    floor = short_number((dynamics.relabelled or dynamics.recorded).quantiles.median)
    return {
        name: " → ".join(medians),
        f"Dynamic MSE per step (floor {floor})": short_number(dynamics.typical),
    }


def next_commands(data: str, aug: str, meta: Meta) -> list[str]:
    """What to type next; a planner can be evaluated only where there is an environment. `meta` is the augmented data's.

    Plans of a planner that learned from augmented data are searched, which needs something of the recorded data.
    """
    recorded = ["--recorded", data] if meta.augmentation else []
    spec = spec_of_meta(meta, columns=len(meta.columns), episode_states=0)
    rewarded = spec.reference_returns is not None  # the environment has no goal, only rewards
    commands = [
        ["data", "inspect", aug, "--png", "augmented.png"],
        ["augment", data, "--out", "other.npz", "--beta", "20"],
        ["train", "diffuser" if rewarded else "hd", "--data", aug, *recorded, "--out", "planner"],
    ]
    if rewarded:
        commands.append(["evaluate", "planner"])
    elif meta.environment:
        commands += [
            ["train", spec.controller, "--data", data, "--out", "controller"],
            ["evaluate", "planner", "--controller", "controller"],
        ]
    return [shlex.join(["scots", *words]) for words in commands]


# ------------------------------------------------------------------------------------------------------------- details


def _details(quality: Quality) -> dict[str, str]:
    facts = {}
    if quality.kept:
        kept = quality.kept
        facts["states as recorded"] = f"{kept.states:.1%}"
        if kept.actions is not None:
            facts["transitions with their recorded actions"] = f"{kept.actions:.1%}"
        if kept.own_continuation is not None:
            facts["joins that went on in the same episode"] = f"{kept.own_continuation:.1%}"
        if kept.repairs and quality.is_refined:
            facts["joins by the draw that lay on the data"] = ", ".join(
                f"{kept.repairs[outcome]:.1%} {outcome}" for outcome in REPAIRS
            )
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
        "profile": made.scale,
        "seed": made.seed,
        "fingerprint": made.config_fingerprint,
        "origin": quality.origin,
        **measured_here(row["versions"], row["date"], row["commit"]),
    }
    return {name: value for name, value in facts.items() if value is not None}


def measured_here(versions: Mapping[str, str], date: str, commit: str) -> dict[str, str]:
    """Where, with what and when something was measured."""
    return {
        "machine": machine(),
        "versions": ", ".join(f"{name} {number}" for name, number in versions.items()),
        "measured": f"{date.partition('T')[0]} by {commit}",
    }


# --------------------------------------------------------------------------------------------------------------- rows


def quality_row(quality: Quality) -> dict[str, Any]:
    """How the data was made and the few numbers that runs are compared by; what was not measured is None."""
    verdict = {"verdict": quality.verdict.label, "reasons": list(quality.verdict.reasons)}
    row: dict[str, Any] = {"dataset": quality.dataset, **quality.augmentation.to_dict(), **verdict}
    for side, summary in (("original", quality.original), ("augmented", quality.augmented)):
        row |= {
            f"{side}_trajectories": summary.trajectories,
            f"{side}_states": summary.states,
            f"{side}_sampled_states": summary.sampled_states,
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
        **_fidelity_row(quality),
        **_returns_row(quality.returns),
        "rank_correlation_near": found.near if found else None,
        "rank_correlation": found.all if found else None,
    }
    versions = package_versions("torch", "faiss-cpu", *(("mujoco", "ogbench") if measured else ()))
    return {**row, "versions": versions, "commit": code_version(), "date": now()}


def _returns_row(returns: Returns | None) -> dict[str, Any]:
    """What trajectories earn, and how well rewards are predicted."""
    return {
        "original_return": returns and returns.original.mean,
        "augmented_return": returns and returns.augmented.mean,
        "beyond_best_return": returns and returns.beyond_best,
        "reward_error": returns.model.error / returns.model.variance if returns and returns.model else None,
    }


def _fidelity_row(quality: Quality) -> dict[str, Any]:
    """Which states lie on the data, how near to walls, how they move, and how many are recorded ones."""
    on, walls, kept, motion = quality.on_data, quality.clearance, quality.kept, quality.motion
    return {
        "compared_states": on.states,
        "off_data": on.off,
        "off_data_positions": on.off_positions,
        "off_data_recorded": on.recorded_off,
        "off_data_positions_recorded": on.recorded_off_positions,
        "recall": on.recall,
        "nearer_to_walls_than_recorded": walls.nearer_than_any if walls else None,
        "equal_states": quality.coverage.states,
        "original_fine_cells_equal": quality.coverage.original,
        "augmented_fine_cells_equal": quality.coverage.augmented,
        "step_length_ks": motion.step_length.ks if motion else None,
        "step_length_wasserstein": motion.step_length.wasserstein if motion else None,
        "recorded_states": kept.states if kept else None,
        "recorded_transitions": kept.actions if kept else None,
        "own_continuation": kept.own_continuation if kept else None,
        "repairs": kept.repairs if kept else None,
        "join_gap": kept.gap if kept else None,
        "join_gap_refined": kept.refined_gap if kept else None,
    }


def _dynamics_row(dynamics: Dynamics | None) -> dict[str, Any]:
    """Median and 90 % quantile of the Dynamic MSE of each kind of step: a median can hide a long tail."""
    row: dict[str, Any] = {
        "dynamic_mse_per_step": dynamics and dynamics.typical,
        "dynamic_mse_mean": dynamics and dynamics.whole,
        "dynamic_mse_places": dynamics and list(dynamics.places),
        "dynamic_mse_groups": dynamics and dynamics.groups,
        "one_step_square": dynamics and dynamics.one_step,
    }
    for name in ("unrefined_joins", "refined_joins", "inside", "generated", "kept", "recorded", "relabelled"):
        kind = getattr(dynamics, name, None)
        row |= {
            f"dynamic_mse_{name}": kind and kind.quantiles.median,
            f"dynamic_mse_{name}_p90": kind and kind.quantiles.p90,
        }
    return row
