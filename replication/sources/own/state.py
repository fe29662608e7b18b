"""The state of sources on this machine: which of their origins are available, and whether local
files have the digests in the registry.
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
from replication.sources import clients
from replication.sources.formats import read_rows
from replication.sources.own.add import NO_CHECKOUT, REGISTRY
from replication.sources.registry import Source, load_registry
from replication.sources.rows import verify_rows
from replication.sources.spec import (
    FileOrigin,
    HubOrigin,
    MirrorOrigin,
    Origin,
    PackageOrigin,
    RandomOrigin,
    UrlOrigin,
)

AVAILABLE = "available"
FETCH_FOLDER = RESULTS / "fetch"


def list_sources(project: Path) -> Iterator[str]:
    """Describe each source in one line."""
    for name, source in _load_sources(project).items():
        kinds = ", ".join(dict.fromkeys(origin.type for origin in source.origins))
        status = "/".join(dict.fromkeys(c.status for c in source.contents.values()))
        yield f"{name:34} {source.kind:8} {status:18} {kinds:28} {source.licence}"


def check_sources(
    project: Path, names: list[str], mirror: Path | None
) -> Iterator[tuple[str, bool]]:
    """For each source, a line on its origins, and whether it is fetched or can be."""
    sources = _load_sources(project)
    for name, source in _select(sources, names).items():
        base = source if source.random_origin is None else sources[source.random_origin.like]
        reasons = [(origin, _reason(origin, base, mirror)) for origin in base.origins]
        usable = [origin for origin, reason in reasons if reason == AVAILABLE]
        fetched = (project / FETCH_FOLDER / name).is_dir()
        details = "; ".join(f"{origin.describe()}: {reason}" for origin, reason in reasons)
        state = "fetched" if fetched else "available" if usable else "unavailable"
        yield f"{name}: {state}. {details}", bool(usable) or fetched


def verify_sources(
    project: Path, names: list[str], mirror: Path | None
) -> Iterator[tuple[str, bool]]:
    """For each source, a line on its local files that have a digest, and whether all of them match.
    Sources without such files are left out, unless they are named.
    """
    for name, source in _select(_load_sources(project), names).items():
        local_files = list(_files(project, name, source, mirror))
        mismatched = [path for path, expected in local_files if sha256_file(path) != expected]
        for path, matches in _check_local_data(source):
            local_files.append((path, ""))
            mismatched += [] if matches else [path]
        if local_files or names:
            n = len(local_files)
            state = f"{n - len(mismatched)} of {n} files match the registry"
            detail = f"; wrong digest: {', '.join(map(str, mismatched))}" if mismatched else ""
            yield (
                f"{name}: {state if local_files else 'no local file with a digest'}{detail}",
                not mismatched,
            )


def _load_sources(project: Path) -> dict[str, Source]:
    """All sources of a checkout. Raises IsotropyError: the folder is not a checkout."""
    if not (project / REGISTRY).is_dir():
        raise IsotropyError(NO_CHECKOUT.format(project))
    return load_registry(project / REGISTRY).sources


def _select(sources: dict[str, Source], names: list[str]) -> dict[str, Source]:
    for name in names:
        if name not in sources:
            raise IsotropyError(f"no source {name!r}: {suggest(name, sources, 'by sources list')}")
    return {name: sources[name] for name in names} if names else sources


def _reason(origin: Origin, source: Source, mirror: Path | None) -> str:
    """AVAILABLE, or the reason why an origin cannot be used."""
    if not source.can_verify(origin):
        return "its digest is not known (sources.trust_on_first_use accepts it)"
    match origin:
        case FileOrigin():
            missing = [m for m in origin.files.values() if not (Path(origin.folder) / m).is_file()]
            return f"{missing[0]} is not there" if missing else AVAILABLE
        case RandomOrigin():
            return AVAILABLE  # `check_sources` checks the model that it is like
        case MirrorOrigin():
            if mirror is None:
                return "no mirror is named (--mirror)"
            members = [origin.archive] if origin.archive else list(origin.files.values())
            missing = [m for m in members if not (mirror / m).is_file()]
            return f"{missing[0]} is not in the mirror" if missing else AVAILABLE
        case PackageOrigin():
            client = clients.package_command(origin.client, "x", "1")[0]
            return AVAILABLE if shutil.which(client) else f"{client} is not on PATH"
        case HubOrigin():
            copies = [clients.cached_file(origin, member) for member in origin.files.values()]
            return AVAILABLE if all(copies) else _check_host(_hub())
        case UrlOrigin():
            parts = urlsplit(origin.url)
            return _check_host(f"{parts.scheme}://{parts.netloc}")


def _hub() -> str:
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    from huggingface_hub import constants

    return str(constants.ENDPOINT)


@cache
def _check_host(address: str) -> str:
    """AVAILABLE if a host answers, else the reason; each host is asked once."""
    try:
        clients.require_reachable(address)
    except clients.Unavailable as error:
        return str(error)
    return AVAILABLE


def _files(
    project: Path, name: str, source: Source, mirror: Path | None
) -> Iterator[tuple[Path, str]]:
    """Files of a source on this machine, each with its digest in the registry."""
    for content in source.contents.values():
        for file, sha256 in content.files.items():
            if (path := project / FETCH_FOLDER / name / file).is_file():
                yield path, sha256
    for origin in source.origins:
        digests = source.contents[origin.content].files
        for file, member in origin.files.items():
            copy = _local_path(origin, member, mirror)
            if copy is not None and copy.is_file() and file in digests:
                yield copy, digests[file]


def _check_local_data(source: Source) -> Iterator[tuple[Path, bool]]:
    """Files in a user's own folders whose registry entry has a digest of the rows, and whether the
    rows match it.
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
                matches = True
            except IsotropyError:
                matches = False
        for path in paths.values():
            yield path, matches


def _local_path(origin: Origin, member: str, mirror: Path | None) -> Path | None:
    """Path of a file of an origin on this machine; None for origins without local files."""
    match origin:
        case FileOrigin():
            return Path(origin.folder) / member
        case MirrorOrigin() if mirror is not None and origin.archive is None:
            return mirror / member
        case HubOrigin():
            return clients.cached_file(origin, member)
    return None
