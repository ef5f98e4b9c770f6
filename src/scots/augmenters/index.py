"""Segment retrieval: which windows of the data are segments, and which of them start nearest to a latent.

A segment is identified by its first row. The keys of `SegmentIndex` are the latents of these first rows, stored in
Faiss inverted lists: keys are grouped around centroids, and a query scans only the lists near it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import faiss
import numpy as np

from scots.core.errors import BadInput
from scots.core.files import atomic
from scots.data.trajectories import Array, Trajectories

IndexKind = Literal["exact", "ivf"]
Displacement = float | Literal["auto"] | None

RECALL = 0.95  # of the true neighbours, which an approximate index must reach
_RECALL_NEIGHBOURS = 10
_RECALL_QUERIES = 300

_MIN_KEYS = 4096  # fewer keys form a single list: scanning them all is cheaper than choosing lists
_MAX_LISTS = 8192
_EXACT_PROBES = 1  # lists that exact search scans first; more of them hardly tighten its initial bound
_QUERY_BLOCK = 1024  # queries searched at a time: their distances to all centroids take a few MB
_ROW_BLOCK = 1 << 18
_ROUNDING = 1e-5  # relative rounding error of Faiss's single-precision sums


# ---------------------------------------------------------------------------------------------------------- segments


def segment_starts(data: Trajectories, horizon: int, min_displacement: Displacement) -> Array:
    """First rows (W,) of the windows of `horizon` states with at least `min_displacement`, in row order.

    The displacement of a window is the distance between its first and last position. Logs contain idle time, and a
    segment that goes nowhere does not extend a trajectory. "auto" is half the 90 % quantile of the nonzero
    displacements: it separates idle from moving windows where the data has both, and keeps nearly all windows where all
    move alike. At least a tenth of the windows that move at all are kept. `None` keeps every window.
    """
    starts = data.window_starts(horizon)
    if not len(starts):
        raise BadInput(
            f"a segment needs {horizon} states, but the longest episode has {data.lengths.max()}; use shorter segments "
            "with --segment"
        )
    if min_displacement is None:
        return starts
    if not data.meta.position:
        raise BadInput(
            f"min_displacement {min_displacement!r} needs position columns, but the data declares none; "
            "name them with --position, or keep every window with --min-displacement none"
        )
    displacements = _displacements(data.positions, starts, horizon)
    threshold = _idle_threshold(displacements) if min_displacement == "auto" else min_displacement
    moving = displacements >= threshold
    if not moving.any():
        raise BadInput(
            f"no window of {horizon} states has a displacement of {threshold:g}: "
            f"the largest displacement is {displacements.max():g}; choose a smaller --min-displacement"
        )
    return starts[moving]


def _displacements(positions: Array, starts: Array, horizon: int) -> Array:
    """Distance between the two ends of each window (W,), computed in blocks to save memory."""
    displacements = np.empty(len(starts), dtype=np.float32)
    for part in blocks(len(starts), _ROW_BLOCK):
        first = starts[part]
        displacements[part] = np.linalg.norm(positions[first + horizon - 1] - positions[first], axis=1)
    return displacements


def _idle_threshold(displacements: Array) -> float:
    nonzero = displacements[displacements > 0]
    return float(np.quantile(nonzero, 0.9)) / 2 if len(nonzero) else np.inf


def distinct_episodes(distances: Array, indices: Array, episodes: Array, k: int) -> tuple[Array, Array]:
    """Keep k of the candidates (B, C), at most one per episode if possible: distances (B, k) and indices (B, k).

    The candidates are sorted by distance, and `episodes` (W,) is the episode of every segment. The nearest candidate of
    each episode comes first; if there are fewer than k episodes, the nearest of the remaining candidates fill up.
    Without this, overlapping windows of one episode, which are nearly the same candidate, would fill most of the k.
    """
    episode = episodes[indices]
    same = episode[:, :, None] == episode[:, None, :]
    repeated = np.tril(same, k=-1).any(axis=2)
    chosen = np.argsort(repeated, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(distances, chosen, axis=1), np.take_along_axis(indices, chosen, axis=1)


# ------------------------------------------------------------------------------------------------------------- index


class SegmentIndex:
    """Nearest-neighbour search by L2 distance, exact or approximate with a measured recall.

    Kind "ivf" scans the `probes` lists with the nearest centroids. Kind "exact" then also scans every list that could
    still hold a nearer key: all keys of a list lie within its radius of the centroid, so by the triangle inequality
    none is nearer to the query than the centroid's distance minus the radius. Where states fill few dimensions of the
    latent space, as in a maze, a handful of lists is enough.
    """

    def __init__(
        self, kind: IndexKind, lists: Any, radii: Array, probes: int = _EXACT_PROBES, recall: float = 1.0
    ) -> None:
        """Wrap trained Faiss lists and their radii (L,). Use `build` or `load` to create an index."""
        self.kind: IndexKind = kind
        self.probes = min(probes, lists.nlist)
        self.recall = recall
        self._lists = lists
        self._radii = radii
        centroids = lists.quantizer.reconstruct_n(0, lists.nlist).astype(np.float64)
        squares = np.square(centroids).sum(axis=1)
        self._largest_square = squares.max()
        self._centroids = np.concatenate([-2 * centroids, squares[:, None]], axis=1).T.copy()  # (Z + 1, L)

    @classmethod
    def build(cls, keys: Array, kind: IndexKind, seed: int, lists: int | None = None) -> SegmentIndex:
        """Group the keys (W, Z) into lists (2 sqrt(W) by default) by k-means on a sample drawn with `seed`.

        For "ivf", the number of probed lists doubles until recall@10 on a sample of the keys reaches 0.95.
        """
        if keys.ndim != 2 or not len(keys):
            raise BadInput(f"a segment index needs keys of shape (segments, latent), got {keys.shape}")
        if not np.isfinite(keys).all():
            raise BadInput("the latents of some segments are not finite; train the embedding again")
        keys = np.ascontiguousarray(keys, dtype=np.float32)
        trained = _train_lists(keys, min(lists or _list_count(len(keys)), len(keys)), seed)
        index = cls(kind, trained, _list_radii(trained))
        if kind == "ivf":
            sample = np.random.default_rng(seed).permutation(len(keys))[:_RECALL_QUERIES]
            index._tune_probes(keys[np.sort(sample)])
        return index

    def __len__(self) -> int:
        """Number of keys W."""
        return int(self._lists.ntotal)

    def search(self, queries: Array, k: int) -> tuple[Array, Array]:
        """The k nearest keys to each query (B, Z): L2 distances (B, k) float32 and indices (B, k), nearest first.

        Among equal keys the lower index comes first. If there are fewer than k keys, all are returned. If the probed
        lists hold fewer than k keys, the query is searched exactly. The result of a query does not depend on the other
        queries in its batch.
        """
        if not np.isfinite(queries).all():
            raise BadInput("a query latent is not finite; train the embedding again")
        queries = np.ascontiguousarray(queries, dtype=np.float32)
        k = min(k, len(self))
        parts = [self._search(queries[part], k, self.probes, self.kind) for part in blocks(len(queries), _QUERY_BLOCK)]
        squares, indices = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        return np.sqrt(squares), indices

    def save(self, folder: Path) -> None:
        """Write the index to a folder atomically."""
        with atomic(folder) as temporary:
            temporary.mkdir()
            try:
                faiss.write_index(self._lists, str(temporary / "lists.faiss"))
            except RuntimeError as error:  # the only error type of Faiss; here it always means a failed write
                raise OSError(str(error)) from error
            np.save(temporary / "radii.npy", self._radii)
            facts = {"kind": self.kind, "probes": self.probes, "recall": self.recall}
            (temporary / "index.json").write_text(json.dumps(facts))

    @classmethod
    def load(cls, folder: Path) -> SegmentIndex:
        """Load a saved index. The lists are memory-mapped, so loading is cheap and processes share one copy."""
        try:
            facts = json.loads((folder / "index.json").read_text())
            lists = faiss.read_index(str(folder / "lists.faiss"), faiss.IO_FLAG_MMAP_IFC)
            return cls(facts["kind"], lists, np.load(folder / "radii.npy"), facts["probes"], facts["recall"])
        except (OSError, RuntimeError, ValueError, KeyError) as error:
            reason = " ".join(str(error).split())
            raise BadInput(f"{folder}: not a readable segment index ({reason}); build it again") from error

    def _tune_probes(self, queries: Array) -> None:
        k = min(_RECALL_NEIGHBOURS, len(self))
        kth_square = self._search(queries, k, _EXACT_PROBES, "exact")[0][:, -1:]
        centroid_distances = self._centroid_distances(queries)
        self.probes, self.recall = 0, 0.0
        while self.recall < RECALL:
            self.probes = min(max(1, 2 * self.probes), self._lists.nlist)
            squares = self._scan(queries, _nearest_lists(centroid_distances, self.probes), k)[0]
            self.recall = float(np.mean(squares <= kth_square))

    def _search(self, queries: Array, k: int, probes: int, kind: IndexKind) -> tuple[Array, Array]:
        """Squared distances and indices (B, k): scan the nearest lists, then any other that may hold nearer keys."""
        centroid_distances = self._centroid_distances(queries)
        probed = _nearest_lists(centroid_distances, probes)
        squares, indices = self._scan(queries, probed, k)
        open_rows = np.arange(len(queries)) if kind == "exact" else np.flatnonzero((indices < 0).any(axis=1))
        if open_rows.size:
            reach = np.sqrt(squares[open_rows, -1]) * (1 + _ROUNDING)  # huge where fewer than k keys were found
            lists = self._lists_within(reach, centroid_distances[open_rows], probed[open_rows])
            rows, lists = open_rows[lists[:, 0] >= 0], lists[lists[:, 0] >= 0]
            more = self._scan(queries[rows], lists, k)
            squares[rows], indices[rows] = _merge((squares[rows], indices[rows]), more, k)
        return squares, indices

    def _centroid_distances(self, queries: Array) -> Array:
        """Lower bounds of the distances from queries to all centroids: (B, Z) -> (B, L) float64.

        Double precision, because the expansion |q|^2 - 2qc + |c|^2 cancels: single-precision rounding would make the
        choice of lists depend on the batch size.
        """
        exact = queries.astype(np.float64)
        squares = np.square(exact).sum(axis=1, keepdims=True)
        distances = np.concatenate([exact, np.ones_like(squares)], axis=1) @ self._centroids
        distances += squares - 1e-12 * (squares + self._largest_square)
        return np.sqrt(np.maximum(distances, 0, out=distances), out=distances)

    def _lists_within(self, reach: Array, centroid_distances: Array, probed: Array) -> Array:
        """Lists (B, P) that may hold a key within reach of each query and were not probed, padded with -1."""
        possible = centroid_distances - self._radii <= reach[:, None]
        np.put_along_axis(possible, probed, False, axis=1)
        row, number = np.divmod(np.flatnonzero(possible), possible.shape[1])
        counts = np.bincount(row, minlength=len(possible))
        column = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
        lists = np.full((len(possible), max(1, counts.max())), -1)
        lists[row, column] = number
        return lists

    def _scan(self, queries: Array, lists: Array, k: int) -> tuple[Array, Array]:
        """The k nearest keys in the given lists (B, P) of each query: squared distances and indices, -1 for none."""
        order = np.argsort(lists[:, 0], kind="stable")  # consecutive queries share a list, so its keys stay cached
        self._lists.nprobe = lists.shape[1]
        found = self._lists.search_preassigned(queries[order], k, lists[order], None)
        squares, indices = np.empty_like(found[0]), np.empty_like(found[1])
        squares[order], indices[order] = found
        return squares, indices


def _list_count(keys: int) -> int:
    return 1 if keys < _MIN_KEYS else min(round(2 * keys**0.5), _MAX_LISTS)


def _train_lists(keys: Array, count: int, seed: int) -> Any:
    lists = faiss.IndexIVFFlat(faiss.IndexFlatL2(keys.shape[1]), keys.shape[1], count)
    lists.cp.seed = seed
    lists.cp.niter = 10
    lists.cp.min_points_per_centroid = 1  # no Faiss warning on small data
    lists.cp.max_points_per_centroid = 64
    lists.train(keys)
    lists.add(keys)
    return lists


def _list_radii(lists: Any) -> Array:
    """Upper bound of the distance from each centroid to the keys of its list (L,); -inf for an empty list."""
    radii = np.full(lists.nlist, -np.inf)
    for number in range(lists.nlist):
        if count := lists.invlists.list_size(number):
            content = faiss.rev_swig_ptr(lists.invlists.get_codes(number), count * lists.code_size)
            offsets = content.view(np.float32).reshape(count, -1) - lists.quantizer.reconstruct(number)
            radii[number] = np.sqrt(np.square(offsets, dtype=np.float64).sum(axis=1).max()) * (1 + _ROUNDING)
    return radii


def _nearest_lists(centroid_distances: Array, count: int) -> Array:
    if count == 1:
        return centroid_distances.argmin(axis=1)[:, None]
    if count == centroid_distances.shape[1]:
        return np.tile(np.arange(count), (len(centroid_distances), 1))
    return np.argpartition(centroid_distances, count - 1, axis=1)[:, :count]


def _merge(first: tuple[Array, Array], second: tuple[Array, Array], k: int) -> tuple[Array, Array]:
    """Merge two results over different lists: the k nearest, by distance and then by index."""
    squares, indices = (np.concatenate(pair, axis=1) for pair in zip(first, second, strict=True))
    order = np.lexsort((indices, squares), axis=1)[:, :k]
    return np.take_along_axis(squares, order, axis=1), np.take_along_axis(indices, order, axis=1)


def blocks(length: int, size: int) -> Iterator[slice]:
    """Consecutive slices of at most `size` that cover `length`; one empty slice if the length is zero."""
    return (slice(start, min(start + size, length)) for start in range(0, max(length, 1), size))
