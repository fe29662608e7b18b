"""Compare transforms that make a cloud more isotropic: IsoScore and I(W) before and after."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from isotropy.errors import IsotropyError
from isotropy.measurement.scores import influences, log10_isotropy, read_streams, root_mean_square
from isotropy.metrics.isoscores import StreamingIsoScore, standard_error
from isotropy.metrics.matmul import worker_threads
from isotropy.metrics.validation import sample_rows
from isotropy.read.clouds import PointCloud
from isotropy.transforms import AllButTheTop, Center, ClusterBasedEnhancement

MAX_ROWS_OF_FIT = 50_000
"""Rows that transforms are fitted on, at most."""
ERRORS = 2
"""Standard errors that a difference must exceed to be called one: about 95 %."""
ROUNDING = 1e-5
"""Relative difference of IsoScores that products in single precision may make."""


class Enhanced(NamedTuple):
    """A cloud before or after a transform.

    Attributes:
        transform: name of the transform; "none" for the cloud before.
        isoscore: IsoScore of all rows.
        error: its standard error.
        gain: IsoScore minus that before the transform, on the same rows.
        gain_error: standard error of the gain, for the transform as fitted.
        matched: log10 of I(W) after scaling the rows to the root mean square length that they had
            before the transform: I(W) grows as vectors get shorter, whatever their directions.
        fitted: the fitted transform; None for the cloud before.
    """

    transform: str
    isoscore: float
    error: float
    gain: float
    gain_error: float
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


def enhance(
    cloud: PointCloud, transforms: list[Any], seed: int, sentences: Any = None
) -> list[Enhanced]:
    """Fit each transform, and measure all rows before and after.

    Args:
        cloud: the rows.
        transforms: unfitted transforms.
        seed: random seed of the rows to fit.
        sentences: sentence of each row, for standard errors; None: rows are independent.

    Raises:
        IsotropyError: too few rows for a transform.
    """
    X = cloud.rows(sample_rows(cloud.n, MAX_ROWS_OF_FIT, seed).numpy())
    results: list[Enhanced] = []
    for transform in [None, *transforms]:
        name = "none" if transform is None else type(transform).__name__
        try:
            # K-means gives other clusters with another number of threads
            with threadpool_limits(limits=1), worker_threads(1):
                fitted = None if transform is None else clone(transform).fit(X)
            after = cloud if fitted is None else _transform_cloud(cloud, fitted)
            moments = StreamingIsoScore(cloud.d)
            read_streams(after, "IsoScore", [moments])
            with worker_threads(1):
                score = moments.compute()
            effects = influences(after, moments)
            if not results:
                before, score_before, effects_before = moments, score, effects
            scale = 1.0 if not results else root_mean_square(before) / root_mean_square(moments)
            results.append(
                Enhanced(
                    transform=name,
                    isoscore=score,
                    error=_error(effects, sentences),
                    gain=score - score_before,
                    gain_error=_error(effects - effects_before, sentences),
                    matched=log10_isotropy(after, moments, scale),
                    fitted=fitted,
                )
            )
        except (ValueError, ZeroDivisionError) as error:
            raise IsotropyError(f"{cloud.title}: {name}: {error}") from None
    return results


def _error(effects: torch.Tensor, sentences: Any) -> float:
    """Standard error; NaN if there is none, because all rows are of one sentence."""
    try:
        with worker_threads(1):
            return standard_error(effects, sentences)
    except ValueError:
        return math.nan


def best(results: list[Enhanced]) -> Enhanced:
    """The transform with the largest IsoScore, of those that raise it by more than its error; if
    there is none, the result without a transform.
    """
    before, *others = results
    raised = [
        row
        for row in others
        if row.gain > ERRORS * row.gain_error and row.gain > ROUNDING * before.isoscore
    ]
    return max(raised, key=lambda row: row.isoscore, default=before)


def advice(results: list[Enhanced]) -> str:
    """One sentence on which transform raises IsoScore most."""
    before, top = results[0], best(results)
    if top.fitted is None:
        return (
            f"no transform raises IsoScore ({before.isoscore:.3g}) by more than the error of the "
            f"difference ({ERRORS} standard errors)"
        )
    return (
        f"{top.transform} raises IsoScore most, from {before.isoscore:.3g} to {top.isoscore:.3g} "
        f"(by {top.gain:.2g}, standard error {top.gain_error:.1g}); "
        f"log10 I(W) at the same length from {before.matched:.3g} to {top.matched:.3g}"
    )


def _transform_cloud(cloud: PointCloud, fitted: Any) -> PointCloud:
    def blocks() -> Iterator[np.ndarray]:
        for block in cloud.blocks():
            yield fitted.transform(block)

    return PointCloud(cloud.input, cloud.layer, (cloud.n, cloud.d), blocks)
