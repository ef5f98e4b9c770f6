"""Generative Skill Chaining GSC (Mishra et al., 2023), as a composition of the chunks that CD learns.

Before every solver step the noisy overlaps of neighbours are replaced by their mean. Then all chunks are denoised at
once, told nothing but the start and the goal.
"""

from __future__ import annotations

import torch

from scots.models.diffusion import SolverStep
from scots.planners.canvas import Canvas
from scots.planners.chunks import ChunkPlanner


class GenerativeSkillChaining(ChunkPlanner):
    """Plans of chunks whose overlaps are averaged while they are denoised."""

    name = "gsc"

    def denoise(self, canvas: Canvas, step: SolverStep, next_time: float) -> None:
        """Average the overlaps, then take all chunks one solver step on."""
        average_overlaps(canvas, self.config.overlap)
        self.advance(canvas, *canvas.every(), step, None)


def average_overlaps(canvas: Canvas, overlap: int) -> None:
    """Write the mean of every two noisy overlaps to both."""
    joins = torch.arange(1, canvas.chunks.shape[1], device=canvas.counts.device)
    plans, before = torch.nonzero(joins < canvas.counts[:, None], as_tuple=True)
    mean = (canvas.chunks[plans, before, -overlap:] + canvas.chunks[plans, before + 1, :overlap]) / 2
    canvas.chunks[plans, before, -overlap:] = mean
    canvas.chunks[plans, before + 1, :overlap] = mean
