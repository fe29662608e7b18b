"""Open what is to be measured. Names of files and models are read into objects; of objects, the
point clouds are measured, and the groups of their rows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from isotropy.errors import IsotropyError, first_line, suggest
from isotropy.measurement.scores import Groups
from isotropy.metrics.validation import as_array, sample_rows
from isotropy.models.hidden_states import ModelOptions, embed_texts, given_model
from isotropy.models.hub import fetch_model, is_hub_id
from isotropy.read.arrays import TABLES, open_file, select_layers
from isotropy.read.clouds import PointCloud, cloud_from_array, require_matrix
from isotropy.read.rows import class_keys, list_values, require_texts
from isotropy.read.table_text import SEPARATORS, format_suffix
from isotropy.read.tables import Columns, frame_columns, table_clouds
from isotropy.read.text_files import Column, note_table, parse_column, read_labels, read_texts

GROUPS = Groups._fields
MODEL_OPTIONS = ("texts", "pooling", "prompt", "prompt_name", "truncate_dim")
LISTS = ("layers", "columns", "metrics")
"""Options that are names, separated by commas on the command line."""


class Request(NamedTuple):
    """The arguments of `isotropy measure` and of `isotropy.measure`, where inputs, texts, labels,
    types and sentences may be objects rather than names of files and fields.
    """

    inputs: Sequence[Any]
    texts: Any = None
    layers: list[str] | None = None
    columns: list[str] | None = None
    separator: str | None = None
    quoting: bool = False
    pooling: str | None = None
    prompt: str | None = None
    prompt_name: str | None = None
    truncate_dim: int | None = None
    labels: Any = None
    types: Any = None
    sentences: Any = None
    metrics: list[str] | None = None
    sample: int | None = None
    seed: int = 0
    transforms: bool = False
    clusters: int = 10
    components: int | None = None
    save_transform: Path | None = None
    device: str = "auto"


def make_request(inputs: Sequence[Any], options: dict[str, Any]) -> Request:
    """Make a request; options that are None have their defaults.

    Args:
        inputs: names or objects.
        options: the other fields of `Request`; lists may be names separated by commas.
    """
    given = {name: value for name, value in options.items() if value is not None}
    lists = {name: _split_names(given[name]) for name in LISTS if name in given}
    return Request(inputs, **(given | lists))


def _split_names(value: Any) -> list[str]:
    if isinstance(value, str):
        return [name.strip() for name in value.split(",")]
    return [str(name) for name in value] if isinstance(value, Iterable) else [str(value)]


class Opened(NamedTuple):
    """An input that can be measured.

    Attributes:
        clouds: one per layer.
        groups: the groups of their rows.
        notes: sentences for the user.
        read: files and folders that were read.
        model: what was loaded, if the input is a model.
    """

    clouds: list[PointCloud]
    groups: Groups
    notes: list[str]
    read: list[Path]
    model: dict[str, Any] | None = None


class _Group(NamedTuple):
    """The class of each row, what the values are called in messages, and how they were read."""

    title: str
    keys: np.ndarray
    notes: list[str]


def open_input(x: Any, request: Request, work: Path) -> Opened:
    """Open an input.

    Args:
        x: the name of a file, a folder or a model; an array, a frame or a model.
        request: the arguments.
        work: a folder for data that do not fit memory.

    Raises:
        IsotropyError: it cannot be read, or the arguments do not fit it.
    """
    if isinstance(x, str | os.PathLike):
        return _open_name(os.fspath(x), request, work)
    if hasattr(x, "collect") and not hasattr(x, "shape"):  # of polars
        raise IsotropyError(f"{type(x).__name__}: its rows are not computed yet: call .collect()")
    parts = x if isinstance(x, tuple | list) else (x,)
    if any(isinstance(part, torch.nn.Module) for part in parts):
        title = type(parts[0]).__name__
        return _open_model(title, given_model(title, x, request.device), request, work)
    if (columns := frame_columns(x)) is not None:
        return _open_frame(type(x).__name__, columns, request)
    return _open_array(x, request)


def _open_name(name: str, request: Request, work: Path) -> Opened:
    path = Path(name)
    if path.is_file() or (not path.exists() and path.suffix and not is_hub_id(name)):
        if not path.is_file():
            raise IsotropyError(f"{path}: no such file")
        return _open_file(path, request, work)
    if path.is_dir():
        folder, note = path, []
    elif is_hub_id(name):
        folder, revision = fetch_model(name)
        note = [f"{name}: revision {revision}"]
    else:
        raise IsotropyError(f"{name}: no such file or folder; a model of a hub is ORG/NAME")
    opened = _open_model(name, folder, request, work)
    return opened._replace(notes=note + opened.notes, read=[folder, *opened.read])


def _open_file(path: Path, request: Request, work: Path) -> Opened:
    """Open a file: its clouds, and the groups of their rows, whose columns are no dimensions."""
    _refuse_model_options(str(path), "a file", request)
    has_fields = format_suffix(path) in (*TABLES, ".npz")
    group_fields = frozenset(
        name if column.field is None else column.field
        for name in GROUPS
        if (column := _named_column(getattr(request, name), request, path if has_fields else None))
        and column.path.samefile(path)
    )
    read_field = partial(_read_field, path, request.quoting) if has_fields else None
    groups = _read_groups(request, str(path), read_field)
    separator = "\t" if request.separator == r"\t" else request.separator
    if separator not in (None, *SEPARATORS):
        raise IsotropyError(rf"--separator: expected ',', ';' or '\t', got {separator!r}")
    clouds = open_file(
        path, _layers(request), work, _columns(request), group_fields, separator, request.quoting
    )
    return _with_groups(clouds, groups, [path])


def _read_field(path: Path, quoting: bool, field: str, name: str) -> np.ndarray:
    return read_labels(Column(path, field, quoting), name)


def _open_frame(title: str, columns: Columns, request: Request) -> Opened:
    _refuse_model_options(title, "a data frame", request)
    names = columns.schema.names

    def read_field(field: str, name: str) -> np.ndarray:
        if field not in names:
            raise IsotropyError(f"{title}: no column {field!r}; {suggest(field, names)}")
        batches = columns.batches(max(columns.n, 1), [field])
        values = [value for batch in batches for value in batch.column(0).to_pylist()]
        return class_keys(f"{title}:{field}", name, values)

    values = [getattr(request, name) for name in GROUPS]
    group_fields = frozenset(name for name in values if isinstance(name, str) and name in names)
    groups = _read_groups(request, title, read_field)
    clouds = table_clouds(title, columns, _columns(request), group_fields, _layers(request))
    return _with_groups(select_layers(title, clouds, _layers(request)), groups, [])


def _open_array(x: Any, request: Request) -> Opened:
    _refuse_model_options("array", "an array", request)
    if request.columns is not None:
        raise IsotropyError("array: --columns is for tables")
    clouds = select_layers("array", _array_clouds(x), _layers(request))
    return _with_groups(clouds, _read_groups(request, "array", None), [])


def _array_clouds(x: Any) -> dict[str, PointCloud]:
    """Clouds of an array, shape (n, d), or of one per layer, shape (layers, n, d)."""
    try:
        array = as_array(x, "array")
    except (ValueError, TypeError) as error:
        raise IsotropyError(first_line(error)) from None
    if array.dtype.kind not in "fiub":
        raise IsotropyError(
            f"array: expected real numbers, got {type(x).__name__} of {array.dtype}"
        )
    if array.ndim != 3:
        require_matrix("array", array.shape)
        return {"": cloud_from_array("array", "", array)}
    if not len(array):
        raise IsotropyError(f"array: no layers, the shape is {array.shape}")
    require_matrix("array", array.shape[1:])
    return {str(i): cloud_from_array("array", i, layer) for i, layer in enumerate(array)}


def _open_model(title: str, model: Any, request: Request, work: Path) -> Opened:
    """Embed texts, or their tokens, with a model: a folder, or an object."""
    if request.columns is not None:
        raise IsotropyError(f"{title}: --columns is for tables ({', '.join(TABLES)})")
    if request.texts is None:
        raise IsotropyError(f"{title}: a model needs texts to embed: --texts FILE[:FIELD]")
    texts, notes, file = _read_texts(request)
    read_field = None if file is None else partial(_read_field, file, request.quoting)
    text_groups = _read_groups(request, str(file), read_field)
    for name, group in text_groups.items():
        _require_rows(name, group, len(texts))
    chosen = np.arange(len(texts))
    if request.sample is not None and request.pooling != "tokens":
        chosen = sample_rows(len(texts), request.sample, request.seed).numpy()
    options = ModelOptions(
        request.layers,
        request.pooling,  # type: ignore[arg-type]
        request.device,
        request.prompt,
        request.prompt_name,
        request.truncate_dim,
    )
    embedded = embed_texts(title, model, [texts[i] for i in chosen], options, work)
    groups = Groups(**{n: g.keys[chosen][embedded.texts] for n, g in text_groups.items()})
    if embedded.types is not None:  # of tokens, the word pieces and the texts are known
        groups = groups._replace(
            types=embedded.types if groups.types is None else groups.types,
            sentences=embedded.texts if groups.sentences is None else groups.sentences,
        )
    notes += [note for group in text_groups.values() for note in group.notes]
    read = [] if file is None else [file]
    return Opened(embedded.clouds, groups, [*notes, *embedded.notes], read, embedded.model)


def _read_texts(request: Request) -> tuple[list[str], list[str], Path | None]:
    """The texts for a model, notes on how they were read, and the file that they come from."""
    if not isinstance(request.texts, str | os.PathLike):
        return require_texts("texts", list_values(request.texts, "texts")), [], None
    column = parse_column(os.fspath(request.texts), quoting=request.quoting)
    return read_texts(column), note_table(column), column.path


def _layers(request: Request) -> list[str] | None:
    """The arrays that are asked for; None: all."""
    return None if request.layers == ["all"] else request.layers


def _columns(request: Request) -> list[str] | None:
    if request.columns is None:
        return None
    if not (names := [name for name in request.columns if name]):
        raise IsotropyError("--columns: expected names or globs, as 'dim_*', got none")
    return names


def _refuse_model_options(title: str, kind: str, request: Request) -> None:
    for option in MODEL_OPTIONS:
        if getattr(request, option) is not None:
            name = option.replace("_", "-")
            raise IsotropyError(f"{title}: --{name} is for models, this is {kind}")


def _named_column(value: Any, request: Request, default: Path | None = None) -> Column | None:
    """The column that a name means: FILE, FILE:FIELD, or a field of the default; None for objects,
    and without a default.
    """
    if isinstance(value, os.PathLike):
        return parse_column(os.fspath(value), quoting=request.quoting)
    if not isinstance(value, str):
        return None
    if os.path.isfile(value) or os.path.isfile(value.rpartition(":")[0]):
        return parse_column(value, quoting=request.quoting)
    return None if default is None else Column(default, value, request.quoting)


def _read_groups(
    request: Request, title: str, read_field: Callable[[str, str], np.ndarray] | None
) -> dict[str, _Group]:
    """Read the classes of rows: values in memory, a file, or a field of the input or its texts.

    Args:
        request: the arguments.
        title: what has the fields, for messages.
        read_field: reads the classes in a field, given its name and that of the group; None: the
            input has no fields.
    """
    groups = {}
    for name in GROUPS:
        value = getattr(request, name)
        if value is None:
            continue
        if (column := _named_column(value, request)) is not None:
            groups[name] = _Group(str(column), read_labels(column, name), note_table(column))
        elif not isinstance(value, str):
            groups[name] = _Group(name, class_keys(name, name, list_values(value, name)), [])
        elif read_field is not None:
            groups[name] = _Group(f"{title}:{value}", read_field(value, name), [])
        else:
            raise IsotropyError(f"--{name} {value}: no such file; give FILE or FILE:FIELD")
    return groups


def _with_groups(clouds: list[PointCloud], groups: dict[str, _Group], read: list[Path]) -> Opened:
    """Put clouds and the groups of their rows together."""
    for name, group in groups.items():
        for cloud in clouds:
            _require_rows(name, group, cloud.n)
    keys = {name: group.keys for name, group in groups.items()}
    notes = [note for group in groups.values() for note in group.notes]
    return Opened(clouds, Groups(**keys), notes, read)


def _require_rows(name: str, group: _Group, n: int) -> None:
    """Refuse values of another number of rows than the input's."""
    if len(group.keys) != n:
        raise IsotropyError(
            f"--{name}: {group.title} has {len(group.keys)} rows, the input has {n}"
        )
