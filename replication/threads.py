"""Limit the number of threads that a job computes with."""

from __future__ import annotations

import os
import sys
from typing import Any

from threadpoolctl import threadpool_limits

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def limit_threads(threads: int) -> Any:
    """Limit the threads of linear algebra libraries and of torch, also of libraries loaded later.

    Returns:
        An object that holds the limit: keep a reference to it for as long as the limit must last.
    """
    # For libraries loaded later, if Snakemake did not set these, as in `isotropy audit rerun`
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(threads)))
    limits = threadpool_limits(limits=threads)
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(threads)
    return limits
