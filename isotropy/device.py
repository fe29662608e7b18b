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
from typing import Any, Literal

import numpy as np
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
    # cuDNN's attention plans anew for each shape of a batch: half the speed in half precision.
    torch.backends.cuda.enable_cudnn_sdp(False)
    return device


def to_device(array: np.ndarray, device: torch.device) -> torch.Tensor:
    """Copy an array to a device; for a GPU, from page-locked memory and without waiting for it."""
    tensor = torch.from_numpy(array)
    if device.type == "cpu":
        return tensor
    return tensor.pin_memory().to(device, non_blocking=True)


class HostCopy:
    """A copy of tensors to the CPU that is under way: it takes place while the GPU works on.

    Args:
        tensors: a tensor or a list of tensors, on a GPU.
    """

    def __init__(self, tensors: Any) -> None:
        is_list = isinstance(tensors, list)
        device_tensors = tensors if is_list else [tensors]
        # Copies without waiting go to page-locked memory.
        copies = [tensor.to("cpu", non_blocking=True) for tensor in device_tensors]
        self._copies = copies if is_list else copies[0]
        self._done = torch.cuda.Event()  # type: ignore[no-untyped-call]
        self._done.record(torch.cuda.current_stream(device_tensors[0].device))

    def wait(self) -> Any:
        """Wait until the copy is complete, and return it."""
        self._done.synchronize()
        return self._copies


TOKEN_BUDGETS = {"cpu": 2048, "cuda": 16384}
"""Tokens in a batch of an encoder, padding included: what stays in the cache of a processor, and
what keeps a GPU busy."""


def token_budget(requested: int | Literal["auto"], device: torch.device) -> int:
    """Return the maximum number of tokens in a batch on a device."""
    return TOKEN_BUDGETS[device.type] if requested == "auto" else requested


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
