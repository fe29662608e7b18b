"""Controls of direct optimization: items whose labels say nothing of their vectors."""

from __future__ import annotations

import numpy as np

from replication.optimize.descent import Items
from replication.optimize.spec import Control


def control_items(items: Items, control: Control, seed: int) -> Items:
    """Make the items of a control.

    Shuffled labels: a random part of the items, whose targets are permuted among them. Noise:
    normal vectors, scaled to the root mean square norm of the data set's, so that an update is as
    large beside them, with random targets of classes of equal size.

    Args:
        items: the data set, with class numbers as targets.
        control: kind and sizes.
        seed: seed of the part, the permutation and the noise.
    """
    rng = np.random.default_rng(seed)
    n = min(control.n_items, len(items.targets))
    chosen = np.sort(rng.permutation(len(items.targets))[:n])
    if control.kind == "shuffled":
        distinct, rows = np.unique(items.rows[chosen], return_inverse=True)
        targets = rng.permutation(items.targets[chosen])
        return Items(items.vectors[distinct], rows.reshape(n, -1), targets)
    d = control.dimensions or items.vectors.shape[1]
    n_classes = control.n_classes or len(np.unique(items.targets))
    length = np.sqrt(np.square(items.vectors, dtype=np.float64).sum(axis=1).mean())
    deviations = control.decay ** np.arange(d)
    vectors = rng.standard_normal((n, d)) * (length * deviations / np.linalg.norm(deviations))
    targets = rng.permutation(np.arange(n) % n_classes)
    return Items(vectors.astype(np.float32), np.arange(n)[:, None], targets)
