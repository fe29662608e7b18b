"""Metrics of `isotropy.metrics` for training loops that use torchmetrics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from isotropy.metrics.cosines import StreamingMeanCosine
from isotropy.metrics.isoscores import ShrinkageCovariance, StreamingIsoScore, require_share
from isotropy.metrics.partition import Signs, partition_isotropy
from isotropy.metrics.validation import (
    Points,
    as_points,
    require_dimensions,
    without_conversion,
)

try:
    from torchmetrics import Metric
    from torchmetrics.utilities import dim_zero_cat
except ModuleNotFoundError as error:
    if error.name != "torchmetrics":
        raise
    raise ModuleNotFoundError(
        "isotropy.integrations.torchmetrics needs the package torchmetrics, which is not "
        "installed: pip install torchmetrics",
        name=error.name,
    ) from None


class _DoublePrecisionMetric(Metric):
    """Base class of the metrics: they move to another device with a module that contains them, but
    keep their dtypes when it is converted.
    """

    is_differentiable = False
    full_state_update = False

    def _apply(
        self, fn: Callable[[torch.Tensor], torch.Tensor], exclude_state: Sequence[str] = ""
    ) -> nn.Module:
        return super()._apply(without_conversion(fn), exclude_state)


class IsoScore(_DoublePrecisionMetric):
    """IsoScore of all vectors that were seen, over batches and processes: 1 isotropic, 0 a line.

    The state has d² + d + 1 numbers, however many vectors there are.

    Args:
        d: number of dimensions.
        kwargs: those of `torchmetrics.Metric`.

    Raises:
        ValueError: in `compute`, fewer than two vectors, or no variance; in `update`, vectors of
            another shape than (n, d), NaN or infinity.

    References:
        Rudman, Gillman, Rayne & Eickhoff (2022), "IsoScore", doi:10.18653/v1/2022.findings-acl.262.

    Example:
        >>> import torch
        >>> from isotropy.integrations.torchmetrics import IsoScore
        >>> metric = IsoScore(2)
        >>> for batch in torch.tensor([[[1.0, 0], [-1, 0]], [[0, 1], [0, -1]]]):
        ...     metric.update(batch)
        >>> metric.compute()
        tensor(1., dtype=torch.float64)
    """

    moments: torch.Tensor

    def __init__(self, d: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.d = d
        # One tensor, as means and scatter matrices of parts can be merged together only
        self.add_state("moments", _pack(StreamingIsoScore(d)), dist_reduce_fx=_merge)

    def update(self, X: torch.Tensor) -> None:
        """Add vectors, shape (n, d), n >= 1."""
        stream = _unpack(self.moments)
        stream.update(X)
        self.moments = _pack(stream)

    def compute(self) -> torch.Tensor:
        """Return the score of all vectors, a float64 tensor without dimensions."""
        return self.moments.new_tensor(_unpack(self.moments).compute())


class IsoScoreStar(IsoScore):
    """IsoScore* of all vectors that were seen: IsoScore of (1 - zeta) Sigma + zeta Sigma_S.

    Args:
        d: number of dimensions.
        zeta: weight of the shrinkage covariance, in [0, 1].
        shrinkage_covariance: Sigma_S, shape (d, d); it moves with the metric to another device.
        kwargs: those of `torchmetrics.Metric`.

    Raises:
        ValueError: as in `IsoScore`; zeta outside of [0, 1], or a covariance of another shape.

    References:
        Rudman & Eickhoff (2024), "Stable Anisotropic Regularization", ICLR, algorithm 1.

    Example:
        >>> import torch
        >>> from isotropy.integrations.torchmetrics import IsoScoreStar
        >>> metric = IsoScoreStar(2, zeta=0.5, shrinkage_covariance=torch.eye(2))
        >>> metric.update(torch.tensor([[1.0, 0], [-1, 0]]))
        >>> metric.compute()
        tensor(0.6000, dtype=torch.float64)
    """

    shrinkage: torch.Tensor

    def __init__(self, d: int, zeta: float, shrinkage_covariance: Points, **kwargs: Any) -> None:
        super().__init__(d, **kwargs)
        require_share(zeta)
        self.zeta = zeta
        covariance = ShrinkageCovariance(shrinkage_covariance)
        covariance.require_compatible(covariance.matrix.new_empty(1, d))
        self.register_buffer("shrinkage", covariance.matrix.detach().clone())

    def compute(self) -> torch.Tensor:
        """Return the score of all vectors, a float64 tensor without dimensions."""
        return self.moments.new_tensor(_unpack(self.moments).compute(self.zeta, self.shrinkage))


class MeanCosine(_DoublePrecisionMetric):
    """Mean cosine over all pairs of the vectors that were seen, exact over batches and processes.

    The state has d + 2 numbers.

    Args:
        d: number of dimensions.
        kwargs: those of `torchmetrics.Metric`.

    Raises:
        ValueError: in `compute`, fewer than two vectors; in `update` as in `IsoScore`.

    Example:
        >>> import torch
        >>> from isotropy.integrations.torchmetrics import MeanCosine
        >>> metric = MeanCosine(2)
        >>> metric.update(torch.tensor([[2.0, 0]]))
        >>> metric.update(torch.tensor([[3.0, 0], [0, 1]]))
        >>> metric.compute()
        tensor(0.3333, dtype=torch.float64)
    """

    total: torch.Tensor
    n: torch.Tensor
    n_nonzero: torch.Tensor

    def __init__(self, d: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.d = d
        self.add_state("total", StreamingMeanCosine(d).total, dist_reduce_fx="sum")
        for name in ("n", "n_nonzero"):
            self.add_state(name, torch.zeros((), dtype=torch.int64), dist_reduce_fx="sum")

    def update(self, X: torch.Tensor) -> None:
        """Add vectors, shape (n, d), n >= 1."""
        stream = StreamingMeanCosine(self.d)
        stream.update(X)
        self.total = self.total + stream.total.to(self.total.device)
        self.n = self.n + stream.n
        self.n_nonzero = self.n_nonzero + stream.n_nonzero

    def compute(self) -> torch.Tensor:
        """Return the mean of all pairs, a float64 tensor without dimensions."""
        stream = StreamingMeanCosine(self.d)
        stream.total = self.total
        stream.n, stream.n_nonzero = int(self.n), int(self.n_nonzero)
        return self.total.new_tensor(stream.compute())


class PartitionIsotropy(_DoublePrecisionMetric):
    """I(W) of all vectors that were seen, by the partition function.

    It needs the eigenvectors of W'W of all vectors, and then the vectors again: the state holds
    them all, and each process gets those of the others.

    Args:
        d: number of dimensions.
        log: return the natural logarithm, for values that are 0 in double precision.
        signs: signs of the eigenvectors, as in `isotropy.metrics.partition_isotropy`.
        kwargs: those of `torchmetrics.Metric`.

    Raises:
        ValueError: in `compute`, no vectors or zero vectors only; in `update` as in `IsoScore`.

    References:
        Mu & Viswanath (2018), "All-but-the-Top", ICLR, equation 2.

    Example:
        >>> import torch
        >>> from isotropy.integrations.torchmetrics import PartitionIsotropy
        >>> metric = PartitionIsotropy(2)
        >>> metric.update(torch.tensor([[1.0, 0], [-1, 0]]))
        >>> metric.update(torch.tensor([[0.0, 1], [0, -1]]))
        >>> metric.compute()
        tensor(1., dtype=torch.float64)
    """

    vectors: list[torch.Tensor]

    def __init__(self, d: int, *, log: bool = False, signs: Signs = "fixed", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.d, self.log, self.signs = d, log, signs
        self.add_state("vectors", [], dist_reduce_fx="cat")

    def update(self, X: torch.Tensor) -> None:
        """Add vectors, shape (n, d), n >= 1."""
        points = as_points(X, min_points=1, min_dims=1)
        require_dimensions(points, self.d)
        # Flat, as torchmetrics gives a process without vectors an empty tensor of one dimension
        self.vectors.append(points.detach().flatten().clone())

    def compute(self) -> torch.Tensor:
        """Return I(W) of all vectors, a float64 tensor without dimensions."""
        points = dim_zero_cat(self.vectors).view(-1, self.d)
        score = partition_isotropy(points, log=self.log, signs=self.signs)
        return torch.tensor(score, dtype=torch.float64, device=points.device)


def _pack(stream: StreamingIsoScore) -> torch.Tensor:
    """The number of vectors, their mean and their scatter matrix, as one tensor, float64."""
    return torch.cat([stream.n.double()[None], stream.mean, stream.scatter.flatten()])


def _unpack(moments: torch.Tensor) -> StreamingIsoScore:
    """The stream with these moments: d with 1 + d + d * d numbers."""
    d = int((len(moments) - 1) ** 0.5)
    stream = StreamingIsoScore(d).to(moments.device)
    stream.n.copy_(moments[0])
    stream.mean.copy_(moments[1 : d + 1])
    stream.scatter.copy_(moments[d + 1 :].view(d, d))
    return stream


def _merge(parts: torch.Tensor) -> torch.Tensor:
    """Merge the moments of several parts, shape (parts, 1 + d + d * d)."""
    merged, *others = map(_unpack, parts)
    for other in others:
        merged.merge(other)
    return _pack(merged)
