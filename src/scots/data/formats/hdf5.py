"""HDF5 guarded against two dangers: absurd shapes in damaged files, and a crash when the disk is full."""

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
_MAX_RATIO = 1100  # deflate cannot compress better


def check_size(dataset: h5py.Dataset) -> None:
    """Reject an array whose declared size is far larger than its stored data.

    One damaged byte in a shape can declare gigabytes, and HDF5 would spend minutes on fill values.
    """
    max_bytes = max(dataset.file.id.get_filesize(), _MAX_RATIO * dataset.id.get_storage_size())
    if dataset.nbytes > max_bytes:
        raise BadInput(f"{dataset.name}: shape {dataset.shape} is too large for this file; download it again")


class _Sink(io.FileIO):
    """A file that stores its first write error and reports success.

    The HDF5 library crashes the process if a write fails while it closes a file, as on a full disk, so it must never
    see the error. `Hdf5Writer` raises it instead.
    """

    failure: OSError | None = None

    def write(self, content: Any) -> int:
        pending = memoryview(content).cast("B")
        size = len(pending)
        try:
            while pending and self.failure is None:  # a write may be partial, and HDF5 does not retry
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
    """Context manager that writes a new HDF5 file with checksums on every array and all metadata."""

    def __init__(self, path: Path) -> None:
        self._sink = _Sink(path, "w+")
        self._file = h5py.File(self._sink, "w", libver=("v110", "v110"))  # the first version with metadata checksums

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        self._sink.close()
        self._raise_failure()

    def put(self, key: str, values: Array) -> None:
        """Add an array with at least one entry under a slash-separated key."""
        rows = max(1, _CHUNK_BYTES * len(values) // values.nbytes)
        chunks = (min(rows, len(values)), *values.shape[1:])
        self._file.create_dataset(key, data=values, chunks=chunks, fletcher32=True)
        self._raise_failure()

    def put_attributes(self, key: str, attributes: dict[str, ArrayLike]) -> None:
        """Set attributes on the group of this key, creating the group if needed."""
        self._file.require_group(key).attrs.update(attributes)

    def _raise_failure(self) -> None:
        if self._sink.failure is not None:
            raise self._sink.failure
