"""HDF5 without its two dangers: absurd shapes in damaged files, and a crash when the disk is full."""

from __future__ import annotations

import io
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import h5py
from numpy.typing import ArrayLike

from scots.core.errors import BadInput
from scots.data.trajectories import Array

_CHUNK_BYTES = 1 << 20
_LARGEST_RATIO = 1100  # deflate cannot compress better


def check_size(dataset: h5py.Dataset) -> None:
    """Refuse an array that claims to be far larger than what is stored of it.

    One damaged byte of a shape can ask for gigabytes of fill values, which HDF5 would make for minutes.
    """
    possible = max(dataset.file.id.get_filesize(), _LARGEST_RATIO * dataset.id.get_storage_size())
    if dataset.nbytes > possible:
        raise BadInput(f"{dataset.name}: shape {dataset.shape} cannot come from this file; fetch it again")


class _Sink(io.FileIO):
    """A file that keeps its first failure for later and pretends success.

    The HDF5 library crashes the process when it cannot write while it closes a file, as on a full disk, so it must
    never see that.
    """

    failure: OSError | None = None

    def write(self, content: Any) -> int:
        pending = memoryview(content).cast("B")
        size = len(pending)
        try:
            while pending and self.failure is None:  # the system may take a part, and HDF5 would not ask again
                pending = pending[super().write(pending) :]
        except OSError as error:
            self.failure = error
        return size

    def truncate(self, size: int | None = None) -> int:
        try:
            return super().truncate(size)
        except OSError as error:
            self.failure = self.failure or error
            return size or 0


class Hdf5Writer:
    """A new HDF5 file, as a context; every array in it and all its metadata carry checksums."""

    def __init__(self, path: Path) -> None:
        self._sink = _Sink(path, "w+")
        # The first file version with checksums on metadata.
        self._file = h5py.File(self._sink, "w", libver=("v110", "v110"))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        self._sink.close()
        self._fail_early()

    def put(self, key: str, values: Array) -> None:
        """Add an array with at least one entry under a slash-separated key."""
        rows = max(1, _CHUNK_BYTES * len(values) // values.nbytes)
        chunks = (min(rows, len(values)), *values.shape[1:])
        self._file.create_dataset(key, data=values, chunks=chunks, fletcher32=True)
        self._fail_early()

    def put_attributes(self, key: str, attributes: dict[str, ArrayLike]) -> None:
        """Add small values to the group of this key, which is made if it is not there."""
        self._file.require_group(key).attrs.update(attributes)

    def _fail_early(self) -> None:
        if self._sink.failure is not None:
            raise self._sink.failure
