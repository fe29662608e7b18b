"""Read point clouds from files: NumPy, safetensors, Parquet, vectors as text; no pickles."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from isotropy.errors import IsotropyError, suggest
from isotropy.measure.clouds import (
    PointCloud,
    StoredArray,
    as_floats,
    cloud_from_array,
    cloud_from_file,
    rows_per_block,
)
from isotropy.measure.text_vectors import read_text_vectors

TEXT_SUFFIXES = (".txt", ".vec", ".glove", ".w2v")
SAFETENSORS: dict[str, Any] = {
    "BF16": "bfloat16",
    **{
        name: np.dtype(kind)
        for name, kind in (
            ("F16", "<f2"),
            ("F32", "<f4"),
            ("F64", "<f8"),
            ("I8", "i1"),
            ("U8", "u1"),
            ("I16", "<i2"),
            ("I32", "<i4"),
            ("I64", "<i8"),
        )
    },
}
"""Types of numbers in safetensors files, and their NumPy types."""


def open_file(path: Path, layers: list[str] | None, work: Path) -> list[PointCloud]:
    """Read the point clouds of a file, in the format of its suffix.

    Args:
        path: the file.
        layers: names of arrays in it, or numbers along its first axis; None: all.
        work: a folder for temporary files.

    Raises:
        IsotropyError: no such file, an unknown or dangerous format, or no vectors in it.
    """
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise IsotropyError(_describe_unknown(path))
    if not path.stat().st_size:
        raise IsotropyError(f"{path}: the file is empty")
    try:
        clouds = reader(path, work)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise IsotropyError(
            f"{path}: not readable as {path.suffix}: {_first_line(error)}"
        ) from None
    return _select_layers(path, clouds, layers)


def _describe_unknown(path: Path) -> str:
    suffixes = ", ".join(READERS)
    if path.suffix in (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle"):
        return (
            f"{path}: {path.suffix} files may hold pickled code, which is never run; save the "
            "vectors with numpy.save or safetensors.numpy.save_file"
        )
    if path.suffix == ".npz":
        return f"{path}: expected one array per file; save each array of it with numpy.save"
    got = path.suffix or "no suffix"
    return f"{path}: expected a folder of a model, or one of {suffixes}, got {got}"


def _select_layers(
    path: Path, clouds: dict[str, PointCloud], layers: list[str] | None
) -> list[PointCloud]:
    if layers is None:
        return list(clouds.values())
    for name in layers:
        if name not in clouds:
            names = [array_name for array_name in clouds if array_name]
            if not names:
                raise IsotropyError(
                    f"{path}: --layers {name}: the file holds one array: leave --layers out"
                )
            if names[0] == "0":
                raise IsotropyError(f"{path}: --layers {name}: expected 0 to {len(names) - 1}")
            raise IsotropyError(f"{path}: no array {name!r}; {suggest(name, names, 'in the file')}")
    return [clouds[name] for name in layers]


def _npy(path: Path, _: Path) -> dict[str, PointCloud]:
    """An array (n, d), or (layers, n, d), mapped into memory."""
    with path.open("rb") as file:
        if file.read(6) != b"\x93NUMPY":
            raise ValueError("it does not begin as NumPy's files do")
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except ValueError as error:
        if "pickle" in str(error) or "object" in str(error).lower():
            raise IsotropyError(
                f"{path}: the array holds Python objects, which would have to be unpickled: save "
                "numbers, as with numpy.save(file, array.astype('float32'))"
            ) from None
        raise
    if array.dtype.kind not in "fiub":
        raise IsotropyError(f"{path}: expected real numbers, got {array.dtype}")
    if array.ndim != 3:
        _require_matrix(str(path), array.shape)
        return {"": _cloud_from_mapped(path, "", array)}
    _require_matrix(str(path), array.shape[1:])
    return {str(i): _cloud_from_mapped(path, i, array[i]) for i in range(len(array))}


def _cloud_from_mapped(path: Path, layer: int | str, array: np.ndarray) -> PointCloud:
    """A cloud of a memory-mapped array; contiguous rows are read from the file instead."""
    n, d = array.shape
    if not array.flags.c_contiguous:
        return cloud_from_array(str(path), layer, array)
    mapped = array.base if isinstance(array.base, np.memmap) else array
    begin = array.__array_interface__["data"][0] - mapped.__array_interface__["data"][0]
    assert isinstance(mapped, np.memmap)
    return cloud_from_file(
        str(path), layer, StoredArray(path, array.dtype, mapped.offset + begin, (n, d))
    )


def _require_matrix(title: str, shape: tuple[int, ...]) -> None:
    if len(shape) != 2:
        raise IsotropyError(f"{title}: expected an array of shape (n, d), got {shape}")
    if shape[0] < 2 or shape[1] < 2:
        raise IsotropyError(
            f"{title}: expected at least 2 rows and 2 dimensions, got {shape[0]} and {shape[1]}"
        )


def _safetensors(path: Path, _: Path) -> dict[str, PointCloud]:
    """All two-dimensional arrays, in the order of their names."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np"):  # checks the whole header
            pass
    except SafetensorError as error:
        raise IsotropyError(f"{path}: not readable as .safetensors: {error}") from None
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
    header.pop("__metadata__", None)
    arrays = {}
    for name, entry in sorted(header.items()):
        if len(entry["shape"]) != 2:
            continue
        _require_matrix(f"{path}, {name}", tuple(entry["shape"]))
        if entry["dtype"] not in SAFETENSORS:
            supported = ", ".join(SAFETENSORS)
            raise IsotropyError(
                f"{path}, {name}: expected one of {supported}, got {entry['dtype']}"
            )
        begin = 8 + length + entry["data_offsets"][0]
        shape = entry["shape"][0], entry["shape"][1]
        arrays[name] = StoredArray(path, SAFETENSORS[entry["dtype"]], begin, shape)
    if not arrays:
        shapes = {name: entry["shape"] for name, entry in header.items()}
        raise IsotropyError(f"{path}: expected an array of shape (n, d), got {shapes or 'none'}")
    single = len(arrays) == 1
    return {
        name: cloud_from_file(str(path), "" if single else name, stored)
        for name, stored in arrays.items()
    }


def _parquet(path: Path, _: Path) -> dict[str, PointCloud]:
    """A cloud per column of lists of numbers, or one cloud of all columns of floats."""
    import pyarrow as pa

    try:
        file = _open_parquet(path)
    except pa.ArrowInvalid as error:
        raise IsotropyError(f"{path}: not readable as .parquet: {_first_line(error)}") from None
    n, schema = file.metadata.num_rows, file.schema_arrow
    lists = [f.name for f in schema if _is_list(f.type)]
    floats = [f.name for f in schema if pa.types.is_floating(f.type)]
    if not lists and not floats:
        raise IsotropyError(
            f"{path}: expected a column of lists of numbers or columns of floats, got "
            + ", ".join(f"{f.name}: {f.type}" for f in schema)
        )
    if not lists:
        _require_matrix(str(path), (n, len(floats)))
        return {
            "": PointCloud(str(path), "", (n, len(floats)), lambda: _column_blocks(path, floats))
        }
    clouds = {}
    for name in lists:
        first = next(file.iter_batches(1, columns=[name]), None)
        width = len(first.column(0)[0].as_py() or []) if first else 0
        _require_matrix(f"{path}, {name}", (n, width))
        clouds[name] = PointCloud(
            str(path),
            "" if len(lists) == 1 else name,
            (n, width),
            partial(_list_blocks, path, name, width),
        )
    return clouds


def _open_parquet(path: Path) -> Any:
    """Open a Parquet file without read-ahead, so that memory stays bounded."""
    import pyarrow.parquet as pq

    return pq.ParquetFile(path, pre_buffer=False, buffer_size=2**20)


def _is_list(kind: Any) -> bool:
    import pyarrow as pa

    if not isinstance(kind, pa.ListType | pa.LargeListType | pa.FixedSizeListType):
        return False
    return bool(pa.types.is_floating(kind.value_type) or pa.types.is_integer(kind.value_type))


def _column_blocks(path: Path, names: list[str]) -> Iterator[np.ndarray]:
    for batch in _open_parquet(path).iter_batches(rows_per_block(len(names)), columns=names):
        columns = [batch.column(i).to_numpy(zero_copy_only=False) for i in range(len(names))]
        yield as_floats(np.stack(columns, axis=1))


def _list_blocks(path: Path, name: str, width: int) -> Iterator[np.ndarray]:
    n_read = 0
    for batch in _open_parquet(path).iter_batches(rows_per_block(width), columns=[name]):
        column = batch.column(0)
        lengths = np.array([-1 if x is None else x for x in column.value_lengths().to_pylist()])
        if (lengths != width).any():
            row = int((lengths != width).argmax())
            got = "no vector" if lengths[row] < 0 else f"{lengths[row]} numbers"
            raise IsotropyError(
                f"{path}, {name}: row {n_read + row + 1}: expected {width} numbers as in row 1, "
                f"got {got}"
            )
        values = column.flatten().to_numpy(zero_copy_only=False)
        yield as_floats(values.reshape(len(batch), width))
        n_read += len(batch)


def _text(path: Path, work: Path) -> dict[str, PointCloud]:
    """Vectors as text, converted once to a binary array, which every pass reads."""
    stored, notes = read_text_vectors(path, work / f"{len(list(work.iterdir()))}.vectors")
    _require_matrix(str(path), stored.shape)
    cloud = cloud_from_file(str(path), "", stored)
    cloud.notes = notes
    return {"": cloud}


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]


READERS: dict[str, Callable[[Path, Path], dict[str, PointCloud]]] = {
    ".npy": _npy,
    ".safetensors": _safetensors,
    ".parquet": _parquet,
    **dict.fromkeys(TEXT_SUFFIXES, _text),
}
"""Reader of each suffix."""
