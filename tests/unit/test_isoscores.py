"""IsoScore and IsoScore* against the authors' package and the definition in double precision, and
their properties."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from IsoScore import IsoScore as published_package

from isotropy.metrics import (
    ShrinkageCovariance,
    StreamingCovariance,
    StreamingIsoScore,
    isoscore,
    isoscore_from_covariance,
    isoscore_standard_error,
    isoscore_star,
    isoscore_unbiased,
    isoscore_unbiased_standard_error,
)
from isotropy.metrics.isoscores import standard_error


def algorithm_1(X: np.ndarray) -> float:
    """Compute steps 1 to 4 of the paper's algorithm by eigenvalues, in double precision."""
    d = X.shape[1]
    eigenvalues = np.clip(np.linalg.eigvalsh(np.cov(X.astype(np.float64).T)), 0, None)
    normalized = np.sqrt(d) * eigenvalues / np.linalg.norm(eigenvalues)
    defect = np.linalg.norm(normalized - 1) / np.sqrt(2 * (d - np.sqrt(d)))
    phi = (d - defect**2 * (d - np.sqrt(d))) ** 2 / d**2
    return float((d * phi - 1) / (d - 1))


def cloud(seed: int, n: int, d: int, offset: float = 0.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)) * rng.uniform(0.1, 3, d) + offset


@pytest.mark.parametrize(("n", "d"), [(500, 20), (60, 100)])
def test_isoscore_equals_the_published_package(n: int, d: int) -> None:
    """IsoScore 2.0.1 takes (n, d) as well; it uses float32 constants, hence the tolerance."""
    X = cloud(1, n, d)
    assert isoscore(X) == pytest.approx(float(published_package.IsoScore(X)), abs=1e-6)


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(3, 60),
    d=st.integers(2, 12),
    scale=st.floats(1e-12, 1e12),
)
def test_invariance_and_bounds(seed: int, n: int, d: int, scale: float) -> None:
    """The score is invariant to rotation, translation, scale and order, and within [0, 1]. That
    without bias is invariant, too."""
    X = cloud(seed, n, d)
    score = isoscore(X)
    rng = np.random.default_rng(seed)
    rotation = np.linalg.qr(rng.standard_normal((d, d)))[0]
    assert -1e-12 <= score <= 1 + 1e-12
    assert score <= (min(n - 1, d) - 1) / (d - 1) + 1e-12  # the rank bound
    for changed in (X @ rotation, X + rng.standard_normal(d), X * scale, X[rng.permutation(n)]):
        assert isoscore(changed) == pytest.approx(score, abs=1e-9)
        if n > 5:
            unbiased = isoscore_unbiased(changed)
            assert unbiased == pytest.approx(isoscore_unbiased(X), rel=1e-7, abs=1e-8)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.ones((5, 3)), "undefined"),
        (np.ones((5, 9)), "undefined"),
        (np.ones((3000, 9)), "undefined"),
        (np.full((7, 3), 0.1), "undefined"),
        (np.full((33, 3), 1e8, dtype=np.float32), "undefined"),
        (np.ones((1, 5)), "at least"),
        (np.ones((5, 1)), "2 dimensions"),
    ],
)
@pytest.mark.parametrize(
    "function",
    [isoscore, isoscore_standard_error, isoscore_unbiased, isoscore_unbiased_standard_error],
)
def test_invalid_input_is_rejected(
    X: np.ndarray, message: str, function: Callable[[np.ndarray], float]
) -> None:
    with pytest.raises(ValueError, match=message):
        function(X)


def star_reference(X: torch.Tensor, zeta: float, S: torch.Tensor) -> torch.Tensor:
    """Compute the definition of IsoScore* by eigenvalues, in double precision."""
    d = X.shape[1]
    eigenvalues = torch.linalg.eigvalsh((1 - zeta) * torch.cov(X.double().T) + zeta * S.double())
    return (eigenvalues.sum() ** 2 / eigenvalues.square().sum() - 1) / (d - 1)


def covariance(seed: int, d: int) -> torch.Tensor:
    return torch.cov(torch.from_numpy(cloud(seed, 4 * d, d)).T)


@pytest.mark.parametrize("zeta", [0.0, 0.2, 0.8, 1.0])
@pytest.mark.parametrize(("n", "d"), [(400, 30), (20, 60), (2, 5), (2275, 300), (9000, 64)])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-6)])
def test_star_equals_the_definition(
    n: int, d: int, zeta: float, dtype: torch.dtype, tolerance: float
) -> None:
    X, S = torch.from_numpy(cloud(0, n, d)).to(dtype), covariance(1, d).to(dtype)
    expected = pytest.approx(float(star_reference(X, zeta, S)), abs=tolerance)
    assert float(isoscore_star(X, zeta, S)) == expected
    assert isoscore_star(X.numpy(), zeta, S.numpy()) == expected
    assert float(isoscore_star(X, zeta, ShrinkageCovariance(S))) == expected
    if zeta == 0:
        assert isoscore(X.numpy()) == pytest.approx(algorithm_1(X.numpy()), abs=tolerance)


def test_star_equals_the_published_package() -> None:
    """The convention of the code: zeta = 0 is IsoScore, zeta = 1 ignores the batch."""
    X, S = torch.from_numpy(cloud(0, 50, 20)), covariance(1, 20)
    for zeta in (0.0, 0.3, 1.0):
        assert float(isoscore_star(X, zeta, S)) == pytest.approx(
            float(published_package.IsoScore_star(X, S, zeta)), abs=1e-6
        )
    assert float(isoscore_star(X, 0.0)) == float(isoscore(X))
    of_covariance = pytest.approx(float(isoscore_from_covariance(S)), abs=1e-12)
    for cloud_of_any_kind in (X, X * 7 + 1):
        assert float(isoscore_star(cloud_of_any_kind, 1.0, S)) == of_covariance


@settings(max_examples=25)
@given(seed=st.integers(0, 10**6), n=st.integers(3, 8), d=st.integers(2, 5), zeta=st.floats(0, 1))
@example(seed=3, n=7, d=4, zeta=0.0)  # IsoScore
def test_star_bounds_rotation_and_gradients(seed: int, n: int, d: int, zeta: float) -> None:
    """Within [0, 1]; invariant to a rotation of cloud and covariance; first and second derivatives
    equal finite differences."""
    X, S = torch.from_numpy(cloud(seed, n, d)), covariance(seed + 1, d)
    score = float(isoscore_star(X, zeta, S))
    assert -1e-12 <= score <= 1 + 1e-12
    R = torch.linalg.qr(torch.from_numpy(np.random.default_rng(seed).standard_normal((d, d))))[0]
    moved = float(isoscore_star(X @ R + 3, zeta, R.T @ S @ R))
    assert moved == pytest.approx(score, abs=1e-9)
    X.requires_grad_(), S.requires_grad_()
    symmetric = lambda X, S: isoscore_star(X, zeta, (S + S.T) / 2)  # noqa: E731
    assert torch.autograd.gradcheck(symmetric, (X, S))
    assert torch.autograd.gradgradcheck(symmetric, (X, S), fast_mode=True)


def gradient(score: Callable[[torch.Tensor], Any], X: torch.Tensor) -> torch.Tensor:
    X = X.clone().requires_grad_()
    (result,) = torch.autograd.grad(score(X), X)
    assert result.dtype == X.dtype
    return result.double()


def star(X: torch.Tensor) -> Any:
    """IsoScore* with a shrinkage covariance."""
    return isoscore_star(X, 0.2, covariance(1, X.shape[1]))


@pytest.mark.parametrize(("n", "d"), [(32, 768), (800, 96), (3000, 48)])
@pytest.mark.parametrize(("score", "tolerance"), [(star, 5e-6), (isoscore_unbiased, 2e-5)])
def test_float32_gradient(n: int, d: int, score: Callable[..., Any], tolerance: float) -> None:
    """Against double precision, relative to the largest entry; also under autocast."""
    X = torch.from_numpy(cloud(0, n, d))
    expected = gradient(score, X)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        single = gradient(score, X.float())
    assert (single - expected).abs().max() < tolerance * expected.abs().max()


def test_half_precision_carries_gradients() -> None:
    X = torch.from_numpy(cloud(0, 20, 6)).bfloat16().requires_grad_()
    torch.autograd.backward(isoscore(X))
    assert X.grad.dtype == torch.bfloat16
    assert isoscore(X).item() == isoscore(X.float()).item()
    assert isoscore(X).dtype == torch.float64


@settings(max_examples=30)
@given(
    seed=st.integers(0, 10**6),
    cuts=st.lists(st.integers(1, 199), min_size=1, max_size=6, unique=True),
    shards=st.integers(1, 4),
    offset=st.floats(-1e4, 1e4),
)
def test_merged_streams_equal_the_whole_cloud(
    seed: int, cuts: list[int], shards: int, offset: float
) -> None:
    """For any batches and number of merged shards: mean, covariance and score."""
    X, S = cloud(seed, 200, 7, offset), covariance(seed, 7)
    streams = [StreamingIsoScore(7) for _ in range(shards)]
    for i, batch in enumerate(np.split(X, sorted(cuts))):
        streams[i % shards].update(batch)
    merged = streams.pop()
    for stream in streams:
        merged.merge(stream)
    assert int(merged.n) == 200
    assert merged.mean.numpy() == pytest.approx(X.mean(0), rel=1e-9, abs=1e-9)
    assert merged.covariance().numpy() == pytest.approx(np.cov(X.T), rel=1e-8, abs=1e-8)
    assert merged.compute() == pytest.approx(isoscore(X), abs=1e-8)
    assert merged.compute(0.4, S) == pytest.approx(isoscore_star(X, 0.4, S.numpy()), abs=1e-8)


def test_float32_far_from_the_origin() -> None:
    """A large mean must not cancel digits of the variance, neither at once nor in a stream."""
    X = cloud(2, 4000, 20, offset=100.0).astype(np.float32)
    assert isoscore(X) == pytest.approx(algorithm_1(X), abs=1e-5)
    stream = StreamingIsoScore(20)
    for batch in np.split(X, 10):
        stream.update(torch.from_numpy(batch))
    assert stream.compute() == pytest.approx(algorithm_1(X), abs=1e-7)


@pytest.mark.parametrize(
    "score",
    [
        lambda X, _: isoscore(X),
        lambda X, _: isoscore_unbiased(X),
        lambda X, unit: isoscore_star(X, 0.2, unit**2 * torch.eye(8).double()),
    ],
)
@pytest.mark.parametrize(
    ("unit", "offset"), [(1, 3e6), (1, 1e7), (3e36, 0), (3e34, 3e36), (1e-30, 1e-28)]
)
@pytest.mark.parametrize("n", [6, 400, 3000])
def test_rounding_of_the_mean_does_not_count(
    n: int, unit: float, offset: float, score: Callable[..., torch.Tensor]
) -> None:
    """Scores and gradients in single precision are those of the same points in double precision,
    relative to one of them."""
    X = torch.from_numpy(unit * cloud(2, n, 8) + offset).float()
    exact = ((X.double() - X[0].double()) / unit).requires_grad_()
    obtained, expected = score(X.requires_grad_(), unit), score(exact, 1)
    assert float(obtained) == pytest.approx(float(expected), rel=1e-5)
    assert float(score(X.detach(), unit)) == pytest.approx(float(expected), rel=1e-5)
    (gradient,), (reference,) = (
        torch.autograd.grad(value, points) for value, points in ((obtained, X), (expected, exact))
    )
    torch.testing.assert_close(gradient.double() * unit, reference, rtol=1e-3, atol=1e-6)


def test_a_refused_batch_is_not_added() -> None:
    stream = StreamingCovariance(3)
    for batch in (np.ones((2, 4)), np.array([[1, np.nan, 1]])):
        with pytest.raises(ValueError, match=r"does not fit|NaN"):
            stream.update(batch)
    assert int(stream.n) == 0


def test_stream_of_equal_points_has_no_score() -> None:
    stream = StreamingIsoScore(3)
    stream.update(np.full((7, 3), 0.1))  # whose mean is rounded
    with pytest.raises(ValueError, match="undefined"):
        stream.compute()


@pytest.mark.parametrize(
    ("zeta", "S", "message"),
    [
        (-0.1, np.eye(3), "zeta"),
        (1.5, np.eye(3), "zeta"),
        (0.5, None, "needs a shrinkage_covariance"),
        (0.5, np.eye(4), r"\(3, 3\)"),
        (0.5, np.ones((3, 2)), r"\(d, d\)"),
        (0.5, np.triu(np.ones((3, 3))), "symmetric"),
        (0.5, np.zeros((3, 3)), "zero"),
        (0.5, np.full((3, 3), np.nan), "NaN"),
    ],
)
def test_invalid_shrinkage_is_rejected(zeta: float, S: np.ndarray | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        isoscore_star(cloud(0, 9, 3), zeta, S)


def test_devices_must_agree() -> None:
    shrinkage = ShrinkageCovariance(torch.eye(3))
    shrinkage.matrix = shrinkage.matrix.to("meta")
    with pytest.raises(ValueError, match="on meta"):
        isoscore_star(torch.rand(9, 3), 0.5, shrinkage)


def test_star_of_a_constant_batch_is_that_of_the_shrinkage() -> None:
    """Equal points have no IsoScore, but an IsoScore*: that of the shrinkage covariance."""
    S = covariance(0, 3)
    expected = float(isoscore_from_covariance(S))
    assert float(isoscore_star(torch.ones(4, 3), 0.5, S)) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("unit", [1e10, 1e7, 1e-7, 1e-11])
@pytest.mark.parametrize(("n", "d"), [(20, 60), (200, 10)])
def test_gradient_at_any_scale(n: int, d: int, unit: float) -> None:
    """The gradient scales with 1/unit; intermediate fourth powers must stay within the float
    range."""
    X = torch.from_numpy(cloud(0, n, d))
    expected, obtained = gradient(isoscore, X), gradient(isoscore, (X * unit).float()) * unit
    assert (obtained - expected).abs().max() < 2e-5 * expected.abs().max()


def test_autocast_does_not_change_streams() -> None:
    """Squares of these values overflow float16."""
    X = torch.from_numpy(cloud(0, 5000, 16)).float() * 6
    scores = []
    for enabled in (False, True):
        stream = StreamingIsoScore(16)
        with torch.autocast("cpu", dtype=torch.float16, enabled=enabled):
            stream.update(X)
        scores.append(stream.compute())
    assert scores[0] == scores[1]


@pytest.mark.parametrize(
    ("setting", "getter"),
    [
        ("torch.set_float32_matmul_precision('medium')", "torch.get_float32_matmul_precision()"),
        ("{} = 'tf32'", "torch.backends.fp32_precision"),
        ("{} = 'tf32'", "torch.backends.cuda.matmul.fp32_precision"),
        ("{} = True", "torch.backends.cuda.matmul.allow_tf32"),
    ],
)
def test_reduced_matmul_precision_does_not_change_scores(setting: str, getter: str) -> None:
    """For each of torch's settings of float32 precision, which is unchanged afterwards."""
    program = f"""
import torch
from isotropy.metrics import isoscore, mean_cosine
X = torch.randn(600, 300, generator=torch.Generator().manual_seed(0)) * torch.arange(1, 301)
X[:, 3] += 1000
{setting.format(getter)}
before = {getter}
errors = [abs(float(f(X)) / float(f(X.double())) - 1) for f in (isoscore, mean_cosine)]
print(*errors, before == {getter})
"""
    output = subprocess.check_output([sys.executable, "-c", program], text=True)
    *errors, unchanged = output.split()
    assert max(map(float, errors)) < 1e-5
    assert unchanged == "True"


def test_one_dimension_with_a_large_mean() -> None:
    """A mean of 1e4 in one dimension, in float32, does not distort the score by rounding errors."""
    X = 1e-3 * torch.from_numpy(cloud(0, 1000, 16)).float()
    X[:, 0] += 1e4
    expected = float(isoscore(X.double()))
    assert float(isoscore(X)) == pytest.approx(expected, abs=1e-4)
    assert float(isoscore(X[:10])) == pytest.approx(float(isoscore(X[:10].double())), abs=1e-4)
    stream = StreamingIsoScore(16)
    stream.update(X.double() + torch.tensor([1e12] + [0.0] * 15).double())
    assert stream.compute() == pytest.approx(expected, abs=1e-3)


def influences_by_definition(X: np.ndarray) -> np.ndarray:
    """The influence of each point, by a numerical derivative: the score of a cloud that has a
    little more weight at that point."""
    n, d = X.shape
    weights, step = np.full(n, 1 / n), 1e-6

    def score(weights: np.ndarray) -> float:
        S = np.cov(X.T, aweights=weights, ddof=0)
        return float((np.trace(S) ** 2 / (S**2).sum() - 1) / (d - 1))

    changes = step * (np.eye(n) - 1 / n)
    return np.array([score(weights + x) - score(weights - x) for x in changes]) / (2 * step)


def normal(rng: np.random.Generator, n: int, spread: np.ndarray) -> np.ndarray:
    return rng.normal(size=(n, len(spread))) * spread


def heavy_tailed(rng: np.random.Generator, n: int, spread: np.ndarray) -> np.ndarray:
    return normal(rng, n, spread) / np.sqrt(rng.chisquare(10, size=(n, 1)) / 10)


LINEAR, SPIKED = np.linspace(0.2, 2, 12), np.r_[5, 3, np.ones(10)]


@pytest.mark.parametrize(("n", "d"), [(40, 5), (25, 60)])
@pytest.mark.parametrize("far", [0, 1000])
def test_standard_error_equals_the_definition(n: int, d: int, far: float) -> None:
    X = cloud(0, n, d) + far
    influences = influences_by_definition(X - far)
    expected = np.sqrt((influences**2).sum() / (n * (n - 1)))
    for scale in (1, 1e-30):
        assert isoscore_standard_error(X * scale) == pytest.approx(expected, rel=1e-6)
    single = X.astype(np.float32)
    assert isoscore_standard_error(single) == pytest.approx(
        isoscore_standard_error(single.astype(np.float64)), rel=1e-4
    )
    groups = np.arange(n) % 7
    sums = np.bincount(groups, influences)
    by_group = np.sqrt((sums**2).sum() * 7 / 6) / n
    assert isoscore_standard_error(X, [f"text {g}" for g in groups]) == pytest.approx(by_group)


@pytest.mark.parametrize("draw", [normal, heavy_tailed])
@pytest.mark.parametrize("spread", [LINEAR, SPIKED])
def test_intervals_of_two_standard_errors_cover_the_expected_score(
    draw: Callable[..., np.ndarray], spread: np.ndarray
) -> None:
    """Also of the difference between two scores of the same points."""
    rng = np.random.default_rng(0)
    scores, errors, differences, paired = [], [], [], []
    for _ in range(300):
        X = draw(rng, 1000, spread)
        halved = X * np.r_[np.ones(len(spread) - 1), 0.5]
        streams = [StreamingIsoScore(len(spread)) for _ in range(2)]
        for stream, points in zip(streams, (X, halved), strict=True):
            stream.update(points)
        influences = [s.influences(x) for s, x in zip(streams, (X, halved), strict=True)]
        scores.append(streams[0].compute())
        errors.append(standard_error(influences[0]))
        differences.append(streams[1].compute() - scores[-1])
        paired.append(standard_error(influences[1] - influences[0]))
    for values, of_values in ((scores, errors), (differences, paired)):
        covered = np.abs(values - np.mean(values)) < 2 * np.array(of_values)
        assert 0.92 < covered.mean() < 0.99


@pytest.mark.parametrize(
    ("groups", "message"), [(np.zeros(20), "2 classes"), (np.arange(19), "groups must")]
)
def test_invalid_groups_are_rejected(groups: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        isoscore_standard_error(cloud(0, 20, 3), groups)


def test_influences_of_other_points_are_refused() -> None:
    X, stream = cloud(0, 20, 3), StreamingIsoScore(2)
    stream.update(X[:, :2])
    with pytest.raises(ValueError, match="stream of 2"):
        stream.influences(X)


@pytest.mark.parametrize("far", [1e5, 1e6, 1e8])
@pytest.mark.parametrize(("n", "d"), [(100, 8), (50, 100)])
def test_isoscore_with_an_outlier_is_not_negative(n: int, d: int, far: float) -> None:
    """The participation ratio is 1 then, and rounding in float32 must not make it smaller."""
    for seed in range(40):
        X = np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32)
        X[0] *= far
        assert 0 <= isoscore(X) < 1e-5


def test_score_of_a_rank_one_covariance_is_not_negative() -> None:
    v = np.random.default_rng(0).normal(size=30)
    assert isoscore_from_covariance(np.outer(v, v)) >= 0
