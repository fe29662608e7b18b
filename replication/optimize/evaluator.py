"""IsoScore and silhouette of the points of a classifier, and the quantities from which they are
computed: covariance and sums of distances.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from isotropy.errors import IsotropyError
from isotropy.metrics.compiled import has_kernels
from isotropy.metrics.isoscores import StreamingCovariance, isoscore
from isotropy.metrics.moving import MovingSums, interpolated_silhouettes, moving_distance_sums
from isotropy.metrics.silhouettes import distance_sums, silhouette, silhouette_from_sums
from isotropy.metrics.validation import as_codes, sample_rows
from replication.optimize.descent import Classifier

# Limit for the sums of distances at the nodes of a window; if they need more memory, every step is
# evaluated directly.
MAX_SUMS_BYTES = 2**29


class Scores(NamedTuple):
    """The two scores at one step."""

    isoscore: float
    silhouette: float


class Evaluator:
    """Computes scores of a classifier's points: IsoScore of the unpaired vectors, silhouette of the
    items (section 3.1).

    Args:
        targets: targets of all items, as in `Items`; each distinct label vector is one class of the
            silhouette.
        sample_size: number of items in a sample, a new one at each step, from which both scores are
            computed; None, or no more items than that: all items.
        seed: random seed of the samples.
    """

    def __init__(self, targets: np.ndarray, sample_size: int | None, seed: int) -> None:
        self.codes = as_codes(targets, len(targets))
        self.n_classes = int(self.codes.max()) + 1
        self.sample_size = (
            sample_size if sample_size is not None and sample_size < len(targets) else None
        )
        self.seed = seed

    def can_interpolate(self, nodes: int) -> bool:
        """Return whether scores can be interpolated: all items are scored, and their sums of
        distances at all nodes fit in memory.
        """
        return (
            self.sample_size is None
            and len(self.codes) * self.n_classes * 8 * nodes <= MAX_SUMS_BYTES
        )

    def scores(self, model: Classifier, step: int) -> Scores:
        """Compute IsoScore and silhouette of this step, without interpolation."""
        if self.sample_size is None:
            return Scores(self.isoscore(model), self.silhouette(model.points()))
        seed = int(np.random.SeedSequence([self.seed, step]).generate_state(1)[0])
        items = sample_rows(len(self.codes), self.sample_size, seed)
        device_items = items.to(model.rows.device)
        vectors = model.embeddings.detach()[torch.unique(model.rows[:, device_items])]
        try:
            return Scores(
                float(isoscore(vectors)), silhouette(model.points(device_items), self.codes[items])
            )
        except ValueError as error:
            raise IsotropyError(
                f"the {self.sample_size} items drawn at step {step} have no score ({error}): "
                "choose a larger sample_size"
            ) from error

    def isoscore(self, model: Classifier) -> float:
        """Compute IsoScore of all vectors, unpaired."""
        return float(isoscore(model.embeddings.detach()))

    def silhouette(self, points: torch.Tensor) -> float:
        """Compute the silhouette of all items."""
        return silhouette(points, self.codes)

    def covariance(self, model: Classifier) -> torch.Tensor:
        """Compute the covariance of all vectors, unpaired, shape (d, d), float64, from which
        IsoScore follows.
        """
        stream = StreamingCovariance(model.embeddings.shape[1]).to(model.embeddings.device)
        stream.update(model.embeddings.detach())
        return stream.covariance()

    def sums(self, points: torch.Tensor) -> torch.Tensor:
        """Compute the sum of the distances of each item to the items of each class, shape (n, K),
        float64, from which silhouettes follow.
        """
        return distance_sums(points, self.codes)

    def moving_sums(self, clouds: list[torch.Tensor], tolerance: float) -> MovingSums | None:
        """Compute sums of distances at several steps together; None on a GPU, without numba, or if
        the points do not move in a subspace of low rank.
        """
        if not has_kernels(clouds[0]):
            return None
        return moving_distance_sums(clouds, self.codes, tolerance=tolerance)

    def mean_silhouette(self, sums: torch.Tensor) -> float:
        """Compute the mean silhouette from sums of distances."""
        return float(silhouette_from_sums(sums, self.codes).mean())

    def interpolated_silhouettes(self, sums: torch.Tensor, weights: np.ndarray) -> np.ndarray:
        """Compute silhouettes at t steps, shape (t,), from sums of distances at q nodes, shape (q,
        n, K), and interpolation weights, shape (t, q).
        """
        return interpolated_silhouettes(sums, weights, self.codes)

    def bound_sum_errors(self, residuals: torch.Tensor) -> torch.Tensor:
        """Bound the errors of sums of distances, shape (n, K), that were computed from points with
        residuals: bounds on the distance of each from its true position, shape (n,).
        """
        _, counts = self._own_class_and_counts(residuals.device)
        codes = self.codes.to(residuals.device)
        return residuals[:, None] * counts + torch.bincount(codes, residuals, self.n_classes)

    def bound_silhouette_error(self, sums: torch.Tensor, errors: torch.Tensor) -> float:
        """Bound the error of the silhouette at some steps and between them.

        Args:
            sums: sums of distances at these steps, shape (q, n, K).
            errors: bounds on the error of the sums, including their changes between the steps,
                shape (n, K).
        """
        own_class, counts = self._own_class_and_counts(sums.device)
        e = errors / counts
        min_means = torch.full_like(e, torch.inf)  # smallest mean distances over the steps
        min_larger, max_separation = min_means[:, 0].clone(), torch.zeros_like(min_means[:, 0])
        for step_sums in sums:
            means = (step_sums / counts).masked_fill(own_class, torch.inf)
            separation = means.amin(dim=1)
            min_larger = torch.minimum(
                min_larger, torch.maximum((step_sums / counts)[own_class], separation)
            )
            max_separation = torch.maximum(max_separation, (means + e).amin(dim=1))
            min_means = torch.minimum(min_means, means)
        may_be_nearest = own_class | (min_means - e <= max_separation[:, None])
        e = e.masked_fill(~may_be_nearest, 0).amax(dim=1)
        larger_bound = min_larger - e  # also between the steps
        # A score is in [-1, 1]
        score_errors = torch.where(larger_bound > e, 2 * e / (larger_bound - e), 2.0).clamp(max=2.0)
        return float(score_errors.mean())

    def _own_class_and_counts(self, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
        """Return a mask of each item's own class, shape (n, K), and the number of other items in
        each class (at least 1), by which sums of distances are divided.
        """
        codes = self.codes.to(device)
        sizes = torch.bincount(codes).double()
        own_class = torch.nn.functional.one_hot(codes, len(sizes)).bool()
        return own_class, torch.where(own_class, (sizes - 1).clamp(min=1), sizes)
