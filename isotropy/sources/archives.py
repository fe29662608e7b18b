"""Take named members out of an archive without trusting it."""

from __future__ import annotations

import errno
import fnmatch
import io
import lzma
import shutil
import subprocess
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath
from typing import IO

from isotropy.errors import IsotropyError

_ZIP = (".zip", ".whl")
# RuntimeError and NotImplementedError: what zipfile says of encrypted members and unknown
# compression.
_DAMAGED = (
    *(zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, OSError),
    *(RuntimeError, NotImplementedError, subprocess.CalledProcessError),
)
OF_THE_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM)
"""Errors of the place that is written to, not of what comes."""
_TAR = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2")


def is_archive(path: Path) -> bool:
    """Whether `extract` knows the format, by the file's name."""
    return path.name.lower().endswith((*_ZIP, *_TAR, ".deb"))


def extract(archive: Path, members: dict[str, str], destination: Path) -> None:
    """Copy members of a zip, wheel, tar or Debian package to files below `destination`.

    Only the named members are read, as plain bytes: links, devices, owners and modes in the archive
    have no effect. An archive with any member that would land outside its own folder is refused
    whole: it was made to do harm.

    Args:
        archive: the file.
        members: name of the file to write -> path in the archive; a name that ends with / ->
            pattern of paths.
        destination: an existing folder.

    Raises:
        IsotropyError: broken archive, missing member, or a member with `..` or an absolute path.
    """
    try:
        name = archive.name.lower()
        if name.endswith(_ZIP):
            with zipfile.ZipFile(archive) as z:
                _copy(archive, members, destination, [i.filename for i in z.infolist()], z.open)
        elif name.endswith(_TAR):
            with tarfile.open(archive) as t:
                _from_tar(archive, t, members, destination)
        elif name.endswith(".deb"):
            # dpkg-deb only unpacks here; the package's maintainer scripts are not touched.
            packed = subprocess.run(
                ["dpkg-deb", "--fsys-tarfile", str(archive)], check=True, capture_output=True
            ).stdout
            with tarfile.open(fileobj=io.BytesIO(packed)) as t:
                _from_tar(archive, t, members, destination)
        else:
            raise IsotropyError(f"{archive.name}: not a zip, wheel, tar or Debian package")
    except _DAMAGED as error:
        if isinstance(error, OSError) and error.errno in OF_THE_DISK:
            raise
        raise IsotropyError(
            f"{archive.name} cannot be unpacked ({error}): it is damaged or incomplete"
        ) from error


def _from_tar(
    archive: Path, tar: tarfile.TarFile, members: dict[str, str], destination: Path
) -> None:
    def open_member(name: str) -> IO[bytes]:
        info = tar.getmember(name)
        stream = tar.extractfile(info) if info.isreg() else None
        if stream is None:
            raise IsotropyError(f"{archive.name}: {name} is not a plain file")
        return stream

    _copy(archive, members, destination, tar.getnames(), open_member)


def _copy(
    archive: Path,
    members: dict[str, str],
    destination: Path,
    names: list[str],
    open_member: Callable[[str], IO[bytes]],
) -> None:
    for name in names:
        inner = PurePosixPath(name.replace("\\", "/"))
        if inner.is_absolute() or ".." in inner.parts:
            raise IsotropyError(
                f"{archive.name}: member {name!r} would be written outside its folder; archive "
                "refused"
            )
    by_path = {name.removeprefix("./"): name for name in names}
    for target, member in _expanded(members, by_path).items():
        if member not in by_path:
            raise IsotropyError(f"{archive.name}: no member {member!r}")
        path = destination / target
        path.parent.mkdir(parents=True, exist_ok=True)
        with open_member(by_path[member]) as source, path.open("wb") as sink:
            shutil.copyfileobj(source, sink)


def _expanded(members: dict[str, str], paths: Iterable[str]) -> dict[str, str]:
    """Members with the patterns of folders written out; one that fits nothing stays, and is then
    missed.
    """
    found: dict[str, str] = {}
    for target, member in members.items():
        fitting = fnmatch.filter(paths, member) if target.endswith("/") else []
        found |= {target + PurePosixPath(path).name: path for path in fitting} or {target: member}
    return found
