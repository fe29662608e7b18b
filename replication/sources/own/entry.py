"""The file of a user's own entries: `config/local/sources.yaml`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from isotropy.errors import IsotropyError
from isotropy.files import atomic
from replication.sources.registry import LOCAL, NAME, Registry, parse_entries
from replication.yaml_files import read_yaml

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


def add(file: Path, registry: Registry, name: str, entry: dict[str, Any], *, replace: bool) -> None:
    """Validate an entry as the registry does, and write it.

    Args:
        file: the user's own file.
        registry: all existing entries.
        name: id of the entry.
        entry: its fields.
        replace: whether it may replace one of the user's own entries.

    Raises:
        IsotropyError: the name is taken, or an entry is invalid.
    """
    entries = (read_yaml(file) if file.is_file() else None) or {}
    parse_entries(file, entries)
    if name in registry.sources and name not in entries:
        raise IsotropyError(f"the registry has a source {name!r}: choose another with --name")
    if name in entries and not replace:
        raise IsotropyError(f"{file} has {name!r}: add --replace, or choose another with --name")
    entries[name] = entry
    parse_entries(file, entries)
    text = HEADER + yaml.safe_dump(entries, sort_keys=False, allow_unicode=True, width=100)
    with atomic(file) as temporary:
        temporary.write_text(text, "utf8")
