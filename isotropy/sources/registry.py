"""The source registry: every model, data set, file of vectors and lexicon that a study can name.

The entries are data: `config/sources/*.yaml`, a file per kind, each with `sources` (by id) and
`citations` (by key); and a user's own in `config/local/sources.yaml`, each with its `kind`.
`isotropy.sources.entries` says what an entry may leave out, `isotropy.templates` how a family of
entries is written once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from isotropy.errors import IsotropyError, shown
from isotropy.sources.entries import Mistake, control, source
from isotropy.sources.sizes import Size
from isotropy.sources.spec import Source, Tier
from isotropy.spec import Strict
from isotropy.templates import fill, members, read_yaml

__all__ = ["FILES", "Registry", "Source", "Tier", "load_registry"]

FILES = {"models": "model", "datasets": "dataset", "vectors": "vectors", "lexicons": "lexicon"}
"""Files of the registry, without `.yaml`, and the kind of their entries."""
LOCAL = "local/sources.yaml"
"""A user's own entries, of all kinds, beside the registry's folder: `isotropy sources add` writes
them, and git ignores them."""

NAME = r"[A-Za-z0-9][A-Za-z0-9_-]*"
"""Ids of sources become parts of paths."""


class Registry(Strict):
    """The whole registry, by id of the source."""

    sources: dict[str, Source]
    sizes: dict[str, Size] = {}
    """Sizes of the sources whose entries have one. No spec has them, so that a corrected size
    fetches nothing again."""


class _Entry(NamedTuple):
    file: Path
    id: str
    value: Any


def load_registry(folder: Path) -> Registry:
    """Read and validate the registry's files.

    Raises:
        IsotropyError: no such folder or file, bad YAML, an id that two entries have, or an entry
            that does not fit; with the file, the entry and the field.
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
            sources[entry.id], size = source(kind, entry.value, citations)
        except Mistake as error:
            raise _error(entry.file, entry.id, str(error), error.field) from error
        if size is not None:
            sizes[entry.id] = size
    for entry in controls:
        try:
            like, sources[entry.id] = control(entry.value, sources)
        except Mistake as error:
            raise _error(entry.file, entry.id, str(error), error.field) from error
        if like in sizes:
            sizes[entry.id] = sizes[like]
    return Registry(sources=sources, sizes=sizes)


def _error(file: Path, entry: str, message: str, field: str = "") -> IsotropyError:
    """A mistake in the registry, with its place."""
    return IsotropyError(f"source registry {file}: {entry}{'.' * bool(field)}{field}: {message}")


def _files(folder: Path) -> list[Path]:
    """The registry's files in a folder, in the order of `FILES`."""
    expected = ", ".join(f"{stem}.yaml" for stem in FILES)
    found = {path.stem: path for path in sorted(folder.glob("*.yaml"))}
    strange = sorted(set(found) - set(FILES))
    if strange or not found:
        got = f"{strange[0]}.yaml" if strange else "no such file"
        raise IsotropyError(f"source registry {folder}: expected files {expected}, got {got}")
    own = folder.parent / LOCAL
    return [*(found[stem] for stem in FILES if stem in found), *([own] if own.is_file() else [])]


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
            raise _error(path, key, f"expected a mapping, got {shown(section)}")
    return data


def _citations(files: dict[Path, dict[str, dict[Any, Any]]]) -> dict[str, str]:
    """The citations of all files, by key."""
    found: dict[str, str] = {}
    for path, sections in files.items():
        for key, text in sections.get("citations", {}).items():
            if key in found:
                raise _error(path, f"citations.{key}", "duplicate key, also in another file")
            if not isinstance(text, str):
                raise _error(path, f"citations.{key}", f"expected text, got {shown(text)}")
            found[key] = text
    return found


def _entries(files: dict[Path, dict[str, dict[Any, Any]]]) -> Iterator[_Entry]:
    """All entries, families written out."""
    for path, sections in files.items():
        for template, value in sections.get("sources", {}).items():
            try:
                for values, one in members(value):
                    yield _Entry(path, str(fill(template, values)), fill(one, values))
            except ValueError as error:
                raise _error(path, template, str(error)) from error
