"""Read point clouds from Parquet files: columns of lists of numbers, or a column per dimension."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from isotropy.errors import IsotropyError, first_line
from isotropy.measurement.inputs import Input, require_matrix
from isotropy.read.clouds import PointCloud, as_floats, rows_per_block
from isotropy.read.columns import (
    Field,
    Kind,
    Table,
    abbreviate,
    choose_dimensions,
    describe_columns,
    find_series,
    shorten,
)
from isotropy.read.number_tables import rows_of_batch

UNNAMED_INDEX = re.compile(r"__index_level_\d+__")
"""What pandas calls the levels of an index without a name."""


def read_parquet(file: Input) -> dict[str, PointCloud]:
    """A cloud per column of lists of numbers, or one cloud of the columns that are dimensions.

    Raises:
        IsotropyError: no Parquet file, or it is unclear which columns are dimensions.
    """
    import pyarrow as pa

    try:
        parquet = _open(file.path)
    except pa.ArrowInvalid as error:
        raise IsotropyError(
            f"{file.title}: not readable as .parquet: {first_line(error)[:200]}"
        ) from None
    table = _describe(file, parquet.schema_arrow)
    lists = [f.name for f in parquet.schema_arrow if _is_list(f.type)]
    if lists and (chosen := _choose_lists(file, table, lists)):
        return {name: _list_cloud(file, parquet, name, len(lists) == 1) for name in chosen}
    names = choose_dimensions(table, file.columns)
    n, d = parquet.metadata.num_rows, len(names)
    require_matrix(file.title, (n, d))
    blocks = partial(_column_blocks, file.path, names)
    cloud = PointCloud(file.title, "", (n, d), partial(_readable, file.title, blocks))
    cloud.columns = abbreviate(names)
    cloud.notes = [describe_columns(table, names)]
    return {"": cloud}


def _open(path: Path) -> Any:
    """Open a Parquet file without read-ahead, so that memory stays bounded."""
    import pyarrow.parquet as pq

    return pq.ParquetFile(path, pre_buffer=False, buffer_size=2**20)


def _describe(file: Input, schema: Any) -> Table:
    """The columns; pandas' own metadata says which are its index."""
    import pyarrow as pa

    fields = []
    for column in schema:
        is_number = any(
            check(column.type)
            for check in (pa.types.is_floating, pa.types.is_integer, pa.types.is_decimal)
        )
        other: Kind = "boolean" if pa.types.is_boolean(column.type) else "other"
        fields.append(Field(column.name, "number" if is_number else other, str(column.type)))
    index = (schema.pandas_metadata or {}).get("index_columns", [])
    excluded = {name for name in index if isinstance(name, str)}
    excluded |= {field.name for field in fields if UNNAMED_INDEX.fullmatch(field.name)}
    return Table(file.title, fields, frozenset(excluded | file.groups))


def _choose_lists(file: Input, table: Table, lists: list[str]) -> list[str]:
    """The columns of lists that are clouds; none: the dimensions are columns of their own.

    Raises:
        IsotropyError: both would be possible, or both are named.
    """
    if file.columns is None:
        lists = [name for name in lists if name not in table.excluded]
        if lists and (series := find_series(table)):
            raise IsotropyError(
                f"{file.title}: there are lists of numbers in {shorten(abbreviate(lists))}, and "
                f"numbers in {shorten(abbreviate(series))}: name the dimensions with --columns"
            )
        return lists
    chosen = [name for name in lists if name in file.columns]
    if chosen and len(chosen) < len(file.columns):
        raise IsotropyError(
            f"{file.title}: --columns: expected columns of lists, or columns of numbers, got both"
        )
    return chosen


def _list_cloud(file: Input, parquet: Any, name: str, single: bool) -> PointCloud:
    first = next(parquet.iter_batches(1, columns=[name]), None)
    width = len(first.column(name)[0].as_py() or []) if first else 0
    n = parquet.metadata.num_rows
    require_matrix(f"{file.title}, {name}", (n, width))
    blocks = partial(_list_blocks, file, name, width)
    layer = "" if single else name
    cloud = PointCloud(file.title, layer, (n, width), partial(_readable, file.title, blocks))
    cloud.columns = name
    cloud.notes = [f"{file.title}: vectors are the lists of column {name}"]
    return cloud


def _is_list(kind: Any) -> bool:
    import pyarrow as pa

    if not isinstance(kind, pa.ListType | pa.LargeListType | pa.FixedSizeListType):
        return False
    return bool(pa.types.is_floating(kind.value_type) or pa.types.is_integer(kind.value_type))


def _readable(title: str, read: Callable[[], Iterator[np.ndarray]]) -> Iterator[np.ndarray]:
    """Blocks of rows; what is damaged further down is an error of the file."""
    import pyarrow as pa

    try:
        yield from read()
    except (pa.ArrowException, OSError) as error:
        raise IsotropyError(
            f"{title}: not readable as .parquet: {first_line(error)[:200]}"
        ) from None


def _column_blocks(path: Path, names: Sequence[str]) -> Iterator[np.ndarray]:
    for batch in _open(path).iter_batches(rows_per_block(len(names)), columns=names):
        yield as_floats(rows_of_batch(batch, names))


def _list_blocks(file: Input, name: str, width: int) -> Iterator[np.ndarray]:
    n_read = 0
    for batch in _open(file.path).iter_batches(rows_per_block(width), columns=[name]):
        column = batch.column(name)
        lengths = np.array([-1 if x is None else x for x in column.value_lengths().to_pylist()])
        if (lengths != width).any():
            row = int((lengths != width).argmax())
            got = "no vector" if lengths[row] < 0 else f"{lengths[row]} numbers"
            raise IsotropyError(
                f"{file.title}, {name}: row {n_read + row + 1}: expected {width} numbers as in "
                f"row 1, got {got}"
            )
        values = column.flatten().to_numpy(zero_copy_only=False)
        yield as_floats(values.reshape(len(batch), width))
        n_read += len(batch)
