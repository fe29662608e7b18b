"""Scaling of metrics, transforms and trajectories: seconds by number of points, dimensions,
classes and updates, with the fitted exponent.

Each time is the median of three on random clouds, with all of torch's threads. The exponent is the
slope of a line fitted to the logarithms: 1 means linear cost, 2 quadratic cost. `--csv` and
`--figure` write the curves. For the cost of planning many jobs see `benchmarks/graph.py`.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from isotropy.metrics import (
    ShrinkageCovariance,
    isoscore,
    isoscore_star,
    lid_mle,
    mean_cosine,
    silhouette,
    two_nn,
    type_cosines,
)
from isotropy.transforms import ClusterBasedEnhancement
from replication.figures.draw import look
from replication.figures.style import use_style
from replication.optimize.descent import Items
from replication.optimize.optimize import optimize
from replication.optimize.spec import Evaluation, OptimizeSpec
from replication.palette import SERIES

D = 384  # all-MiniLM-L6-v2
MIN_SECONDS = 0.3  # minimum duration of one timing at full scale
ROUNDS = 3


class Curve(NamedTuple):
    """A curve to measure: `work` returns the function to time for a size."""

    what: str
    against: str
    sizes: tuple[int, ...]
    work: Callable[[int], Callable[[], object]]


def cloud(n: int, d: int = D, classes: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Draw points around the mean of their class; return them and their classes."""
    rng = np.random.default_rng(n + d + classes)
    labels = np.r_[np.arange(classes), rng.integers(0, classes, n - classes)]
    means = rng.standard_normal((classes, d)) / 4
    return (rng.standard_normal((n, d)) + means[labels]).astype(np.float32), labels


def curves(scale: float) -> Iterator[Curve]:
    """Yield all curves to measure; `scale` multiplies the numbers of points."""
    points = tuple(int(scale * n) for n in (5_000, 10_000, 20_000, 40_000, 80_000))
    few = points[1]
    yield Curve("IsoScore", f"points, d = {D}", points, lambda n: _metric(isoscore, n))
    yield Curve(
        "IsoScore",
        f"dimensions, n = {few:,}",
        (96, 192, 384, 768, 1536),
        lambda d: _metric(isoscore, few, d),
    )
    yield Curve("silhouette, 2 classes", f"points, d = {D}", points[:4], lambda n: _labeled(n, 2))
    yield Curve(
        "silhouette",
        f"classes, n = {few:,}, d = {D}",
        tuple(min(k, few // 5) for k in (2, 20, 200, 2000)),
        lambda k: _labeled(few, k),
    )
    yield Curve("TwoNN", f"points, d = {D}", points[:4], lambda n: _metric(two_nn, n))
    yield Curve("local dimension", f"points, d = {D}", points[:4], lambda n: _metric(lid_mle, n))
    yield Curve(
        f"local dimension at {few:,} points",
        f"points, d = {D}",
        tuple(5 * n for n in points[:4]),
        lambda n: _metric(partial(lid_mle, n_queries=few), n),
    )
    yield Curve("mean cosine", f"points, d = {D}", points, lambda n: _metric(mean_cosine, n))
    yield Curve(
        "cosines within types",
        f"points, d = {D}, n/10 types",
        points[:4],
        lambda n: _types(n, n // 10),
    )
    yield Curve(
        "cluster-based enhancement, k = 27",
        f"points, d = {D}",
        points[:4],
        lambda n: _enhancement(n),
    )
    yield Curve(
        "IsoScore*, forward and backward", "dimensions, n = 32", (96, 192, 384, 768), _istar
    )
    yield Curve(
        "trajectory, 200 updates",
        f"points, d = {D}",
        tuple(n // 5 for n in points[:4]),
        _trajectory,
    )
    yield Curve(
        f"trajectory, {few // 5:,} points",
        "updates",
        tuple(int(scale * n) for n in (200, 400, 800, 1600)),
        lambda updates: _trajectory(few // 5, updates),
    )


def _metric(metric: Callable[[np.ndarray], object], n: int, d: int = D) -> Callable[[], object]:
    X, _ = cloud(n, d)
    return lambda: metric(X)


def _labeled(n: int, classes: int) -> Callable[[], object]:
    X, y = cloud(n, D, classes)
    return lambda: silhouette(X, y)


def _types(n: int, types: int) -> Callable[[], object]:
    X, y = cloud(n, D, types)
    return lambda: type_cosines(X, y)


def _enhancement(n: int) -> Callable[[], object]:
    X, _ = cloud(n, D, 27)
    return lambda: ClusterBasedEnhancement(27, 12, max_iter=10).fit(X)


def _istar(d: int) -> Callable[[], object]:
    X, _ = cloud(10_000, d)
    covariance = ShrinkageCovariance(np.cov(X.T))
    states = torch.from_numpy(X[:32].copy()).requires_grad_()

    def step() -> None:
        states.grad = None
        torch.as_tensor(isoscore_star(states, 0.2, covariance)).backward()

    return step


def _trajectory(n: int, updates: int = 200) -> Callable[[], object]:
    """A complete run with windows, with a tolerance of 1e-5."""
    X, y = cloud(n)
    items = Items(X / 20, np.arange(n)[:, None], y)
    spec = OptimizeSpec(
        paper="mickus2024",
        setup="random",
        group="section3",
        base="random",
        variant=None,
        dataset="random",
        embedding="",
        loss="cross_entropy",
        bias=False,
        mean_norm=None,
        seed=0,
        updates=updates,
        learning_rate=0.001,
        measure=Evaluation(tolerance=1e-5, sample_size=None),
        device="cpu",
    )

    def run() -> None:
        with tempfile.TemporaryDirectory() as work:
            optimize(spec, items, 2, torch.device("cpu"), Path(work))

    return run


def seconds(work: Callable[[], object], least: float) -> float:
    """Return the median time of a call; fast calls are repeated for `least` seconds per timing."""
    start = time.perf_counter()
    work()  # warm-up
    once = time.perf_counter() - start
    calls = max(1, round(least / once))
    taken = []
    for _ in range(1 if once > 5 else ROUNDS):
        start = time.perf_counter()
        for _ in range(calls):
            work()
        taken.append((time.perf_counter() - start) / calls)
    return statistics.median(taken)


def exponent(sizes: tuple[int, ...], taken: list[float]) -> float:
    """Fit the slope of the logarithms by least squares."""
    return float(np.polyfit(np.log(sizes), np.log(taken), 1)[0])


def plot(measured: list[tuple[Curve, list[float]]]) -> Figure:
    """Plot one panel per variable, with logarithmic axes."""
    use_style()
    groups: dict[str, list[tuple[Curve, list[float]]]] = {}
    for curve, taken in measured:
        groups.setdefault(curve.against.partition(",")[0], []).append((curve, taken))
    figure = Figure(figsize=(13, 8), layout="constrained")
    panels = figure.subplots(2, 2, sharey=True).flat
    for axes, (variable, curves_of_variable) in zip(panels, groups.items(), strict=False):
        for i, (curve, taken) in enumerate(curves_of_variable):
            slope = exponent(curve.sizes, taken)
            style = look(i, "--" if i >= len(SERIES) else "-")  # where colours repeat
            label = f"{curve.what}: {round(slope, 1) + 0.0:.1f}"  # no -0.0
            axes.loglog(curve.sizes, taken, label=label, **style._asdict())
        axes.set(xlabel=variable, ylabel="seconds per call")
        axes.yaxis.set_tick_params(labelleft=True)
        sizes = [size for curve, _ in curves_of_variable for size in curve.sizes]
        size_range = np.array([min(sizes), max(sizes)])
        for power, style in ((1, ":"), (2, "-.")):
            guide = 0.02 * (size_range / size_range[0]) ** power
            axes.plot(size_range, guide, style, color="0.5", lw=1, label=f"for comparison: {power}")
        axes.set_ylim(1e-4, 50)
        axes.set_xticks([min(sizes), curves_of_variable[0][0].sizes[1], max(sizes)])
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.legend(title="exponent", fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def main() -> None:
    """Measure all curves, and print a row for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="measure curves whose name contains this text")
    parser.add_argument("--scale", type=float, default=1.0, help="of the numbers of points")
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--figure", type=Path)
    options = parser.parse_args()
    print(f"{torch.get_num_threads()} threads\n")
    print("| what | against | sizes | seconds | exponent |\n| --- | --- | --- | --- | --- |")
    measured = []
    for curve in curves(options.scale):
        if options.only not in curve.what:
            continue
        taken = [seconds(curve.work(size), MIN_SECONDS * options.scale) for size in curve.sizes]
        measured.append((curve, taken))
        sizes, times = (
            ", ".join(map(form, row))
            for form, row in (("{:,}".format, curve.sizes), ("{:.3g}".format, taken))
        )
        slope = exponent(curve.sizes, taken)
        print(f"| {curve.what} | {curve.against} | {sizes} | {times} | {slope:.2f} |", flush=True)
    if options.csv:
        with options.csv.open("w", encoding="utf8", newline="") as stream:
            rows = csv.writer(stream, lineterminator="\n")
            rows.writerow(["what", "against", "size", "seconds"])
            for curve, taken in measured:
                for size, time_ in zip(curve.sizes, taken, strict=True):
                    rows.writerow([curve.what, curve.against, size, f"{time_:.4g}"])
    if options.figure:
        plot(measured).savefig(options.figure, dpi=110)


if __name__ == "__main__":
    main()
