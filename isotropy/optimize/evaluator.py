"""IsoScore and silhouette of the points of a classifier, and what they follow from: covariance and
sums of distances.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from isotropy.errors import IsotropyError
from isotropy.metrics.isoscores import StreamingCovariance, isoscore
from isotropy.metrics.silhouettes import distance_sums, silhouette, silhouette_from_sums
from isotropy.metrics.validation import as_codes, sample_rows
from isotropy.optimize.descent import Classifier

# Of the sums that a window holds at its nodes; beyond, steps are evaluated one by one
MAX_SUMS_BYTES = 2**29


class Scores(NamedTuple):
    """One measurement."""

    isoscore: float
    silhouette: float


class Evaluator:
    """Measures a classifier's points: IsoScore on the unpaired vectors, silhouette on the items
    (section 3.1).

    Args:
        targets: of all items, as in `Items`; each distinct label vector is one class of the
            silhouette.
        sample_size: items drawn afresh for each step, where there are more; IsoScore is then that
            of their vectors.
        seed: of the samples.
    """

    def __init__(self, targets: np.ndarray, sample_size: int | None, seed: int) -> None:
        self.codes = as_codes(targets, len(targets))
        self.n_classes = int(self.codes.max()) + 1
        self.sample_size = (
            sample_size if sample_size is not None and sample_size < len(targets) else None
        )
        self.seed = seed

    def fits_windows(self, nodes: int) -> bool:
        """Whether all items are measured, and their sums at so many nodes fit the memory."""
        return (
            self.sample_size is None
            and len(self.codes) * self.n_classes * 8 * nodes <= MAX_SUMS_BYTES
        )

    def scores(self, model: Classifier, step: int) -> Scores:
        """Both scores, evaluated directly."""
        if self.sample_size is None:
            return Scores(
                float(isoscore(model.embeddings.detach())), silhouette(model.points(), self.codes)
            )
        seed = int(np.random.SeedSequence([self.seed, step]).generate_state(1)[0])
        items = sample_rows(len(self.codes), self.sample_size, seed)
        items_there = items.to(model.rows.device)
        vectors = model.embeddings.detach()[torch.unique(model.rows[:, items_there])]
        try:
            return Scores(
                float(isoscore(vectors)), silhouette(model.points(items_there), self.codes[items])
            )
        except ValueError as error:
            raise IsotropyError(
                f"the {self.sample_size} items drawn at step {step} have no score ({error}): "
                "choose a larger sample_size"
            ) from error

    def covariance(self, model: Classifier) -> torch.Tensor:
        """Covariance of all vectors, unpaired, shape (d, d), float64: IsoScore follows from it."""
        stream = StreamingCovariance(model.embeddings.shape[1]).to(model.embeddings.device)
        stream.update(model.embeddings.detach())
        return stream.covariance()

    def sums(self, model: Classifier) -> torch.Tensor:
        """Distances of each item to the items of each class, summed, shape (n, K), float64:
        silhouettes follow from them.
        """
        return distance_sums(model.points(), self.codes)

    def silhouette_of(self, sums: torch.Tensor) -> float:
        """Silhouette from the sums of distances."""
        return float(silhouette_from_sums(sums, self.codes).mean())
