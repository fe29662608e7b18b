"""Tables as text: rows with a header, and mistakes by line and column."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from isotropy.errors import shown
from isotropy.sources.spec import Content


def read_csv(path: Path, columns: Sequence[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """The rows of a CSV file in UTF-8, with or without a byte order mark, each with the number of
    its last line; columns in any order.

    Args:
        path: the file.
        columns: those that it must have.

    Raises:
        ValueError: no such column, or a row with fewer or more fields than the header.
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


def whole_number(text: str, place: str) -> int:
    """A class number.

    Raises:
        ValueError: no whole number, with its place.
    """
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{place}: expected a whole number, got {text!r}") from None


def own_label(content: Content, row: Mapping[str, Any], place: str) -> Any:
    """The label of a row of a user's own data: the name of its class as text, where the content
    names the classes, else a score; None where there are no labels.

    Raises:
        ValueError: no score, with its place.
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
        raise ValueError(f"{place}, {field}: expected a score, got {shown(value)}") from None


def class_name(value: Any) -> str:
    """A class as text: 1 and 1.0 are the same."""
    whole = isinstance(value, float) and value.is_integer()
    return str(int(value)) if whole else str(value)
