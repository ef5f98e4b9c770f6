"""How good an augmented dataset is, beside the data it was made from: the numbers of `scots report`.

What needs a maze, a simulator or a trained model is None where there is none.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from scots import datasets as sources
from scots.augmenters.embedding import Encoder, RawState
from scots.augmenters.refinement import InverseDynamics
from scots.augmenters.scots import ScotsConfig, job_of, stitched_by
from scots.augmenters.stitching import RECIPES, StitchingConfig
from scots.core.config import Config, Seeds
from scots.core.errors import BadInput
from scots.data.inspection import position_columns
from scots.data.trajectories import Normalizer, Trajectories
from scots.envs.maze import Maze, maze_of
from scots.models.cache import found
from scots.reporting.metrics import (
    FINE,
    NEAR_CELLS,
    Calibration,
    Cells,
    Distribution,
    Dynamics,
    Joins,
    Nearest,
    Repeats,
    Residual,
    Spread,
    Visits,
    Walls,
    box_cells,
    calibration,
    dynamics,
    joins,
    latent_cells,
    maze_cells,
    nearest,
    reach,
    repeats,
    residual,
    sample,
    visits,
    walls,
)

SAMPLE_STATES = 200_000  # of whole trajectories, from the original and from the augmented data
SIMULATED = 2000  # steps of each kind given to the simulator
LOOKING, LOOKED_AT = 2000, 100_000  # states that look for their nearest original, and originals they look among
RESIDUAL_TRANSITIONS = 20_000
PAIRED = (200, 500)  # states of the distance calibration: each of the first with each of the second


@dataclass(frozen=True)
class Summary(Config):
    """One dataset, the original or the augmented."""

    trajectories: int
    states: int
    cells: Visits  # of the maze, or of a grid over the positions of the original
    fine: Visits  # the same cells, each side divided by FINE
    sampled_trajectories: int  # what follows is measured on these
    sampled_states: int
    latent: Visits | None  # of k-means cells of the original's latents
    reach: Spread | None  # path length in maze cells from a trajectory's start to the farthest cell it visits
    walls: Walls | None


@dataclass(frozen=True, repr=False)
class Quality(Config):
    """Everything that was measured about an augmented dataset. Printing it gives a summary to read."""

    dataset: str | None  # id of the original
    recipe: str | None  # the stitching choices by name, if they are those of a recipe
    profile: str | None  # the scale by name
    config: str | None  # fingerprint of the augmentation's config
    seed: int | None  # of the augmentation
    sample_seed: int  # of what was drawn to be measured
    original: Summary
    augmented: Summary
    joins: Joins | None  # none if nothing was joined
    dynamics: Dynamics | None
    residual: Residual | None  # of the inverse dynamics that labelled the actions
    repeats: Repeats
    nearest: Nearest
    calibration: Calibration | None

    def __repr__(self) -> str:
        return text(self)


# ---------------------------------------------------------------------------------------------------- where it is from


@dataclass(frozen=True, eq=False)
class Origin:
    """What is known and still there of how augmented data was made."""

    config: ScotsConfig | None = None
    seed: int | None = None
    encoder: Encoder | None = None
    inverse: InverseDynamics | None = None
    inputs: Path | None = None  # folder of latents, segments and their index


def origin_of(data: Trajectories, aug: Trajectories) -> Origin:
    """The config that augmented data carries, and the models among the artifacts that it names."""
    if aug.source is None:
        raise BadInput(
            f"{aug.meta.dataset or 'the augmented data'}: no lineage (source rows); was it made by stitching?"
        )
    if aug.observations.shape[1] != data.observations.shape[1] or aug.source.max() >= data.rows:
        raise BadInput("the source rows of the augmented data do not fit the original: give the data it was made from")
    made = stitched_by(aug.meta)
    if made is None:
        return Origin()
    data = data.but_meta(position=aug.meta.position)  # as it was when it was stitched
    if made.source != data.fingerprint():
        raise BadInput(
            f"stitched from data of fingerprint {made.source}, the original given has {data.fingerprint()}: "
            "give the data it was made from"
        )
    config, encoder = made.config, made.embedding() if made.config.encoder == "temporal" else RawState(data)
    inverse = found(InverseDynamics, config.inverse, made.source, made.seed)
    inputs = Path(job_of(data, config, made.seed).inputs)
    return Origin(config, made.seed, encoder, inverse, inputs if (inputs / "index").exists() else None)


def _recipe(config: StitchingConfig) -> str | None:
    """The recipe by name. The threshold does not count: it is set by the kind of data."""
    for name, choices in RECIPES.items():
        if all(getattr(config, field) == value for field, value in choices.items() if field != "min_displacement"):
            return name
    return None


# ------------------------------------------------------------------------------------------------------------- report


def report(data: Trajectories, aug: Trajectories, *, encoder: Encoder | None = None, seed: int = 0) -> Quality:
    """Measure augmented data against the data it was made from; `seed` decides what is sampled.

    The embedding and the inverse dynamics are those among the artifacts, unless an encoder is given.
    """
    origin, seeds = origin_of(data, aug), Seeds(seed)
    encoder = encoder or origin.encoder
    data = located(data, aug)
    aug = aug.but_meta(position=data.meta.position)
    columns, maze = data.meta.position[:2], known_maze(data)
    scale = Normalizer.fit(data.observations)
    original = sample(data, SAMPLE_STATES, seeds.stream("sample original"))
    augmented = sample(aug, SAMPLE_STATES, seeds.stream("sample augmented"))
    if maze:
        grids = [maze_cells(maze, columns, parts) for parts in (1, FINE)]
    else:
        grids = [box_cells(data, columns, parts) for parts in (1, FINE)]
    latent = latent_cells(original, encoder, seed) if encoder else None
    return Quality(
        dataset=data.meta.dataset,
        recipe=_recipe(origin.config.stitching) if origin.config else None,
        profile=origin.config.profile if origin.config else None,
        config=origin.config.fingerprint() if origin.config else None,
        seed=origin.seed,
        sample_seed=seed,
        original=_summary(data, original, grids, latent, maze),
        augmented=_summary(aug, augmented, grids, latent, maze),
        joins=joins(data, augmented, columns, scale),
        dynamics=dynamics(data, augmented, origin.inverse, SIMULATED, seeds.stream("dynamics")),
        residual=_residual(data, origin.inverse, seeds.stream("residual")),
        repeats=repeats(aug),
        nearest=nearest(data, augmented, columns, scale, (LOOKING, LOOKED_AT), seeds.stream("nearest")),
        calibration=_calibration(data, encoder, maze, seeds.stream("calibration")),
    )


def located(data: Trajectories, aug: Trajectories) -> Trajectories:
    """The data with the position columns that its augmentation was told, or else those that it names itself."""
    return data.but_meta(position=aug.meta.position or position_columns(data)[0])


def known_maze(data: Trajectories) -> Maze | None:
    """The maze of a dataset whose places in it are known too."""
    return maze_of(data.meta) if len(data.meta.position) == 2 else None


def _summary(
    data: Trajectories, drawn: Trajectories, grids: list[Cells], latent: Cells | None, maze: Maze | None
) -> Summary:
    return Summary(
        trajectories=len(data),
        states=data.rows,
        cells=visits(data, grids[0]),
        fine=visits(data, grids[1]),
        sampled_trajectories=len(drawn),
        sampled_states=drawn.rows,
        latent=visits(drawn, latent) if latent else None,
        reach=reach(drawn, maze) if maze else None,
        walls=walls(drawn, maze) if maze else None,
    )


def _residual(data: Trajectories, inverse: InverseDynamics | None, rng: np.random.Generator) -> Residual | None:
    if inverse is None:
        return None
    twin = f"{data.meta.dataset}-val"
    held_out = sources.data_path(twin).exists()
    return residual(sources.load(twin) if held_out else data, inverse, held_out, RESIDUAL_TRANSITIONS, rng)


def _calibration(
    data: Trajectories, encoder: Encoder | None, maze: Maze | None, rng: np.random.Generator
) -> Calibration | None:
    if encoder is None or maze is None or maze.name == "teleport":  # portals are shorter than any path
        return None
    return calibration(data, encoder, maze, PAIRED, rng)


# --------------------------------------------------------------------------------------------------------------- text


def text(quality: Quality) -> str:
    """The numbers to read: what both datasets have side by side, then what only the augmented one has."""
    made = [f"{quality.recipe} recipe"] if quality.recipe else []
    made += [f"profile {quality.profile}"] if quality.profile else []
    made += [f"seed {quality.seed}, config {quality.config}"] if quality.config else []
    title = ", ".join([quality.dataset or "unnamed data", *made])
    pairs = list(zip(_side(quality.original), _side(quality.augmented), strict=True))
    rows = [("", "original", "augmented"), *((label, first, second) for (label, first), (_, second) in pairs)]
    widths = [max(len(row[n]) for row in rows) for n in range(3)]
    table = [f"{a:<{widths[0]}}  {b:>{widths[1]}}  {c:>{widths[2]}}" for a, b, c in rows]
    return "\n".join([title, *table, *(f"{label}: {words}" for label, words in _facts(quality))])


def _side(summary: Summary) -> list[tuple[str, str]]:
    lines = [
        ("trajectories", f"{summary.trajectories:,}"),
        ("states", f"{summary.states:,}"),
        ("  of them sampled (latents, walls, joins)", f"{summary.sampled_states:,}"),
    ]
    for label, grid in (("cells", summary.cells), ("fine cells", summary.fine), ("latent cells", summary.latent)):
        if grid is not None:
            lines.append((f"{label} visited", f"{grid.visited:,}/{grid.cells:,} ({grid.share:.1%})"))
            lines.append((f"{label}, entropy of visits", f"{grid.entropy:.2f} of {np.log(grid.cells):.2f}"))
            lines.append((f"{label} per trajectory", _range(grid.per_trajectory)))
    if summary.reach is not None:
        lines.append(("path cells to the farthest", _range(summary.reach)))
    if summary.walls is not None:
        lines.append(("states inside walls", f"{summary.walls.states:.3%}"))
        lines.append(("trajectories with such states", f"{summary.walls.trajectories:.1%}"))
        lines.append(("steps across walls", f"{summary.walls.steps:.3%}"))
    return lines


def _range(spread: Spread) -> str:
    return f"{spread.median:.0f} ({spread.p10:.0f} to {spread.p90:.0f})"


def _facts(quality: Quality) -> list[tuple[str, str]]:
    lines = []
    if quality.joins:
        for label, steps in (("position", quality.joins.position), ("state", quality.joins.state)):
            kinds = {
                "unrefined joins": steps.unrefined_joins,
                "refined joins": steps.refined_joins,
                "inside segments": steps.refined,
                "recorded": steps.recorded,
            }
            ratio = "" if steps.ratio is None else f"; refined joins / inside {steps.ratio:.2f}"
            lines.append((f"{label} step, median (90 %)", _medians(kinds) + ratio))
    if quality.dynamics:
        measured = quality.dynamics
        kinds = {
            "unrefined joins": measured.unrefined_joins,
            "refined joins": measured.refined_joins,
            "inside segments": measured.refined,
            "recorded": measured.recorded,
        }
        kinds |= {"recorded, relabelled": measured.relabelled} if measured.relabelled else {}
        lines.append(("Dynamic MSE, median (90 %)", _medians(kinds)))
    if quality.residual:
        error, where = quality.residual, "held-out" if quality.residual.held_out else "training"
        lines.append(("inverse dynamics", f"error {error.error:.3g} of variance {error.variance:.3g} on {where} data"))
    found, near = quality.repeats, quality.nearest
    lines.append(("repeated trajectories", f"{found.trajectories:.2%}"))
    lines.append(("segments used more than once", f"{found.reused:.1%} of {found.segments:,}"))
    for label, own, floor in (
        ("position", near.position, near.position_floor),
        ("state", near.state, near.state_floor),
    ):
        words = (
            f"median {own.median:.3g}, 99 % {own.p99:.3g} (original to original {floor.median:.3g}, {floor.p99:.3g})"
        )
        lines.append((f"nearest original {label}", words))
    if quality.calibration:
        near_rank, rank = (
            "-" if value is None else f"{value:.3f}" for value in (quality.calibration.near, quality.calibration.all)
        )
        words = f"rank correlation {near_rank} up to {NEAR_CELLS} cells, {rank} for all pairs"
        lines.append(("latent distance and path length", words))
    return lines


def _medians(kinds: dict[str, Distribution]) -> str:
    """Medians with their 90 % quantiles: a median alone hides the few steps that no action can make."""
    return ", ".join(f"{name} {found.spread.median:.3g} ({found.spread.p90:.3g})" for name, found in kinds.items())


# --------------------------------------------------------------------------------------------------------------- rows


def headline(quality: Quality) -> dict[str, Any]:
    """The few numbers that runs are compared by, as one flat row; what was not measured is None."""
    row: dict[str, Any] = {name: getattr(quality, name) for name in ("dataset", "recipe", "profile", "config", "seed")}
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
        "repeated_trajectories": quality.repeats.trajectories,
        "nearest_state": quality.nearest.state.median,
        "rank_correlation_near": found.near if found else None,
        "rank_correlation": found.all if found else None,
    }
    packages = ("scots", "torch", "faiss-cpu", *(("mujoco", "ogbench") if measured else ()))
    versions = {name: version(name) for name in packages}
    return {**row, "versions": versions, "date": datetime.now(UTC).isoformat(timespec="seconds")}


def _dynamics_row(dynamics: Dynamics | None) -> dict[str, float | None]:
    """Median and 90 % quantile of the Dynamic MSE of each kind of step: a median can hide a long tail."""
    kinds = {
        "unrefined_joins": "unrefined_joins",
        "refined_joins": "refined_joins",
        "inside": "refined",
        "recorded": "recorded",
    }
    row: dict[str, float | None] = {}
    for name, field in kinds.items():
        spread = getattr(dynamics, field).spread if dynamics else None
        row |= {f"dynamic_mse_{name}": spread and spread.median, f"dynamic_mse_{name}_p90": spread and spread.p90}
    return row
