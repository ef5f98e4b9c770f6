"""What the machine has to offer, and refusing work that it cannot do before it starts."""

from __future__ import annotations

import os
import platform
import re
import shutil
from pathlib import Path

from scots.core.console import amount
from scots.core.errors import BadInput


def free_disk(path: Path) -> int:
    """Bytes that are free where a path is or will be."""
    whole = path.expanduser().resolve()
    return shutil.disk_usage(next(place for place in (whole, *whole.parents) if place.exists())).free


def available_memory() -> int | None:
    """Bytes of memory that processes can still get; None where the system does not tell."""
    meminfo = Path("/proc/meminfo")
    match = re.search(r"MemAvailable:\s+(\d+) kB", meminfo.read_text()) if meminfo.exists() else None
    return int(match[1]) * 1024 if match else None


def peak_memory() -> int | None:
    """The most bytes that this process had resident, and its largest child that ended; None where nobody counts."""
    try:
        import resource  # not on Windows
    except ImportError:
        return None
    unit = 1 if platform.system() == "Darwin" else 1024
    kinds = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
    return unit * sum(resource.getrusage(kind).ru_maxrss for kind in kinds)


def cores() -> int:
    """Cores that this process may use: a container or a scheduler may give it fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def machine() -> str:
    """The machine in a line: "Linux x86_64, 2 cores, 24 GB of memory, Python 3.11.7"."""
    words = [f"{platform.system()} {platform.machine()}", f"{cores()} cores"]
    if "SC_PHYS_PAGES" in os.sysconf_names:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        words.append(f"{memory / 1e9:.0f} GB of memory")
    return ", ".join([*words, f"Python {platform.python_version()}"])


def check_disk(path: Path, needed: int, arithmetic: str) -> None:
    """Refuse to write more bytes than the disk has room for; `arithmetic` says how they come about."""
    if needed > (free := free_disk(path)):
        found = f"needs {amount(needed, 'bytes')} of disk space ({arithmetic}), and {amount(free, 'bytes')} are free"
        raise BadInput(f"{path}: {found}; make fewer, or choose another disk")


def check_memory(needed: int, arithmetic: str) -> None:
    """Refuse work that takes more bytes of memory than there are; `arithmetic` says how they come about."""
    free = available_memory()
    if free is not None and needed > free:
        found = f"{amount(needed, 'bytes')} of memory are needed ({arithmetic}), and {amount(free, 'bytes')} are there"
        raise BadInput(f"{found}; choose smaller sizes")
