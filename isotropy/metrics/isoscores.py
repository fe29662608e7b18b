"""IsoScore and IsoScore* of a point cloud, in the closed form that needs no eigendecomposition.

Rudman, Gillman, Rayne & Eickhoff (2022), "IsoScore: Measuring the Uniformity of Embedding Space
Utilization", Findings of ACL, doi:10.18653/v1/2022.findings-acl.262. Rudman & Eickhoff (2024),
"Stable Anisotropic Regularization", ICLR.

With Sigma the covariance (ddof = 1) and PR = tr(Sigma)^2 / ||Sigma||_F^2 the participation ratio,

    IsoScore = (PR - 1) / (d - 1).

This equals steps 1 to 4 of the first paper's Algorithm 1: with Lambda the eigenvalues of Sigma,
||sqrt(d) Lambda/||Lambda|| - 1||^2 = 2d - 2 sqrt(d) tr(Sigma)/||Sigma||_F. IsoScore* is the same on
the shrunk covariance (1 - zeta) Sigma + zeta Sigma_S. The reference, which the tests compare with:

    S = (1 - zeta) * torch.cov(X.T) + zeta * shrinkage_covariance
    score = (S.trace() ** 2 / S.square().sum() - 1) / (d - 1)
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from isotropy.metrics.matmul import ROWS_PER_BLOCK, full_precision, gram, product, scatter
from isotropy.metrics.validation import (
    Points,
    as_codes,
    as_points,
    as_symmetric,
    coordinate_scale,
    require_dimensions,
    require_same_dimensions,
    require_size,
    scaled,
    without_conversion,
)

# Between these, squares, their sums and the fourth powers in the gradient are in the float range.
_TINY, _HUGE = 1e-9, 1e9


def isoscore(X: Points) -> float | torch.Tensor:
    """IsoScore: the share of dimensions that a cloud uses uniformly, from 0 (a line) to 1 (equal
    variances).

    Args:
        X: point cloud, shape (n, d), n >= 2, d >= 2. Array or tensor on any device.

    Returns:
        A float; for a torch tensor a 0-d float64 tensor on its device, through which gradients
        flow, twice if need be.

    Raises:
        ValueError: bad shape, NaN or infinity, or all points equal (0/0: the score is undefined).

    Examples:
        Equal variance in both directions, and none in one of them:

        >>> isoscore([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
        1.0
        >>> isoscore([[1.0, 0.0], [2.0, 0.0], [4.0, 0.0]])
        0.0
    """
    return isoscore_star(X, 0.0)


def isoscore_standard_error(X: Points, groups: Any = None) -> float:
    """Standard error of IsoScore: how far it would vary between samples of n points.

    By the infinitesimal jackknife (delta method), from the influence of each point on tr(Sigma) and
    tr(Sigma^2); Efron & Tibshirani (1993), "An Introduction to the Bootstrap", chapter 21. Within a
    few percent of the spread of IsoScore for n much larger than d, and up to about twice as large
    for n near d or below, or where IsoScore is near 1: too cautious there, not too sure.

    It is the error of sampling, not the bias: IsoScore of few points is too low (for equal
    variances about n/(n + d) instead of 1), often by many standard errors. Clouds of different n
    differ by that alone.

    Args:
        X: point cloud, shape (n, d), n >= 2, d >= 2. Array or tensor on any device.
        groups: group of each point, shape (n,): points of different groups are independent, points
            of one group, such as the tokens of a text, need not be. None: all points are
            independent.

    Returns:
        A float without gradient. Products are in the dtype of X, and summed in float64: single
        precision changes it by less than 1e-4 of its value.

    Raises:
        ValueError: as in `isoscore`; groups of another length, with missing values, or fewer than
            two.

    Examples:
        >>> import numpy as np
        >>> X = np.random.default_rng(0).normal(size=(1000, 3)) * [3, 2, 1]
        >>> round(isoscore(X), 3), round(isoscore_standard_error(X), 3)
        (0.495, 0.022)
    """
    points = scaled(as_points(X, finite=False, in_place=True).detach())
    stream = StreamingIsoScore(points.shape[1]).to(points.device)
    for block in torch.split(points, ROWS_PER_BLOCK):
        stream.update(block)
    return standard_error(stream.influences(points), groups)


def standard_error(influences: torch.Tensor, groups: Any = None) -> float:
    """Standard error of an estimate from the influences of its points, shape (n,).

    That of the difference of two estimates on the same points follows from the difference of their
    influences. Groups and errors as in `isoscore_standard_error`.
    """
    n = n_groups = len(influences)
    if groups is not None:
        codes = as_codes(groups, n, name="groups").to(influences.device)
        n_groups = int(codes.max()) + 1
        influences = influences.new_zeros(n_groups).index_add_(0, codes, influences)
    return float((influences.square().sum() * (n_groups / (n_groups - 1))).sqrt()) / n


def isoscore_star(
    X: Points,
    zeta: float,
    shrinkage_covariance: Points | ShrinkageCovariance | None = None,
    *,
    validate: bool = True,
) -> float | torch.Tensor:
    """IsoScore*: IsoScore of (1 - zeta) Sigma_X + zeta Sigma_S, stable for few points (Rudman &
    Eickhoff 2024, Algorithm 1).

    Args:
        X: point cloud, shape (n, d), n >= 2, d >= 2. Array or tensor on any device.
        zeta: weight of the shrinkage covariance, in [0, 1]: 0 is IsoScore, 1 ignores X. (The text
            of the paper swaps the two weights in one version; this follows the authors' code.)
        shrinkage_covariance: Sigma_S, shape (d, d), of a larger sample, on the device of X; may be
            None for zeta = 0. The authors' package suggests the identity if there is none, with
            which the score depends on the scale of X. To use one covariance for many X, wrap it in
            `ShrinkageCovariance` once.
        validate: look at the values of X and of the score. Without it a training loop need not wait
            for a GPU; the score is NaN or infinite where it would be an error, and also for points
            whose squares leave the range of their dtype.

    Returns:
        A float; for a torch tensor a 0-d float64 tensor on its device, through which gradients flow
        to X and to `shrinkage_covariance`, twice if need be.

    Raises:
        ValueError: bad shape, zeta outside [0, 1], NaN or infinity, no shrinkage covariance for
            zeta > 0 or one that is not symmetric, tensors on different devices, or zero variance
            (0/0: the score is undefined).
    """
    points = as_points(X, finite=False, in_place=True)
    require_share(zeta)
    shrinkage = None
    if zeta > 0:
        if shrinkage_covariance is None:
            raise ValueError(
                "zeta > 0 needs a shrinkage_covariance, shape (d, d); torch.eye(d) is the "
                "authors' default"
            )
        shrinkage = as_shrinkage(shrinkage_covariance)
        shrinkage.require_compatible(points)
    if validate and (scale := coordinate_scale(points)) != 1:
        points = points / scale
        points = points - points[0].detach()  # exact, unlike a mean
        spread = coordinate_scale(points)
        points, scale = points / spread, scale * spread
        if shrinkage is not None:
            shrinkage = ShrinkageCovariance(shrinkage.matrix / scale**2)
    matrix = None if shrinkage is None else shrinkage.matrix  # an input, for autograd
    apply: Any = _IsoScoreStar.apply
    score: torch.Tensor = apply(points, matrix, shrinkage, float(zeta), validate)
    return score if isinstance(X, torch.Tensor) else float(score)


def require_share(zeta: float) -> None:
    """Raise a ValueError if zeta is not a number in [0, 1]."""
    try:
        is_share = not isinstance(zeta, str) and 0 <= float(zeta) <= 1
    except (TypeError, ValueError, RuntimeError):
        is_share = False
    if not is_share:
        raise ValueError(f"zeta must lie in [0, 1], got {reprlib.repr(zeta)}")


class ShrinkageCovariance:
    """A covariance Sigma_S, shape (d, d), checked once for use with many batches.

    Raises:
        ValueError: not square, not symmetric, NaN or infinity, zero, or a negative variance.
    """

    def __init__(self, covariance: Points) -> None:
        S = as_symmetric(covariance, "shrinkage_covariance").double()
        self.matrix = S  # float64, with the caller's graph
        self.trace, self.square = float(S.detach().trace()), float(S.detach().square().sum())
        self._by_dtype: dict[torch.dtype, torch.Tensor] = {torch.float64: S.detach()}

    def as_dtype(self, dtype: torch.dtype) -> torch.Tensor:
        """Return the matrix in another dtype, converted once."""
        if dtype not in self._by_dtype:
            self._by_dtype[dtype] = self.matrix.detach().to(dtype)
        return self._by_dtype[dtype]

    def require_compatible(self, points: torch.Tensor) -> None:
        """Raise a ValueError if points have another dimension or are on another device."""
        d = points.shape[1]
        if len(self.matrix) != d:
            shape = tuple(self.matrix.shape)
            raise ValueError(
                f"shrinkage_covariance must have shape ({d}, {d}) for points of {d} dimensions, "
                f"got {shape}"
            )
        if self.matrix.device != points.device:
            covariance_device, points_device = self.matrix.device, points.device
            raise ValueError(
                f"shrinkage_covariance is on {covariance_device}, "
                f"the points are on {points_device}: move one of them"
            )


def as_shrinkage(covariance: Points | ShrinkageCovariance) -> ShrinkageCovariance:
    """Check a covariance and wrap it, unless it is wrapped already."""
    return (
        covariance
        if isinstance(covariance, ShrinkageCovariance)
        else ShrinkageCovariance(covariance)
    )


def isoscore_from_covariance(covariance: Points) -> float | torch.Tensor:
    """IsoScore of a cloud, from its covariance, shape (d, d). Return values and errors as in
    `isoscore`.
    """
    S = as_symmetric(covariance, "a covariance")
    S = S.double() / S.detach().double().abs().amax().clamp(min=torch.finfo(torch.float64).tiny)
    score = ((S.trace() ** 2 / S.square().sum() - 1) / (len(S) - 1)).clamp(0, 1)
    return score if isinstance(covariance, torch.Tensor) else float(score)


class StreamingCovariance(nn.Module):
    """Covariance of data that arrive in batches or shards, in float64. It holds d x d numbers.

    It is a module, so that `.to(device)` moves it and `state_dict()` saves it. Batches are merged
    by the method of Chan, Golub & LeVeque (1983), doi:10.1080/00031305.1983.10483115, which is also
    accurate far from the origin.
    """

    n: torch.Tensor
    mean: torch.Tensor
    scatter: torch.Tensor

    def __init__(self, d: int) -> None:
        super().__init__()
        require_size(d, "d")
        with torch.inference_mode(False):  # made in an evaluation, it must be usable in training
            self.register_buffer("n", torch.zeros((), dtype=torch.int64))
            self.register_buffer("mean", torch.zeros(d, dtype=torch.float64))
            self.register_buffer("scatter", torch.zeros(d, d, dtype=torch.float64))

    def _apply(
        self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True
    ) -> StreamingCovariance:
        """Move to the device of a model with it, but stay in float64."""
        super()._apply(without_conversion(fn), recurse)  # type: ignore[no-untyped-call]
        return self

    def reset(self) -> None:
        """Discard all data."""
        for buffer in self.buffers():
            buffer.zero_()

    @torch.no_grad()
    @full_precision
    def update(self, X: Points) -> None:
        """Add a batch of points, shape (n, d), n >= 1.

        Raises:
            ValueError: another number of dimensions, NaN or infinity; the batch is not added.
        """
        points = as_points(X, min_points=1, in_place=True).to(self.mean.device)
        require_dimensions(points, len(self.mean))
        mean = points.mean(dim=0, dtype=torch.float64)
        rounded = mean.to(points.dtype)
        centred = points - rounded
        if not _TINY < float(torch.stack(torch.aminmax(centred)).abs().amax()) < _HUGE:
            centred = centred.double()  # squares in single precision would be 0 or infinite
        n = torch.tensor(len(points), device=self.n.device)
        self._add(n, mean, *self._moments(centred, mean - rounded))

    def merge(self, other: StreamingCovariance) -> None:
        """Add the data of another stream, as if they had been seen here.

        Raises:
            ValueError: another number of dimensions.
        """
        require_same_dimensions(len(self.mean), len(other.mean))
        self._add(*(getattr(other, name).to(self.mean.device) for name in self._buffers))

    def _moments(self, centred: torch.Tensor, shift: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The central moments of a batch, in the order of the buffers after the mean. `centred` is
        in the dtype of the points, in which the mean is too small by `shift`, its rounding error.
        """
        return (scatter(centred) - len(centred) * torch.outer(shift, shift),)

    def covariance(self) -> torch.Tensor:
        """The covariance so far, shape (d, d), float64, ddof = 1.

        Raises:
            ValueError: fewer than two points so far, or squares of coordinates overflow.
        """
        if int(self.n) < 2:
            raise ValueError(
                f"a covariance needs at least 2 points, the stream has seen {int(self.n)}"
            )
        if not bool(torch.isfinite(self.scatter.trace())):
            raise ValueError("squares of the coordinates overflow: divide all points by one number")
        return self.scatter / (self.n - 1)

    def _add(self, n: torch.Tensor, mean: torch.Tensor, scatter: torch.Tensor) -> None:
        if int(n) == 0:
            return
        delta = mean - self.mean
        share = n.double() / (self.n + n)  # integers would divide to float32
        self.scatter += scatter + torch.outer(delta, delta) * (self.n * share)
        self.mean += delta * share
        self.n += n


class StreamingIsoScore(StreamingCovariance):
    """IsoScore of data that do not fit into memory: call `update` for each batch, `merge` for
    shards, then `compute`.

    Examples:
        >>> import numpy as np
        >>> X = np.random.default_rng(0).normal(size=(1000, 3))
        >>> stream = StreamingIsoScore(3)
        >>> for batch in np.split(X, 10):
        ...     stream.update(batch)
        >>> bool(np.isclose(stream.compute(), isoscore(X)))
        True
    """

    def compute(
        self, zeta: float = 0.0, shrinkage_covariance: Points | ShrinkageCovariance | None = None
    ) -> float:
        """IsoScore, or IsoScore* with zeta > 0, of all points so far. Arguments and errors as in
        `isoscore_star`.
        """
        covariance = self.covariance()
        # Means of equal points differ between batches by rounding errors.
        smallest = 4 * torch.finfo(torch.float64).eps * self.mean.abs()
        if zeta == 0 and bool((covariance.diagonal().clamp(min=0).sqrt() <= smallest).all()):
            raise ValueError(
                "all points are equal, or squares of their differences underflow: the variance is "
                "zero, IsoScore is undefined"
            )
        require_share(zeta)
        if zeta > 0:
            if shrinkage_covariance is None:
                raise ValueError("zeta > 0 needs a shrinkage_covariance, shape (d, d)")
            shrinkage = as_shrinkage(shrinkage_covariance)
            shrinkage.require_compatible(covariance)
            covariance = (1 - zeta) * covariance + zeta * shrinkage.matrix.detach()
        return float(isoscore_from_covariance(covariance))

    @torch.no_grad()
    @full_precision
    def influences(self, X: Points) -> torch.Tensor:
        """Influence of each point on the IsoScore of all points so far, shape (n,), float64: what
        `standard_error` needs, in a second pass over the points of the stream.

        With y a centred point, it is 2 PR/(d - 1) (|y|^2/tr(Sigma) - y'Sigma y/tr(Sigma^2)).

        Raises:
            ValueError: as in `compute` and `update`.
        """
        return self._influences(self._forms(X))

    def _influences(self, forms: torch.Tensor) -> torch.Tensor:
        squares, projected = forms[:2]
        norm = (self.scatter / self.scatter.trace()).square().sum()
        influences: torch.Tensor = squares - projected / norm
        return influences * (2 / norm / (len(self.mean) - 1))

    def _forms(self, X: Points, *vectors: torch.Tensor) -> torch.Tensor:
        """For each point, in units of the root mean square distance from the mean: |y|^2, y'Sy
        with S of trace 1, and y'v for each vector v; shape (2 + number of vectors, n), float64.
        """
        self.compute()  # its errors
        points = as_points(X, min_points=1, in_place=True).to(self.mean.device)
        require_dimensions(points, len(self.mean))
        S = (self.scatter / self.scatter.trace()).to(points.dtype)
        unit = 1 / (self.scatter.trace() / self.n).sqrt()
        rounded = self.mean.to(points.dtype)
        shift = (self.mean - rounded).to(points.dtype)
        forms = torch.empty(
            2 + len(vectors), len(points), dtype=torch.float64, device=points.device
        )
        for first in range(0, len(points), ROWS_PER_BLOCK):
            rows = slice(first, first + ROWS_PER_BLOCK)
            y = (points[rows] - rounded).sub_(shift).mul_(unit)
            forms[0, rows] = y.square().sum(dim=1, dtype=torch.float64)
            forms[1, rows] = product(y, S).mul_(y).sum(dim=1, dtype=torch.float64)
            for i, vector in enumerate(vectors):
                forms[2 + i, rows] = (y @ vector.to(y.dtype)).double()
        return forms


class _IsoScoreStar(torch.autograd.Function):
    """IsoScore* with its gradient in closed form.

    With a = (1 - zeta)/(n - 1), S = X'X of the centred points and C the shrinkage covariance,
    t = a tr S + zeta tr C,  f = a^2 ||S||^2 + 2 a zeta <S, C> + zeta^2 ||C||^2,  score = (t^2/f -
    1)/(d - 1), dt/dX = 2 a X,  df/dX = 4 a X (a S + zeta C). For n < d the smaller XX' replaces
    S: it has the same trace and norm, <S, C> = sum(X * XC), and X S = (XX') X.
    """

    @staticmethod
    @full_precision
    def forward(
        ctx: Any,
        points: torch.Tensor,
        covariance: torch.Tensor | None,
        shrinkage: ShrinkageCovariance | None,
        zeta: float,
        validate: bool,
    ) -> torch.Tensor:
        n, d = points.shape
        a = (1 - zeta) / (n - 1)
        with_centred = n < d or ctx.needs_input_grad[0]
        mean, centred, second = _centred_products(points, with_centred)
        # With checks, scalars are Python floats, also in double precision: a call into torch takes
        # longer than the product of a small batch. Without, they stay on the device.
        number: Callable[[torch.Tensor], Any] = float if validate else torch.Tensor.double
        trace = number(second.trace())
        if validate and _is_far(mean, trace / n):
            mean, centred, second = _centred_products(points - points[0], with_centred)
            trace = float(second.trace())
        if validate and zeta == 0 and trace == 0:
            raise ValueError("all points are equal: IsoScore is undefined")
        t, f = a * trace, a**2 * number((second * second).sum())
        ctx.product = None  # XC, where it is needed
        if shrinkage is not None:
            if n < d:
                ctx.product = product(centred, shrinkage.as_dtype(centred.dtype))
                cross = number((centred * ctx.product).sum())
            else:
                cross = number((second * shrinkage.as_dtype(torch.float64)).sum())
            t += zeta * shrinkage.trace
            f += 2 * a * zeta * cross + zeta**2 * shrinkage.square
        if validate and not f > 0:
            raise ValueError("the variance is zero or not a number: IsoScore is undefined")
        ctx.save_for_backward(points, covariance)
        ctx.zeta, ctx.centred, ctx.second, ctx.t, ctx.f = zeta, centred, second, t, f
        # Rounding errors may put the participation ratio slightly outside [1, d].
        score = (t * t / f - 1) / (d - 1)
        if isinstance(score, torch.Tensor):
            return score.clamp(0, 1)
        return torch.tensor(min(max(score, 0.0), 1.0), dtype=torch.float64, device=points.device)

    @staticmethod
    @full_precision
    def backward(
        ctx: Any, *grad_outputs: torch.Tensor
    ) -> tuple[torch.Tensor | None, torch.Tensor | None, None, None, None]:
        points, covariance = ctx.saved_tensors
        n, d = points.shape
        # A second derivative is requested: autograd differentiates the definition
        if torch.is_grad_enabled():
            with torch.enable_grad():
                score = _score_by_definition(points, covariance, ctx.zeta)
                inputs = [
                    x
                    for x, is_needed in zip(
                        (points, covariance), ctx.needs_input_grad[:2], strict=True
                    )
                    if is_needed
                ]
                gradients = iter(
                    torch.autograd.grad(score, inputs, grad_outputs[0], create_graph=True)
                )
            first, second = (
                next(gradients) if is_needed else None for is_needed in ctx.needs_input_grad[:2]
            )
            return first, second, None, None, None
        a, t, f = (1 - ctx.zeta) / (n - 1), ctx.t, ctx.f
        grad_score = grad_outputs[0] / (d - 1)
        dt, df = grad_score * (2 * t / f), grad_score * -(t / f * (t / f))
        grad_points = grad_covariance = None
        X, S, dtype = ctx.centred, ctx.second, ctx.centred.dtype
        if ctx.needs_input_grad[0]:
            if n < d:
                XS = (a * S).to(dtype) @ X
                XS = XS if ctx.product is None else XS.add_(ctx.product, alpha=ctx.zeta)
            else:
                shrunk = a * S if covariance is None else a * S + ctx.zeta * covariance
                XS = product(X, shrunk.to(dtype))
            grad_points = XS.mul_((4 * a * df).to(dtype)).addcmul_(X, (2 * a * dt).to(dtype))
        if ctx.needs_input_grad[1]:
            shrunk = a * (scatter(X) if n < d else S) + ctx.zeta * covariance
            grad_covariance = ctx.zeta * (
                dt * torch.eye(d, dtype=torch.float64, device=X.device) + 2 * df * shrunk
            )
        return grad_points, grad_covariance, None, None, None


def _centred_products(
    points: torch.Tensor, with_centred: bool
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the mean of a cloud, shape (n, d), the centred points if they are needed, and X'X of
    them in float64, or XX' for n < d.
    """
    mean = points.mean(dim=0)
    centred = points - mean if with_centred else points[:0]
    return mean, centred, gram(centred) if len(points) < len(mean) else scatter(points, mean)


def _is_far(mean: torch.Tensor, variance: float) -> bool:
    """Return whether a cloud is so far from the origin that the rounding error of its mean changes
    its covariance, of trace `variance`: its points must first be taken relative to one of them,
    which is exact.
    """
    return variance < torch.finfo(mean.dtype).eps * float(mean.square().sum())


def _score_by_definition(
    points: torch.Tensor, covariance: torch.Tensor | None, zeta: float
) -> torch.Tensor:
    """Compute the score by its definition, differentiable any number of times."""
    S = torch.cov(points.double().T)
    S = S if covariance is None else (1 - zeta) * S + zeta * covariance
    return (S.trace() ** 2 / S.square().sum() - 1) / (len(S) - 1)
