"""Npz files made for memory mapping: uncompressed, aligned, checksummed, and the same bytes every time."""

from __future__ import annotations

import math
import struct
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np

from scots.core.errors import BadInput
from scots.data.trajectories import Array

_ALIGNMENT = 64  # of the array data in the file; numpy pads its own header to the same number
_PIECE = 1 << 22  # bytes read or written at a time
_PADDING_ID = 0xD935  # registered zip extra field for alignment: a 2-byte alignment, then zeros
_LOCAL_HEADER = 30  # fixed part of a zip local header, before the name and the extra fields
_ZIP64_EXTRA = 20  # written after our padding, because every member is forced to zip64


@dataclass(frozen=True)
class Blocks:
    """A large array given piece by piece along its first axis, so that it need not be in memory whole."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    blocks: Iterable[Array]


def write_npz(path: Path, members: Mapping[str, Array | Blocks]) -> None:
    """Write an uncompressed npz with aligned members that `np.load` and `read_npz` read.

    Equal members give equal bytes: dates and permissions are fixed.
    """
    with path.open("wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, member in members.items():
            blocks = member if isinstance(member, Blocks) else _in_blocks(member)
            with archive.open(_aligned_entry(f"{name}.npy", file.tell()), "w", force_zip64=True) as stream:
                _write_blocks(stream, name, blocks)


def _in_blocks(array: Array) -> Blocks:
    rows = max(1, _PIECE * len(array) // max(1, array.nbytes)) if array.ndim else 1
    pieces = (array[row : row + rows] for row in range(0, len(array), rows)) if array.ndim else iter([array])
    return Blocks(array.shape, array.dtype, pieces)


def _aligned_entry(name: str, offset: int) -> zipfile.ZipInfo:
    """A zip entry whose local header, written at `offset`, ends on an aligned byte."""
    entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    entry.create_system = 3  # otherwise it differs between operating systems
    end = offset + _LOCAL_HEADER + len(name.encode()) + _ZIP64_EXTRA
    smallest = struct.calcsize("<HHH")
    padding = smallest + (-(end + smallest)) % _ALIGNMENT
    entry.extra = struct.pack("<HHH", _PADDING_ID, padding - 4, _ALIGNMENT).ljust(padding, b"\0")
    return entry


def _write_blocks(stream: IO[bytes], name: str, member: Blocks) -> None:
    if member.dtype.hasobject:
        raise ValueError(f"{name}: object arrays cannot be stored")
    header = {"descr": np.lib.format.dtype_to_descr(member.dtype), "fortran_order": False, "shape": member.shape}
    np.lib.format.write_array_header_1_0(stream, header)
    size = 0
    for block in member.blocks:
        content = np.ascontiguousarray(block, dtype=member.dtype)
        if content.nbytes:
            stream.write(content.reshape(-1).view(np.uint8).data)
        size += content.size
    if size != math.prod(member.shape):
        raise ValueError(f"{name}: the blocks hold {size} numbers, shape {member.shape} was promised")


def read_npz(path: Path) -> Mapping[str, Array]:
    """Open an npz lazily: an array is read each time its key is looked up.

    An array that is stored uncompressed and aligned is memory-mapped read-only, after its checksum was verified in
    pieces; any other is decompressed into one array. Nothing is ever unpickled.
    """
    return _Npz(path)


class _Npz(Mapping[str, Array]):
    def __init__(self, path: Path) -> None:
        self._path = path
        with _explained(path), zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if name.endswith(".npy")]
            for name in names:  # the list of names has no checksum: opening compares each with the member's own header
                archive.open(name).close()
        self._names = {name.removesuffix(".npy"): name for name in names}

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, key: str) -> Array:
        name = self._names[key]
        with _explained(self._path, key), zipfile.ZipFile(self._path) as archive, archive.open(name) as stream:
            return _read_member(self._path, archive.getinfo(name), stream)


@contextmanager
def _explained(path: Path, key: str | None = None) -> Iterator[None]:
    """Turn whatever zipfile, zlib or numpy raise on bad bytes into one line that names the file and the key."""
    where = str(path) if key is None else f"{path}: key {key!r}"
    try:
        yield
    except BadInput as error:
        raise BadInput(f"{where}: {error}") from error
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise BadInput(f"{where}: not a readable npz ({reason}); fetch or write the file again") from error


def _read_member(path: Path, entry: zipfile.ZipInfo, stream: IO[bytes]) -> Array:
    shape, fortran, dtype = _read_header(stream)
    if dtype.hasobject:
        raise BadInput("object arrays are not read; store plain numbers")
    size = math.prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or stream.tell() + size != entry.file_size:
        raise BadInput(f"shape {shape} of {dtype} does not fit its {entry.file_size} bytes; write the file again")
    order: Literal["F", "C"] = "F" if fortran else "C"
    offset = _data_offset(path, entry) + stream.tell()
    if entry.compress_type == zipfile.ZIP_STORED and size and offset % dtype.alignment == 0:
        while stream.read(_PIECE):  # reading to the end verifies the checksum
            pass
        return np.asarray(np.memmap(path, dtype, "r", offset, shape, order))
    content = _read_content(stream, size)
    return content.view(dtype).reshape(shape, order=order) if size else np.empty(shape, dtype)


def _read_header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(stream)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(stream)
    if version == (2, 0):
        return np.lib.format.read_array_header_2_0(stream)
    raise BadInput(f"npy version {version} is not read; store plain numbers")


def _data_offset(path: Path, entry: zipfile.ZipInfo) -> int:
    """Where the member's bytes begin: only its local header tells, as its extra fields may differ from the index."""
    with path.open("rb") as file:
        file.seek(entry.header_offset)
        name, extra = struct.unpack("<26xHH", file.read(_LOCAL_HEADER))
    return entry.header_offset + _LOCAL_HEADER + name + extra


def _read_content(stream: IO[bytes], size: int) -> Array:
    content = np.empty(size, np.uint8)
    filled = 0
    while piece := stream.read(_PIECE):  # reading to the end verifies the checksum
        content[filled : filled + len(piece)] = np.frombuffer(piece, np.uint8)
        filled += len(piece)
    if filled != size:
        raise BadInput(f"{filled} bytes where {size} were expected; fetch or write the file again")
    return content
