"""The page of `scots report`: what was measured about augmented data, pictures, how it was made, what to do next."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from scots.data.trajectories import Meta
from scots.evaluation.control import controller_of
from scots.evaluation.rollout import origin_of
from scots.reporting.metrics import Dynamics, Spread, Steps, Visits
from scots.reporting.page import Commands, Facts, Page, Picture, Table, Text
from scots.reporting.quality import Quality, Summary, headline


def quality_page(quality: Quality, pictures: Sequence[Picture], meta: Meta, names: tuple[str, str]) -> Page:
    """One page. `meta` is that of the augmented data, `names` what the user calls the original and the augmented."""
    before, after = quality.original, quality.augmented
    scale = f" at profile {quality.profile}" if quality.profile else ""
    page = Page(
        f"Augmented data: {quality.dataset or names[0]}",
        f"{after.trajectories:,} trajectories of about {after.states / after.trajectories:,.0f} states, stitched from "
        f"{before.trajectories:,} of about {before.states / before.trajectories:,.0f}{scale}. An arrow leads from the "
        "original to the augmented data or, at joins, from unrefined to refined.",
    )
    page.section("In short", Facts(in_short(quality)))
    page.section("Pictures", *pictures)
    page.section("Numbers", _sides(before, after), *_steps(quality))
    page.section("How it was made", Facts(_made(quality, meta)))
    words = "Look closer, augment again with other choices, or learn to plan from the augmented data:"
    page.section("Next", Text(words), Commands(_commands(*names, meta)))
    return page


def in_short(quality: Quality) -> dict[str, str]:
    """The few numbers that matter most, by name; what was not measured is left out."""
    before, after, facts = quality.original, quality.augmented, {}
    facts["cells visited"] = f"{before.cells.share:.0%} → {after.cells.share:.0%}"
    spreads = before.cells.per_trajectory, after.cells.per_trajectory
    facts["cells per trajectory"] = f"{spreads[0].median:.0f} → {spreads[1].median:.0f}"
    if before.reach and after.reach:
        facts["path cells to the farthest"] = f"{before.reach.median:.0f} → {after.reach.median:.0f}"
    if quality.joins:
        steps = quality.joins.position
        medians = [kind.spread.median for kind in (steps.unrefined_joins, steps.refined_joins, steps.refined)]
        facts[f"step at joins (inside {medians[2]:.3g})"] = f"{medians[0]:.3g} → {medians[1]:.3g}"
    if quality.dynamics:
        medians = [kind.spread.median for kind in (quality.dynamics.unrefined_joins, quality.dynamics.refined_joins)]
        facts["Dynamic MSE at joins"] = f"{_small(medians[0])} → {_small(medians[1])}"
    if after.walls:
        facts["states inside walls"] = f"{after.walls.states:.3%}"
        facts["steps across walls"] = f"{after.walls.steps:.3%}"
    facts["repeated trajectories"] = f"{quality.repeats.trajectories:.2%}"
    return facts


def _sides(before: Summary, after: Summary) -> Table:
    """Both datasets side by side; what was not measured is left out."""
    rows = [
        ("trajectories", f"{before.trajectories:,}", f"{after.trajectories:,}"),
        ("states", f"{before.states:,}", f"{after.states:,}"),
    ]
    grids = {
        "cells": (before.cells, after.cells),
        "fine cells": (before.fine, after.fine),
        "latent cells": (before.latent, after.latent),
    }
    for label, (first, second) in grids.items():
        if first and second:
            rows.append((f"{label} visited", _visited(first), _visited(second)))
            rows.append((f"{label} per trajectory", _range(first.per_trajectory), _range(second.per_trajectory)))
    if before.reach and after.reach:
        rows.append(("path cells to the farthest", _range(before.reach), _range(after.reach)))
    if before.walls and after.walls:
        rows.append(("states inside walls", f"{before.walls.states:.3%}", f"{after.walls.states:.3%}"))
        rows.append(("steps across walls", f"{before.walls.steps:.3%}", f"{after.walls.steps:.3%}"))
    return Table(("", "original", "augmented"), rows, "Both datasets. Per trajectory: median (10 to 90 %).")


def _small(value: float) -> str:
    """Two digits, with an exponent as short as people write it: 1.7e-5."""
    return re.sub(r"e-0+", "e-", f"{value:.2g}")


def _visited(grid: Visits) -> str:
    return f"{grid.visited:,} of {grid.cells:,}"


def _range(spread: Spread) -> str:
    return f"{spread.median:.0f} ({spread.p10:.0f} to {spread.p90:.0f})"


def _steps(quality: Quality) -> list[Table]:
    """Steps at joins and elsewhere, if anything was joined."""
    if quality.joins is None:
        return []
    measured: dict[str, Steps | Dynamics] = {
        "length in position": quality.joins.position,
        "length in normalised state": quality.joins.state,
    }
    measured |= {"Dynamic MSE": quality.dynamics} if quality.dynamics else {}
    kinds = ("unrefined_joins", "refined_joins", "refined", "recorded")
    rows = []
    for label, found in measured.items():
        spreads = [getattr(found, kind).spread for kind in kinds]
        rows.append((label, *(f"{_small(spread.median)} ({_small(spread.p90)})" for spread in spreads)))
    header = ("step", "joins, unrefined", "joins, refined", "inside, refined", "inside, recorded")
    caption = "Median and, in brackets, the 90 % quantile: a median alone hides the few steps that no action can make."
    return [Table(header, rows, caption)]


def _made(quality: Quality, meta: Meta) -> dict[str, object]:
    row = headline(quality)
    names = ("dataset", "recipe", "profile", "seed", "config")
    facts = {name: row[name] for name in names if row[name] is not None}
    versions = ", ".join(f"{name} {number}" for name, number in row["versions"].items())
    return {**facts, "origin": origin_of(meta), "versions": versions, "measured": row["date"].partition("T")[0]}


def _commands(data: str, aug: str, meta: Meta) -> list[str]:
    """What to type next; a planner can be evaluated only where there is an environment."""
    commands = [
        ["data", "inspect", aug, "--png", "augmented.png"],
        ["augment", data, "--out", "other.npz", "--beta", "20"],
        ["train", "hd", "--data", aug, "--out", "planner"],
    ]
    if meta.environment:
        commands += [
            ["train", controller_of(meta.dataset or ""), "--data", data, "--out", "controller"],
            ["evaluate", "planner", "--controller", "controller"],
        ]
    return [shlex.join(["scots", *words]) for words in commands]
