"""CSV: one file with an `episode` column, one file that is one episode, or a folder with one file per episode.

Files written by `scots` start with a line `# meta: {...}`; folders keep the same JSON in `meta.json`.
"""

from __future__ import annotations

import csv
from array import array
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from scots.core.errors import BadInput
from scots.data.formats.fields import describe
from scots.data.formats.tabular import Table, check_header, columns_of, has_tables, read_tables, role_of, write_tables
from scots.data.trajectories import Trajectories

_SUFFIX = ".csv"
_META = "# meta: "
_FORMATS = {"f4": "%.9g", "f8": "%.17g", "i8": "%d", "u1": "%d"}  # by the kind and bytes of a number; all lossless


def matches(path: Path) -> bool:
    """Whether this is a .csv file, or a folder that contains one."""
    return has_tables(path, _SUFFIX)


def read(path: Path) -> Trajectories:
    """Read a file or a folder of files; column names decide what each column is."""
    return read_tables(path, _SUFFIX, _read_table)


def write(data: Trajectories, path: Path) -> None:
    """Write one file with an `episode` column, or fill a folder with one file per episode."""
    if path.is_dir():
        write_tables(data, path, _SUFFIX, _write_episode)
        return
    with path.open("w", newline="", encoding="utf-8") as file:
        file.write(f"{_META}{describe(data)}\n")
        _write_header(file, ["episode", *columns_of(data)])
        for number, episode in enumerate(data.episodes()):
            _write_rows(file, episode, f"{number},")


def _write_episode(episode: Trajectories, path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        _write_header(file, list(columns_of(episode)))
        _write_rows(file, episode, "")


def _write_header(file: TextIO, names: list[str]) -> None:
    csv.writer(file, lineterminator="\n").writerow(names)


def _write_rows(file: TextIO, episode: Trajectories, prefix: str) -> None:
    columns = list(columns_of(episode).values())
    line = prefix + ",".join(_FORMATS[values.dtype.str[1:]] for values in columns) + "\n"
    file.writelines(line % row for row in zip(*(values.tolist() for values in columns), strict=True))


def _read_table(path: Path) -> Table:
    with path.open(newline="", encoding="utf-8-sig") as file:
        first = file.readline()
        has_meta = first.startswith(_META)
        lines = csv.reader(file if has_meta else chain([first], file), strict=True)
        header = next(lines, [])
        where = f"{path}: line {1 + has_meta}"
        check_header(where, header)
        if all(_is_number(name) for name in header):
            raise BadInput(f"{where}: found numbers, expected column names; add a header line")
        episode = next((column for column, name in enumerate(header) if role_of(name) == "episode"), None)
        ids: list[str] = []
        cells = array("d")
        for line, row in _rows(path, header, lines, has_meta):
            if episode is not None:
                ids.append(row.pop(episode).strip())
            try:
                cells.extend(map(float, row))
            except ValueError as error:
                names = [name for column, name in enumerate(header) if column != episode]
                name, cell = next((name, cell) for name, cell in zip(names, row, strict=True) if not _is_number(cell))
                problem = f"{cell!r} is not a number" if cell.strip() else "the cell is empty"
                raise BadInput(f"{path}: line {line}: column {name!r}: {problem}; fix that row") from error
    numbers = np.frombuffer(cells, dtype=np.float64).reshape(-1, len(header) - (episode is not None))
    columns = list(numbers.T)
    if episode is not None:
        columns.insert(episode, np.array(ids, dtype=object))
    return Table(path, dict(zip(header, columns, strict=True)), first.removeprefix(_META) if has_meta else None)


def _rows(path: Path, header: list[str], lines: Any, has_meta: bool) -> Iterator[tuple[int, list[str]]]:
    """Rows that are not blank, with their line numbers."""
    for row in lines:
        line = lines.line_num + has_meta
        if row and len(row) != len(header):
            raise BadInput(f"{path}: line {line}: found {len(row)} cells, expected {len(header)}; fix that row")
        if row:
            yield line, row


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
