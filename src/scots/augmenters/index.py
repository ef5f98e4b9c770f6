"""Finding segments: which windows of the data are segments, and which of them begin nearest to a latent.

A segment is named by its first row. `SegmentIndex` holds the latents of those first rows, its keys, in the inverted
lists of Faiss: keys are grouped around centroids, and a query scans the groups near it instead of everything.
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

RECALL = 0.95  # share of the true neighbours that an approximate index must find
RECALL_NEIGHBOURS = 10
RECALL_QUERIES = 300

_SMALL = 4096  # fewer keys than this are one list: scanning them is cheaper than choosing among lists
_MOST_LISTS = 8192
_EXACT_PROBES = 1  # lists scanned before the proof; more of them hardly tighten the bound it starts from
_BLOCK = 1024  # queries searched at a time: their distances to all centroids take some MB
_ROW_BLOCK = 1 << 18
_ROUNDING = 1e-5  # relative; covers the single-precision sums of Faiss


# ---------------------------------------------------------------------------------------------------------- segments


def segment_starts(data: Trajectories, horizon: int, min_displacement: Displacement) -> Array:
    """First rows of the windows of `horizon` states that move at least `min_displacement` (W,), in row order.

    Displacement is the distance between the positions of a window's two ends. Logs often idle, and a segment that goes
    nowhere extends nothing. "auto" is half of the 90 % quantile of the displacements that are not zero: between idling
    and moving where the data does both, below almost everything where all windows move alike. At least a tenth of the
    windows that move at all are kept. `None` keeps every window.
    """
    starts = data.window_starts(horizon)
    if not len(starts):
        raise BadInput(f"no episode has the {horizon} states of a segment: the longest has {data.lengths.max()}")
    if min_displacement is None:
        return starts
    if not data.meta.position:
        raise BadInput(
            f"min_displacement {min_displacement!r} needs position columns, and the data names none; "
            "name them or keep every window with min_displacement none"
        )
    displacements = _displacements(data.positions, starts, horizon)
    threshold = _idle_threshold(displacements) if min_displacement == "auto" else min_displacement
    moving = displacements >= threshold
    if not moving.any():
        raise BadInput(
            f"no window of {horizon} states moves by {threshold:g}: "
            f"the largest displacement is {displacements.max():g}; choose a smaller min_displacement"
        )
    return starts[moving]


def _displacements(positions: Array, starts: Array, horizon: int) -> Array:
    """Distance between the two ends of each window (W,), a block at a time: only the result is as long as the data."""
    displacements = np.empty(len(starts), dtype=np.float32)
    for part in blocks(len(starts), _ROW_BLOCK):
        first = starts[part]
        displacements[part] = np.linalg.norm(positions[first + horizon - 1] - positions[first], axis=1)
    return displacements


def _idle_threshold(displacements: Array) -> float:
    moved = displacements[displacements > 0]
    return float(np.quantile(moved, 0.9)) / 2 if len(moved) else np.inf


def distinct_episodes(distances: Array, indices: Array, episodes: Array, k: int) -> tuple[Array, Array]:
    """Of candidates in order of distance (B, C), the nearest of each episode, as many as k: (B, k) and (B, k).

    `episodes` (W,) is the episode of every segment. Where there are fewer than k episodes, the nearest of the others
    follow. Neighbouring windows of one episode are nearly the same candidate, and would otherwise fill most of the k.
    """
    episode = episodes[indices]
    same = episode[:, :, None] == episode[:, None, :]
    repeated = np.tril(same, k=-1).any(axis=2)
    chosen = np.argsort(repeated, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(distances, chosen, axis=1), np.take_along_axis(indices, chosen, axis=1)


# ------------------------------------------------------------------------------------------------------------- index


class SegmentIndex:
    """The nearest keys to a query by L2 distance, exactly or with a measured recall.

    Kind "ivf" scans the `probes` lists whose centroids are nearest. Kind "exact" then goes on to every list that could
    still hold a nearer key: all keys of a list are within its radius of the centroid, so by the triangle inequality
    none is nearer to the query than the centroid's distance minus the radius. Where states fill few dimensions of the
    latent space, as they do in a maze, this proves the result after a handful of lists.
    """

    def __init__(
        self, kind: IndexKind, lists: Any, radii: Array, probes: int = _EXACT_PROBES, recall: float = 1.0
    ) -> None:
        """Wrap trained Faiss lists and the radius of each (L,); `build` and `load` are the ways to get one."""
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
        """Group the keys (W, Z) into lists (2 sqrt(W) of them unless told) by k-means on a sample drawn by `seed`.

        For "ivf" the number of probed lists is doubled until recall@10 on a sample of the keys reaches 0.95.
        """
        if keys.ndim != 2 or not len(keys):
            raise BadInput(f"a segment index needs keys of shape (segments, latent), got {keys.shape}")
        if not np.isfinite(keys).all():
            raise BadInput("the latents of some segments are not finite: train the embedding again")
        keys = np.ascontiguousarray(keys, dtype=np.float32)
        trained = _train_lists(keys, min(lists or _list_count(len(keys)), len(keys)), seed)
        index = cls(kind, trained, _list_radii(trained))
        if kind == "ivf":
            sample = np.random.default_rng(seed).permutation(len(keys))[:RECALL_QUERIES]
            index._tune_probes(keys[np.sort(sample)])
        return index

    def __len__(self) -> int:
        """Number of keys W."""
        return int(self._lists.ntotal)

    def search(self, queries: Array, k: int) -> tuple[Array, Array]:
        """The k nearest keys to each query (B, Z): L2 distances (B, k) float32 and indices (B, k), nearest first.

        Among equal keys the lower index comes first. If there are fewer than k keys, k is their number. A query whose
        probed lists hold fewer than k keys is searched exactly. What is found for a query does not depend on the others
        of its batch.
        """
        if not np.isfinite(queries).all():
            raise BadInput("a latent to search from is not finite: train the embedding again")
        queries = np.ascontiguousarray(queries, dtype=np.float32)
        k = min(k, len(self))
        parts = [self._search(queries[part], k, self.probes, self.kind) for part in blocks(len(queries), _BLOCK)]
        squares, indices = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        return np.sqrt(squares), indices

    def save(self, folder: Path) -> None:
        """Write the index as a folder, whole or not at all."""
        with atomic(folder) as temporary:
            temporary.mkdir()
            try:
                faiss.write_index(self._lists, str(temporary / "lists.faiss"))
            except RuntimeError as error:  # Faiss knows no other kind of error; here it is always a failed write
                raise OSError(str(error)) from error
            np.save(temporary / "radii.npy", self._radii)
            facts = {"kind": self.kind, "probes": self.probes, "recall": self.recall}
            (temporary / "index.json").write_text(json.dumps(facts))

    @classmethod
    def load(cls, folder: Path) -> SegmentIndex:
        """Open a saved index. The lists are memory-mapped: opening is cheap, and processes share one copy."""
        try:
            facts = json.loads((folder / "index.json").read_text())
            lists = faiss.read_index(str(folder / "lists.faiss"), faiss.IO_FLAG_MMAP_IFC)
            return cls(facts["kind"], lists, np.load(folder / "radii.npy"), facts["probes"], facts["recall"])
        except (OSError, RuntimeError, ValueError, KeyError) as error:
            reason = " ".join(str(error).split())
            raise BadInput(f"{folder}: not a readable segment index ({reason}); build it again") from error

    def _tune_probes(self, queries: Array) -> None:
        k = min(RECALL_NEIGHBOURS, len(self))
        furthest = self._search(queries, k, _EXACT_PROBES, "exact")[0][:, -1:]
        gaps = self._gaps(queries)
        self.probes, self.recall = 0, 0.0
        while self.recall < RECALL:
            self.probes = min(max(1, 2 * self.probes), self._lists.nlist)
            found = self._scan(queries, _nearest_lists(gaps, self.probes), k)[0]
            self.recall = float(np.mean(found <= furthest))

    def _search(self, queries: Array, k: int, probes: int, kind: IndexKind) -> tuple[Array, Array]:
        """Squared distances and indices (B, k): scan the nearest lists, then for a proof whatever else may matter."""
        gaps = self._gaps(queries)
        probed = _nearest_lists(gaps, probes)
        squares, indices = self._scan(queries, probed, k)
        open_rows = np.arange(len(queries)) if kind == "exact" else np.flatnonzero((indices < 0).any(axis=1))
        if open_rows.size:
            reach = np.sqrt(squares[open_rows, -1]) * (1 + _ROUNDING)  # immense where fewer than k keys were found
            lists = self._unproven_lists(gaps[open_rows], probed[open_rows], reach)
            rows, lists = open_rows[lists[:, 0] >= 0], lists[lists[:, 0] >= 0]
            more = self._scan(queries[rows], lists, k)
            squares[rows], indices[rows] = _merge((squares[rows], indices[rows]), more, k)
        return squares, indices

    def _gaps(self, queries: Array) -> Array:
        """Lower bounds of the distances from queries to all centroids: (B, Z) -> (B, L) float64.

        In double precision: the expansion |q|^2 - 2qc + |c|^2 cancels, and its rounding in single precision would
        choose lists differently for other batch sizes.
        """
        exact = queries.astype(np.float64)
        squares = np.square(exact).sum(axis=1, keepdims=True)
        gaps = np.concatenate([exact, np.ones_like(squares)], axis=1) @ self._centroids
        gaps += squares - 1e-12 * (squares + self._largest_square)
        return np.sqrt(np.maximum(gaps, 0, out=gaps), out=gaps)

    def _unproven_lists(self, gaps: Array, probed: Array, reach: Array) -> Array:
        """Lists not probed that may hold a key within reach of each query (B, P), filled up with -1."""
        possible = gaps - self._radii <= reach[:, None]
        np.put_along_axis(possible, probed, False, axis=1)
        row, number = np.divmod(np.flatnonzero(possible), possible.shape[1])
        counts = np.bincount(row, minlength=len(possible))
        place = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
        lists = np.full((len(possible), max(1, counts.max())), -1)
        lists[row, place] = number
        return lists

    def _scan(self, queries: Array, lists: Array, k: int) -> tuple[Array, Array]:
        """The k nearest keys in the given lists (B, P) of each query: squared distances and indices, -1 for none."""
        order = np.argsort(lists[:, 0], kind="stable")  # queries of one list in a row: its keys stay in the cache
        self._lists.nprobe = lists.shape[1]
        found = self._lists.search_preassigned(queries[order], k, lists[order], None)
        squares, indices = np.empty_like(found[0]), np.empty_like(found[1])
        squares[order], indices[order] = found
        return squares, indices


def _list_count(keys: int) -> int:
    return 1 if keys < _SMALL else min(round(2 * keys**0.5), _MOST_LISTS)


def _train_lists(keys: Array, count: int, seed: int) -> Any:
    lists = faiss.IndexIVFFlat(faiss.IndexFlatL2(keys.shape[1]), keys.shape[1], count)
    lists.cp.seed = seed
    lists.cp.niter = 10
    lists.cp.min_points_per_centroid = 1  # small data is no reason to print a warning
    lists.cp.max_points_per_centroid = 64
    lists.train(keys)
    lists.add(keys)
    return lists


def _list_radii(lists: Any) -> Array:
    """An upper bound of the distance from each centroid to the keys of its list (L,); -inf for an empty list."""
    radii = np.full(lists.nlist, -np.inf)
    for number in range(lists.nlist):
        if count := lists.invlists.list_size(number):
            content = faiss.rev_swig_ptr(lists.invlists.get_codes(number), count * lists.code_size)
            offsets = content.view(np.float32).reshape(count, -1) - lists.quantizer.reconstruct(number)
            radii[number] = np.sqrt(np.square(offsets, dtype=np.float64).sum(axis=1).max()) * (1 + _ROUNDING)
    return radii


def _nearest_lists(gaps: Array, count: int) -> Array:
    if count == 1:
        return gaps.argmin(axis=1)[:, None]
    if count == gaps.shape[1]:
        return np.tile(np.arange(count), (len(gaps), 1))
    return np.argpartition(gaps, count - 1, axis=1)[:, :count]


def _merge(first: tuple[Array, Array], second: tuple[Array, Array], k: int) -> tuple[Array, Array]:
    """The k nearest of two results over different lists, by distance and then by index."""
    squares, indices = (np.concatenate(pair, axis=1) for pair in zip(first, second, strict=True))
    order = np.lexsort((indices, squares), axis=1)[:, :k]
    return np.take_along_axis(squares, order, axis=1), np.take_along_axis(indices, order, axis=1)


def blocks(length: int, size: int) -> Iterator[slice]:
    """Runs of `size` that cover the length; one empty run if there is nothing to cover."""
    return (slice(begin, min(begin + size, length)) for begin in range(0, max(length, 1), size))
