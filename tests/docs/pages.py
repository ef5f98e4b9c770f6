"""Pages of Markdown as their readers use them: block after block, in one folder."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parents[2]
PAGES = ["README.md", "CONTRIBUTING.md", *sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("docs/**/*.md"))]

_FENCE = re.compile(r'^```([^\s`]*)(?: title="([^"]+)"| [^\n`]*)?\n(.*?)^```$', re.MULTILINE | re.DOTALL)

RUN, SHOWN = {"sh", "python"}, {"text", "diff"}
"""Languages of blocks that are run, and of those that are only shown; the name of a directive is in braces."""
GENERATED = {"docs/results.md"}
"""Pages that `make results` writes. Their commands, in blocks without a language, made the rows of the tables."""


@dataclass(frozen=True)
class Block:
    """A fenced block. One with a title, such as `text title="maze.txt"`, is a file that the reader is to save."""

    language: str
    title: str  # empty where there is none
    text: str

    @property
    def commands(self) -> Iterator[list[str]]:
        """The words of every command line, without comments."""
        for line in self.text.splitlines():
            if words := shlex.split(line, comments=True):
                yield words


def blocks_of(page: str) -> list[Block]:
    """All fenced blocks of a page."""
    return [Block(*parts) for parts in _FENCE.findall((ROOT / page).read_text(encoding="utf-8"))]


class PythonBlocks:
    """Blocks of Python that are run one after the other, with the names that earlier ones made."""

    def __init__(self, page: str) -> None:
        self._page, self._module = page, ModuleType("page")
        sys.modules["page"] = self._module  # where classes that a page defines are looked up

    @property
    def names(self) -> dict[str, Any]:
        """What the blocks have defined."""
        return vars(self._module)

    def run(self, text: str) -> None:
        """Run a block."""
        exec(compile(text, self._page, "exec"), self.names)
