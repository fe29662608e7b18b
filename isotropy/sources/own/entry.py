"""The file of a user's own entries: `config/local/sources.yaml`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from isotropy.errors import IsotropyError, shown
from isotropy.files import atomic
from isotropy.sources.entries import Mistake, source
from isotropy.sources.registry import LOCAL, NAME, Registry
from isotropy.templates import read_yaml

HEAD = "# Your own sources, written by `isotropy sources add`; git ignores this file.\n"


def local_file(registry: Path) -> Path:
    """Where a user's own entries are, beside the registry's folder."""
    return registry.parent / LOCAL


def require_name(name: str) -> str:
    """The name, if it can be one of a source.

    Raises:
        IsotropyError: it has other characters.
    """
    if not re.fullmatch(NAME, name) or "--" in name:
        raise IsotropyError(
            f"--name: expected letters, digits, _ and single -, got {name!r}: choose another name"
        )
    return name


def plain_name(text: str) -> str:
    """A name of a source from the name of a file or repository: other characters become hyphens."""
    return re.sub(r"-+", "-", re.sub(r"[^A-Za-z0-9_-]+", "-", text)).strip("-_")


def add(
    file: Path, registry: Registry, name: str, entry: dict[str, Any], cite: str, *, replace: bool
) -> None:
    """Write an entry, checked as the registry checks it.

    Args:
        file: the user's own file.
        registry: all entries that there are.
        name: id of the entry.
        entry: as a file has it, but for the citation.
        cite: what to cite.
        replace: whether it may take the place of one of the user's own entries.

    Raises:
        IsotropyError: the name is taken, or an entry does not fit.
    """
    known = _read(file)
    if name in registry.sources and name not in known["sources"]:
        raise IsotropyError(f"the registry has a source {name!r}: choose another with --name")
    if name in known["sources"] and not replace:
        raise IsotropyError(f"{file} has {name!r}: add --replace, or choose another with --name")
    key = f"own-{name}"
    whole = {**entry, "citation": key}
    try:
        source(None, whole, {key: cite})
    except Mistake as error:
        raise IsotropyError(f"{name}.{error.field}: {error}") from error
    known["sources"][name], known["citations"][key] = whole, cite
    text = HEAD + yaml.safe_dump(known, sort_keys=False, allow_unicode=True, width=100)
    with atomic(file) as temporary:
        temporary.write_text(text, "utf8")


def _read(file: Path) -> dict[str, dict[str, Any]]:
    """Sections of the user's file; empty ones where there is no file."""
    data = read_yaml(file) if file.is_file() else None
    data = {} if data is None else data
    if not isinstance(data, dict) or not all(isinstance(one, dict) for one in data.values()):
        raise IsotropyError(f"{file}: expected the keys sources and citations, got {shown(data)}")
    return {key: dict(data.get(key) or {}) for key in ("sources", "citations")}
