"""Read tables with a header, and JSON objects; errors name the line and the column."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from isotropy.errors import format_value

SEPARATORS = ("\t", ";", ",")
MAX_FIELD = 2**31 - 1
"""Most characters of a field; Python's own limit is 131,072."""


def open_text(path: Path) -> IO[str]:
    """Open a text in UTF-8, with or without a byte order mark, plain or compressed by gzip; line
    breaks are kept.
    """
    if path.suffix.lower() == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def format_suffix(path: Path) -> str:
    """The suffix that says the format, in lower case: `.csv` of `a.CSV` and of `a.csv.gz`."""
    is_packed = path.suffix.lower() == ".gz"
    return (Path(path.stem) if is_packed else path).suffix.lower()


def read_header(path: Path) -> tuple[str, list[str]]:
    """Return the separator of a table and the column names in its first line, without blanks around
    them.

    A .tsv has tabs. In any other file the separator is the first of comma, semicolon and tab that
    splits the line; a comma if none does.
    """
    csv.field_size_limit(MAX_FIELD)
    headers = {}
    for separator in SEPARATORS:
        with open_text(path) as stream:
            row = next(csv.reader(stream, delimiter=separator), [])
        headers[separator] = [name.strip() for name in row]
    if format_suffix(path) == ".tsv":
        return "\t", headers["\t"]
    return max(headers.items(), key=lambda item: (len(item[1]) > 1, SEPARATORS.index(item[0])))


def read_csv(
    path: Path, columns: Sequence[str], *, strict: bool = True
) -> Iterator[tuple[int, dict[str, str]]]:
    """The rows of a table in UTF-8, with or without a byte order mark, each with the number of its
    last line; columns in any order, separated by commas, semicolons or tabs.

    Args:
        path: the file; it may be compressed by gzip.
        columns: names that the header must contain.
        strict: whether wrong quotation marks are an error, rather than part of a field.

    Raises:
        ValueError: a missing column, or a row with fewer or more fields than the header.
        csv.Error: a quotation mark without its counterpart.
    """
    separator, header = read_header(path)
    with open_text(path) as stream:
        reader = csv.DictReader(stream, header, delimiter=separator, strict=strict)
        if missing := [name for name in columns if name not in header]:
            got = ", ".join(repr(name) for name in header) or "an empty file"
            hint = (
                "; its fields must be separated by commas, semicolons or tabs"
                if len(header) == 1 and "|" in header[0]
                else ""
            )
            raise ValueError(f"{path.name}: expected a column {missing[0]!r}, got {got}{hint}")
        if repeated := [name for name in columns if header.count(name) > 1]:
            raise ValueError(f"{path.name}: expected one column {repeated[0]!r}, got several")
        next(reader, None)  # the header itself
        for row in reader:
            if None in row or None in row.values():
                rest = row.pop(None, [])
                n = sum(value is not None for value in row.values()) + len(rest)
                raise ValueError(
                    f"{path.name}, line {reader.line_num}: expected {len(header)} fields, got {n}"
                )
            yield reader.line_num, row


def read_json_objects(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a file of JSON, one per line or all in one array, each with its place for
    messages; blank lines are left out.

    Raises:
        ValueError: not JSON, or a value that is not an object.
    """
    with open_text(path) as stream:
        is_array = next((line for line in stream if line.strip()), "").lstrip()[:1] == "["
    with open_text(path) as stream:
        if is_array:
            values = enumerate(_parse_json(stream.read(), path.name, "an array of objects"), 1)
            items = ((f"{path.name}, item {i}", value) for i, value in values)
        else:
            lines = ((f"{path.name}, line {i}", line) for i, line in enumerate(stream, 1))
            items = ((at, _parse_json(x, at, "a line of JSON")) for at, x in lines if x.strip())
        for place, value in items:
            if not isinstance(value, dict):
                raise ValueError(
                    f"{place}: expected an object with fields, got {format_value(value)}"
                )
            yield place, value


def _parse_json(text: str, place: str, expected: str) -> Any:
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"{place}: expected {expected}: {error}") from None


def parse_whole_number(text: str, place: str) -> int:
    """Parse a class number.

    Raises:
        ValueError: not a whole number; the message begins with `place`.
    """
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{place}: expected a whole number, got {text!r}") from None


def class_name(value: Any) -> str:
    """A class as text: 1 and 1.0 are the same."""
    is_whole = isinstance(value, float) and value.is_integer()
    return str(int(value)) if is_whole else str(value)
