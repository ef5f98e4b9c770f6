"""One HTML page that needs nothing else: no network, no script, pictures inside. For reports that are sent around."""

from __future__ import annotations

import base64
import mimetypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Protocol

from scots.core.errors import BadInput
from scots.core.files import atomic

STYLE = """
:root { color-scheme: light dark; --ink: #1f2933; --soft: #52606d; --paper: #fff; --card: #f3f5f7; --line: #d9dfe5; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e8ec; --soft: #a3b0bd; --paper: #14181d; --card: #1e242b; --line: #38424d; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1rem 3rem; max-width: 62rem; color: var(--ink); background: var(--paper);
  font: 1rem/1.55 system-ui, sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .5rem; }
h2 { font-size: 1.2rem; margin: 2.5rem 0 .75rem; padding-top: 1rem; border-top: 1px solid var(--line); }
p { max-width: 44rem; }
dl, figure, pre, .wide { margin: 1rem 0; }
dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(11rem, 100%), 1fr)); gap: .6rem; }
dl div { padding: .6rem .8rem; background: var(--card); border-radius: .4rem; }
dt, figcaption, caption, .lead { color: var(--soft); }
dt { font-size: .85rem; }
dd { margin: 0; font-weight: 600; font-variant-numeric: tabular-nums; }
figure { padding: .6rem; background: #fff; border: 1px solid var(--line); border-radius: .4rem; }
img { display: block; max-width: 100%; height: auto; margin: 0 auto; }
figcaption { margin-top: .5rem; color: #52606d; font-size: .9rem; }
figcaption b { color: #1f2933; }
.wide, pre { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-size: .9rem; padding-bottom: .4rem; }
th, td { padding: .3rem .9rem .3rem 0; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th { font-weight: 600; }
tr > :first-child { text-align: left; }
tbody th { font-weight: 400; white-space: normal; }
@media (max-width: 40rem) { th, td { padding-right: .5rem; font-size: .85rem; white-space: normal; } }
pre { padding: .8rem; background: var(--card); border-radius: .4rem; font-size: .9rem; }
"""


class Block(Protocol):
    """A part of a section."""

    def html(self) -> str:
        """The part as HTML, with all text escaped."""


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str

    def html(self) -> str:
        """A paragraph."""
        return f"<p>{escape(self.text)}</p>"


@dataclass(frozen=True)
class Facts:
    """Names and values, each pair a card."""

    facts: Mapping[str, object]

    def html(self) -> str:
        """A description list."""
        pairs = ((escape(name), escape(str(value))) for name, value in self.facts.items())
        cards = "\n".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in pairs)
        return f"<dl>\n{cards}\n</dl>"


@dataclass(frozen=True)
class Table:
    """Rows of cells; the first of each says what the row is about. It scrolls by itself where it is too wide."""

    header: Sequence[str]
    rows: Sequence[Sequence[object]]
    caption: str

    def html(self) -> str:
        """A table with headers of columns and of rows."""
        head = "".join(f'<th scope="col">{escape(name)}</th>' for name in self.header)
        body = "\n".join(self._row([escape(str(cell)) for cell in row]) for row in self.rows)
        return (
            f'<div class="wide"><table>\n<caption>{escape(self.caption)}</caption>\n'
            f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table></div>"
        )

    @staticmethod
    def _row(cells: list[str]) -> str:
        return f'<tr><th scope="row">{cells[0]}</th>{"".join(f"<td>{cell}</td>" for cell in cells[1:])}</tr>'


@dataclass(frozen=True)
class Picture:
    """An image file, kept inside the page. The title also stands for it where it is not seen."""

    path: Path
    title: str
    caption: str  # what one sees

    def html(self) -> str:
        """A figure with the image as a data URI. Pictures have a white ground, so the frame is white on any page."""
        try:
            data = base64.b64encode(self.path.read_bytes()).decode()
        except OSError as error:
            raise BadInput(f"{self.path}: cannot read the picture: {error.strerror}") from error
        title, kind = escape(self.title), mimetypes.guess_type(self.path)[0]
        image = f'<img alt="{title}" src="data:{kind};base64,{data}">'
        return f"<figure>\n{image}\n<figcaption><b>{title}.</b> {escape(self.caption)}</figcaption>\n</figure>"


@dataclass(frozen=True)
class Commands:
    """Lines to type into a terminal."""

    lines: Sequence[str]

    def html(self) -> str:
        """Preformatted lines."""
        return f"<pre><code>{escape(chr(10).join(self.lines))}</code></pre>"


@dataclass
class Page:
    """A title, a sentence or two that say what this is, and sections in the order they are added."""

    title: str
    lead: str
    sections: list[tuple[str, tuple[Block, ...]]] = field(default_factory=list)

    def section(self, heading: str, *blocks: Block) -> None:
        """Add a section."""
        self.sections.append((heading, blocks))

    def html(self) -> str:
        """The whole page."""
        sections = "\n".join(
            f"<section>\n<h2>{escape(heading)}</h2>\n{chr(10).join(block.html() for block in blocks)}\n</section>"
            for heading, blocks in self.sections
        )
        return (
            f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{escape(self.title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
            f'<h1>{escape(self.title)}</h1>\n<p class="lead">{escape(self.lead)}</p>\n'
            f"{sections}\n</main>\n</body>\n</html>\n"
        )

    def write(self, path: Path) -> None:
        """Write the page as one file."""
        with atomic(path) as temporary:
            temporary.write_text(self.html(), encoding="utf-8", errors="xmlcharrefreplace")  # names may hold any byte
