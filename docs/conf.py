"""How Sphinx builds the site: `make docs`. It loads nothing from other hosts, so it also opens as files, offline."""

import re
from typing import Any

import scots

project = "scots"
author = "The scots developers"
release = scots.__version__

extensions = [
    "myst_parser",  # pages are Markdown, and read in the repository too
    "sphinx.ext.autodoc",
    "sphinx_copybutton",
    "sphinx_design",
]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
highlight_language = "none"  # of blocks that name none
default_role = "literal"  # docstrings have code in single backticks

autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "undoc-members": True}
autodoc_preserve_defaults = True

html_theme = "furo"
html_title = "scots"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_copyright = False
html_show_sphinx = False
html_copy_source = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#1f4e6b", "color-brand-content": "#2e6f95"},
    "dark_css_variables": {"color-brand-primary": "#8fbcd4", "color-brand-content": "#8fbcd4"},
}


def link_cards(app: Any, name: str, source: list[str]) -> None:
    """Let links to the cards of shipped weights, which lie beside the weights, lead to their pages."""
    source[0] = re.sub(r"\]\((?:\.\./)+src/\S*/assets/([\w-]+)/README\.md\)", r"](/cards/\1.md)", source[0])


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("source-read", link_cards)
