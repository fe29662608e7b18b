"""Matrix products on the fastest library that the machine has for them, and worker threads that
share the cores.

Which library is chosen depends on the processor alone, not on a timing: the same machine gives the
same bytes every time.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, wraps
from pathlib import Path
from threading import RLock
from typing import Any, TypeVar, cast

import numpy as np
import torch
from threadpoolctl import ThreadpoolController

# Float32 products are summed over at most this many rows before they join a float64 total.
ROWS_PER_BLOCK = 4096
PANELS, MIN_PANEL = 4, 64  # of a symmetric product: 10 of 16 blocks are computed
ORDERED_THREADS = 2  # a sum of two is the same in either order

F = TypeVar("F", bound=Callable[..., Any])


def scatter(X: torch.Tensor, mean: torch.Tensor | None = None) -> torch.Tensor:
    """X'X in float64, shape (d, d), from products in the dtype of X, shape (n, d). Not
    differentiable.

    Args:
        X: points.
        mean: shape (d,), subtracted from the points before.
    """
    X, (n, d) = X.detach(), X.shape
    total = torch.zeros(d, d, dtype=torch.float64, device=X.device)
    if not _goes_to_onednn(X):
        for block in torch.split(X, ROWS_PER_BLOCK):
            total += gram((block if mean is None else block - mean).T)
        return total
    # One buffer: to write to fresh memory for each block would take as long as the products.
    buffer = X.new_empty(d * min(n, ROWS_PER_BLOCK))
    for block in torch.split(X, ROWS_PER_BLOCK):
        columns = buffer[: block.numel()].view(d, len(block)).copy_(block.T)
        total += gram(columns if mean is None else columns.sub_(mean[:, None]))
    return total


def gram(X: torch.Tensor) -> torch.Tensor:
    """XX' in float64, shape (n, n), from products in the dtype of X, shape (n, d). Not
    differentiable.

    Of its panels of rows, only what lies on and above the diagonal is computed; the rest is
    mirrored.
    """
    X, n = X.detach(), len(X)
    if _goes_to_onednn(X):
        X = X.contiguous()  # transposed input is copied once, not for each product
    if n < PANELS * MIN_PANEL:
        return product(X, X).double()
    total = torch.empty(n, n, dtype=torch.float64, device=X.device)
    panel = -(-n // PANELS)
    for i in range(0, n, panel):
        total[i : i + panel, i:] = product(X[i : i + panel], X[i:])
        total[i + panel :, i : i + panel] = total[i : i + panel, i + panel :].T
    return total


def product(x: torch.Tensor, y: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
    """x y' for shapes (m, d) and (k, d); the result, shape (m, k), lies in `out` if that is
    given.
    """
    if _goes_to_onednn(x):
        # With strides oneDNN falls back to a loop that is a thousand times slower.
        result: torch.Tensor = torch.ops.mkldnn._linear_pointwise(
            x.contiguous(), y.contiguous(), None, "none", [], ""
        )
        return result if out is None else out.copy_(result)
    return torch.mm(x, y.T) if out is None else torch.mm(x, y.T, out=out)


def _goes_to_onednn(x: torch.Tensor) -> bool:
    # Nothing is lowered from oneDNN's operator where torch.compile writes the code itself.
    here = x.is_cpu and x.dtype == torch.float32 and not torch.compiler.is_compiling()
    return here and onednn_is_faster()


@cache
def onednn_is_faster() -> bool:
    """Whether float32 products should go to oneDNN: on AMD processors with AVX-512, where torch.mm
    stops at AVX2.
    """
    backends: Any = torch.backends  # some of torch's releases have types here, some have none
    if backends.cpu.get_cpu_capability() != "AVX512" or not backends.mkldnn.is_available():
        return False
    info = Path("/proc/cpuinfo")
    vendor = info.read_text("utf8", errors="replace") if info.is_file() else platform.processor()
    return "AuthenticAMD" in vendor and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def rounds(n: int) -> Iterator[list[tuple[int, int]]]:
    """All pairs of n parts, a <= b, in rounds in which each part occurs once: the circle method of
    tournaments.

    Threads that share a round write to different parts, in an order that never changes.
    """
    yield [(a, a) for a in range(n)]
    ring: list[int | None] = [*range(n), None] if n % 2 else [*range(n)]
    for _ in range(len(ring) - 1):
        half = len(ring) // 2
        met = zip(ring[:half], reversed(ring[half:]), strict=True)
        yield [(min(a, b), max(a, b)) for a, b in met if a is not None and b is not None]
        ring = [ring[0], ring[-1], *ring[1:-1]]


def full_precision(function: F) -> F:
    """Compute in the precision of the input whatever is set outside: no autocast, no TF32 or
    bfloat16 in its products.
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
    """Products of float32 as such, on GPUs and on CPUs; then as they were set, by whichever of
    torch's ways.
    """
    backends: Any = torch.backends
    of, name, exact = [backends.cuda.matmul], "allow_tf32", cast(Any, False)
    if hasattr(backends.cuda.matmul, "fp32_precision"):  # torch 2.9 and later
        of, name, exact = [backends.cuda.matmul, backends.mkldnn.matmul], "fp32_precision", "ieee"
    before = [getattr(backend, name) for backend in of]
    try:
        for backend in of:
            setattr(backend, name, exact)
        yield
    finally:
        for backend, value in zip(of, before, strict=True):
            setattr(backend, name, value)


def visit_pairs(pool: Executor, n: int, visit: Callable[[tuple[int, int]], None]) -> None:
    """Call `visit` for all pairs of n parts in a pool, round by round."""
    for pairs in rounds(n):
        list(pool.map(visit, pairs))


@contextmanager
def worker_threads(n: int | None = None) -> Iterator[Executor]:
    """A pool of `n` threads (default: torch's number), each of which computes with one.

    With one thread, tasks run at once in the caller, and an interrupt stops them.
    """
    threads = torch.get_num_threads()
    n = threads if n is None else n
    torch.set_num_threads(1)  # in the caller, and the default of new threads
    try:
        if n == 1:
            yield _AtOnce()
            return
        # The setting is a thread's own; without it each would start as many compute threads as
        # there are cores.
        with ThreadPoolExecutor(n, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            yield pool
    finally:
        torch.set_num_threads(threads)


@contextmanager
def ordered_threads() -> Iterator[None]:
    """A context in which OpenMP has two threads at most, for scikit-learn's k-means.

    It adds up the sums of its threads in the order in which they end: three would give other last
    digits from run to run.
    """
    with _LIMITING:
        libraries = _libraries()
        found = [p["num_threads"] for p in libraries.info() if p["user_api"] == "openmp"]
        if max(found, default=1) <= ORDERED_THREADS:
            yield
            return
        with libraries.limit(limits=ORDERED_THREADS, user_api="openmp"):
            yield


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """A context in which BLAS has one thread, for work in a pool of threads."""
    with _LIMITING, _libraries().limit(limits=1, user_api="blas"):
        yield


_LIMITING = RLock()
"""Limits hold for the whole process, and one that ends brings all libraries back to what they had
before: of two that overlap, the one that ends last would bring back the other's. Work in a pool
must not ask for one while its caller holds this lock."""


@cache
def _libraries() -> ThreadpoolController:
    """The libraries with threads that are loaded, looked for once: that takes milliseconds."""
    return ThreadpoolController()


class _AtOnce(Executor):
    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


def oriented(rows: np.ndarray) -> np.ndarray:
    """Directions as rows, each turned so that its entry of largest size is positive: solvers leave
    the sign open.
    """
    largest = np.take_along_axis(rows, np.abs(rows).argmax(axis=1)[:, None], axis=1)
    signed: np.ndarray = np.where(largest < 0, -rows, rows)
    return signed
