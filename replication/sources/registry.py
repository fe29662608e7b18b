"""The source registry: every model, data set, file of vectors and lexicon that a study can name.

The entries are data: `config/sources/*.yaml`, a file per kind, each with `sources` (by id) and
`citations` (by key); and a user's own in `config/local/sources.yaml`, each with its `kind`.
`entries` says what an entry may leave out, `replication.templates` how a template of
entries is written once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from isotropy.errors import IsotropyError, format_value
from replication.sources.entries import EntryError, parse_control, parse_source
from replication.sources.sizes import Size
from replication.sources.spec import Source, Tier
from replication.spec import Strict
from replication.templates import expand_template, fill, read_yaml

__all__ = ["FILES", "Registry", "Source", "Tier", "load_registry"]

FILES = {"models": "model", "datasets": "dataset", "vectors": "vectors", "lexicons": "lexicon"}
"""Files of the registry, without `.yaml`, and the kind of their entries."""
LOCAL = "local/sources.yaml"
"""A user's own entries, of all kinds, beside the registry's folder: `isotropy sources add` writes
them, and git ignores them."""

NAME = r"[A-Za-z0-9][A-Za-z0-9_-]*"
"""Pattern of the ids of sources, which become parts of paths."""


class Registry(Strict):
    """The whole registry, by id of the source."""

    sources: dict[str, Source]
    sizes: dict[str, Size] = {}
    """Sizes of sources, where the entry states one. They are in no spec, so that correcting a size
    makes no job run again."""


class _Entry(NamedTuple):
    file: Path
    id: str
    value: Any


def load_registry(folder: Path) -> Registry:
    """Read and validate the registry's files.

    Raises:
        IsotropyError: a missing folder or file, invalid YAML, a duplicate id, or an invalid entry;
            the message names the file, the entry and the field.
    """
    files = {path: _sections(path) for path in _files(folder)}
    citations = _citations(files)
    sources: dict[str, Source] = {}
    sizes: dict[str, Size] = {}
    places: dict[str, Path] = {}
    controls: list[_Entry] = []
    for entry in _entries(files):
        if entry.id in places:
            raise _error(entry.file, entry.id, f"duplicate entry, also in {places[entry.id]}")
        if not re.fullmatch(NAME, entry.id):
            raise _error(entry.file, entry.id, "expected an id of letters, digits, - and _")
        places[entry.id] = entry.file
        if isinstance(entry.value, dict) and "random" in entry.value:
            controls.append(entry)
            continue
        try:
            kind = FILES.get(entry.file.stem) if entry.file.parent == folder else None
            sources[entry.id], size = parse_source(kind, entry.value, citations)
        except EntryError as error:
            raise _error(entry.file, entry.id, str(error), error.field) from error
        if size is not None:
            sizes[entry.id] = size
    for entry in controls:
        try:
            like, sources[entry.id] = parse_control(entry.value, sources)
        except EntryError as error:
            raise _error(entry.file, entry.id, str(error), error.field) from error
        if like in sizes:
            sizes[entry.id] = sizes[like]
    return Registry(sources=sources, sizes=sizes)


def _error(file: Path, entry: str, message: str, field: str = "") -> IsotropyError:
    """An error in the registry, with its file, entry and field."""
    return IsotropyError(f"source registry {file}: {entry}{'.' * bool(field)}{field}: {message}")


def _files(folder: Path) -> list[Path]:
    """The registry's files in a folder, in the order of `FILES`."""
    expected = ", ".join(f"{stem}.yaml" for stem in FILES)
    paths = {path.stem: path for path in sorted(folder.glob("*.yaml"))}
    unknown = sorted(set(paths) - set(FILES))
    if unknown or not paths:
        got = f"{unknown[0]}.yaml" if unknown else "no such file"
        raise IsotropyError(f"source registry {folder}: expected files {expected}, got {got}")
    local_file = folder.parent / LOCAL
    return [
        *(paths[stem] for stem in FILES if stem in paths),
        *([local_file] if local_file.is_file() else []),
    ]


def _sections(path: Path) -> dict[str, dict[Any, Any]]:
    """The sections of a file: `sources` and `citations`."""
    try:
        data = read_yaml(path)
    except IsotropyError as error:
        raise IsotropyError(f"source registry {error}") from error
    data = {} if data is None and path.name == Path(LOCAL).name else data
    if not isinstance(data, dict) or not set(data) <= {"sources", "citations"}:
        raise IsotropyError(f"source registry {path}: expected the keys sources and citations")
    for key, section in data.items():
        if not isinstance(section, dict):
            raise _error(path, key, f"expected a mapping, got {format_value(section)}")
    return data


def _citations(files: dict[Path, dict[str, dict[Any, Any]]]) -> dict[str, str]:
    """The citations of all files, by key."""
    citations: dict[str, str] = {}
    for path, sections in files.items():
        for key, text in sections.get("citations", {}).items():
            if key in citations:
                raise _error(path, f"citations.{key}", "duplicate key, also in another file")
            if not isinstance(text, str):
                raise _error(path, f"citations.{key}", f"expected text, got {format_value(text)}")
            citations[key] = text
    return citations


def _entries(files: dict[Path, dict[str, dict[Any, Any]]]) -> Iterator[_Entry]:
    """All entries; families (`replication.templates`) are expanded."""
    for path, sections in files.items():
        for template, value in sections.get("sources", {}).items():
            try:
                for values, entry in expand_template(value):
                    yield _Entry(path, str(fill(template, values)), fill(entry, values))
            except ValueError as error:
                raise _error(path, template, str(error)) from error
