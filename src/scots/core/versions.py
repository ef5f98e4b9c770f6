"""Which code and which packages made a result."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path

import scots


@cache
def code_version() -> str:
    """The commit of this checkout, with "+changes" where tracked files differ from it; else the released version."""
    folder = Path(scots.__file__).parent
    try:
        _git(folder, "ls-files", "--error-unmatch", "__init__.py")  # not an installation inside another project
        commit = _git(folder, "rev-parse", "--short=12", "HEAD")
        return commit + ("+changes" if _git(folder, "status", "--porcelain", "--untracked-files=no", ".") else "")
    except (OSError, subprocess.CalledProcessError):
        return scots.__version__


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def package_versions(*names: str) -> dict[str, str]:
    """Installed versions of these packages, and of `scots` itself first."""
    return {name: version(name) for name in ("scots", *names)}


def now() -> str:
    """The present time in UTC, to the second, as ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")
