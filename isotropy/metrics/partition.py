"""I(W), the isotropy of Mu & Viswanath by the partition function.

Mu & Viswanath (2018), "All-but-the-Top", ICLR; used by Rajaee & Pilehvar (2021), equations 1 and 2.

With F(u) = sum_i exp(u' w_i), I(W) = min F(u) / max F(u) over the eigenvectors u of W'W. An
eigenvector has no sign, and F(u) is not F(-u): the published value depends on the sign that a
linear algebra library happens to return. `partition_isotropy_ranges` has the lowest and highest
value over all signs. Elsewhere the sign is fixed; the reference, which the tests compare with:

    u = eigh(W.T @ W)[1].T; u *= sign of the entry of u that is largest in size
    F = exp(u @ W.T).sum(1); F.min() / F.max()
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

import numpy as np
import torch

from isotropy.metrics.matmul import scatter
from isotropy.metrics.validation import Points, aligned, as_points, as_symmetric, require_dimensions

ROWS = 4096  # of W per block

Signs = Literal["fixed", "both", "lapack"]


class IsotropyRange(NamedTuple):
    """I(W), or its logarithm, with signs "fixed", and its lowest and highest value over all choices
    of a sign for each eigenvector.
    """

    fixed: float
    low: float
    high: float


def partition_isotropy(W: Points, *, signs: Signs = "fixed", log: bool = False) -> float:
    """I(W): 1 for an isotropic cloud, approaching 0 for a cloud concentrated in one direction. W is
    not centred.

    In double precision and in log space: no overflow, and with `log` no underflow either (decoder
    models reach 1e-170).

    Args:
        W: point cloud, shape (n, d), n >= 2, d >= 2, array or tensor on any device.
        signs: "fixed": the entry of largest magnitude of each eigenvector is made positive. "both":
            the minimum and maximum of F are over both u and -u, so that the result does not depend
            on signs; it is about the square of the result for "fixed". "lapack": the signs of
            `numpy.linalg.eig`, which Rajaee & Pilehvar call, in the dtype of W; they depend on the
            library, the precision and rounding errors.
        log: return the natural logarithm of I(W).

    Returns:
        I(W) in [0, 1], or its logarithm. Where eigenvalues are equal their eigenvectors are not
        unique, nor is I(W).

    Raises:
        ValueError: bad shapes, NaN or infinity, or a cloud of zeros.

    Examples:
        >>> X = np.random.default_rng(0).normal(size=(1000, 3))
        >>> round(partition_isotropy(X), 2), round(partition_isotropy(X + [2, 0, 0]), 2)
        (0.92, 0.15)
    """
    return _stream(W, [1.0], signs).compute(log=log)


def partition_isotropy_ranges(
    W: Points, scales: Sequence[float], *, log: bool = False
) -> list[IsotropyRange]:
    """I(W) of a cloud at several scales (factors that all vectors are multiplied by), each with its
    range over the signs of eigenvectors. Other arguments and errors as in `partition_isotropy`.
    """
    return _stream(W, scales, "both").compute_ranges(log=log)


def _stream(W: Points, scales: Sequence[float], signs: Signs) -> StreamingPartition:
    """A stream with all points of a cloud."""
    if signs not in get_args(Signs):
        raise ValueError(f'signs must be "fixed", "both" or "lapack", got {signs!r}')
    points = as_points(W, in_place=True).detach()
    largest = points.abs().amax().double()
    if not bool(largest > 0):
        raise ValueError("all points are zero: I(W) has no directions to compare")
    if signs == "lapack":
        second = points.T @ points
    else:
        second = torch.zeros(
            points.shape[1], points.shape[1], dtype=torch.float64, device=points.device
        )
        for block in torch.split(points, ROWS):
            second += scatter(block.double() / largest)
    stream = StreamingPartition(second, signs=signs, scale=scales)
    stream.update(points)
    return stream


class StreamingPartition:
    """I(W) of vectors that do not fit into memory, in a second pass over them: call `update` for
    each batch, then `compute`.

    Args:
        second: W'W of all vectors, shape (d, d), up to a factor; from a first pass.
        signs: as in `partition_isotropy`.
        scale: factor that all vectors are multiplied by, or several factors. I(W) depends on the
            length of vectors: scores of two clouds are comparable only at a common length.

    Raises:
        ValueError: a `second` that is not symmetric or zero, NaN or infinity, or no scale.
    """

    def __init__(
        self, second: Points, *, signs: Signs = "fixed", scale: float | Sequence[float] = 1.0
    ) -> None:
        moment = as_symmetric(second, "the second moment W'W").detach()
        if signs == "lapack":
            columns = np.linalg.eig(moment.cpu().numpy())[1].real
            vectors = torch.from_numpy(columns).to(moment.device).double()
        else:
            _, vectors = torch.linalg.eigh(moment.double())
            largest_rows = vectors.abs().argmax(dim=0, keepdim=True)
            vectors = vectors * vectors.gather(0, largest_rows).sign()
        self._directions, self._both = vectors, signs == "both"
        self._scales: list[float] = np.atleast_1d(scale).tolist()
        if not self._scales:
            raise ValueError("I(W) needs a scale, got none")
        # For each scale: log F of each direction over the vectors added so far, with signs "both"
        # followed by that of the opposite directions.
        self._log_f: list[torch.Tensor] = []

    def reset(self) -> None:
        """Discard all vectors; the second moment stays."""
        self._log_f = []

    def update(self, W: Points) -> None:
        """Add a batch of vectors, shape (n, d), n >= 1."""
        points = as_points(W, min_points=1, in_place=True).detach()
        require_dimensions(points, len(self._directions))
        parts = [[log_f] for log_f in self._log_f] or [[] for _ in self._scales]
        for block in torch.split(points, ROWS):
            rows = aligned(block.double())
            products = rows @ self._directions
            signed = [products, -products] if self._both else [products]
            for scale, scale_parts in zip(self._scales, parts, strict=True):
                log_f = [torch.logsumexp(each * scale, dim=0) for each in signed]
                scale_parts.append(torch.cat(log_f))
        self._log_f = [torch.logsumexp(torch.stack(log_f_parts), dim=0) for log_f_parts in parts]

    def merge(self, other: StreamingPartition) -> None:
        """Add the vectors of another stream of the same second moment, as if they had been seen
        here.

        Raises:
            ValueError: another second moment, other signs or scales.
        """
        same = self._directions is other._directions or torch.equal(
            self._directions, other._directions
        )
        if not same or (self._both, self._scales) != (other._both, other._scales):
            raise ValueError("streams of I(W) need the same second moment, signs and scales")
        if not self._log_f or not other._log_f:
            self._log_f = list(self._log_f or other._log_f)
            return
        pairs = zip(self._log_f, other._log_f, strict=True)
        self._log_f = [torch.logaddexp(mine, theirs) for mine, theirs in pairs]

    def compute(self, *, log: bool = False) -> float:
        """I(W) of the vectors so far, or its natural logarithm, at the first scale.

        Raises:
            ValueError: no vectors so far.
        """
        return self.compute_each(log=log)[0]

    def compute_each(self, *, log: bool = False) -> list[float]:
        """I(W) of the vectors so far, or its natural logarithm, at each scale."""
        if not self._log_f:
            raise ValueError("I(W) needs vectors, the stream has seen none")
        log_scores = [float(log_f.amin() - log_f.amax()) for log_f in self._log_f]
        return log_scores if log else [math.exp(difference) for difference in log_scores]

    def compute_ranges(self, *, log: bool = False) -> list[IsotropyRange]:
        """I(W) of the vectors so far at each scale, with its range; of a stream with signs "both".

        Raises:
            ValueError: other signs, or no vectors so far.
        """
        if not self._both:
            raise ValueError('a range over signs needs signs "both"')
        if not self._log_f:
            raise ValueError("I(W) needs vectors, the stream has seen none")
        ranges = [_range_over_signs(log_f.view(2, -1).cpu().numpy()) for log_f in self._log_f]
        return ranges if log else [IsotropyRange(*map(math.exp, each)) for each in ranges]


def _range_over_signs(log_f: np.ndarray) -> IsotropyRange:
    """log I(W) with the given signs, and its range over all 2^d choices, in O(d log d).

    Lowest: the smallest F of one direction with the largest of another. Highest: with a threshold
    for the smallest F, each direction has the lower of its two values if that reaches it, else
    the higher one. So some number of directions, those with the smallest lower values, have
    their higher one; all d + 1 numbers are tried.

    Args:
        log_f: log F of each eigenvector and of its opposite, shape (2, d), d >= 2.
    """
    lower, higher = log_f.min(axis=0), log_f.max(axis=0)
    order = np.argsort(lower)
    lower, higher = lower[order], higher[order]
    top = int(higher.argmax())
    lowest = max(higher[top] - np.delete(lower, top).min(), np.delete(higher, 0).max() - lower[0])
    # Entry k: smallest and largest log F if the first k directions have the higher value.
    smallest = np.minimum.accumulate(np.insert(higher, 0, math.inf))
    largest = np.maximum.accumulate(np.insert(higher, 0, -math.inf))
    smallest[:-1] = np.minimum(smallest[:-1], lower)
    largest[:-1] = np.maximum(largest[:-1], lower[-1])
    fixed = float(log_f[0].min() - log_f[0].max())
    return IsotropyRange(fixed, -float(lowest), float((smallest - largest).max()))
