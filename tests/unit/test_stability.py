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
    fixed = {"paper": "rudman2024", "name": "c", "cloud": cloud, "repeats": 4}
    defaults = {"sizes": [5, 20, 4000], "zetas": [0.0, 0.2, 0.8], "shrinkage_points": 3000}
    return StabilitySpec.model_validate(fixed | defaults | changes)


NORMAL = StabilityCloud(kind="normal", d=30, isoscore=0.86)


def test_normal_cloud_has_the_requested_isoscore() -> None:
    """Also where it is drawn in chunks."""
    cloud, generator = _normal_cloud(spec(NORMAL)), np.random.default_rng(0)
    assert (cloud.full_score, cloud.d, cloud.n_shrinkage) == (0.86, 30, 3000)
    draw = cloud.split(generator)[1]
    points = draw(generator, 200_000)
    assert float(published_package.IsoScore(points)) == pytest.approx(0.86, abs=0.01)
    stream = _stream(cloud, draw, generator, 25_000)
    assert int(stream.n) == 25_000
    assert stream.compute() == pytest.approx(0.86, abs=0.01)


def test_shrinkage_reduces_the_error_of_small_samples() -> None:
    rows, cloud_score, n_shrinkage_points = sample_scores(spec(NORMAL), None)
    assert (len(rows), n_shrinkage_points) == (3 * 4 * 3, 3000)
    rows["error"] = (rows["isoscore_star"] - cloud_score).abs()
    error = rows.groupby(["n", "zeta"])["error"].mean()
    assert error[5, 0.0] > error[5, 0.2] > error[5, 0.8]
    assert error[4000, 0.0] < 0.02
    assert rows.drop(columns="error").equals(sample_scores(spec(NORMAL), None)[0])


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
    rest, C0 = X[np.sort(order[30:])], np.cov(X[np.sort(order[:30])].T.astype(np.float64))
    largest = rows[(rows["n"] == 30) & (rows["repeat"] == 2)].set_index("zeta")
    for zeta in (0.0, 0.2):
        expected = isoscore_star(rest, zeta, C0)
        assert largest["isoscore_star"][zeta] == pytest.approx(expected, abs=1e-6)
    unbiased = largest["isoscore_unbiased"].to_numpy()
    assert unbiased == pytest.approx(isoscore_unbiased(rest), rel=1e-5)
    with pytest.raises(IsotropyError, match="samples of 40"):
        sample_scores(spec(cloud, sizes=[40, 50], shrinkage_points=100), X)
