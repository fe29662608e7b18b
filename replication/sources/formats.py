"""Formats of payload files, and their readers (`replication.sources.readers`).

This module does not import the readers at its top, so that a new reader changes the code digest of
only those jobs whose sources have its format (`modules`).
"""

from __future__ import annotations

import csv
import zlib
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from isotropy.errors import IsotropyError, format_value, suggest
from replication.sources.rows import Row, StaticVectors
from replication.sources.spec import Content, Source

READERS = "replication.sources.readers"
_UNREADABLE = (
    *(OSError, ValueError, KeyError, IndexError, AttributeError, TypeError, RecursionError),
    *(csv.Error, EOFError, zlib.error),
)


@cache
def _readers() -> dict[str, Any]:
    readers: dict[str, Any] = import_module(READERS).READERS
    return readers


def known_formats() -> list[str]:
    """All formats, sorted."""
    return sorted(_readers())


def modules(source: Source) -> list[str]:
    """The readers that contents of a source may need, sorted, as `MODULE:FORMAT`."""
    formats = {content.format for content in source.contents.values()} - {None}
    return sorted(f"{READERS}:{name}" for name in formats)


def read_rows(content: Content, folder: Path) -> list[Row]:
    """Read all rows of a data set, lexicon or corpus in canonical order.

    Raises:
        IsotropyError: the files cannot be read in the registry's format, or it is a format of
            vectors.
    """
    payload = _call_reader(content, folder)
    if isinstance(payload, StaticVectors):
        raise _format_error(content, "of rows", "one of vectors")
    rows: list[Row] = payload
    return _number_classes(content, rows) if content.label_names else rows


def _number_classes(content: Content, rows: list[Row]) -> list[Row]:
    """Replace the names of classes by their numbers."""
    numbers = {name: number for number, name in enumerate(content.label_names)}
    for place, row in enumerate(rows, start=1):
        if str(row.label) not in numbers:
            hint = suggest(str(row.label), content.label_names, "in label_names")
            raise IsotropyError(
                f"{content.title}: row {place}: no class {format_value(row.label)}; {hint}"
            )
    return [row._replace(label=numbers[str(row.label)]) for row in rows]


def read_vectors(content: Content, folder: Path) -> StaticVectors:
    """Read all words and vectors of static embeddings.

    Raises:
        IsotropyError: the files cannot be read in the registry's format, or it is a format of
            rows.
    """
    payload = _call_reader(content, folder)
    if not isinstance(payload, StaticVectors):
        raise _format_error(content, "of vectors", "one of rows")
    return payload


def label_names(content: Content) -> list[str]:
    """Names of a lexicon's labels, in the order of the classes.

    Raises:
        IsotropyError: the format has no named labels.
    """
    names: list[str] | None = _reader(content).labels
    if names is None:
        raise _format_error(content, "of a lexicon with labels", "one without")
    return names


def _reader(content: Content) -> Any:
    if content.format not in known_formats():
        hint = suggest(str(content.format), known_formats(), "in replication/sources/readers.py")
        raise IsotropyError(
            f"{content.title}: expected a format with a reader, got {content.format!r}; {hint}"
        )
    return _readers()[content.format]


def _call_reader(content: Content, folder: Path) -> Any:
    """Call the reader of a format: a list of rows, or vectors."""
    reader = _reader(content)
    try:
        payload = reader.read(content, folder)
        return payload if isinstance(payload, StaticVectors) else list(payload)
    except _UNREADABLE as error:
        reason = f"no column or key {error}" if isinstance(error, KeyError) else str(error)
        raise IsotropyError(
            f"{content.title}: not readable as {content.format} ({reason})"
        ) from error


def _format_error(content: Content, expected: str, got: str) -> IsotropyError:
    return IsotropyError(
        f"{content.title}: expected a format {expected}, got {content.format}, {got}"
    )
