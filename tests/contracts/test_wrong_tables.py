"""Tables that cannot be read as they are: the error names the cell or the choice that is wrong."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

import scots
from scots.core.errors import BadInput


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("1,2008-02-02 15:00:08,116.51,39.92\n1,2008-02-02 15:10:08,116.52,39.93\n", "found '1', a value, where names"),
        ("car,2008-02-02,15:00,3\n" * 2, "found '2008-02-02', a value"),
        (
            "0\t0\t0.0\t0.0\n1\t0\t0.5\t0.0\n",
            "found '0', a value, where names of columns are expected: the file has no",
        ),
        ("0,1,0.5\n1,1,0.7\n", "add a first line with 3 names, such as time,x,y"),
        ("# by a logger\n# v2\n0.5,1\n0.7,1\n", "line 3: found '0.5', a value"),
        (
            "t,x,y\ns,m,m\n0,1,1\n1,2,2\n",
            "line 2: column 't': 's' is not a number like the others; delete that row if it",
        ),
        (
            "x,y\nm,m\n1,1\n2,2\n3,3\n",
            "line 2: column 'x': 'm' is not a number; delete that row if it holds units, or use",
        ),
        ("t,x,y\n0,1,1\n1,2,2\noops,3,3\n", "line 4: column 't': 'oops' is not a number like the others; fix that row"),
        ("# units: m\nt,x,y\n0,1,1\n1,oops,2\n2,3,3\n", "line 4: column 'x': 'oops' is not a number; fix that row"),
    ],
)
def test_the_cell_that_is_wrong_is_named(text: str, complaint: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(BadInput) as error:
        scots.load(tmp_path / "a.csv")
    assert complaint in str(error.value)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("# by a logger\n# metres, seconds\nt,x,y\n0,1,1\n1,2,2\n", ("x", "y")),
        ("#t [s],x,y\n0,1,1\n1,2,2\n", ("x", "y")),
        (",0,1\n0,1,1\n1,2,2\n", ("0", "1")),  # as pandas writes columns without names
    ],
)
def test_headers_that_are_unusual_are_headers(text: str, names: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(text)
    data = scots.load(tmp_path / "a.csv")
    assert data.meta.columns == names
    assert data.rows == 2


@pytest.mark.parametrize(
    ("choices", "complaint"),
    [
        ({"state": "time"}, "--state: column 'time' is the time; leave it out there, or add --time none"),
        ({"actions": "run"}, "--actions: column 'run' is the episode"),
        ({"position": "x,x"}, "--position: names column 'x' twice; name it once"),
        ({"position": "0,0"}, "--position 0,0: names a column twice"),
        ({"delimiter": ";"}, "line 1: the cells cannot be told apart by the delimiter ';'"),
    ],
)
def test_choices_that_contradict_the_table_are_refused(choices: dict[str, Any], complaint: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('"run","time","x","y"\n1,0,1,1\n1,1,2,2\n')
    with pytest.raises(BadInput) as error:
        scots.load(tmp_path / "a.csv", **choices)
    assert complaint in str(error.value)


def test_packed_tables_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("trip,time,x,y\n1,0,1,1\n1,1,2,2\n2,0,5,5\n2,1,6,5\n")
    expected = scots.load(tmp_path / "a.csv")
    (tmp_path / "packed").mkdir()
    for file in (tmp_path / "a.csv.gz", tmp_path / "packed" / "a.csv.gz"):
        file.write_bytes(gzip.compress((tmp_path / "a.csv").read_bytes()))
    assert scots.load(tmp_path / "a.csv.gz").equals(expected)
    assert scots.load(tmp_path / "packed").equals(expected)
