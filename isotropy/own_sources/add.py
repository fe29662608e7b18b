"""Add a source of one's own to the registry, and say how to use it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import yaml

from isotropy.errors import IsotropyError
from isotropy.own_sources import entry, models, texts
from isotropy.own_sources.hub import HUB, Repository, repository
from isotropy.own_sources.models import Found
from isotropy.sources.registry import Registry, load_registry
from isotropy.sources.spec import HubOrigin

REGISTRY = Path("config/sources")


class Wanted(NamedTuple):
    """What is asked for: the arguments of `isotropy sources add`."""

    what: str
    text: list[str]
    label: str | None = None
    scores: bool | None = None
    file: str | None = None
    pooling: str | None = None
    name: str | None = None
    licence: str | None = None
    replace: bool = False


def add_source(project: Path, wanted: Wanted) -> list[str]:
    """Write the entry.

    Args:
        project: the checkout.
        wanted: what is asked for.

    Returns:
        Lines for the user; lines of configuration are indented.

    Raises:
        IsotropyError: what cannot be done, in one sentence; nothing is written.
    """
    if not (project / REGISTRY).is_dir():
        raise IsotropyError(f"{project}: no checkout, which has {REGISTRY}: give --project")
    _require_fitting(wanted)
    registry = load_registry(project / REGISTRY)
    name, found, cite = _found(registry, wanted)
    file = entry.local_file(project / REGISTRY)
    entry.add(file, registry, name, found.entry, cite, replace=wanted.replace)
    return [
        f"{file}: added {name}",
        *(f"  {line}" for line in found.about),
        "",
        f"To study it, write these lines into config/local/{name}.yaml:",
        "",
        *_configuration(name, found.entry),
        "",
        "and run:",
        "",
        f"  .venv/bin/snakemake --cores all --configfile config/local/{name}.yaml "
        f"--directory studies/{name}",
    ]


def _require_fitting(wanted: Wanted) -> None:
    of_texts = bool(wanted.text) or Path(wanted.what).is_file()
    if of_texts and wanted.pooling is not None:
        raise IsotropyError("--pooling is for models, this is a data set")
    if not of_texts and (wanted.label or wanted.file or wanted.scores is not None):
        raise IsotropyError("--label, --file, --scores and --classes are for data sets: add --text")


def _found(registry: Registry, wanted: Wanted) -> tuple[str, Found, str]:
    """Id, entry, and what to cite."""
    fields = texts.Fields(wanted.text, wanted.label, wanted.scores)
    if wanted.what.startswith(HUB):
        there = repository(wanted.what, "dataset" if wanted.text else "model")
        _require_new(registry, there)
        name = _name(wanted, there.id.split("/")[1])
        cite = f"{there.id} at {there.revision}"
        if wanted.text:
            found = texts.of_hub(there, name, fields, wanted.file, wanted.licence)
        else:
            found = models.of_hub(there, name, wanted.pooling, wanted.licence)
        return name, found, cite
    path = Path(wanted.what).expanduser()
    if path.is_dir():
        if wanted.text:
            raise IsotropyError(f"{path}: is a folder; --text is for a file of texts")
        name = _name(wanted, path.resolve().name)
        return name, models.of_folder(path, name, wanted.pooling, wanted.licence), f"folder {name}"
    if path.is_file():
        name = _name(wanted, path.stem)
        return name, texts.of_file(path, name, fields, wanted.licence), f"file {path.name}"
    raise IsotropyError(
        f"{wanted.what}: no such file or folder; a repository of a hub is hub:ORG/NAME"
    )


def _name(wanted: Wanted, default: str) -> str:
    return entry.require_name(wanted.name or entry.plain_name(default))


def _require_new(registry: Registry, there: Repository) -> None:
    """Refuse a repository at a revision that the project's own registry has."""
    for name, source in registry.sources.items():
        for origin in source.origins:
            same = isinstance(origin, HubOrigin) and (origin.repo, origin.revision) == (
                there.id,
                there.revision,
            )
            if same and not source.citation.startswith(there.id):
                raise IsotropyError(f"{there.id}: the registry has it as {name!r}: use that name")


def _configuration(name: str, found: dict[str, Any]) -> list[str]:
    """Lines of configuration, indented."""
    model = found["kind"] == "model"
    extension: dict[str, Any] = {"models": [name if model else "all-MiniLM-L6-v2"]}
    if not model:
        extension["datasets"] = [name]
    text = yaml.safe_dump({"study": name, "extension": extension}, sort_keys=False)
    return [f"  {line}" for line in text.splitlines()]
