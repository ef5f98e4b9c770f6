"""GeoJSON: lines are episodes, with times where their properties hold them; points are rows of a table. Only read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from scots.core.errors import BadInput
from scots.data.choices import Choices
from scots.data.formats.foreign import Table
from scots.data.formats.tabular import has_tables, read_tables
from scots.data.trajectories import Trajectories

_SUFFIX = ".geojson"
_TIMES = ("coordTimes", "times", "timestamps", "time")  # properties with one time per coordinate


def matches(path: Path) -> bool:
    """Whether this is a .geojson or .json file, or a folder with .geojson files."""
    return has_tables(path, _SUFFIX) or (path.is_file() and path.suffix.lower() == ".json")


def read(path: Path, choices: Choices) -> Trajectories:
    """Read a file or a folder of files."""
    return read_tables(path, (_SUFFIX,), _read_table, choices)


def _read_table(path: Path, choices: Choices, own: bool) -> Table:
    content = json.loads(path.read_text(encoding="utf-8-sig"))
    if not isinstance(content, dict) or "type" not in content:
        raise BadInput(f"{path}: no GeoJSON; expected an object with 'type'")
    features = content.get("features", []) if content["type"] == "FeatureCollection" else [content]
    rows = [row for number, feature in enumerate(features) for row in _rows(path, number, feature)]
    if not rows:
        raise BadInput(f"{path}: no LineString, MultiLineString or Point; check the file")
    return Table(path, pd.DataFrame(rows), str(path), lambda row: f"coordinate {row}")


def _rows(path: Path, number: int, feature: Any) -> Iterator[dict[str, Any]]:
    """One row per coordinate of a feature."""
    geometry: dict[str, Any] = feature.get("geometry", feature) or {}
    properties: dict[str, Any] = feature.get("properties") or {}
    coordinates: Any = geometry.get("coordinates")
    if geometry.get("type") == "Point":
        cells = {name: value for name, value in properties.items() if _is_plain(value)}
        yield cells | _place(path, number, coordinates)
    elif geometry.get("type") in ("LineString", "MultiLineString"):
        lines = coordinates if geometry["type"] == "MultiLineString" else [coordinates]
        times = _times(path, number, properties, lines)
        for part, line in enumerate(lines):
            for point, coordinate in enumerate(line):
                time = {"time": times[part][point]} if times else {}
                yield {"episode": f"{number}.{part}"} | time | _place(path, number, coordinate)


def _times(path: Path, number: int, properties: dict[str, Any], lines: list[Any]) -> list[list[Any]]:
    """The time of each coordinate of each line; empty if the feature has none."""
    found = next((properties[name] for name in _TIMES if isinstance(properties.get(name), list)), None)
    if found is None:
        return []
    times = found if found and isinstance(found[0], list) else [found]
    if [len(part) for part in times] != [len(line) for line in lines]:
        raise BadInput(f"{path}: feature {number} has not one time per coordinate; fix or drop its times")
    return times


def _place(path: Path, number: int, coordinate: Any) -> dict[str, float]:
    if not isinstance(coordinate, list) or len(coordinate) < 2 or not all(_is_number(value) for value in coordinate):
        raise BadInput(f"{path}: feature {number} has a coordinate {coordinate!r}; expected longitude and latitude")
    names = ("longitude", "latitude", "elevation")
    return {name: float(value) for name, value in zip(names, coordinate, strict=False)}


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
