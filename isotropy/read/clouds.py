"""Point clouds that need not fit memory: rows of a file, read in blocks."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from isotropy.errors import IsotropyError, suggest

BLOCK_BYTES = 2**25
"""Size of a block of rows in single precision."""


class PointCloud:
    """Vectors of one layer, or of one array.

    Args:
        input: the file or model that they come from, as the user has written it.
        layer: number of a hidden layer, name of an array in a file, or "" for the only one.
        shape: (n, d).
        blocks: yields all rows in order, in blocks of shape (m, d), float32 or float64.
        select: reads the rows with some numbers, and no others; None: not possible.

    Attributes:
        columns: the columns of a table that are its dimensions; "": not from a table.
        notes: sentences for the user on how the file was read.
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
        self.columns = ""
        self.notes: list[str] = []

    @property
    def title(self) -> str:
        """Name of the cloud in messages."""
        return self.input if self.layer == "" else f"{self.input}, {self.layer}"

    def blocks(self) -> Iterator[np.ndarray]:
        """Read all rows, a block at a time.

        Raises:
            IsotropyError: a row with NaN or infinity; the message has its number.
        """
        first = 0
        for block in self._blocks():
            self._require_finite(block, range(first, first + len(block)))
            yield block
            first += len(block)

    def rows(self, chosen: np.ndarray) -> np.ndarray:
        """Read some rows into memory, shape (len(chosen), d).

        Args:
            chosen: numbers of the rows, ascending.
        """
        if self._select is not None:
            X = self._select(chosen)
            self._require_finite(X, chosen)
            return X
        selected, first = [], 0
        for block in self.blocks():
            begin, end = np.searchsorted(chosen, [first, first + len(block)])
            selected.append(block[chosen[begin:end] - first])
            first += len(block)
        return np.concatenate(selected)

    def _require_finite(self, rows: np.ndarray, numbers: Sequence[int] | np.ndarray) -> None:
        # If any value is NaN, so are minimum and maximum; unlike isfinite(rows), they need no copy
        if len(rows) and not (np.isfinite(rows.min()) and np.isfinite(rows.max())):
            row = int(numbers[int((~np.isfinite(rows)).any(axis=1).argmax())]) + 1
            raise IsotropyError(
                f"{self.title}: row {row} holds NaN or infinity: leave such rows out first"
            )


def cloud_from_array(input: str, layer: int | str, array: np.ndarray) -> PointCloud:
    """A cloud of an array of real numbers, shape (n, d), in memory or memory-mapped."""
    n, d = array.shape
    return PointCloud(
        input, layer, (n, d), lambda: _array_blocks(array), lambda rows: as_floats(array[rows])
    )


def rows_per_block(d: int) -> int:
    """Number of rows in a block, for d dimensions."""
    return max(256, BLOCK_BYTES // (4 * max(d, 1)))


def as_floats(values: np.ndarray) -> np.ndarray:
    """Convert to single or double precision of this machine's byte order: half precision to single;
    integers, and more than double precision, to double.
    """
    is_single = values.dtype.kind == "f" and values.dtype.itemsize <= 4
    return np.ascontiguousarray(values, dtype=np.float32 if is_single else np.float64)


class StoredArray(NamedTuple):
    """Rows of numbers in a file, one after the other.

    Attributes:
        path: the file.
        dtype: type of the numbers; "bfloat16", which NumPy does not have, is read as 16 bits.
        offset: bytes in the file before the first number.
        shape: (n, d).
    """

    path: Path
    dtype: np.dtype[Any] | Literal["bfloat16"]
    offset: int
    shape: tuple[int, int]

    def write(self, first: int, rows: np.ndarray) -> None:
        """Write rows, shape (m, d), in place of those from row `first` on. The file is not
        memory-mapped, so that a full disk raises an error that can be reported.
        """
        begin = self.offset + first * self.shape[1] * rows.dtype.itemsize
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            remaining = np.ascontiguousarray(rows).data.cast("B")
            while remaining:
                written = os.pwrite(descriptor, remaining, begin)
                remaining, begin = remaining[written:], begin + written
        finally:
            os.close(descriptor)

    def select(self, chosen: np.ndarray) -> np.ndarray:
        """Read the rows with these numbers, and no others, shape (len(chosen), d)."""
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
        """Read all rows in blocks. Not memory-mapped: mapped pages count as memory of a process."""
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
        if self.dtype == "bfloat16":  # the upper 16 bits of a float32
            return (values.astype(np.uint32) << 16).view(np.float32)
        return as_floats(values)


def cloud_from_file(input: str, layer: int | str, stored: StoredArray) -> PointCloud:
    """A cloud of an array in a file."""
    return PointCloud(input, layer, stored.shape, stored.blocks, stored.select)


def _array_blocks(array: np.ndarray) -> Iterator[np.ndarray]:
    step = rows_per_block(array.shape[1])
    for first in range(0, len(array), step):
        yield as_floats(np.asarray(array[first : first + step]))


class Input(NamedTuple):
    """A file to be read, and what the user says about it.

    Attributes:
        path: the file that is read: the user's own, or an unpacked copy.
        title: the file as the user has written it, for messages.
        work: a folder for temporary files.
        layers: names of the arrays that are asked for; None: all.
        columns: names or globs of a table's columns that are dimensions; None: 0, 1, 2, …
        groups: names of its columns that hold labels, types or sentences.
        separator: what stands between the fields of a table as text; None: what splits line 1.
        quoting: whether quotation marks enclose fields between tabs.
    """

    path: Path
    title: str
    work: Path
    layers: list[str] | None = None
    columns: list[str] | None = None
    groups: frozenset[str] = frozenset()
    separator: str | None = None
    quoting: bool = False

    def new_file(self) -> Path:
        """Make an empty file in the folder for temporary files."""
        descriptor, name = tempfile.mkstemp(dir=self.work)
        os.close(descriptor)
        return Path(name)


def choose_arrays(title: str, names: Iterable[str], wanted: Sequence[str] | None) -> list[str]:
    """Names of the arrays that are asked for; None: all.

    Raises:
        IsotropyError: there is no such array.
    """
    names = list(names)
    for name in wanted or []:
        if name not in names:
            raise IsotropyError(
                f"{title}: no array {name!r}; {suggest(name, names, 'in the file')}"
            )
    return names if wanted is None else list(wanted)


def require_matrix(title: str, shape: tuple[int, ...]) -> None:
    """Refuse what is not a point cloud.

    Raises:
        IsotropyError: not (n, d), or fewer than two rows or dimensions.
    """
    if len(shape) != 2:
        raise IsotropyError(f"{title}: expected an array of shape (n, d), got {shape}")
    if shape[0] < 2 or shape[1] < 2:
        raise IsotropyError(
            f"{title}: expected at least 2 rows and 2 dimensions, got {shape[0]} and {shape[1]}"
        )
