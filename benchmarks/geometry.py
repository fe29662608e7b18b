"""Scaling of the geometry of layers: exact cosines of a million tokens, and local dimension with
exact neighbours.

Cosines: ours over all tokens, compared with the authors' sampling of the same tokens (8,000 types;
2,000 types with at most 1,000 occurrences), by scikit-learn. Local dimension: time and memory by
number of tokens, estimated at 10,000 of them and at all. Tokens are random, with a mean, and types
have Zipf frequencies; every row states their number.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable

import numpy as np
import torch
from sklearn.metrics.pairwise import cosine_similarity
from threadpoolctl import threadpool_limits

from isotropy.metrics.cosines import type_cosines
from isotropy.metrics.dimension import lid_mle_estimates


def random_tokens(n: int, d: int, n_types: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw token vectors around their types' vectors; types have Zipf frequencies, and each
    occurs.
    """
    generator = np.random.default_rng(0)
    types = generator.permutation(
        np.r_[np.arange(n_types), np.minimum(generator.zipf(1.3, n - n_types), n_types) - 1]
    )
    centres = (generator.standard_normal((n_types, d)) + 1).astype(np.float32)
    vectors = generator.standard_normal((n, d), dtype=np.float32)
    for start in range(0, n, 100_000):
        part = slice(start, start + 100_000)
        vectors[part] += centres[types[part]]
    return vectors, types


def sampled_type_cosines(X: np.ndarray, types: np.ndarray) -> tuple[float, float]:
    """Estimate S_inter and S_intra by the authors' sampling."""
    generator = np.random.default_rng(0)
    order = np.argsort(types, kind="stable")
    starts = np.searchsorted(types[order], np.arange(types.max() + 2))
    counts = np.diff(starts)
    drawn_types = generator.permutation(len(counts))[:8000]
    similar = cosine_similarity(
        X[order[starts[drawn_types] + generator.integers(0, counts[drawn_types])]]
    )
    inter = (similar.sum() - len(similar)) / (len(similar) * (len(similar) - 1))
    intra = []
    for t in generator.permutation(np.flatnonzero(counts > 1))[:2000]:
        rows = order[starts[t] : starts[t + 1]]
        similarities = cosine_similarity(X[generator.permutation(rows)[:1000]])
        intra.append(
            (similarities.sum() - len(similarities)) / (len(similarities) * (len(similarities) - 1))
        )
    return float(inter), float(np.mean(intra))


def timed(work: Callable[[], tuple[float, ...]]) -> tuple[float, tuple[float, ...]]:
    """Return the seconds that a call takes, and its result."""
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def peak() -> str:
    """Return the peak memory of this process so far."""
    return f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.1f} GB"


def main() -> None:
    """Print seconds, ratios and memory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=1_000_000)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--types", type=int, default=30_000)
    parser.add_argument("--lid", type=int, nargs="*", default=[30_000, 100_000, 300_000, 1_000_000])
    parser.add_argument("--all-points-up-to", type=int, default=100_000)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    with threadpool_limits(options.threads):
        X, types = random_tokens(options.tokens, options.dim, options.types)
        print(
            f"{options.threads} threads; the tokens take {X.nbytes / 2**30:.1f} GB; "
            f"{peak()} before the first row\n"
        )
        type_cosines(X[:1000], types[:1000])  # compiles
        our_seconds, exact = timed(lambda: type_cosines(X, types))
        memory = peak()
        theirs, estimate = timed(lambda: sampled_type_cosines(X, types))
        print("| what | seconds | S_inter | S_intra | memory |\n| --- | --- | --- | --- | --- |")
        print(
            f"| ours, all {len(X):,} tokens × {X.shape[1]} | {our_seconds:.2f} | {exact[0]:.5f} | "
            f"{exact[1]:.5f} | {memory} |"
        )
        print(
            f"| sampled as the authors | {theirs:.2f} | {estimate[0]:.5f} | {estimate[1]:.5f} | "
            f"{peak()} |"
        )
        print(f"\nratio {theirs / our_seconds:.1f}\n")
        print(
            "| local dimension, tokens | measured at | seconds | conventional | as published | "
            "memory |"
        )
        print("| --- | --- | --- | --- | --- | --- |")
        for n in options.lid:
            for queries in (10_000, None):
                if queries is None and n > options.all_points_up_to:
                    continue
                seconds, both = timed(
                    lambda n=n, q=queries: lid_mle_estimates(X[:n], 100, n_queries=q)
                )  # type: ignore[misc]
                at = f"{min(n, queries or n):,}"
                print(
                    f"| {n:,} | {at} | {seconds:.1f} | {both[0]:.3f} | {both[1]:.3f} | {peak()} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
