"""The quality of augmented data, beside the data it was made from: the numbers of `scots report`.

What needs a maze, a simulator, lineage or a trained model is None where there is none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scots.augmenters.embedding import StateEncoder
from scots.augmenters.refinement import InverseDynamics
from scots.augmenters.rewards import RewardModel
from scots.augmenters.scots import stitched_by
from scots.core.config import Config, Seeds
from scots.data.inspection import position_columns
from scots.data.scans import has_latent_position
from scots.data.trajectories import Normalizer, Trajectories
from scots.datasets import data_path, load
from scots.envs.maze import Maze, maze_of
from scots.reporting.augmentation import Augmentation, AugmentationSettings, augmentation_of
from scots.reporting.calibration import Calibration, measure_calibration
from scots.reporting.dynamics import Dynamics, Residual, measure_dynamics, measure_residual
from scots.reporting.fidelity import Motion, OnData, measure_motion, measure_on_data
from scots.reporting.lineage import Joins, Kept, Repeats, measure_joins, measure_kept, measure_repeats
from scots.reporting.metrics import (
    Cells,
    Clearance,
    EqualCoverage,
    Quantiles,
    Visits,
    Walls,
    grid_cells,
    latent_cells,
    maze_cells,
    measure_clearance,
    measure_equal_coverage,
    measure_reach,
    measure_visits,
    measure_walls,
    sample_trajectories,
)
from scots.reporting.returns import Returns, RewardError, measure_returns, measure_reward_error
from scots.reporting.verdict import Evidence, Verdict, judge

FINE_PARTS = 8  # parts of a cell's side in the fine grid
_SAMPLE_STATES = 200_000  # of whole trajectories, from the original and from the augmented data
_SIMULATED_STEPS = (2000, 100)  # of each kind, and at each place of a segment
_COMPARED_STATES = 100_000  # of each dataset, compared with the other
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
    verdict: Verdict
    original: Summary
    augmented: Summary
    on_data: OnData
    coverage: EqualCoverage  # of the fine cells
    clearance: Clearance | None  # none without a maze
    motion: Motion | None
    kept: Kept | None  # none without lineage
    joins: Joins | None  # none without lineage or if nothing was joined
    dynamics: Dynamics | None
    residual: Residual | None  # of the inverse dynamics that labelled the actions
    repeats: Repeats | None  # none without lineage
    calibration: Calibration | None
    returns: Returns | None = None  # none without rewards

    @property
    def is_refined(self) -> bool:
        """Whether refinement made any of the states, as far as lineage tells."""
        return self.kept is None or self.kept.states < 1

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
    original = sample_trajectories(data, _SAMPLE_STATES, seeds.stream("sample original"))
    augmented = sample_trajectories(aug, _SAMPLE_STATES, seeds.stream("sample augmented"))
    grids = [maze_cells(maze, columns, n) if maze else grid_cells(data, columns, n) for n in (1, FINE_PARTS)]
    latent = latent_cells(original, encoder, seed) if encoder else None
    evidence = _evidence(data, aug, augmented, grids[1], maze, made, seeds)
    return Quality(
        dataset=data.meta.dataset,
        augmentation=made.settings,
        sample_seed=seed,
        origin=aug.meta.origin,
        verdict=judge(evidence),
        original=_summary(data, original, grids, latent, maze),
        augmented=_summary(aug, augmented, grids, latent, maze),
        on_data=evidence.on_data,
        coverage=evidence.coverage,
        clearance=evidence.clearance,
        motion=evidence.motion,
        kept=evidence.kept,
        joins=measure_joins(data, augmented, columns, Normalizer.fit(data.observations)),
        dynamics=evidence.dynamics,
        residual=evidence.residual,
        repeats=measure_repeats(aug),
        calibration=_calibration(data, encoder, maze, seeds.stream("calibration")),
        returns=measure_returns(data, aug, _reward_error(data, made.rewards, seeds.stream("rewards"))),
    )


def _evidence(
    data: Trajectories,
    aug: Trajectories,
    sampled: Trajectories,
    fine: Cells,
    maze: Maze | None,
    made: Augmentation,
    seeds: Seeds,
) -> Evidence:
    """What the verdict rests on; what needs lineage or a simulator is measured on whole trajectories of a sample."""
    segment = made.settings.segment
    return Evidence(
        on_data=measure_on_data(data, aug, _COMPARED_STATES, seeds.stream("on data")),
        coverage=measure_equal_coverage(data, aug, fine, seeds.stream("coverage")),
        clearance=measure_clearance(data, aug, maze) if maze else None,
        motion=measure_motion(data, aug, _COMPARED_STATES, seeds.stream("motion")),
        dynamics=measure_dynamics(data, sampled, made.inverse, _SIMULATED_STEPS, seeds.stream("dynamics"), segment),
        kept=measure_kept(data, sampled, segment),
        residual=_residual(data, made.inverse, seeds.stream("residual")),
    )


def with_position(data: Trajectories, aug: Trajectories) -> Trajectories:
    """The data with the position columns that its augmentation used, or else those that it names itself.

    Beside augmented data that holds nothing but positions it has nothing else either.
    """
    if (stitched := stitched_by(aug.meta)) and stitched.is_of_positions:
        return data.only_positions()
    return data.with_meta(position=aug.meta.position or position_columns(data)[0])


def known_maze(data: Trajectories) -> Maze | None:
    """The maze of a dataset, if it also has two position columns that are places in it."""
    is_place = len(data.meta.position) == 2 and not has_latent_position(data.meta)
    return maze_of(data.meta) if is_place else None


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
    held_out, recorded = _held_out(data)
    return measure_residual(recorded, inverse, held_out, _RESIDUAL_TRANSITIONS, rng)


def _reward_error(data: Trajectories, model: RewardModel | None, rng: np.random.Generator) -> RewardError | None:
    if model is None:
        return None
    held_out, recorded = _held_out(data)
    return measure_reward_error(recorded, model, held_out, _RESIDUAL_TRANSITIONS, rng)


def _held_out(data: Trajectories) -> tuple[bool, Trajectories]:
    """Whether there is a validation twin, and the twin, or else the data itself."""
    twin = f"{data.meta.dataset}-val"
    held_out = data_path(twin).exists()
    return held_out, load(twin) if held_out else data


def _calibration(
    data: Trajectories, encoder: StateEncoder | None, maze: Maze | None, rng: np.random.Generator
) -> Calibration | None:
    if encoder is None or maze is None or maze.name == "teleport":  # portals are shorter than any path
        return None
    return measure_calibration(data, encoder, maze, _CALIBRATION_STATES, rng)
