"""Read point clouds from files: NumPy, safetensors, tables, word vectors; no pickles."""

from __future__ import annotations

import errno
import json
import shutil
import zipfile
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from isotropy.errors import IsotropyError, first_line
from isotropy.read.archives import DISK_ERRORS, unpack_gzip
from isotropy.read.clouds import (
    Input,
    PointCloud,
    StoredArray,
    choose_arrays,
    cloud_from_array,
    cloud_from_file,
    require_matrix,
)
from isotropy.read.table_text import format_suffix
from isotropy.read.tables import read_number_table, read_parquet
from isotropy.read.word_vectors import WordVectors, read_text_vectors, read_word2vec

TEXT_SUFFIXES = (".txt", ".vec", ".emb", ".glove", ".w2v")
TABLES = (".parquet", ".csv", ".tsv")
OBJECTS = (
    "the array holds Python objects, which would have to be unpickled: save numbers, as with "
    "numpy.save(file, array.astype('float32'))"
)
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


_UNREADABLE = (
    *(OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error),
    *(RuntimeError, NotImplementedError),  # encrypted members of a zip, unknown compression
)


def open_file(
    path: Path,
    layers: list[str] | None,
    work: Path,
    columns: list[str] | None = None,
    groups: frozenset[str] = frozenset(),
    separator: str | None = None,
    quoting: bool = False,
) -> list[PointCloud]:
    """Read the point clouds of a file, in the format of its suffix.

    Args:
        path: the file; it may be compressed by gzip.
        layers: names of arrays in it, or numbers along its first axis; None: all.
        work: a folder for temporary files.
        columns: names or globs of a table's columns that are dimensions; None: 0, 1, 2, …
        groups: names of its columns that hold labels, types or sentences.
        separator: what stands between the fields of a table as text; None: what splits line 1.
        quoting: whether quotation marks enclose fields between tabs.

    Raises:
        IsotropyError: no such file, an unknown or dangerous format, or no vectors in it.
    """
    suffix = format_suffix(path)
    reader = READERS.get(suffix)
    if reader is None:
        raise IsotropyError(_describe_unknown(path, suffix))
    if columns is not None and suffix not in TABLES:
        raise IsotropyError(f"{path}: --columns is for tables ({', '.join(TABLES)})")
    if not path.stat().st_size:
        raise IsotropyError(f"{path}: the file is empty")
    file = Input(path, str(path), work, layers, columns, groups, separator, quoting)
    try:
        if path.suffix.lower() == ".gz":
            file = file._replace(path=file.new_file())
            unpack_gzip(path, file.path)
            if not file.path.stat().st_size:
                raise IsotropyError(f"{path}: the file is empty")
        clouds = reader(file)
    except _UNREADABLE as error:
        if isinstance(error, OSError) and error.errno in (*DISK_ERRORS, errno.EFBIG):
            raise
        raise IsotropyError(
            f"{path}: not readable as {suffix}: {first_line(error)[:200]}"
        ) from None
    return select_layers(str(path), clouds, layers)


def _describe_unknown(path: Path, suffix: str) -> str:
    suffixes = ", ".join(READERS)
    if suffix in (".pt", ".pth", ".ckpt", ".pkl", ".pickle"):
        return (
            f"{path}: {suffix} files may hold pickled code, which is never run; save the "
            "vectors with numpy.save or safetensors.numpy.save_file"
        )
    got = suffix or "no suffix"
    return f"{path}: expected a folder of a model, or one of {suffixes}, got {got}"


def select_layers(
    title: str, clouds: dict[str, PointCloud], layers: list[str] | None
) -> list[PointCloud]:
    """Choose clouds by their names; None: all.

    Raises:
        IsotropyError: there is no such cloud.
    """
    if layers is None:
        return list(clouds.values())
    for name in layers:
        if name not in clouds:
            names = [array_name for array_name in clouds if array_name]
            if not names:
                raise IsotropyError(
                    f"{title}: --layers {name}: there is one array: leave --layers out"
                )
            if names[0] == "0":
                raise IsotropyError(f"{title}: --layers {name}: expected 0 to {len(names) - 1}")
    return [clouds[name] for name in choose_arrays(title, clouds, layers)]


def _npy(file: Input) -> dict[str, PointCloud]:
    """An array (n, d), or (layers, n, d), mapped into memory."""
    array = _map_array(file.title, file.path)
    if array.ndim != 3:
        require_matrix(file.title, array.shape)
        return {"": _cloud_from_mapped(file, "", array)}
    require_matrix(file.title, array.shape[1:])
    return {str(i): _cloud_from_mapped(file, i, array[i]) for i in range(len(array))}


def _map_array(title: str, path: Path) -> np.ndarray:
    with path.open("rb") as stream:
        if stream.read(6) != b"\x93NUMPY":
            raise ValueError("it does not begin as NumPy's files do")
    try:
        array: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
    except ValueError as error:
        if "pickle" in str(error) or "object" in str(error).lower():
            raise IsotropyError(f"{title}: {OBJECTS}") from None
        raise
    if array.dtype.kind not in "fiub":
        raise IsotropyError(f"{title}: expected real numbers, got {array.dtype}")
    return array


def _cloud_from_mapped(file: Input, layer: int | str, array: np.ndarray) -> PointCloud:
    """A cloud of a memory-mapped array; contiguous rows are read from the file instead."""
    n, d = array.shape
    if not array.flags.c_contiguous:
        return cloud_from_array(file.title, layer, array)
    mapped = array.base if isinstance(array.base, np.memmap) else array
    begin = array.__array_interface__["data"][0] - mapped.__array_interface__["data"][0]
    assert isinstance(mapped, np.memmap)
    return cloud_from_file(
        file.title, layer, StoredArray(file.path, array.dtype, mapped.offset + begin, (n, d))
    )


def _npz(file: Input) -> dict[str, PointCloud]:
    """The arrays that are asked for, or all of two dimensions, each unpacked and mapped."""
    arrays = {}
    with zipfile.ZipFile(file.path) as archive:
        members = {n.removesuffix(".npy"): n for n in archive.namelist() if n.endswith(".npy")}
        names = choose_arrays(file.title, sorted(members), file.layers)
        shapes = {name: _stored_shape(archive, members[name]) for name in names}
        if refused := [name for name in names if shapes[name] is None]:
            others = ", ".join(name for name in names if name not in refused)
            choice = f"; or name other arrays, as in --layers {others}" if others else ""
            raise IsotropyError(f"{file.title}, {refused[0]}: {OBJECTS}{choice}")
        for name in _matrices(file, shapes):
            target = file.new_file()
            with archive.open(members[name]) as packed, target.open("wb") as unpacked:
                shutil.copyfileobj(packed, unpacked)
            arrays[name] = _map_array(f"{file.title}, {name}", target)
    clouds = {}
    for name, array in arrays.items():
        stored = file._replace(path=Path(str(array.filename)))  # type: ignore[attr-defined]
        clouds[name] = _cloud_from_mapped(stored, _layer_name(file, name, arrays), array)
        clouds[name].notes = _note_arrays(file, shapes)
    return clouds


def _stored_shape(archive: zipfile.ZipFile, member: str) -> tuple[int, ...] | None:
    """Shape of an array in an archive, by its header; None: it holds Python objects."""
    with archive.open(member) as stream:
        version = np.lib.format.read_magic(stream)
        read = np.lib.format.read_array_header_1_0
        read = read if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(stream)
    return None if dtype.hasobject else shape


def _matrices(file: Input, shapes: Mapping[str, Sequence[int] | None]) -> list[str]:
    """Names of the arrays that are asked for, or of all (n, d).

    Raises:
        IsotropyError: there is none, or one is no point cloud.
    """
    names = [name for name, shape in shapes.items() if file.layers or len(shape or ()) == 2]
    if not names:
        listing = ", ".join(f"{name}: {shape}" for name, shape in shapes.items()) or "none"
        raise IsotropyError(f"{file.title}: expected an array of shape (n, d), got {listing}")
    for name in names:
        require_matrix(f"{file.title}, {name}", tuple(shapes[name] or ()))
    return names


def _layer_name(file: Input, name: str, names: Collection[str]) -> str:
    """The name of an array; "" for the only one, unless it was asked for."""
    return "" if file.layers is None and len(names) == 1 else name


def _note_arrays(file: Input, shapes: Mapping[str, Sequence[int] | None]) -> list[str]:
    """Say which arrays of a file are not point clouds, and are left out."""
    used = _matrices(file, shapes)
    rest = [name for name in shapes if name not in used]
    if not rest:
        return []
    return [f"{file.title}: arrays (n, d) are {', '.join(used)}; left out: {', '.join(rest)}"]


def _safetensors(file: Input) -> dict[str, PointCloud]:
    """The arrays that are asked for, or all of two dimensions, in the order of their names."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file.path, framework="np"):  # checks the whole header
            pass
    except SafetensorError as error:
        raise IsotropyError(f"{file.title}: not readable as .safetensors: {error}") from None
    with file.path.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        header = json.loads(stream.read(length))
    header.pop("__metadata__", None)
    shapes = {
        name: header[name]["shape"]
        for name in choose_arrays(file.title, sorted(header), file.layers)
    }
    clouds = {}
    for name in (names := _matrices(file, shapes)):
        entry = header[name]
        if entry["dtype"] not in SAFETENSORS:
            supported = ", ".join(SAFETENSORS)
            raise IsotropyError(
                f"{file.title}, {name}: expected one of {supported}, got {entry['dtype']}"
            )
        begin = 8 + length + entry["data_offsets"][0]
        n, d = entry["shape"]
        stored = StoredArray(file.path, SAFETENSORS[entry["dtype"]], begin, (n, d))
        clouds[name] = cloud_from_file(file.title, _layer_name(file, name, names), stored)
        clouds[name].notes = _note_arrays(file, shapes)
    return clouds


def _words(read: Callable[[Path, Path, str], WordVectors], file: Input) -> dict[str, PointCloud]:
    """Word vectors, converted once to a binary array, which every pass reads."""
    stored, notes = read(file.path, file.new_file(), file.title)
    require_matrix(file.title, stored.shape)
    cloud = cloud_from_file(file.title, "", stored)
    cloud.notes = notes
    return {"": cloud}


READERS: dict[str, Callable[[Input], dict[str, PointCloud]]] = {
    ".npy": _npy,
    ".npz": _npz,
    ".safetensors": _safetensors,
    ".parquet": read_parquet,
    ".csv": read_number_table,
    ".tsv": read_number_table,
    **dict.fromkeys(TEXT_SUFFIXES, partial(_words, read_text_vectors)),
    ".bin": partial(_words, read_word2vec),
}
"""Reader of each suffix."""
