"""Errors the user can fix: bad input, and missing optional packages."""

from __future__ import annotations

import importlib
from types import ModuleType


class BadInput(Exception):
    """The user's input cannot be used. The message is one line: where, what was found, what to do. Exit code 2."""


def require(module: str, extra: str) -> ModuleType:
    """Import an optional package, or raise an error that names the `scots` extra that installs it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise BadInput(f"cannot import '{module}' ({error}); run pip install 'scots[{extra}]'") from error
