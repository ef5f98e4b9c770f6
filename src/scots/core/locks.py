"""One process at a time works on a file or folder: equal commands that run at once do not disturb each other."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from scots.core.console import console
from scots.core.errors import BadInput

_NO_LOCKS = {errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS}  # file systems that have none, such as some network mounts

_held: ContextVar[frozenset[Path]] = ContextVar("held", default=frozenset())


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Work on a path alone: whoever comes second says so and waits, and then finds what the first has made.

    The lock is a file beside the path. The operating system releases it when its process ends, even if it is killed.
    Inside the block the same path can be locked again. Of processes that train together only the first locks.
    """
    lock = path.resolve().with_name(f".{path.resolve().name}.lock")
    if lock in _held.get() or os.environ.get("RANK", "0") != "0":
        yield
        return
    descriptor = _acquire(lock, path)
    token = _held.set(_held.get() | {lock})
    try:
        yield
    finally:
        _held.reset(token)
        lock.unlink(missing_ok=True)  # before it is released: whoever gets it next must not see it go
        os.close(descriptor)


def _acquire(lock: Path, path: Path) -> int:
    """The descriptor of the lock file, locked."""
    announced = False
    while True:
        descriptor = _open(lock, path)
        if not _try(descriptor):
            if not announced:
                _say(f"{path}: another process is working on it; waiting until it is done (Ctrl-C to stop)")
                announced = True
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            except BaseException:
                os.close(descriptor)
                raise
        if _is_there(lock, descriptor):
            return descriptor
        os.close(descriptor)  # the process that had it has removed the file: a third may have made another


def _open(lock: Path, path: Path) -> int:
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        return os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise BadInput(f"{path}: cannot write: {error.strerror}; choose another path") from error


def _try(descriptor: int) -> bool:
    """Whether the lock was free; it is ours then. Where there are no locks, everybody is alone."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
    return True


def _is_there(lock: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), lock.stat())
    except FileNotFoundError:
        return False


def _say(message: str) -> None:
    console.print(message, markup=False, highlight=False, soft_wrap=True)
