"""Add a user's own source to the registry, and print how to use it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from isotropy.errors import IsotropyError
from replication.sources.own import entry, models, texts
from replication.sources.own.hub import HUB, Repository, find_repository
from replication.sources.own.models import NewEntry
from replication.sources.registry import Registry, load_registry
from replication.sources.spec import HubOrigin

REGISTRY = Path("config/sources")
NO_CHECKOUT = "{} is not a checkout of isotropy (no config/sources): run there, or give --project"


class AddRequest(NamedTuple):
    """The arguments of `isotropy sources add`."""

    what: str
    text: list[str]
    label: str | None = None
    scores: bool | None = None
    file: str | None = None
    pooling: str | None = None
    name: str | None = None
    licence: str | None = None
    replace: bool = False


def add_source(project: Path, request: AddRequest) -> list[str]:
    """Write the entry of a user's own source.

    Args:
        project: the checkout.
        request: the arguments of the command.

    Returns:
        Lines for the user; lines of configuration are indented.

    Raises:
        IsotropyError: the source cannot be added; nothing is written.
    """
    if not (project / REGISTRY).is_dir():
        raise IsotropyError(NO_CHECKOUT.format(project))
    _check_options(request)
    registry = load_registry(project / REGISTRY)
    name, new_entry, cite = _make_entry(registry, request)
    file = entry.local_file(project / REGISTRY)
    fields = new_entry.entry | {"citation": cite}
    entry.add(file, registry, name, fields, replace=request.replace)
    return [
        f"{file}: added {name}",
        *(f"  {line}" for line in new_entry.about),
        "",
        f"To study it, write these lines into config/local/{name}.yaml; several sources can stand "
        "in one list:",
        "",
        *_configuration(name, new_entry.entry),
        "",
        "and run:",
        "",
        f"  .venv/bin/snakemake --cores all --configfile config/local/{name}.yaml "
        f"--directory studies/{name}",
    ]


def _check_options(request: AddRequest) -> None:
    """Refuse options that do not apply to the kind of source."""
    path = Path(request.what).expanduser()
    values = [("label", request.label), ("file", request.file), ("scores", request.scores)]
    options = [f"--{name}" for name, value in values if value is not None]
    if path.is_dir() and (request.text or options):
        option = "--text" if request.text else options[0]
        raise IsotropyError(
            f"{request.what} is a folder, so it is read as a model; {option} is for data sets, "
            "which are a file or hub:ORG/NAME"
        )
    is_data = bool(request.text or request.file) or path.is_file()
    if is_data and request.pooling is not None:
        raise IsotropyError("--pooling is for models, this is a data set")
    if not is_data and options:
        raise IsotropyError(f"{options[0]} is for data sets: add --text")
    if request.file is not None and not request.what.startswith(HUB):
        raise IsotropyError("--file names a file of a hub's data set, this is a local file")
    if request.scores is not None and request.label is None:
        raise IsotropyError("--scores and --classes say what labels are: add --label")
    if len(set(request.text)) < len(request.text) or len(request.text) > 2:
        raise IsotropyError(
            f"--text: expected one field, or two of a pair, got {', '.join(request.text)}"
        )


def _make_entry(registry: Registry, request: AddRequest) -> tuple[str, NewEntry, str]:
    """Make the entry: its id, the entry itself, and what to cite."""
    fields = texts.Fields(request.text, request.label, request.scores)
    if request.what.startswith(HUB):
        hub_repository = find_repository(
            request.what, "dataset" if request.text or request.file else "model"
        )
        name = _name(request, hub_repository.id.split("/")[1])
        cite = f"{hub_repository.id} at {hub_repository.revision}"
        if hub_repository.type == "dataset":
            new_entry = texts.entry_from_hub(
                hub_repository, name, fields, request.file, request.licence
            )
        else:
            _require_new(registry, hub_repository)
            new_entry = models.entry_from_hub(
                hub_repository, name, request.pooling, request.licence
            )
        return name, new_entry, cite
    path = Path(request.what).expanduser()
    if path.is_dir():
        name = _name(request, path.resolve().name)
        return (
            name,
            models.entry_from_folder(path, name, request.pooling, request.licence),
            f"folder {name}",
        )
    if path.is_file():
        name = _name(request, path.stem)
        return name, texts.entry_from_file(path, name, fields, request.licence), f"file {path.name}"
    if request.what in registry.sources:
        raise IsotropyError(f"{request.what} is in the source registry already: use this name")
    id_of_hub = re.fullmatch(r"[\w.-]+/[\w.-]+(@\w+)?", request.what)
    hint = f"for a hub, write hub:{request.what}" if id_of_hub else "for a hub, write hub:ORG/NAME"
    raise IsotropyError(f"{request.what}: no such file or folder; {hint}")


def _name(request: AddRequest, default: str) -> str:
    name = entry.plain_name(default) if request.name is None else request.name
    if request.name is None and not name:
        raise IsotropyError(f"no id can be made from {default!r}: give --name")
    return entry.require_name(name)


def _require_new(registry: Registry, hub_repository: Repository) -> None:
    """Refuse a model that the project's own registry has at the same revision."""
    for name, source in registry.sources.items():
        for origin in source.origins:
            is_same = isinstance(origin, HubOrigin) and (origin.repo, origin.revision) == (
                hub_repository.id,
                hub_repository.revision,
            )
            if is_same and not source.citation.startswith(hub_repository.id):
                raise IsotropyError(
                    f"{hub_repository.id}: the registry has it as {name!r}: use that name"
                )


def _configuration(name: str, fields: dict[str, Any]) -> list[str]:
    """Indented lines of a configuration that studies the source."""
    model = fields["kind"] == "model"
    extension: dict[str, Any] = {"models": [name if model else "all-MiniLM-L6-v2"]}
    if not model:
        extension["datasets"] = [name]  # beside a model of the registry
    text = yaml.safe_dump({"study": name, "extension": extension}, sort_keys=False)
    return [f"  {line}" for line in text.splitlines()]
