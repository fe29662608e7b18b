"""Make the entry of a data set or corpus in a file or on a hub: rows, classes, digests."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from isotropy.errors import IsotropyError, format_value
from isotropy.read.table_text import class_name
from isotropy.read.text_files import Column, note_table, read_texts, read_values
from replication.sources.formats import Row, content_sha256, read_rows, verify_rows
from replication.sources.own.hub import Repository
from replication.sources.own.models import NewEntry
from replication.sources.spec import Content

READERS = {
    ".csv": "csv-table",
    ".tsv": "csv-table",
    ".jsonl": "jsonl-table",
    ".parquet": "parquet-table",
    ".txt": "lines",
}
"""Format of each suffix."""
JSON_LINES = (".ndjson", ".json")
PAYLOAD = {".txt": "lines.txt"}
VECTORS = (".vec", ".glove", ".w2v", ".bin", ".npy", ".npz", ".safetensors")
NO_VECTORS = "vectors cannot be added, `isotropy measure` reads them"
LINES_LOOKED_AT = 100
MAX_CLASSES = 50


class Fields(NamedTuple):
    """The fields of a file that hold texts and labels.

    Attributes:
        texts: text fields of an item: one, or two for a pair.
        label: field of the class or score; None: running text without labels.
        scores: whether labels are scores; None: inferred from the values.
    """

    texts: Sequence[str]
    label: str | None
    scores: bool | None


def entry_from_file(path: Path, name: str, fields: Fields, licence: str | None) -> NewEntry:
    """Make the entry of a data set in a file.

    Raises:
        IsotropyError: an unreadable file, or rows that are no data set.
    """
    payload = _payload_name(path)
    origin = {
        "type": "file",
        "content": "file",
        "folder": str(path.resolve().parent),
        "files": {payload: path.resolve().name},
    }
    return _make_entry(path, name, fields, origin, licence or "not stated")


def entry_from_hub(
    repository: Repository, name: str, fields: Fields, file: str | None, licence: str | None
) -> NewEntry:
    """Make the entry of a data set on a hub, from one of its files.

    Raises:
        IsotropyError: no such file, several possible files, or an unreadable one.
    """
    readable = [f for f in repository.files if _suffix(Path(f)) in READERS]
    data_files = [
        f for f in readable if not f.endswith((".json", ".txt"))
    ]  # these are often not data
    if file is None and len(data_files) == 1:
        file = data_files[0]
    if file not in readable:
        listing = ", ".join(sorted(data_files)[:8]) or "no file of texts"
        raise IsotropyError(
            f"{repository.id}: name the file of one split with --file; it has {listing}"
        )
    path = repository.folder([file]) / file
    origin = {
        "type": "hub",
        "content": "file",
        "repo": repository.id,
        "repo_type": "dataset",
        "revision": repository.revision,
        "files": {_payload_name(path): file},
    }
    new_entry = _make_entry(
        path, name, fields, origin, licence or repository.licence or "not stated"
    )
    other_files = [f for f in data_files if f != file]
    remarks = [f"other files: {', '.join(sorted(other_files)[:8])}"] if other_files else []
    return NewEntry(new_entry.entry, new_entry.about + remarks)


def _payload_name(path: Path) -> str:
    """The name of a file in the payload of its source."""
    suffix = _suffix(path)
    if suffix in VECTORS:
        raise IsotropyError(f"{path}: expected texts, got {suffix}: {NO_VECTORS}")
    if suffix not in READERS:
        got = path.suffix or "no suffix"
        kinds = ", ".join([*READERS, *JSON_LINES])
        raise IsotropyError(f"{path}: expected one of {kinds}, got {got}")
    return PAYLOAD.get(suffix, f"data{suffix}")


def _suffix(path: Path) -> str:
    return ".jsonl" if path.suffix.lower() in JSON_LINES else path.suffix.lower()


def _make_entry(
    path: Path, name: str, fields: Fields, origin: dict[str, Any], licence: str
) -> NewEntry:
    """Make the entry from the rows of a file."""
    payload = _payload_name(path)
    if not fields.texts and payload != "lines.txt":
        raise IsotropyError(f"{path}: name one or two fields of texts with --text, got none")
    if fields.label is None and len(fields.texts) > 1:
        raise IsotropyError(f"{path}: a pair needs a class or a score: name its field with --label")
    if payload == "lines.txt":
        _refuse_vectors(path)
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
    content_fields = content.model_dump(exclude_defaults=True, exclude={"status", "title"})
    content_fields |= {"label_field": fields.label, **facts}
    entry = {
        "kind": "corpus" if fields.label is None else "dataset",
        "licence": licence,
        "contents": {"file": {"status": "stand-in", "title": name} | content_fields},
        "origins": [origin],
    }
    return NewEntry(entry, _describe(facts, fields, rows, classes) + note_table(Column(path, None)))


def _refuse_vectors(path: Path) -> None:
    """Refuse word vectors, or a matrix: each of the first lines ends in two numbers or more.

    Raises:
        IsotropyError: the lines are vectors.
    """
    with path.open(encoding="utf-8-sig", errors="replace") as stream:
        lines = [line.split() for line in islice(stream, LINES_LOOKED_AT) if line.strip()]
    n_vectors = sum(len(x) > 1 and None not in map(_number, x[-2:]) for x in lines)
    if n_vectors == len(lines) > 1:
        raise IsotropyError(
            f"{path}: expected texts, got lines that end in numbers, as word vectors: {NO_VECTORS}"
        )


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
                f"{path}: {fields.label} {number}: expected a class or a score, "
                f"got {format_value(value)}"
            )
    names = sorted({class_name(value) for value in values}, key=_natural)
    numbers = [_number(value) for value in values]
    all_whole = all(n is not None and n.is_integer() for n in numbers)
    scores = fields.scores
    if scores is None:
        scores = None not in numbers and (not all_whole or len(names) > MAX_CLASSES)
    if scores:
        if None in numbers:
            raise IsotropyError(
                f"{path}: row {numbers.index(None) + 1}: {fields.label}: expected a score, got "
                f"{format_value(values[numbers.index(None)])}"
            )
        if len(fields.texts) != 2:
            raise IsotropyError(
                f"{path}: {fields.label}: read as scores, which need pairs of texts: give --text "
                f"twice; if they are classes, at most {MAX_CLASSES}, add --classes"
            )
        return None
    if not 2 <= len(names) <= MAX_CLASSES:
        raise IsotropyError(
            f"{path}: {fields.label}: expected 2 to {MAX_CLASSES} classes, got {len(names)}"
        )
    return names


def _natural(name: str) -> tuple[float, str]:
    """Key for sorting: numbers by their value, then words."""
    number = _number(name)
    return (float("inf") if number is None else number, name)


def _number(value: object) -> float | None:
    try:
        number = float(str(value))
    except ValueError:
        return None
    return number if number == number and abs(number) != float("inf") else None


def _describe(
    facts: dict[str, Any], fields: Fields, rows: list[Row], classes: list[str] | None
) -> list[str]:
    sentences = [f"{facts['rows']:,} rows, {facts['unique_texts']:,} different texts"]
    if classes:
        counts = [sum(row.label == i for row in rows) for i in range(len(classes))]
        named = [f"{format_value(n)} ({count:,})" for n, count in zip(classes, counts, strict=True)]
        sentences.append(f"{len(classes)} classes: {', '.join(named[:10])}")
    elif fields.label is not None:
        values = [float(row.label) for row in rows]
        sentences.append(f"scores from {min(values):g} to {max(values):g}")
    else:
        sentences.append("running text, without labels")
    return sentences
