"""Read tables of numbers as text: fields separated by commas, semicolons or tabs, with or without a
line of names. What cannot be told from the first rows is asked of the user.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from isotropy.errors import IsotropyError
from isotropy.measurement.inputs import Input, require_matrix
from isotropy.read.clouds import BLOCK_BYTES, PointCloud, StoredArray, cloud_from_file
from isotropy.read.columns import (
    Field,
    Kind,
    Table,
    abbreviate,
    choose_dimensions,
    describe_columns,
)
from isotropy.read.table_text import MAX_FIELD, SEPARATORS

HEAD_CHARACTERS, HEAD_ROWS = 2**24, 1000
"""The beginning of a file by which the layout of all rows is decided."""
NUMBER = r"\s*[+-]?(\d+({0}\d*)?|{0}\d+)([eE][+-]?\d+)?\s*"
MISSING = re.compile(r"\s*(nan|na|n/a|null|none|#n/a|[+-]?inf(inity)?)?\s*", re.IGNORECASE)


class Layout(NamedTuple):
    """How a table is read.

    Attributes:
        separator: the character between fields.
        decimal: the decimal mark, a point or a comma.
        names: of the columns; their positions, from 0, if the file does not name them.
        has_header: whether the first row is the names.
        sample: the first rows of values.
    """

    separator: str
    decimal: str
    names: list[str]
    has_header: bool
    sample: list[list[str]]

    def is_number(self, text: str) -> bool:
        """Whether a field is a finite number."""
        return re.fullmatch(NUMBER.format(re.escape(self.decimal)), text) is not None

    def is_whole(self, position: int) -> bool:
        """Whether all numbers in a column of the sample are whole, as those of classes are."""
        values = [row[position] for row in self.sample if self.is_number(row[position])]
        return all(float(value.replace(self.decimal, ".")).is_integer() for value in values)


def read_number_table(file: Input) -> dict[str, PointCloud]:
    """Convert the dimensions of a table once to a binary array, which every pass reads.

    Raises:
        IsotropyError: rows of different lengths, an unclear layout, or unclear dimensions.
    """
    layout = find_layout(file.path, file.title)
    _require_closed_quotes(file, layout.separator)
    table = _describe(file, layout)
    names = choose_dimensions(table, file.columns)
    if len(names) < 2:
        raise IsotropyError(f"{file.title}: expected at least 2 dimensions, got {len(names)}")
    stored = _convert(file, layout, table, names)
    require_matrix(file.title, stored.shape)
    cloud = cloud_from_file(file.title, "", stored)
    cloud.columns = abbreviate(names)
    cloud.notes = [describe_columns(table, names)]
    return {"": cloud}


def find_layout(path: Path, title: str) -> Layout:
    """Find the layout of a table in its first rows.

    Raises:
        IsotropyError: no rows, rows of different lengths, or a first row that may be names as well
            as values.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            head = stream.read(HEAD_CHARACTERS)
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise IsotropyError(f"{title}: expected UTF-8, got byte {byte:#04x}") from None
    separator, rows = _split(title, head)
    first, *sample = rows
    if not sample:
        raise IsotropyError(f"{title}: expected at least 2 rows, got one line")
    layout = Layout(separator, _decimal_mark(title, separator, rows), first, True, sample)
    if _has_header(title, layout):
        return layout._replace(names=[name.strip() for name in first])
    positions = [str(i) for i in range(len(first))]
    return layout._replace(names=positions, has_header=False, sample=rows)


def _split(title: str, head: str) -> tuple[str, list[list[str]]]:
    """The separator, and the first rows. Decimal commas stand beside semicolons or tabs, so that
    these are tried first.
    """
    tried = []
    for separator in SEPARATORS:
        rows = _rows(title, head, separator)
        if not rows:
            raise IsotropyError(f"{title}: the file has only blank lines")
        if len(rows[0]) > 1:
            tried.append(rows)
            if {len(row) for row in rows} == {len(rows[0])}:
                return separator, rows
    if not tried:
        raise IsotropyError(
            f"{title}: expected columns separated by commas, semicolons or tabs, got one column"
        )
    expected = len(tried[-1][0])
    number, wrong = next((i, r) for i, r in enumerate(tried[-1], 1) if len(r) != expected)
    raise IsotropyError(
        f"{title}: row {number}: expected {expected} fields as in row 1, got {len(wrong)}"
    )


def _rows(title: str, head: str, separator: str) -> list[list[str]]:
    csv.field_size_limit(MAX_FIELD)
    reader = csv.reader(io.StringIO(head, newline=""), delimiter=separator)
    rows = [row for row in islice(reader, HEAD_ROWS) if row]
    if len(head) == HEAD_CHARACTERS and len(rows) < HEAD_ROWS:
        rows = rows[:-1]  # cut off
        if not rows:
            raise IsotropyError(f"{title}: row 1 has more than {HEAD_CHARACTERS} characters")
    return rows


def _require_closed_quotes(file: Input, separator: str) -> None:
    """Refuse quotation marks that are not closed: all up to the next one would be one field, and
    rows would be lost. Files without quotation marks are not parsed for it.
    """
    with file.path.open("rb") as stream:
        if not any(b'"' in chunk for chunk in iter(partial(stream.read, 2**20), b"")):
            return
    with file.path.open(encoding="utf8", errors="replace", newline="") as text:
        reader = csv.reader(text, delimiter=separator, strict=True)
        try:
            for _ in reader:
                pass
        except csv.Error as error:
            raise IsotropyError(
                f"{file.title}, line {reader.line_num}: expected quotation marks around whole "
                f"fields ({error}): double or remove them; word vectors may be named .vec"
            ) from None


def _decimal_mark(title: str, separator: str, rows: list[list[str]]) -> str:
    if separator == ",":
        return "."
    fields = [field for row in rows for field in row]
    found = [
        mark
        for mark in ".,"
        if any(mark in f and re.fullmatch(NUMBER.format(re.escape(mark)), f) for f in fields)
    ]
    if len(found) > 1:
        raise IsotropyError(f"{title}: numbers have decimal points and decimal commas: use one")
    return found[0] if found else "."


def _has_header(title: str, layout: Layout) -> bool:
    """Whether the first row is the names of columns: texts above numbers, or 0, 1, 2, … above
    numbers with decimals, as pandas writes an array.
    """
    first, sample = layout.names, layout.sample
    numeric = [i for i, field in enumerate(first) if layout.is_number(field)]
    numbers = [first[i].strip() for i in numeric]
    if not numbers:
        return True
    if not all(number.isdecimal() for number in numbers):
        return False
    if any(
        _is_text(layout, field) and all(layout.is_number(row[i]) for row in sample)
        for i, field in enumerate(first)
    ):
        return True
    values = [row[i] for row in sample for i in numeric if layout.is_number(row[i])]
    n_whole = sum(value.strip().lstrip("-").isdecimal() for value in values)
    is_counted = any(numbers == [str(begin + i) for i in range(len(numbers))] for begin in (0, 1))
    if is_counted and n_whole < len(values):
        return True
    if is_counted or (n_whole == 0 and len(set(numbers)) == len(numbers) > 1):
        raise IsotropyError(
            f"{title}: row 1 may be names or values ({', '.join(numbers[:3])}, …): begin the file "
            "with names that are no numbers"
        )
    return False


def _is_text(layout: Layout, field: str) -> bool:
    return not layout.is_number(field) and MISSING.fullmatch(field) is None


def _describe(file: Input, layout: Layout) -> Table:
    """The columns with their types, by the file's first block.

    Raises:
        IsotropyError: a column without any value, or one of numbers with a few texts.
    """
    import pyarrow as pa

    index = {""} if layout.has_header and layout.names[0] == "" else set()  # as pandas and R write
    excluded = file.groups | index
    fields = []
    for position, column in enumerate(_open(file.path, layout).schema):
        name = layout.names[position]
        kind: Kind = "other"
        if pa.types.is_floating(column.type) or pa.types.is_integer(column.type):
            kind = "number"
        elif pa.types.is_boolean(column.type):
            kind = "boolean"
        elif name not in excluded and (file.columns is None or "*" in file.columns):
            _refuse_broken_numbers(file.title, layout, position, str(column.type))
        is_whole = not layout.has_header and layout.is_whole(position)
        fields.append(Field(name, kind, "whole numbers" if is_whole else str(column.type)))
    return Table(file.title, fields, frozenset(excluded), layout.has_header)


def _refuse_broken_numbers(title: str, layout: Layout, position: int, kind: str) -> None:
    """Refuse a column that would be left out for a few values only."""
    name = layout.names[position]
    if kind == "null" and name:
        raise IsotropyError(
            f"{title}: column {name!r} has no values: remove it, or name the dimensions with "
            "--columns"
        )
    values = [row[position] for row in layout.sample]
    texts = [i for i, value in enumerate(values) if _is_text(layout, value)]
    if any(map(layout.is_number, values)) and len(texts) <= len(values) / 2:
        got = f"{values[texts[0]][:40]!r}" if texts else f"values of type {kind}"
        raise IsotropyError(
            f"{title}: expected numbers in column {name!r}, got {got}: correct it, or name the "
            "dimensions with --columns"
        )


def _open(path: Path, layout: Layout, types: dict[str, Any] | None = None) -> Any:
    """Open a table as batches; `types` are the columns to read, all others are left out."""
    from pyarrow import csv as arrow_csv

    return arrow_csv.open_csv(
        path,
        # A row must fit one block. skip_rows counts lines, and names may hold line breaks
        arrow_csv.ReadOptions(
            block_size=BLOCK_BYTES,
            column_names=layout.names,
            skip_rows_after_names=int(layout.has_header),
        ),
        arrow_csv.ParseOptions(delimiter=layout.separator, newlines_in_values=True),
        arrow_csv.ConvertOptions(
            decimal_point=layout.decimal, column_types=types, include_columns=types and list(types)
        ),
    )


def _convert(file: Input, layout: Layout, table: Table, names: Sequence[str]) -> StoredArray:
    """Write the columns as rows of float64."""
    import pyarrow as pa

    kinds = {field.name: field.kind for field in table.fields}
    types = {name: pa.bool_() if kinds[name] == "boolean" else pa.float64() for name in names}
    target, n = file.new_file(), 0
    with target.open("wb") as stream:
        for batch in _open(file.path, layout, types):
            n += len(batch)
            stream.write(rows_of_batch(batch, names).tobytes())
    return StoredArray(target, np.dtype(np.float64), 0, (n, len(names)))


def rows_of_batch(batch: Any, names: Sequence[str]) -> np.ndarray:
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
