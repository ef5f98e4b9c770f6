"""The two errors a user can cause: bad input, and a missing optional package."""

from __future__ import annotations

import importlib
from types import ModuleType


class BadInput(Exception):
    """Something the user gave cannot be used. One line: where, what was found, what to do. Exit code 2."""


def require(module: str, extra: str) -> ModuleType:
    """Import an optional package, or say which extra of `scots` brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise BadInput(f"this needs the package '{module}': pip install 'scots[{extra}]' ({error})") from error
