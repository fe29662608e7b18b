"""Atomic writes, digests, and the paths of results and their records."""

from __future__ import annotations

import glob
import hashlib
import json
import os
import shutil
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from isotropy.errors import IsotropyError

RESULTS = Path("results")
"""Folder of all outputs of a run, relative to the working folder."""

RECORD_SUFFIX = ".record.json"


def sha256_file(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, as 64 hex digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def files_below(path: Path) -> list[Path]:
    """List the file itself, or all files below a folder in a fixed order, without the timestamp
    files that Snakemake leaves in folders.

    Raises:
        IsotropyError: a file is a symbolic link, whose content lies elsewhere.
    """
    files = (
        [path]
        if not path.is_dir()
        else sorted(p for p in path.rglob("*") if not p.is_dir() or p.is_symlink())
    )
    files = [p for p in files if p.name != ".snakemake_timestamp"]
    for p in files:
        if p.is_symlink():
            raise IsotropyError(f"{p} is a symbolic link: results hold plain files only")
    return files


def apply_umask(paths: Iterable[Path]) -> None:
    """Give files, and those below folders, the permissions that a new file has: libraries write
    some that only their owner can read, which others on a cluster could not use.
    """
    umask = os.umask(0o077)
    os.umask(umask)
    for path in paths:
        for file in files_below(path):
            file.chmod(0o666 & ~umask)


def record_path(path: Path) -> Path:
    """Return the path of the record of the job that wrote `path`: in the same folder, with the same
    name up to the first dot.
    """
    return path.with_name(path.name.split(".")[0] + RECORD_SUFFIX)


@contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """Yield a temporary path in the folder of `path`. When the block ends without an error, sync
    what was written there to disk and rename it to `path`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{socket.gethostname()}.{os.getpid()}.tmp")
    remove(temporary)
    try:
        yield temporary
        for file in files_below(temporary):
            with file.open("rb") as stream:
                os.fsync(stream.fileno())
        if path.is_dir() and temporary.is_dir():  # a folder cannot be renamed over another
            remove(path)
        os.replace(temporary, path)
        _remove_leftovers(path)
    finally:
        # Removal fails on NFS while a file is open; that must not hide an earlier error
        with suppress(OSError):
            remove(temporary)


def _remove_leftovers(path: Path) -> None:
    """Remove temporary files of `path` left by killed processes of this host; keep those of
    running processes.
    """
    for leftover in path.parent.glob(
        f".{glob.escape(path.name)}.{glob.escape(socket.gethostname())}.*.tmp"
    ):
        try:
            os.kill(int(leftover.name.split(".")[-2]), 0)
        except ProcessLookupError:
            with suppress(OSError):  # it belongs to another user
                remove(leftover)
        except PermissionError:
            pass  # it belongs to a process of another user


def remove(path: Path) -> None:
    """Remove a file or a folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """Write JSON for people and diffs: indented, sorted, atomic."""
    with atomic(path) as temporary:
        temporary.write_text(
            json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n",
            "utf8",
        )


def read_json(path: Path) -> Any:
    """Read a JSON file."""
    return json.loads(path.read_text("utf8"))
