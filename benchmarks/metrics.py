"""Speed of metrics and transforms: ours and a peer, interleaved in one run, on the papers' shapes.

Prints medians, the ratio with its range, the largest difference in value, the share of a lower
bound ("floor"), which is the time that unavoidable operations or reading of data take at rates
measured on this machine, and the largest memory of this process so far, before the peer's first
call.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import faiss
import numpy as np
import skdim
import torch
from IsoScore import IsoScore as published_package
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.metrics import silhouette_score
from sklearn.metrics.pairwise import cosine_similarity
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits

from isotropy.metrics import (
    ShrinkageCovariance,
    cluster_count,
    isoscore,
    isoscore_star,
    isoscore_unbiased,
    lid_mle,
    matmul,
    mean_cosine,
    silhouette,
    silhouette_of_labelings,
    two_nn,
    type_cosines,
)
from isotropy.metrics.kmeans import kmeans
from isotropy.metrics.partition import partition_isotropy
from isotropy.transforms import ClusterBasedEnhancement
from replication.embed.layers import read_layer

Function = Callable[[], object]
Size = Callable[[int], int]  # number of points at full scale -> number to draw
PAUSE_SECONDS = (
    0.3  # seconds before each timing: the other side's threads keep spinning for a while
)
MIN_SECONDS = 0.2  # minimum duration of a timing: fast functions are called several times


class Comparison(NamedTuple):
    """Two functions to time; `operations` and `bytes_read` determine the lower bound."""

    what: str
    peer_name: str
    ours: Function
    peer: Function
    operations: float = 0
    bytes_read: float = 0
    rounds: int = 0  # 0: as given by --rounds


def cloud(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    """Draw Gaussian points in float32."""
    return rng.standard_normal((n, d), dtype=np.float32)


def isoscores(rng: np.random.Generator, size: Size) -> Iterator[Comparison]:
    """IsoScore and I-STAR; each cloud is drawn only when its comparison is run."""
    for n, d in ((10662, 384), (2275, 300), (20000, 768)):
        X = cloud(rng, n := size(n), d)
        yield Comparison(
            f"isoscore {n:,}×{d}",
            "IsoScore 2.0.1",
            lambda X=X: isoscore(X),
            lambda X=X: published_package.IsoScore(X),
            n * d * d,
        )
    for n, d in ((32, 768), (416, 768)):
        points, S = (
            torch.from_numpy(cloud(rng, n, d)).requires_grad_(),
            torch.cov(torch.from_numpy(cloud(rng, 3 * d, d)).T),
        )
        prepared = ShrinkageCovariance(S)
        yield Comparison(
            f"I-STAR {n}×{d}, forward and backward",
            "IsoScore 2.0.1",
            lambda X=points, S=prepared: gradient(X, isoscore_star(X, 0.2, S)),
            lambda X=points, S=S: gradient(
                X, published_package.istar().IsoScore_star(X, S, 0.2, is_eval=False)
            ),
            2 * n * d * d + 3 * n * n * d,
        )


def unbiased(rng: np.random.Generator, size: Size) -> Iterator[Comparison]:
    """IsoScore without bias, beside IsoScore and the package of Chun et al. (2026). The difference
    from IsoScore is its bias.
    """
    from dimensionality import participation_ratio

    for n, d in ((20000, 768), (10662, 384), (2275, 300), (512, 768), (50, 768)):
        X = cloud(rng, n := size(n), d) * np.linspace(0.2, 2, d, dtype=np.float32)
        label, ours = f"isoscore_unbiased {n:,}×{d}", lambda X=X: isoscore_unbiased(X)
        operations = n * d * min(n, d)
        yield Comparison(label, "our isoscore", ours, lambda X=X: isoscore(X), operations)
        if n < 1000:  # 1 min for 20,000×768
            yield Comparison(
                label,
                "dimensionality 0.1.4, rows",
                ours,
                lambda X=X, d=d: (participation_ratio(X, return_all=True)["row"] - 1) / (d - 1),
                operations,
                rounds=3,
            )


def silhouettes(rng: np.random.Generator, size: Size) -> Iterator[Comparison]:
    """Silhouettes of one labeling, and of several for choosing a number of clusters."""
    for n, d, k in ((10662, 384, 2), (2275, 300, 900), (11462, 300, 2431)):
        n, k = size(n), min(k, size(k))
        X, y = cloud(rng, n, d), np.r_[np.arange(k), rng.integers(0, k, n - k)]
        label, ours, floor = (
            f"silhouette {n:,}×{d}, {k:,} classes",
            lambda X=X, y=y: silhouette(X, y),
            n * n * d,
        )
        yield Comparison(
            label, "scikit-learn", ours, lambda X=X, y=y: silhouette_score(X, y), floor
        )
    n, d = size(10_000), 768
    X, labelings = cloud(rng, n, d), [rng.integers(0, k, n) for k in range(2, 16)]
    yield Comparison(
        f"silhouettes for k = 2…15, {n:,}×{d}",
        "scikit-learn, 14 times",
        lambda: silhouette_of_labelings(X, labelings).numpy(),
        lambda: np.array([silhouette_score(X, y) for y in labelings]),
        n * n * (d + 2 * sum(range(2, 16))),
        rounds=1,
    )
    n = size(20_000)
    big, many = cloud(rng, n, d), [rng.integers(0, k, n) for k in range(2, 16)]
    yield Comparison(
        f"silhouettes for k = 2…15, {n:,}×{d}",
        "scikit-learn, k = 2 alone",
        lambda: silhouette_of_labelings(big, many).numpy()[0],
        lambda: silhouette_score(big, many[0]),
        n * n * (d + 2 * sum(range(2, 16))),
        rounds=1,
    )


def clusters(rng: np.random.Generator, size: Size) -> Iterator[Comparison]:
    """k-means for 14 numbers of clusters, alone and with silhouettes; the lower bound counts matrix
    products.
    """
    n, d = size(30_000), 384
    X, product_operations = clumps(rng, n, d)
    yield Comparison(
        f"k-means for k = 2…15, {n:,}×{d}",
        "scikit-learn, 14 times",
        lambda: our_kmeans(X),
        lambda: kmeans_by_sklearn(X),
        product_operations,
        rounds=3,
    )
    n, d = size(10_000), 768
    Y, product_operations = clumps(rng, n, d)
    yield Comparison(
        f"k-means for k = 2…15 and silhouettes, {n:,}×{d}",
        "scikit-learn, 14 times",
        lambda: np.array(list(cluster_count(Y, sample_size=None).silhouettes.values())),
        lambda: cluster_silhouettes_by_sklearn(Y),
        product_operations + n * n * (d + 2 * sum(range(2, 16))),
        rounds=1,
    )


def clumps(rng: np.random.Generator, n: int, d: int) -> tuple[np.ndarray, float]:
    """Draw points around 30 centres; return them, and the operations of k-means for k = 2…15."""
    X = cloud(rng, n, d) + cloud(rng, 30, d)[rng.integers(0, 30, n)] / 2
    return X, 2 * n * d * sum(k * run.n_iter for k, run in kmeans(X, range(2, 16)).items())


def neighbours(rng: np.random.Generator, size: Size) -> Iterator[Comparison]:
    """Intrinsic dimension."""
    from pynndescent import NNDescent  # imported here, because it compiles for 40 s

    n, d = size(10_000), 768
    X, Y = cloud(rng, n, d), cloud(rng, size(30_000), 384)
    label = f"two_nn {n:,}×{d}"
    yield Comparison(
        label,
        "scikit-dimension",
        lambda: two_nn(X),
        lambda: skdim.id.TwoNN().fit(X).dimension_,
        n * n * d,
        rounds=3,
    )
    yield Comparison(
        label, "faiss, whole square", lambda: two_nn(X), lambda: two_nn_by_faiss(X), n * n * d
    )
    n, d = Y.shape
    label, ours = f"lid_mle {n:,}×{d}, k = 100, exact", lambda: lid_mle(Y)
    yield Comparison(
        label,
        "pynndescent (approximate)",
        ours,
        lambda: lid_by_graph(NNDescent, Y),
        n * n * d,
        rounds=1,
    )
    peers = {
        "scikit-learn's search": lid_by_sklearn,
        "faiss": lid_by_faiss,
    }
    for peer, function in peers.items():
        yield Comparison(label, peer, ours, lambda f=function: f(Y), n * n * d, rounds=1)


def means(rng: np.random.Generator, size: Size) -> Iterator[Comparison]:
    """Mean cosines."""
    for n, d, k in ((1_000_000, 384, 30_000), (200_000, 768, 16_744)):
        n, k = size(n), size(k)
        X, types = typed_tokens(rng, n, d, k)
        label = f"s_inter and s_intra, {n:,}×{d}, {k:,} types, exact"
        ours = lambda: np.array(type_cosines(X, types))  # noqa: B023, E731
        sampled = lambda: sampled_type_cosines(X, types)  # noqa: B023, E731
        peer = "scikit-learn on the papers' samples"
        yield Comparison(label, peer, ours, sampled, bytes_read=4 * n * d, rounds=3)
    n = size(1_000_000)
    big = torch.randn(n, d)
    yield Comparison(
        f"mean_cosine {n:,}×{d}, exact",
        "scikit-learn on 10,000 points",
        lambda: mean_cosine(big),
        lambda: sampled_mean_cosine(big.numpy()),
        bytes_read=4 * n * d,
        rounds=3,
    )


def typed_tokens(
    rng: np.random.Generator, n: int, d: int, n_types: int
) -> tuple[np.ndarray, np.ndarray]:
    """Draw tokens around the vectors of their types, which have Zipf frequencies and all occur."""
    drawn = np.minimum(rng.zipf(1.3, n - n_types), n_types) - 1
    types = rng.permutation(np.r_[np.arange(n_types), drawn])
    X, centres = cloud(rng, n, d), cloud(rng, n_types, d) + 1
    for rows in np.array_split(np.arange(n), 10):
        X[rows] += centres[types[rows]]
    return X, types


def enhancements(results: Path) -> Iterator[Comparison]:
    """The whole method, with the authors' ten iterations of k-means, which are nine of
    scikit-learn's, and I(W), both as in their notebook: on token vectors of a study.
    """
    tokens = results / "embed/polarity-part/tokens/all-MiniLM-L6-v2"
    if not tokens.is_dir():
        print(f"{tokens} does not exist: run the workflow first", file=sys.stderr)
        return
    X, k = read_layer(tokens, 6), 27
    options = {"init": "random", "max_iter": 9, "tol": 0, "random_state": 0}
    yield Comparison(
        f"k-means, mean and 12 components removed from {k} clusters, {len(X):,}×{X.shape[1]}",
        "scikit-learn",
        lambda: ClusterBasedEnhancement(k, 12, **options).fit_transform(X),
        lambda: pca_removed(X, KMeans(k, n_init=1, **options).fit_predict(X)),
    )
    yield Comparison(
        f"log10 of I(W), {len(X):,}×{X.shape[1]}",
        "numpy.linalg.eig, exp",
        lambda: np.log10(partition_isotropy(X)),
        lambda: np.log10(isotropy_by_numpy(X.astype(np.float64))),
    )


def isotropy_by_numpy(X: np.ndarray) -> float:
    """Compute I(W) as in the authors' notebook."""
    _, vectors = np.linalg.eig(X.T @ X)
    f = np.exp(X @ vectors).sum(axis=0)
    return float(f.min() / f.max())


def gradient(X: torch.Tensor, score: torch.Tensor) -> np.ndarray:
    """Compute the gradient, relative to its largest entry."""
    X.grad = None
    torch.autograd.backward(score)
    assert X.grad is not None
    return (X.grad / X.grad.abs().max()).numpy()


def two_nn_by_faiss(X: np.ndarray) -> float:
    """Fit the slope of TwoNN to the distances found by faiss."""
    first, second = np.sqrt(faiss.knn(X, X, 3)[0][:, 1:].astype(np.float64)).T
    x, n = np.sort(np.log(second / first)), int(0.9 * len(X))
    y = -np.log1p(-np.arange(1, n + 1) / len(X))
    return float(x[:n] @ y / (x[:n] @ x[:n]))


def mean_dimension(r: np.ndarray) -> float:
    """Estimate the mean local dimension from ascending distances to neighbours, shape (n, k)."""
    return float(np.mean(-1 / np.log(r / r[:, -1:]).mean(axis=1)))


def lid_by_faiss(X: np.ndarray) -> float:
    """Estimate the local dimension from the neighbours found by faiss."""
    faiss.omp_set_num_threads(torch.get_num_threads())
    r = np.sqrt(faiss.knn(X, X, 101)[0][:, 1:].astype(np.float64))
    return mean_dimension(r)


def cluster_silhouettes_by_sklearn(X: np.ndarray) -> np.ndarray:
    """Compute what `cluster_count` does by scikit-learn: silhouettes for each k."""
    labels = [KMeans(k, n_init=1, random_state=0).fit_predict(X) for k in range(2, 16)]
    return np.array([silhouette_score(X, y) for y in labels])


def kmeans_by_sklearn(X: np.ndarray) -> np.ndarray:
    """Run scikit-learn's k-means for each k; return root mean square distances."""
    inertia = [KMeans(k, n_init=1, random_state=0).fit(X).inertia_ for k in range(2, 16)]
    return np.sqrt(np.array(inertia) / len(X))


def our_kmeans(X: np.ndarray) -> np.ndarray:
    """Run our k-means for all k at once; return root mean square distances."""
    return np.sqrt([run.inertia / len(X) for run in kmeans(X, range(2, 16)).values()])


def lid_by_graph(search: type, X: np.ndarray) -> float:
    """Estimate the local dimension from approximate neighbours by pynndescent."""
    r = search(X, n_neighbors=101, random_state=0).neighbor_graph[1][:, 1:].astype(np.float64)
    return mean_dimension(r)


def lid_by_sklearn(X: np.ndarray) -> float:
    """Estimate the local dimension from scikit-learn's exact neighbours."""
    r = (
        NearestNeighbors(n_neighbors=101, algorithm="brute")
        .fit(X)
        .kneighbors(X)[0][:, 1:]
        .astype(np.float64)
    )
    return mean_dimension(r)


def sampled_type_cosines(X: np.ndarray, types: np.ndarray) -> np.ndarray:
    """Estimate S_inter and S_intra as Cai et al.: from one occurrence of each of 8,000 types, and
    from 2,000 types with at most 1,000 occurrences each.
    """
    order = np.argsort(types, kind="stable")
    _, starts, counts = np.unique(types[order], return_index=True, return_counts=True)
    mean = lambda C: (C.sum(dtype=np.float64) - len(C)) / (len(C) * (len(C) - 1))  # noqa: E731
    inter = mean(cosine_similarity(X[order[starts[:8000]]]))
    repeated = np.flatnonzero(counts > 1)[:2000]
    return np.array(
        [
            inter,
            np.mean(
                [
                    mean(cosine_similarity(X[order[starts[t] :][: min(counts[t], 1000)]]))
                    for t in repeated
                ]
            ),
        ]
    )


def sampled_mean_cosine(X: np.ndarray) -> float:
    """Estimate the mean cosine on a sample of 10,000 points, as is common practice."""
    C = cosine_similarity(X[:: len(X) // 10_000])
    return float((C.sum(dtype=np.float64) - len(C)) / (len(C) * (len(C) - 1)))


def pca_removed(X: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Apply the authors' steps to given clusters, by scikit-learn's PCA."""
    result = np.empty_like(X)
    for c in np.unique(labels):
        members = X[labels == c]
        members = members - members.mean(axis=0)
        pcs = PCA(svd_solver="full").fit(members).components_[:12]
        result[labels == c] = members - members @ pcs.T @ pcs
    return result


def interleaved(
    ours: Function, peer: Function, rounds: int
) -> tuple[list[float], list[float], float, float]:
    """Time two functions alternately, after a warm-up; return the seconds of each, the largest
    difference of their values, and the peak memory before the peer's first call, in GB.
    """
    value = np.asarray(ours())
    gigabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    difference = float(np.max(np.abs(value - np.asarray(peer()))))
    times: tuple[list[float], list[float]] = ([], [])
    repeats = [max(1, int(MIN_SECONDS / seconds(function, 1))) for function in (ours, peer)]
    for _ in range(rounds):
        for function, taken, n in zip((ours, peer), times, repeats, strict=True):
            time.sleep(PAUSE_SECONDS)
            taken.append(seconds(function, n))
    return *times, difference, gigabytes


def seconds(function: Function, n: int) -> float:
    """Return the mean seconds of n consecutive calls."""
    start = time.perf_counter()
    for _ in range(n):
        function()
    return (time.perf_counter() - start) / n


def best(function: Function, rounds: int = 4) -> float:
    """Return the shortest of several timings, in seconds."""
    function()
    return min(seconds(function, 1) for _ in range(rounds))


def rates(size: Size) -> tuple[float, float]:
    """Measure operations per second of a float32 matrix product by the faster library, and bytes
    per second of a sum over an array.
    """
    A = torch.randn(size(4096), size(4096))
    values = torch.randn(size(2**28))
    product = min(best(lambda: torch.mm(A, A)), best(lambda: matmul.product(A, A)))
    return 2 * len(A) ** 3 / product, 4 * len(values) / best(lambda: values.sum())


def main() -> None:
    """Run the comparisons and print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument(
        "--results", type=Path, default=Path("results"), help="results with token vectors"
    )
    parser.add_argument("--only", default="", help="run comparisons whose name contains this text")
    parser.add_argument(
        "--scale", type=float, default=1.0, help="multiply numbers of points by this"
    )
    options = parser.parse_args()
    size = lambda n: max(8, int(n * options.scale))  # noqa: E731
    torch.set_num_threads(options.threads)
    threadpool_limits(options.threads)  # the peers' libraries as well
    warnings.simplefilter("ignore")
    operations, read = rates(size)
    print(
        f"{options.threads} threads; float32 matrix product {operations / 1e9:.0f} Gop/s, reading "
        f"{read / 1e9:.0f} GB/s\n"
    )
    print(
        "| what | peer | ours (ms) | peer (ms) | ratio (least to largest) | difference | share of "
        "the floor | memory (GB) |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- |", flush=True)
    rng = np.random.default_rng(0)
    drawn = (isoscores, unbiased, silhouettes, clusters, neighbours, means)
    comparisons = chain.from_iterable(make(rng, size) for make in drawn)
    for c in chain(comparisons, enhancements(options.results)):
        if options.only not in c.what:
            continue
        a, b, difference, gigabytes = interleaved(c.ours, c.peer, c.rounds or options.rounds)
        ratios = sorted(y / x for x, y in zip(a, b, strict=True))
        ours, theirs = statistics.median(a), statistics.median(b)
        floor = c.operations / operations + c.bytes_read / read
        print(
            f"| {c.what} | {c.peer_name} | {ours * 1e3:,.1f} | {theirs * 1e3:,.1f} | "
            f"{theirs / ours:.1f} "
            f"({ratios[0]:.1f} to {ratios[-1]:.1f}) | {difference:.0e} | {floor / ours:.0%} | "
            f"{gigabytes:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
