"""Fetch a source: try its origins in the configured order, verify what came, publish it whole or
not at all.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from isotropy.errors import IsotropyError
from isotropy.files import remove, sha256_file
from isotropy.sources import clients
from isotropy.sources.archives import OF_THE_DISK
from isotropy.sources.fetched import FetchedSource
from isotropy.sources.formats import read_rows
from isotropy.sources.rows import verify_rows
from isotropy.sources.spec import MirrorOrigin, Origin, Sha256, Source, Tier
from isotropy.spec import Spec

log = logging.getLogger(__name__)

HAVE_ROWS = ("dataset", "corpus", "lexicon")
"""Kinds of sources that `read_rows` reads, and so have a digest of rows."""


class FetchSpec(Spec):
    """What defines a fetched source."""

    machine_fields = frozenset({"mirror", "local", "folders"})

    id: str
    source: Source
    order: list[Tier]
    mirror: str | None = None
    local: dict[str, Sha256] = {}
    """Digests of the mirror's files that the registry has none for: an edited one is fetched
    again."""
    folders: list[str] = []
    """Where the folders of its origins on this machine are, in their order; the source has their
    last parts."""
    trust_on_first_use: bool


def digests_of_local(source: Source, usable: Sequence[Origin], mirror: Path) -> dict[str, str]:
    """Digests of those files of a mirror that are there and that the registry has no digest of.

    Args:
        source: the source.
        usable: its origins that may be tried.
        mirror: the folder.
    """
    unknown = [o for o in usable if isinstance(o, MirrorOrigin) and not source.pins(o)]
    named = {name for o in unknown for name in ([o.archive] if o.archive else o.files.values())}
    found = {}
    for name in sorted(named):
        with suppress(OSError):  # the fetch says what is wrong with it
            if (mirror / name).is_file():
                now = (mirror / name).stat()
                found[name] = _sha256(mirror / name, now.st_size, now.st_mtime_ns)
    return found


@cache
def _sha256(path: Path, size: int, changed: int) -> str:
    """Digest of a file, taken once for each size and time of change."""
    return sha256_file(path)


def fetch(spec: FetchSpec, downloads: Path, destination: Path) -> tuple[FetchedSource, list[str]]:
    """Put a source's payload into `destination` (an empty folder), verified.

    Args:
        spec: the source and the order of origins.
        downloads: a folder that outlives a killed job, so that a complete download is not repeated.
        destination: where the payload files go.

    Returns:
        What came, and the origins that were tried before, each with the reason why it was not used.

    Raises:
        IsotropyError: no origin could be reached (with the reason for each), or what came is not
            what the registry expects.
    """
    downloads.mkdir(parents=True, exist_ok=True)
    origins = spec.source.usable(spec.order, mirror=bool(spec.mirror))
    if not origins:
        raise IsotropyError(
            f"source {spec.id}: none of its origins is in sources.order ({', '.join(spec.order)})"
        )
    not_used: list[str] = []
    for origin in origins:
        try:
            _try(spec, origin, downloads, destination)
        except clients.Unavailable as error:
            reason = " ".join(str(error).split()).rstrip(".")  # clients say it in paragraphs
            not_used.append(f"{origin.describe()}: {reason}")
            log.info("%s: not used: %s", spec.id, reason)
            for leftover in destination.iterdir():
                remove(leftover)
            continue
        found = _fetched(spec, origin)
        log.info("%s: %s (%s)", spec.id, found.content.title, found.status)
        return found, not_used
    raise IsotropyError(
        f"source {spec.id}: no origin could be used. "
        + "; ".join(not_used)
        + ". Check the network"
        + (", or name a mirror folder in sources.mirror" if spec.mirror is None else "")
    )


def _try(spec: FetchSpec, origin: Origin, downloads: Path, destination: Path) -> None:
    """Get a source from one origin, verified.

    Raises:
        clients.Unavailable: the next origin is to be tried.
        IsotropyError: it delivered, and what came is wrong.
    """
    try:
        log.info("%s: trying %s", spec.id, origin.describe())
        _require_known(spec, origin)
        _deliver(spec, origin, downloads, destination)
        _verify(spec, origin, destination)
    except (IsotropyError, OSError) as error:
        if not (isinstance(error, OSError) and error.errno in OF_THE_DISK):
            remove(downloads)  # what is wrong is not to be resumed by the next run
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
    if spec.source.kind in HAVE_ROWS:
        verify_rows(content, read_rows(content, folder))


def _fetched(spec: FetchSpec, origin: Origin) -> FetchedSource:
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


def _require_known(spec: FetchSpec, origin: Origin) -> None:
    """Refuse what could not be verified, unless the configuration trusts it."""
    if not spec.source.pins(origin) and not spec.trust_on_first_use:
        raise clients.Unavailable(
            "its sha256 is not known: set sources.trust_on_first_use to accept what comes and "
            "record it"
        )


def _deliver(spec: FetchSpec, origin: Origin, downloads: Path, destination: Path) -> None:
    match origin.type:
        case "hub":
            clients.from_hub(origin, downloads, destination)
        case "url":
            clients.from_url(origin, downloads, destination)
        case "mirror":
            clients.from_mirror(origin, Path(spec.mirror or ""), destination)
        case "package":
            clients.from_package(origin, downloads, destination)
        case "file":
            here = [one for one in spec.source.origins if one.type == "file"]
            folder = spec.folders[here.index(origin)] if spec.folders else origin.folder
            clients.from_folder(origin, Path(folder), destination)
        case "random":
            raise IsotropyError(f"source {spec.id} is made by the rule initialize_model")
