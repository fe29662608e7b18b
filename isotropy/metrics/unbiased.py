"""IsoScore without the bias of few points.

IsoScore of n points is too low: for equal variances it is about n/(n + d) instead of 1. Here both
parts of the participation ratio are estimated without bias, by Himeno & Yamada (2014), "Estimations
for some functions of covariance matrix in high dimension under non-normality and its applications",
Journal of Multivariate Analysis 130, doi:10.1016/j.jmva.2014.04.020. With y the centred points,
M = sum of yy', P the sum of (y_i'y_j)^2 over i != j, and Q = sum of |y|^4, up to the same factor,

    tr(Sigma^2):  (n - 1)(n - 2) P + tr(M)^2 - 2 (n - 1) Q
    tr(Sigma)^2:  2 P + (n^2 - 3 n + 1) tr(M)^2 - (n - 2)(n + 1) Q.

They are the means of ((x_1 - x_2)'(x_3 - x_4))^2/4 and |x_1 - x_2|^2 |x_3 - x_4|^2/4 over all
quadruples of different points (Chen, Zhang & Zhong 2010, doi:10.1198/jasa.2010.tm09560). Their
ratio has a bias of order 1/n, which the jackknife removes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from isotropy.metrics.isoscores import StreamingIsoScore, _is_far, standard_error
from isotropy.metrics.matmul import ROWS_PER_BLOCK, full_precision, gram, scatter
from isotropy.metrics.validation import Points, as_points, scaled

MIN_POINTS = 4
"""Fewest points for the two estimates."""
MIN_CORRECTED, MAX_CORRECTED = 10, 2048
"""Points for which the ratio is corrected. For fewer, the correction would be mostly noise; for
more, the bias is below a tenth of the standard error without it, and it would double the time."""
_SMALLEST = 1e-6  # of tr(Sigma^2), in units in which rounding errors of float32 are about 1e-7


def isoscore_unbiased(X: Points, *, validate: bool = True) -> float | torch.Tensor:
    """IsoScore without the bias of few points: clouds of different n can be compared.

    In simulations of normal, heavy-tailed, spiked and rank-deficient clouds its bias is below a
    tenth of its standard error from 20 points on. The estimate is not clamped, since that would be
    bias: it may be above 1 by a few standard errors, or a little below 0. Points must be
    independent; those that are not, such as the tokens of few texts, look less isotropic.

    Args:
        X: point cloud, shape (n, d), n >= 4, d >= 2. Array or tensor on any device.
        validate: look at the values of X and of the score, as in `isoscore_star`.

    Returns:
        A float; for a torch tensor a 0-d float64 tensor on its device, through which gradients
        flow, twice if need be.

    Raises:
        ValueError: bad shape, NaN or infinity, all points equal, or an estimate of tr(Sigma^2) that
            is 0: all differences between points are orthogonal, as for few points in far more
            dimensions.

    Examples:
        50 points of an isotropic distribution in 100 dimensions:

        >>> import numpy as np
        >>> from isotropy.metrics import isoscore
        >>> X = np.random.default_rng(0).normal(size=(50, 100))
        >>> round(isoscore(X), 2), round(isoscore_unbiased(X), 2)
        (0.32, 1.0)
    """
    points = _as_enough_points(X, MIN_POINTS, validate)
    score = _estimate(points, validate)
    return score if isinstance(X, torch.Tensor) else float(score)


def isoscore_unbiased_standard_error(X: Points, groups: Any = None) -> float:
    """Standard error of `isoscore_unbiased`, by the jackknife: the scores without each point.

    Two standard errors contain the true score in at least 91 % of samples of 20 points and more in
    simulations. It is up to 1.5 times too large for clouds near 1 or of far more dimensions than
    points, where the jackknife counts the part of pairs of points twice (Efron & Stein 1981).

    Args:
        X: point cloud, shape (n, d), n >= 5, d >= 2. Array or tensor on any device.
        groups: as in `isoscore_standard_error`.

    Returns:
        A float without gradient.

    Raises:
        ValueError: as in `isoscore_unbiased` and `isoscore_standard_error`.
    """
    points = _as_enough_points(X, MIN_POINTS + 1, True).detach()
    return jackknife_error(_left_out(points), groups)


def jackknife_error(left_out: torch.Tensor, groups: Any = None) -> float:
    """Standard error from the scores without each point, shape (n,). Groups and errors as in
    `isoscore_standard_error`.
    """
    return standard_error(jackknife_influences(left_out), groups)


def jackknife_influences(left_out: torch.Tensor) -> torch.Tensor:
    """Influence of each point on a score, from the scores without each point, shape (n,) each."""
    return (len(left_out) - 1) * (left_out.mean() - left_out)


class StreamingUnbiasedIsoScore(StreamingIsoScore):
    """IsoScore, and IsoScore without bias, of data that do not fit into memory: call `update` for
    each batch, `merge` for shards, then `compute` and `compute_unbiased`.
    """

    fourth: torch.Tensor
    cubes: torch.Tensor

    def __init__(self, d: int) -> None:
        super().__init__(d)
        with torch.inference_mode(False):  # as in the base class
            self.register_buffer("fourth", torch.zeros((), dtype=torch.float64))
            self.register_buffer("cubes", torch.zeros(d, dtype=torch.float64))

    def compute_unbiased(self, left_out: torch.Tensor | None = None) -> float:
        """The unbiased score of all points so far.

        Args:
            left_out: the scores without each of them, from `effects` in a second pass. They correct
                the bias of the ratio, which matters for MAX_CORRECTED points or fewer.

        Raises:
            ValueError: as in `isoscore_unbiased`.
        """
        self.compute()  # its errors
        score = _checked(*_ratio(self._sums()))
        if left_out is not None:
            score = _corrected(score, left_out)
        return float(score)

    @torch.no_grad()
    @full_precision
    def effects(self, X: Points) -> torch.Tensor:
        """The influence of each point on IsoScore, as in `influences`, and the unbiased score of
        the other points of the stream; shape (2, n), float64.

        Raises:
            ValueError: as in `influences`; fewer than five points so far.
        """
        if int(self.n) <= MIN_POINTS:
            raise ValueError(f"need at least {MIN_POINTS + 1} points, got n = {int(self.n)}")
        trace = self.scatter.trace()
        forms = self._forms(X, self.cubes / trace**1.5)
        r, w, q = forms[0] / self.n, forms[1] / self.n, forms[2] / self.n.double().sqrt()
        left_out = _without_each(self._sums(), _Forms(r, w - r * r, q))
        return torch.stack([self._influences(forms), left_out])

    def _sums(self) -> _Sums:
        """The sums of all points, in units in which the trace is 1."""
        n, d = int(self.n), len(self.mean)
        if n < MIN_POINTS:
            raise ValueError(f"need at least {MIN_POINTS} points, the stream has seen {n}")
        trace = self.scatter.trace()
        fourth = self.fourth / trace**2
        return _Sums(n, d, trace / trace, (self.scatter / trace).square().sum() - fourth, fourth)

    def _moments(self, centred: torch.Tensor, shift: torch.Tensor) -> tuple[torch.Tensor, ...]:
        (batch_scatter,) = super()._moments(centred, shift)
        fourth, cubes = torch.zeros_like(self.fourth), torch.zeros_like(self.cubes)
        for block in torch.split(centred, ROWS_PER_BLOCK):
            y = block - shift.to(block.dtype)
            r = torch.linalg.vector_norm(y, dim=1).square()
            fourth += r.double().square().sum()
            cubes += r @ y
        return batch_scatter, fourth, cubes

    def _add(self, n: torch.Tensor, mean: torch.Tensor, *moments: torch.Tensor) -> None:
        delta = (mean - self.mean) / (self.n + n).clamp(min=1)
        seen = _about_another_mean(self.n, self.scatter, self.fourth, self.cubes, -n * delta)
        added = _about_another_mean(n, moments[0], moments[1], moments[2], self.n * delta)
        super()._add(n, mean, moments[0])
        self.fourth.copy_(seen[0] + added[0])
        self.cubes.copy_(seen[1] + added[1])


def _about_another_mean(
    n: torch.Tensor,
    scatter: torch.Tensor,
    fourth: torch.Tensor,
    cubes: torch.Tensor,
    step: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The sums of |y|^4 and |y|^2 y of points y, shape (n, d), whose sum is 0, after a step, shape
    (d,), is added to each.
    """
    moved, trace, length = scatter @ step, scatter.trace(), step @ step
    return (
        fourth + 4 * (cubes + moved) @ step + (2 * trace + n * length) * length,
        cubes + 2 * moved + (trace + n * length) * step,
    )


class _Sums(NamedTuple):
    """Sums over n centred points y in d dimensions."""

    n: int
    d: int
    trace: torch.Tensor  # of |y|^2
    pairs: torch.Tensor  # of (y_i'y_j)^2 over i != j
    fourth: torch.Tensor  # of |y|^4


def _ratio(sums: _Sums) -> tuple[torch.Tensor, torch.Tensor]:
    """The score from unbiased estimates of both traces; and that of tr(Sigma^2), up to a factor,
    relative to the square of the trace.
    """
    n, d, trace, pairs, fourth = sums
    square = trace * trace
    denominator = (n - 1) * (n - 2) * pairs + square - 2 * (n - 1) * fourth
    numerator = 2 * pairs + (n * n - 3 * n + 1) * square - (n - 2) * (n + 1) * fourth
    return (numerator / denominator - 1) / (d - 1), denominator / square


def _checked(score: torch.Tensor, denominator: torch.Tensor) -> torch.Tensor:
    """Return a score; raise a ValueError where it is undefined. The estimate of tr(Sigma^2) is a
    mean of squares, hence never negative but for rounding.
    """
    if not bool((denominator > _SMALLEST).all()):
        raise ValueError(
            "the estimate of tr(Sigma^2) is 0: too few points for the unbiased IsoScore"
        )
    return score


class _Forms(NamedTuple):
    """For each of n centred points y_i, shape (n,)."""

    r: torch.Tensor  # |y_i|^2
    w: torch.Tensor  # sum of (y_i'y_j)^2 over j != i
    q: torch.Tensor  # sum of |y_j|^2 y_i'y_j


def _without_each(sums: _Sums, forms: _Forms, validate: bool = True) -> torch.Tensor:
    """The score without each point, shape (n,): without a point y, the others are nearer to their
    mean by y/(n - 1).
    """
    r, w, q = forms
    n, d, trace, pairs, fourth = sums
    a, e = n / (n - 1), 1 / (n - 1)
    form = w + r * r
    others = fourth + 4 * e * e * form + n * e**4 * r * r + 4 * e * q + 2 * e * e * r * trace
    others = others - (a * a * r) ** 2
    square = pairs + fourth - 2 * a * form + (a * r) ** 2
    scores = _ratio(_Sums(n - 1, d, trace - a * r, square - others, others))
    return _checked(*scores) if validate else scores[0]


def _corrected(score: torch.Tensor, left_out: torch.Tensor) -> torch.Tensor:
    """Remove the bias of a ratio by the jackknife.

    The jackknife removes twice the part of the bias that comes from pairs of points. It is about
    4/n^2 of the score: the variance of that part of the estimate of tr(Sigma^2) of normal points.
    """
    n = len(left_out)
    if not MIN_CORRECTED <= n <= MAX_CORRECTED:
        return score
    return n * score - (n - 1) * left_out.mean() + 4 / n**2 * score


def _as_enough_points(X: Points, min_points: int, validate: bool) -> torch.Tensor:
    """Check a cloud, and rescale it if its squares leave the float range."""
    points = as_points(X, min_points=min_points, finite=False, in_place=True)
    return scaled(points) if validate else points


def _estimate(points: torch.Tensor, validate: bool) -> torch.Tensor:
    """The unbiased score of a cloud, shape (n, d)."""
    n = len(points)
    sums, forms = _sums_and_forms(points, MIN_CORRECTED <= n <= MAX_CORRECTED, validate)
    score, denominator = _ratio(sums)
    score = _checked(score, denominator) if validate else score
    return score if forms is None else _corrected(score, _without_each(sums, forms, validate))


def _left_out(points: torch.Tensor) -> torch.Tensor:
    """The unbiased score without each point, shape (n,)."""
    if len(points) >= points.shape[1]:
        stream = StreamingUnbiasedIsoScore(points.shape[1]).to(points.device)
        for block in torch.split(points, ROWS_PER_BLOCK):
            stream.update(block)
        return stream.effects(points)[1]
    sums, forms = _sums_and_forms(points, with_forms=True, validate=True)
    assert forms is not None
    return _without_each(sums, forms)


@full_precision
def _sums_and_forms(
    points: torch.Tensor, with_forms: bool, validate: bool
) -> tuple[_Sums, _Forms | None]:
    """The sums of a cloud, and the forms of its points. All in float64, from products in the dtype
    of the points; differentiable.
    """
    n, d = points.shape
    mean = points.mean(dim=0)
    if n > MAX_CORRECTED and n >= d and not points.requires_grad:
        second, fourth = scatter(points, mean), _fourth_moment(points, mean)
    else:
        y = points - mean
        y = y - y.mean(dim=0)  # the rounding error of the mean
        second = _gram(y if n < d else y.mT)
        r = second.diagonal() if n < d else y.square().sum(dim=1).double()
        fourth = r.square().sum()
    if validate:
        trace = float(second.detach().trace())
        if _is_far(mean.detach(), trace / n):
            return _sums_and_forms(points - points[0].detach(), with_forms, validate)
        if trace == 0:
            raise ValueError("all points are equal: IsoScore is undefined")
    forms = None
    if n < d:
        is_same = torch.eye(n, dtype=torch.bool, device=r.device)
        w = second.masked_fill(is_same, 0).square().sum(dim=1)
        pairs = w.sum()
        forms = _Forms(r, w, second @ r) if with_forms else None
    else:
        pairs = second.square().sum() - fourth
        if with_forms:
            w = (_product(y, second.to(y.dtype)) * y).sum(dim=1).double() - r * r
            cubes = (r.to(y.dtype)[:, None] * y).sum(dim=0)
            forms = _Forms(r, w, (y * cubes).sum(dim=1).double())
    return _Sums(n, d, second.trace(), pairs, fourth), forms


def _fourth_moment(points: torch.Tensor, mean: torch.Tensor) -> torch.Tensor:
    """Sum of |y|^4 over the centred points, in float64, without a copy of the cloud."""
    cubes, shift = torch.zeros_like(mean).double(), torch.zeros_like(mean).double()
    fourth = cubes.sum()
    for block in torch.split(points, ROWS_PER_BLOCK):
        y = block - mean
        r = torch.linalg.vector_norm(y, dim=1).square()
        fourth += r.double().square().sum()
        cubes += r @ y
        shift += y.sum(dim=0) / len(points)
    return fourth - 4 * cubes @ shift  # the mean is too small by its rounding error


def _gram(y: torch.Tensor) -> torch.Tensor:
    """YY' in float64, differentiable."""
    apply: Any = _Gram.apply
    products: torch.Tensor = apply(y)
    return products


class _Gram(torch.autograd.Function):
    """YY' by the fastest product, in blocks of rows if Y is wide and transposed."""

    @staticmethod
    def forward(ctx: Any, y: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(y)
        return gram(y) if y.is_contiguous() else scatter(y.mT)

    @staticmethod
    @full_precision
    def backward(ctx: Any, *grad_outputs: torch.Tensor) -> torch.Tensor:
        (y,) = ctx.saved_tensors
        gradient: torch.Tensor = (grad_outputs[0] + grad_outputs[0].mT).to(y.dtype) @ y
        return gradient


class _Product(torch.autograd.Function):
    """XY with a gradient in full precision, whatever torch's settings."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, y)
        return x @ y

    @staticmethod
    @full_precision
    def backward(ctx: Any, *grad_outputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x, y = ctx.saved_tensors
        return grad_outputs[0] @ y.mT, x.mT @ grad_outputs[0]


_product: Any = _Product.apply
