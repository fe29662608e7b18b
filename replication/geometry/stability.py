"""Measure how far IsoScore* of a small sample, and IsoScore without bias, is from the score of the
whole cloud (Rudman & Eickhoff 2024, poster, Figure 4).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch

from isotropy.errors import IsotropyError
from isotropy.metrics.isoscores import ShrinkageCovariance, isoscore
from isotropy.metrics.unbiased import (
    MAX_CORRECTED,
    MIN_POINTS,
    StreamingUnbiasedIsoScore,
    jackknife_error,
)
from replication.geometry.spec import StabilitySpec

CHUNK = 10_000  # points drawn at once, so that memory does not grow with the sample

Draw = Callable[[np.random.Generator, int], np.ndarray]


class _Cloud(NamedTuple):
    """A cloud to draw samples from.

    Attributes:
        d: number of dimensions.
        full_score: IsoScore of the whole cloud.
        max_size: size of the largest possible sample; infinite for a distribution.
        n_shrinkage: number of points that the shrinkage covariance is estimated from.
        split: with a random generator, splits the cloud: returns one function that draws points for
            the shrinkage covariance, and one that draws from the remaining points.
    """

    d: int
    full_score: float
    max_size: float
    n_shrinkage: int
    split: Callable[[np.random.Generator], tuple[Draw, Draw]]


def sample_scores(
    spec: StabilitySpec, embeddings: np.ndarray | None
) -> tuple[pd.DataFrame, float, int]:
    """Compute IsoScore* of samples of each size with each zeta. Each repeat has its own shrinkage
    covariance.

    Args:
        spec: the cloud, sample sizes and zetas.
        embeddings: shape (n, d); None for a normal cloud.

    Returns:
        One row per size, repeat and zeta (n, repeat, zeta, isoscore_star; and isoscore_unbiased
        with its standard error, which do not depend on zeta; NaN for fewer than five points, the
        error also for more than MAX_CORRECTED); the IsoScore of the complete cloud; and the number
        of points that the shrinkage covariance is estimated from.

    Raises:
        IsotropyError: there are too few embeddings for the smallest sample.
    """
    cloud = _normal_cloud(spec) if embeddings is None else _embedding_cloud(spec, embeddings)
    sizes = [n for n in spec.sizes if n <= cloud.max_size]
    if not sizes:
        raise IsotropyError(
            f"{spec.name}: {cloud.max_size:g} points are too few for samples of {spec.sizes[0]}"
        )
    rows = []
    for repeat in range(spec.repeats):
        draw_shrinkage, draw_sample = cloud.split(np.random.default_rng([repeat, 0]))
        shrinkage = ShrinkageCovariance(
            _stream(
                cloud, draw_shrinkage, np.random.default_rng([repeat, 1]), cloud.n_shrinkage
            ).covariance()
        )
        for n in sizes:
            stream = _stream(cloud, draw_sample, np.random.default_rng([repeat, n]), n)
            scores = {zeta: stream.compute(zeta, shrinkage) for zeta in spec.zetas}
            chunks = _chunks(cloud, draw_sample, np.random.default_rng([repeat, n]), n)
            unbiased = _unbiased(stream, chunks)
            rows += [
                {"n": n, "repeat": repeat, "zeta": zeta, "isoscore_star": score, **unbiased}
                for zeta, score in scores.items()
            ]
    return (
        pd.DataFrame(rows).sort_values(["n", "repeat", "zeta"], ignore_index=True),
        cloud.full_score,
        cloud.n_shrinkage,
    )


def _chunks(
    cloud: _Cloud, draw: Draw, generator: np.random.Generator, n: int
) -> Iterator[np.ndarray]:
    """Draw n points: in chunks from a distribution, at once from embeddings."""
    step = n if np.isfinite(cloud.max_size) else CHUNK
    for start in range(0, n, step):
        yield draw(generator, min(step, n - start))


def _stream(
    cloud: _Cloud, draw: Draw, generator: np.random.Generator, n: int
) -> StreamingUnbiasedIsoScore:
    """Accumulate n points."""
    stream = StreamingUnbiasedIsoScore(cloud.d)
    for points in _chunks(cloud, draw, generator, n):
        stream.update(points)
    return stream


def _unbiased(stream: StreamingUnbiasedIsoScore, chunks: Iterator[np.ndarray]) -> dict[str, float]:
    """IsoScore without bias of a stream; and its standard error where its points, drawn again,
    correct it.
    """
    score = error = np.nan
    if int(stream.n) > MAX_CORRECTED:
        score = stream.compute_unbiased()
    elif int(stream.n) > MIN_POINTS:
        left_out = torch.cat([stream.effects(points)[1] for points in chunks])
        score, error = stream.compute_unbiased(left_out), jackknife_error(left_out)
    return {"isoscore_unbiased": score, "isoscore_unbiased_error": error}


def _normal_cloud(spec: StabilitySpec) -> _Cloud:
    """Make a normal distribution with the requested IsoScore, linearly decreasing variances and
    mean 0.
    """
    d, score = spec.cloud.d, spec.cloud.isoscore
    assert d is not None
    assert score is not None
    # With variances 1 + a t, t from 1 to -1 in equal steps, PR = d / (1 + a^2 mean(t^2)).
    t = np.linspace(1, -1, d)
    a = np.sqrt((d / (1 + score * (d - 1)) - 1) / np.mean(t**2))
    deviations = np.sqrt(1 + a * t)

    def draw(generator: np.random.Generator, n: int) -> np.ndarray:
        points: np.ndarray = generator.standard_normal((n, d)) * deviations
        return points

    return _Cloud(d, score, np.inf, spec.shrinkage_points, lambda _: (draw, draw))


def _embedding_cloud(spec: StabilitySpec, embeddings: np.ndarray) -> _Cloud:
    """Make a cloud of embeddings, sampled without replacement; those used for the shrinkage
    covariance are not sampled again.
    """
    n = len(embeddings)
    n_reserved = min(spec.shrinkage_points, n // 2)

    def split(generator: np.random.Generator) -> tuple[Draw, Draw]:
        order = generator.permutation(n)
        remaining = embeddings[np.sort(order[n_reserved:])]
        shrinkage_points_drawn = embeddings[np.sort(order[:n_reserved])]
        return lambda _, __: shrinkage_points_drawn, lambda rng, size: remaining[
            rng.choice(len(remaining), size, replace=False)
        ]

    return _Cloud(
        embeddings.shape[1], float(isoscore(embeddings)), n - n_reserved, n_reserved, split
    )
