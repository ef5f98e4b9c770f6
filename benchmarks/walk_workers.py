"""What the worker processes of `stitching.py` do: the walk, or the naive loop, with its processor time.

A module of its own, because `Shards` hides the main program from the processes it starts: they could not import these
functions from a script.
"""

import time
from pathlib import Path

import faiss
import numpy as np
from naive_walk import Nearest, naive_walk

from scots.augmenters.stitching import Segments, StitchingConfig, walk
from scots.core.config import Seeds
from scots.data.shards import Make
from scots.data.trajectories import Array

SEEDS = Seeds(0)


def prepare_walk(folder: Path, config: StitchingConfig) -> Make:
    segments = Segments.load(folder)

    def make(run: range) -> dict[str, Array]:
        begin = time.process_time()
        walked = walk(segments, config, SEEDS, run)
        return {"segments": walked.segments, "seconds": np.array([time.process_time() - begin])}

    return make


def prepare_naive(folder: Path, config: StitchingConfig, scan: bool) -> Make:
    segments = Segments.load(folder)
    nearest: Nearest = lambda query, k: segments.index.search(query[None], k)[1][0]  # noqa: E731
    if scan:
        flat = faiss.IndexFlatL2(segments.latents.shape[1])
        flat.add(segments.latents[segments.starts])
        nearest = lambda query, k: flat.search(query[None], k)[1][0]  # noqa: E731

    def make(run: range) -> dict[str, Array]:
        begin = time.process_time()
        chosen = np.array([naive_walk(segments, nearest, config, SEEDS, n) for n in run])
        return {"segments": chosen, "seconds": np.array([time.process_time() - begin])}

    return make
