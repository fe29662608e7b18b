"""Where sources are: by which origins they would come here, and whether what is on this machine is
what the registry names.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

from isotropy.errors import IsotropyError, suggest
from isotropy.files import RESULTS, sha256_file
from isotropy.sources import clients
from isotropy.sources.formats import read_rows
from isotropy.sources.own.add import NO_CHECKOUT, REGISTRY
from isotropy.sources.registry import Source, load_registry
from isotropy.sources.rows import verify_rows
from isotropy.sources.spec import (
    FileOrigin,
    HubOrigin,
    MirrorOrigin,
    Origin,
    PackageOrigin,
    RandomOrigin,
    UrlOrigin,
)

HERE = "available"
FETCHED = RESULTS / "fetch"


def listed(project: Path) -> Iterator[str]:
    """A line for each source."""
    for name, source in _registered(project).items():
        kinds = ", ".join(dict.fromkeys(origin.type for origin in source.origins))
        status = "/".join(dict.fromkeys(c.status for c in source.contents.values()))
        yield f"{name:34} {source.kind:8} {status:18} {kinds:28} {source.licence}"


def checked(project: Path, names: list[str], mirror: Path | None) -> Iterator[tuple[str, bool]]:
    """Of each source, its origins and whether they can be used; and whether one can."""
    sources = _registered(project)
    for name, source in _chosen(sources, names).items():
        base = source if source.control is None else sources[source.control.like]
        found = [(origin, _reason(origin, base, mirror)) for origin in base.origins]
        usable = [origin for origin, reason in found if reason == HERE]
        fetched = (project / FETCHED / name).is_dir()
        said = "; ".join(f"{origin.describe()}: {reason}" for origin, reason in found)
        state = "fetched" if fetched else "comes" if usable else "does not come"
        yield f"{name}: {state}. {said}", bool(usable) or fetched


def verified(project: Path, names: list[str], mirror: Path | None) -> Iterator[tuple[str, bool]]:
    """Of each source, the files with a digest that are on this machine, and whether all are right;
    a source of which nothing is here is left out, unless it is named.
    """
    for name, source in _chosen(_registered(project), names).items():
        there = list(_files(project, name, source, mirror))
        wrong = [path for path, expected in there if sha256_file(path) != expected]
        for path, right in _own_data(source):
            there.append((path, ""))
            wrong += [] if right else [path]
        if there or names:
            state = f"{len(there) - len(wrong)} of {len(there)} files as the registry says"
            more = f"; other bytes: {', '.join(map(str, wrong))}" if wrong else ""
            yield f"{name}: {state if there else 'no file with a digest here'}{more}", not wrong


def _registered(project: Path) -> dict[str, Source]:
    """All sources of a checkout. Raises IsotropyError: it is none."""
    if not (project / REGISTRY).is_dir():
        raise IsotropyError(NO_CHECKOUT.format(project))
    return load_registry(project / REGISTRY).sources


def _chosen(sources: dict[str, Source], names: list[str]) -> dict[str, Source]:
    for name in names:
        if name not in sources:
            raise IsotropyError(f"no source {name!r}: {suggest(name, sources, 'by sources list')}")
    return {name: sources[name] for name in names} if names else sources


def _reason(origin: Origin, source: Source, mirror: Path | None) -> str:
    """HERE, or why an origin cannot be used."""
    if not source.pins(origin):
        return "its digest is not known (sources.trust_on_first_use accepts it)"
    match origin:
        case FileOrigin():
            missing = [m for m in origin.files.values() if not (Path(origin.folder) / m).is_file()]
            return f"{missing[0]} is not there" if missing else HERE
        case RandomOrigin():
            return HERE  # of its model, `checked` asks
        case MirrorOrigin():
            if mirror is None:
                return "no mirror is named (--mirror)"
            wanted = [origin.archive] if origin.archive else list(origin.files.values())
            missing = [m for m in wanted if not (mirror / m).is_file()]
            return f"{missing[0]} is not in the mirror" if missing else HERE
        case PackageOrigin():
            client = clients.package_command(origin.client, "x", "1")[0]
            return HERE if shutil.which(client) else f"{client} is not on PATH"
        case HubOrigin():
            copies = [clients.in_cache(origin, member) for member in origin.files.values()]
            return HERE if all(copies) else _reached(_hub())
        case UrlOrigin():
            parts = urlsplit(origin.url)
            return _reached(f"{parts.scheme}://{parts.netloc}")


def _hub() -> str:
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    from huggingface_hub import constants

    return str(constants.ENDPOINT)


@cache
def _reached(address: str) -> str:
    """HERE if a host answers, asked once."""
    try:
        clients.require_reachable(address)
    except clients.Unavailable as error:
        return str(error)
    return HERE


def _files(
    project: Path, name: str, source: Source, mirror: Path | None
) -> Iterator[tuple[Path, str]]:
    """Files of a source on this machine, each with the digest that it must have."""
    for content in source.contents.values():
        for file, sha256 in content.files.items():
            if (path := project / FETCHED / name / file).is_file():
                yield path, sha256
    for origin in source.origins:
        digests = source.contents[origin.content].files
        for file, member in origin.files.items():
            copy = _copy(origin, member, mirror)
            if copy is not None and copy.is_file() and file in digests:
                yield copy, digests[file]


def _own_data(source: Source) -> Iterator[tuple[Path, bool]]:
    """Data in folders of the user's own, which have a digest of their rows; and whether it is that
    of the registry.
    """
    for origin in source.origins:
        content = source.contents[origin.content]
        if not isinstance(origin, FileOrigin) or content.content_sha256 is None:
            continue
        paths = {name: Path(origin.folder) / member for name, member in origin.files.items()}
        if not all(path.is_file() for path in paths.values()):
            continue
        with tempfile.TemporaryDirectory(prefix="isotropy-sources-") as folder:
            for name, path in paths.items():
                (Path(folder) / name).symlink_to(path)
            try:
                verify_rows(content, read_rows(content, Path(folder)))
                right = True
            except IsotropyError:
                right = False
        for path in paths.values():
            yield path, right


def _copy(origin: Origin, member: str, mirror: Path | None) -> Path | None:
    match origin:
        case FileOrigin():
            return Path(origin.folder) / member
        case MirrorOrigin() if mirror is not None and origin.archive is None:
            return mirror / member
        case HubOrigin():
            return clients.in_cache(origin, member)
    return None
