"""Fetch OGBench datasets: mirrors, resume, verification, and a record of where each file came from.

A file arrives as `{name}.part` and takes its name only when it is complete, intact and what it was the first time.
Beside a part lies `{name}.part.json`, which says what the part is a part of; without it the part cannot be continued.
"""

from __future__ import annotations

import fcntl
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
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import numpy as np

from scots import __version__
from scots.core import files
from scots.core.console import amount, console, progress
from scots.core.errors import BadInput

MIRRORS = (
    "https://rail.eecs.berkeley.edu/datasets/ogbench",
    "https://huggingface.co/datasets/zhouzypaul/ogbench_datasets/resolve/main",
)
"""Where the files are, in order of preference; `$SCOTS_MIRRORS` (comma-separated) replaces the list."""

RETRY_SECONDS = (0.5, 1.0, 2.0)  # waits before trying a mirror again; tries that brought new bytes do not use them up
TIMEOUT_SECONDS = 30.0  # silence after which a connection counts as cut
PIECE_BYTES = 1 << 18
REQUIRED_ARRAYS = ("observations", "actions", "terminals")


class _MirrorFailed(Exception):
    """This mirror does not give the file; another may."""


class _Interrupted(_MirrorFailed):
    """The transfer broke off; the same mirror may go on with it."""


def download(dataset_id: str, *, offline: bool = False) -> Path:
    """Fetch the training and validation files of a dataset unless they are here; give the path of the first."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", dataset_id):
        raise BadInput(f"{dataset_id!r} is not a dataset id; an id looks like pointmaze-medium-stitch-v0")
    folder = files.home() / "data"
    training = folder / f"{dataset_id}.npz"
    if offline:
        if not training.exists():
            raise BadInput(
                f"{training}: not there, and --offline forbids fetching it; "
                f"run once without --offline, or make it here: scots data collect {dataset_id}"
            )
        return training
    for target in (training, folder / f"{dataset_id}-val.npz"):
        if not target.exists():
            with _lock(folder):
                _fetch(dataset_id, target)
    return training


def origin_of(path: Path) -> dict[str, Any] | None:
    """What was recorded when the file was fetched (origin, url, sha256, bytes, date); None if nothing was."""
    record = _origin_path(path)
    return _read_json(record) if record.exists() else None


def _origin_path(path: Path) -> Path:
    return path.with_suffix(".origin.json")


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Let one process at a time fetch into the folder: parts are continued by name, and checksums are shared.

    The system drops the lock when its holder dies, however it dies.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / ".lock").open("w")
    except OSError as error:
        raise BadInput(f"{folder}: cannot write: {error.strerror}; choose another place with SCOTS_HOME") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _warn(f"{folder}: another process is downloading; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _fetch(dataset_id: str, target: Path) -> None:
    """Try the mirrors until one gives a file that passes every check."""
    if target.exists():  # another process brought it while this one waited for the lock
        return
    part = _Part(target.with_name(f"{target.name}.part"))
    urls = [f"{mirror}/{target.name}" for mirror in _mirrors()]
    begun = part.source()
    reasons = []
    # A part can only be continued where it was begun, so that mirror goes first.
    for url in sorted(urls, key=lambda url: begun is None or begun.url != url):
        try:
            _transfer(url, part)
            _finish(url, part, target)
        except _MirrorFailed as failure:
            _warn(f"{url}: {failure}")
            reasons.append(f"{url}: {failure}")
        else:
            return
    raise BadInput(
        f"{dataset_id}: cannot be downloaded ({'; '.join(reasons)}); "
        f"try again later, or make it here: scots data collect {dataset_id}"
    )


def _mirrors() -> list[str]:
    mirrors = [mirror.strip().rstrip("/") for mirror in os.environ.get("SCOTS_MIRRORS", "").split(",")]
    mirrors = [mirror for mirror in mirrors if mirror]
    for mirror in mirrors:
        if not mirror.startswith(("http://", "https://")):
            raise BadInput(f"SCOTS_MIRRORS: {mirror!r} is not an http:// or https:// address")
    return mirrors or list(MIRRORS)


# ------------------------------------------------------------------------------------------------------------- parts


@dataclass(frozen=True)
class _Source:
    """The exact file on a server that a part belongs to."""

    url: str
    validator: str  # ETag or Last-Modified: changes when the file does
    bytes: int


@dataclass(frozen=True)
class _Part:
    """A file on its way in, with a note of what it is a part of."""

    path: Path

    @property
    def note(self) -> Path:
        return self.path.with_name(f"{self.path.name}.json")

    def size(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0

    def source(self) -> _Source | None:
        """What the part belongs to; None if that is not known, and then the part cannot be continued."""
        try:
            return _Source(**json.loads(self.note.read_text()))
        except (OSError, ValueError, TypeError):
            return None

    def restart(self, source: _Source | None) -> None:
        """Forget what is there and note what comes. The old bytes go first, so no kill leaves them under a new note."""
        self.discard()
        if source is not None:
            files.write_text(self.note, json.dumps(vars(source)))

    def discard(self) -> None:
        self.path.unlink(missing_ok=True)
        self.note.unlink(missing_ok=True)


# ---------------------------------------------------------------------------------------------------------- transfer


def _transfer(url: str, part: _Part) -> None:
    """Bring the part to full size. A broken transfer goes on where it stopped, as long as tries bring new bytes."""
    failures, furthest = 0, part.size()
    while True:
        try:
            return _receive(url, part)
        except _Interrupted as interruption:
            reached = part.size()
            failures = 1 if reached > furthest else failures + 1
            furthest = max(furthest, reached)
            if failures > len(RETRY_SECONDS):
                raise
            _warn(f"{url}: {interruption}; trying again")
        time.sleep(RETRY_SECONDS[failures - 1])


def _receive(url: str, part: _Part) -> None:
    """One request: for what the part lacks if it was begun here, else for the whole file."""
    source, start = part.source(), part.size()
    if source is None or source.url != url or not 0 < start <= source.bytes:
        source, start = None, 0
    elif start == source.bytes:  # the last run was stopped between the last byte and the checks
        return
    with _open(url, source, start, part) as response:
        answer = _Answer.of(response)
        if response.status != http.client.PARTIAL_CONTENT:
            start = 0
            part.restart(answer.source(url))
        elif source is None or not answer.continues(source, start):
            part.discard()
            raise _Interrupted("the file is no longer the one that was begun")
        _require_space(part.path.parent, (answer.total or 0) - start)
        _append(part, response, answer.total, start)
    if answer.total is not None and part.size() < answer.total:
        raise _Interrupted(f"the connection was cut at {part.size()} of {answer.total} bytes")
    if answer.total is not None and part.size() > answer.total:
        part.discard()
        raise _MirrorFailed(f"sent more than the {answer.total} bytes it announced")


@dataclass(frozen=True)
class _Answer:
    """What the headers of a response say about the bytes that follow."""

    first: int | None
    total: int | None
    validator: str | None

    @classmethod
    def of(cls, response: http.client.HTTPResponse) -> Self:
        etag = response.headers.get("ETag")
        # A weak ETag names files that are alike, not equal, so it cannot vouch for joining two pieces.
        validator = etag if etag and not etag.startswith("W/") else response.headers.get("Last-Modified")
        if response.status != http.client.PARTIAL_CONTENT:
            return cls(first=0, total=response.length, validator=validator)
        span = re.fullmatch(r"bytes (\d+)-\d+/(\d+)", response.headers.get("Content-Range", ""))
        first, total = (int(span[1]), int(span[2])) if span else (None, None)
        return cls(first=first, total=total, validator=validator)

    def source(self, url: str) -> _Source | None:
        """What a part that begins with this answer belongs to, if the server gives enough to continue it later."""
        if self.validator is None or self.total is None:
            return None
        return _Source(url, self.validator, self.total)

    def continues(self, source: _Source, start: int) -> bool:
        """Whether the bytes go on from `start` in the same file; a partial answer may leave the validator out."""
        same = self.total == source.bytes and self.validator in (None, source.validator)
        return same and self.first == start


def _open(url: str, source: _Source | None, start: int, part: _Part) -> http.client.HTTPResponse:
    headers = {"User-Agent": f"scots/{__version__}"}
    if source is not None:  # If-Range: a file that changed comes whole, from its beginning
        headers |= {"Range": f"bytes={start}-", "If-Range": source.validator}
    # A mirror whose bytes we hold is worth waiting for; from any other it is quicker to go on to the next.
    passing = _MirrorFailed if source is None else _Interrupted
    try:
        request = urllib.request.Request(url, headers=headers)
        response: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
            part.discard()
            raise _MirrorFailed("has fewer bytes than it announced") from error
        busy = error.code >= 500 or error.code in (http.client.REQUEST_TIMEOUT, http.client.TOO_MANY_REQUESTS)
        raise (passing if busy else _MirrorFailed)(f"answered {error.code} {error.reason}") from error
    except (OSError, http.client.HTTPException) as error:
        raise passing(f"cannot be reached ({getattr(error, 'reason', error)})") from error
    if response.headers.get_content_type() == "text/html":  # refused here, before a login page can cost us the part
        response.close()
        raise _MirrorFailed("answered with a web page instead of the file")
    return response


def _append(part: _Part, response: http.client.HTTPResponse, total: int | None, start: int) -> None:
    try:
        with part.path.open("ab") as file, progress(part.path.stem, total, "bytes", completed=start) as bar:
            for piece in _pieces(response):
                file.write(piece)
                bar.advance(len(piece))
    except OSError as error:
        reason = error.strerror or str(error)
        raise BadInput(f"{part.path}: cannot write: {reason}; free some space and run the same command") from error


def _pieces(response: http.client.HTTPResponse) -> Iterator[bytes]:
    """The body as it arrives; whatever breaks on the way is an interruption, never confused with a full disk."""
    while True:
        try:
            piece = response.read1(PIECE_BYTES)
        except (OSError, http.client.HTTPException) as error:
            raise _Interrupted(f"the connection was cut ({error})") from error
        if not piece:
            return
        yield piece


def _require_space(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise BadInput(
            f"{folder}: {amount(needed, 'bytes')} needed, {amount(free, 'bytes')} free; "
            "free some space, or choose a larger disk with SCOTS_HOME"
        )


def _warn(text: str) -> None:
    console.print(text, style="yellow", markup=False, highlight=False, soft_wrap=True)


# ------------------------------------------------------------------------------------------------------ verification


def _finish(url: str, part: _Part, target: Path) -> None:
    """Check a complete part, record where it came from, and only then give it its name."""
    try:
        _check_arrays(part.path)
        digest = files.sha256(part.path)
        _check_digest(target, digest)
    except _MirrorFailed:
        part.discard()
        raise
    date = datetime.now(UTC).isoformat(timespec="seconds")
    origin = {"origin": "downloaded", "url": url, "sha256": digest, "bytes": part.size(), "date": date}
    # Before the rename: a kill in between leaves a record without a file, which the next run replaces, never a file
    # whose origin nobody knows.
    files.write_text(_origin_path(target), json.dumps(origin, indent=1))
    with part.path.open("rb") as file:
        os.fsync(file.fileno())
    os.replace(part.path, target)
    part.discard()


def _check_arrays(path: Path) -> None:
    """The file must be an undamaged npz whose arrays have one entry per row."""
    try:
        with zipfile.ZipFile(path) as archive:
            missing = [name for name in REQUIRED_ARRAYS if f"{name}.npy" not in archive.namelist()]
            if missing:
                raise _MirrorFailed(f"sent a file without the array {missing[0]!r}")
            if damaged := archive.testzip():
                raise _MirrorFailed(f"sent a damaged file: {damaged} fails its checksum")
            rows = {name: _rows(archive, name) for name in REQUIRED_ARRAYS}
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, ValueError, RuntimeError) as error:
        raise _MirrorFailed(f"sent something that is not a dataset ({error})") from error
    if len(set(rows.values())) > 1:
        raise _MirrorFailed(f"sent arrays of different lengths: {rows}")


def _rows(archive: zipfile.ZipFile, name: str) -> int:
    """Number of rows of an array of the archive, from its header."""
    with archive.open(f"{name}.npy") as member:
        version = np.lib.format.read_magic(member)
        first_version = version == (1, 0)
        read = np.lib.format.read_array_header_1_0 if first_version else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(member)
    if not shape or dtype.hasobject:
        raise ValueError(f"{name} is not an array of numbers")
    return int(shape[0])


def _check_digest(target: Path, digest: str) -> None:
    """The hash must be the one of the first time. No hashes are published, so the first time records it."""
    ledger = target.with_name("checksums.json")
    recorded = _read_json(ledger) if ledger.exists() else {}
    if recorded.setdefault(target.name, digest) != digest:
        raise _MirrorFailed(
            f"sent a file with SHA-256 {digest[:12]}..., but {recorded[target.name][:12]}... was recorded before; "
            f"to accept a new version delete {target.name!r} from {ledger}"
        )
    files.write_text(ledger, json.dumps(recorded, indent=1, sort_keys=True))


def _read_json(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise BadInput(f"{path}: cannot be read ({error}); delete it and try again") from error
    if not isinstance(values, dict):
        raise BadInput(f"{path}: expected a JSON object; delete it and try again")
    return values
