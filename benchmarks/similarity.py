"""Cost of cluster-based isotropy enhancement: ours and a plain scikit-learn version, interleaved.

Both use the same real token vectors and k-means from random points (the authors' ten iterations are
nine of scikit-learn's), and remove the mean and the first components of each cluster. The plain
version uses `KMeans`, then a full `PCA` per cluster; and for I(W) `numpy.linalg.eig` and `exp` in
double precision. It needs token vectors embedded by the workflow: run it first.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from threadpoolctl import threadpool_limits

from isotropy.embed.layers import read_layer
from isotropy.metrics.partition import partition_isotropy
from isotropy.transforms import ClusterBasedEnhancement

CLUSTERS, COMPONENTS = 27, 12


def plain_sklearn(X: np.ndarray) -> np.ndarray:
    """Apply the method as in the authors' notebook, by scikit-learn."""
    labels = KMeans(
        CLUSTERS, init="random", n_init=1, max_iter=9, tol=0, random_state=0
    ).fit_predict(X)
    result = np.empty_like(X)
    for c in range(CLUSTERS):
        members = X[labels == c] - X[labels == c].mean(axis=0)
        components = PCA().fit(members).components_[:COMPONENTS]
        result[labels == c] = members - members @ components.T @ components
    return result


def ours(X: np.ndarray) -> np.ndarray:
    """Apply the method by the project's transform."""
    method = ClusterBasedEnhancement(
        CLUSTERS, COMPONENTS, init="random", max_iter=9, tol=0, random_state=0
    )
    after: np.ndarray = method.fit_transform(X)
    return after


def naive_isotropy(X: np.ndarray) -> float:
    """Compute I(W) as in the authors' notebook."""
    _, vectors = np.linalg.eig(X.T @ X)
    f = np.exp(X @ vectors).sum(axis=0)
    return float(f.min() / f.max())


def main() -> None:
    """Time both, and print milliseconds and ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--dataset", default="polarity-part")
    parser.add_argument("--model", default="all-MiniLM-L6-v2")
    parser.add_argument("--layer", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    folder = options.results / f"embed/{options.dataset}/tokens/{options.model}"
    if not folder.is_dir():
        sys.exit(f"{folder} does not exist: run the workflow first")
    X = read_layer(folder, options.layer)
    torch.set_num_threads(options.threads)
    with threadpool_limits(options.threads):
        difference = np.abs(ours(X) - plain_sklearn(X)).max()
        pairs: list[tuple[str, Callable[[], Any], Callable[[], Any]]] = [
            (
                "k-means, mean, 12 components of 27 clusters",
                lambda: ours(X),
                lambda: plain_sklearn(X),
            ),
            ("I(W)", lambda: partition_isotropy(X), lambda: naive_isotropy(X.astype(np.float64))),
        ]
        print(
            f"{X.shape[0]:,} x {X.shape[1]} token vectors, {options.threads} threads; largest "
            f"difference {difference:.1e}\n"
        )
        print("| what | ours (ms) | plain version (ms) | ratio |\n| --- | --- | --- | --- |")
        for name, our_function, peer in pairs:
            times: dict[str, list[float]] = {"own": [], "peer": []}
            for _ in range(options.rounds):
                for key, function in (("own", our_function), ("peer", peer)):
                    began = time.perf_counter()
                    function()
                    times[key].append(1000 * (time.perf_counter() - began))
            fast, slow = statistics.median(times["own"]), statistics.median(times["peer"])
            print(f"| {name} | {fast:,.0f} | {slow:,.0f} | {slow / fast:.1f} |")


if __name__ == "__main__":
    main()
