"""Locks on files, so that only one process at a time writes."""

from __future__ import annotations

import fcntl
from typing import IO, Any

from isotropy.errors import IsotropyError


def lock_file(stream: IO[Any], *, wait: bool) -> None:
    """Lock an open file until it is closed.

    Raises:
        BlockingIOError: another process holds the lock, and `wait` is false.
        IsotropyError: the file system has no locks.
    """
    try:
        fcntl.flock(stream, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError as error:
        raise IsotropyError(
            f"{stream.name} cannot be locked ({error}): results need a file system with locks"
        ) from error
