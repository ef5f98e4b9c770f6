"""Files on disk: checks, atomic writes, JSONL appends, checksums, and the `scots` home folder."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from scots.core.errors import BadInput


def home() -> Path:
    """Folder of datasets and caches: `$SCOTS_HOME`, by default `~/.scots`."""
    return Path(os.environ.get("SCOTS_HOME") or "~/.scots").expanduser()


def check_input(path: Path) -> None:
    """Refuse to read what is no plain file: a pipe or a device would be waited for, perhaps forever."""
    if not path.exists():
        raise BadInput(f"{path}: no such file; check the path")
    if not path.is_file():
        raise BadInput(f"{path}: is a {_kind(path)}, not a file; write its content to a file first")


def check_output(path: Path, *, folder: bool = False) -> None:
    """Refuse a file, or a folder, that could not be written when the work is done."""
    if path.exists() and not (path.is_dir() if folder else path.is_file()):
        raise BadInput(f"{path}: is a {_kind(path)}, not a {'folder' if folder else 'file'}; choose another path")
    whole = path.expanduser().resolve()
    place = next(place for place in (whole, *whole.parents) if place.exists() and (place != whole or folder))
    try:
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        raise BadInput(f"{path}: cannot write: {place}: {error.strerror}; choose another path") from error


def _kind(path: Path) -> str:
    return "folder" if path.is_dir() else "file" if path.is_file() else "pipe or device"


@contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """Yield a temporary path next to `path` to write a file or folder to; sync and rename it when the block ends.

    If the block fails, the temporary path is removed. An `OSError` becomes a `BadInput` that names the target.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        _sync(temporary)
        _replace(temporary, path)
    except OSError as error:
        reason = error.strerror or str(error)
        raise BadInput(f"{path}: cannot write: {reason}; free some disk space or choose another path") from error
    finally:
        _remove(temporary)


def write_text(path: Path, text: str) -> None:
    """Write a small text file atomically."""
    with atomic(path) as temporary:
        temporary.write_text(text)


def append_rows(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Append rows to a JSONL file, creating it if needed."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise BadInput(f"{path}: cannot write: {error.strerror}; choose another path") from error


def _sync(path: Path) -> None:
    for item in [path, *path.rglob("*")] if path.is_dir() else [path]:
        descriptor = os.open(item, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _replace(source: Path, target: Path) -> None:
    if target.is_dir() and not target.is_symlink():  # os.replace cannot overwrite a non-empty folder
        backup = target.with_name(f".{target.name}.{os.getpid()}.old")
        os.replace(target, backup)
        try:
            os.replace(source, target)
        except OSError:
            os.replace(backup, target)
            raise
        shutil.rmtree(backup)
    else:
        os.replace(source, target)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):  # the file or its folder was never created
            path.unlink()


def sha256(path: Path) -> str:
    """Hex SHA-256 of a file, read in chunks."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
