"""How many threads a job computes with."""

from __future__ import annotations

import sys
from typing import Any

from threadpoolctl import threadpool_limits


def limit_threads(threads: int) -> Any:
    """Limit the threads of linear algebra and of torch, if it is loaded.

    Returns:
        What keeps the limit: hold it for as long as the limit is meant.
    """
    limits = threadpool_limits(limits=threads)
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(threads)
    return limits
