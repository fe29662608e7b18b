"""Take named members out of an archive without trusting it."""

from __future__ import annotations

import errno
import fnmatch
import gzip
import io
import lzma
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
MAX_RATIO, MIN_LIMIT = 100, 100_000_000
"""What is unpacked has at most MAX_RATIO times the bytes of its archive, or MIN_LIMIT if that is
more: texts shrink to a tenth, an archive that was made to fill the disk to a thousandth."""
CHUNK = 1 << 20
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
        IsotropyError: broken archive, missing member, a member with `..` or an absolute path, or
            more bytes than MAX_RATIO allows.
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
            with tarfile.open(fileobj=io.BytesIO(_tar_of(archive))) as t:
                _from_tar(archive, t, members, destination)
        else:
            raise IsotropyError(f"{archive.name}: not a zip, wheel, tar or Debian package")
    except _DAMAGED as error:
        if isinstance(error, OSError) and error.errno in OF_THE_DISK:
            raise
        raise IsotropyError(
            f"{archive.name} cannot be unpacked ({error}): it is damaged or incomplete"
        ) from error


def decompressed(path: Path) -> bytes:
    """The bytes in a gzip file.

    Raises:
        IsotropyError: broken, or more bytes than MAX_RATIO allows.
    """
    try:
        with gzip.open(path) as stream:
            data = stream.read(_limit(path) + 1)
    except _DAMAGED as error:
        raise IsotropyError(
            f"{path.name} cannot be unpacked ({error}): it is damaged or incomplete"
        ) from error
    if len(data) > _limit(path):
        raise _too_large(path)
    return data


def _limit(archive: Path) -> int:
    """Bytes that an archive may have unpacked."""
    return max(MIN_LIMIT, MAX_RATIO * archive.stat().st_size)


def _too_large(archive: Path) -> IsotropyError:
    return IsotropyError(
        f"{archive.name} is refused: it unpacks to more than {_limit(archive):,} bytes "
        f"({MAX_RATIO} times its size)"
    )


def _tar_of(archive: Path) -> bytes:
    """The tar in a Debian package: dpkg-deb only unpacks, the package's maintainer scripts are not
    touched.
    """
    command = ["dpkg-deb", "--fsys-tarfile", str(archive)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        packed = process.stdout.read(_limit(archive) + 1)
        if len(packed) > _limit(archive):
            process.kill()
            raise _too_large(archive)
        _, said = process.communicate()
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, command, packed, said)
    return packed


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
    left = _limit(archive)
    by_path = {name.removeprefix("./"): name for name in names}
    for target, member in _expanded(members, by_path).items():
        if member not in by_path:
            raise IsotropyError(f"{archive.name}: no member {member!r}")
        path = destination / target
        path.parent.mkdir(parents=True, exist_ok=True)
        with open_member(by_path[member]) as source, path.open("wb") as sink:
            left -= _write(source, sink, left)
        if left < 0:
            raise _too_large(archive)


def _write(source: IO[bytes], sink: IO[bytes], most: int) -> int:
    """Copy until there is no more, or more than `most` bytes; returns how many."""
    n = 0
    while n <= most and (chunk := source.read(CHUNK)):
        n += sink.write(chunk)
    return n


def _expanded(members: dict[str, str], paths: Iterable[str]) -> dict[str, str]:
    """Members with the patterns of folders written out; one that fits nothing stays, and is then
    missed.
    """
    found: dict[str, str] = {}
    for target, member in members.items():
        fitting = fnmatch.filter(paths, member) if target.endswith("/") else []
        found |= {target + PurePosixPath(path).name: path for path in fitting} or {target: member}
    return found
