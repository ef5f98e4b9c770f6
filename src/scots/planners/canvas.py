"""The chunks of many plans while they are denoised together: neighbours, overlaps, and one plan made of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

BLEND_RATE = 2.0  # of the exponential that fades one chunk into the next


@dataclass(eq=False)
class Canvas:
    """The chunks of many plans while they are denoised; a plan of fewer chunks leaves its last ones alone."""

    chunks: Tensor  # (B, N, T, D) noisy
    clean: Tensor  # (B, N, T, D) their latest clean estimates
    counts: Tensor  # (B,) chunks of each plan
    ends: Tensor  # (B, 2, D) start and goal

    def numbered(self, number: int) -> tuple[Tensor, Tensor]:
        """Plan and number of every chunk of this number."""
        (plans,) = torch.nonzero(self.counts > number, as_tuple=True)
        return plans, torch.full_like(plans, number)

    def every(self) -> tuple[Tensor, Tensor]:
        """Plan and number of every chunk."""
        numbers = torch.arange(self.chunks.shape[1], device=self.counts.device)
        plans, chosen = torch.nonzero(numbers < self.counts[:, None], as_tuple=True)
        return plans, chosen

    def has_neighbours(self, plans: Tensor, numbers: Tensor) -> Tensor:
        """Whether there is a chunk before and after each of these (M, 2)."""
        return torch.stack([numbers > 0, numbers + 1 < self.counts[plans]], dim=1)

    def overlaps(self, plans: Tensor, numbers: Tensor, length: int) -> Tensor:
        """Overlaps with the chunks before and after (M, 2, O, D); anything where there is none."""
        before = self.chunks[plans, (numbers - 1).clamp(min=0), -length:]
        after = self.chunks[plans, (numbers + 1).clamp(max=self.chunks.shape[1] - 1), :length]
        return torch.stack([before, after], dim=1)

    def inpainted(self, chunks: Tensor, plans: Tensor, numbers: Tensor) -> Tensor:
        """These chunks (M, T, D) with start and goal where they begin and end a plan."""
        inner = self.has_neighbours(plans, numbers)
        chunks = chunks.clone()
        for side, index in enumerate((0, -1)):
            own = ~inner[:, side]
            chunks[own, index] = self.ends[plans[own], side]
        return chunks


def overlap_errors(chunks: Tensor, counts: Tensor, overlap: int) -> Tensor:
    """By how much overlaps disagree: mean squares, summed over the joins of each plan: (B, N, T, D) -> (B,)."""
    errors = (chunks[:, :-1, -overlap:] - chunks[:, 1:, :overlap]).square().mean(dim=(2, 3))
    joins = torch.arange(errors.shape[1], device=errors.device) + 1 < counts[:, None]
    return (errors * joins).sum(dim=1)


def blend(chunks: Tensor, overlap: int) -> Tensor:
    """Chunks (N, T, D) as one sequence (L, D): each overlap fades exponentially from the earlier to the later one."""
    share = torch.linspace(0, 1, overlap, dtype=chunks.dtype, device=chunks.device)
    last = math.exp(-BLEND_RATE)
    weight = ((torch.exp(-BLEND_RATE * share) - last) / (1 - last))[:, None]  # of the earlier chunk
    joined = chunks[0]
    for chunk in chunks[1:]:
        faded = weight * joined[-overlap:] + (1 - weight) * chunk[:overlap]
        joined = torch.cat([joined[:-overlap], faded, chunk[overlap:]])
    return joined
