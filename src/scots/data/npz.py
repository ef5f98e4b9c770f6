"""Npz files for memory mapping: uncompressed, aligned, checksummed and reproducible to the byte."""

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

_ALIGNMENT = 64  # bytes, of the array data in the file; numpy pads its own header to the same multiple
_CHUNK = 1 << 22  # bytes read or written at a time
_PADDING_ID = 0xD935  # registered zip extra field for alignment: a 2-byte alignment, then zeros
_LOCAL_HEADER = 30  # bytes, the fixed part of a zip local header, before the name and the extra fields
_ZIP64_EXTRA = 20  # bytes, written after our padding because every member is forced to zip64


@dataclass(frozen=True)
class Blocks:
    """An array given in blocks along its first axis, so that it never has to fit in memory."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    blocks: Iterable[Array]


def write_npz(path: Path, members: Mapping[str, Array | Blocks]) -> None:
    """Write an uncompressed npz with aligned members; both `np.load` and `read_npz` can read it.

    Equal members give equal bytes: dates and permissions are fixed.
    """
    with path.open("wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, member in members.items():
            blocks = member if isinstance(member, Blocks) else _split(member)
            with archive.open(_aligned_entry(f"{name}.npy", file.tell()), "w", force_zip64=True) as stream:
                _write_blocks(stream, name, blocks)


def _split(array: Array) -> Blocks:
    rows = max(1, _CHUNK * len(array) // max(1, array.nbytes)) if array.ndim else 1
    blocks = (array[row : row + rows] for row in range(0, len(array), rows)) if array.ndim else iter([array])
    return Blocks(array.shape, array.dtype, blocks)


def _aligned_entry(name: str, offset: int) -> zipfile.ZipInfo:
    """Zip entry padded so that its local header, written at `offset`, ends on an aligned byte."""
    entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    entry.create_system = 3  # Unix; zipfile's default depends on the operating system
    end = offset + _LOCAL_HEADER + len(name.encode()) + _ZIP64_EXTRA
    min_padding = struct.calcsize("<HHH")
    padding = min_padding + (-(end + min_padding)) % _ALIGNMENT
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
        raise ValueError(f"{name}: the blocks hold {size} numbers, expected shape {member.shape}")


def read_npz(path: Path) -> Mapping[str, Array]:
    """Open an npz lazily: every lookup of a key reads its array again.

    Arrays that are stored uncompressed and aligned are memory-mapped read-only after their checksum is verified; all
    others are decompressed into memory. Nothing is ever unpickled.
    """
    return _Npz(path)


class _Npz(Mapping[str, Array]):
    def __init__(self, path: Path) -> None:
        self._path = path
        with _as_bad_input(path), zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if name.endswith(".npy")]
            for name in names:  # the zip directory has no checksum; opening compares each name with the local header
                archive.open(name).close()
        self._names = {name.removesuffix(".npy"): name for name in names}

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, key: str) -> Array:
        name = self._names[key]
        with _as_bad_input(self._path, key), zipfile.ZipFile(self._path) as archive, archive.open(name) as stream:
            return _read_member(self._path, archive.getinfo(name), stream)


@contextmanager
def _as_bad_input(path: Path, key: str | None = None) -> Iterator[None]:
    """Turn any error of zipfile, zlib or numpy on bad bytes into a `BadInput` that names the file and the key."""
    where = str(path) if key is None else f"{path}: key {key!r}"
    try:
        yield
    except BadInput as error:
        raise BadInput(f"{where}: {error}") from error
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise BadInput(f"{where}: not a readable npz ({reason}); download or write the file again") from error


def _read_member(path: Path, entry: zipfile.ZipInfo, stream: IO[bytes]) -> Array:
    shape, fortran, dtype = _read_header(stream)
    if dtype.hasobject:
        raise BadInput("object arrays are not supported; store plain numbers")
    size = math.prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or stream.tell() + size != entry.file_size:
        raise BadInput(f"shape {shape} of {dtype} does not match its {entry.file_size} bytes; write the file again")
    order: Literal["F", "C"] = "F" if fortran else "C"
    offset = _data_offset(path, entry) + stream.tell()
    if entry.compress_type == zipfile.ZIP_STORED and size and offset % dtype.alignment == 0:
        while stream.read(_CHUNK):  # reading to the end verifies the checksum
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
    raise BadInput(f"npy version {version} is not supported; store plain numbers")


def _data_offset(path: Path, entry: zipfile.ZipInfo) -> int:
    """File offset of the member's data, from its local header: the extra fields may differ from the zip directory."""
    with path.open("rb") as file:
        file.seek(entry.header_offset)
        name, extra = struct.unpack("<26xHH", file.read(_LOCAL_HEADER))
    return entry.header_offset + _LOCAL_HEADER + name + extra


def _read_content(stream: IO[bytes], size: int) -> Array:
    content = np.empty(size, np.uint8)
    filled = 0
    while chunk := stream.read(_CHUNK):  # reading to the end verifies the checksum
        content[filled : filled + len(chunk)] = np.frombuffer(chunk, np.uint8)
        filled += len(chunk)
    if filled != size:
        raise BadInput(f"found {filled} bytes, expected {size}; download or write the file again")
    return content
