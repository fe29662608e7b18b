"""Point clouds that need not fit memory: rows of a file, read in blocks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from isotropy.errors import IsotropyError

BLOCK_BYTES = 2**25
"""Of a block of rows in single precision."""


class PointCloud:
    """Vectors of one layer, or of one array.

    Args:
        input: what they come from, as the user has written it.
        layer: number of a hidden layer, name of an array in a file, or "" for the only one.
        shape: (n, d).
        blocks: gives the rows from first to last, some at a time, shape (m, d), float32 or float64.
        select: gives some rows without reading the others, where the input allows it.
    """

    def __init__(
        self,
        input: str,
        layer: int | str,
        shape: tuple[int, int],
        blocks: Callable[[], Iterator[np.ndarray]],
        select: Callable[[np.ndarray], np.ndarray] | None = None,
    ) -> None:
        self.input, self.layer = input, layer
        self.n, self.d = shape
        self._blocks, self._select = blocks, select

    @property
    def title(self) -> str:
        """What messages call it."""
        return self.input if self.layer == "" else f"{self.input}, {self.layer}"

    def blocks(self) -> Iterator[np.ndarray]:
        """The rows, some at a time.

        Raises:
            IsotropyError: a row with NaN or infinity, by its number.
        """
        first = 0
        for block in self._blocks():
            self._require_finite(block, range(first, first + len(block)))
            yield block
            first += len(block)

    def rows(self, chosen: np.ndarray) -> np.ndarray:
        """Some rows in memory, shape (chosen, d).

        Args:
            chosen: their numbers, ascending.
        """
        if self._select is not None:
            X = self._select(chosen)
            self._require_finite(X, chosen)
            return X
        found, first = [], 0
        for block in self.blocks():
            begin, end = np.searchsorted(chosen, [first, first + len(block)])
            found.append(block[chosen[begin:end] - first])
            first += len(block)
        return np.concatenate(found)

    def _require_finite(self, rows: np.ndarray, numbers: Sequence[int] | np.ndarray) -> None:
        # NaN if any value is; a pass without a copy
        if len(rows) and not (np.isfinite(rows.min()) and np.isfinite(rows.max())):
            row = int(numbers[int((~np.isfinite(rows)).any(axis=1).argmax())]) + 1
            raise IsotropyError(
                f"{self.title}: row {row} holds NaN or infinity: leave such rows out first"
            )


def of_array(input: str, layer: int | str, array: np.ndarray) -> PointCloud:
    """A cloud of an array in memory or mapped, shape (n, d), of any real numbers."""
    n, d = array.shape
    return PointCloud(
        input, layer, (n, d), lambda: _slices(array), lambda rows: as_floats(array[rows])
    )


def rows_per_block(d: int) -> int:
    """Rows of d dimensions in a block."""
    return max(256, BLOCK_BYTES // (4 * max(d, 1)))


def as_floats(values: np.ndarray) -> np.ndarray:
    """The same values in single or double precision: halves become singles, integers doubles."""
    if values.dtype in (np.float32, np.float64):
        return np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("="))
    return values.astype(np.float32 if values.dtype.kind == "f" else np.float64)


class StoredArray(NamedTuple):
    """Rows of numbers in a file, one after the other.

    Attributes:
        path: the file.
        dtype: of a number; "bfloat16", which NumPy does not know, as its 16 bits.
        offset: bytes before the first.
        shape: (n, d).
    """

    path: Path
    dtype: np.dtype[Any] | Literal["bfloat16"]
    offset: int
    shape: tuple[int, int]

    def write(self, first: int, rows: np.ndarray) -> None:
        """Put rows, shape (m, d), from row `first` on. Written, not mapped: a full disk is an error
        that can be reported.
        """
        begin = self.offset + first * self.shape[1] * rows.dtype.itemsize
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            left = np.ascontiguousarray(rows).data.cast("B")
            while left:
                written = os.pwrite(descriptor, left, begin)
                left, begin = left[written:], begin + written
        finally:
            os.close(descriptor)

    def select(self, chosen: np.ndarray) -> np.ndarray:
        """Some rows, shape (chosen, d); no others are read, and none is mapped, as in `blocks`."""
        dtype = np.dtype("<u2") if self.dtype == "bfloat16" else self.dtype
        d = self.shape[1]
        rows = np.empty((len(chosen), d), dtype)
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            for row, number in zip(rows, chosen.tolist(), strict=True):
                begin = self.offset + number * d * dtype.itemsize
                if os.preadv(descriptor, [row.data.cast("B")], begin) < row.nbytes:
                    raise IsotropyError(f"{self.path}: the file ends in row {number + 1} or before")
        finally:
            os.close(descriptor)
        return self._floats(rows)

    def blocks(self) -> Iterator[np.ndarray]:
        """The rows. They are read, not mapped: what a process has mapped counts as its memory."""
        n, d = self.shape
        dtype = np.dtype("<u2") if self.dtype == "bfloat16" else self.dtype
        step = rows_per_block(d)
        with self.path.open("rb") as file:
            file.seek(self.offset)
            for first in range(0, n, step):
                rows = min(step, n - first)
                values = np.fromfile(file, dtype, rows * d)
                if len(values) < rows * d:
                    raise IsotropyError(f"{self.path}: the file ends in row {first + 1} or after")
                yield self._floats(values.reshape(rows, d))

    def _floats(self, values: np.ndarray) -> np.ndarray:
        if self.dtype == "bfloat16":  # the upper half of a single
            return (values.astype(np.uint32) << 16).view(np.float32)
        return as_floats(values)


def of_file(input: str, layer: int | str, stored: StoredArray) -> PointCloud:
    """A cloud of an array in a file."""
    return PointCloud(input, layer, stored.shape, stored.blocks, stored.select)


def _slices(array: np.ndarray) -> Iterator[np.ndarray]:
    step = rows_per_block(array.shape[1])
    for first in range(0, len(array), step):
        yield as_floats(np.asarray(array[first : first + step]))
