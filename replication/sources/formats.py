"""Formats of payload files, and their readers (`replication.sources.readers`).

This module does not import the readers at its top, so that a new reader changes the code digest of
only those jobs whose sources have its format (`modules`).
"""

from __future__ import annotations

import csv
import hashlib
import json
import zlib
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from isotropy.errors import IsotropyError, format_value, suggest
from replication.sources.spec import Content, Source


class Row(NamedTuple):
    """One row of a data set, lexicon or corpus: its texts and its label. A label is a class number,
    a score, a question's answers, a lexicon's list of names, or None.
    """

    texts: tuple[str, ...]
    label: Any = None


def verify_rows(content: Content, rows: list[Row]) -> None:
    """Compare rows with what the registry expects: count, unique texts, digest.

    Raises:
        IsotropyError: the first of these that differs, with both values; or a row with a value
            that is not a text.
    """
    for number, row in enumerate(rows, start=1):
        for text in row.texts:
            if not _is_unicode(text):
                raise IsotropyError(
                    f"{content.title}: row {number}: expected a text, got {format_value(text)}"
                )
    actual = {
        "rows": len(rows),
        "unique_texts": len({text for row in rows for text in row.texts}),
        "content_sha256": content_sha256(rows),
    }
    for field, value in actual.items():
        expected = getattr(content, field)
        if expected is not None and expected != value:
            raise IsotropyError(
                f"{content.title}: {field}: expected {expected}, got {value}; the data are not "
                "those that the registry names"
            )


def _is_unicode(text: object) -> bool:
    """Whether a value is a text, without lone surrogates."""
    try:
        return isinstance(text, str) and text.encode("utf8") is not None
    except UnicodeEncodeError:
        return False


def content_sha256(rows: list[Row]) -> str:
    """SHA-256 over one line per row: the JSON array of texts, then the label if there is one, and a
    newline.
    """
    total = hashlib.sha256()
    for row in rows:
        values = [*row.texts] if row.label is None else [*row.texts, row.label]
        line = json.dumps(values, ensure_ascii=False, separators=(",", ":")) + "\n"
        total.update(line.encode("utf8"))
    return total.hexdigest()


class StaticVectors(NamedTuple):
    """Word vectors: words in the file's order (most frequent first), vectors of shape (n_words, d),
    float32.
    """

    words: list[str]
    vectors: np.ndarray


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
