"""The site as `make docs` builds it: no warnings, no broken links, nothing from other hosts, all public names."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest
from browser import needs_browser, seen_in_browser
from bs4 import BeautifulSoup, Tag
from pages import ROOT
from PIL import Image

import scots
from scots.agents import AGENTS
from scots.augmenters import AUGMENTERS
from scots.planners import PLANNERS

MODEL_PAGES = sorted(page for kind in ("augmenters", "planners", "agents") for page in ROOT.glob(f"docs/{kind}/*.md"))


# ----------------------------------------------------------------------------------------------------- the built site


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site; any warning of Sphinx, such as a link to a heading that is not there, fails."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "docs", str(folder)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, BeautifulSoup]:
    """Every built page."""
    return {
        path: BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser") for path in sorted(site.rglob("*.html"))
    }


def links_of(page: BeautifulSoup) -> list[str]:
    tags: list[Tag] = page.find_all(["a", "img", "link", "script"])
    return [str(link) for tag in tags if (link := tag.get("href") or tag.get("src"))]


@pytest.mark.slow
def test_every_link_leads_somewhere(site: Path, pages: dict[Path, BeautifulSoup]):
    for path, page in pages.items():
        for link in links_of(page):
            if re.match(r"\w+:", link):
                continue
            name, anchor = urldefrag(link.split("?")[0])
            target = (path.parent / unquote(name)).resolve() if name else path
            assert target.exists(), f"{path.relative_to(site)}: {link}"
            if anchor and target in pages:
                assert pages[target].find(id=unquote(anchor)), f"{path.relative_to(site)}: {link}"


@pytest.mark.slow
def test_nothing_is_loaded_from_other_hosts(site: Path, pages: dict[Path, BeautifulSoup]):
    for path, page in pages.items():
        loaded = [tag.get("href") or tag.get("src") for tag in page.find_all(["img", "link", "script", "iframe"])]
        assert not [link for link in loaded if link and re.match(r"(https?:)?//", str(link))], path
    for style in site.rglob("*.css"):
        assert not re.search(r"(@import|url\()\s*['\"]?(https?:)?//", style.read_text(encoding="utf-8")), style


@pytest.mark.slow
def test_every_public_name_has_an_entry(pages: dict[Path, BeautifulSoup]):
    entries = {str(tag["id"]) for page in pages.values() for tag in page.find_all(["dt", "span"], id=True)}
    assert {f"scots.{name}" for name in scots.__all__} <= entries


@pytest.mark.slow
@needs_browser
@pytest.mark.parametrize(("page", "width"), [("index.html", 400), ("index.html", 1200), ("results.html", 400)])
def test_a_page_fits_its_window(site: Path, page: str, width: int):
    seen_in_browser(site / page, width)


# -------------------------------------------------------------------------------------------------------- the sources


def test_the_readme_links_to_files_that_exist():
    for link in re.findall(r"\]\(([^)#]+)", (ROOT / "README.md").read_text()):
        assert (ROOT / link).exists(), link


def test_every_registered_model_is_on_a_page():
    for kind, registry in {"augmenters": AUGMENTERS, "planners": PLANNERS, "agents": AGENTS}.items():
        overview = (ROOT / f"docs/{kind}/README.md").read_text().lower()
        for name in registry:
            assert re.search(rf"\[[^\]]*\b{name}\b[^\]]*\]\([\w-]+\.md\)", overview), f"{name} is not in docs/{kind}"


def test_model_pages_have_their_parts():
    for page in MODEL_PAGES:
        if page.parent.name != "agents" and page.name not in ("README.md", "shortest-path.md"):
            headings = re.findall(r"^## (.*)$", page.read_text(), re.MULTILINE)
            assert {"Losses and steps", "Settings", "Differences", "Results and checks"} <= set(headings), page


def definitions() -> set[str]:
    """Functions, classes and methods of the package as pages name them: `walk`, `stitching.walk`, `Stitcher.loss`."""
    found: set[str] = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                found |= {node.name, f"{path.stem}.{node.name}", path.name}
            if isinstance(node, ast.ClassDef):
                found |= {f"{node.name}.{below.name}" for below in node.body if isinstance(below, ast.FunctionDef)}
    return found


def test_functions_that_model_pages_name_exist():
    known, named = definitions(), 0
    for page in MODEL_PAGES:
        for header, table in re.findall(
            r"^(\|.*function.*\|)\n\|[-|]+\|\n((?:\|.*\n)+)", page.read_text(), re.MULTILINE
        ):
            column = [cell.strip() for cell in header.split("|")].index("function")
            for row in table.splitlines():
                for name in re.findall(r"`([\w.]+)`", row.split("|")[column]):
                    assert name in known, f"{page.name}: {name}"
                    named += 1
    assert named > 40


def test_the_moving_picture_is_small_and_moves():
    path = ROOT / "docs/images/scots.gif"
    assert path.stat().st_size < 2_000_000
    with Image.open(path) as picture:
        assert getattr(picture, "n_frames", 1) > 60
