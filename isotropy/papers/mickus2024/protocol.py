"""What Mickus et al. (2024) did, as values, and what of a trajectory deviates from it."""

from __future__ import annotations

from isotropy.optimize.spec import OptimizeSpec

SETUPS = ("polarity", "snli", "pos", "supersenses")
"""Section 3.1."""
MODEL = "all-MiniLM-L6-v2"
"""Of sentences (section 3.1)."""
VECTORS = "word2vec-enwiki-2021"
"""Of words (section 3.1)."""
TASKS = ("cola", "mnli", "mrpc", "qnli", "qqp", "rte", "sst2", "wnli")
"""Of GLUE (appendix A)."""
GLUE_MODELS = ("all-MiniLM-L6-v2", "all-mpnet-base-v2", "all-distilroberta-v1")
"""Appendix A."""
UPDATES = 1000
"""Section 3.1."""
GLUE_UPDATES = 250
"""Appendix A."""
LEARNING_RATE = 0.001
"""Of Adam, whose other settings are PyTorch's defaults (section 3.1)."""


def optimize_deviations(spec: OptimizeSpec, n_items: int) -> list[str]:
    """What of a trajectory deviates from the protocol, apart from data and model.

    Args:
        spec: of the trajectory.
        n_items: items of its data set.
    """
    found = []
    if spec.mean_norm is not None:
        found.append(f"vectors scaled to mean norm {spec.mean_norm:g}")
    updates = GLUE_UPDATES if spec.group == "glue" else UPDATES
    if spec.updates != updates:
        found.append(f"{spec.updates:,} updates, not {updates:,}")
    if spec.learning_rate != LEARNING_RATE:
        found.append(f"learning rate {spec.learning_rate:g}, not {LEARNING_RATE:g}")
    if spec.group != "glue" and spec.measure.samples(n_items):
        found.append(f"metrics on {spec.measure.sample_size:,} items drawn at each step")
    return found
