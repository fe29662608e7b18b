"""Time and peak memory of `isotropy measure` on a file larger than a laptop's memory, compared with
other libraries.

    python benchmarks/measure.py [--rows 1000000] [--dimensions 768] [--folder DIR]

Peers: IsoScore by NumPy's covariance of the whole array in memory; scikit-learn's cosines of all
pairs and its silhouette, and scikit-dimension's estimates, on the rows that we sample for pairwise
metrics.
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

from isotropy.measurement.scores import MAX_ROWS_OF_PAIRS, NEIGHBOURS
from isotropy.metrics.validation import sample_rows

CLASSES = 10


def write(path: Path, n: int, d: int) -> None:
    """Write correlated vectors with a mean, in blocks."""
    draws = np.random.default_rng(0)
    mixing = draws.standard_normal((d, d)) / np.sqrt(d) * np.linspace(0.2, 2, d)
    array = np.lib.format.open_memmap(path, "w+", np.float32, (n, d))
    for first in range(0, n, 10_000):
        rows = draws.standard_normal((min(10_000, n - first), d)) @ mixing + 0.5
        array[first : first + len(rows)] = rows
    array.flush()


COMMAND = """
import sys
from replication.cli import app
app(sys.argv[1:], standalone_mode=False)
print(*(line for line in open("/proc/self/status") if line.startswith("VmHWM")), file=sys.stderr)
"""
"""Program that runs the command and prints its peak memory, including mapped files."""


def ours(path: Path, *arguments: str) -> tuple[float, float, dict[str, float]]:
    """Run the command in a new process; return seconds, gigabytes and the measured row."""
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
    """Compute IsoScore by its definition with NumPy."""
    covariance = np.cov(X.T)
    share = np.trace(covariance) ** 2 / (covariance**2).sum()
    return float((share - 1) / (len(covariance) - 1))


def mean_of_pairs(X: np.ndarray) -> float:
    """Compute the mean cosine from the matrix of all pairs."""
    n = len(X)
    return float((cosine_similarity(X).sum(dtype=np.float64) - n) / (n * (n - 1)))


def main() -> None:
    """Time each metric and all together, and print a line for each."""
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
        sample = np.array(X[chosen])
        label_option = ("--labels", str(labels_file))
        startup = ours(_tiny(Path(folder)), "--metrics", "isoscore")[0]
        print(f"startup of the command: {startup:.1f} s, not included in ratios")
        peers: dict[str, tuple[str, Callable[[], float]]] = {
            "isoscore": (f"NumPy, {n:,} rows in memory", lambda: covariance_isoscore(X)),
            "mean_cosine": (f"scikit-learn, {len(sample):,} rows", lambda: mean_of_pairs(sample)),
            "two_nn": (
                f"scikit-dimension, {len(sample):,} rows",
                lambda: float(skdim.id.TwoNN().fit(sample).dimension_),
            ),
            "lid_mle": (
                f"scikit-dimension, {len(sample):,} rows",
                lambda: float(skdim.id.MLE(K=NEIGHBOURS).fit(sample).dimension_),
            ),
            "silhouette": (
                f"scikit-learn, {len(sample):,} rows",
                lambda: float(silhouette_score(sample, labels[chosen])),
            ),
        }
        print("metric       ours (s)  memory (GB)  value     peer (s)  value     ratio  peer")
        for metric, (name, peer) in peers.items():
            seconds, memory, row = ours(path, "--metrics", metric, *label_option)
            began = time.perf_counter()
            value = peer()
            peer_time = time.perf_counter() - began
            print(
                f"{metric:12} {seconds:8.1f} {memory:12.2f}  {row[metric]:<9.4g} {peer_time:8.1f}  "
                f"{value:<9.4g} {peer_time / (seconds - startup):5.1f}  {name}",
                flush=True,
            )
        seconds, memory, _ = ours(path, *label_option)
        print(f"all metrics: {seconds:.1f} s, at most {memory:.2f} GB of {X.nbytes / 1e9:.1f} GB")


def _tiny(folder: Path) -> Path:
    """Write a file so small that measuring it takes no time."""
    np.save(folder / "tiny.npy", np.random.default_rng(0).standard_normal((100, 8)))
    return folder / "tiny.npy"


if __name__ == "__main__":
    main()
