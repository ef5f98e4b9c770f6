"""The page is one well-formed file that needs nothing else, shows hostile text as text, and opens in a browser."""

import base64
import struct
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from browser import browse, needs_browser, seen_in_browser

from scots.core.errors import BadInput
from scots.reporting.page import Commands, Facts, Page, Picture, Table, Text

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


def full_page(folder: Path, words: str) -> Page:
    """Every kind of block, with these words wherever text can be."""
    picture = draw_png(folder / "picture.png")
    page = Page(words, words)
    page.section(words, Text(words), Facts({words: words, "number": 3}))
    page.section("Second", Table(("name", words), [("row", words), (words, 1.5)], words))
    page.section("Third", Picture(picture, words, words), Commands([words, "scots doctor"]))
    return page


def test_the_page_is_well_formed_and_needs_nothing_else(tmp_path: Path):
    page = full_page(tmp_path, "words")
    page.write(tmp_path / "page.html")
    reader = read((tmp_path / "page.html").read_text(encoding="utf-8"))
    tags = [tag for tag, _ in reader.elements]
    assert tags[:3] == ["html", "head", "meta"]
    assert [tags.count(tag) for tag in ("h1", "h2", "section", "figure", "table", "dl", "pre")] == [1, 3, 3, 1, 1, 1, 1]
    assert not {"script", "link", "iframe", "a"} & set(tags)
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
    plain, hostile = (read(full_page(tmp_path, words).html()) for words in ("words", HOSTILE))
    assert [tag for tag, _ in plain.elements] == [tag for tag, _ in hostile.elements]
    assert [sorted(attrs) for _, attrs in plain.elements] == [sorted(attrs) for _, attrs in hostile.elements]
    assert "".join(hostile.texts).count(HOSTILE) == "".join(plain.texts).count("words") == 14


def test_any_file_name_can_be_written(tmp_path: Path):
    """A name with a byte that is no UTF-8 reaches Python as half a surrogate pair."""
    Page("a\udcff.npz → b", "").write(tmp_path / "page.html")
    assert "→ b" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_missing_picture_is_named(tmp_path: Path):
    page = Page("title", "lead")
    page.section("heading", Picture(tmp_path / "none.png", "title", "caption"))
    with pytest.raises(BadInput, match=r"none\.png: cannot read the picture"):
        page.write(tmp_path / "page.html")
    assert list(tmp_path.iterdir()) == []


@needs_browser
@pytest.mark.parametrize("width", [400, 1200])
def test_a_browser_shows_it_on_phones_and_desktops(tmp_path: Path, width: int):
    words = f"{HOSTILE} {'unbreakable' * 20}"
    full_page(tmp_path, words).write(tmp_path / "page.html")
    seen = seen_in_browser(tmp_path / "page.html", width)
    assert [f"<h2>{heading}</h2>" in seen for heading in ("Second", "Third")] == [True, True]
    browse(tmp_path / "page.html", f"--window-size={width},900", f"--screenshot={tmp_path / 'shot.png'}")
    header = (tmp_path / "shot.png").read_bytes()[:24]
    assert struct.unpack(">II", header[16:]) == (width, 900)
