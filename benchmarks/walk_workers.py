"""What the worker processes of `stitching.py` do: the walk, or the naive loop, with its processor time.

A module of its own, because `Shards` hides the main program from the processes it starts: they could not import these
functions from a script.
"""

import time
from pathlib import Path

import faiss
import numpy as np
from naive_walk import Nearest, naive_walk

from scots.augmenters.index import SegmentIndex
from scots.augmenters.stitching import StitchingConfig, walk
from scots.core.config import Seeds
from scots.data.shards import Make
from scots.data.trajectories import Array

SEEDS = Seeds(0)


def prepare_walk(folder: Path, config: StitchingConfig) -> Make:
    latents, segments, index = load(folder)

    def make(run: range) -> dict[str, Array]:
        begin = time.process_time()
        walked = walk(latents, segments, index, config, SEEDS, run)
        return {"segments": walked.segments, "seconds": np.array([time.process_time() - begin])}

    return make


def prepare_naive(folder: Path, config: StitchingConfig, scan: bool) -> Make:
    latents, segments, index = load(folder)
    nearest: Nearest = lambda query, k: index.search(query[None], k)[1][0]  # noqa: E731
    if scan:
        flat = faiss.IndexFlatL2(latents.shape[1])
        flat.add(latents[segments])
        nearest = lambda query, k: flat.search(query[None], k)[1][0]  # noqa: E731

    def make(run: range) -> dict[str, Array]:
        begin = time.process_time()
        chosen = np.array([naive_walk(latents, segments, nearest, config, SEEDS, n) for n in run])
        return {"segments": chosen, "seconds": np.array([time.process_time() - begin])}

    return make


def load(folder: Path) -> tuple[Array, Array, SegmentIndex]:
    latents, segments = (np.asarray(np.load(folder / f"{name}.npy", mmap_mode="r")) for name in ("latents", "segments"))
    return latents, segments, SegmentIndex.load(folder / "index")
