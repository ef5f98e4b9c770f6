"""Compositional Diffuser CD (Luo et al., 2025): chunks are denoised conditioned on the overlaps of their neighbours.

    interleaved    at every time, chunk after chunk: x0' | x1, then x1' | x0', x2, then x2' | x1', ...
    parallel       at every time, all at once:       x0' | x1,      x1' | x0,  x2,      x2' | x1, ...

(x' is one solver step nearer to the data than x.) Interleaved, news travel from the start to the goal within one time,
which agrees better at as many network calls as there are chunks.
"""

from __future__ import annotations

from scots.models.diffusion import SolverStep
from scots.planners.canvas import Canvas
from scots.planners.chunks import ChunkPlanner


class CompositionalDiffuser(ChunkPlanner):
    """Plans of chunks that are conditioned on each other."""

    name = "cd"

    def denoise(self, canvas: Canvas, step: SolverStep, next_time: float) -> None:
        """Take all chunks one solver step on: one after the other, or all at once."""
        if self.config.composition == "parallel":
            self.advance(canvas, *canvas.every(), step, (step.time, step.time))
            return
        before = max(next_time, step.time - self.config.lag)  # never told to be further ahead than in training
        for number in range(canvas.chunks.shape[1]):
            self.advance(canvas, *canvas.numbered(number), step, (before, step.time))
