"""Locks on files, so that only one process at a time writes.

They are the system's own (`flock`, on Windows `LockFileEx`): a killed process holds none, and a
file system without locks is an error rather than a lock file that somebody must remove.
"""

from __future__ import annotations

from typing import IO, Any

from filelock import lock_descriptor

from isotropy.errors import IsotropyError

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
            f"{stream.name} cannot be locked ({error}): results need a file system with locks"
        ) from error
    if not locked:
        raise BlockingIOError(f"{stream.name} is locked by another process")
