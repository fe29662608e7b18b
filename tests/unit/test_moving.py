"""Distance sums of a moving cloud: against all pairs in double precision, and within the
error bound by residuals."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from isotropy.metrics.moving import MovingSums, interpolated_silhouettes, moving_distance_sums
from isotropy.metrics.silhouettes import distance_sums


def moving_clouds(
    n: int, d: int, r: int, *, times: int = 4, noise: float = 0.0, seed: int = 0
) -> list[torch.Tensor]:
    """A cloud at several times; it moves in r directions, plus noise in all others."""
    draws = torch.Generator().manual_seed(seed)
    cloud = torch.randn(n, d, generator=draws) / d**0.5 + 0.3
    basis = torch.linalg.qr(torch.randn(d, r, generator=draws))[0]
    speed = torch.randn(n, r, generator=draws)
    clouds = [cloud]
    for t in range(1, times):
        rest = noise * torch.randn(n, d, generator=draws) / d**0.5
        clouds.append(cloud + 0.2 * t * speed @ basis.T + rest)
    return clouds


def sums_by_pairs(cloud: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Compute the distance sums by definition, in double precision."""
    points = cloud.double()
    all_pairs = torch.cdist(points, points, compute_mode="donot_use_mm_for_euclid_dist")
    return all_pairs @ torch.nn.functional.one_hot(labels).double()


def sums_of(
    clouds: list[torch.Tensor], labels: torch.Tensor, tolerance: float = 1e-5
) -> MovingSums:
    """Compute the sums; the clouds must move in a subspace of sufficiently low rank."""
    result = moving_distance_sums(clouds, labels, tolerance=tolerance)
    assert result is not None
    return result


@pytest.mark.parametrize(("n", "classes"), [(300, 2), (1300, 2), (700, 3), (900, 250)])
def test_sums_equal_those_of_all_pairs(n: int, classes: int) -> None:
    clouds = moving_clouds(n, 64, 5)
    labels = torch.arange(n) * 7 % classes
    obtained = sums_of(clouds, labels)
    assert obtained.rank == 8
    for cloud, sums in zip(clouds, obtained.sums, strict=True):
        expected = sums_by_pairs(cloud, labels)
        assert (sums - expected).abs().max() / n < 1e-6
        torch.testing.assert_close(sums, distance_sums(cloud, labels), rtol=1e-5, atol=1e-4)


def test_sums_of_close_and_equal_points_are_accurate() -> None:
    """Zero and tiny distances are not lost in rounding errors of the norms."""
    clouds = moving_clouds(200, 64, 3)
    near = 1e-4 * (clouds[1][:50] - clouds[0][:50])
    for cloud in clouds:
        cloud[50:100] = cloud[:50]
        cloud[100:150] = cloud[:50] + near
        cloud += 3
    labels = torch.arange(200) // 50
    for cloud, sums in zip(clouds, sums_of(clouds, labels).sums, strict=True):
        assert (sums - sums_by_pairs(cloud, labels)).abs().max() / 50 < 1e-6


def test_sums_of_distant_classes_are_accurate() -> None:
    """Large distances between classes do not reduce the accuracy of those within classes."""
    clouds = moving_clouds(600, 48, 4)
    labels = torch.arange(600) % 2
    away = torch.linalg.qr(torch.randn(48, 1, generator=torch.Generator().manual_seed(1)))[0][:, 0]
    clouds += [clouds[0] + 300.0 * labels[:, None] * away]
    sums = sums_of(clouds, labels, tolerance=1e-3).sums[-1]
    expected = sums_by_pairs(clouds[-1], labels)
    assert ((sums - expected).abs() / expected).max() < 1e-5


@given(
    n=st.integers(20, 150),
    d=st.integers(32, 64),
    r=st.integers(1, 8),
    noise=st.sampled_from([0.0, 1e-4, 1e-2]),
    seed=st.integers(0, 2**16),
)
def test_residuals_bound_the_error(n: int, d: int, r: int, noise: float, seed: int) -> None:
    clouds = moving_clouds(n, d, r, noise=noise, seed=seed)
    labels = torch.arange(n) % 3
    result = sums_of(clouds, labels, tolerance=2 * noise + 1e-5)
    counts = torch.nn.functional.one_hot(labels).double()
    allowed = result.residuals[:, None] * counts.sum(dim=0) + result.residuals @ counts
    for cloud, sums in zip(clouds, result.sums, strict=True):
        assert ((sums - sums_by_pairs(cloud, labels)).abs() <= allowed + 2e-6 * n).all()


def test_clouds_of_high_rank_are_not_supported() -> None:
    clouds = moving_clouds(400, 32, 20)
    assert moving_distance_sums(clouds, torch.arange(400) % 2, tolerance=1e-6) is None


def test_threads_and_memory_addresses_do_not_change_a_bit() -> None:
    clouds = moving_clouds(1300, 64, 5)
    labels = torch.arange(1300) % 2
    expected = sums_of(clouds, labels)
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        copies = [torch.from_numpy(cloud.numpy().copy()) for cloud in clouds]
        obtained = sums_of(copies, labels)
        assert torch.equal(obtained.sums, expected.sums)
        assert torch.equal(obtained.residuals, expected.residuals)


@pytest.mark.parametrize("classes", [2, 15, 16, 250])
@pytest.mark.parametrize("nodes", [1, 4, 5, 9])
def test_interpolated_silhouettes_equal_numpy(classes: int, nodes: int) -> None:
    """Against NumPy on the weighted sums; with negative weights, classes of one point, equal points
    and any number of threads."""
    n = 700
    rng = np.random.default_rng(classes + nodes)
    sums = rng.uniform(5, 20, (nodes, n, classes))
    labels = np.r_[np.arange(classes), rng.integers(1, classes, n - classes)]
    sums[:, 300] = 0
    weights = rng.normal(0, 0.1, (17, nodes))
    weights[:, -1] += 1 - weights.sum(axis=1)
    sizes, at = np.bincount(labels), np.arange(n)
    expected = []
    for between in np.tensordot(weights, sums, axes=1):
        cohesion = between[at, labels] / np.maximum(sizes[labels] - 1, 1)
        means = between / sizes
        means[at, labels] = np.inf
        separation = means.min(axis=1)
        larger = np.maximum(cohesion, separation)
        scores = (separation - cohesion) / np.where(larger == 0, 1, larger)
        expected.append(np.where(sizes[labels] > 1, scores, 0).mean())
    obtained = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        obtained.append(interpolated_silhouettes(torch.from_numpy(sums), weights, labels))
    assert obtained[0] == pytest.approx(expected, rel=1e-9)
    assert {part.tobytes() for part in obtained} == {obtained[0].tobytes()}
    alone = interpolated_silhouettes(torch.from_numpy(sums), weights[3:4], labels)
    assert alone.tobytes() == obtained[0][3:4].tobytes()


@pytest.mark.parametrize("shape", [(3, 60, 20), (4, 59, 20), (4, 60, 21)])
def test_interpolated_silhouettes_reject_other_shapes(shape: tuple[int, int, int]) -> None:
    labels = np.arange(60) % 20
    with pytest.raises(ValueError, match="shape"):
        interpolated_silhouettes(torch.ones(shape, dtype=torch.float64), np.ones((2, 4)), labels)
