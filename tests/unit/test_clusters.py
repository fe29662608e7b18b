"""cluster_count against scikit-learn, following the steps of Cai et al."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.metrics import silhouette_score

from isotropy.metrics import cluster_count

RNG = np.random.default_rng(0)
CENTRES = RNG.standard_normal((4, 10)) * 3
LABELS = RNG.integers(0, 4, 900)
CLUSTERED = RNG.standard_normal((900, 10)) + CENTRES[LABELS]


def test_silhouettes_equal_scikit_learn() -> None:
    """Silhouettes equal scikit-learn's for the same k-means, and the best k is chosen."""
    result = cluster_count(CLUSTERED, sample_size=None)
    assert result.k == 4
    # Nearly the true clusters
    assert len(set(zip(result.labels, LABELS, strict=True))) <= 8
    for k, score in result.silhouettes.items():
        labels = KMeans(k, n_init=1, random_state=0).fit_predict(CLUSTERED)
        assert score == pytest.approx(silhouette_score(CLUSTERED, labels), abs=1e-9)
    assert set(result.silhouettes) == set(range(2, 16))


def test_ball_is_one_cluster() -> None:
    """If all silhouettes are below 0.1, the cloud counts as one cluster."""
    result = cluster_count(RNG.standard_normal((600, 40)), k_range=range(2, 6))
    assert max(result.silhouettes.values()) < 0.1
    assert result.k == 1
    assert set(result.labels) == {0}


def test_sample_and_seed() -> None:
    """Silhouettes on a sample are near those of all points; the same seed gives the same result."""
    sampled = cluster_count(CLUSTERED, sample_size=300, k_range=[2, 4], seed=5)
    again = cluster_count(CLUSTERED, sample_size=300, k_range=[4, 2], seed=5)
    assert sampled.silhouettes == again.silhouettes
    assert np.array_equal(sampled.labels, again.labels)
    unsampled = cluster_count(CLUSTERED, sample_size=None, k_range=[2, 4], seed=5)
    assert sampled.silhouettes != unsampled.silhouettes
    assert sampled.silhouettes[4] == pytest.approx(unsampled.silhouettes[4], abs=0.05)


@pytest.mark.parametrize(
    ("X", "k_range", "message"),
    [
        (CLUSTERED, [1, 2], "k_range"),
        (CLUSTERED[:10], range(2, 16), "k_range"),
        (CLUSTERED, [], "k_range"),
        (np.where(CLUSTERED > 3, np.nan, CLUSTERED), [2], "NaN"),
    ],
)
def test_invalid_input_is_rejected(X: np.ndarray, k_range: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cluster_count(X, k_range=k_range)


@pytest.mark.parametrize("options", [{"n_init": 0}, {"max_iter": 0}])
def test_zero_starts_or_iterations_are_rejected(options: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        cluster_count(CLUSTERED, k_range=[2], **options)


def test_too_few_distinct_points_are_rejected() -> None:
    with pytest.raises(ValueError, match="too few different points"):
        cluster_count(np.repeat(np.eye(3), 10, axis=0), k_range=[2, 5])


def test_cluster_missed_by_the_sample_gives_no_score() -> None:
    """For k = 2 a distant point is a cluster; a sample without it has no silhouette, so another k
    is chosen."""
    X = np.vstack([CLUSTERED, np.full((1, 10), 1e4)])
    result = cluster_count(X, k_range=[2, 5], sample_size=100)
    assert np.isnan(result.silhouettes[2])
    assert result.k == 5
    with pytest.raises(ValueError, match="larger sample_size"):
        cluster_count(X, k_range=[2], sample_size=100)
