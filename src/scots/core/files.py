"""Writing that is whole or not there: atomic files and folders, digests, and the data home."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from scots.core.errors import BadInput


def home() -> Path:
    """Where datasets and caches live: `$SCOTS_HOME`, by default `~/.scots`."""
    return Path(os.environ.get("SCOTS_HOME") or "~/.scots").expanduser()


@contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """Yield a temporary neighbour of `path` to write a file or folder to; sync and rename it when the block ends.

    If the block fails nothing is left behind, and a system error becomes one line that names the target.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        _sync(temporary)
        _replace(temporary, path)
    except OSError as error:
        reason = error.strerror or str(error)
        raise BadInput(f"{path}: cannot write: {reason}; free some space or choose another place") from error
    finally:
        _remove(temporary)


def write_text(path: Path, text: str) -> None:
    """Write a small text file atomically."""
    with atomic(path) as temporary:
        temporary.write_text(text)


def append_rows(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Add rows to a JSONL file; what the file holds already stays."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise BadInput(f"{path}: cannot write: {error.strerror}; choose another place") from error


def _sync(path: Path) -> None:
    for item in [path, *path.rglob("*")] if path.is_dir() else [path]:
        descriptor = os.open(item, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _replace(source: Path, target: Path) -> None:
    if target.is_dir() and not target.is_symlink():  # os.replace refuses a folder that has content
        aside = target.with_name(f".{target.name}.{os.getpid()}.old")
        os.replace(target, aside)
        try:
            os.replace(source, target)
        except OSError:
            os.replace(aside, target)
            raise
        shutil.rmtree(aside)
    else:
        os.replace(source, target)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):  # it was never made, or its folder could not be
            path.unlink()


def sha256(path: Path) -> str:
    """Hex SHA-256 of a file, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
