"""Compare transforms that make a cloud more isotropic: IsoScore and I(W) before and after."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from isotropy.errors import IsotropyError
from isotropy.measure.clouds import PointCloud
from isotropy.measure.scores import log10_isotropy, root_mean_square
from isotropy.metrics.isoscores import StreamingIsoScore
from isotropy.metrics.validation import sample_rows
from isotropy.transforms import AllButTheTop, Center, ClusterBasedEnhancement

MAX_ROWS_OF_FIT = 50_000
"""Rows that transforms are fitted on, at most."""
DEFAULT_CLUSTERS = 10


class Enhanced(NamedTuple):
    """A cloud before or after a transform.

    Attributes:
        transform: name of the transform; "none" for the cloud before.
        isoscore: IsoScore of all rows.
        matched: log10 of I(W) after scaling the rows to the root mean square length that they had
            before the transform: I(W) grows as vectors get shorter, whatever their directions.
        fitted: the fitted transform; None for the cloud before.
    """

    transform: str
    isoscore: float
    matched: float
    fitted: Any


def candidates(d: int, n_clusters: int, n_components: int | None, seed: int) -> list[Any]:
    """Return the transforms that `isotropy measure --transforms` compares, unfitted."""
    n_removed = max(1, round(d / 100)) if n_components is None else n_components
    return [
        Center(),
        AllButTheTop(n_removed),
        ClusterBasedEnhancement(n_clusters, n_removed, random_state=seed),
    ]


def enhance(cloud: PointCloud, transforms: list[Any], seed: int) -> list[Enhanced]:
    """Fit each transform, and measure all rows before and after.

    Raises:
        IsotropyError: too few rows for a transform.
    """
    X = cloud.rows(sample_rows(cloud.n, MAX_ROWS_OF_FIT, seed).numpy())
    before = _measure_moments(cloud)
    results = [Enhanced("none", before.compute(), log10_isotropy(cloud, before), None)]
    for transform in transforms:
        name = type(transform).__name__
        try:
            fitted = clone(transform).fit(X)
            after = _transform_cloud(cloud, fitted)
            moments = _measure_moments(after)
            scale = root_mean_square(before) / root_mean_square(moments)
            results.append(
                Enhanced(name, moments.compute(), log10_isotropy(after, moments, scale), fitted)
            )
        except (ValueError, ZeroDivisionError) as error:
            raise IsotropyError(f"{cloud.title}: {name}: {error}") from None
    return results


def best(results: list[Enhanced]) -> Enhanced:
    """The result with the largest IsoScore; it may be that without a transform."""
    return max(results, key=lambda row: row.isoscore)


def advice(results: list[Enhanced]) -> str:
    """One sentence on which transform raises IsoScore most."""
    before, top = results[0], best(results)
    if top.fitted is None:
        return f"no transform raises IsoScore ({before.isoscore:.3g})"
    return (
        f"{top.transform} raises IsoScore most, from {before.isoscore:.3g} to {top.isoscore:.3g}; "
        f"log10 I(W) at the same length from {before.matched:.3g} to {top.matched:.3g}"
    )


def _transform_cloud(cloud: PointCloud, fitted: Any) -> PointCloud:
    def blocks() -> Iterator[np.ndarray]:
        for block in cloud.blocks():
            yield fitted.transform(block)

    return PointCloud(cloud.input, cloud.layer, (cloud.n, cloud.d), blocks)


def _measure_moments(cloud: PointCloud) -> StreamingIsoScore:
    moments = StreamingIsoScore(cloud.d)
    for block in cloud.blocks():
        moments.update(block)
    return moments
