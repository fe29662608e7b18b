"""Fetch a source: try its origins in the configured order, verify the delivered files, and publish
all of them or none.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from isotropy.errors import IsotropyError
from isotropy.files import remove, sha256_file
from isotropy.read.archives import DISK_ERRORS
from replication.sources import clients
from replication.sources.formats import read_rows, verify_rows
from replication.sources.spec import (
    LOCAL_KINDS,
    FetchedSource,
    MirrorOrigin,
    Origin,
    Sha256,
    Source,
    Tier,
)
from replication.spec import Spec

log = logging.getLogger(__name__)

KINDS_WITH_ROWS = ("dataset", "corpus", "lexicon")
"""Kinds of sources that consist of rows (`read_rows`), which have a digest of their own."""


class FetchSpec(Spec):
    """The spec of a fetched source."""

    machine_fields = frozenset({"mirror", "folders"})

    id: str
    source: Source
    order: list[Tier]
    mirror: str | None = None
    local: dict[str, Sha256] = {}
    """Digests of those files in the mirror for which the registry has none, so that an edited file
    is fetched again."""
    folders: list[str] = []
    """Absolute paths of the source's local folders, in the order of its origins; in `source` only
    the last part of each path is left."""
    trust_on_first_use: bool


def mirror_digests(source: Source, usable: Sequence[Origin], mirror: Path) -> dict[str, str]:
    """Digests of those existing files in a mirror for which the registry has none.

    Args:
        source: the source.
        usable: the origins that may be tried.
        mirror: the mirror folder.
    """
    unknown = [o for o in usable if isinstance(o, MirrorOrigin) and not source.can_verify(o)]
    named = {name for o in unknown for name in ([o.archive] if o.archive else o.files.values())}
    digests = {}
    for name in sorted(named):
        with suppress(OSError):  # the fetch itself reports an unreadable file
            if (mirror / name).is_file():
                stat = (mirror / name).stat()
                digests[name] = _sha256(mirror / name, stat.st_size, stat.st_mtime_ns)
    return digests


@cache
def _sha256(path: Path, size: int, changed: int) -> str:
    """Digest of a file, cached by its size and time of modification."""
    return sha256_file(path)


def fetch(spec: FetchSpec, downloads: Path, destination: Path) -> tuple[FetchedSource, list[str]]:
    """Put a source's payload into `destination` (an empty folder), verified.

    Args:
        spec: the source and the order of origins.
        downloads: a folder that outlives a killed job, so that a complete download is not repeated.
        destination: where the payload files go.

    Returns:
        The fetched source, and the origins that were tried before, each with the reason why it was
        not used.

    Raises:
        IsotropyError: no origin could be used (with the reason for each), or the delivered files
            are not those that the registry expects.
    """
    downloads.mkdir(parents=True, exist_ok=True)
    origins = spec.source.usable_origins(spec.order, mirror=bool(spec.mirror))
    if not origins:
        raise IsotropyError(
            f"source {spec.id}: none of its origins is in sources.order ({', '.join(spec.order)})"
        )
    not_used: list[str] = []
    for origin in origins:
        try:
            _fetch_from(spec, origin, downloads, destination)
        except clients.Unavailable as error:
            reason = " ".join(str(error).split()).rstrip(".")  # errors can have several lines
            not_used.append(f"{origin.describe()}: {reason}")
            log.info("%s: not used: %s", spec.id, reason)
            for leftover in destination.iterdir():
                remove(leftover)
            continue
        result = _describe(spec, origin)
        log.info("%s: %s (%s)", spec.id, result.content.title, result.status)
        return result, not_used
    raise IsotropyError(
        f"source {spec.id}: no origin could be used. "
        + "; ".join(not_used)
        + _advice(spec, origins)
    )


def _advice(spec: FetchSpec, origins: Sequence[Origin]) -> str:
    """What to do if none of some origins could be used."""
    if all(origin.type in LOCAL_KINDS for origin in origins):
        return ". Put it back, or add it again: isotropy sources add PATH --replace"
    return ". Check the network" + (
        ", or name a mirror folder in sources.mirror" if spec.mirror is None else ""
    )


def _fetch_from(spec: FetchSpec, origin: Origin, downloads: Path, destination: Path) -> None:
    """Get a source from one origin, verified.

    Raises:
        clients.Unavailable: this origin cannot be used; try the next.
        IsotropyError: the origin delivered wrong or unreadable files.
    """
    try:
        log.info("%s: trying %s", spec.id, origin.describe())
        _require_digest(spec, origin)
        _deliver(spec, origin, downloads, destination)
        _verify(spec, origin, destination)
    except (IsotropyError, OSError) as error:
        if not (isinstance(error, OSError) and error.errno in DISK_ERRORS):
            remove(downloads)  # so that the next run does not resume a wrong download
        if isinstance(error, IsotropyError):
            raise
        raise IsotropyError(f"source {spec.id}: {error}") from error


def _verify(spec: FetchSpec, origin: Origin, folder: Path) -> None:
    """Compare a payload with the digests, row counts and content digest that the registry expects.

    Raises:
        IsotropyError: the first thing that differs.
    """
    content = spec.source.contents[origin.content]
    for name, expected in content.files.items():
        clients.require_sha256(folder / name, expected, f"{name} of source {spec.id}")
    if spec.source.kind in KINDS_WITH_ROWS:
        verify_rows(content, read_rows(content, folder))


def _describe(spec: FetchSpec, origin: Origin) -> FetchedSource:
    content = spec.source.contents[origin.content]
    return FetchedSource(
        id=spec.id,
        kind=spec.source.kind,
        status=content.status,
        content=content,
        origin=origin.describe(),
        licence=spec.source.licence,
        citation=spec.source.citation,
    )


def _require_digest(spec: FetchSpec, origin: Origin) -> None:
    """Refuse an origin whose files cannot be verified, unless the configuration trusts it."""
    if not spec.source.can_verify(origin) and not spec.trust_on_first_use:
        raise clients.Unavailable(
            "its sha256 is not known: set sources.trust_on_first_use to accept what comes and "
            "record it"
        )


def _deliver(spec: FetchSpec, origin: Origin, downloads: Path, destination: Path) -> None:
    match origin.type:
        case "hub":
            clients.fetch_from_hub(origin, downloads, destination)
        case "url":
            clients.fetch_from_url(origin, downloads, destination)
        case "mirror":
            clients.fetch_from_mirror(origin, Path(spec.mirror or ""), destination)
        case "package":
            clients.fetch_from_package(origin, downloads, destination)
        case "file":
            local_origins = [
                candidate for candidate in spec.source.origins if candidate.type == "file"
            ]
            folder = spec.folders[local_origins.index(origin)] if spec.folders else origin.folder
            clients.fetch_from_folder(origin, Path(folder), destination)
        case "random":
            raise IsotropyError(f"source {spec.id} is made by the rule initialize_model")
