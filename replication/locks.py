"""Locks on files, so that only one process at a time writes.

They are the system's own (`flock`, on Windows `LockFileEx`): a killed process holds none, and a
file system without locks is an error rather than a lock file that somebody must remove.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import IO, Any

from filelock import lock_descriptor

from isotropy.errors import IsotropyError

LOCK = "lock"
"""Name of a job's lock file, in its work folder."""
POLL_SECONDS = 0.01


def lock_file(stream: IO[Any], *, wait: bool) -> None:
    """Lock an open file until it is closed.

    Raises:
        BlockingIOError: another process holds the lock, and `wait` is false.
        IsotropyError: the file system has no locks.
    """
    try:
        locked = lock_descriptor(stream.fileno(), blocking=wait, poll_interval=POLL_SECONDS)
    except OSError as error:
        raise IsotropyError(
            f"{stream.name} cannot be locked ({error}): results need a file system with locks; "
            "choose such a folder with --directory, or mount this one with locks (docs/cluster.md)"
        ) from error
    if not locked:
        raise BlockingIOError(f"{stream.name} is locked by another process")


def is_locked(path: Path) -> bool:
    """Return whether a process holds the lock on a file.

    A lock file that was opened in the last seconds is taken as locked, without a try: a try could
    come between a job's opening of its file and its lock, and make the job fail.
    """
    try:
        if time.time() - path.stat().st_mtime < 2:
            return True
        with path.open("r+") as stream:
            return not lock_descriptor(stream.fileno(), blocking=False)
    except OSError:
        return False
