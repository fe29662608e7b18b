"""The entry of a data set or corpus, from a file or from a hub: rows, classes, digests."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from isotropy.errors import IsotropyError, shown
from isotropy.sources.formats import read_rows
from isotropy.sources.own.hub import Repository
from isotropy.sources.own.models import Found
from isotropy.sources.rows import Row, content_sha256, verify_rows
from isotropy.sources.spec import Content
from isotropy.sources.table_text import class_name
from isotropy.sources.text_files import Column, read_texts, read_values

READERS = {
    ".csv": "csv-table",
    ".jsonl": "jsonl-table",
    ".parquet": "parquet-table",
    ".txt": "lines",
}
"""Formats by suffix."""
JSON_LINES = (".ndjson", ".json")
PAYLOAD = {".txt": "lines.txt"}
MOST_CLASSES = 50


class Fields(NamedTuple):
    """What of a file is meant.

    Attributes:
        texts: fields of the texts of an item: one, or two of a pair.
        label: field of the class or score; None: running text.
        scores: whether labels are scores; None: found from the values.
    """

    texts: Sequence[str]
    label: str | None
    scores: bool | None


def of_file(path: Path, name: str, fields: Fields, licence: str | None) -> Found:
    """The entry of a data set in a file.

    Raises:
        IsotropyError: not readable, or its rows make no data set.
    """
    payload = _payload(path)
    origin = {
        "type": "file",
        "folder": str(path.resolve().parent),
        "files": {payload: path.resolve().name},
    }
    return _found(path, name, fields, origin, licence or "not stated")


def of_hub(
    repository: Repository, name: str, fields: Fields, file: str | None, licence: str | None
) -> Found:
    """The entry of a data set of a hub, by one of its files.

    Raises:
        IsotropyError: no such file, several that could be meant, or one that is not readable.
    """
    readable = [f for f in repository.files if _suffix(Path(f)) in READERS]
    known = [f for f in readable if not f.endswith((".json", ".txt"))]  # those are often no data
    if file is None and len(known) == 1:
        file = known[0]
    if file not in readable:
        there = ", ".join(sorted(known)[:8]) or "no file of texts"
        raise IsotropyError(
            f"{repository.id}: name the file of one split with --file; it has {there}"
        )
    path = repository.folder([file]) / file
    origin = {
        "type": "hub",
        "repo": repository.id,
        "revision": repository.revision,
        "files": {_payload(path): file},
        "mirror": False,
    }
    found = _found(path, name, fields, origin, licence or repository.licence or "not stated")
    others = [f for f in known if f != file]
    more = [f"other files: {', '.join(sorted(others)[:8])}"] if others else []
    return Found(found.entry, found.about + more)


def _payload(path: Path) -> str:
    """The name that a file has among those of its source."""
    suffix = _suffix(path)
    if suffix not in READERS:
        got = path.suffix or "no suffix"
        kinds = ", ".join([*READERS, *JSON_LINES])
        raise IsotropyError(f"{path}: expected one of {kinds}, got {got}")
    return PAYLOAD.get(suffix, f"data{suffix}")


def _suffix(path: Path) -> str:
    return ".jsonl" if path.suffix.lower() in JSON_LINES else path.suffix.lower()


def _found(path: Path, name: str, fields: Fields, origin: dict[str, Any], licence: str) -> Found:
    """The entry, from the rows."""
    payload = _payload(path)
    if not fields.texts and payload != "lines.txt":
        raise IsotropyError(f"{path}: name one or two fields of texts with --text, got none")
    if fields.label is None and len(fields.texts) > 1:
        raise IsotropyError(f"{path}: a pair needs a class or a score: name its field with --label")
    for field in fields.texts if fields.label is not None else []:
        read_texts(Column(path, field))
    classes = None if fields.label is None else _classes(path, fields)
    content = Content(
        status="stand-in",
        title=name,
        format=READERS[Path(payload).suffix],
        text_fields=list(fields.texts),
        label_field=fields.label,
        label_names=classes or [],
    )
    rows = _rows(content, path, payload)
    if len(rows) < 2:
        raise IsotropyError(f"{path}: expected at least 2 rows, got {len(rows)}")
    verify_rows(content, rows)
    facts = {
        "rows": len(rows),
        "unique_texts": len({text for row in rows for text in row.texts}),
        "content_sha256": content_sha256(rows),
    }
    own = content.model_dump(exclude_defaults=True, exclude={"status", "title"})
    own |= {"label_field": fields.label, "expect": facts}
    entry = {
        "kind": "corpus" if fields.label is None else "dataset",
        "licence": licence,
        "contents": {"file": {"status": "stand-in", "title": name} | own},
        "origins": [origin],
    }
    return Found(entry, _about(facts, fields, rows, classes))


def _rows(content: Content, path: Path, payload: str) -> list[Row]:
    """The rows, as the workflow will read them."""
    with tempfile.TemporaryDirectory(prefix="isotropy-sources-") as folder:
        (Path(folder) / payload).symlink_to(path.resolve())
        return read_rows(content, Path(folder))


def _classes(path: Path, fields: Fields) -> list[str] | None:
    """Names of the classes, sorted; None: the label is a score."""
    values = read_values(Column(path, fields.label), default="label")
    for number, value in enumerate(values, start=1):
        if value is None or value == "" or value != value:
            raise IsotropyError(f"{path}: row {number}: no value in field {fields.label!r}")
        if isinstance(value, list | dict):
            raise IsotropyError(
                f"{path}: {fields.label} {number}: expected a class or a score, got {shown(value)}"
            )
    names = sorted({class_name(value) for value in values}, key=_natural)
    numbers = [_number(value) for value in values]
    whole = all(n is not None and n.is_integer() for n in numbers)
    scores = fields.scores
    if scores is None:
        scores = None not in numbers and (not whole or len(names) > MOST_CLASSES)
    if scores:
        if None in numbers:
            raise IsotropyError(
                f"{path}: row {numbers.index(None) + 1}: {fields.label}: expected a score, got "
                f"{shown(values[numbers.index(None)])}"
            )
        if len(fields.texts) != 2:
            raise IsotropyError(
                f"{path}: {fields.label}: read as scores, and scores are of pairs: give --text "
                f"twice; if they are classes, at most {MOST_CLASSES}, add --classes"
            )
        return None
    if not 2 <= len(names) <= MOST_CLASSES:
        raise IsotropyError(
            f"{path}: {fields.label}: expected 2 to {MOST_CLASSES} classes, got {len(names)}"
        )
    return names


def _natural(name: str) -> tuple[float, str]:
    """Numbers in their order, before words."""
    number = _number(name)
    return (float("inf") if number is None else number, name)


def _number(value: object) -> float | None:
    try:
        found = float(str(value))
    except ValueError:
        return None
    return found if found == found and abs(found) != float("inf") else None


def _about(
    facts: dict[str, Any], fields: Fields, rows: list[Row], classes: list[str] | None
) -> list[str]:
    about = [f"{facts['rows']:,} rows, {facts['unique_texts']:,} different texts"]
    if classes:
        counts = [sum(row.label == i for row in rows) for i in range(len(classes))]
        named = [f"{shown(n)} ({count:,})" for n, count in zip(classes, counts, strict=True)]
        about.append(f"{len(classes)} classes: {', '.join(named[:10])}")
    elif fields.label is not None:
        values = [float(row.label) for row in rows]
        about.append(f"scores from {min(values):g} to {max(values):g}")
    else:
        about.append("running text, without labels")
    return about
