"""Read CSV tables with a header; errors name the line and the column."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from isotropy.errors import format_value
from isotropy.sources.spec import Content


def read_csv(path: Path, columns: Sequence[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """The rows of a CSV file in UTF-8, with or without a byte order mark, each with the number of
    its last line; columns in any order.

    Args:
        path: the file.
        columns: names that the header must contain.

    Raises:
        ValueError: a missing column, or a row with fewer or more fields than the header.
    """
    with path.open(encoding="utf-8-sig", newline="") as stream:
        reader = csv.DictReader(stream)
        header = list(reader.fieldnames or [])
        if missing := [name for name in columns if name not in header]:
            got = ", ".join(repr(name) for name in header) or "an empty file"
            hint = (
                "; its fields must be separated by commas"
                if len(header) == 1 and any(mark in header[0] for mark in ";\t|")
                else ""
            )
            raise ValueError(f"{path.name}: expected a column {missing[0]!r}, got {got}{hint}")
        for row in reader:
            if None in row or None in row.values():
                rest = row.pop(None, [])
                n = sum(value is not None for value in row.values()) + len(rest)
                raise ValueError(
                    f"{path.name}, line {reader.line_num}: expected {len(header)} fields, got {n}"
                )
            yield reader.line_num, row


def parse_whole_number(text: str, place: str) -> int:
    """Parse a class number.

    Raises:
        ValueError: not a whole number; the message begins with `place`.
    """
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{place}: expected a whole number, got {text!r}") from None


def parse_label(content: Content, row: Mapping[str, Any], place: str) -> Any:
    """The label of a row of a user's data: the name of its class where the content lists class
    names, else a score; None where the data have no labels.

    Raises:
        ValueError: a score that is not a number; the message begins with `place`.
    """
    if content.label_field is None:
        return None
    value = row[content.label_field]
    if content.label_names:
        return class_name(value)
    try:
        return float(value)
    except (TypeError, ValueError):
        field = content.label_field
        raise ValueError(f"{place}, {field}: expected a score, got {format_value(value)}") from None


def class_name(value: Any) -> str:
    """A class as text: 1 and 1.0 are the same."""
    is_whole = isinstance(value, float) and value.is_integer()
    return str(int(value)) if is_whole else str(value)
