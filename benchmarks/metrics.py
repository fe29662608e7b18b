"""Side-by-side speed of the metrics: ours and the peer in one run, interleaved, on the paper's own shapes.

Prints medians, the ratio with its spread, the largest difference in value, and which share of the machine's own matrix
rate (measured here, in the same process) the operations that cannot be avoided amount to.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from IsoScore import IsoScore as published_package
from sklearn.metrics import silhouette_score
from threadpoolctl import threadpool_limits

from isotropy.metrics import isoscore, silhouette


def interleaved(ours: Callable[[], float], peer: Callable[[], float], rounds: int) -> tuple[list[float], list[float], float]:
    """Seconds of each, A B A B, after one round that does not count; and the difference of the values."""
    difference = abs(float(ours()) - float(peer()))
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for function, taken in zip((ours, peer), times, strict=True):
            start = time.perf_counter()
            function()
            taken.append(time.perf_counter() - start)
    return *times, difference


def matrix_rate() -> float:
    """Operations per second of a large float32 matrix product, the best of a few."""
    A = torch.randn(4096, 4096)
    torch.mm(A, A)
    best = np.inf
    for _ in range(4):
        start = time.perf_counter()
        torch.mm(A, A)
        best = min(best, time.perf_counter() - start)
    return 2 * 4096**3 / best


def main() -> None:
    """Run all comparisons and print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    threadpool_limits(options.threads)  # the peers' libraries as well
    rng = np.random.default_rng(0)
    rate = matrix_rate()
    print(f"{options.threads} threads; float32 matrix product {rate / 1e9:.0f} Gop/s\n")
    print("| what | peer | ours (ms) | peer (ms) | ratio (least to largest) | difference | share of matrix rate |")
    print("| --- | --- | --- | --- | --- | --- | --- |")

    def report(what: str, peer_name: str, operations: float, ours: Callable[[], float], peer: Callable[[], float]) -> None:
        a, b, difference = interleaved(ours, peer, options.rounds)
        ratios = sorted(y / x for x, y in zip(a, b, strict=True))
        mine, theirs = statistics.median(a), statistics.median(b)
        print(
            f"| {what} | {peer_name} | {mine * 1e3:.1f} | {theirs * 1e3:.1f} | {theirs / mine:.1f} "
            f"({ratios[0]:.1f} to {ratios[-1]:.1f}) | {difference:.0e} | {operations / rate / mine:.0%} |"
        )

    for n, d in ((10662, 384), (2275, 300), (20000, 768)):
        X = rng.standard_normal((n, d)).astype(np.float32)
        report(
            f"isoscore {n:,}×{d}",
            "IsoScore 2.0.1",
            2.0 * n * d * d,
            lambda X=X: isoscore(X),
            lambda X=X: published_package.IsoScore(X),
        )
    for n, d, k in ((10662, 384, 2), (2275, 300, 900), (11462, 300, 2431)):
        X = rng.standard_normal((n, d)).astype(np.float32)
        y = np.r_[np.arange(k), rng.integers(0, k, n - k)]
        report(
            f"silhouette {n:,}×{d}, {k:,} classes",
            "scikit-learn",
            1.0 * n * n * d,
            lambda X=X, y=y: silhouette(X, y),
            lambda X=X, y=y: silhouette_score(X, y),
        )


if __name__ == "__main__":
    main()
