"""How far IsoScore* of a few points is from the score of the whole cloud (Rudman & Eickhoff 2024,
poster, Figure 4).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd

from isotropy.errors import IsotropyError
from isotropy.geometry.spec import StabilitySpec
from isotropy.metrics.isoscores import ShrinkageCovariance, StreamingIsoScore, isoscore

CHUNK = 10_000  # points drawn at once: memory does not grow with the sample

Draw = Callable[[np.random.Generator, int], np.ndarray]


class _Cloud(NamedTuple):
    """How to draw from a cloud.

    Attributes:
        d: dimensions.
        whole: IsoScore of all of it.
        most: largest sample.
        n_known: points behind the shrinkage covariance.
        split: for a generator, how to draw points for the shrinkage covariance, and how to draw
            others.
    """

    d: int
    whole: float
    most: float
    n_known: int
    split: Callable[[np.random.Generator], tuple[Draw, Draw]]


def sample_scores(
    spec: StabilitySpec, embeddings: np.ndarray | None
) -> tuple[pd.DataFrame, float, int]:
    """IsoScore* of samples of each size and with each zeta; each repeat has a shrinkage covariance
    of its own.

    Args:
        spec: cloud and samples.
        embeddings: shape (n, d); None for a normal cloud.

    Returns:
        One row per size, repeat and zeta (n, repeat, zeta, isoscore_star); the score of the whole;
        and from how many points the shrinkage covariance is estimated.

    Raises:
        IsotropyError: too few embeddings for the smallest sample.
    """
    cloud = _normal(spec) if embeddings is None else _drawn(spec, embeddings)
    sizes = [n for n in spec.sizes if n <= cloud.most]
    if not sizes:
        raise IsotropyError(
            f"{spec.name}: {cloud.most:g} points are too few for samples of {spec.sizes[0]}"
        )
    rows = []
    for repeat in range(spec.repeats):
        known, other = cloud.split(np.random.default_rng([repeat, 0]))
        shrinkage = ShrinkageCovariance(
            _stream(cloud, known, np.random.default_rng([repeat, 1]), cloud.n_known).covariance()
        )
        for n in sizes:
            stream = _stream(cloud, other, np.random.default_rng([repeat, n]), n)
            scores = {zeta: stream.compute(zeta, shrinkage) for zeta in spec.zetas}
            rows += [
                {"n": n, "repeat": repeat, "zeta": zeta, "isoscore_star": score}
                for zeta, score in scores.items()
            ]
    return (
        pd.DataFrame(rows).sort_values(["n", "repeat", "zeta"], ignore_index=True),
        cloud.whole,
        cloud.n_known,
    )


def _stream(cloud: _Cloud, draw: Draw, generator: np.random.Generator, n: int) -> StreamingIsoScore:
    """n points of a cloud, drawn in chunks where they are made, at once where they are chosen."""
    stream = StreamingIsoScore(cloud.d)
    step = n if np.isfinite(cloud.most) else CHUNK
    for start in range(0, n, step):
        stream.update(draw(generator, min(step, n - start)))
    return stream


def _normal(spec: StabilitySpec) -> _Cloud:
    """A normal distribution with the wanted IsoScore; the variances fall linearly, and the mean is
    0.
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


def _drawn(spec: StabilitySpec, embeddings: np.ndarray) -> _Cloud:
    """Embeddings, drawn without replacement; those behind the shrinkage covariance are not drawn
    again.
    """
    n = len(embeddings)
    cut = min(spec.shrinkage_points, n // 2)

    def split(generator: np.random.Generator) -> tuple[Draw, Draw]:
        order = generator.permutation(n)
        rest = embeddings[np.sort(order[cut:])]
        known = embeddings[np.sort(order[:cut])]
        return lambda _, __: known, lambda g, size: rest[g.choice(len(rest), size, replace=False)]

    return _Cloud(embeddings.shape[1], float(isoscore(embeddings)), n - cut, cut, split)
