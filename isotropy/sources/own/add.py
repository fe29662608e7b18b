"""Add a source of one's own to the registry, and say how to use it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from isotropy.errors import IsotropyError
from isotropy.sources.own import entry, models, texts
from isotropy.sources.own.hub import HUB, Repository, repository
from isotropy.sources.own.models import Found
from isotropy.sources.registry import Registry, load_registry
from isotropy.sources.spec import HubOrigin

REGISTRY = Path("config/sources")
NO_CHECKOUT = "{} is not a checkout of isotropy (no config/sources): run there, or give --project"


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
        raise IsotropyError(NO_CHECKOUT.format(project))
    _require_fitting(wanted)
    registry = load_registry(project / REGISTRY)
    name, found, cite = _found(registry, wanted)
    file = entry.local_file(project / REGISTRY)
    entry.add(file, registry, name, found.entry, cite, replace=wanted.replace)
    return [
        f"{file}: added {name}",
        *(f"  {line}" for line in found.about),
        "",
        f"To study it, write these lines into config/local/{name}.yaml; several sources can stand "
        "in one list:",
        "",
        *_configuration(name, found.entry),
        "",
        "and run:",
        "",
        f"  .venv/bin/snakemake --cores all --configfile config/local/{name}.yaml "
        f"--directory studies/{name}",
    ]


def _require_fitting(wanted: Wanted) -> None:
    """Refuse options that do not belong to what is added."""
    here = Path(wanted.what).expanduser()
    given = [("label", wanted.label), ("file", wanted.file), ("scores", wanted.scores)]
    options = [f"--{name}" for name, value in given if value is not None]
    if here.is_dir() and (wanted.text or options):
        option = "--text" if wanted.text else options[0]
        raise IsotropyError(
            f"{wanted.what} is a folder, so it is read as a model; {option} is for data sets, "
            "which are a file or hub:ORG/NAME"
        )
    of_texts = bool(wanted.text or wanted.file) or here.is_file()
    if of_texts and wanted.pooling is not None:
        raise IsotropyError("--pooling is for models, this is a data set")
    if not of_texts and options:
        raise IsotropyError(f"{options[0]} is for data sets: add --text")
    if wanted.file is not None and not wanted.what.startswith(HUB):
        raise IsotropyError("--file names a file of a hub's data set, this is a local file")
    if wanted.scores is not None and wanted.label is None:
        raise IsotropyError("--scores and --classes say what labels are: add --label")
    if len(set(wanted.text)) < len(wanted.text) or len(wanted.text) > 2:
        raise IsotropyError(
            f"--text: expected one field, or two of a pair, got {', '.join(wanted.text)}"
        )


def _found(registry: Registry, wanted: Wanted) -> tuple[str, Found, str]:
    """Id, entry, and what to cite."""
    fields = texts.Fields(wanted.text, wanted.label, wanted.scores)
    if wanted.what.startswith(HUB):
        there = repository(wanted.what, "dataset" if wanted.text or wanted.file else "model")
        name = _name(wanted, there.id.split("/")[1])
        cite = f"{there.id} at {there.revision}"
        if there.type == "dataset":
            found = texts.of_hub(there, name, fields, wanted.file, wanted.licence)
        else:
            _require_new(registry, there)
            found = models.of_hub(there, name, wanted.pooling, wanted.licence)
        return name, found, cite
    path = Path(wanted.what).expanduser()
    if path.is_dir():
        name = _name(wanted, path.resolve().name)
        return name, models.of_folder(path, name, wanted.pooling, wanted.licence), f"folder {name}"
    if path.is_file():
        name = _name(wanted, path.stem)
        return name, texts.of_file(path, name, fields, wanted.licence), f"file {path.name}"
    if wanted.what in registry.sources:
        raise IsotropyError(f"{wanted.what} is in the source registry already: use this name")
    id_of_hub = re.fullmatch(r"[\w.-]+/[\w.-]+(@\w+)?", wanted.what)
    hint = f"for a hub, write hub:{wanted.what}" if id_of_hub else "a hub's is hub:ORG/NAME"
    raise IsotropyError(f"{wanted.what}: no such file or folder; {hint}")


def _name(wanted: Wanted, default: str) -> str:
    name = entry.plain_name(default) if wanted.name is None else wanted.name
    if wanted.name is None and not name:
        raise IsotropyError(f"no id can be made from {default!r}: give --name")
    return entry.require_name(name)


def _require_new(registry: Registry, there: Repository) -> None:
    """Refuse a model at a revision that the project's own registry has."""
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
        extension["datasets"] = [name]  # beside a model of the registry
    text = yaml.safe_dump({"study": name, "extension": extension}, sort_keys=False)
    return [f"  {line}" for line in text.splitlines()]
