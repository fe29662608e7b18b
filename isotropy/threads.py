"""How many threads a job computes with."""

from __future__ import annotations

import os
import sys
from typing import Any

from threadpoolctl import threadpool_limits

READ_WHEN_LOADED = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def limit_threads(threads: int) -> Any:
    """Limit the threads of linear algebra and of torch, loaded already or later.

    Returns:
        What keeps the limit: hold it for as long as the limit is meant.
    """
    # What a job loads later, where Snakemake has not set them: as in `isotropy audit rerun`
    os.environ.update(dict.fromkeys(READ_WHEN_LOADED, str(threads)))
    limits = threadpool_limits(limits=threads)
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(threads)
    return limits
