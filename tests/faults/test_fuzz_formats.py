"""Fuzzing: reading a damaged file either fails with a one-line error or returns a complete dataset."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import dataset

from scots.core.errors import BadInput
from scots.data import formats
from scots.data.formats import FORMATS
from scots.data.trajectories import Trajectories

FUZZ_CASES = 600  # damaged files per layout

# One file and one folder layout per format, if it has both.
LAYOUTS = list({(name, not suffix): (name, suffix) for name, f in FORMATS.items() for suffix in f.suffixes}.values())
TEXT = (".csv", ".json")
CHECKSUMMED = (".npz", ".h5", ".hdf5")  # a damaged file with one of these suffixes must never read as other numbers
TOKENS = [
    b"",
    b"nan",
    b"-inf",
    b"1e999",
    b"word",
    b"-",
    b"\0",
    b'"',
    b"\xc3",
    b"1,2",
    b"\n",
    b"null",
    b"[]",
    b"{}",
    b"-1",
]


@st.composite
def damaged(draw: st.DrawFn, content: bytes, text: bool) -> bytes:
    """The content after one to three random edits."""
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, max(0, len(content) - 1)))
        end = start + draw(st.integers(1, 64))
        kind = draw(st.sampled_from(["flip", "delete", "insert", "truncate", "zero", *(["token"] * 3 if text else [])]))
        if kind == "flip":
            flipped = bytes(byte ^ draw(st.integers(1, 255)) for byte in content[start : start + 1])
            content = content[:start] + flipped + content[start + 1 :]
        elif kind == "delete":
            content = content[:start] + content[end:]
        elif kind == "insert":
            content = content[:start] + draw(st.binary(min_size=1, max_size=16)) + content[start:]
        elif kind == "truncate":
            content = content[:start]
        elif kind == "zero":
            content = content[:start] + bytes(len(content[start:end])) + content[end:]
        else:
            content = replace_token(content, start, draw(st.sampled_from(TOKENS)))
    return content


def replace_token(content: bytes, start: int, token: bytes) -> bytes:
    """Replace the first cell, name or number at or after a byte."""
    match = re.compile(rb"[^,:\n{}\[\] ]+").search(content, start)
    return content if match is None else content[: match.start()] + token + content[match.end() :]


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: f"{layout[0]}{layout[1] or '-folder'}")
def test_damaged_file_is_refused_or_read_completely(layout: tuple[str, str], tmp_path: Path) -> None:
    name, suffix = layout
    path = tmp_path / f"data{suffix}"
    data = dataset((7, 4, 12))
    formats.write(data, path, name)
    files = sorted(item for item in path.rglob("*") if item.is_file()) if path.is_dir() else [path]
    contents = {file: file.read_bytes() for file in files}
    outcomes: Counter[str] = Counter()

    @settings(max_examples=FUZZ_CASES)
    @given(draw=st.data())
    def damage(draw: st.DataObject) -> None:
        file = draw.draw(st.sampled_from(files))
        file.write_bytes(draw.draw(damaged(contents[file], file.suffix in TEXT)))
        try:
            read = formats.read(path)
        except BadInput as error:
            outcomes["refused"] += 1
            assert_one_line(str(error), path)
        else:
            outcomes["read"] += 1
            assert_complete(read)
            if file.suffix in CHECKSUMMED:
                np.testing.assert_array_equal(read.observations, data.observations)
        finally:
            file.write_bytes(contents[file])

    damage()
    assert outcomes.total() >= FUZZ_CASES
    assert outcomes["refused"] > 0
    assert formats.read(path).equals(data)


ROWS = range(8)
FOREIGN = {
    "a.csv": "\ufefftrip_id;time;latitude;longitude;bearing;note\n"
    + "".join(f"{n % 2};2024-03-01 10:00:0{n};48,{n + 100};11,{n + 100};{45 * n or ''};a\n" for n in ROWS),
    "b.csv": "id,Date,Time,x,y,yaw\n" + "".join(f"{n % 2},{n + 10}/03/2024,10:00:00,{n},1.5,0.{n}\n" for n in ROWS),
    "a.gpx": "<gpx><trk><trkseg>"
    + "".join(f'<trkpt lat="48.{n}" lon="11.{n}"><time>2024-03-01T10:00:0{n}Z</time></trkpt>\n' for n in ROWS)
    + "</trkseg></trk></gpx>",
    "a.geojson": json.dumps(
        {
            "type": "Feature",
            "properties": {"times": list(ROWS)},
            "geometry": {"type": "LineString", "coordinates": [[11 + n / 100, 48 + n / 100, n] for n in ROWS]},
        }
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FOREIGN)
def test_damaged_table_from_elsewhere_is_refused_or_read_completely(name: str, tmp_path: Path) -> None:
    path, content = tmp_path / name, FOREIGN[name].encode()
    path.write_bytes(content)
    assert formats.read(path).rows == len(ROWS)
    outcomes: Counter[str] = Counter()

    @settings(max_examples=FUZZ_CASES)
    @given(draw=st.data())
    def damage(draw: st.DataObject) -> None:
        path.write_bytes(draw.draw(damaged(content, text=True)))
        try:
            read = formats.read(path)
        except BadInput as error:
            outcomes["refused"] += 1
            assert_one_line(str(error), path)
        else:
            outcomes["read"] += 1
            assert_complete(read)

    damage()
    assert min(outcomes["refused"], outcomes["read"]) > 0


def assert_one_line(message: str, path: Path) -> None:
    assert message.startswith(str(path))
    assert "\n" not in message


def assert_complete(data: Trajectories) -> None:
    assert data.lengths.min() > 0
    for _, values in data.arrays():
        assert len(values) == data.lengths.sum()
        assert np.isfinite(values).all()
