"""Read tables with a header, and JSON objects; errors name the line and the column."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, Any

from isotropy.errors import IsotropyError, format_value

SEPARATORS = (",", ";", "\t")
MAX_FIELD = 2**31 - 1
"""Most characters of a field; Python's own limit is 131,072."""


def open_text(path: Path, errors: str | None = None) -> IO[str]:
    """Open a text in UTF-8, with or without a byte order mark, plain or compressed by gzip; line
    breaks are kept.
    """
    if path.suffix.lower() == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="", errors=errors)
    return path.open(encoding="utf-8-sig", newline="", errors=errors)


def format_suffix(path: Path) -> str:
    """The suffix that says the format, in lower case: `.csv` of `a.CSV` and of `a.csv.gz`."""
    is_packed = path.suffix.lower() == ".gz"
    return (Path(path.stem) if is_packed else path).suffix.lower()


def has_quoting(separator: str, *, quoting: bool) -> bool:
    """Whether quotation marks enclose fields. Between tabs only if the user says so (`quoting`): a
    mark there is a word, an inch, or a part of a text.
    """
    return quoting or separator != "\t"


def split_rows(
    lines: Iterable[str], separator: str, *, quoting: bool = False, strict: bool = False
) -> Any:
    """Return a `csv.reader` of a table; `strict`: a wrong quotation mark is an error."""
    csv.field_size_limit(MAX_FIELD)
    return csv.reader(
        lines,
        delimiter=separator,
        quoting=csv.QUOTE_MINIMAL if has_quoting(separator, quoting=quoting) else csv.QUOTE_NONE,
        strict=strict,
    )


def first_rows(path: Path, separator: str, n: int, *, quoting: bool = False) -> list[list[str]]:
    """The first n rows that are not empty, without blanks around their fields."""
    with open_text(path) as stream:
        rows = islice(filter(None, split_rows(stream, separator, quoting=quoting)), n)
        return [[field.strip() for field in row] for row in rows]


def read_header(path: Path, *, quoting: bool = False) -> tuple[str, list[str]]:
    """Return the separator of a table and the column names in its first line.

    A .tsv has tabs. In any other file the separator is the first of comma, semicolon and tab that
    splits the line; a comma if none does.

    Raises:
        IsotropyError: names in quotation marks between tabs.
    """
    separators = ["\t"] if format_suffix(path) == ".tsv" else SEPARATORS
    headers = {s: next(iter(first_rows(path, s, 1, quoting=quoting)), []) for s in separators}
    separator = next((s for s in separators if len(headers[s]) > 1), separators[0])
    require_plain_names(str(path), headers[separator])
    return separator, headers[separator]


def require_plain_names(title: str, names: Iterable[str]) -> None:
    """Refuse names of columns that are in quotation marks, as R writes them between tabs.

    Raises:
        IsotropyError: there is one.
    """
    if any(map(_is_enclosed, names)):
        raise IsotropyError(
            f"{title}: names of columns are in quotation marks, which enclose fields between tabs "
            "only with --quoting: add it, or save the table as .csv"
        )


def _is_enclosed(field: str) -> bool:
    return len(field) > 1 and field[0] == field[-1] == '"'


def _has_line_break(field: str) -> bool:
    return "\n" in field or "\r" in field


def note_quotes(path: Path, title: str, separator: str, *, quoting: bool) -> list[str]:
    """Count the fields that span lines, since two stray quotation marks make one field of all rows
    between them; and between tabs the fields in marks, which may be meant to enclose them.

    Raises:
        IsotropyError: a mark that is not closed.
    """
    with open_text(path, errors="replace") as stream:
        if not any('"' in chunk for chunk in iter(partial(stream.read, 2**20), "")):
            return []  # the usual case, and faster than to parse it
        stream.seek(0)
        reader = split_rows(stream, separator, quoting=quoting, strict=True)
        is_quoted = has_quoting(separator, quoting=quoting)
        is_counted = _has_line_break if is_quoted else _is_enclosed
        try:
            n = sum(is_counted(field) for row in reader for field in row)
        except csv.Error as error:
            raise IsotropyError(
                f"{title}, line {reader.line_num}: expected quotation marks around whole fields "
                f"({error}): double or remove them; word vectors may be named .vec"
            ) from None
    suspects = "that span lines" if is_quoted else "kept unless read with quoting"
    return [f"{title}: fields in quotation marks {suspects}: {n}"] if n else []


def read_csv(
    path: Path, columns: Sequence[str], *, strict: bool = True, quoting: bool = False
) -> Iterator[tuple[int, dict[str, str]]]:
    """The rows of a table in UTF-8, with or without a byte order mark, each with the number of its
    last line; columns in any order, separated by commas, semicolons or tabs.

    Args:
        path: the file; it may be compressed by gzip.
        columns: names that the header must contain.
        strict: whether wrong quotation marks are an error, rather than part of a field.
        quoting: whether quotation marks enclose fields between tabs, too.

    Raises:
        ValueError: a missing column, or a row with fewer or more fields than the header.
        csv.Error: a quotation mark without its counterpart.
    """
    separator, header = read_header(path, quoting=quoting)
    with open_text(path) as stream:
        reader = split_rows(stream, separator, quoting=quoting, strict=strict)
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
        rows = filter(None, reader)
        next(rows, None)  # the header itself
        for row in rows:
            if len(row) != len(header):
                is_plain = not has_quoting(separator, quoting=quoting)
                hint = " (read without quoting)" if is_plain and '"' in "".join(row) else ""
                raise ValueError(
                    f"{path.name}, line {reader.line_num}: expected {len(header)} fields, got "
                    f"{len(row)}{hint}"
                )
            yield reader.line_num, dict(zip(header, row, strict=True))


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
