"""Agreement of each metric and transform with an independent implementation: the table in
docs/metrics.md.

Our code gets the cloud in float32, as users have it; the other implementation gets the same numbers
in double precision. Clouds: random, clustered, degenerate (low rank, every fourth point repeated),
far from the origin, and, if the study in `--results` has been run, its real sentence embeddings.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import numpy as np
import skdim
import torch
from IsoScore import IsoScore as published_package
from safetensors.numpy import load_file
from sklearn.cluster import KMeans
from sklearn.metrics import silhouette_samples as sklearn_samples
from sklearn.metrics import silhouette_score
from sklearn.metrics.pairwise import cosine_similarity

from isotropy.metrics import (
    isoscore,
    isoscore_star,
    lid_mle,
    mean_cosine,
    partition_isotropy,
    silhouette,
    silhouette_of_labelings,
    silhouette_samples,
    two_nn,
    type_cosines,
)
from isotropy.transforms import AllButTheTop, ClusterBasedEnhancement
from replication.prepare.table import read_items, targets

EMBEDDINGS = "embed/polarity/all-MiniLM-L6-v2.safetensors"
Clouds = dict[str, tuple[np.ndarray, np.ndarray]]
Value = float | np.ndarray
Comparisons = dict[str, tuple[str, Callable[[], Value], Callable[[], Value]]]


def clouds(results: Path) -> Clouds:
    """Return points (float32) and labels of each cloud, by name."""
    rng = np.random.default_rng(0)
    n, d = 2000, 96
    labels = rng.integers(0, 5, n)
    ball = rng.standard_normal((n, d)) * np.linspace(1, 0.2, d)
    low_rank = rng.standard_normal((n, 4)) @ rng.standard_normal((4, d))
    low_rank[::4] = low_rank[0]
    clouds_by_name = {
        "random": (ball, labels),
        "clustered": (ball * 0.2 + rng.standard_normal((5, d))[labels], labels),
        "degenerate": (low_rank, labels),
        "far away": (ball + 30, labels),
    }
    if (results / EMBEDDINGS).is_file():
        table, dataset = read_items(results / "prepare/polarity.items.parquet")
        points = load_file(results / EMBEDDINGS)["vectors"]
        clouds_by_name[f"real: MiniLM on polarity, {len(points):,}×{points.shape[1]}"] = (
            points,
            targets(table, dataset),
        )
    return {name: (X.astype(np.float32), y) for name, (X, y) in clouds_by_name.items()}


def sample(X: np.ndarray) -> np.ndarray:
    """Draw the row numbers of at most 2,000 points."""
    return np.random.default_rng(1).permutation(len(X))[:2000]


def type_cosines_by_loops(X: np.ndarray, types: np.ndarray) -> np.ndarray:
    """Compute S_inter and S_intra by loops over all pairs."""
    C = cosine_similarity(X)
    members = [np.flatnonzero(types == t) for t in np.unique(types)]
    inter = [C[np.ix_(a, b)].mean() for a, b in combinations(members, 2)]
    intra = [
        (C[np.ix_(m, m)].sum() - np.trace(C[np.ix_(m, m)])) / (len(m) * (len(m) - 1))
        for m in members
        if len(m) > 1
    ]
    return np.array([np.mean(inter), np.mean(intra)])


def mean_cosine_of_all_pairs(X: np.ndarray) -> float:
    """Compute the mean cosine over all pairs."""
    C = cosine_similarity(X)
    return float((C.sum() - np.trace(C)) / (len(C) * (len(C) - 1)))


def log_partition_isotropy(W: np.ndarray) -> float:
    """Compute the logarithm of I(W) by its definition, with our choice of signs."""
    values = []
    for u in np.linalg.eigh(W.T @ W)[1].T:
        u = u * np.sign(u[np.abs(u).argmax()])
        values.append(np.logaddexp.reduce(W @ u))
    return min(values) - max(values)


def remove_components(X: np.ndarray, labels: np.ndarray, k: int) -> np.ndarray:
    """Remove the mean and the first k components of each cluster, by singular values."""
    result = np.empty_like(X)
    for c in np.unique(labels):
        members = X[labels == c] - X[labels == c].mean(axis=0)
        pcs = np.linalg.svd(members, full_matrices=False)[2][:k]
        result[labels == c] = members - members @ pcs.T @ pcs
    return result


def comparisons(X: np.ndarray, y: np.ndarray) -> Comparisons:
    """Return for each metric the name of the other implementation, ours, and the other. Loops over
    pairs get 2,000 points.
    """
    D = X.astype(np.float64)
    with_labels = silhouettes(X, D, y) | cosines(X, D, y)
    return isoscores(X, D) | with_labels | dimensions(X, D) | transforms(X, D)


def isoscores(X: np.ndarray, D: np.ndarray) -> Comparisons:
    """IsoScore and IsoScore*, against the published package."""
    S = torch.cov(torch.from_numpy(D[::2].T))
    pip = published_package
    return {
        "isoscore": ("IsoScore 2.0.1", lambda: isoscore(X), lambda: float(pip.IsoScore(D))),
        "isoscore_star, ζ = 0.2, first 32 points": (
            "IsoScore 2.0.1",
            lambda: isoscore_star(X[:32], 0.2, S.numpy()),
            lambda: float(pip.IsoScore_star(D[:32], S, 0.2)),
        ),
    }


def silhouettes(X: np.ndarray, D: np.ndarray, y: np.ndarray) -> Comparisons:
    """Silhouettes of labels and clusterings, against scikit-learn."""
    part = sample(X)
    labelings = [KMeans(k, n_init=1, random_state=0).fit_predict(X[part]) for k in (2, 5, 9)]
    return {
        "silhouette": ("scikit-learn", lambda: silhouette(X, y), lambda: silhouette_score(D, y)),
        "silhouette_samples": (
            "scikit-learn",
            lambda: silhouette_samples(X, y).numpy(),
            lambda: sklearn_samples(D, y),
        ),
        "silhouettes of k-means, k = 2, 5, 9": (
            "scikit-learn",
            lambda: silhouette_of_labelings(X[part], labelings).numpy(),
            lambda: np.array([silhouette_score(D[part], labels) for labels in labelings]),
        ),
    }


def cosines(X: np.ndarray, D: np.ndarray, y: np.ndarray) -> Comparisons:
    """Mean cosines and I(W), against loops over pairs and the definition."""
    part = sample(X)
    return {
        "mean_cosine": (
            "all pairs",
            lambda: mean_cosine(X[part]),
            lambda: mean_cosine_of_all_pairs(D[part]),
        ),
        "s_inter, s_intra (labels as types)": (
            "all pairs",
            lambda: np.array(type_cosines(X[part], y[part])),
            lambda: type_cosines_by_loops(D[part], y[part]),
        ),
        "log partition_isotropy": (
            "definition",
            lambda: partition_isotropy(X, log=True),
            lambda: log_partition_isotropy(D),
        ),
    }


def dimensions(X: np.ndarray, D: np.ndarray) -> Comparisons:
    """Estimates of intrinsic dimension, against scikit-dimension on distinct points."""
    distinct = np.unique(D, axis=0)
    return {
        "two_nn": (
            "scikit-dimension",
            lambda: two_nn(X),
            lambda: skdim.id.TwoNN().fit(distinct).dimension_,
        ),
        "lid_mle, k = 100": (
            "scikit-dimension × k/(k − 1)",
            lambda: lid_mle(X),
            lambda: skdim.id.MLE().fit(distinct, n_neighbors=100).dimension_pw_.mean() * 100 / 99,
        ),
    }


def transforms(X: np.ndarray, D: np.ndarray) -> Comparisons:
    """Post-processing, against singular values."""
    enhancement = ClusterBasedEnhancement(5, 3).fit(X)
    return {
        "AllButTheTop(3), all coordinates": (
            "singular values",
            lambda: AllButTheTop(3).fit_transform(X),
            lambda: remove_components(D, np.zeros(len(D)), 3),
        ),
        "ClusterBasedEnhancement(5, 3), all coordinates": (
            "singular values",
            lambda: enhancement.transform(X),
            lambda: remove_components(D, enhancement.labels_, 3),
        ),
    }


def main() -> None:
    """Print a Markdown table with the value (of scalar metrics) and the largest difference for each
    cloud.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=Path("results"), help="results of a study")
    warnings.simplefilter("ignore")
    all_clouds = clouds(parser.parse_args().results)
    rows: dict[str, list[str]] = {}
    for X, y in all_clouds.values():
        for name, (other, ours, theirs) in comparisons(X, y).items():
            a, b = np.asarray(ours()), np.asarray(theirs())
            value = f"{float(a):.4g}, " if a.ndim == 0 else ""
            rows.setdefault(f"| {name} | {other} |", []).append(
                f" {value}{np.abs(a - b).max():.0e} |"
            )
    print("| | compared with | " + " | ".join(all_clouds) + " |")
    print("| --- " * (len(all_clouds) + 2) + "|")
    for name, cells in rows.items():
        print(name + "".join(cells))


if __name__ == "__main__":
    main()
