"""Rows of data sets, lexicons and corpora, and the digest that identifies them whatever origin
delivered them.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, NamedTuple

import numpy as np

from isotropy.errors import IsotropyError, format_value
from replication.sources.spec import Content


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
