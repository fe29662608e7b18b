"""IsoScore and silhouette of the points of a classifier, and what they follow from: covariance and
sums of distances.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from isotropy.errors import IsotropyError
from isotropy.metrics.isoscores import StreamingCovariance, isoscore
from isotropy.metrics.moving import MovingSums, interpolated_silhouettes, moving_distance_sums
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
            return Scores(self.isoscore(model), self.silhouette(model.points()))
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

    def isoscore(self, model: Classifier) -> float:
        """IsoScore of all vectors, unpaired."""
        return float(isoscore(model.embeddings.detach()))

    def silhouette(self, points: torch.Tensor) -> float:
        """Silhouette of all items."""
        return silhouette(points, self.codes)

    def covariance(self, model: Classifier) -> torch.Tensor:
        """Covariance of all vectors, unpaired, shape (d, d), float64: IsoScore follows from it."""
        stream = StreamingCovariance(model.embeddings.shape[1]).to(model.embeddings.device)
        stream.update(model.embeddings.detach())
        return stream.covariance()

    def sums(self, points: torch.Tensor) -> torch.Tensor:
        """Distances of each item to the items of each class, summed, shape (n, K), float64:
        silhouettes follow from them.
        """
        return distance_sums(points, self.codes)

    def moving_sums(self, clouds: list[torch.Tensor], tolerance: float) -> MovingSums | None:
        """The same at several steps, on the CPU; None where the items do not move in a subspace of
        low rank.
        """
        if not clouds[0].is_cpu:
            return None
        return moving_distance_sums(clouds, self.codes, tolerance=tolerance)

    def silhouette_of(self, sums: torch.Tensor) -> float:
        """Silhouette from the sums of distances."""
        return float(silhouette_from_sums(sums, self.codes).mean())

    def interpolated_silhouettes(self, sums: torch.Tensor, weights: np.ndarray) -> np.ndarray:
        """Silhouettes at t steps, shape (t,), from sums of distances at q nodes, shape (q, n, K),
        and the weights of these, shape (t, q).
        """
        return interpolated_silhouettes(sums, weights, self.codes)

    def errors_of_sums(self, residuals: torch.Tensor) -> torch.Tensor:
        """By how much sums may err, shape (n, K), where each point may be so far, shape (n,), from
        where its distances were taken.
        """
        _, counted = self._counted(residuals.device)
        codes = self.codes.to(residuals.device)
        return residuals[:, None] * counted + torch.bincount(codes, residuals, self.n_classes)

    def bound_of_silhouette(self, sums: torch.Tensor, errors: torch.Tensor) -> float:
        """A bound on the error of the silhouette at and between some times.

        Args:
            sums: at these times, shape (q, n, K).
            errors: by how much sums may err, and move between the times, shape (n, K).
        """
        own, counted = self._counted(sums.device)
        e = errors / counted
        least = torch.full_like(e, torch.inf)  # of each mean distance, over the times
        larger, farthest = least[:, 0].clone(), torch.zeros_like(least[:, 0])
        for at in sums:
            means = (at / counted).masked_fill(own, torch.inf)
            separation = means.amin(dim=1)
            larger = torch.minimum(larger, torch.maximum((at / counted)[own], separation))
            farthest = torch.maximum(farthest, (means + e).amin(dim=1))
            least = torch.minimum(least, means)
        may_be_nearest = own | (least - e <= farthest[:, None])
        e = e.masked_fill(~may_be_nearest, 0).amax(dim=1)
        least_larger = larger - e  # between the times, too
        # A score is in [-1, 1]
        point = torch.where(least_larger > e, 2 * e / (least_larger - e), 2.0).clamp(max=2.0)
        return float(point.mean())

    def _counted(self, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
        """Which class is a point's own, shape (n, K), and by what its sums are divided."""
        codes = self.codes.to(device)
        sizes = torch.bincount(codes).double()
        own = torch.nn.functional.one_hot(codes, len(sizes)).bool()
        return own, torch.where(own, (sizes - 1).clamp(min=1), sizes)
