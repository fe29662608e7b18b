"""Measure the geometry of one layer: cosines within and between types, clusters, local intrinsic
dimension, and points for plots (Cai et al. 2021).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from isotropy.errors import IsotropyError
from isotropy.metrics.clusters import ClusterCount, cluster_count
from isotropy.metrics.cosines import mean_cosine, type_cosines
from isotropy.metrics.isoscores import StreamingCovariance, isoscore_from_covariance
from isotropy.metrics.matmul import ROWS_PER_BLOCK, with_fixed_signs
from isotropy.metrics.unbiased import isoscore_unbiased
from replication.geometry.lid import lid_by_type, lid_scores
from replication.geometry.spec import Clustering, LayerSpec, Lid
from replication.geometry.swiss_roll import roll
from replication.geometry.token_types import TypedCloud, read_typed_cloud, varied

N_PLOTTED = 3  # principal components in the plots


class Axes(NamedTuple):
    """Mean and principal axes of a cloud, in float64: variances in descending order, shape (d,);
    axes as rows, shape (d, d).
    """

    mean: np.ndarray
    variances: np.ndarray
    axes: np.ndarray
    isoscore: float

    def project(self, vectors: np.ndarray, n: int) -> np.ndarray:
        """Return coordinates on the first n axes, shape (len(vectors), n), float32."""
        axes = self.axes[:n].T.astype(np.float32)
        mean = self.mean.astype(vectors.dtype)
        parts = [
            (vectors[start : start + ROWS_PER_BLOCK] - mean) @ axes
            for start in range(0, len(vectors), ROWS_PER_BLOCK)
        ]
        coordinates: np.ndarray = np.concatenate(parts)
        return coordinates


def principal_axes(vectors: np.ndarray) -> Axes:
    """Compute the axes of a cloud, shape (n, d), with signs that do not depend on the solver."""
    stream = StreamingCovariance(vectors.shape[1])
    for start in range(0, len(vectors), ROWS_PER_BLOCK):
        stream.update(vectors[start : start + ROWS_PER_BLOCK])
    covariance = stream.covariance()
    values, columns = np.linalg.eigh(covariance.numpy())
    axes = with_fixed_signs(columns.T[::-1])
    return Axes(
        stream.mean.numpy(),
        values[::-1].clip(min=0),
        axes,
        float(isoscore_from_covariance(covariance.numpy())),
    )


class Measurements(NamedTuple):
    """Measurements of a cloud with one seed: scores, the silhouette for each number of clusters
    that was tried, and the cluster of each point.
    """

    scores: dict[str, Any]
    silhouettes: dict[int, float]
    clusters: np.ndarray


def measure_layer(cloud: TypedCloud, axes: Axes, spec: LayerSpec, seed: int) -> Measurements:
    """Compute all scores of a cloud.

    Returns:
        n_tokens, n_types, n_types_repeated (more than one occurrence); s_inter, s_intra,
        mean_cosine, isoscore, isoscore_unbiased; variance_of_first_components (of the first three);
        n_clusters, silhouette (for this number, or the best one if none reaches the threshold),
        share_largest (of tokens); s_inter_adjusted, s_intra_adjusted (each cluster centred; plain
        mean over clusters), …_weighted (by tokens), and controls …_centred (one mean for all) and
        …_random_parts (parts as large as the clusters); lid_… (`lid_scores`, `lid_by_type`); of the
        largest cluster, position_share (of variance, by the position) and roll_… (`roll`).
    """
    counts = np.bincount(cloud.types)
    clustered = count_clusters(cloud.vectors, axes, spec.clustering, seed)
    clusters = clustered.labels
    before = type_cosines(cloud.vectors, cloud.types)
    after = type_cosines(cloud.vectors, cloud.types, clusters)
    weighted = type_cosines(cloud.vectors, cloud.types, clusters, weighted=True)
    sizes = np.bincount(clusters)
    in_largest = clusters == sizes.argmax()
    vectors = cloud.vectors[in_largest]
    coordinates = principal_axes(vectors).project(vectors, N_PLOTTED)
    swiss_roll = roll(coordinates, cloud.positions[in_largest], cloud.frequencies[in_largest], seed)
    scores = {
        "n_tokens": len(cloud.vectors),
        "n_types": len(counts),
        "n_types_repeated": int((counts > 1).sum()),
        "s_inter": before.s_inter,
        "s_intra": before.s_intra,
        "mean_cosine": mean_cosine(cloud.vectors),
        "isoscore": axes.isoscore,
        "isoscore_unbiased": float(isoscore_unbiased(cloud.vectors)),
        "variance_of_first_components": float(
            axes.variances[:N_PLOTTED].sum() / axes.variances.sum()
        ),
        "n_clusters": clustered.k,
        "silhouette": float(np.nanmax(list(clustered.silhouettes.values()))),
        "share_largest": float(sizes.max() / len(clusters)),
        "s_inter_adjusted": after.s_inter,
        "s_intra_adjusted": after.s_intra,
        "s_inter_adjusted_weighted": weighted.s_inter,
        "s_intra_adjusted_weighted": weighted.s_intra,
        **lid_scores(cloud.vectors, spec.lid, seed),
        "position_share": position_variance_share(coordinates, cloud.positions[in_largest]),
        "roll_gain": swiss_roll.gain,
        "roll_along_position": swiss_roll.along_position,
        "roll_along_frequency": swiss_roll.along_frequency,
        **_controls(cloud, clusters, spec.lid, seed),
    }
    return Measurements(scores, clustered.silhouettes, clusters)


def _controls(
    cloud: TypedCloud, clusters: np.ndarray, settings: Lid, seed: int
) -> dict[str, float]:
    """Compute cosines adjusted without real clusters, as controls: with one mean for all tokens
    (global centring), and with the means of random parts as large as the clusters; and the local
    dimension with few tokens of each type.
    """
    single_cluster = np.zeros(len(clusters), dtype=np.int64)
    random_clusters = np.random.default_rng(seed).permutation(clusters)
    centred_cosines = type_cosines(cloud.vectors, cloud.types, single_cluster)
    random_cosines = type_cosines(cloud.vectors, cloud.types, random_clusters)
    return {
        "s_inter_centred": centred_cosines.s_inter,
        "s_intra_centred": centred_cosines.s_intra,
        "s_inter_random_parts": random_cosines.s_inter,
        "s_intra_random_parts": random_cosines.s_intra,
        **lid_by_type(cloud.vectors, cloud.types, settings, seed),
    }


def count_clusters(
    vectors: np.ndarray, axes: Axes, settings: Clustering, seed: int
) -> ClusterCount:
    """Choose the number of clusters and cluster by k-means, on the vectors or on their first
    principal components.

    Raises:
        IsotropyError: there are fewer distinct vectors than the largest number of clusters to try.
    """
    points = (
        vectors if settings.n_components is None else axes.project(vectors, settings.n_components)
    )
    try:
        return cluster_count(
            points,
            k_range=range(2, settings.k_max + 1),
            sample_size=settings.sample_size,
            threshold=settings.threshold,
            seed=seed,
            n_init=settings.n_init,
            max_iter=settings.max_iter,
        )
    except ValueError as error:
        raise IsotropyError(f"clusters: {error}") from error


def position_variance_share(coordinates: np.ndarray, positions: np.ndarray) -> float:
    """Compute the share of the variance of a cloud, shape (n, d), that lies between the means of
    its positions, adjusted for the number of positions (as in adjusted R²).

    It is near 1 for a manifold that is wound along the window, such as a Swiss roll, and 0 on
    average where coordinates do not depend on the position.
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


class LayerTables(NamedTuple):
    """The result tables of a layer, and the number of dimensions of its vectors."""

    rows: pd.DataFrame
    silhouettes: pd.DataFrame
    points: pd.DataFrame
    d: int


def measure_layer_variants(folder: Path, spec: LayerSpec) -> LayerTables:
    """Measure a layer with each kind of types, and with each variant for the authors' kind
    (subwords), for each seed.

    Args:
        folder: folder of the token vectors (`replication.embed.layers`).
        spec: layer, types, variants, seeds and settings.

    Returns:
        The scores (`measure_layer`), with n_dropped, the number of tokens that the variant leaves
        out; the silhouette for each number of clusters; and a sample of the tokens for plots
        (`pictures`), for the authors' types, the first variant and the first seed.
    """
    rows: list[dict[str, Any]] = []
    silhouette_rows: list[dict[str, Any]] = []
    plotted_types = "subwords" if "subwords" in spec.types else spec.types[0]
    points = pd.DataFrame()
    for types in spec.types:
        full_cloud = read_typed_cloud(folder, spec.layer, spec.window, types)
        for variant in spec.variants if types == plotted_types else spec.variants[:1]:
            cloud = varied(full_cloud, variant)
            axes = principal_axes(cloud.vectors)
            n_dropped = len(full_cloud.vectors) - len(cloud.vectors)
            for seed in spec.seeds:
                key = {"types": types, "variant": variant, "seed": seed}
                measured = measure_layer(cloud, axes, spec, seed)
                rows.append({**key, "n_dropped": n_dropped, **measured.scores})
                silhouette_rows += [
                    {**key, "k": k, "silhouette": s} for k, s in measured.silhouettes.items()
                ]
                if (types, variant, seed) == (plotted_types, spec.variants[0], spec.seeds[0]):
                    points = pictures(cloud, axes, measured.clusters, spec.n_points)
    plotted_points = points.assign(types=plotted_types, variant=spec.variants[0])
    return LayerTables(
        pd.DataFrame(rows),
        pd.DataFrame(silhouette_rows),
        plotted_points,
        full_cloud.vectors.shape[1],
    )


def pictures(cloud: TypedCloud, axes: Axes, clusters: np.ndarray, n_points: int) -> pd.DataFrame:
    """Project a random sample of a cloud (fixed seed) on its first three principal components, and
    on those of its largest cluster, for plots.

    Returns:
        One row per token: name, kind (special, symbol, word), frequency of its type, position in
        the window, cluster (0 is the largest), x, y, z; and x_largest, y_largest, z_largest for
        tokens of the largest cluster, else NaN. Coordinates are in units of the embedding.
    """
    order = np.argsort(-np.bincount(clusters), kind="stable")
    rank = np.argsort(order)
    chosen = np.sort(np.random.default_rng(0).permutation(len(clusters))[:n_points])
    coordinates = axes.project(cloud.vectors[chosen], N_PLOTTED)
    in_largest = clusters == order[0]
    largest_coordinates = principal_axes(cloud.vectors[in_largest]).project(
        cloud.vectors[chosen], N_PLOTTED
    )
    largest_coordinates[~in_largest[chosen]] = np.nan
    columns = {
        f"{name}{suffix}": part[:, i]
        for suffix, part in (("", coordinates), ("_largest", largest_coordinates))
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
