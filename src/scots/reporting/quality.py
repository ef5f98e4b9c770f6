"""How good an augmented dataset is, beside the data it was made from: the numbers of `scots report`.

What needs a maze, a simulator or a trained model is None where there is none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scots import datasets as sources
from scots.augmenters.embedding import Encoder
from scots.augmenters.refinement import InverseDynamics
from scots.core.config import Config, Seeds
from scots.data.inspection import position_columns
from scots.data.trajectories import Normalizer, Trajectories
from scots.envs.maze import Maze, maze_of
from scots.evaluation.rollout import origin_of
from scots.reporting.augmentation import AugmentationSettings, augmentation_of
from scots.reporting.metrics import (
    FINE,
    Calibration,
    Cells,
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
    sample_trajectories,
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
    augmentation: AugmentationSettings
    sample_seed: int  # of what was drawn to be measured
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


# ------------------------------------------------------------------------------------------------------------- report


def report(data: Trajectories, aug: Trajectories, *, encoder: Encoder | None = None, seed: int = 0) -> Quality:
    """Measure augmented data against the data it was made from; `seed` decides what is sampled.

    The embedding and the inverse dynamics are those among the artifacts, unless an encoder is given.
    """
    made, seeds = augmentation_of(data, aug), Seeds(seed)
    encoder = encoder or made.encoder
    data = with_position(data, aug)
    aug = aug.but_meta(position=data.meta.position)
    columns, maze = data.meta.position[:2], known_maze(data)
    scale = Normalizer.fit(data.observations)
    original = sample_trajectories(data, SAMPLE_STATES, seeds.stream("sample original"))
    augmented = sample_trajectories(aug, SAMPLE_STATES, seeds.stream("sample augmented"))
    if maze:
        grids = [maze_cells(maze, columns, parts) for parts in (1, FINE)]
    else:
        grids = [box_cells(data, columns, parts) for parts in (1, FINE)]
    latent = latent_cells(original, encoder, seed) if encoder else None
    return Quality(
        dataset=data.meta.dataset,
        augmentation=made.settings,
        sample_seed=seed,
        origin=origin_of(aug.meta),
        original=_summary(data, original, grids, latent, maze),
        augmented=_summary(aug, augmented, grids, latent, maze),
        joins=joins(data, augmented, columns, scale),
        dynamics=dynamics(data, augmented, made.inverse, SIMULATED, seeds.stream("dynamics")),
        residual=_residual(data, made.inverse, seeds.stream("residual")),
        repeats=repeats(aug),
        nearest=nearest(data, augmented, columns, scale, (LOOKING, LOOKED_AT), seeds.stream("nearest")),
        calibration=_calibration(data, encoder, maze, seeds.stream("calibration")),
    )


def with_position(data: Trajectories, aug: Trajectories) -> Trajectories:
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
