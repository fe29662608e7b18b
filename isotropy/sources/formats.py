"""Formats of payload files, and the readers that are loaded by a format's name.

The format `hub-parquet` is read by the module `isotropy.sources.readers.hub_parquet`. This module
imports no reader and lists none: a new one is a new file, and changes the code of no job but those
whose sources have its format (`modules`).
"""

from __future__ import annotations

import csv
import zlib
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from isotropy.errors import IsotropyError, shown, suggest
from isotropy.sources.rows import Row
from isotropy.sources.spec import Content, Source
from isotropy.sources.vectors import StaticVectors

READERS = "isotropy.sources.readers"
_UNREADABLE = (
    *(OSError, ValueError, KeyError, IndexError, AttributeError, TypeError, RecursionError),
    *(csv.Error, EOFError, zlib.error),
)


@cache
def known() -> list[str]:
    """All formats, sorted: one per module of `isotropy.sources.readers`."""
    files = Path(__file__).with_name("readers").glob("[a-z]*.py")
    return sorted(file.stem.replace("_", "-") for file in files)


def modules(source: Source) -> list[str]:
    """Dotted names of the readers that contents of a source may need, sorted."""
    return sorted({_module(c.format) for c in source.contents.values() if c.format is not None})


def read_rows(content: Content, folder: Path) -> list[Row]:
    """All rows of a data set, lexicon or corpus in canonical order.

    Raises:
        IsotropyError: the files do not have the format that the registry says, or it is one of
            vectors.
    """
    found = _read(content, folder)
    if isinstance(found, StaticVectors):
        raise _wrong(content, "of rows", "one of vectors")
    rows: list[Row] = found
    return _numbered(content, rows) if content.label_names else rows


def _numbered(content: Content, rows: list[Row]) -> list[Row]:
    """Rows with class numbers for names of classes."""
    numbers = {name: number for number, name in enumerate(content.label_names)}
    for place, row in enumerate(rows, start=1):
        if str(row.label) not in numbers:
            hint = suggest(str(row.label), content.label_names, "in label_names")
            raise IsotropyError(
                f"{content.title}: row {place}: no class {shown(row.label)}; {hint}"
            )
    return [row._replace(label=numbers[str(row.label)]) for row in rows]


def read_vectors(content: Content, folder: Path) -> StaticVectors:
    """All words and vectors of static embeddings.

    Raises:
        IsotropyError: the files do not have the format that the registry says, or it is one of
            rows.
    """
    found = _read(content, folder)
    if not isinstance(found, StaticVectors):
        raise _wrong(content, "of vectors", "one of rows")
    return found


def label_names(content: Content) -> list[str]:
    """Names of a lexicon's labels, in the order of the classes.

    Raises:
        IsotropyError: rows of this format have no labels with names.
    """
    names: list[str] | None = getattr(_reader(content), "LABEL_NAMES", None)
    if names is None:
        raise _wrong(content, "of a lexicon with labels", "one without")
    return names


def _module(format: str) -> str:
    return f"{READERS}.{format.replace('-', '_')}"


def _reader(content: Content) -> ModuleType:
    if content.format not in known():
        hint = suggest(str(content.format), known(), "in isotropy/sources/readers")
        raise IsotropyError(
            f"{content.title}: expected a format with a reader, got {content.format!r}; {hint}"
        )
    return import_module(_module(content.format))


def _read(content: Content, folder: Path) -> Any:
    """What a reader gives: rows, as a list, or vectors."""
    reader = _reader(content)
    try:
        found = reader.read(content, folder)
        return found if isinstance(found, StaticVectors) else list(found)
    except _UNREADABLE as error:
        said = f"no column or key {error}" if isinstance(error, KeyError) else str(error)
        raise IsotropyError(
            f"{content.title}: not readable as {content.format} ({said})"
        ) from error


def _wrong(content: Content, expected: str, got: str) -> IsotropyError:
    return IsotropyError(
        f"{content.title}: expected a format {expected}, got {content.format}, {got}"
    )
