"""Pictures as a viewer sees them."""

from pathlib import Path

import numpy as np
from PIL import Image

from scots.data.trajectories import Array

COLOURED = 60  # of 255: how far apart the channels of a coloured pixel are at least


def frames_of(path: Path) -> list[Array]:
    """Every frame of a picture or film (H, W, 3), decoded to its last pixel."""
    with Image.open(path) as image:
        frames = []
        for number in range(getattr(image, "n_frames", 1)):
            image.seek(number)
            frames.append(np.asarray(image.convert("RGB"), dtype=int))
    return frames


def share_drawn(picture: Array) -> float:
    """Share of coloured pixels. Text, frames and walls are grey: what has colour was drawn from data."""
    return float((np.ptp(picture, axis=2) > COLOURED).mean())
