"""The file of a user's own entries: `config/local/sources.yaml`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from isotropy.errors import IsotropyError, format_value
from isotropy.files import atomic
from replication.sources.entries import EntryError, parse_source
from replication.sources.registry import LOCAL, NAME, Registry
from replication.templates import read_yaml

HEADER = "# Your own sources, written by `isotropy sources add`; git ignores this file.\n"


def local_file(registry: Path) -> Path:
    """Path of the file of a user's own entries, beside the registry's folder."""
    return registry.parent / LOCAL


def require_name(name: str) -> str:
    """Return a name if it is a valid id of a source.

    Raises:
        IsotropyError: it has characters that an id cannot have.
    """
    if not re.fullmatch(NAME, name) or "--" in name:
        raise IsotropyError(
            f"--name: expected letters, digits, _ and single -, got {name!r}: choose another name"
        )
    return name


def plain_name(text: str) -> str:
    """Make an id from the name of a file or repository: invalid characters become hyphens."""
    return re.sub(r"-+", "-", re.sub(r"[^A-Za-z0-9_-]+", "-", text)).strip("-_")


def add(
    file: Path, registry: Registry, name: str, entry: dict[str, Any], cite: str, *, replace: bool
) -> None:
    """Validate an entry as the registry does, and write it.

    Args:
        file: the user's own file.
        registry: all existing entries.
        name: id of the entry.
        entry: its fields, without the citation.
        cite: what to cite.
        replace: whether it may replace one of the user's own entries.

    Raises:
        IsotropyError: the name is taken, or the entry is invalid.
    """
    sections = _read(file)
    if name in registry.sources and name not in sections["sources"]:
        raise IsotropyError(f"the registry has a source {name!r}: choose another with --name")
    if name in sections["sources"] and not replace:
        raise IsotropyError(f"{file} has {name!r}: add --replace, or choose another with --name")
    key = f"own-{name}"
    cited = {**entry, "citation": key}
    try:
        parse_source(None, cited, {key: cite})
    except EntryError as error:
        raise IsotropyError(f"{name}.{error.field}: {error}") from error
    sections["sources"][name], sections["citations"][key] = cited, cite
    text = HEADER + yaml.safe_dump(sections, sort_keys=False, allow_unicode=True, width=100)
    with atomic(file) as temporary:
        temporary.write_text(text, "utf8")


def _read(file: Path) -> dict[str, dict[str, Any]]:
    """Sections of the user's file; empty ones where there is no file."""
    data = read_yaml(file) if file.is_file() else None
    data = {} if data is None else data
    if not isinstance(data, dict) or not all(
        isinstance(section, dict) for section in data.values()
    ):
        raise IsotropyError(
            f"{file}: expected the keys sources and citations, got {format_value(data)}"
        )
    return {key: dict(data.get(key) or {}) for key in ("sources", "citations")}
