"""Read tables of vectors: Parquet, and text with fields between commas, semicolons or tabs.

Dimensions are the columns that the user names (`--columns`); without that, columns of lists, or
columns 0, 1, 2, …, or all columns of a file without names. Everything else is a question to the
user: a score among the dimensions would be a metric of another cloud.
"""

from __future__ import annotations

import fnmatch
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from isotropy.errors import IsotropyError, first_line, suggest
from isotropy.read.clouds import (
    BLOCK_BYTES,
    Input,
    PointCloud,
    StoredArray,
    as_floats,
    choose_arrays,
    cloud_from_file,
    require_matrix,
    rows_per_block,
)
from isotropy.read.table_text import (
    SEPARATORS,
    first_rows,
    format_suffix,
    has_quoting,
    note_quotes,
    require_plain_names,
)

HEAD_ROWS = 1000
"""The rows in which a column of texts is searched for numbers."""
UNNAMED_INDEX = re.compile(r"__index_level_\d+__")
"""What pandas calls the levels of an index without a name."""
NUMBERED = re.compile(r"(.*?)(\d+)(\D*)", re.DOTALL)
"""A name's last number, and what stands before and after it."""
MAX_LISTED = 300
"""Most characters of a list of columns in a message."""


class Field(NamedTuple):
    """A column: its name, what it holds, and the same as the file says it."""

    name: str
    kind: Literal["number", "boolean", "other"]
    type: str


class Table(NamedTuple):
    """What is known of a table before its rows are read.

    Attributes:
        title: the file, for messages.
        fields: all columns, in the order of the file.
        excluded: names of columns that never are dimensions: labels, types, sentences, index.
        named: whether the file names its columns; if not, their names are their positions.
    """

    title: str
    fields: list[Field]
    excluded: frozenset[str]
    named: bool = True


class Columns(NamedTuple):
    """Columns of a Parquet file, or of a frame in memory.

    Attributes:
        schema: that of Arrow.
        n: number of rows.
        batches: yields batches of at most some number of rows, with the named columns.
    """

    schema: Any
    n: int
    batches: Callable[[int, Sequence[str]], Iterator[Any]]


def read_parquet(file: Input) -> dict[str, PointCloud]:
    """The clouds of a Parquet file, as `table_clouds` finds them.

    Raises:
        IsotropyError: no Parquet file, or it is unclear which columns are dimensions.
    """
    import pyarrow as pa

    try:
        parquet = _open_parquet(file.path)
    except pa.ArrowInvalid as error:
        raise IsotropyError(
            f"{file.title}: not readable as .parquet: {first_line(error)[:200]}"
        ) from None
    columns = Columns(
        parquet.schema_arrow, parquet.metadata.num_rows, partial(_parquet_batches, file)
    )
    return table_clouds(file.title, columns, file.columns, file.groups, file.layers)


def frame_columns(x: Any) -> Columns | None:
    """The columns of a frame: of pandas, polars, Arrow, or any that exports Arrow's C stream or the
    dataframe interchange. A column of lists of numbers counts as a frame. None: not a frame.

    Raises:
        IsotropyError: a column that Arrow cannot hold, as one of several types.
    """
    if not any(hasattr(x, f"__{name}__") for name in FRAME_PROTOCOLS):
        return None
    import pyarrow as pa

    try:
        table = _as_arrow(x)
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise IsotropyError(
            f"{type(x).__name__}: {' '.join(map(str, error.args))}: give each column one type, or "
            "leave the column out"
        ) from None
    if table is None:
        return None

    def batches(rows: int, names: Sequence[str]) -> Iterator[Any]:
        return iter(table.select(names).to_batches(max_chunksize=rows))

    return Columns(table.schema, table.num_rows, batches)


FRAME_PROTOCOLS = ("arrow_c_stream", "arrow_c_array", "dataframe")


def _as_arrow(x: Any) -> Any:
    """Return a frame as a table of Arrow, and a column of lists as the only one of a table; None
    for other columns.
    """
    import pyarrow as pa

    if isinstance(x, pa.Array | pa.ChunkedArray) or len(getattr(x, "shape", (0, 0))) == 1:
        column = pa.chunked_array(x if hasattr(x, "__arrow_c_stream__") else [x])
        return pa.table({"vectors": column}) if _is_list(column.type) else None
    if hasattr(x, "iloc"):  # of pandas
        types = {name: t for name, t in x.dtypes.items() if isinstance(t, np.dtype)}
        swapped = {name: t for name, t in types.items() if not t.isnative}
        x = x.astype({n: t.newbyteorder("=") for n, t in swapped.items()}) if swapped else x
    if any(hasattr(x, f"__{name}__") for name in FRAME_PROTOCOLS[:2]):
        return pa.table(x)
    from pyarrow.interchange import from_dataframe

    return from_dataframe(x)


def table_clouds(
    title: str,
    source: Columns,
    columns: Sequence[str] | None,
    groups: frozenset[str],
    layers: Sequence[str] | None,
) -> dict[str, PointCloud]:
    """A cloud per column of lists of numbers, or one cloud of the columns that are dimensions.

    Args:
        title: name of the table in messages.
        source: its columns.
        columns: names or globs of those that are dimensions; None: as `choose_dimensions` says.
        groups: names of those that hold labels, types or sentences.
        layers: names of the columns of lists that are asked for; None: all.

    Raises:
        IsotropyError: it is unclear which columns are dimensions.
    """
    schema = source.schema
    index = {n for n in (schema.pandas_metadata or {}).get("index_columns", []) if type(n) is str}
    index |= {name for name in schema.names if UNNAMED_INDEX.fullmatch(name)}
    table = Table(title, _fields(schema), frozenset(index | groups))
    lists = [field.name for field in schema if _is_list(field.type)]
    if chosen := _choose_lists(table, columns, lists):
        chosen = choose_arrays(title, chosen, layers)
        return {name: _list_cloud(title, source, name, len(lists) == 1) for name in chosen}
    names = choose_dimensions(table, columns)
    shape = source.n, len(names)
    require_matrix(title, shape)
    blocks = partial(_column_blocks, source, names)
    cloud = PointCloud(title, "", shape, partial(_readable, title, blocks))
    return {"": _describe(cloud, table, names)}


def read_number_table(file: Input) -> dict[str, PointCloud]:
    """Convert the dimensions of a table as text once to a binary array, which every pass reads.

    Raises:
        IsotropyError: rows of different lengths, an unclear first line, or unclear dimensions.
    """
    import pyarrow as pa

    separator, names, named = _read_names(file)
    notes = note_quotes(file.path, file.title, separator, quoting=file.quoting)
    open_table = partial(_open_text, file, separator, names, skip=named)
    schema = open_table().schema
    index = {""} if named and names[0] == "" else set[str]()  # as pandas and R write
    table = Table(file.title, _fields(schema), frozenset(file.groups | index), named)
    if file.columns is not None and "*" in file.columns:
        _refuse_broken_numbers(table, open_table().read_next_batch())
    chosen = choose_dimensions(table, file.columns)
    if len(chosen) < 2:
        raise IsotropyError(f"{file.title}: expected at least 2 dimensions, got {len(chosen)}")
    kinds = {field.name: field.kind for field in table.fields}
    types = {n: pa.bool_() if kinds[n] == "boolean" else pa.float64() for n in chosen}
    target, n = file.new_file(), 0
    with target.open("wb") as stream:
        for batch in open_table(types):
            n += len(batch)
            stream.write(_rows(batch, chosen).tobytes())
    stored = StoredArray(target, np.dtype(np.float64), 0, (n, len(chosen)))
    require_matrix(file.title, stored.shape)
    cloud = _describe(cloud_from_file(file.title, "", stored), table, chosen)
    cloud.notes += notes
    return {"": cloud}


def choose_dimensions(table: Table, patterns: Sequence[str] | None) -> list[str]:
    """Names of the columns that are dimensions, in the order of the file.

    Args:
        table: the columns.
        patterns: names or globs; "*" means all columns of numbers. None: columns 0, 1, 2, …

    Raises:
        IsotropyError: two columns with one name, a pattern without a column of numbers, or columns
            of which it is not clear whether they are dimensions.
    """
    counts = Counter(field.name for field in table.fields)
    if repeated := [name for name, n in counts.items() if n > 1]:
        raise IsotropyError(
            f"{table.title}: expected different names of columns, got {repeated[0]!r} "
            f"{counts[repeated[0]]} times: rename them"
        )
    if patterns is not None:
        matched = {name for pattern in patterns for name in _match(table, pattern)}
        return [field.name for field in table.fields if field.name in matched]
    free = [field for field in table.fields if field.name not in table.excluded]
    names = [field.name for field in free]
    is_numeric = all(field.kind != "other" for field in free)
    is_one_kind = table.named or len({field.type for field in free}) == 1
    if names == [str(i) for i in range(len(names))] and is_numeric and is_one_kind:
        return names
    listing = ", ".join(f"{field.name or '(no name)'}: {field.type}" for field in free)
    listing = listing if len(listing) <= MAX_LISTED else f"{listing[:MAX_LISTED]}…"
    raise IsotropyError(
        f"{table.title}: it is not clear which columns are dimensions: name them with --columns "
        f"(globs, as 'dim_*'; '*' is all columns of numbers): there are {listing or 'none'}"
    )


def _match(table: Table, pattern: str) -> list[str]:
    """Columns that a pattern of --columns names."""
    kinds = {field.name: field.kind for field in table.fields}
    if pattern in kinds and pattern in table.excluded:
        raise IsotropyError(
            f"{table.title}: --columns {pattern}: the column holds labels, types, sentences or the "
            "index, and cannot be a dimension"
        )
    free = [name for name in kinds if name not in table.excluded]
    names = [pattern] if pattern in kinds else fnmatch.filter(free, pattern)
    if pattern == "*":
        return [name for name in names if kinds[name] != "other"]
    if not names:
        hint = suggest(pattern, kinds, "in the file")
        raise IsotropyError(f"{table.title}: --columns {pattern}: no such column; {hint}")
    for field in table.fields:
        if field.name in names and field.kind == "other":
            raise IsotropyError(
                f"{table.title}: --columns {pattern}: expected numbers, got column {field.name!r} "
                f"of type {field.type}"
            )
    return names


def _describe(cloud: PointCloud, table: Table, names: Sequence[str]) -> PointCloud:
    """Note which columns are dimensions, and which are not."""
    rest = [field.name for field in table.fields if field.name not in set(names)]
    left_out = f"; left out: {abbreviate(rest)}" if rest else ""
    cloud.columns = abbreviate(names)
    cloud.notes = [f"{table.title}: dimensions are columns {cloud.columns}{left_out}"]
    return cloud


def abbreviate(names: Sequence[str]) -> str:
    """List names; three or more with consecutive numbers are written as the first and the last.

    Examples:
        >>> abbreviate(["x0", "x1", "x2", "x5", "y"])
        'x0…x2, x5, y'
    """
    runs: list[list[str]] = []
    for name in names:
        if runs and _follows(runs[-1][-1], name):
            runs[-1].append(name)
        else:
            runs.append([name])
    return ", ".join(
        f"{run[0]}…{run[-1]}" if len(run) > 2 else ", ".join(name or "(no name)" for name in run)
        for run in runs
    )


def _follows(first: str, second: str) -> bool:
    a, b = NUMBERED.fullmatch(first), NUMBERED.fullmatch(second)
    return bool(a and b and (a[1], a[3]) == (b[1], b[3]) and int(b[2]) == int(a[2]) + 1)


def _fields(schema: Any) -> list[Field]:
    import pyarrow as pa

    numbers = (pa.types.is_floating, pa.types.is_integer, pa.types.is_decimal)
    fields = []
    for field in schema:
        kind: Any = "boolean" if pa.types.is_boolean(field.type) else "other"
        kind = "number" if any(check(field.type) for check in numbers) else kind
        fields.append(Field(field.name, kind, str(field.type)))
    return fields


def _read_names(file: Input) -> tuple[str, list[str], bool]:
    """The separator, the names of the columns, and whether the first line is these names."""
    try:
        separator = file.separator or _separator(file)
        rows = first_rows(file.path, separator, 2, quoting=file.quoting)
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise IsotropyError(f"{file.title}: expected UTF-8, got byte {byte:#04x}") from None
    if len(rows) < 2:
        raise IsotropyError(f"{file.title}: expected at least 2 rows, got one line or none")
    first, second = rows
    require_plain_names(file.title, first)
    numeric = [field for field in first if _is_number(field)]
    if not numeric:
        return separator, first, True
    counted = numeric == [str(i) for i in range(len(numeric))]
    if counted and any("." in field for field in second):
        return separator, first, True  # as pandas writes an array
    if counted or len(numeric) < len(first):
        raise IsotropyError(
            f"{file.title}: line 1 may be names or values ({', '.join(first[:3])}, …): begin the "
            "file with names that are no numbers"
        )
    return separator, [str(i) for i in range(len(first))], False


def _separator(file: Input) -> str:
    """The separator that the suffix .tsv says, or the only one that splits the first line."""
    firsts = {s: first_rows(file.path, s, 1, quoting=file.quoting) for s in SEPARATORS}
    candidates = [s for s, rows in firsts.items() if rows and len(rows[0]) > 1]
    if format_suffix(Path(file.title)) == ".tsv" and "\t" in candidates:
        return "\t"
    if len(candidates) == 1:
        return candidates[0]
    got = "more than one of them in line 1" if candidates else "one column"
    raise IsotropyError(
        f"{file.title}: expected fields between commas, semicolons or tabs, got {got}: name what "
        "stands between them with --separator"
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _refuse_broken_numbers(table: Table, batch: Any) -> None:
    """Refuse a column that '*' would leave out for a few values only."""
    for field in table.fields:
        if field.kind == "other" and field.name not in table.excluded:
            values = [str(value) for value in batch.column(field.name)[:HEAD_ROWS].to_pylist()]
            texts = [value for value in values if not _is_number(value)]
            if len(texts) <= len(values) / 2 or field.type == "null":
                got = repr(texts[0][:40]) if texts else f"values of type {field.type}"
                raise IsotropyError(
                    f"{table.title}: expected numbers in column {field.name!r}, got {got}: correct "
                    "it, or name the dimensions with --columns"
                )


def _open_text(
    file: Input,
    separator: str,
    names: list[str],
    types: dict[str, Any] | None = None,
    *,
    skip: bool,
) -> Any:
    """Open a table as batches; `types` are the columns to read, all others are left out."""
    from pyarrow import csv as arrow_csv

    is_quoted = has_quoting(separator, quoting=file.quoting)
    return arrow_csv.open_csv(
        file.path,
        # A row must fit one block. skip_rows counts lines, and names may hold line breaks
        arrow_csv.ReadOptions(
            block_size=BLOCK_BYTES, column_names=names, skip_rows_after_names=int(skip)
        ),
        arrow_csv.ParseOptions(
            delimiter=separator, quote_char=is_quoted and '"', newlines_in_values=is_quoted
        ),
        arrow_csv.ConvertOptions(column_types=types, include_columns=types and list(types)),
    )


def _rows(batch: Any, names: Sequence[str]) -> np.ndarray:
    """Columns of a batch as rows, shape (rows, names): float32 if all of them are, else float64; a
    missing value is NaN.
    """
    import pyarrow as pa

    types = {batch.column(name).type for name in names}
    kind = pa.float32() if types <= {pa.float32(), pa.float16()} else pa.float64()
    columns = []
    for name in names:
        column = batch.column(name)
        if pa.types.is_boolean(column.type):
            column = column.cast(pa.int8())
        columns.append(column.cast(kind).to_numpy(zero_copy_only=False))
    return np.stack(columns, axis=1)


def _open_parquet(path: Path) -> Any:
    """Open a Parquet file without read-ahead, so that memory stays bounded."""
    import pyarrow.parquet as pq

    return pq.ParquetFile(path, pre_buffer=False, buffer_size=2**20)


def _is_list(kind: Any) -> bool:
    import pyarrow as pa

    if not isinstance(kind, pa.ListType | pa.LargeListType | pa.FixedSizeListType):
        return False
    return bool(pa.types.is_floating(kind.value_type) or pa.types.is_integer(kind.value_type))


def _choose_lists(table: Table, columns: Sequence[str] | None, lists: list[str]) -> list[str]:
    """The columns of lists that are clouds; none: the dimensions are columns of their own.

    Raises:
        IsotropyError: both would be possible, or both are named.
    """
    if columns is not None:
        chosen = [name for name in lists if name in columns]
        if chosen and len(chosen) < len(columns):
            raise IsotropyError(
                f"{table.title}: --columns: expected columns of lists, or columns of numbers, got "
                "both"
            )
        return chosen
    lists = [name for name in lists if name not in table.excluded]
    numbers = [f.name for f in table.fields if f.kind == "number" and f.name not in table.excluded]
    if lists and len(numbers) > 1:
        raise IsotropyError(
            f"{table.title}: there are lists of numbers in {abbreviate(lists)}, and numbers in "
            f"{abbreviate(numbers)[:MAX_LISTED]}: name the dimensions with --columns"
        )
    return lists


def _list_cloud(title: str, source: Columns, name: str, single: bool) -> PointCloud:
    first = next(source.batches(1, [name]), None)
    vector = first.column(name)[0].as_py() if first else []
    if vector is None:
        raise IsotropyError(f"{title}, {name}: row 1: expected numbers, got no vector")
    width = len(vector)
    shape = source.n, width
    require_matrix(f"{title}, {name}", shape)
    blocks = partial(_list_blocks, title, source, name, width)
    cloud = PointCloud(title, "" if single else name, shape, partial(_readable, title, blocks))
    cloud.columns = name
    cloud.notes = [f"{title}: vectors are the lists of column {name}"]
    return cloud


def _readable(title: str, read: Callable[[], Iterator[np.ndarray]]) -> Iterator[np.ndarray]:
    """Blocks of rows; what is damaged further down is an error of the file."""
    import pyarrow as pa

    try:
        yield from read()
    except (pa.ArrowException, OSError) as error:
        raise IsotropyError(
            f"{title}: not readable as .parquet: {first_line(error)[:200]}"
        ) from None


def _parquet_batches(file: Input, rows: int, names: Sequence[str]) -> Iterator[Any]:
    batches: Iterator[Any] = _open_parquet(file.path).iter_batches(rows, columns=list(names))
    return batches


def _column_blocks(source: Columns, names: Sequence[str]) -> Iterator[np.ndarray]:
    for batch in source.batches(rows_per_block(len(names)), names):
        yield as_floats(_rows(batch, names))


def _list_blocks(title: str, source: Columns, name: str, width: int) -> Iterator[np.ndarray]:
    n_read = 0
    for batch in source.batches(rows_per_block(width), [name]):
        column = batch.column(name)
        lengths = np.array([-1 if x is None else x for x in column.value_lengths().to_pylist()])
        if (lengths != width).any():
            row = int((lengths != width).argmax())
            got = "no vector" if lengths[row] < 0 else f"{lengths[row]} numbers"
            raise IsotropyError(
                f"{title}, {name}: row {n_read + row + 1}: expected {width} numbers as in "
                f"row 1, got {got}"
            )
        values = column.flatten().to_numpy(zero_copy_only=False)
        yield as_floats(values.reshape(len(batch), width))
        n_read += len(batch)
