"""Stability of IsoScore* on samples of a cloud, as in Figure 4 of Rudman & Eickhoff's poster."""

from __future__ import annotations

import numpy as np
import pytest
from IsoScore import IsoScore as published_package

from isotropy.errors import IsotropyError
from isotropy.metrics import isoscore, isoscore_star, isoscore_unbiased
from replication.geometry.spec import StabilityCloud, StabilitySpec
from replication.geometry.stability import _normal_cloud, _stream, sample_scores


def spec(cloud: StabilityCloud, **changes: object) -> StabilitySpec:
    defaults = {
        "sizes": [5, 20, 4000],
        "zetas": [0.0, 0.2, 0.8],
        "shrinkage_points": 3000,
        "repeats": 4,
    }
    fixed = {"paper": "rudman2024", "name": "c", "cloud": cloud}
    return StabilitySpec.model_validate(fixed | defaults | changes)


NORMAL = StabilityCloud(kind="normal", d=30, isoscore=0.86)


def test_normal_cloud_has_the_requested_isoscore() -> None:
    cloud = _normal_cloud(spec(NORMAL))
    assert (cloud.full_score, cloud.d, cloud.n_shrinkage) == (0.86, 30, 3000)
    points = cloud.split(np.random.default_rng(0))[1](np.random.default_rng(0), 200_000)
    assert float(published_package.IsoScore(points)) == pytest.approx(0.86, abs=0.01)
    stream = _stream(
        cloud, lambda g, n: points[: n if n < 10_000 else 10_000], np.random.default_rng(0), 25_000
    )
    assert int(stream.n) == 25_000  # drawn in chunks


def test_shrinkage_reduces_the_error_of_small_samples() -> None:
    rows, cloud_score, n_shrinkage_points = sample_scores(spec(NORMAL), None)
    assert (len(rows), n_shrinkage_points) == (3 * 4 * 3, 3000)
    error = (
        (rows.assign(error=(rows["isoscore_star"] - cloud_score).abs()))
        .groupby(["n", "zeta"])["error"]
        .mean()
    )
    assert error[5, 0.0] > error[5, 0.2] > error[5, 0.8]
    assert error[4000, 0.0] < 0.02
    assert rows.equals(sample_scores(spec(NORMAL), None)[0])


def test_unbiased_scores_are_near_the_whole_cloud_at_any_size() -> None:
    """They need no shrinkage, do not depend on zeta, and have errors as large as their spread."""
    sizes = [4, 20, 60, 300]
    rows, cloud_score, _ = sample_scores(spec(NORMAL, sizes=sizes, repeats=60), None)
    assert (rows.groupby(["n", "repeat"])["isoscore_unbiased"].nunique(dropna=False) == 1).all()
    by_size = rows[rows["zeta"] == 0].groupby("n")
    mean, sd = by_size["isoscore_unbiased"].mean(), by_size["isoscore_unbiased"].std()
    error = by_size["isoscore_unbiased_error"].mean()
    assert by_size["isoscore_unbiased"].count().tolist() == [0, 60, 60, 60]
    for n in sizes[1:]:
        assert abs(mean[n] - cloud_score) < 3 * sd[n] / np.sqrt(60)
        assert sd[n] / 1.2 < error[n] < 2 * sd[n]
    assert by_size["isoscore_star"].mean()[20] < 0.5 * cloud_score


def test_samples_do_not_overlap_the_shrinkage_points() -> None:
    generator = np.random.default_rng(1)
    X = (generator.standard_normal((60, 4)) * [3, 2, 1, 1]).astype(np.float32)
    cloud = StabilityCloud(kind="embeddings", dataset="d", embedding="e")
    rows, cloud_score, n_shrinkage_points = sample_scores(
        spec(cloud, sizes=[5, 30, 31], shrinkage_points=100), X
    )
    assert n_shrinkage_points == 30  # at most half
    assert sorted(rows["n"].unique()) == [5, 30]
    assert cloud_score == pytest.approx(isoscore(X))
    order = np.random.default_rng([2, 0]).permutation(60)
    rest, shrinkage_rows = X[np.sort(order[30:])], X[np.sort(order[:30])]
    largest = rows[(rows["n"] == 30) & (rows["repeat"] == 2)].set_index("zeta")
    for zeta in (0.0, 0.2):
        assert largest["isoscore_star"][zeta] == pytest.approx(
            isoscore_star(rest, zeta, np.cov(shrinkage_rows.T.astype(np.float64))), abs=1e-6
        )
    assert largest["isoscore_unbiased"].tolist() == pytest.approx(
        [isoscore_unbiased(rest)] * 3, rel=1e-5
    )
    with pytest.raises(IsotropyError, match="30 points are too few for samples of 40"):
        sample_scores(spec(cloud, sizes=[40, 50], shrinkage_points=100), X)
