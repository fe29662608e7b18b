"""Where to compute."""

from __future__ import annotations

import torch

from isotropy.errors import IsotropyError


def pick_device(wanted: str) -> torch.device:
    """`auto` is the GPU where torch sees one, else the CPU.

    Raises:
        IsotropyError: a GPU was asked for and torch sees none.
    """
    if wanted == "cuda" and not torch.cuda.is_available():
        raise IsotropyError("device: cuda was asked for, but torch sees no GPU here; set device: auto, or fix the driver")
    return torch.device("cuda" if wanted != "cpu" and torch.cuda.is_available() else "cpu")
