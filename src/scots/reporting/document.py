"""Documents as data: sections of blocks, each of which renders itself as plain text, Markdown and HTML.

The HTML page needs nothing else: no network, pictures inside, one small script that zooms them. It can be sent around
as one file. Words of the glossary say what they mean where a pointer, a finger or the keyboard is on them.
"""

from __future__ import annotations

import base64
import mimetypes
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from pathlib import Path
from typing import Literal, Protocol

from scots.core.errors import BadInput
from scots.core.files import atomic
from scots.reporting.glossary import explain_terms, glossary_html

_TEXT_WIDTH, _MARKDOWN_WIDTH = 100, 120  # columns at which paragraphs are wrapped


class Block(Protocol):
    """A part of a section."""

    def text(self) -> str:
        """Plain text for a terminal."""

    def markdown(self) -> str:
        """Markdown."""

    def html(self) -> str:
        """HTML, with all text escaped."""


@dataclass(frozen=True)
class Paragraph:
    """Prose. Words in `backticks` are code."""

    words: str

    def text(self) -> str:
        """Wrapped lines."""
        return _wrapped(self.words, _TEXT_WIDTH)

    def markdown(self) -> str:
        """Wrapped lines."""
        return _wrapped(self.words.replace("<", "\\<"), _MARKDOWN_WIDTH)

    def html(self) -> str:
        """A paragraph."""
        return f"<p>{_html_prose(self.words)}</p>"


@dataclass(frozen=True)
class Facts:
    """Names and values."""

    facts: Mapping[str, object]

    def text(self) -> str:
        """A line for each, values below each other."""
        width = max(map(len, self.facts), default=0)
        return "\n".join(f"{name:<{width}}  {value}" for name, value in self.facts.items())

    def markdown(self) -> str:
        """A list."""
        return "\n".join(f"- {_markdown_line(name)}: {_markdown_line(value)}" for name, value in self.facts.items())

    def html(self) -> str:
        """A description list, each pair a card."""
        pairs = ((escape(name), escape(str(value))) for name, value in self.facts.items())
        cards = "\n".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in pairs)
        return f"<dl>\n{cards}\n</dl>"


@dataclass(frozen=True)
class Strong:
    """A table cell that begins with words that stand out."""

    words: str
    rest: str = ""  # plain words after them

    def __str__(self) -> str:
        return f"{self.words} {self.rest}".rstrip()


@dataclass(frozen=True)
class TableBlock:
    """Rows of cells; the first cell of a row names it."""

    header: Sequence[str]
    rows: Sequence[Sequence[object]]  # each cell is a `Strong` or anything with a `str`
    caption: str = ""

    def text(self) -> str:
        """Aligned columns: names to the left, values to the right."""
        lines = [[str(cell) for cell in row] for row in (self.header, *self.rows)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        aligned = ("  ".join(_aligned(line, widths)).rstrip() for line in lines)
        return "\n".join([*([Paragraph(self.caption).text()] if self.caption else []), *aligned])

    def markdown(self) -> str:
        """A pipe table, under its caption."""
        rows = ["| " + " | ".join(map(_markdown_cell, row)) + " |" for row in (self.header, *self.rows)]
        table = "\n".join([rows[0], "|" + "---|" * len(self.header), *rows[1:]])
        return f"{Paragraph(self.caption).markdown()}\n\n{table}" if self.caption else table

    def html(self) -> str:
        """A table with headers of columns and of rows; cells name their column, for windows too narrow for columns."""
        caption = f"<caption>{_html_prose(self.caption)}</caption>\n" if self.caption else ""
        head = "".join(f'<th scope="col">{escape(name)}</th>' for name in self.header)
        body = "\n".join(self._html_row([_html_cell(cell) for cell in row]) for row in self.rows)
        return f"<table>\n{caption}<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"

    def _html_row(self, cells: list[str]) -> str:
        columns = zip(self.header[1:], cells[1:], strict=True)
        rest = "".join(f'<td data-column="{escape(column)}">{cell}</td>' for column, cell in columns)
        return f'<tr><th scope="row">{cells[0]}</th>{rest}</tr>'


@dataclass(frozen=True)
class Picture:
    """An image file. The title also stands for it where it is not seen."""

    path: Path
    title: str
    caption: str  # what to look for

    def text(self) -> str:
        """Where it is."""
        return f"{self.title}: {self.path}"

    def markdown(self) -> str:
        """A link to the file, which must lie where the document expects it."""
        return f"![{_markdown_line(self.title)}](<{self.path.as_posix()}>)\n\n{Paragraph(self.caption).markdown()}"

    def html(self) -> str:
        """A figure with the image as a data URI, which zooms. Pictures are white, so the frame is, on any page."""
        try:
            data = base64.b64encode(self.path.read_bytes()).decode()
        except OSError as error:
            raise BadInput(f"{self.path}: cannot read the picture: {error.strerror}") from error
        title, kind = escape(self.title), mimetypes.guess_type(self.path)[0]
        image = f'<button type="button" class="zoom"><img alt="{title}" src="data:{kind};base64,{data}"></button>'
        return f"<figure>\n{image}\n<figcaption><b>{title}.</b> {_html_prose(self.caption)}</figcaption>\n</figure>"


@dataclass(frozen=True)
class Commands:
    """Lines to type into a terminal."""

    lines: Sequence[str]

    def text(self) -> str:
        """Indented lines."""
        return textwrap.indent("\n".join(self.lines), "  ")

    def markdown(self) -> str:
        """A fenced block."""
        return "\n".join(["```", *self.lines, "```"])

    def html(self) -> str:
        """Preformatted lines."""
        return f"<pre><code>{escape(chr(10).join(self.lines))}</code></pre>"


@dataclass(frozen=True)
class Finding:
    """What it all comes to, in a few words that stand out, and why."""

    tone: Literal["good", "caution", "bad"]
    words: str
    reasons: Sequence[str]

    def text(self) -> str:
        """The words, and a line for each reason."""
        return "\n".join([self.words, *(f"- {reason}" for reason in self.reasons)])

    def markdown(self) -> str:
        """Strong words and a list."""
        return "\n".join(
            [f"**{_markdown_line(self.words)}**", "", *(f"- {_markdown_line(own)}" for own in self.reasons)]
        )

    def html(self) -> str:
        """A box with an edge of the tone's colour."""
        reasons = "".join(f"<li>{escape(reason)}</li>" for reason in self.reasons)
        return f'<div class="verdict {self.tone}"><p>{escape(self.words)}</p><ul>{reasons}</ul></div>'


@dataclass(frozen=True)
class Section:
    """A heading and the blocks below it. A section without blocks is left out."""

    heading: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Document:
    """A title, a sentence or two that say what this is, and sections."""

    title: str
    lead: str
    sections: Sequence[Section]

    @property
    def _filled(self) -> list[Section]:
        return [section for section in self.sections if section.blocks]

    def text(self) -> str:
        """Plain text for a terminal; the arrow is spelled with characters that every terminal has."""
        parts = [_underlined(self.title, "="), Paragraph(self.lead).text()]
        for section in self._filled:
            parts += ["", _underlined(section.heading, "-"), *(block.text() for block in section.blocks)]
        return _writable("\n".join(parts).replace("→", "->"))

    def markdown(self) -> str:
        """Markdown, blocks separated by empty lines."""
        parts = [f"# {_markdown_line(self.title)}", Paragraph(self.lead).markdown()]
        for section in self._filled:
            parts += [f"## {_markdown_line(section.heading)}", *(block.markdown() for block in section.blocks)]
        return _writable("\n\n".join(parts) + "\n")

    def html(self) -> str:
        """A whole page: sections, whose terms are explained, and a list of these."""
        sections, terms = [], set[str]()
        for section in self._filled:
            blocks, found = explain_terms("\n".join(block.html() for block in section.blocks))
            terms |= found
            sections.append(f"<section>\n<h2>{escape(section.heading)}</h2>\n{blocks}\n</section>")
        return (
            f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{escape(self.title)}</title>\n<style>\n{_page_file('style.css')}</style>\n</head>\n<body>\n<main>\n"
            f'<h1>{escape(self.title)}</h1>\n<p class="lead">{_html_prose(self.lead)}</p>\n'
            f"{chr(10).join(sections)}\n{glossary_html(terms)}</main>\n"
            f"<script>\n{_page_file('zoom.js')}</script>\n</body>\n</html>\n"
        )

    def write_html(self, path: Path) -> None:
        """Write the page as one file."""
        with atomic(path) as temporary:
            temporary.write_text(self.html(), encoding="utf-8", errors="xmlcharrefreplace")  # names may hold any byte


# -------------------------------------------------------------------------------------------------------------- words


def short_number(value: float) -> str:
    """Two significant digits, with an exponent as short as people write it: 140, 0.0035, 1.7e-5."""
    return f"{value:.0f}" if value >= 100 else re.sub("e-0+", "e-", f"{value:.2g}")


def _page_file(name: str) -> str:
    return (resources.files("scots.reporting") / "page" / name).read_text(encoding="utf-8")


def _wrapped(words: str, width: int) -> str:
    return textwrap.fill(" ".join(words.split()), width, break_long_words=False, break_on_hyphens=False)


def _underlined(words: str, line: str) -> str:
    return f"{words}\n{line * len(words)}"


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [f"{cells[0]:<{widths[0]}}", *(f"{cell:>{n}}" for cell, n in zip(cells[1:], widths[1:], strict=True))]


def _writable(words: str) -> str:
    """File names may hold bytes that are no UTF-8, which reach Python as half a surrogate pair: spell them out."""
    return words.encode("utf-8", "backslashreplace").decode()


def _markdown_line(words: object) -> str:
    """Words on one line in which nothing is read as HTML or ends a table cell."""
    return " ".join(str(words).split()).replace("<", "\\<").replace("|", "\\|")


def _markdown_cell(cell: object) -> str:
    if isinstance(cell, Strong):
        return f"**{_markdown_line(cell.words)}** {_markdown_line(cell.rest)}".rstrip()
    return _markdown_line(cell)


def _html_cell(cell: object) -> str:
    if isinstance(cell, Strong):
        return f"<b>{escape(cell.words)}</b> {escape(cell.rest)}".rstrip()
    return escape(str(cell))


def _html_prose(words: str) -> str:
    """Escaped words, with code where there are backticks."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", escape(words))
