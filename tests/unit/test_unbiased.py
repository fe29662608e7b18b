"""IsoScore without bias against its definition over quadruples, by simulation, and in parts."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np
import pytest
import torch
from dimensionality import participation_ratio

from isotropy.metrics import (
    StreamingIsoScore,
    StreamingUnbiasedIsoScore,
    isoscore,
    isoscore_standard_error,
    isoscore_unbiased,
    isoscore_unbiased_standard_error,
)
from isotropy.metrics.unbiased import MAX_CORRECTED, MIN_CORRECTED


def cloud(seed: int, n: int, d: int, offset: float = 0.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)) * rng.uniform(0.1, 3, d) + offset


def traces_over_quadruples(X: np.ndarray) -> tuple[float, float]:
    """The estimates of tr(Sigma)^2 and tr(Sigma^2) by their definition as U-statistics."""
    values = []
    for i, j, k, m in permutations(range(len(X)), 4):
        a, b = X[i] - X[j], X[k] - X[m]
        values.append(((a @ a) * (b @ b) / 4, (a @ b) ** 2 / 4))
    numerator, denominator = np.mean(values, axis=0)
    return float(numerator), float(denominator)


def score_of(traces: tuple[float, float], d: int) -> float:
    return (traces[0] / traces[1] - 1) / (d - 1)


def traces(X: np.ndarray) -> tuple[float, float]:
    """The same by the closed form of Himeno & Yamada, from the sample covariance."""
    n, S = len(X), np.cov(X.T)
    Q = (((X - X.mean(0)) ** 2).sum(1) ** 2).sum() / (n - 1)
    square, norm, factor = np.trace(S) ** 2, (S**2).sum(), (n - 1) / (n * (n - 2) * (n - 3))
    return (
        factor * (2 * norm + (n * n - 3 * n + 1) * square - n * Q),
        factor * ((n - 1) * (n - 2) * norm + square - n * Q),
    )


def corrected(X: np.ndarray) -> tuple[float, float]:
    """The score and its standard error, by leaving out each point of the closed form."""
    n, d = X.shape
    left_out = np.array([score_of(traces(np.delete(X, i, axis=0)), d) for i in range(n)])
    score = score_of(traces(X), d)
    if MIN_CORRECTED <= n <= MAX_CORRECTED:
        score = (n + 4 / n**2) * score - (n - 1) * left_out.mean()
    return score, np.sqrt((n - 1) * left_out.var())


@pytest.mark.parametrize(("n", "d"), [(4, 3), (6, 2), (7, 3), (8, 20)])
def test_few_points_equal_the_mean_over_quadruples(n: int, d: int) -> None:
    X = cloud(0, n, d)
    by_definition = traces_over_quadruples(X)
    assert traces(X) == pytest.approx(by_definition, rel=1e-12)
    assert isoscore_unbiased(X) == pytest.approx(score_of(by_definition, d), rel=1e-10)


@pytest.mark.parametrize(("n", "d"), [(9, 4), (10, 4), (12, 40), (200, 12), (60, 300)])
@pytest.mark.parametrize("far", [0, 1000])
def test_score_and_error_equal_the_closed_form(n: int, d: int, far: float) -> None:
    X = cloud(1, n, d)
    score, error = corrected(X)
    tensor = torch.from_numpy(X + far).requires_grad_()
    assert isoscore_unbiased(X + far) == pytest.approx(score, rel=1e-7)
    assert isoscore_unbiased(tensor).item() == pytest.approx(score, rel=1e-7)
    assert float(isoscore_unbiased(torch.from_numpy(X), validate=False)) == pytest.approx(score)
    assert isoscore_unbiased_standard_error(X + far) == pytest.approx(error, rel=1e-6)


@pytest.mark.parametrize(("n", "d"), [(20, 768), (20, 8), (3000, 40), (200_000, 24)])
def test_float32_far_from_the_origin(n: int, d: int) -> None:
    """Neither few nor many points nor a large mean cancel digits."""
    X = cloud(2, n, d, offset=100.0).astype(np.float32)
    double = X.astype(np.float64)
    assert isoscore_unbiased(X) == pytest.approx(isoscore_unbiased(double), rel=2e-5)
    error = isoscore_unbiased_standard_error(double)
    assert isoscore_unbiased_standard_error(X) == pytest.approx(error, rel=1e-3)


def normal(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.standard_normal(shape)


def student(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return normal(rng, shape) / np.sqrt(rng.chisquare(9, (*shape[:-1], 1)) / 9)


def laplace(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.laplace(size=shape)


D = 30
SPREADS = {
    "equal": np.ones(D),
    "linear": np.linspace(0.2, 2, D),
    "spiked": np.r_[5, 3, np.ones(D - 2)],
    "rank-deficient": np.r_[np.ones(6), np.zeros(D - 6)],
}


def true_score(deviations: np.ndarray) -> float:
    return score_of(((deviations**2).sum() ** 2, (deviations**4).sum()), D)


@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("draw", [normal, student, laplace])
@pytest.mark.parametrize("n", [20, 100])
def test_bias_and_coverage(draw: Callable[..., np.ndarray], spread: str, n: int) -> None:
    """The bias is below a tenth of the standard error, where that of IsoScore is many of it; two
    standard errors contain the truth in 90 % and more."""
    truth = true_score(SPREADS[spread])
    X = draw(np.random.default_rng(0), (80_000 // n, n, D)) * SPREADS[spread]
    score = lambda points: isoscore_unbiased(points, validate=False)  # noqa: E731
    scores = np.array([float(score(x)) for x in torch.from_numpy(X)])
    errors = np.array([isoscore_unbiased_standard_error(points) for points in X[:200]])
    assert abs(scores.mean() - truth) < 0.1 * errors.mean()
    assert (np.abs(scores[:200] - truth) < 2 * errors).mean() >= 0.9
    assert errors.mean() == pytest.approx(scores.std(), rel=0.6)
    if spread == "equal":
        assert truth - np.mean([isoscore(points) for points in X[:50]]) > 2 * errors.mean()


@pytest.mark.parametrize("spread", ["linear", "spiked"])
def test_bias_without_correction(spread: str) -> None:
    """The bias of the ratio does not matter for more points than are corrected."""
    X = student(np.random.default_rng(1), (400, MAX_CORRECTED + 1, D)) * SPREADS[spread]
    scores = np.array([isoscore_unbiased(points) for points in X])
    error = abs(scores.mean() - true_score(SPREADS[spread]))
    assert error < 0.12 * scores.std()  # of which 0.05 is that of 400 draws


def test_estimates_are_not_clamped() -> None:
    """Clamping would be bias: some estimates of an isotropic cloud are above 1."""
    X = np.random.default_rng(0).standard_normal((40, 20, D))
    scores = [isoscore_unbiased(points) for points in X]
    assert max(scores) > 1 > min(scores)
    line = np.random.default_rng(0).standard_normal((20, 1)) * [[1.0, 2.0]]
    assert isoscore_unbiased(line) == pytest.approx(0, abs=1e-9)


def test_standard_errors_by_group() -> None:
    """Ten copies of each point, in groups, are no new information."""
    X = cloud(0, 200, 6)
    copies, texts = np.repeat(X, 10, axis=0), np.repeat(np.arange(200), 10)
    by_text = isoscore_unbiased_standard_error(copies, texts)
    assert by_text == pytest.approx(isoscore_unbiased_standard_error(X), rel=0.05)
    assert isoscore_unbiased_standard_error(copies) < 0.4 * by_text
    # Of many points both scores have the same error
    many = cloud(0, 20_000, 6)
    assert isoscore_unbiased_standard_error(many) == pytest.approx(
        isoscore_standard_error(many), rel=0.01
    )


@pytest.mark.parametrize("shape", [(6, 3), (12, 3), (12, 15)])
def test_gradients(shape: tuple[int, int]) -> None:
    """First and second derivatives equal finite differences."""
    X = torch.from_numpy(cloud(3, *shape)).requires_grad_()
    assert torch.autograd.gradcheck(isoscore_unbiased, (X,))
    assert torch.autograd.gradgradcheck(isoscore_unbiased, (X,))


def accumulated(
    batches: list[np.ndarray], stream: type[StreamingIsoScore] = StreamingUnbiasedIsoScore
) -> Any:
    result = stream(batches[0].shape[1])
    for batch in batches:
        result.update(batch)
    return result


def test_streams_have_the_scores_of_isoscore_and_their_state() -> None:
    """Streams stay in double precision in modules of half precision."""
    X = cloud(4, MAX_CORRECTED + 50, 9, offset=100.0).astype(np.float32)
    batches = np.split(X, [7, 900])
    stream, plain = accumulated(batches), accumulated(batches, StreamingIsoScore)
    assert stream.compute() == plain.compute()
    assert torch.equal(stream.effects(X)[0], plain.influences(X))
    assert stream.compute_unbiased() == pytest.approx(isoscore_unbiased(X), rel=1e-6)
    copy = StreamingUnbiasedIsoScore(9).half()
    copy.load_state_dict(stream.state_dict())
    assert copy.compute_unbiased() == stream.half().compute_unbiased() == stream.compute_unbiased()


@pytest.mark.parametrize("X", [np.eye(5), np.eye(11)[:10]])
def test_a_regular_simplex_has_no_score(X: np.ndarray) -> None:
    for function in (isoscore_unbiased, isoscore_unbiased_standard_error):
        with pytest.raises(ValueError, match="too few points"):
            function(X)


def test_too_few_points_of_streams_and_errors() -> None:
    with pytest.raises(ValueError, match="at least 4"):
        isoscore_unbiased(np.eye(3))
    with pytest.raises(ValueError, match="seen 3"):
        accumulated([cloud(0, 3, 2)]).compute_unbiased()
    with pytest.raises(ValueError, match="at least 5"):
        accumulated([cloud(0, 4, 2)]).effects(cloud(0, 4, 2))
    with pytest.raises(ValueError, match="at least 5"):
        isoscore_unbiased_standard_error(cloud(0, 4, 2))


@pytest.mark.parametrize(("n", "d"), [(8, 3), (30, 60)])
def test_ratio_of_traces_equals_the_package_of_chun_et_al(n: int, d: int) -> None:
    """Their estimate over rows is ours before the correction of the ratio, which fewer than ten
    points do not have."""
    X = np.random.default_rng(0).standard_normal((n, d)) * np.linspace(0.5, 2, d)
    theirs = (participation_ratio(X, return_all=True)["row"] - 1) / (d - 1)
    assert isoscore_unbiased(X) == pytest.approx(theirs, rel=1e-10 if n < 10 else 0.05)
