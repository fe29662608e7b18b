"""Choose the columns of a table that are dimensions: those that the user names, or those whose
names are numbered (`dim_0`, `dim_1`, …) or consecutive letters (`x`, `y`). Everything else is a
question to the user: a score among the dimensions would be a metric of another cloud.
"""

from __future__ import annotations

import fnmatch
import re
from collections import Counter
from collections.abc import Sequence
from typing import Literal, NamedTuple

from isotropy.errors import IsotropyError, suggest

Kind = Literal["number", "boolean", "other"]
NUMBERED = re.compile(r"(.*?)(\d+)(\D*)", re.DOTALL)
"""A name's last number, and what stands before and after it."""
MAX_LISTED = 300
"""Most characters of a list of columns in a message."""


class Field(NamedTuple):
    """A column: its name, what it holds, and the same as the file says it."""

    name: str
    kind: Kind
    type: str


class Table(NamedTuple):
    """What is known of a table before its rows are read.

    Attributes:
        title: the file, for messages.
        fields: all columns, in the order of the file.
        excluded: names of columns that never are dimensions: labels, types, sentences, index.
        named: whether the file names its columns; if not, their names are their positions.
    """

    title: str
    fields: list[Field]
    excluded: frozenset[str]
    named: bool = True


def choose_dimensions(table: Table, patterns: Sequence[str] | None) -> list[str]:
    """Names of the columns that are dimensions, in the order of the file.

    Args:
        table: the columns.
        patterns: names or globs; "*" means all columns of numbers. None: decided by the names.

    Raises:
        IsotropyError: two columns with one name, a pattern without a column of numbers, or columns
            of which it is not clear whether they are dimensions.
    """
    counts = Counter(field.name for field in table.fields)
    if repeated := [name for name, n in counts.items() if n > 1]:
        raise IsotropyError(
            f"{table.title}: expected different names of columns, got {repeated[0]!r} "
            f"{counts[repeated[0]]} times: rename them"
        )
    if patterns is None:
        return _find_dimensions(table)
    chosen = {name for pattern in patterns for name in _match(table, pattern)}
    return [field.name for field in table.fields if field.name in chosen]


def _match(table: Table, pattern: str) -> list[str]:
    """Columns that a pattern of --columns names."""
    kinds = {field.name: field.kind for field in table.fields}
    if pattern in kinds:
        names = [pattern]
        if pattern in table.excluded:
            raise IsotropyError(
                f"{table.title}: --columns {pattern}: the column holds labels, types, sentences or "
                "the index, and cannot be a dimension"
            )
    else:
        free = [name for name in kinds if name not in table.excluded]
        names = [name for name in free if fnmatch.fnmatchcase(name, pattern)]
    if pattern == "*":
        return [name for name in names if kinds[name] != "other"]
    if not names:
        hint = suggest(pattern, kinds, "in the file")
        raise IsotropyError(f"{table.title}: --columns {pattern}: no such column; {hint}")
    for field in table.fields:
        if field.name in names and field.kind == "other":
            raise IsotropyError(
                f"{table.title}: --columns {pattern}: expected numbers, got column {field.name!r} "
                f"of type {field.type}"
            )
    return names


def _find_dimensions(table: Table) -> list[str]:
    """The columns of numbers, if their names say that they belong together."""
    free = [field for field in table.fields if field.name not in table.excluded]
    numbers = [field.name for field in free if field.kind == "number"]
    for kinds in (("number", "boolean"), ("number",)):
        names = [field.name for field in free if field.kind in kinds]
        if _is_series(names) or len(names) < 2:
            break
    if len(numbers) < 2 and len(names) < 2:
        if not names:
            listing = ", ".join(f"{field.name}: {field.type}" for field in table.fields)
            raise IsotropyError(
                f"{table.title}: expected a column of lists of numbers or columns of numbers, got "
                f"{shorten(listing)}"
            )
        return names
    n_types = len({field.type for field in free if field.name in names})
    if not _is_series(names) or (not table.named and n_types > 1):
        types = "" if table.named else " of more than one type"
        raise IsotropyError(
            f"{table.title}: it is not clear which columns are dimensions: name them with "
            f"--columns (globs, as 'dim_*'; '*' is all of them): there are numbers{types} in "
            f"columns {shorten(abbreviate(numbers))}"
        )
    for field in free:
        if table.named and field.name not in names and _is_series([*names, field.name]):
            raise IsotropyError(
                f"{table.title}: expected numbers in column {field.name!r} as in {names[0]!r}, got "
                f"type {field.type}: correct it, or name the dimensions with --columns"
            )
    return names


def find_series(table: Table) -> list[str]:
    """The first columns of numbers whose names belong together; empty if there are none."""
    numbers = [f.name for f in table.fields if f.kind == "number" and f.name not in table.excluded]
    if _is_series(numbers):
        return numbers
    for name in numbers:
        if len(series := [other for other in numbers if _is_series([name, other])]) > 1:
            return series
    return []


def _is_series(names: Sequence[str]) -> bool:
    """Whether names differ by their last number only, or are consecutive letters after the same
    beginning.
    """
    if len(names) < 2:
        return False
    matches = [NUMBERED.fullmatch(name) for name in names]
    if all(matches):
        return len({(m[1], m[3]) for m in matches if m}) == 1
    ends = sorted(name[-1:] for name in names)
    if len({name[:-1] for name in names}) > 1 or not all(end.isalpha() for end in ends):
        return False
    return [ord(end) - ord(ends[0]) for end in ends] == list(range(len(ends)))


def abbreviate(names: Sequence[str]) -> str:
    """List names; three or more with consecutive numbers are written as the first and the last.

    Examples:
        >>> abbreviate(["x0", "x1", "x2", "x5", "y"])
        'x0…x2, x5, y'
    """
    runs: list[list[str]] = []
    for name in names:
        if runs and _follows(runs[-1][-1], name):
            runs[-1].append(name)
        else:
            runs.append([name])
    return ", ".join(
        f"{run[0]}…{run[-1]}" if len(run) > 2 else ", ".join(name or "(no name)" for name in run)
        for run in runs
    )


def _follows(first: str, second: str) -> bool:
    a, b = NUMBERED.fullmatch(first), NUMBERED.fullmatch(second)
    return bool(a and b and (a[1], a[3]) == (b[1], b[3]) and int(b[2]) == int(a[2]) + 1)


def shorten(listing: str) -> str:
    """A list that fits a message."""
    return listing if len(listing) <= MAX_LISTED else f"{listing[:MAX_LISTED]}…"


def describe_columns(table: Table, names: Sequence[str]) -> str:
    """A sentence on which columns are dimensions, and which are not."""
    rest = [field.name for field in table.fields if field.name not in set(names)]
    left_out = f"; left out: {abbreviate(rest)}" if rest else ""
    return f"{table.title}: dimensions are columns {abbreviate(names)}{left_out}"
