"""Choose the device to compute on."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Sequence
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import lock_descriptor

from isotropy.errors import IsotropyError
from isotropy.scrub import remove_user


def pick_device(requested: str) -> torch.device:
    """Choose a device: `auto` is a GPU if torch sees one, else the CPU. Among several GPUs, take
    one that the fewest jobs of this user hold.

    Raises:
        IsotropyError: a GPU was requested, but torch sees none.
    """
    if requested == "cuda" and not torch.cuda.is_available():
        host = remove_user(socket.gethostname())
        reason = (
            "install torch's build for CUDA (this one is for CPUs)"
            if torch.version.cuda is None
            else "look at CUDA_VISIBLE_DEVICES, fix its driver, or exclude the node"
        )
        raise IsotropyError(
            f"device: cuda was asked for, but torch sees no GPU on {host}; set device: auto, or "
            f"{reason}"
        )
    if requested == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    return _lock_gpu()


@cache
def _lock_gpu() -> torch.device:
    uuids = [
        str(torch.cuda.get_device_properties(i).uuid) for i in range(torch.cuda.device_count())
    ]
    user = os.getuid() if hasattr(os, "getuid") else ""  # on Windows the folder is the user's own
    folder = Path(tempfile.gettempdir()) / f"isotropy-gpus-{user}"
    index = lock_least_used(uuids, folder) if len(uuids) > 1 else 0
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


def lock_least_used(names: Sequence[str], folder: Path) -> int:
    """Choose one of several resources, shared by processes of this machine, until this process
    ends: one that the fewest of them hold.

    How many processes may share one is the caller's to limit: the workflow starts no more jobs than
    `compute.jobs_per_gpu` for each GPU.

    Args:
        names: names of the resources, the same in every process.
        folder: folder of the lock files, one for each resource and process that shares it.

    Returns:
        Index of the resource that was chosen.
    """
    folder.mkdir(mode=0o700, exist_ok=True)
    for place in count():
        for i, name in enumerate(names):
            lock_file = os.open(folder / f"{name}.{place}", os.O_RDWR | os.O_CREAT, 0o600)
            if lock_descriptor(lock_file, blocking=False):
                return i  # the file stays open: the system releases the lock when the process ends
            os.close(lock_file)
    raise AssertionError("unreachable")
