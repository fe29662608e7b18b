"""Choose the device to compute on."""

from __future__ import annotations

import fcntl
import logging
import os
import socket
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from time import sleep

import torch

from isotropy.errors import IsotropyError
from isotropy.scrub import remove_user

log = logging.getLogger("isotropy")


def pick_device(requested: str) -> torch.device:
    """Choose a device: `auto` is a GPU if torch sees one, else the CPU. Among several GPUs, lock
    one that no other job of this user holds.

    Raises:
        IsotropyError: a GPU was requested, but torch sees none.
    """
    if requested == "cuda" and not torch.cuda.is_available():
        host = remove_user(socket.gethostname())
        raise IsotropyError(
            f"device: cuda was asked for, but torch sees no GPU on {host}; set device: auto, "
            "fix its driver, or exclude the node"
        )
    if requested == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    return _lock_gpu()


@cache
def _lock_gpu() -> torch.device:
    uuids = [
        str(torch.cuda.get_device_properties(i).uuid) for i in range(torch.cuda.device_count())
    ]
    several = len(uuids) > 1  # a single GPU is assigned to this job, or shared on purpose
    index = (
        lock_any(uuids, Path(tempfile.gettempdir()) / f"isotropy-gpus-{os.getuid()}")
        if several
        else 0
    )
    device = torch.device("cuda", index)
    torch.cuda.set_device(device)
    return device


def lock_any(names: Sequence[str], folder: Path) -> int:
    """Lock one of several resources, shared by processes of this machine, until this process ends;
    wait until one is free.

    Args:
        names: names of the resources, the same in every process.
        folder: folder of the lock files, one per resource.

    Returns:
        Index of the resource that was locked.
    """
    folder.mkdir(mode=0o700, exist_ok=True)
    logged_waiting = False
    while True:
        for i, name in enumerate(names):
            lock_file = os.open(folder / name, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(lock_file)
                continue
            return i  # the file stays open: the system releases the lock when the process ends
        if not logged_waiting:
            log.info("all %d GPUs are held by other jobs: waiting for one", len(names))
            logged_waiting = True
        sleep(0.5)
