"""Datasets made in shards by worker processes: killable at any moment, the same bytes for any number of workers.

Episode n of a job is a function of the job and of n alone. A shard is a run of episodes, written atomically under a
name that says which episodes it holds, so a shard that exists is complete and a missing one is simply made again.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from scots.core.config import Config
from scots.core.console import amount, console, progress
from scots.core.errors import BadInput
from scots.core.files import atomic
from scots.core.resources import check_disk
from scots.data import formats
from scots.data.npz import Blocks, read_npz, write_npz
from scots.data.trajectories import Array, Meta

Make = Callable[[range], dict[str, Array]]
"""Computes the arrays of a run of episodes."""

_ROWS_PER_SHARD = 10_000


@dataclass(frozen=True)
class ShardedJob(Config, ABC):
    """Everything that decides the bytes of a dataset and its validation twin. Subclasses say how they are made.

    It holds no path, so its fingerprint names the same work wherever the files are.
    """

    episodes: int  # training episodes; the validation twin has a tenth
    states: int  # rows per episode

    @property
    def validation(self) -> int:
        """Episodes of the validation twin."""
        return max(1, self.episodes // 10)

    @abstractmethod
    def described(self, validation: bool) -> Meta:
        """The meta of the finished file, or of its validation twin."""

    @abstractmethod
    def worker(self) -> Make:
        """What a worker process computes shards with; called once in each."""

    def runs(self) -> list[range]:
        """Episode numbers of every shard, training episodes first; no shard holds both kinds."""
        size = max(1, _ROWS_PER_SHARD // self.states)
        total = self.episodes + self.validation
        parts = ((0, self.episodes), (self.episodes, total))
        return [range(n, min(n + size, end)) for begin, end in parts for n in range(begin, end, size)]

    def shards(self, out: Path) -> Shards:
        """The shards that will be joined into `out`."""
        return Shards.beside(out, self.fingerprint(), self.runs())

    def is_done(self, out: Path) -> bool:
        """Whether both files exist and say that this very job made them."""
        files = {out: self.described(validation=False), validation_path(out): self.described(validation=True)}
        return all(path.exists() and formats.read_meta(path) == meta for path, meta in files.items())

    def check_room(self, out: Path, row_bytes: int) -> str:
        """Refuse the job where the disk has no room for it; otherwise what it writes, in words."""
        count = f"{self.episodes:,} + {self.validation:,} episodes of {self.states:,} states"
        size = (self.episodes + self.validation) * self.states * row_bytes
        arithmetic = f"{count} of {row_bytes} bytes, twice: in shards and joined"
        check_disk(out, 2 * size - Shards.beside(out, self.fingerprint(), ()).size(), arithmetic)
        return f"{count}, {amount(size, 'bytes')}"

    def run(self, out: Path, *, workers: int | None, label: str, unit: str) -> None:
        """Make the dataset and its validation twin; an interrupted run of the same job is continued."""
        shards = self.shards(out)
        shards.complete(_work_on, (self,), workers=workers, label=label, weight=self.states, unit=unit)
        training = [run for run in shards.runs if run.start < self.episodes]
        shards.write(training, self.described(validation=False), out)
        shards.write(shards.runs[len(training) :], self.described(validation=True), validation_path(out))
        shards.remove()


def _work_on(job: ShardedJob) -> Make:
    return job.worker()


@dataclass(frozen=True)
class Shards:
    """A folder of shards beside the file they will be joined into; its name carries the job's fingerprint."""

    folder: Path
    runs: tuple[range, ...]

    @classmethod
    def beside(cls, out: Path, fingerprint: str, runs: Sequence[range]) -> Shards:
        """The shards of the job of this fingerprint that will be joined into `out`."""
        return cls(out.with_name(f".{out.name}.{fingerprint}.parts"), tuple(runs))

    def path(self, run: range) -> Path:
        """The file of one shard."""
        return self.folder / f"{run.start:06d}-{run.stop:06d}.npz"

    def size(self) -> int:
        """Bytes of the shards that are there."""
        return sum(path.stat().st_size for path in self.folder.glob("*.npz"))

    def pending(self) -> list[range]:
        """The runs whose shards are still missing."""
        return [run for run in self.runs if not self.path(run).exists()]

    def complete(
        self,
        prepare: Callable[..., Make],
        arguments: tuple[Any, ...],
        *,
        workers: int | None,
        label: str,
        weight: int,
        unit: str,
    ) -> None:
        """Make what is missing: each worker calls `prepare(*arguments)` once, then its result for every shard it takes.

        Progress counts `weight` units per episode.
        """
        pending = self.pending()
        if not pending:
            return
        if len(pending) < len(self.runs):
            console.print(f"continuing: {len(self.runs) - len(pending)} of {len(self.runs)} shards are done")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadInput(f"{self.folder.parent}: cannot write: {error.strerror}; choose another folder") from error
        workers = max(1, min(workers or os.cpu_count() or 1, len(pending)))
        with single_threaded(), hidden_main(), progress(label, sum(map(len, pending)) * weight, unit) as bar:
            # Spawned even for one worker: a fresh process computes with one thread, so sums round alike everywhere.
            context = multiprocessing.get_context("spawn")
            with ProcessPoolExecutor(workers, context, initializer=_prepare, initargs=(prepare, arguments)) as pool:
                futures = {pool.submit(_make_shard, run, self.path(run)): run for run in pending}
                try:
                    for future in as_completed(futures):
                        future.result()
                        bar.advance(len(futures[future]) * weight)
                except BaseException:
                    pool.shutdown(wait=False, cancel_futures=True)
                    raise

    def write(self, runs: Sequence[range], meta: Meta, out: Path) -> None:
        """Stream the arrays of these runs, in order, into one OGBench npz file; other formats are converted from it."""
        first = read_npz(self.path(runs[0]))
        members: dict[str, Array | Blocks] = {name: self._joined(name, runs) for name in first}
        members["meta"] = np.array(meta.to_json())
        joined = out if out.suffix == ".npz" else self.folder / f"{out.stem}.joined.npz"
        with atomic(joined) as temporary:
            write_npz(temporary, members)
        if joined != out:
            formats.write(formats.read(joined), out)

    def _joined(self, name: str, runs: Sequence[range]) -> Blocks:
        first = read_npz(self.path(runs[0]))[name]
        rows = sum(len(read_npz(self.path(run))[name]) for run in runs)
        return Blocks((rows, *first.shape[1:]), first.dtype, (read_npz(self.path(run))[name] for run in runs))

    def remove(self) -> None:
        """Delete the folder: its content is in the joined file."""
        shutil.rmtree(self.folder, ignore_errors=True)


def validation_path(path: Path) -> Path:
    """The validation twin of a dataset file: `a.npz` -> `a-val.npz`."""
    return path.with_name(f"{path.stem}-val{path.suffix}")


def remove_dataset(path: Path) -> None:
    """Delete a dataset file and its validation twin, where they are there."""
    for file in (path, validation_path(path)):
        if file.is_dir():
            raise BadInput(f"{file}: is a folder; remove it or choose another path")
        file.unlink(missing_ok=True)


@contextmanager
def single_threaded() -> Iterator[None]:
    """Processes started inside the block compute with one thread each."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def hidden_main() -> Iterator[None]:
    """Keep spawned processes from importing the program that started them.

    They need nothing from it, and a script without a `__main__` guard would start itself again in each of them.
    """
    names: dict[str, Any] = vars(sys.modules["__main__"])
    hidden: dict[str, Any] = {name: names[name] for name in ("__file__", "__spec__") if name in names}
    names.update(dict.fromkeys(hidden))
    try:
        yield
    finally:
        names.update(hidden)


_make: Make | None = None  # of this worker process


def _prepare(prepare: Callable[..., Make], arguments: tuple[Any, ...]) -> None:
    global _make
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _make = prepare(*arguments)


def _end_with_parent() -> None:
    """Exit when the parent dies: its siblings keep the queue open, so the worker would wait for work forever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _make_shard(run: range, path: Path) -> None:
    assert _make is not None
    arrays = _make(run)
    with atomic(path) as temporary:
        write_npz(temporary, arrays)
