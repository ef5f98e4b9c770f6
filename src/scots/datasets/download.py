"""Download OGBench datasets: mirrors, resume, verification, and a record of where each file came from.

A file is downloaded to `{name}.part` and renamed only when it is complete, intact and has the checksum of the first
download. `{name}.part.json` records which remote file the part belongs to; without it the download starts over.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import time
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import numpy as np

from scots import __version__
from scots.core import files
from scots.core.console import amount, console, progress
from scots.core.errors import BadInput
from scots.core.locks import locked

_MIRRORS = (
    "https://rail.eecs.berkeley.edu/datasets/ogbench",
    "https://huggingface.co/datasets/zhouzypaul/ogbench_datasets/resolve/main",
)
"""Base URLs in order of preference; `$SCOTS_MIRRORS` (comma-separated) replaces the list."""

_RETRY_SECONDS = (0.5, 1.0, 2.0)  # waits between retries of a mirror; an attempt that received new bytes resets them
_TIMEOUT_SECONDS = 30.0  # without data, after which the connection counts as lost
_CHUNK_BYTES = 1 << 18
_REQUIRED_ARRAYS = ("observations", "actions", "terminals")


class _MirrorFailed(Exception):
    """This mirror cannot deliver the file; try the next."""


class _Interrupted(_MirrorFailed):
    """The transfer was interrupted; the same mirror can resume it."""


def download(dataset_id: str, *, offline: bool = False) -> Path:
    """Download the training and validation files of a dataset unless they exist; return the training file."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", dataset_id):
        raise BadInput(f"{dataset_id!r} is not a dataset id; an id looks like pointmaze-medium-stitch-v0")
    folder = files.home() / "data"
    training = folder / f"{dataset_id}.npz"
    if offline:
        if not training.exists():
            raise BadInput(
                f"{training}: no such file, and --offline forbids the download; "
                f"run once without --offline, or collect it yourself: scots data collect {dataset_id}"
            )
        return training
    for target in (training, folder / f"{dataset_id}-val.npz"):
        if not target.exists():
            with locked(folder):  # part files and checksums are shared
                _download_file(dataset_id, target)
    return training


def origin_of(path: Path) -> dict[str, Any] | None:
    """The record of a file's download (origin, url, sha256, bytes, date); None if the file was not downloaded."""
    record = _origin_path(path)
    return _read_json(record) if record.exists() else None


def _origin_path(path: Path) -> Path:
    return path.with_suffix(".origin.json")


def _download_file(dataset_id: str, target: Path) -> None:
    """Try the mirrors until one delivers a file that passes every check."""
    if target.exists():  # another process downloaded it while this one waited for the lock
        return
    part = _Part(target.with_name(f"{target.name}.part"))
    urls = [f"{mirror}/{target.name}" for mirror in _mirrors()]
    source = part.source()
    reasons = []
    # Only the mirror that a part came from can resume it, so that mirror goes first.
    for url in sorted(urls, key=lambda url: source is None or source.url != url):
        try:
            _transfer(url, part)
            _verify_and_rename(url, part, target)
        except _MirrorFailed as failure:
            _warn(f"{url}: {failure}")
            reasons.append(f"{url}: {failure}")
        else:
            return
    raise BadInput(
        f"{dataset_id}: cannot be downloaded ({'; '.join(reasons)}); "
        f"try again later, or collect it yourself: scots data collect {dataset_id}"
    )


def _mirrors() -> list[str]:
    mirrors = [mirror.strip().rstrip("/") for mirror in os.environ.get("SCOTS_MIRRORS", "").split(",")]
    mirrors = [mirror for mirror in mirrors if mirror]
    for mirror in mirrors:
        if not mirror.startswith(("http://", "https://")):
            raise BadInput(f"SCOTS_MIRRORS: {mirror!r} is not an http:// or https:// URL")
    return mirrors or list(_MIRRORS)


# ------------------------------------------------------------------------------------------------------------- parts


@dataclass(frozen=True)
class _Source:
    """The remote file that a part belongs to."""

    url: str
    validator: str  # ETag or Last-Modified, which change with the file
    bytes: int


@dataclass(frozen=True)
class _Part:
    """A partial download and the record of its source."""

    path: Path

    @property
    def record(self) -> Path:
        return self.path.with_name(f"{self.path.name}.json")

    def size(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0

    def source(self) -> _Source | None:
        """The remote file of the part; None if unknown, and then the part cannot be resumed."""
        try:
            return _Source(**json.loads(self.record.read_text()))
        except (OSError, ValueError, TypeError):
            return None

    def restart(self, source: _Source | None) -> None:
        """Delete the part and record its new source.

        Deleting comes first: a kill in between must not leave old bytes with a new record.
        """
        self.discard()
        if source is not None:
            files.write_text(self.record, json.dumps(vars(source)))

    def discard(self) -> None:
        self.path.unlink(missing_ok=True)
        self.record.unlink(missing_ok=True)


# ---------------------------------------------------------------------------------------------------------- transfer


def _transfer(url: str, part: _Part) -> None:
    """Download the part completely. An interrupted transfer resumes as long as attempts receive new bytes."""
    failures, max_size = 0, part.size()
    while True:
        try:
            return _receive(url, part)
        except _Interrupted as interruption:
            size = part.size()
            failures = 1 if size > max_size else failures + 1
            max_size = max(max_size, size)
            if failures > len(_RETRY_SECONDS):
                raise
            _warn(f"{url}: {interruption}; retrying")
        time.sleep(_RETRY_SECONDS[failures - 1])


def _receive(url: str, part: _Part) -> None:
    """Send one request: for the missing bytes if the part came from this URL, otherwise for the whole file."""
    source, start = part.source(), part.size()
    if source is None or source.url != url or not 0 < start <= source.bytes:
        source, start = None, 0
    elif start == source.bytes:  # an earlier run stopped after the last byte, before the checks
        return
    with _open(url, source, start, part) as response:
        header = _Header.of(response)
        if response.status != http.client.PARTIAL_CONTENT:
            start = 0
            part.restart(header.source(url))
        elif source is None or not header.continues(source, start):
            part.discard()
            raise _Interrupted("the remote file has changed since the download began")
        _require_space(part.path.parent, (header.total or 0) - start)
        _append(part, response, header.total, start)
    if header.total is not None and part.size() < header.total:
        raise _Interrupted(f"the connection was lost at {part.size()} of {header.total} bytes")
    if header.total is not None and part.size() > header.total:
        part.discard()
        raise _MirrorFailed(f"sent more than the {header.total} bytes it announced")


@dataclass(frozen=True)
class _Header:
    """The HTTP headers that describe the response body."""

    first: int | None  # offset of the body in the file
    total: int | None  # size of the file
    validator: str | None

    @classmethod
    def of(cls, response: http.client.HTTPResponse) -> Self:
        etag = response.headers.get("ETag")
        # A weak ETag does not guarantee equal bytes, so it cannot validate a resumed download.
        validator = etag if etag and not etag.startswith("W/") else response.headers.get("Last-Modified")
        if response.status != http.client.PARTIAL_CONTENT:
            return cls(first=0, total=response.length, validator=validator)
        span = re.fullmatch(r"bytes (\d+)-\d+/(\d+)", response.headers.get("Content-Range", ""))
        first, total = (int(span[1]), int(span[2])) if span else (None, None)
        return cls(first=first, total=total, validator=validator)

    def source(self, url: str) -> _Source | None:
        """The remote file of this response; None if the headers are not enough to resume it later."""
        if self.validator is None or self.total is None:
            return None
        return _Source(url, self.validator, self.total)

    def continues(self, source: _Source, start: int) -> bool:
        """Whether the body continues the same file at `start`; a partial response may omit the validator."""
        same_file = self.total == source.bytes and self.validator in (None, source.validator)
        return same_file and self.first == start


def _open(url: str, source: _Source | None, start: int, part: _Part) -> http.client.HTTPResponse:
    headers = {"User-Agent": f"scots/{__version__}"}
    if source is not None:  # with If-Range, the server sends the whole file if it has changed
        headers |= {"Range": f"bytes={start}-", "If-Range": source.validator}
    # Retry the mirror that the part came from; any other is not worth waiting for.
    unavailable = _MirrorFailed if source is None else _Interrupted
    try:
        request = urllib.request.Request(url, headers=headers)
        response: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
            part.discard()
            raise _MirrorFailed("has fewer bytes than it announced") from error
        busy = error.code >= 500 or error.code in (http.client.REQUEST_TIMEOUT, http.client.TOO_MANY_REQUESTS)
        raise (unavailable if busy else _MirrorFailed)(f"answered {error.code} {error.reason}") from error
    except (OSError, http.client.HTTPException) as error:
        raise unavailable(f"cannot be reached ({getattr(error, 'reason', error)})") from error
    if response.headers.get_content_type() == "text/html":  # checked here, before a login page overwrites the part
        response.close()
        raise _MirrorFailed("answered with a web page instead of the file")
    return response


def _append(part: _Part, response: http.client.HTTPResponse, total: int | None, start: int) -> None:
    try:
        with part.path.open("ab") as file, progress(part.path.stem, total, "bytes", completed=start) as bar:
            for chunk in _chunks(response):
                file.write(chunk)
                bar.advance(len(chunk))
    except OSError as error:
        reason = error.strerror or str(error)
        raise BadInput(f"{part.path}: cannot write: {reason}; free disk space and run the command again") from error


def _chunks(response: http.client.HTTPResponse) -> Iterator[bytes]:
    """The body as it arrives. Network errors become `_Interrupted`, so they are not mistaken for disk errors."""
    while True:
        try:
            chunk = response.read1(_CHUNK_BYTES)
        except (OSError, http.client.HTTPException) as error:
            raise _Interrupted(f"the connection was lost ({error})") from error
        if not chunk:
            return
        yield chunk


def _require_space(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise BadInput(
            f"{folder}: {amount(needed, 'bytes')} needed, {amount(free, 'bytes')} free; "
            "free some disk space, or choose a larger disk with SCOTS_HOME"
        )


def _warn(text: str) -> None:
    console.print(text, style="yellow", markup=False, highlight=False, soft_wrap=True)


# ------------------------------------------------------------------------------------------------------ verification


def _verify_and_rename(url: str, part: _Part, target: Path) -> None:
    """Verify a complete part, record its origin, then rename it to the target."""
    try:
        _check_arrays(part.path)
        digest = files.sha256(part.path)
        _check_digest(target, digest)
    except _MirrorFailed:
        part.discard()
        raise
    date = datetime.now(UTC).isoformat(timespec="seconds")
    origin = {"origin": "downloaded", "url": url, "sha256": digest, "bytes": part.size(), "date": date}
    # The record comes before the rename: a kill in between then leaves a record without a file, which the next run
    # replaces, and never a file of unknown origin.
    files.write_text(_origin_path(target), json.dumps(origin, indent=1))
    with part.path.open("rb") as file:
        os.fsync(file.fileno())
    os.replace(part.path, target)
    part.discard()


def _check_arrays(path: Path) -> None:
    """Check that the file is an intact npz whose required arrays have the same number of rows."""
    try:
        with zipfile.ZipFile(path) as archive:
            missing = [name for name in _REQUIRED_ARRAYS if f"{name}.npy" not in archive.namelist()]
            if missing:
                raise _MirrorFailed(f"sent a file without the array {missing[0]!r}")
            if damaged := archive.testzip():
                raise _MirrorFailed(f"sent a damaged file: {damaged} fails its checksum")
            rows = {name: _row_count(archive, name) for name in _REQUIRED_ARRAYS}
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, ValueError, RuntimeError) as error:
        raise _MirrorFailed(f"sent a file that is not a dataset ({error})") from error
    if len(set(rows.values())) > 1:
        raise _MirrorFailed(f"sent arrays of different lengths: {rows}")


def _row_count(archive: zipfile.ZipFile, name: str) -> int:
    """Number of rows of an array, from its npy header."""
    with archive.open(f"{name}.npy") as member:
        is_version_1 = np.lib.format.read_magic(member) == (1, 0)
        read = np.lib.format.read_array_header_1_0 if is_version_1 else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(member)
    if not shape or dtype.hasobject:
        raise ValueError(f"{name} is not an array of numbers")
    return int(shape[0])


def _check_digest(target: Path, digest: str) -> None:
    """Compare the checksum with that of the first download, which is recorded because OGBench publishes none."""
    checksums = target.with_name("checksums.json")
    recorded = _read_json(checksums) if checksums.exists() else {}
    if recorded.setdefault(target.name, digest) != digest:
        raise _MirrorFailed(
            f"sent a file with SHA-256 {digest[:12]}..., but {recorded[target.name][:12]}... was recorded before; "
            f"to accept a new version delete {target.name!r} from {checksums}"
        )
    files.write_text(checksums, json.dumps(recorded, indent=1, sort_keys=True))


def _read_json(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise BadInput(f"{path}: cannot be read ({error}); delete it and try again") from error
    if not isinstance(values, dict):
        raise BadInput(f"{path}: expected a JSON object; delete it and try again")
    return values
