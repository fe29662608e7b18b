"""`isotropy measure` on a file that does not fit a laptop's memory: time and largest memory, and
peers on what they can do, in one run.

    python benchmarks/measure.py [--rows 1000000] [--dimensions 768] [--folder DIR]

Peers: IsoScore by NumPy's covariance of the whole array in memory; scikit-learn's cosines of all
pairs and its silhouette, and scikit-dimension's estimates, on the rows that ours see for pairs.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import skdim
from sklearn.metrics import silhouette_score
from sklearn.metrics.pairwise import cosine_similarity

from isotropy.measure.scores import MAX_ROWS_OF_PAIRS, NEIGHBOURS
from isotropy.metrics.validation import sample_rows

CLASSES = 10


def write(path: Path, n: int, d: int) -> None:
    """Correlated vectors away from the origin, in blocks."""
    draws = np.random.default_rng(0)
    mixing = draws.standard_normal((d, d)) / np.sqrt(d) * np.linspace(0.2, 2, d)
    array = np.lib.format.open_memmap(path, "w+", np.float32, (n, d))
    for first in range(0, n, 10_000):
        rows = draws.standard_normal((min(10_000, n - first), d)) @ mixing + 0.5
        array[first : first + len(rows)] = rows
    array.flush()


COMMAND = """
import sys
from isotropy.cli import app
app(sys.argv[1:], standalone_mode=False)
print(*(line for line in open("/proc/self/status") if line.startswith("VmHWM")), file=sys.stderr)
"""
"""The command, and the largest memory of its process: what is mapped counts."""


def ours(path: Path, *arguments: str) -> tuple[float, float, dict[str, float]]:
    """Seconds, gigabytes and the row, of a process of its own."""
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, "measure", path, "--json", *arguments],
        capture_output=True,
        text=True,
        check=True,
    )
    seconds = time.perf_counter() - began
    memory = int(done.stderr.split("VmHWM:")[1].split()[0]) * 1024 / 1e9
    return seconds, memory, json.loads(done.stdout)["rows"][0]


def covariance_isoscore(X: np.ndarray) -> float:
    """The definition, by NumPy."""
    covariance = np.cov(X.T)
    share = np.trace(covariance) ** 2 / (covariance**2).sum()
    return float((share - 1) / (len(covariance) - 1))


def mean_of_pairs(X: np.ndarray) -> float:
    """Mean cosine, from the matrix of all pairs."""
    n = len(X)
    return float((cosine_similarity(X).sum(dtype=np.float64) - n) / (n * (n - 1)))


def main() -> None:
    """Print a line per metric, then the whole command."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--dimensions", type=int, default=768)
    parser.add_argument("--folder", type=Path, default=None)
    options = parser.parse_args()
    n, d = options.rows, options.dimensions
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path, labels_file = Path(folder) / "x.npy", Path(folder) / "labels.txt"
        write(path, n, d)
        labels = np.arange(n) % CLASSES
        labels_file.write_text("\n".join(map(str, labels)))
        X = np.load(path, mmap_mode="r")
        chosen = sample_rows(n, MAX_ROWS_OF_PAIRS, 0).numpy()
        few = np.array(X[chosen])
        known = ("--labels", str(labels_file))
        start = ours(_tiny(Path(folder)), "--metrics", "isoscore")[0]
        print(f"start of the command: {start:.1f} s, left out of the ratios")
        peers: dict[str, tuple[str, Callable[[], float]]] = {
            "isoscore": (f"NumPy, {n:,} rows in memory", lambda: covariance_isoscore(X)),
            "mean_cosine": (f"scikit-learn, {len(few):,} rows", lambda: mean_of_pairs(few)),
            "two_nn": (
                f"scikit-dimension, {len(few):,} rows",
                lambda: float(skdim.id.TwoNN().fit(few).dimension_),
            ),
            "lid_mle": (
                f"scikit-dimension, {len(few):,} rows",
                lambda: float(skdim.id.MLE(K=NEIGHBOURS).fit(few).dimension_),
            ),
            "silhouette": (
                f"scikit-learn, {len(few):,} rows",
                lambda: float(silhouette_score(few, labels[chosen])),
            ),
        }
        print("metric       ours (s)  memory (GB)  value     peer (s)  value     ratio  peer")
        for metric, (name, peer) in peers.items():
            seconds, memory, row = ours(path, "--metrics", metric, *known)
            began = time.perf_counter()
            value = peer()
            other = time.perf_counter() - began
            print(
                f"{metric:12} {seconds:8.1f} {memory:12.2f}  {row[metric]:<9.4g} {other:8.1f}  "
                f"{value:<9.4g} {other / (seconds - start):5.1f}  {name}",
                flush=True,
            )
        seconds, memory, _ = ours(path, *known)
        print(f"all metrics: {seconds:.1f} s, at most {memory:.2f} GB of {X.nbytes / 1e9:.1f} GB")


def _tiny(folder: Path) -> Path:
    """A file that takes no time."""
    np.save(folder / "tiny.npy", np.random.default_rng(0).standard_normal((100, 8)))
    return folder / "tiny.npy"


if __name__ == "__main__":
    main()
