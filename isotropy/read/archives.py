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
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from isotropy.errors import IsotropyError

_ZIP = (".zip", ".whl")
# zipfile raises RuntimeError for encrypted members, and NotImplementedError for an unknown
# compression.
_DAMAGED = (
    *(zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, OSError),
    *(RuntimeError, NotImplementedError, subprocess.CalledProcessError),
)
MAX_RATIO, MIN_LIMIT = 100, 100_000_000
"""Limit on the unpacked size: MAX_RATIO times the archive's own size, or MIN_LIMIT bytes if that is
more. Texts compress about tenfold; an archive that was made to fill the disk, a thousandfold."""
CHUNK = 1 << 20
DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM)
"""Errors of the destination (full, read-only, no permission), not of the archive."""
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
        members: name of the file to write -> path in the archive. A name that ends with / is a
            folder, and its value a glob pattern for the members that go there.
        destination: an existing folder.

    Raises:
        IsotropyError: broken archive, missing member, a member with `..` or an absolute path, or
            more bytes than MAX_RATIO allows.
    """
    name = archive.name.lower()
    with _damage_refused(archive.name):
        if name.endswith(_ZIP):
            with zipfile.ZipFile(archive) as z:
                _copy(archive, members, destination, [i.filename for i in z.infolist()], z.open)
        elif name.endswith(_TAR):
            with tarfile.open(archive) as t:
                _copy_from_tar(archive, t, members, destination)
        elif name.endswith(".deb"):
            with tarfile.open(fileobj=io.BytesIO(_extract_tar(archive))) as t:
                _copy_from_tar(archive, t, members, destination)
        else:
            raise IsotropyError(f"{archive.name}: not a zip, wheel, tar or Debian package")


def unpack_gzip(path: Path, target: Path) -> None:
    """Decompress a gzip file into another file.

    Raises:
        IsotropyError: damaged file, or more bytes than MAX_RATIO allows.
    """
    with _damage_refused(str(path)), gzip.open(path) as source, target.open("wb") as sink:
        n = _write(source, sink, _limit(path))
    if n > _limit(path):
        raise _too_large(path)


@contextmanager
def _damage_refused(title: str) -> Iterator[None]:
    """Turn errors of damaged archives into an IsotropyError; a full disk stays what it is."""
    try:
        yield
    except _DAMAGED as error:
        if isinstance(error, OSError) and error.errno in DISK_ERRORS:
            raise
        raise IsotropyError(
            f"{title} cannot be unpacked ({error}): it is damaged or incomplete"
        ) from error


def _limit(archive: Path) -> int:
    """Most bytes that the members of an archive may have together."""
    return max(MIN_LIMIT, MAX_RATIO * archive.stat().st_size)


def _too_large(archive: Path) -> IsotropyError:
    return IsotropyError(
        f"{archive.name} is refused: it unpacks to more than {_limit(archive):,} bytes "
        f"({MAX_RATIO} times its size)"
    )


def _extract_tar(archive: Path) -> bytes:
    """Extract the tar archive in a Debian package. dpkg-deb only unpacks it, and runs none of its
    maintainer scripts.
    """
    command = ["dpkg-deb", "--fsys-tarfile", str(archive)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        packed = process.stdout.read(_limit(archive) + 1)
        if len(packed) > _limit(archive):
            process.kill()
            raise _too_large(archive)
        _, errors = process.communicate()
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, command, packed, errors)
    return packed


def _copy_from_tar(
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
    remaining = _limit(archive)
    member_names = {name.removeprefix("./"): name for name in names}
    for target, member in _expand_patterns(members, member_names).items():
        if member not in member_names:
            raise IsotropyError(f"{archive.name}: no member {member!r}")
        path = destination / target
        path.parent.mkdir(parents=True, exist_ok=True)
        with open_member(member_names[member]) as source, path.open("wb") as sink:
            remaining -= _write(source, sink, remaining)
        if remaining < 0:
            raise _too_large(archive)


def _write(source: IO[bytes] | gzip.GzipFile, sink: IO[bytes], limit: int) -> int:
    """Copy a stream, stop once more than `limit` bytes are copied, and return their number."""
    n = 0
    while n <= limit and (chunk := source.read(CHUNK)):
        n += sink.write(chunk)
    return n


def _expand_patterns(members: dict[str, str], paths: Iterable[str]) -> dict[str, str]:
    """Replace glob patterns by the members that they match. A pattern without a match is kept, so
    that the caller reports a missing member.
    """
    expanded: dict[str, str] = {}
    for target, member in members.items():
        matches = fnmatch.filter(paths, member) if target.endswith("/") else []
        expanded |= {target + PurePosixPath(path).name: path for path in matches} or {
            target: member
        }
    return expanded
