"""Read vectors as text: a matrix of numbers, or per line a word and its vector (GloVe), after a
line `n d` in word2vec files; and word2vec's binary format.

What a line means is decided by all of the first lines together, never by one: a word may contain
blanks, and may be a number. The counts of a word2vec file are checked. Words may be any bytes, as
word2vec cuts long ones inside a character; only blanks and tabs of ASCII separate fields.
"""

from __future__ import annotations

import gzip
import re
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from isotropy.errors import IsotropyError
from isotropy.read.clouds import StoredArray

LINES_PER_BLOCK = 4096


class WordVectors(NamedTuple):
    """Vectors converted to a binary array, and sentences on how the file was read."""

    stored: StoredArray
    notes: list[str]


class _Format(NamedTuple):
    """How lines are read.

    Attributes:
        d: numbers per line.
        has_words: whether a word stands before them.
        n: number of lines that the header promises; None without a header.
    """

    d: int
    has_words: bool
    n: int | None


def read_text_vectors(path: Path, target: Path, title: str | None = None) -> WordVectors:
    """Convert text vectors to a binary array in the file `target`; `title` is the name in messages.

    Raises:
        IsotropyError: UTF-16 or binary, a line that does not fit the others, or counts in the first
            line that the file does not have.
    """
    with path.open("rb") as stream, target.open("wb") as file:
        if stream.read(3) != BOM_UTF8:
            stream.seek(0)
        return _convert(title or str(path), stream, target, file)


def _convert(title: str, stream: IO[bytes], target: Path, file: IO[bytes]) -> WordVectors:
    lines = enumerate(stream, start=1)
    block = _fields(islice(lines, LINES_PER_BLOCK))
    if not block:
        raise IsotropyError(f"{title}: the file has only blank lines")
    if any(b"\0" in field for field in block[0][1]):
        raise IsotropyError(f"{title}: expected UTF-8, got zero bytes: save it as UTF-8")
    layout = _find_format(title, [fields for _, fields in block])
    if layout.n is not None:
        block = block[1:]
    n = n_invalid = 0
    while block:
        file.write(_parse(title, block, layout).tobytes())
        n += len(block)
        n_invalid += sum(not _is_utf8(b" ".join(fields[: -layout.d])) for _, fields in block)
        block = _fields(islice(lines, LINES_PER_BLOCK))
    stored = StoredArray(target, np.dtype(np.float32), 0, (n, layout.d))
    return WordVectors(stored, _check_count(title, n, layout) + _note_words(n_invalid))


def _fields(lines: Iterable[tuple[int, bytes]]) -> list[tuple[int, list[bytes]]]:
    """Split lines at blanks and tabs, and leave out empty ones; return them with their numbers."""
    split = (
        (number, line.rstrip(b"\r\n").replace(b"\t", b" ").split(b" ")) for number, line in lines
    )
    return [(number, list(filter(None, fields))) for number, fields in split if any(fields)]


def _is_utf8(word: bytes) -> bool:
    try:
        word.decode()
    except UnicodeDecodeError:
        return False
    return True


def _note_words(n_invalid: int) -> list[str]:
    """Count the words that are read as with `errors="replace"`."""
    words = "1 word is" if n_invalid == 1 else f"{n_invalid} words are"
    return [f"{words} not valid UTF-8"] if n_invalid else []


def _find_format(title: str, rows: list[list[bytes]]) -> _Format:
    """Decide from the first lines how all are read.

    Raises:
        IsotropyError: the header promises another number of columns than the lines have.
    """
    counts = [_n_numbers(row) for row in rows]
    all_numbers = all(n == len(row) for n, row in zip(counts, rows, strict=True))
    is_header = len(rows[0]) == 2 and all(field.isdigit() for field in rows[0])
    if is_header and all_numbers and set(counts[1:]) == {2}:
        is_header = False  # a matrix of two columns
    if is_header:
        n, d = int(rows[0][0]), int(rows[0][1])
        # A word that is a number is one of the numbers at the end of its line
        smallest = min(map(min, counts[1:], (len(row) - 1 for row in rows[1:])), default=d)
        if smallest > d:
            raise IsotropyError(
                f"{title}: line 1 promises {n} vectors of {d} numbers, but lines have at least "
                f"{smallest} numbers: correct it"
            )
        return _Format(d, True, n)
    if all_numbers:
        return _Format(_most_frequent(counts), False, None)
    # A word that is a number counts as one more, so most lines decide by their length as well.
    d = min(_most_frequent(counts), _most_frequent([len(row) for row in rows]) - 1)
    return _Format(d, True, None)


def _most_frequent(counts: list[int]) -> int:
    frequencies = Counter(counts)
    return max(frequencies, key=lambda n: (frequencies[n], n))


def _n_numbers(fields: list[bytes]) -> int:
    """Count the numbers at the end of a line."""
    for n, field in enumerate(reversed(fields)):
        try:
            float(field)
        except ValueError:
            return n
    return len(fields)


def _parse(title: str, block: list[tuple[int, list[bytes]]], layout: _Format) -> np.ndarray:
    """Return the vectors of lines, shape (lines, d): their last d fields, since a word may contain
    blanks.
    """
    d, minimum = layout.d, layout.d + layout.has_words
    for number, fields in block:
        if len(fields) < minimum or (not layout.has_words and len(fields) > d) or d < 1:
            word = "a word and " if layout.has_words else ""
            raise IsotropyError(
                f"{title}, line {number}: expected {word}{max(d, 2)} numbers, got {len(fields)} "
                "fields"
            )
    try:
        return np.array([fields[-d:] for _, fields in block], dtype=np.float32)
    except ValueError:
        for number, fields in block:
            if _n_numbers(fields) < d:
                wrong = fields[len(fields) - _n_numbers(fields) - 1].decode(errors="replace")
                raise IsotropyError(
                    f"{title}, line {number}: expected a number, got {wrong[:40]!r}"
                ) from None
        raise


def _check_count(title: str, n: int, layout: _Format) -> list[str]:
    """Compare the number of lines with that of the header; return sentences for the user."""
    notes = [] if layout.has_words else [f"no words: each line is a vector of {layout.d} numbers"]
    if layout.n is None or layout.n == n:
        return notes
    if n == layout.n - 1 and n > 1:  # as in an official file
        return [*notes, f"line 1 promises {layout.n} vectors, the file has one less"]
    raise IsotropyError(
        f"{title}: line 1 promises {layout.n} vectors, the file has {n}: it is cut off, or not the "
        "whole file"
    )


Stream = IO[bytes] | gzip.GzipFile
MAX_LENGTH = 10_000
"""Limit on the bytes of a word, and on the dimensions."""


def read_counts(stream: Stream) -> tuple[int, int]:
    """The numbers of words and of dimensions in the first line.

    Raises:
        ValueError: not two numbers, or more than MAX_LENGTH dimensions.
    """
    n, d = (int(x) for x in stream.readline(MAX_LENGTH).split())
    if not 0 < d <= MAX_LENGTH:
        raise ValueError(f"expected up to {MAX_LENGTH} dimensions, got {d}")
    return n, d


def iterate(stream: Stream, n: int, d: int) -> Iterator[tuple[bytes, bytes]]:
    """The words and the bytes of their vectors, after the first line.

    Raises:
        ValueError: the file ends before, or a word does not end.
    """
    for done in range(n):
        word = bytearray()
        while (byte := stream.read(1)) != b" ":
            if not byte:
                raise ValueError(f"ends after {done} of {n} words")
            word += byte
            if len(word) > MAX_LENGTH:
                raise ValueError(f"word {done + 1} does not end")
        values = stream.read(4 * d)
        if len(values) != 4 * d:
            raise ValueError(f"ends after {done} of {n} words")
        yield bytes(word), values


def read_word2vec(path: Path, target: Path, title: str) -> WordVectors:
    """Convert vectors of word2vec's binary format to a binary array in the file `target`.

    Args:
        path: the file.
        target: where the vectors are written, float32.
        title: name of the file in messages.

    Raises:
        IsotropyError: another format, fewer words than the first line promises, or more bytes.
    """
    with path.open("rb") as stream:
        if not re.fullmatch(rb"\s*\d{1,12}\s+\d{1,5}\s*", stream.readline(100)):
            raise IsotropyError(
                f"{title}: expected word2vec's binary format, which begins with a line of two "
                "numbers; other .bin files may hold pickled code, which is never run: save the "
                "vectors with numpy.save or safetensors.numpy.save_file"
            )
        stream.seek(0)
        n, d = read_counts(stream)
        n_invalid = 0
        with target.open("wb") as file:
            for word, values in iterate(stream, n, d):
                n_invalid += not _is_utf8(word)
                file.write(values)
        if stream.read().strip(b"\n"):
            raise IsotropyError(
                f"{title}: line 1 promises {n} vectors of {d} numbers, but the file goes on: "
                "correct it"
            )
    return WordVectors(StoredArray(target, np.dtype("<f4"), 0, (n, d)), _note_words(n_invalid))
