"""Matrix products whose totals are in float64, and worker threads that share the cores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, wraps
from threading import RLock
from typing import Any, TypeVar, cast

import numpy as np
import torch
from threadpoolctl import ThreadpoolController

# Float32 products are summed over at most this many rows before they join a float64 total.
ROWS_PER_BLOCK = 4096
MAX_BATCHED_BLOCKS = 64  # blocks whose products are in a GPU's memory at a time
PANELS, MIN_PANEL = 4, 64  # panels of a symmetric product: 10 of 16 blocks are computed
MAX_OPENMP_THREADS = 2  # a sum of two is the same in either order

F = TypeVar("F", bound=Callable[..., Any])


def scatter(X: torch.Tensor, mean: torch.Tensor | None = None) -> torch.Tensor:
    """X'X in float64, shape (d, d), from products in the dtype of X, shape (n, d). Not
    differentiable.

    Args:
        X: points.
        mean: vector, shape (d,), that is first subtracted from the points.
    """
    X, d = X.detach(), X.shape[1]
    if not X.is_cpu:
        return _scatter_by_batched_products(X if mean is None else X - mean)
    total = torch.zeros(d, d, dtype=torch.float64, device=X.device)
    for block in torch.split(X, ROWS_PER_BLOCK):
        total += gram((block if mean is None else block - mean).T)
    return total


def _scatter_by_batched_products(X: torch.Tensor) -> torch.Tensor:
    """Compute `scatter` with few launches, for GPUs: the products of all blocks in one call."""
    total = torch.zeros(X.shape[1], X.shape[1], dtype=torch.float64, device=X.device)
    n_full = len(X) // ROWS_PER_BLOCK * ROWS_PER_BLOCK
    for blocks in torch.split(X[:n_full].view(-1, ROWS_PER_BLOCK, X.shape[1]), MAX_BATCHED_BLOCKS):
        total += torch.bmm(blocks.mT, blocks).sum(dim=0, dtype=torch.float64)
    rest = X[n_full:]
    return total + rest.T @ rest if len(rest) else total


def gram(X: torch.Tensor) -> torch.Tensor:
    """XX' in float64, shape (n, n), from products in the dtype of X, shape (n, d). Not
    differentiable.

    It is computed in panels of rows, on and above the diagonal only; the rest is mirrored.
    """
    X, n = X.detach(), len(X)
    if n < PANELS * MIN_PANEL or not X.is_cpu:  # on a GPU launches cost more than symmetry saves
        return product(X, X).double()
    total = torch.empty(n, n, dtype=torch.float64, device=X.device)
    panel = -(-n // PANELS)
    for i in range(0, n, panel):
        total[i : i + panel, i:] = product(X[i : i + panel], X[i:])
        total[i + panel :, i : i + panel] = total[i : i + panel, i + panel :].T
    return total


def product(x: torch.Tensor, y: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
    """Return x y' for shapes (m, d) and (k, d), shape (m, k); it is written to `out` if that is
    given.
    """
    return torch.mm(x, y.T) if out is None else torch.mm(x, y.T, out=out)


def round_robin(n: int) -> Iterator[list[tuple[int, int]]]:
    """Yield all pairs of n parts, a <= b, grouped so that each part occurs once per group: the
    circle method of round-robin tournaments.

    Threads that work on one group write to different parts; the order of groups is fixed.
    """
    yield [(a, a) for a in range(n)]
    ring: list[int | None] = [*range(n), None] if n % 2 else [*range(n)]
    for _ in range(len(ring) - 1):
        half = len(ring) // 2
        pairs = zip(ring[:half], reversed(ring[half:]), strict=True)
        yield [(min(a, b), max(a, b)) for a, b in pairs if a is not None and b is not None]
        ring = [ring[0], ring[-1], *ring[1:-1]]


def full_precision(function: F) -> F:
    """Decorate a function to compute in the precision of its input, regardless of torch's settings:
    no autocast, no TF32 or bfloat16 in matrix products.
    """

    @wraps(function)
    def exact(*args: Any, **kwargs: Any) -> Any:
        with (
            _exact_products(),
            torch.autocast("cpu", enabled=False),
            torch.autocast("cuda", enabled=False),
        ):
            return function(*args, **kwargs)

    return exact  # type: ignore[return-value]


@contextmanager
def _exact_products() -> Iterator[None]:
    """Compute float32 products in full precision, on GPUs and CPUs, and restore torch's settings
    afterwards.
    """
    backends: Any = torch.backends
    owners, setting, full = [backends.cuda.matmul], "allow_tf32", cast(Any, False)
    if hasattr(backends.cuda.matmul, "fp32_precision"):  # torch 2.9 and later
        owners, setting, full = (
            [backends.cuda.matmul, backends.mkldnn.matmul],
            "fp32_precision",
            "ieee",
        )
    previous = [getattr(backend, setting) for backend in owners]
    try:
        for backend in owners:
            setattr(backend, setting, full)
        yield
    finally:
        for backend, value in zip(owners, previous, strict=True):
            setattr(backend, setting, value)


def visit_pairs(pool: Executor, n: int, visit: Callable[[tuple[int, int]], None]) -> None:
    """Call `visit` for all pairs of n parts in a pool, round by round."""
    for pairs in round_robin(n):
        list(pool.map(visit, pairs))


@contextmanager
def worker_threads(n: int | None = None) -> Iterator[Executor]:
    """Yield a pool of `n` threads (default: torch's number of threads), each of which limits torch
    to one.

    If n is 1, tasks run in the calling thread when they are submitted, so that an interrupt stops
    them.
    """
    threads = torch.get_num_threads()
    n = threads if n is None else n
    torch.set_num_threads(1)  # for the caller, and the default for new threads
    try:
        if n == 1:
            yield _ImmediateExecutor()
            return
        # The setting is per thread: without it each worker would start as many compute threads as
        # there are cores.
        with ThreadPoolExecutor(n, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            yield pool
    finally:
        torch.set_num_threads(threads)


@contextmanager
def two_openmp_threads() -> Iterator[None]:
    """Limit OpenMP to two threads in a context, for scikit-learn's k-means.

    K-means adds up the sums of its threads in the order in which they finish: with three threads,
    the last digits would vary from run to run.
    """
    with _THREAD_LIMIT_LOCK:
        libraries = _thread_libraries()
        thread_counts = [p["num_threads"] for p in libraries.info() if p["user_api"] == "openmp"]
        if max(thread_counts, default=1) <= MAX_OPENMP_THREADS:
            yield
            return
        with libraries.limit(limits=MAX_OPENMP_THREADS, user_api="openmp"):
            yield


@contextmanager
def single_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread in a context, for work in a pool of threads."""
    with _THREAD_LIMIT_LOCK, _thread_libraries().limit(limits=1, user_api="blas"):
        yield


_THREAD_LIMIT_LOCK = RLock()
"""Held while the number of threads is limited. A limit holds for the whole process, and at its end
the previous number is restored: of two overlapping limits, the one that ends last would restore the
limit of the other. Tasks in a pool must not set a limit while their caller holds this lock."""


@cache
def _thread_libraries() -> ThreadpoolController:
    """Return the loaded libraries that use threads, cached: a search takes milliseconds."""
    return ThreadpoolController()


class _ImmediateExecutor(Executor):
    """An executor that runs each task in the calling thread when it is submitted."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


def with_fixed_signs(rows: np.ndarray) -> np.ndarray:
    """Fix the sign of directions, given as rows, which solvers leave open: the entry of largest
    magnitude becomes positive.
    """
    largest = np.take_along_axis(rows, np.abs(rows).argmax(axis=1)[:, None], axis=1)
    signed: np.ndarray = np.where(largest < 0, -rows, rows)
    return signed
