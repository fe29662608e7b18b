"""What processes of a machine share: files, by locks, so that only one at a time writes; and GPUs.

Locks are the system's own (`flock`, on Windows `LockFileEx`): a killed process holds none, and a
file system without locks is an error rather than a lock file that somebody must remove.
"""

from __future__ import annotations

import os
import time
from itertools import takewhile
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


DEVICES = Path("/dev")


def count_gpus() -> int:
    """Count the NVIDIA GPUs that a job on this machine could use."""
    n_devices = sum(1 for path in DEVICES.glob("nvidia[0-9]*"))
    visible = _visible_devices()
    return n_devices if visible is None else min(n_devices, len(visible))


def _visible_devices() -> list[str] | None:
    """Return what CUDA_VISIBLE_DEVICES names, before what is invalid; None if it is not set."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return None
    names = (name.strip() for name in visible.split(","))
    return list(takewhile(lambda name: name not in ("", "-1"), names))
