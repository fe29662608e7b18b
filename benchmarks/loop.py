"""Speed of direct optimization: a plain PyTorch version of the paper's loop, and our own.

The paper's loop: torch's default Adam on concatenated pairs, with the PyPI IsoScore and
scikit-learn's silhouette after every update; timed for a few updates. Ours: direct evaluation of
every step, for as many updates; and windows of updates, for the whole run, compared with direct
evaluation at every 10th step. It needs data prepared by the workflow: run it first.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from IsoScore import IsoScore as published_package
from safetensors.numpy import load_file
from sklearn.metrics import silhouette_score

from replication.optimize.descent import Descent, Items
from replication.optimize.evaluator import Evaluator
from replication.optimize.optimize import optimize
from replication.optimize.spec import Evaluation, OptimizeSpec
from replication.prepare.table import read_items, targets, text_rows

CPU = torch.device("cpu")


def main() -> None:
    """Time the loops; print milliseconds per update, ratios, and errors of windows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--datasets", nargs="+", default=["polarity"])
    parser.add_argument("--model", default="all-MiniLM-L6-v2")
    parser.add_argument("--updates", type=int, default=1000)
    parser.add_argument("--few", type=int, default=5, help="timed updates of the other two loops")
    parser.add_argument("--pairs", type=int, default=98_175, help="pairs of the updates alone")
    options = parser.parse_args()
    print(f"{torch.get_num_threads()} threads; ms per update")
    for name in options.datasets:
        path = options.results / f"prepare/{name}.items.parquet"
        if not path.is_file():
            sys.exit(f"{path} does not exist: run the workflow first")
        table, dataset = read_items(path)
        vectors = load_file(options.results / f"embed/{name}/{options.model}.safetensors")[
            "vectors"
        ]
        items = Items(vectors, text_rows(table), targets(table, dataset))
        compare(name, items, len(dataset.label_names), options.updates, options.few)
    update_alone(options.pairs)


def compare(name: str, items: Items, n_labels: int, updates: int, few: int) -> None:
    """Time the three loops on one data set."""
    shape = (
        f"{len(items.targets):,}×{items.rows.shape[1] * items.vectors.shape[1]}, {n_labels} classes"
    )
    paper, direct = [], []
    peer, ours = papers_loop(items, n_labels), direct_loop(name, items, n_labels)
    for loop in (peer, ours):
        next(loop)  # warm-up
    for _ in range(few):
        for loop, times in ((peer, paper), (ours, direct)):
            time.sleep(0.5)  # threads of the other loop spin for a while
            start = time.perf_counter()
            next(loop)
            times.append(1000 * (time.perf_counter() - start))
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as work:
        rows, facts, _ = optimize(
            spec(name, n_labels, updates, 1e-5), items, n_labels, CPU, Path(work)
        )
    wall = time.perf_counter() - start
    errors = errors_of_windows(
        name, items, n_labels, updates, rows[["isoscore", "silhouette"]].to_numpy()
    )
    paper_ms, direct_ms, window_ms = (
        statistics.median(paper),
        statistics.median(direct),
        1000 * wall / updates,
    )
    print(
        f"{name} {shape}: paper's loop {paper_ms:,.0f}; every step directly {direct_ms:,.0f}, "
        f"ratio {paper_ms / direct_ms:.1f}"
    )
    print(
        f"  windows {window_ms:,.1f} ({updates:,} updates in {wall:,.1f} s), "
        f"ratio {paper_ms / window_ms:.1f}"
    )
    print(
        f"  {facts['windows']} windows, {facts['evaluations']} evaluations, "
        f"{facts['walked_again']} walked again"
    )
    print(
        f"  certified error {facts['error_bound']:.1e}; at every 10th step IsoScore "
        f"{errors[0]:.1e}, silhouette {errors[1]:.1e}"
    )


def spec(name: str, n_labels: int, updates: int, tolerance: float | None) -> OptimizeSpec:
    """Return a spec with the paper's hyperparameters."""
    return OptimizeSpec(
        paper="mickus2024",
        setup=name,
        group="section3",
        base=name,
        variant=None,
        dataset=name,
        embedding="",
        loss="cross_entropy",
        bias=n_labels > 2,
        mean_norm=None,
        seed=0,
        updates=updates,
        learning_rate=0.001,
        measure=Evaluation(tolerance=tolerance, sample_size=None),
        device="cpu",
    )


def papers_loop(items: Items, n_labels: int):  # type: ignore[no-untyped-def]
    """Generate the scores after each update, by the libraries that the paper names."""
    embeddings = torch.nn.Parameter(torch.from_numpy(items.vectors.copy()))
    linear = torch.nn.Linear(
        items.rows.shape[1] * items.vectors.shape[1], n_labels, bias=n_labels > 2
    )
    adam = torch.optim.Adam([embeddings, *linear.parameters()])
    goal, rows = torch.from_numpy(items.targets), torch.from_numpy(items.rows.T.copy())
    single = items.rows.shape[1] == 1
    while True:
        points = embeddings if single else torch.cat([embeddings[r] for r in rows], dim=1)
        loss = torch.nn.functional.cross_entropy(linear(points), goal)
        adam.zero_grad()
        loss.backward()
        adam.step()
        with torch.no_grad():
            points = embeddings if single else torch.cat([embeddings[r] for r in rows], dim=1)
        score = float(published_package.IsoScore(embeddings.detach().numpy()))
        yield score, silhouette_score(points.detach().numpy(), items.targets)


def direct_loop(name: str, items: Items, n_labels: int):  # type: ignore[no-untyped-def]
    """Generate the scores after each update, by our direct evaluation."""
    descent, evaluator = (
        Descent(spec(name, n_labels, 1, None), items, n_labels, CPU),
        Evaluator(items.targets, None, 0),
    )
    while True:
        descent.update()
        yield evaluator.scores(descent.model, descent.step)


def errors_of_windows(
    name: str, items: Items, n_labels: int, updates: int, windowed: np.ndarray
) -> np.ndarray:
    """Return the largest difference of each score to direct evaluation, at every 10th step of the
    trajectory.
    """
    descent, evaluator = (
        Descent(spec(name, n_labels, 1, None), items, n_labels, CPU),
        Evaluator(items.targets, None, 0),
    )
    worst = np.zeros(2)
    for step in range(updates + 1):
        if step % 10 == 0:
            worst = np.maximum(
                worst, np.abs(np.array(evaluator.scores(descent.model, step)) - windowed[step])
            )
        descent.evaluate()
        descent.update()
    return worst


def update_alone(n_pairs: int, d: int = 384) -> None:
    """Time updates without scores, on random pairs: by default as many as a quarter of MNLI."""
    n_texts = round(n_pairs * 129_803 / 98_175)
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((n_texts, d)).astype(np.float32) / 20
    items = Items(vectors, rng.integers(0, n_texts, (n_pairs, 2)), rng.integers(0, 3, n_pairs))
    embeddings, linear = (
        torch.nn.Parameter(torch.from_numpy(vectors.copy())),
        torch.nn.Linear(2 * d, 3),
    )
    adam = torch.optim.Adam([embeddings, *linear.parameters()])
    rows, goal = torch.from_numpy(items.rows.T.copy()), torch.from_numpy(items.targets)

    def peer() -> None:
        loss = torch.nn.functional.cross_entropy(
            linear(torch.cat([embeddings[r] for r in rows], dim=1)), goal
        )
        adam.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        adam.step()

    descent = Descent(spec("mnli/4", 3, 1, None), items, 3, CPU)
    taken: dict[str, list[float]] = {"peer": [], "ours": []}
    for _ in range(6):
        for key, function in (("peer", peer), ("ours", descent.update)):
            start = time.perf_counter()
            function()
            taken[key].append(1000 * (time.perf_counter() - start))
    peer_ms, our_ms = (statistics.median(taken[key][1:]) for key in ("peer", "ours"))
    size = f"{n_pairs:,} pairs of {n_texts:,} texts, {2 * d}"
    print(
        f"update alone, {size}: as above {peer_ms:,.0f}; ours {our_ms:,.0f}, "
        f"ratio {peer_ms / our_ms:.1f}"
    )


if __name__ == "__main__":
    main()
