"""The quality of augmented data, beside the data it was made from: the numbers of `scots report`.

What needs a maze, a simulator, lineage or a trained model is None where there is none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scots.augmenters.embedding import StateEncoder
from scots.augmenters.refinement import InverseDynamics
from scots.core.config import Config, Seeds
from scots.data.inspection import position_columns
from scots.data.trajectories import Normalizer, Trajectories
from scots.datasets import data_path, load
from scots.envs.maze import Maze, maze_of
from scots.reporting.augmentation import AugmentationSettings, augmentation_of
from scots.reporting.metrics import (
    Calibration,
    Cells,
    Dynamics,
    Joins,
    Nearest,
    Quantiles,
    Repeats,
    Residual,
    Visits,
    Walls,
    grid_cells,
    latent_cells,
    maze_cells,
    measure_calibration,
    measure_dynamics,
    measure_joins,
    measure_nearest,
    measure_reach,
    measure_repeats,
    measure_residual,
    measure_visits,
    measure_walls,
    sample_trajectories,
)

FINE_PARTS = 8  # parts of a cell's side in the fine grid
_SAMPLE_STATES = 200_000  # of whole trajectories, from the original and from the augmented data
_SIMULATED_STEPS = 2000  # of each kind
_NEAREST_QUERIES, _NEAREST_KEYS = 2000, 100_000
_RESIDUAL_TRANSITIONS = 20_000
_CALIBRATION_STATES = (200, 500)  # each of the first with each of the second


@dataclass(frozen=True)
class Summary(Config):
    """One dataset, the original or the augmented."""

    trajectories: int
    states: int
    cells: Visits  # of the maze, or of a grid over the positions of the original
    fine: Visits  # the same cells, each side divided into FINE_PARTS
    sampled_trajectories: int  # what follows is measured on these
    sampled_states: int
    latent: Visits | None  # of k-means cells of the original's latents
    reach: Quantiles | None  # path length in maze cells from a trajectory's start to the farthest cell it visits
    walls: Walls | None


@dataclass(frozen=True, repr=False)
class Quality(Config):
    """Everything that was measured about an augmented dataset. Printing it gives a summary to read."""

    dataset: str | None  # id of the original
    augmentation: AugmentationSettings
    sample_seed: int  # of the samples that were measured
    origin: str  # of the augmented data, step by step
    original: Summary
    augmented: Summary
    joins: Joins | None  # none without lineage or if nothing was joined
    dynamics: Dynamics | None
    residual: Residual | None  # of the inverse dynamics that labelled the actions
    repeats: Repeats | None  # none without lineage
    nearest: Nearest
    calibration: Calibration | None

    def __repr__(self) -> str:
        from scots.reporting.quality_document import quality_document  # which needs this class

        return quality_document(self).text()


def measure_quality(
    data: Trajectories, aug: Trajectories, *, encoder: StateEncoder | None = None, seed: int = 0
) -> Quality:
    """Measure augmented data against the data it was made from; `seed` decides what is sampled.

    The encoder and the inverse dynamics are the cached ones that the data was made with, unless an encoder is given.
    """
    made, seeds = augmentation_of(data, aug), Seeds(seed)
    encoder = encoder or made.encoder
    data = with_position(data, aug)
    aug = aug.with_meta(position=data.meta.position)
    columns, maze = data.meta.position[:2], known_maze(data)
    scale = Normalizer.fit(data.observations)
    original = sample_trajectories(data, _SAMPLE_STATES, seeds.stream("sample original"))
    augmented = sample_trajectories(aug, _SAMPLE_STATES, seeds.stream("sample augmented"))
    if maze:
        grids = [maze_cells(maze, columns, parts) for parts in (1, FINE_PARTS)]
    else:
        grids = [grid_cells(data, columns, parts) for parts in (1, FINE_PARTS)]
    latent = latent_cells(original, encoder, seed) if encoder else None
    return Quality(
        dataset=data.meta.dataset,
        augmentation=made.settings,
        sample_seed=seed,
        origin=aug.meta.origin,
        original=_summary(data, original, grids, latent, maze),
        augmented=_summary(aug, augmented, grids, latent, maze),
        joins=measure_joins(data, augmented, columns, scale),
        dynamics=measure_dynamics(data, augmented, made.inverse, _SIMULATED_STEPS, seeds.stream("dynamics")),
        residual=_residual(data, made.inverse, seeds.stream("residual")),
        repeats=measure_repeats(aug),
        nearest=measure_nearest(
            data, augmented, columns, scale, (_NEAREST_QUERIES, _NEAREST_KEYS), seeds.stream("nearest")
        ),
        calibration=_calibration(data, encoder, maze, seeds.stream("calibration")),
    )


def with_position(data: Trajectories, aug: Trajectories) -> Trajectories:
    """The data with the position columns that its augmentation used, or else those that it names itself."""
    return data.with_meta(position=aug.meta.position or position_columns(data)[0])


def known_maze(data: Trajectories) -> Maze | None:
    """The maze of a dataset, if it also has two position columns."""
    return maze_of(data.meta) if len(data.meta.position) == 2 else None


def _summary(
    data: Trajectories, sampled: Trajectories, grids: list[Cells], latent: Cells | None, maze: Maze | None
) -> Summary:
    return Summary(
        trajectories=len(data),
        states=data.rows,
        cells=measure_visits(data, grids[0]),
        fine=measure_visits(data, grids[1]),
        sampled_trajectories=len(sampled),
        sampled_states=sampled.rows,
        latent=measure_visits(sampled, latent) if latent else None,
        reach=measure_reach(sampled, maze) if maze else None,
        walls=measure_walls(sampled, maze) if maze else None,
    )


def _residual(data: Trajectories, inverse: InverseDynamics | None, rng: np.random.Generator) -> Residual | None:
    if inverse is None:
        return None
    twin = f"{data.meta.dataset}-val"
    held_out = data_path(twin).exists()
    return measure_residual(load(twin) if held_out else data, inverse, held_out, _RESIDUAL_TRANSITIONS, rng)


def _calibration(
    data: Trajectories, encoder: StateEncoder | None, maze: Maze | None, rng: np.random.Generator
) -> Calibration | None:
    if encoder is None or maze is None or maze.name == "teleport":  # portals are shorter than any path
        return None
    return measure_calibration(data, encoder, maze, _CALIBRATION_STATES, rng)
