"""IsoScore* of samples of a cloud: Figure 4 of Rudman & Eickhoff's poster."""

from __future__ import annotations

import numpy as np
import pytest
from IsoScore import IsoScore as published_package

from isotropy.errors import IsotropyError
from isotropy.geometry.spec import PointCloud, StabilitySpec
from isotropy.geometry.stability import _normal, _stream, sample_scores
from isotropy.metrics import isoscore, isoscore_star


def spec(cloud: PointCloud, **changes: object) -> StabilitySpec:
    made = {
        "sizes": [5, 20, 4000],
        "zetas": [0.0, 0.2, 0.8],
        "shrinkage_points": 3000,
        "repeats": 4,
    }
    named = {"paper": "rudman2024", "name": "c", "cloud": cloud}
    return StabilitySpec.model_validate(named | made | changes)


NORMAL = PointCloud(kind="normal", d=30, isoscore=0.86)


def test_the_normal_cloud_has_the_isoscore_that_was_asked_for() -> None:
    cloud = _normal(spec(NORMAL))
    assert (cloud.whole, cloud.d, cloud.n_known) == (0.86, 30, 3000)
    points = cloud.split(np.random.default_rng(0))[1](np.random.default_rng(0), 200_000)
    assert float(published_package.IsoScore(points)) == pytest.approx(0.86, abs=0.01)
    stream = _stream(
        cloud, lambda g, n: points[: n if n < 10_000 else 10_000], np.random.default_rng(0), 25_000
    )
    assert int(stream.n) == 25_000  # drawn in chunks


def test_small_samples_are_far_off_without_shrinkage_and_large_ones_near() -> None:
    rows, whole, known = sample_scores(spec(NORMAL), None)
    assert (len(rows), known) == (3 * 4 * 3, 3000)
    error = (
        (rows.assign(error=(rows["isoscore_star"] - whole).abs()))
        .groupby(["n", "zeta"])["error"]
        .mean()
    )
    assert error[5, 0.0] > error[5, 0.2] > error[5, 0.8]
    assert error[4000, 0.0] < 0.02
    assert rows.equals(sample_scores(spec(NORMAL), None)[0])


def test_embeddings_behind_the_shrinkage_are_not_drawn_again() -> None:
    generator = np.random.default_rng(1)
    X = (generator.standard_normal((60, 4)) * [3, 2, 1, 1]).astype(np.float32)
    cloud = PointCloud(kind="embeddings", dataset="d", embedding="e")
    rows, whole, known = sample_scores(spec(cloud, sizes=[5, 30, 31], shrinkage_points=100), X)
    assert known == 30  # at most half
    assert sorted(rows["n"].unique()) == [5, 30]
    assert whole == pytest.approx(isoscore(X))
    order = np.random.default_rng([2, 0]).permutation(60)
    rest, other = X[np.sort(order[30:])], X[np.sort(order[:30])]
    largest = rows[(rows["n"] == 30) & (rows["repeat"] == 2)].set_index("zeta")["isoscore_star"]
    for zeta in (0.0, 0.2):
        assert largest[zeta] == pytest.approx(
            isoscore_star(rest, zeta, np.cov(other.T.astype(np.float64))), abs=1e-6
        )
    with pytest.raises(IsotropyError, match="30 points are too few for samples of 40"):
        sample_scores(spec(cloud, sizes=[40, 50], shrinkage_points=100), X)
