"""GPX: one episode per track segment, with its times, elevations and whatever else each point has. Only read."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pandas as pd

from scots.core.errors import BadInput
from scots.data.choices import Choices
from scots.data.formats.foreign import Table
from scots.data.formats.tabular import has_tables, read_tables
from scots.data.trajectories import Trajectories

_SUFFIX = ".gpx"


class _Builder(ElementTree.TreeBuilder):
    """Builds the tree of a file without a DOCTYPE: that is where entities are defined that blow up or read files."""

    def doctype(self, name: str, public: str, system: str) -> None:
        raise BadInput("the file has a DOCTYPE, which GPX does not need; remove it")


def matches(path: Path) -> bool:
    """Whether this is a .gpx file, or a folder that contains one."""
    return has_tables(path, _SUFFIX)


def read(path: Path, choices: Choices) -> Trajectories:
    """Read a file or a folder of files."""
    return read_tables(path, (_SUFFIX,), _read_table, choices)


def _read_table(path: Path, choices: Choices, own: bool) -> Table:
    with path.open("rb") as file:
        root = ElementTree.parse(file, ElementTree.XMLParser(target=_Builder())).getroot()
    parts = [part for part in root.iter() if _tag(part) in ("trkseg", "rte")]
    rows = [
        _row(number, point) for number, part in enumerate(parts) for point in part if _tag(point) in ("trkpt", "rtept")
    ]
    if not rows:
        raise BadInput(f"{path}: no track points; the root is <{_tag(root)}>")
    return Table(path, pd.DataFrame(rows), str(path), lambda row: f"point {row}")


def _row(number: int, point: Any) -> dict[str, Any]:
    """The cells of a point: its place, and its children with numbers or text, also those inside extensions."""
    cells = {"episode": number, "latitude": _number(point.get("lat")), "longitude": _number(point.get("lon"))}
    children = {_tag(child): child.text.strip() for child in point.iter() if child.text and child.text.strip()}
    return cells | {name: _number(text) for name, text in children.items() if name not in cells}


def _number(text: str | None) -> Any:
    try:
        return None if text is None else float(text)
    except ValueError:
        return text


def _tag(element: Any) -> str:
    return str(element.tag).rpartition("}")[2]
