"""Parquet: one file with an episode column, one file that is one episode, or a folder with one file per episode.

Files written by `scots` keep the dataset's description in the schema metadata, folders keep it in `meta.json`; these
are read strictly. Any other table is read by `foreign`. A column of lists, all of one length, is as many columns.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from scots.core.errors import BadInput, require
from scots.data.choices import Choices
from scots.data.formats.fields import describe
from scots.data.formats.foreign import Table
from scots.data.formats.roles import role_of
from scots.data.formats.tabular import check_header, check_names, columns_of, has_tables, read_tables, write_tables
from scots.data.trajectories import Array, Trajectories

_SUFFIX = ".parquet"
_META = b"scots"


def matches(path: Path) -> bool:
    """Whether this is a .parquet file, or a folder that contains one."""
    return has_tables(path, _SUFFIX)


def read(path: Path, choices: Choices) -> Trajectories:
    """Read a file or a folder of files."""
    return read_tables(path, (_SUFFIX,), read_table, choices)


def write(data: Trajectories, path: Path) -> None:
    """Write one file with an `episode` column, or fill a folder with one file per episode."""
    if path.is_dir():
        write_tables(data, path, _SUFFIX, lambda episode, file: write_table(columns_of(episode), file))
    else:
        episodes = np.repeat(np.arange(len(data)), data.lengths)
        write_table({"episode": episodes, **columns_of(data)}, path, describe(data))


def write_table(columns: dict[str, Array], path: Path, description: str | None = None) -> None:
    """Write one file; an array of rank 2 is a column of lists of one fixed length."""
    arrow, parquet = require("pyarrow", "parquet"), require("pyarrow.parquet", "parquet")
    table = arrow.table({name: _arrow_column(arrow, np.ascontiguousarray(values)) for name, values in columns.items()})
    metadata = {_META: description.encode()} if description else None
    parquet.write_table(table.replace_schema_metadata(metadata), path, write_page_checksum=True)


def _arrow_column(arrow: Any, values: Array) -> Any:
    flat = arrow.array(values.ravel())
    return flat if values.ndim == 1 else arrow.FixedSizeListArray.from_arrays(flat, values.shape[1])


def read_table(path: Path, choices: Choices, own: bool, own_names: Callable[[Any], Any] = lambda table: table) -> Table:
    """Read one file; `own_names` gives the columns of an own file the names that our tables have."""
    parquet = require("pyarrow.parquet", "parquet")
    # Checksums are verified where a file has them.
    with parquet.ParquetFile(path, page_checksum_verification=True) as file:
        check_names(str(path), list(file.schema_arrow.names))
        metadata = (file.schema_arrow.metadata or {}).get(_META)
        table = file.read()
    own = own or metadata is not None
    table = _spread_lists(own_names(table) if own else table)
    names = list(table.column_names)
    (check_header if own else check_names)(str(path), names)
    if own:
        frame = pd.DataFrame({name: _column(path, name, table.column(name)) for name in names})
    else:
        # Identifiers keep their digits beside missing ones; an index of pandas' is a column without a name.
        frame = table.replace_schema_metadata(None).to_pandas(integer_object_nulls=True)
        frame.columns = ["" if name.startswith("__index_level_") else name.strip() for name in names]
    return Table(path, frame, str(path), lambda row: f"row {row}", None if metadata is None else metadata.decode())


def _spread_lists(table: Any) -> Any:
    """The table with every column of lists of one length as that many columns, numbered from 0."""
    arrow, compute = require("pyarrow", "parquet"), require("pyarrow.compute", "parquet")
    columns, names = [], []
    for name, column in zip(table.column_names, table.columns, strict=True):
        lists = arrow.types.is_fixed_size_list(column.type) or arrow.types.is_list(column.type)
        lengths = compute.unique(compute.list_value_length(column)) if lists else []
        size = lengths[0].as_py() if len(lengths) == 1 else None
        columns += [compute.list_element(column, number) for number in range(size)] if size else [column]
        names += [f"{name}_{number}" for number in range(size)] if size else [name]
    return arrow.table(columns, names=names)


def _column(path: Path, name: str, column: Any) -> Array:
    where = f"{path}: column {name!r}"
    if column.null_count:
        row = int(np.flatnonzero(column.is_null().to_numpy())[0])
        raise BadInput(f"{where}: row {row} is empty; fix that row")
    values: Array = column.to_numpy()
    if role_of(name) != "episode" and values.dtype.kind not in "biuf":
        raise BadInput(f"{where}: expected numbers, got {column.type}; convert or drop the column")
    return values
