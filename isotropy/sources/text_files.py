"""Texts and labels of files: lines, JSON lines, CSV, Parquet."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from isotropy.errors import IsotropyError, shown, suggest
from isotropy.sources.table_text import read_csv

FORMATS = (".txt", ".jsonl", ".csv", ".parquet")


class Column(NamedTuple):
    """A file, and the field of it that is meant; None: its only one."""

    path: Path
    field: str | None

    def __str__(self) -> str:
        return str(self.path) if self.field is None else f"{self.path}:{self.field}"


def column(text: str) -> Column:
    """What the user means by FILE or FILE:FIELD. A file whose name has a colon is found, too.

    Raises:
        IsotropyError: no such file.
    """
    path = Path(text)
    file, mark, field = text.rpartition(":")
    whole = path.exists() or not mark
    found = Column(path, None) if whole else Column(Path(file), field)
    if not found.path.is_file():
        raise IsotropyError(f"{found.path}: no such file")
    return found


def read_texts(wanted: Column) -> list[str]:
    """The texts of a file; the field `text` if none is named and there are several.

    Raises:
        IsotropyError: not readable, a text that is empty or no text, or fewer than two.
    """
    texts = read_values(wanted, default="text")
    for number, text in enumerate(texts, start=1):
        if not isinstance(text, str):
            raise IsotropyError(f"{wanted}: text {number}: expected a text, got {shown(text)}")
        if not text.strip():
            raise IsotropyError(f"{wanted}: text {number} is empty: leave it out")
    if len(texts) < 2:
        raise IsotropyError(f"{wanted}: expected at least 2 texts, got {len(texts)}")
    return [str(text) for text in texts]


def read_labels(wanted: Column, name: str) -> np.ndarray:
    """Labels of a file, as an array of texts or numbers.

    Raises:
        IsotropyError: not readable, or one is missing.
    """
    values = read_values(wanted, default=name)
    for number, value in enumerate(values, start=1):
        if value is None or value == "" or value != value:
            raise IsotropyError(f"{wanted}: {name} {number} is missing")
        if isinstance(value, list | dict):
            raise IsotropyError(
                f"{wanted}: {name} {number}: expected a number or a text, got {shown(value)}"
            )
    return np.array([str(value) for value in values])


def read_values(wanted: Column, default: str) -> list[object]:
    """The values of a field, in the order of the file."""
    path = wanted.path
    if not path.stat().st_size:
        raise IsotropyError(f"{path}: the file is empty")
    try:
        match path.suffix.lower():
            case ".csv":
                return _of_csv(wanted, default)
            case ".jsonl" | ".json" | ".ndjson":
                return _of_json_lines(wanted, default)
            case ".parquet":
                return _of_parquet(wanted, default)
            case ".txt":
                if wanted.field is not None:
                    raise IsotropyError(f"{path}: lines of text have no field {wanted.field!r}")
                lines = path.read_text("utf-8-sig").split("\n")
                return list(lines[:-1] if lines[-1] == "" else lines)
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise IsotropyError(
            f"{path}: expected UTF-8, got byte {byte:#04x} at {error.start}: save it as UTF-8"
        ) from None
    except (ValueError, csv.Error) as error:
        about = str(error) if path.name in str(error) else f"{path.name}: {error}"
        raise IsotropyError(str(path.parent / about)) from None
    raise IsotropyError(
        f"{path}: expected one of {', '.join(FORMATS)}, got {path.suffix or 'no suffix'}"
    )


def _of_csv(wanted: Column, default: str) -> list[object]:
    with wanted.path.open(encoding="utf-8-sig", newline="") as stream:
        names = next(csv.reader(stream), [])
    field = _field(wanted, names, default)
    return [row[field] for _, row in read_csv(wanted.path, [field])]


def _of_json_lines(wanted: Column, default: str) -> list[object]:
    values: list[object] = []
    with wanted.path.open(encoding="utf-8-sig") as stream:
        for number, line in enumerate(stream, start=1):
            if not line.strip():
                continue
            place = f"{wanted.path.name}, line {number}"
            try:
                row = json.loads(line)
            except (json.JSONDecodeError, RecursionError) as error:
                raise ValueError(f"{place}: expected a line of JSON: {error}") from None
            if not isinstance(row, dict):
                raise ValueError(f"{place}: expected an object with fields, got {shown(row)}")
            field = _field(wanted, list(row), default, f", line {number}")
            values.append(row[field])
    return values


def _of_parquet(wanted: Column, default: str) -> list[object]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        field = _field(wanted, pq.read_schema(wanted.path).names, default)
        values: list[object] = pq.read_table(wanted.path, columns=[field])[field].to_pylist()
        return values
    except pa.ArrowInvalid as error:
        first = str(error).splitlines()[0]
        raise IsotropyError(f"{wanted.path}: not readable as .parquet: {first}") from None


def _field(wanted: Column, names: Sequence[str], default: str, where: str = "") -> str:
    """The field that is meant among those of a file."""
    field = wanted.field or (names[0] if len(names) == 1 else default)
    if field not in names:
        hint = suggest(field, names, "in the file")
        raise IsotropyError(f"{wanted.path}{where}: no field {field!r}; {hint}")
    return field
