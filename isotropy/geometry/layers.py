"""The geometry of one layer: cosines within and between types, clusters, local dimension, pictures
(Cai et al. 2021).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from isotropy.errors import IsotropyError
from isotropy.geometry.lid import lid_scores
from isotropy.geometry.spec import Clustering, LayerSpec
from isotropy.geometry.swiss_roll import roll
from isotropy.geometry.token_types import TypedCloud, read_typed, varied
from isotropy.metrics.clusters import ClusterCount, cluster_count
from isotropy.metrics.cosines import mean_cosine, type_cosines
from isotropy.metrics.isoscores import StreamingCovariance, isoscore_from_covariance
from isotropy.metrics.matmul import ROWS_PER_BLOCK, oriented

SEEN = 3  # principal components in the pictures


class Axes(NamedTuple):
    """Mean and principal axes of a cloud: variances falling, shape (d,), axes as rows, shape (d,
    d); float64.
    """

    mean: np.ndarray
    variances: np.ndarray
    axes: np.ndarray
    isoscore: float

    def project(self, vectors: np.ndarray, n: int) -> np.ndarray:
        """Coordinates on the first n axes, shape (len(vectors), n), float32."""
        axes = self.axes[:n].T.astype(np.float32)
        mean = self.mean.astype(vectors.dtype)
        parts = [
            (vectors[start : start + ROWS_PER_BLOCK] - mean) @ axes
            for start in range(0, len(vectors), ROWS_PER_BLOCK)
        ]
        coordinates: np.ndarray = np.concatenate(parts)
        return coordinates


def principal_axes(vectors: np.ndarray) -> Axes:
    """Axes of a cloud, shape (n, d), with signs that do not depend on the solver."""
    stream = StreamingCovariance(vectors.shape[1])
    for start in range(0, len(vectors), ROWS_PER_BLOCK):
        stream.update(vectors[start : start + ROWS_PER_BLOCK])
    covariance = stream.covariance()
    values, columns = np.linalg.eigh(covariance.numpy())
    axes = oriented(columns.T[::-1])
    return Axes(
        stream.mean.numpy(),
        values[::-1].clip(min=0),
        axes,
        float(isoscore_from_covariance(covariance.numpy())),
    )


class Measurements(NamedTuple):
    """What is known of a cloud with one seed: scores; silhouettes per number of clusters; the
    cluster of each point.
    """

    scores: dict[str, Any]
    silhouettes: dict[int, float]
    clusters: np.ndarray


def measure_layer(cloud: TypedCloud, axes: Axes, spec: LayerSpec, seed: int) -> Measurements:
    """All scores of a cloud.

    Returns:
        Scores: n_tokens, n_types, n_types_repeated; s_inter, s_intra, mean_cosine, isoscore;
            variance_of_first_components (the share of the first three); n_clusters, silhouette (of
            that number, or the best where it is under the threshold), share_largest;
            s_inter_adjusted, s_intra_adjusted (plain mean over clusters), both also _weighted by
            tokens, and as controls _centred (one mean for all) and _random_parts (as large as the
            clusters); lid_… (`lid_scores`); position_share: how much of the variance of the largest
            cluster in its first three components goes with the position in the window; roll_…
            (`roll`), of the same.
    """
    counts = np.bincount(cloud.types)
    counted = count_clusters(cloud.vectors, axes, spec.clustering, seed)
    clusters = counted.labels
    before = type_cosines(cloud.vectors, cloud.types)
    after = type_cosines(cloud.vectors, cloud.types, clusters)
    weighted = type_cosines(cloud.vectors, cloud.types, clusters, weighted=True)
    sizes = np.bincount(clusters)
    largest = clusters == sizes.argmax()
    own = cloud.vectors[largest]
    seen = principal_axes(own).project(own, SEEN)
    rolled = roll(seen, cloud.positions[largest], cloud.frequencies[largest], seed)
    scores = {
        "n_tokens": len(cloud.vectors),
        "n_types": len(counts),
        "n_types_repeated": int((counts > 1).sum()),
        "s_inter": before.s_inter,
        "s_intra": before.s_intra,
        "mean_cosine": mean_cosine(cloud.vectors),
        "isoscore": axes.isoscore,
        "variance_of_first_components": float(axes.variances[:SEEN].sum() / axes.variances.sum()),
        "n_clusters": counted.k,
        "silhouette": float(np.nanmax(list(counted.silhouettes.values()))),
        "share_largest": float(sizes.max() / len(clusters)),
        "s_inter_adjusted": after.s_inter,
        "s_intra_adjusted": after.s_intra,
        "s_inter_adjusted_weighted": weighted.s_inter,
        "s_intra_adjusted_weighted": weighted.s_intra,
        **lid_scores(cloud.vectors, spec.lid, seed),
        "position_share": share_of_positions(seen, cloud.positions[largest]),
        "roll_gain": rolled.gain,
        "roll_along_position": rolled.along_position,
        "roll_along_frequency": rolled.along_frequency,
        **_controls(cloud, clusters, seed),
    }
    return Measurements(scores, counted.silhouettes, clusters)


def _controls(cloud: TypedCloud, clusters: np.ndarray, seed: int) -> dict[str, float]:
    """What the adjustment does without clusters: one mean for all tokens (global centring), and
    means of random parts as large as the clusters.
    """
    one = np.zeros(len(clusters), dtype=np.int64)
    parts = np.random.default_rng(seed).permutation(clusters)
    whole = type_cosines(cloud.vectors, cloud.types, one)
    drawn = type_cosines(cloud.vectors, cloud.types, parts)
    return {
        "s_inter_centred": whole.s_inter,
        "s_intra_centred": whole.s_intra,
        "s_inter_random_parts": drawn.s_inter,
        "s_intra_random_parts": drawn.s_intra,
    }


def count_clusters(vectors: np.ndarray, axes: Axes, how: Clustering, seed: int) -> ClusterCount:
    """Clusters by k-means, on the vectors or on their first components.

    Raises:
        IsotropyError: fewer different vectors than clusters that are tried.
    """
    seen = vectors if how.n_components is None else axes.project(vectors, how.n_components)
    try:
        return cluster_count(
            seen,
            k_range=range(2, how.k_max + 1),
            sample_size=how.sample_size,
            threshold=how.threshold,
            seed=seed,
            n_init=how.n_init,
            max_iter=how.max_iter,
        )
    except ValueError as error:
        raise IsotropyError(f"clusters: {error}") from error


def share_of_positions(coordinates: np.ndarray, positions: np.ndarray) -> float:
    """Share of the variance of a cloud, shape (n, d), that lies between the means of positions;
    adjusted for their number.

    A manifold such as a Swiss roll that is wound along the window gives a share near 1, no relation
    0 on average.
    """
    codes = np.unique(positions, return_inverse=True)[1]
    counts = np.bincount(codes)
    n, groups = len(positions), len(counts)
    if n <= groups:
        return float("nan")
    centred = coordinates - coordinates.mean(axis=0, dtype=np.float64)
    sums = np.stack([np.bincount(codes, weights=column) for column in centred.T])
    total = float((centred**2).sum())
    between = float((sums**2 / counts).sum())
    return 1 - (1 - between / total) * (n - 1) / (n - groups) if total > 0 else float("nan")


class Layer(NamedTuple):
    """The tables of a layer, and the dimensions of its vectors."""

    rows: pd.DataFrame
    silhouettes: pd.DataFrame
    points: pd.DataFrame
    d: int


def measure_all(folder: Path, spec: LayerSpec) -> Layer:
    """Every kind of types of a layer, and every variant with the authors' types, with every seed.

    Args:
        folder: token vectors (`isotropy.embed.layers`).
        spec: what is measured.

    Returns:
        The scores (`measure_layer`), with n_dropped: tokens that the variant leaves out; the
        silhouette of each number of clusters; and a part of the tokens (`pictures`), of the
        authors' types with the first seed.
    """
    rows: list[dict[str, Any]] = []
    tried: list[dict[str, Any]] = []
    shown = "subwords" if "subwords" in spec.types else spec.types[0]
    points = pd.DataFrame()
    for types in spec.types:
        whole = read_typed(folder, spec.layer, spec.window, types)
        for variant in spec.variants if types == shown else spec.variants[:1]:
            cloud = varied(whole, variant)
            axes = principal_axes(cloud.vectors)
            n_dropped = len(whole.vectors) - len(cloud.vectors)
            for seed in spec.seeds:
                key = {"types": types, "variant": variant, "seed": seed}
                found = measure_layer(cloud, axes, spec, seed)
                rows.append({**key, "n_dropped": n_dropped, **found.scores})
                tried += [{**key, "k": k, "silhouette": s} for k, s in found.silhouettes.items()]
                if (types, variant, seed) == (shown, spec.variants[0], spec.seeds[0]):
                    points = pictures(cloud, axes, found.clusters, spec.n_points)
    own = points.assign(types=shown, variant=spec.variants[0])
    return Layer(pd.DataFrame(rows), pd.DataFrame(tried), own, whole.vectors.shape[1])


def pictures(cloud: TypedCloud, axes: Axes, clusters: np.ndarray, n_points: int) -> pd.DataFrame:
    """A seeded part of a cloud on its first three principal components, and on those of its largest
    cluster.

    Returns:
        One row per token: name, kind (special, symbol, word), frequency of its type, position in
        the window, cluster (0 is the largest), x, y, z; and x_largest, y_largest, z_largest for
        tokens of the largest cluster, else NaN. Units of the embedding.
    """
    order = np.argsort(-np.bincount(clusters), kind="stable")
    rank = np.argsort(order)
    chosen = np.sort(np.random.default_rng(0).permutation(len(clusters))[:n_points])
    whole = axes.project(cloud.vectors[chosen], SEEN)
    inside = clusters == order[0]
    own = principal_axes(cloud.vectors[inside]).project(cloud.vectors[chosen], SEEN)
    own[~inside[chosen]] = np.nan
    columns = {
        f"{name}{suffix}": part[:, i]
        for suffix, part in (("", whole), ("_largest", own))
        for i, name in enumerate("xyz")
    }
    return pd.DataFrame(
        {
            "name": cloud.names[cloud.types[chosen]],
            "kind": cloud.kinds[chosen],
            "frequency": cloud.frequencies[chosen],
            "position": cloud.positions[chosen],
            "cluster": rank[clusters[chosen]],
            **columns,
        }
    )
