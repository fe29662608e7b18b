"""Read texts and labels from files: lines, JSON, CSV, TSV, Parquet; labels also from NumPy."""

from __future__ import annotations

import csv
import gzip
import os
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from isotropy.errors import IsotropyError, format_value, suggest
from isotropy.read.rows import class_keys, require_texts
from isotropy.read.table_text import (
    format_suffix,
    note_quotes,
    open_text,
    read_csv,
    read_header,
    read_json_objects,
)

FORMATS = (".txt", ".jsonl", ".json", ".csv", ".tsv", ".parquet", ".npy", ".npz")
_DAMAGED = (gzip.BadGzipFile, zipfile.BadZipFile, zlib.error, EOFError)


class Column(NamedTuple):
    """A field of a file.

    Attributes:
        path: the file.
        field: name of the field; None: the file's only one, or a default.
        quoting: whether quotation marks enclose fields between tabs.
    """

    path: Path
    field: str | None
    quoting: bool = False

    def __str__(self) -> str:
        return str(self.path) if self.field is None else f"{self.path}:{self.field}"


def parse_column(text: str, *, quoting: bool = False) -> Column:
    """Parse FILE or FILE:FIELD. The name of an existing file may contain a colon.

    Raises:
        IsotropyError: no such file.
    """
    path = Path(text)
    file, mark, field = text.rpartition(":")
    is_path = os.path.exists(text) or not mark
    result = Column(path, None, quoting) if is_path else Column(Path(file), field, quoting)
    if not os.path.isfile(result.path):
        raise IsotropyError(f"{format_value(str(result.path))[1:-1]}: no such file")
    return result


def read_texts(column: Column) -> list[str]:
    """Read the texts of a file; from the field `text`, if none is named and there are several.

    Raises:
        IsotropyError: an unreadable file; as in `require_texts`.
    """
    return require_texts(str(column), read_values(column, default="text"))


def read_labels(column: Column, name: str) -> np.ndarray:
    """Read the labels of a file as an array of texts.

    Raises:
        IsotropyError: an unreadable file, or a missing label.
    """
    return class_keys(str(column), name, read_values(column, default=name))


def note_table(column: Column) -> list[str]:
    """Sentences for the user on how a table as text was read."""
    path, _, quoting = column
    if format_suffix(path) not in (".csv", ".tsv"):
        return []
    separator, _ = read_header(path, quoting=quoting)
    return note_quotes(path, str(path), separator, quoting=quoting)


def read_values(column: Column, default: str) -> list[object]:
    """Read the values of a field; `default` is its name if none is named and there are several."""
    path = column.path
    if not path.stat().st_size:
        raise IsotropyError(f"{path}: the file is empty")
    try:
        match format_suffix(path):
            case ".csv" | ".tsv":
                return _read_csv(column, default)
            case ".jsonl" | ".json" | ".ndjson":
                return _read_json(column, default)
            case ".parquet":
                return _read_parquet(column, default)
            case ".npy" | ".npz":
                return _read_numpy(column, default)
            case ".txt":
                return _read_lines(column)
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise IsotropyError(
            f"{path}: expected UTF-8, got byte {byte:#04x} at {error.start}: save it as UTF-8"
        ) from None
    except _DAMAGED as error:
        raise IsotropyError(f"{path}: it is damaged or incomplete: {error}") from None
    except (ValueError, csv.Error) as error:
        message = str(error) if path.name in str(error) else f"{path.name}: {error}"
        raise IsotropyError(str(path.parent / message)) from None
    got = path.suffix or "no suffix"
    raise IsotropyError(f"{path}: expected one of {', '.join(FORMATS)}, got {got}")


def _read_lines(column: Column) -> list[object]:
    if column.field is not None:
        raise IsotropyError(f"{column.path}: lines of text have no field {column.field!r}")
    with open_text(column.path) as stream:
        lines = stream.read().replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return list(lines[:-1] if lines[-1] == "" else lines)


def _read_csv(column: Column, default: str) -> list[object]:
    _, names = read_header(column.path, quoting=column.quoting)
    field = _choose_field(column, names, default)
    rows = read_csv(column.path, [field], quoting=column.quoting)
    return [row[field] for _, row in rows]


def _read_json(column: Column, default: str) -> list[object]:
    values: list[object] = []
    for place, row in read_json_objects(column.path):
        location = place.removeprefix(column.path.name)
        values.append(row[_choose_field(column, list(row), default, location)])
    return values


def _read_numpy(column: Column, default: str) -> list[object]:
    """An array of shape (n,), alone or by its name among several; never a pickle."""
    path = column.path
    if path.suffix.lower() not in (".npy", ".npz"):
        raise IsotropyError(f"{path}: expected .npy or .npz, not compressed again: unpack it")
    try:
        loaded: Any = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            if column.field is not None:
                raise IsotropyError(f"{path}: one array has no field {column.field!r}")
        else:
            with loaded as arrays:
                loaded = arrays[_choose_field(column, list(arrays), default)]
    except ValueError as error:
        if "pickle" not in str(error) and "Object" not in str(error):
            raise
        raise IsotropyError(
            f"{path}: expected an array of numbers or texts, got Python objects, which are never "
            "unpickled, or no array: save it as with numpy.save(file, labels.astype(str))"
        ) from None
    if loaded.ndim != 1 or loaded.dtype.kind not in "biufSU":
        raise IsotropyError(
            f"{column}: expected numbers or texts of shape (n,), got {loaded.dtype} of shape "
            f"{loaded.shape}"
        )
    return list(loaded.astype(str) if loaded.dtype.kind == "S" else loaded.tolist())


def _read_parquet(column: Column, default: str) -> list[object]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if column.path.suffix.lower() == ".gz":
        raise IsotropyError(f"{column.path}: expected .parquet, not compressed again: unpack it")
    try:
        field = _choose_field(column, pq.read_schema(column.path).names, default)
        values: list[object] = pq.read_table(column.path, columns=[field])[field].to_pylist()
        return values
    except pa.ArrowInvalid as error:
        first_line = str(error).splitlines()[0]
        raise IsotropyError(f"{column.path}: not readable as .parquet: {first_line}") from None


def _choose_field(column: Column, names: Sequence[str], default: str, location: str = "") -> str:
    """The field to read: the named one, else the file's only one, else the default."""
    field = column.field or (names[0] if len(names) == 1 else default)
    if field not in names:
        hint = suggest(field, names, "in the file")
        raise IsotropyError(f"{column.path}{location}: no field {field!r}; {hint}")
    if list(names).count(field) > 1:
        raise IsotropyError(
            f"{column.path}: expected one field {field!r}, got several: rename them"
        )
    return field
