"""Check that results do not depend on the memory address of inputs.

Calls each public function of metrics, transforms and losses on copies of the same cloud at several
offsets from a cache line, as arrays and tensors, in both precisions, with one and two threads, and
with random allocations in between: many times in one process, and in new processes at random
offsets. Each new process also makes a trajectory, a fine-tuned model and the measurement of a
layer. Prints the number of distinct values of each function, which should be 1.
"""

from __future__ import annotations

import argparse
import hashlib
import inspect
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from threadpoolctl import threadpool_limits

from isotropy import losses, metrics, transforms

SHAPES = ((50, 4), (61, 7), (120, 33), (500, 100))
SMALL = ((61, 7),)
DTYPES = ("float32", "float64")
KINDS = ("array", "tensor")
THREADS = (1, 2)
LINE = 64  # bytes of a cache line; offsets are counted from its start
NOISE = 40  # number of memory blocks held between calls
HINGED = 30  # number of points for the objective with cost n^3
STAGES = ("trajectory", "fine-tuned model", "measurement of a layer")

Digests = dict[str, dict[str, set[str]]]  # function name -> group -> distinct digests


class Input(NamedTuple):
    """Inputs of the functions; arrays of numbers have the same offset from a cache line."""

    X: Any
    covariance: Any
    sums: Any
    labels: np.ndarray
    types: np.ndarray
    of_kind: str

    @property
    def clusters(self) -> np.ndarray:
        """Return another labeling."""
        return self.types % 2

    @property
    def d(self) -> int:
        """Return the number of dimensions."""
        return int(self.X.shape[1])


def copy_at_offset(values: np.ndarray, offset: int, kind: str) -> Any:
    """Copy an array to an address `offset` bytes after a multiple of LINE."""
    if kind == "array":
        raw = np.empty(values.nbytes + LINE + offset, dtype=np.uint8)
        start = -raw.ctypes.data % LINE + offset
        copy = raw[start : start + values.nbytes].view(values.dtype).reshape(values.shape)
        copy[...] = values
        return copy
    memory = torch.empty(values.nbytes + LINE + offset, dtype=torch.uint8)
    start = -memory.data_ptr() % LINE + offset
    source = torch.from_numpy(values)
    tensor = memory[start : start + values.nbytes].view(source.dtype).view(values.shape)
    return tensor.copy_(source)


def make_input(n: int, d: int, dtype: str, offset: int, kind: str) -> Input:
    """Make a cloud of five groups with the same numbers for every offset and kind."""
    draws = np.random.default_rng([n, d])
    groups = np.arange(n) % 5
    X = draws.standard_normal((n, d)) + 2 * draws.standard_normal((5, d))[groups] + 0.5
    X = X.astype(dtype)
    covariance = np.cov(draws.standard_normal((3 * d, d)).T).astype(dtype)
    sums = np.abs(draws.standard_normal((n, 5))).astype(dtype)
    arrays = (copy_at_offset(values, offset, kind) for values in (X, covariance, sums))
    return Input(*arrays, groups, np.arange(n) % 7, kind)


def _isoscore_star(i: Input, covariance: Any) -> Any:
    """Compute IsoScore* and, for a tensor, its gradient."""
    if i.of_kind == "array":
        return metrics.isoscore_star(i.X, 0.3, covariance)
    i.X.requires_grad_()
    score = metrics.isoscore_star(i.X, 0.3, covariance)
    score.backward()
    return score, i.X.grad


def _streamed(stream: Any, i: Input) -> Any:
    for part in (i.X[: len(i.X) // 3], i.X[len(i.X) // 3 :]):
        stream.update(part)
    if hasattr(stream, "compute_unbiased"):
        return stream.compute_unbiased(stream.effects(i.X)[1])
    return stream.covariance() if hasattr(stream, "covariance") else stream.compute()


def _partition(i: Input) -> metrics.StreamingPartition:
    moments = metrics.StreamingCovariance(i.X.shape[1])
    moments.update(i.X)
    return metrics.StreamingPartition(moments.scatter, signs="both")


def _loss(loss: Any, i: Input) -> Any:
    states = torch.as_tensor(i.X).detach().requires_grad_()
    mask = torch.ones(1, len(states))
    mask[0, ::9] = 0
    if isinstance(loss, losses.IStarLoss):
        loss.update_shrinkage([states[None]] * 2, mask)
    penalty = loss([states[None]] * 2, mask)
    penalty.backward()
    return penalty, states.grad


def _enhanced(i: Input) -> Any:
    kinds = ("kmeans", "gmm")
    estimators = [transforms.ClusterBasedEnhancement(3, 1, clusterer=kind) for kind in kinds]
    return [(t.fit_transform(_array(i)), t.labels_) for t in estimators]


def _array(i: Input) -> np.ndarray:
    return np.asarray(i.X)


CASES: dict[str, Callable[[Input], Any]] = {
    "ShrinkageCovariance": lambda i: _isoscore_star(i, metrics.ShrinkageCovariance(i.covariance)),
    "StreamingCovariance": lambda i: _streamed(metrics.StreamingCovariance(i.d), i),
    "StreamingIsoScore": lambda i: _streamed(metrics.StreamingIsoScore(i.d), i),
    "StreamingUnbiasedIsoScore": lambda i: _streamed(metrics.StreamingUnbiasedIsoScore(i.d), i),
    "StreamingMeanCosine": lambda i: _streamed(metrics.StreamingMeanCosine(i.d), i),
    "cluster_count": lambda i: metrics.cluster_count(i.X, k_range=range(2, 5)),
    "cosine_to_ones": lambda i: metrics.cosine_to_ones(i.X),
    "cosine_between": lambda i: metrics.cosine_between(i.X, i.types),
    "cosine_contributions": lambda i: metrics.cosine_contributions(i.X),
    "distance_sums": lambda i: metrics.distance_sums(i.X, i.labels),
    "explainable_variance": lambda i: metrics.explainable_variance(i.X, i.types),
    "first_components": lambda i: metrics.first_components(i.X, i.types),
    "hinged_triplet_objective": lambda i: metrics.hinged_triplet_objective(
        i.X[:HINGED], i.labels[:HINGED]
    ),
    "intra_sentence_null": lambda i: metrics.intra_sentence_null(
        np.unique(np.asarray(i.types), return_counts=True)[1], 0.3
    ),
    "intra_sentence_similarity": lambda i: metrics.intra_sentence_similarity(i.X, i.types),
    "isoscore": lambda i: metrics.isoscore(i.X),
    "isoscore_standard_error": lambda i: metrics.isoscore_standard_error(i.X),
    "isoscore_unbiased": lambda i: metrics.isoscore_unbiased(i.X),
    "isoscore_unbiased_standard_error": lambda i: metrics.isoscore_unbiased_standard_error(i.X),
    "isoscore_from_covariance": lambda i: metrics.isoscore_from_covariance(i.covariance),
    "isoscore_star": lambda i: _isoscore_star(i, i.covariance),
    "isotropy_defect": lambda i: metrics.isotropy_defect(i.X),
    "lid_mle": lambda i: metrics.lid_mle(i.X, 10, n_queries=30),
    "lid_mle_estimates": lambda i: metrics.lid_mle_estimates(i.X, 10, metric="cosine"),
    "lid_mle_samples": lambda i: metrics.lid_mle_samples(i.X, 10),
    "mean_cosine": lambda i: metrics.mean_cosine(i.X),
    "mean_cosine_standard_error": lambda i: metrics.mean_cosine_standard_error(i.X),
    "StreamingPartition": lambda i: _streamed(_partition(i), i),
    "partition_isotropy": lambda i: metrics.partition_isotropy(i.X, signs="both", log=True),
    "self_similarity": lambda i: metrics.self_similarity(i.X, i.types),
    "s_inter": lambda i: metrics.s_inter(i.X, i.types),
    "s_intra": lambda i: metrics.s_intra(i.X, i.types),
    "silhouette": lambda i: metrics.silhouette(i.X, i.labels, sample_size=len(i.X) - 3),
    "silhouette_from_sums": lambda i: metrics.silhouette_from_sums(
        torch.as_tensor(i.sums), i.labels
    ),
    "silhouette_objective": lambda i: metrics.silhouette_objective(i.X, i.labels),
    "silhouette_of_labelings": lambda i: metrics.silhouette_of_labelings(i.X, [i.labels, i.types]),
    "silhouette_samples": lambda i: metrics.silhouette_samples(i.X, i.labels),
    "triplet_objective": lambda i: metrics.triplet_objective(i.X, i.labels),
    "two_nn": lambda i: metrics.two_nn(i.X),
    "type_cosines": lambda i: [
        metrics.type_cosines(i.X, i.types),
        metrics.type_cosines(i.X, i.types, i.clusters),
    ],
    "variance_by_pairs": lambda i: metrics.variance_by_pairs(i.X),
    "Center": lambda i: transforms.Center().fit_transform(_array(i)),
    "AllButTheTop": lambda i: transforms.AllButTheTop(2).fit_transform(_array(i)),
    "Whitening": lambda i: transforms.Whitening(0.1).fit_transform(_array(i)),
    "ClusterBasedEnhancement": _enhanced,
    "principal_components": lambda i: transforms.principal_components(_array(i), 2),
    "CosRegLoss": lambda i: _loss(losses.CosRegLoss(), i),
    "UnbiasedIsoScoreLoss": lambda i: _loss(losses.UnbiasedIsoScoreLoss(strength=1.0), i),
    "IStarLoss": lambda i: _loss(losses.IStarLoss(i.d, strength=1.0), i),
}


def public() -> list[str]:
    """List all public functions and classes, except for types of results."""
    names = [n for n in metrics.__all__ if not _holds_results(getattr(metrics, n))]
    for module in (transforms, losses):
        names += [
            name
            for name, thing in vars(module).items()
            if not name.startswith("_") and getattr(thing, "__module__", None) == module.__name__
        ]
    return names


def _holds_results(thing: Any) -> bool:
    return inspect.isclass(thing) and issubclass(thing, tuple)


def digest(value: Any) -> str:
    """Compute a digest of all bytes of a result."""
    state = hashlib.sha256()
    for part in _parts(value):
        state.update(part)
    return state.hexdigest()[:16]


def _parts(value: Any) -> Iterator[bytes]:
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().numpy()
    if isinstance(value, pd.DataFrame):
        yield value.to_csv().encode()
    elif isinstance(value, np.ndarray):
        yield value.tobytes()
    elif isinstance(value, dict):
        for key, part in value.items():
            yield str(key).encode()
            yield from _parts(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _parts(part)
    else:
        yield repr(value).encode()


class Noise:
    """Holds memory blocks of random size, so that addresses of later allocations vary."""

    def __init__(self, draws: np.random.Generator) -> None:
        self.draws, self.blocks = draws, [b""] * NOISE

    def stir(self) -> None:
        """Replace a block by another, mostly small one."""
        size = int(2 ** self.draws.uniform(4, 18))
        self.blocks[int(self.draws.integers(NOISE))] = self.draws.bytes(size)


def collect_digests(
    names: list[str],
    calls: int,
    offsets: int,
    seed: int,
    shapes: tuple[tuple[int, int], ...] = SHAPES,
    threads: tuple[int, ...] = THREADS,
    *,
    drawn: bool = False,
) -> Digests:
    """Call functions at several memory offsets, and collect the digests of their results.

    Args:
        names: names of the functions.
        calls: number of calls in each group of shape, precision, kind and threads.
        offsets: number of offsets, which are multiples of the size of a number.
        seed: seed of allocations between calls and of random offsets.
        shapes: shapes of the clouds.
        threads: numbers of threads.
        drawn: draw offsets at random; otherwise use them in turn.
    """
    draws = np.random.default_rng(seed)
    noise, digests = Noise(draws), {name: dict[str, set[str]]() for name in names}
    for n_threads in threads:
        with limited_threads(n_threads):
            for name, (n, d), dtype, kind in product(names, shapes, DTYPES, KINDS):
                values = digests[name].setdefault(f"{n} x {d} {dtype} {kind} {n_threads}", set())
                for call in range(calls):
                    noise.stir()
                    offset_index = int(draws.integers(offsets)) if drawn else call % offsets
                    given = make_input(n, d, dtype, offset_index * np.dtype(dtype).itemsize, kind)
                    values.add(digest(CASES[name](given)))
    return digests


@contextmanager
def limited_threads(threads: int) -> Iterator[None]:
    """Limit the threads of torch and all other libraries while the block runs."""
    torch.set_num_threads(threads)
    with threadpool_limits(threads):
        yield


def collect_stage_digests(offsets: int, seed: int) -> Digests:
    """Collect digests of a trajectory, a fine-tuned model and the measurement of a layer."""
    draws = np.random.default_rng([seed, 1])
    noise, digests = Noise(draws), {name: dict[str, set[str]]() for name in STAGES}
    functions = dict(zip(STAGES, (_trajectory, _fine_tuned, _layer), strict=True))
    for (name, function), threads in product(functions.items(), THREADS):
        noise.stir()
        offset = 4 * int(draws.integers(offsets))
        with limited_threads(threads):
            digests[name].setdefault(f"{threads}", set()).add(digest(function(offset)))
    return digests


def _trajectory(offset: int) -> Any:
    from replication.optimize.descent import Items
    from replication.optimize.optimize import optimize

    draws = np.random.default_rng(0)
    vectors = copy_at_offset(draws.standard_normal((80, 24)).astype(np.float32), offset, "array")
    items = Items(vectors, draws.integers(0, 80, (120, 2)), np.arange(120) % 3)
    spec: Any = SimpleNamespace(
        setup="pairs",
        loss="cross_entropy",
        bias=True,
        mean_norm=None,
        seed=3,
        updates=60,
        learning_rate=0.001,
        measure=SimpleNamespace(tolerance=1e-5, sample_size=None),
    )
    with tempfile.TemporaryDirectory() as work:
        rows, facts, _ = optimize(spec, items, 3, torch.device("cpu"), Path(work))
    return rows, {key: str(value) for key, value in facts.items()}


def _fine_tuned(offset: int) -> Any:
    from transformers import BertConfig, BertForSequenceClassification

    from replication.finetune.data import Inputs
    from replication.finetune.train import finetune

    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 3, "intermediate_size": 32}
    config = BertConfig(vocab_size=50, num_attention_heads=2, num_labels=2, **sizes)
    model = BertForSequenceClassification(config)
    for weight in model.parameters():  # at the same offset each time, as if read from a file
        weight.data = copy_at_offset(weight.detach().numpy(), 0, "tensor")
    draws = np.random.default_rng(0)
    ids = [[1, *draws.integers(5, 50, draws.integers(3, 12)).tolist()] for _ in range(21)]
    targets = copy_at_offset(np.array([row[1] % 2 for row in ids]), offset, "array")
    training = SimpleNamespace(
        learning_rate=0.001,
        batch_size=4,
        epochs=2,
        keep_padding=False,
        pad_to_max_length=False,
        compile=False,
        schedule="constant",
        warmup=0.0,
        weight_decay=0.0,
        max_grad_norm=1.0,
        shrinkage_tokens=60,
        precision="float32",
    )
    method = SimpleNamespace(kind="istar", strength=-1.0, zeta=0.3, layers="all")
    spec: Any = SimpleNamespace(run="r", seed=3, training=training, method=method)
    inputs = Inputs("single-label", ids, None, targets, [], [])
    with tempfile.TemporaryDirectory() as work:
        rows, _ = finetune(spec, model, inputs, 0, torch.device("cpu"), Path(work))
    return rows, dict(model.named_parameters())


def _layer(offset: int) -> Any:
    from replication.geometry.layers import measure_layer, pictures, principal_axes
    from replication.geometry.spec import Clustering, Lid
    from replication.geometry.token_types import TypedCloud

    n = 600
    draws = np.random.default_rng(0)
    vectors = 9 * draws.standard_normal((3, 24))[np.arange(n) % 3] + draws.standard_normal((n, 24))
    vectors = copy_at_offset(vectors.astype(np.float32), offset, "array")
    types, names = draws.integers(0, 30, n), np.array([f"t{i}" for i in range(30)])
    cloud = TypedCloud(vectors, types, names, np.arange(n) % 8, np.full(n, "word"))
    clustering = Clustering(
        n_components=None, k_max=5, sample_size=400, threshold=0.1, max_iter=300, n_init=1
    )
    lid = Lid(k=10, n_queries=200, n_equal=300, n_types=100)
    spec: Any = SimpleNamespace(clustering=clustering, lid=lid, n_points=50)
    axes = principal_axes(vectors)
    measured = measure_layer(cloud, axes, spec, 0)
    return axes, measured, pictures(cloud, axes, measured.clusters, spec.n_points)


def merge(into: Digests, other: Digests) -> None:
    """Add the digests of another process to `into`."""
    for name, groups in other.items():
        for group, values in groups.items():
            into.setdefault(name, {}).setdefault(group, set()).update(values)


def in_fresh_process(calls: int, offsets: int, seed: int, *more: str) -> Digests:
    """Collect the digests of all functions and stages in a new process."""
    command = [sys.executable, __file__, "--child", "--seed", str(seed)]
    command += ["--calls", str(calls), "--offsets", str(offsets), *more]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    digests = json.loads(done.stdout.splitlines()[-1])
    return {name: {g: set(v) for g, v in groups.items()} for name, groups in digests.items()}


def table(digests: Digests, calls: int, processes: int) -> str:
    """Format one line per function: calls in one process, new processes, largest number of distinct
    values in a group, and whether one and two threads agree.
    """
    lines = [f"{'function':28} calls  processes  values  1 and 2 threads"]
    for name, groups in digests.items():
        max_values = max(map(len, groups.values()))
        by_threads = [
            sorted(
                (g.removesuffix(str(t)), sorted(v)) for g, v in groups.items() if g[-1] == str(t)
            )
            for t in THREADS
        ]
        agree = "same" if by_threads[0] == by_threads[1] else "differ"
        n_calls = 0 if name in STAGES else calls * len(groups)
        lines.append(f"{name:28} {n_calls:5,} {processes:10} {max_values:7}  {agree}")
    return "\n".join(lines)


def main() -> None:
    """Run, print the table, and exit with 1 if a function has several values."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=1000, help="calls of each function")
    parser.add_argument("--offsets", type=int, default=16)
    parser.add_argument("--processes", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--small", action="store_true", help="one small shape, no stages")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    shapes = SMALL if given.small else SHAPES
    if given.child:
        result = collect_digests(
            list(CASES), given.calls, given.offsets, given.seed, shapes, drawn=True
        )
        if not given.small:
            merge(result, collect_stage_digests(given.offsets, given.seed))
        listed = {n: {g: sorted(v) for g, v in groups.items()} for n, groups in result.items()}
        print(json.dumps(listed))
        return
    calls = -(-given.calls // (len(shapes) * len(DTYPES) * len(KINDS) * len(THREADS)))
    result = {}
    for name in CASES:
        merge(result, collect_digests([name], calls, given.offsets, given.seed, shapes))
        print(f"{name}: {max(map(len, result[name].values()))}", file=sys.stderr)
    more = ("--small",) if given.small else ()
    for process in range(given.processes):
        merge(result, in_fresh_process(1, given.offsets, given.seed + 1 + process, *more))
        print(f"process {process + 1} of {given.processes}", file=sys.stderr)
    print(table(result, calls, given.processes))
    raise SystemExit(any(len(v) > 1 for groups in result.values() for v in groups.values()))


if __name__ == "__main__":
    main()
