"""Pages as headless Chromium sees them."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH (on Debian: apt install chromium)")

# A copy for the test alone says what a person would notice: pictures that do not show, a page wider than the window.
PROBE = """<script>addEventListener("load", () => {
  const broken = [...document.images].filter(image => !image.naturalWidth).length
  const width = document.documentElement.scrollWidth - document.documentElement.clientWidth
  document.body.append(`broken pictures: ${broken}, too wide by: ${width}`)
})</script>"""


def without_terms(html: str) -> str:
    """A page without the explanations of its terms: only the words as they are read."""
    return re.sub(
        r'<span class="term" tabindex="0">(.*?)<span class="meaning" role="tooltip">.*?</span></span>', r"\1", html
    )


def browse(page: Path, *options: str) -> str:
    """What headless Chromium prints for a page."""
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={page.parent}/home"]
    done = subprocess.run([CHROMIUM, *flags, *options, page.as_uri()], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def seen_in_browser(page: Path, width: int) -> str:
    """The page as the browser has it; every picture shows and nothing is wider than the window."""
    probed = page.with_name("probed.html")
    probed.write_text(page.read_text(encoding="utf-8") + PROBE, encoding="utf-8")
    seen = browse(probed, f"--window-size={width},900", "--dump-dom")
    assert "broken pictures: 0, too wide by: 0" in seen
    return seen
