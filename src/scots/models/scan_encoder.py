"""A beta-VAE (Higgins et al., 2017) of occupancy images: LiDAR scans in, a few latents out."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from scots.core.config import Config
from scots.core.errors import BadInput
from scots.data.scans import PIXELS, ScanGeometry
from scots.data.trajectories import Array, Trajectories
from scots.models.training import Batch, Model, TrainingConfig

_BLOCK = 128  # scans encoded in one batch: what the layers make of more does not stay in the processor's cache
_LAST = 4  # sides of the image that the last convolution makes


@dataclass(frozen=True)
class ScanEncoderConfig(Config):
    """The beta-VAE. The paper gives the 8 latents and no more; how beta was chosen is in docs/navigation.md."""

    latent: int = 8
    beta: float = 1.0
    geometry: ScanGeometry = ScanGeometry()
    channels: tuple[int, int, int, int] = (8, 16, 32, 32)
    hidden: int = 128
    training: TrainingConfig = TrainingConfig(
        steps=9000, batch_size=64, learning_rate=1e-3, schedule="cosine", warmup=100
    )

    def __post_init__(self) -> None:
        if self.latent < 1 or self.beta <= 0:
            raise BadInput(f"latent and beta must be positive: {self.latent}, {self.beta}")


class ScanEncoder(Model):
    """q(z | image), a Gaussian whose mean is the encoding, and p(image | z), a Bernoulli of every pixel."""

    config_class = ScanEncoderConfig

    def __init__(self, config: ScanEncoderConfig, sizes: dict[str, int]) -> None:
        """`sizes` are the column of the first ray and the number of rays."""
        super().__init__(config, sizes)
        channels, flat = config.channels, config.channels[-1] * _LAST**2
        down = [layer for a, b in pairwise((1, *channels)) for layer in (nn.Conv2d(a, b, 4, 2, 1), nn.ReLU())]
        up = [
            layer
            for a, b in pairwise((*reversed(channels), 1))
            for layer in (nn.ReLU(), nn.ConvTranspose2d(a, b, 4, 2, 1))
        ]
        self.encoder = nn.Sequential(
            *down, nn.Flatten(), nn.Linear(flat, config.hidden), nn.ReLU(), nn.Linear(config.hidden, 2 * config.latent)
        )
        self.decoder = nn.Sequential(
            nn.Linear(config.latent, config.hidden),
            nn.ReLU(),
            nn.Linear(config.hidden, flat),
            nn.Unflatten(1, (channels[-1], _LAST, _LAST)),
            *up,
        )

    @classmethod
    def for_data(cls, config: ScanEncoderConfig, data: Trajectories, **sizes: int) -> Self:
        """For scans of so many rays; `sizes` say where they are in the observations."""
        return cls(config, sizes)

    def batch(self, data: Trajectories, size: int, rng: np.random.Generator) -> Batch:
        """Images of random scans."""
        rows = np.sort(rng.integers(data.rows, size=size))
        return {"image": torch.from_numpy(self.images(self.scans(data.observations[rows])))}

    def scans(self, observations: Array) -> Array:
        """The ranges (N, R) of observations (N, O)."""
        return observations[:, self.sizes["first"] : self.sizes["first"] + self.sizes["rays"]]

    def images(self, scans: Array) -> Array:
        """Scans (N, R) -> occupancy images (N, 1, PIXELS, PIXELS)."""
        return self.config.geometry.occupancy(scans)[:, None]

    def loss(self, batch: Batch, generator: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
        """-log p(image | z) + beta KL(q(z | image) | N(0, 1)), summed over an image, over its number of pixels."""
        mean, log_variance = self.posterior(batch["image"])
        noise = torch.randn(mean.shape, generator=generator).to(mean.device)
        decoded = self.decoder(mean + (log_variance / 2).exp() * noise)
        error = functional.binary_cross_entropy_with_logits(decoded, batch["image"], reduction="sum") / len(mean)
        divergence = kl_divergence(mean, log_variance).sum(1).mean()
        return (error + self.config.beta * divergence) / PIXELS**2, {"reconstruction": error, "kl": divergence}

    def posterior(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log variance of q(z | image), both (N, Z)."""
        mean, log_variance = self.encoder(images).chunk(2, dim=1)
        return mean, log_variance

    @torch.inference_mode()
    def encode(self, scans: Array) -> Array:
        """The means of the latents of scans (N, R) -> (N, Z)."""
        blocks = (scans[n : n + _BLOCK] for n in range(0, len(scans), _BLOCK))
        tensors = (torch.from_numpy(self.images(block)).to(self.device) for block in blocks)
        return np.concatenate([self.posterior(images)[0].cpu().numpy() for images in tensors])

    @torch.inference_mode()
    def decode(self, latents: Array) -> Array:
        """The probability that each pixel is free, of latents (N, Z) -> (N, PIXELS, PIXELS)."""
        return self.decoder(torch.tensor(latents, device=self.device)).sigmoid()[:, 0].cpu().numpy()


def kl_divergence(mean: Tensor, log_variance: Tensor) -> Tensor:
    """KL(N(mean, variance) | N(0, 1)) of every latent, of the shape of both."""
    return (mean.square() + log_variance.exp() - log_variance - 1) / 2
