"""A document says the same as text, Markdown and HTML.

The page is one well-formed file that needs nothing else, shows hostile text as text, and opens in a browser.
"""

import base64
import struct
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from browser import browse, needs_browser, seen_in_browser
from devtools import chromium

from scots.core.errors import BadInput
from scots.reporting.document import (
    Commands,
    Document,
    Facts,
    Finding,
    Paragraph,
    Picture,
    Section,
    Strong,
    TableBlock,
)
from scots.reporting.glossary import GLOSSARY

HOSTILE = "</style></title><script src='http://evil.example/x.js'>alert(1)</script>&amp;\" onload=\"x"
EMPTY = {"meta", "img", "link", "br", "hr", "input"}  # elements without an end tag


class Reader(HTMLParser):
    """Collects elements and text; every element must be closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def read(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    reader.close()
    assert reader.open == []
    return reader


def draw_png(path: Path) -> Path:
    from matplotlib.image import imsave

    imsave(path, np.linspace(0, 1, 12000).reshape(100, 120))
    return path


def full_document(folder: Path, words: str) -> Document:
    """Every kind of block, with these words wherever text can be."""
    picture = draw_png(folder / "picture.png")
    table = TableBlock(("name", words), [("row", words), (words, 1.5), ("strong", Strong(words, words))], words)
    sections = [
        Section(words, [Finding("bad", words, [words]), Paragraph(words), Facts({words: words, "number": 3})]),
        Section("Second", [table]),
        Section("Third", [Picture(picture, words, words), Commands([words, "scots doctor"])]),
        Section("Empty", []),
    ]
    return Document(words, words, sections)


def test_the_page_is_well_formed_and_needs_nothing_else(tmp_path: Path):
    page = full_document(tmp_path, "words")
    page.write_html(tmp_path / "page.html")
    reader = read((tmp_path / "page.html").read_text(encoding="utf-8"))
    tags = [tag for tag, _ in reader.elements]
    assert tags[:3] == ["html", "head", "meta"]
    assert [tags.count(tag) for tag in ("h1", "h2", "section", "figure", "table", "dl", "pre")] == [1, 3, 3, 1, 1, 1, 1]
    assert not {"link", "iframe", "a"} & set(tags)
    assert [attrs for tag, attrs in reader.elements if tag == "script"] == [{}]  # inside, and nowhere else
    addresses = [value for _, attrs in reader.elements for name, value in attrs.items() if name in ("src", "href")]
    [address] = addresses
    kind, data = address.split(",")
    assert kind == "data:image/png;base64"
    assert base64.b64decode(data) == (tmp_path / "picture.png").read_bytes()
    style = page.html().split("<style>")[1].split("</style>")[0]
    assert "url(" not in style
    assert "@import" not in style
    assert next(attrs["alt"] for tag, attrs in reader.elements if tag == "img") == "words"


def test_hostile_text_is_shown_as_text(tmp_path: Path):
    plain, hostile = (read(full_document(tmp_path, words).html()) for words in ("words", HOSTILE))
    assert [tag for tag, _ in plain.elements] == [tag for tag, _ in hostile.elements]
    assert [sorted(attrs) for _, attrs in plain.elements] == [sorted(attrs) for _, attrs in hostile.elements]
    assert "".join(hostile.texts).count(HOSTILE) == "".join(plain.texts).count("words") == 18


def test_text_is_aligned_and_wrapped():
    sections = [
        Section("Facts", [Facts({"a": 1, "longer": "2 → 3"})]),
        Section(
            "Table", [TableBlock(("", "first", "second"), [("row", 1, Strong("22", "(3)")), ("x", "", "y")], "All")]
        ),
        Section("Next", [Paragraph("word " * 30), Commands(["scots doctor"])]),
        Section("Empty", []),
    ]
    assert Document("Title", "Lead.", sections).text().splitlines() == [
        "Title",
        "=====",
        "Lead.",
        "",
        "Facts",
        "-----",
        "a       1",
        "longer  2 -> 3",
        "",
        "Table",
        "-----",
        "All",
        "     first  second",
        "row      1  22 (3)",
        "x                y",
        "",
        "Next",
        "----",
        " ".join(["word"] * 20),
        " ".join(["word"] * 10),
        "  scots doctor",
    ]


def test_markdown_is_read_back_as_what_was_meant(tmp_path: Path):
    """A table stays a table whatever its cells hold, and HTML in them stays text."""
    from markdown_it import MarkdownIt

    reader = MarkdownIt().enable("table")
    for words, shown in (("words", "words"), (f"a | b\n{HOSTILE}", "a | b")):
        html = reader.render(full_document(tmp_path, words).markdown())
        counts = {tag: html.count(f"<{tag}>") for tag in ("h1", "h2", "tr", "td", "strong", "ul", "pre")}
        assert counts == {"h1": 1, "h2": 3, "tr": 4, "td": 6, "strong": 2, "ul": 2, "pre": 1}
        assert "<script" not in html
        assert f"<td>{shown}" in html
    assert Paragraph("the `code` <b>").html() == "<p>the <code>code</code> &lt;b&gt;</p>"


def test_any_file_name_can_be_written(tmp_path: Path):
    """A name with a byte that is no UTF-8 reaches Python as half a surrogate pair."""
    document = Document("a\udcff.npz → b", "", [])
    document.write_html(tmp_path / "page.html")
    assert "→ b" in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert document.text().encode("ascii").startswith(b"a\\udcff.npz -> b\n")
    assert document.markdown().encode("utf-8").decode().startswith("# a\\udcff.npz → b\n")


def test_a_missing_picture_is_named(tmp_path: Path):
    page = Document("title", "lead", [Section("heading", [Picture(tmp_path / "none.png", "title", "caption")])])
    with pytest.raises(BadInput, match=r"none\.png: cannot read the picture"):
        page.write_html(tmp_path / "page.html")
    assert list(tmp_path.iterdir()) == []


def test_terms_are_explained_once_in_every_section_and_listed_at_the_end():
    words = "Joins, held-out states and joins again; `join`, subjoin, refinement<b>"
    html = Document(
        "join", "join", [Section("join", [Paragraph(words)]), Section("Second", [Facts({"joins": 1})])]
    ).html()
    reader = read(html)
    terms = [attrs for tag, attrs in reader.elements if attrs.get("class") == "term"]
    assert terms == [{"class": "term", "tabindex": "0"}] * 4  # joins, held-out, refinement; joins in the second section
    assert "<h2>join</h2>" in html  # headings and code stay as they are
    assert "<code>join</code>" in html
    assert "refinement<span" in html
    assert html.count(GLOSSARY["join"]) == 3  # twice where it stands, once in the list
    assert html.index("<details>") > html.rindex('class="term"')
    assert "<details>" not in Document("join", "", [Section("First", [Paragraph("nothing to explain")])]).html()


@pytest.mark.parametrize("term", GLOSSARY)
def test_every_meaning_is_a_sentence_that_needs_no_markup(term: str):
    assert GLOSSARY[term].endswith(".")
    assert not set("<>&") & set(GLOSSARY[term])


@needs_browser
@pytest.mark.slow
@pytest.mark.parametrize("width", [400, 1200])
def test_a_browser_shows_it_on_phones_and_desktops(tmp_path: Path, width: int):
    words = f"{HOSTILE} {'unbreakable' * 20}"
    full_document(tmp_path, words).write_html(tmp_path / "page.html")
    seen = seen_in_browser(tmp_path / "page.html", width)
    assert [f"<h2>{heading}</h2>" in seen for heading in ("Second", "Third")] == [True, True]
    browse(tmp_path / "page.html", f"--window-size={width},900", f"--screenshot={tmp_path / 'shot.png'}")
    header = (tmp_path / "shot.png").read_bytes()[:24]
    assert struct.unpack(">II", header[16:]) == (width, 900)


def many_words(folder: Path) -> Path:
    """A page with a wide table, a long command, a term and a picture."""
    table = TableBlock(
        ("measure", *(f"column {n}" for n in range(9))), [("joins", *range(1_000_000, 1_000_009))], "Wide"
    )
    blocks = [
        table,
        Commands(["scots augment " + "x" * 300]),
        Picture(draw_png(folder / "p.png"), "A picture", "Words"),
    ]
    Document("Title", "Lead.", [Section("Section", blocks)]).write_html(folder / "page.html")
    return folder / "page.html"


@needs_browser
@pytest.mark.slow
def test_a_person_reads_it_on_a_phone_and_by_keyboard(tmp_path: Path):
    """Nothing scrolls sideways, terms explain themselves when touched or focused, pictures zoom, and Escape closes."""
    with chromium(tmp_path / "home") as tab:
        tab.open(many_words(tmp_path).as_uri(), 400, touch=True)
        assert tab.sideways() == 0
        wide = (
            "[...document.querySelectorAll('*')].filter(e => e.scrollWidth > e.clientWidth + 1 && e.clientWidth).length"
        )
        assert tab.value(wide) == 0
        shown = "getComputedStyle(document.querySelector('.meaning')).visibility"
        assert tab.value(shown) == "hidden"
        tab.tap(*tab.middle(".term"))
        tab.wait(f"{shown} === 'visible'")
        tab.open((tmp_path / "page.html").as_uri(), 1200)
        tab.press("Tab")
        tab.wait(f"{shown} === 'visible'")
        tab.press("Tab")
        tab.press("Enter")
        tab.wait("document.querySelector('dialog').open && document.querySelector('dialog img').style.transform")
        width = "document.querySelector('dialog img').getBoundingClientRect().width"
        before = tab.value(width)
        tab.press("+")
        assert tab.value(width) == pytest.approx(1.25 * before, rel=0.01)
        left = "document.querySelector('dialog img').getBoundingClientRect().x"
        at = tab.value(left)
        tab.drag((600, 400), (650, 400))
        assert tab.value(left) == pytest.approx(at + 50, abs=1)
        tab.press("Escape")
        tab.wait("!document.querySelector('dialog').open")
        assert tab.complaints == []
