"""CSV: one file with an episode column, one file that is one episode, or a folder with one file per episode.

Files written by `scots` start with a line `# meta: {...}`, folders keep the same JSON in `meta.json`; these are read
strictly. Any other table is read by `foreign`. The cells are parsed by pandas, after a pass over the rows: pandas would
fill up a short one.
"""

from __future__ import annotations

import csv
import gzip
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import pandas as pd

from scots.core.errors import BadInput
from scots.data.choices import Choices
from scots.data.formats.fields import describe
from scots.data.formats.foreign import Table
from scots.data.formats.roles import identifiers, role_of
from scots.data.formats.tabular import check_header, check_names, columns_of, has_tables, read_tables, write_tables
from scots.data.formats.timestamps import is_instant
from scots.data.trajectories import Trajectories

_SUFFIX = ".csv"
_FOLDER = (_SUFFIX, ".tsv", ".csv.gz", ".tsv.gz")
_READ = (*_FOLDER, ".txt", ".txt.gz")
_META = "# meta: "
_FORMATS = {"f4": "%.9g", "f8": "%.17g", "i8": "%d", "u1": "%d"}  # by the kind and bytes of a number; all lossless
_DELIMITERS = (",", ";", "\t", "|")
_COMMENTS = 100  # lines that may stand before the header and begin with #
_SNIFFED = 20  # rows that a delimiter must split into as many cells as the header
_EXAMPLES = {2: "x,y", 3: "time,x,y", 4: "episode,time,x,y"}  # of a header for a file without one
_MISSING = ["", "-", "--", "NA", "N/A", "n/a", "NaN", "nan", "None", "none", "NULL", "null", "\\N", "#N/A", "<NA>"]


def matches(path: Path) -> bool:
    """Whether this is a text file of a table, or a folder that contains one."""
    return has_tables(path, *(_FOLDER if path.is_dir() else _READ))


def read(path: Path, choices: Choices) -> Trajectories:
    """Read a file or a folder of files."""
    return read_tables(path, _FOLDER, _read_table, choices)


def write(data: Trajectories, path: Path) -> None:
    """Write one file with an `episode` column, or fill a folder with one file per episode."""
    if path.is_dir():
        write_tables(data, path, _SUFFIX, _write_episode)
        return
    with path.open("w", newline="", encoding="utf-8") as file:
        file.write(f"{_META}{describe(data)}\n")
        _write_all(file, data)


def write_geographic(data: Trajectories, path: Path) -> None:
    """Write one file for other programs: no description, and the position as latitude and longitude."""
    with path.open("w", newline="", encoding="utf-8") as file:
        _write_all(file, data, geographic=True)


def _write_all(file: TextIO, data: Trajectories, geographic: bool = False) -> None:
    _write_header(file, ["episode", *columns_of(data, geographic)])
    for number, episode in enumerate(data.episodes()):
        _write_rows(file, episode, f"{number},", geographic)


def _write_episode(episode: Trajectories, path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        _write_header(file, list(columns_of(episode)))
        _write_rows(file, episode, "")


def _write_header(file: TextIO, names: list[str]) -> None:
    csv.writer(file, lineterminator="\n").writerow(names)


def _write_rows(file: TextIO, episode: Trajectories, prefix: str, geographic: bool = False) -> None:
    columns = list(columns_of(episode, geographic).values())
    line = prefix + ",".join(_FORMATS[values.dtype.str[1:]] for values in columns) + "\n"
    file.writelines(line % row for row in zip(*(values.tolist() for values in columns), strict=True))


# ----------------------------------------------------------------------------------------------------------- reading


class _Text:
    """A file as text: its meta line, the lines before its header, its delimiter, and its rows with their numbers."""

    def __init__(self, path: Path, delimiter: str | None) -> None:
        self.path = path
        with self._open() as file:
            lines = list(itertools.islice(file, _COMMENTS + _SNIFFED + 1))
        own = bool(lines) and lines[0].startswith(_META)
        self.description = lines[0].removeprefix(_META) if own else None
        self.skipped = 1 if own else _comments(lines)
        sample = lines[self.skipped : self.skipped + _SNIFFED + 1]
        self.delimiter = "," if own else _sniffed(sample) if delimiter is None else _character(delimiter)

    def _open(self) -> TextIO:
        options: dict[str, Any] = {"mode": "rt", "newline": "", "encoding": "utf-8-sig"}
        return gzip.open(self.path, **options) if self.path.suffix.lower() == ".gz" else self.path.open(**options)

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Rows that are not blank with the number of their last line, the header first."""
        with self._open() as file:
            for _ in range(self.skipped):
                file.readline()
            lines = csv.reader(file, delimiter=self.delimiter, skipinitialspace=True, strict=True)
            try:
                for row in lines:
                    if len(row) > 1 or "".join(row).strip():
                        yield lines.line_num + self.skipped, row
            except csv.Error as error:
                problem = f"the cells cannot be told apart by the delimiter {self.delimiter!r} ({error})"
                remedy = "choose another --delimiter, or fix the quotes of that row"
                raise BadInput(f"{self.path}: line {lines.line_num + self.skipped}: {problem}; {remedy}") from error

    def frame(self, header_line: int, names: list[str], **options: Any) -> Any:
        """The cells below the header, parsed by pandas, under column numbers: names need not be unique."""
        with self._open() as file:
            for _ in range(header_line):
                file.readline()
            numbers = range(len(names))
            common = {"sep": self.delimiter, "header": None, "names": numbers, "skipinitialspace": True}
            return pd.read_csv(file, **common, index_col=False, keep_default_na=False, low_memory=False, **options)


def _comments(lines: list[str]) -> int:
    """How many lines before the header begin with #; the last of them is the header itself if it fits what follows.

    It fits rows of values with as many cells, and a file without rows.
    """
    count = next((number for number, line in enumerate(lines) if not line.startswith("#")), len(lines))
    if not count:
        return 0
    below = lines[count] if count < len(lines) else ""
    has_values = any(map(_is_value, re.split(r"[,;\t|]", below)))
    as_many = all(lines[count - 1].count(character) == below.count(character) for character in _DELIMITERS)
    return count - 1 if not below.strip() or (has_values and as_many) else count


def _sniffed(sample: list[str]) -> str:
    """The delimiter that gives most cells, as many in every row as in the header if there is one like that."""

    def cells(delimiter: str) -> tuple[bool, int]:
        counts = [len(row) for row in csv.reader(sample, delimiter=delimiter, skipinitialspace=True) if row]
        return len(set(counts[:-1])) == 1 and counts[0] > 1, counts[0] if counts else 0

    return max(_DELIMITERS, key=cells)


def _character(delimiter: str) -> str:
    character = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "space": " "}.get(delimiter, delimiter)
    if len(character) != 1:
        raise BadInput(f"--delimiter {delimiter!r}: expected one character, or tab")
    return character


def _read_table(path: Path, choices: Choices, own: bool) -> Table:
    try:
        return _parse_table(path, choices, own)
    except UnicodeDecodeError as error:
        encoding = "utf-16" if path.read_bytes()[:2] in (b"\xff\xfe", b"\xfe\xff") else "latin1"
        remedy = f"convert it first, for example: iconv -f {encoding} -t utf-8 {path.name} > utf8.csv"
        raise BadInput(f"{path}: is not text in UTF-8; {remedy}") from error


def _parse_table(path: Path, choices: Choices, own: bool) -> Table:
    text = _Text(path, "," if own else choices.delimiter)
    own = own or text.description is not None
    rows = text.rows()
    line, header = next(rows, (1 + text.skipped, []))
    header = header if own else [name.strip() for name in header]
    where = f"{path}: line {line}"
    if not header:
        raise BadInput(f"{where}: no observation columns; the file is empty")
    if not own:
        _check_is_header(where, header)
    (check_header if own else check_names)(where, header)
    count = 0
    for number, row in rows:
        count += 1
        if len(row) != len(header):
            raise BadInput(f"{path}: line {number}: found {len(row)} cells, expected {len(header)}; fix that row")
    frame = _strict_frame(text, line, header) if own else _lenient_frame(text, line, header, choices)
    if len(frame) != count:
        raise BadInput(f"{path}: {count} rows are found as text and {len(frame)} as a table; look for stray quotes")
    frame.columns = header
    return Table(path, frame, where, lambda row: _line(text, row), text.description, text.delimiter != ",")


def _check_is_header(where: str, header: list[str]) -> None:
    """Refuse a first row of values; pandas numbers columns without names 0, 1, 2, ..."""
    numbers = [name for name in header if _is_number(name)]
    is_counted = numbers == list(map(str, range(len(numbers)))) and len(numbers) < len(header)
    if values := [name for name in header if is_instant(name) or (not is_counted and _is_number(name))]:
        raise BadInput(
            f"{where}: found {values[0]!r}, a value, where names of columns are expected: the file has no header; "
            f"add a first line with {len(header)} names, such as {_EXAMPLES.get(len(header), 'episode,time,x,y,...')}; "
            "degrees are called latitude and longitude"
        )


def _line(text: _Text, row: int) -> str:
    return f"line {next(itertools.islice(text.rows(), row + 1, None))[0]}"


def _lenient_frame(text: _Text, line: int, header: list[str], choices: Choices) -> Any:
    """Cells as numbers where a whole column is numbers or missing, otherwise as text."""
    ids = {header.index(name): "str" for name in identifiers(header, choices)}
    return text.frame(line, header, na_values=_MISSING, dtype=ids)


def _strict_frame(text: _Text, line: int, header: list[str]) -> Any:
    """Cells as the numbers they were written from, none of them missing."""
    kinds = {n: np.int64 if role_of(name) == "source" else np.float64 for n, name in enumerate(header)}
    ids = [n for n, name in enumerate(header) if role_of(name) == "episode"]
    for number in ids:
        del kinds[number]
    try:
        frame = text.frame(line, header, na_values=[""], dtype=kinds)
        complete = not frame.isna().any(axis=None)
    except ValueError:
        complete = False
    if not complete:
        raise _bad_cell(text, line, header, set(ids))
    return frame


def _bad_cell(text: _Text, line: int, header: list[str], ids: set[int]) -> BadInput:
    """The error for the first cell of an own table that is not a number."""
    cells = text.frame(line, header, na_filter=False, dtype="str")
    bad = np.stack([cells[n] == "" if n in ids else pd.to_numeric(cells[n], errors="coerce").isna() for n in cells], 1)
    places = np.argwhere(bad)
    if not len(places):
        return BadInput(f"{text.path}: a cell is too large a number; write the file again")
    row, column = places[0]
    cell = cells.iloc[row, column]
    problem = f"{cell!r} is not a number" if cell.strip() else "the cell is empty"
    return BadInput(f"{text.path}: {_line(text, row)}: column {header[column]!r}: {problem}; fix that row")


def _is_value(cell: str) -> bool:
    """Whether a cell is a number or an instant, and so no name of a column."""
    return _is_number(cell) or is_instant(cell)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
