"""Run `isotropy measure`: open the inputs, read groups of their rows, and compute scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import numpy as np

from isotropy.errors import IsotropyError, suggest
from isotropy.measurement.scores import METRICS, Effects, Groups, measure_cloud, sample_cloud
from isotropy.metrics.validation import sample_rows
from isotropy.models.hidden_states import ModelOptions, Pooling, embed_texts
from isotropy.models.hub import fetch_model, is_hub_id
from isotropy.read.arrays import TABLES, open_file, select_layers
from isotropy.read.clouds import PointCloud
from isotropy.read.table_text import SEPARATORS, format_suffix
from isotropy.read.text_files import Column, parse_column, read_labels, read_texts

if TYPE_CHECKING:
    from isotropy.measurement.enhancement import Enhanced

Row = dict[str, Any]
GROUPS = Groups._fields
MINIMA = {"sample": 3, "clusters": 1, "components": 0, "seed": 0, "truncate_dim": 2}
"""Smallest values of options."""
MODEL_OPTIONS = ("texts", "pooling", "prompt", "prompt_name", "truncate_dim")


class Request(NamedTuple):
    """The arguments of `isotropy measure`. From Python, an input may also be clouds by layer."""

    inputs: Sequence[str | dict[str, PointCloud]]
    texts: str | None = None
    layers: str | None = None
    columns: str | None = None
    separator: str | None = None
    pooling: str | None = None
    prompt: str | None = None
    prompt_name: str | None = None
    truncate_dim: int | None = None
    labels: str | None = None
    types: str | None = None
    sentences: str | None = None
    metrics: str | None = None
    sample: int | None = None
    seed: int = 0
    transforms: bool = False
    clusters: int = 10
    components: int | None = None
    save_transform: Path | None = None
    device: str = "auto"


class Measurement(NamedTuple):
    """The result of a measurement.

    Attributes:
        rows: one per layer, and one per layer and transform.
        notes: sentences for the user.
        read: files and folders that were read.
        models: of each model, what was loaded: library, weights, prompt, pooling, longest text.
        effects: of each layer, what its standard errors were computed from, if asked for.
    """

    rows: list[Row]
    notes: list[str]
    read: list[Path]
    models: dict[str, dict[str, Any]]
    effects: list[Effects]


class _Measured(NamedTuple):
    rows: list[Row]
    notes: list[str]
    effects: Effects


class _Opened(NamedTuple):
    clouds: list[PointCloud]
    groups: Groups
    notes: list[str]
    read: list[Path]
    model: dict[str, Any] | None = None


def print_metrics() -> None:
    """Print all metrics, one per line."""
    from rich.console import Console

    console = Console(highlight=False)
    for name, metric in METRICS.items():
        needs = f" (needs --{metric.needs})" if metric.needs else ""
        console.print(f"{name:26}{metric.summary}{needs}", markup=False, soft_wrap=True)


def run(request: Request, work: Path, *, keep_effects: bool = False) -> Measurement:
    """Measure all inputs.

    Args:
        request: the arguments of the command.
        work: a folder for data that do not fit memory.
        keep_effects: return the effects, 16 bytes per row of a layer.

    Raises:
        IsotropyError: invalid arguments, or an input that cannot be measured.
    """
    _validate(request)
    metrics = _metrics(request)
    texts = None if request.texts is None else parse_column(request.texts)
    rows: list[Row] = []
    notes: list[str] = []
    read: list[Path] = []
    models: dict[str, dict[str, Any]] = {}
    effects: list[Effects] = []
    for name in request.inputs:
        opened = _open(name, request, texts, work)
        notes += opened.notes
        read += opened.read
        if opened.model is not None:
            models[str(name)] = opened.model
        if request.save_transform and len(opened.clouds) * len(request.inputs) > 1:
            raise IsotropyError("--save-transform: name one layer of one input with --layers")
        note_layers: dict[str, list[str]] = {}
        for cloud in opened.clouds:
            measured = _measure_cloud(cloud, opened.groups, metrics, request)
            rows += measured.rows
            if keep_effects:
                effects.append(measured.effects)
            for note in [*cloud.notes, *measured.notes]:
                note_layers.setdefault(note, []).append(str(cloud.layer))
        notes += [
            _prefix_layers(note, layers, len(opened.clouds)) for note, layers in note_layers.items()
        ]
    return Measurement(rows, list(dict.fromkeys(notes)), list(dict.fromkeys(read)), models, effects)


def _prefix_layers(note: str, layers: list[str], n: int) -> str:
    """Prefix a note with the layers that it is about, unless it is about all."""
    if len(layers) == n:
        return note
    return f"{'layer' if len(layers) == 1 else 'layers'} {', '.join(layers)}: {note}"


def _validate(request: Request) -> None:
    for name, minimum in MINIMA.items():
        value = getattr(request, name)
        if value is not None and value < minimum:
            option = name.replace("_", "-")
            raise IsotropyError(f"--{option}: expected {minimum} or more, got {value}")
    if request.prompt is not None and request.prompt_name is not None:
        raise IsotropyError("--prompt and --prompt-name: give one of them")
    if request.pooling is not None and request.pooling not in get_args(Pooling):
        hint = suggest(request.pooling, get_args(Pooling), "in the help")
        raise IsotropyError(f"--pooling: expected {', '.join(get_args(Pooling))}; {hint}")
    path = request.save_transform
    if path is not None and path.suffix != ".safetensors":
        raise IsotropyError(f"--save-transform: expected a .safetensors, got {path}")


def _metrics(request: Request) -> list[str] | None:
    """Parse the option --metrics into names; None: all that the input allows."""
    if request.metrics is None:
        return None
    names = list(dict.fromkeys(name.strip() for name in request.metrics.split(",")))
    for name in names:
        if name not in METRICS:
            hint = suggest(name, METRICS, "by --metrics list")
            raise IsotropyError(f"--metrics: no metric {name!r}; {hint}")
    return [name for name in METRICS if name in names]


def _open(
    input_name: str | dict[str, PointCloud], request: Request, texts: Column | None, work: Path
) -> _Opened:
    """Open an input: its point clouds, and the groups of their rows."""
    layers = None if request.layers is None else [x.strip() for x in request.layers.split(",")]
    if isinstance(input_name, dict):
        return _open_arrays(input_name, None if layers == ["all"] else layers, request)
    path = Path(input_name)
    if path.is_file() or (not path.exists() and path.suffix and not is_hub_id(input_name)):
        if not path.is_file():
            raise IsotropyError(f"{path}: no such file")
        _refuse_model_options(str(path), "a file", request)
        return _open_file(path, None if layers == ["all"] else layers, request, work)
    if request.columns is not None:
        raise IsotropyError(f"{input_name}: --columns is for tables ({', '.join(TABLES)})")
    if path.is_dir():
        folder, note = path, []
    elif is_hub_id(input_name):
        folder, revision = fetch_model(input_name)
        note = [f"{input_name}: revision {revision}"]
    else:
        raise IsotropyError(f"{input_name}: no such file or folder; a model of a hub is ORG/NAME")
    if texts is None:
        raise IsotropyError(f"{input_name}: a model needs texts to embed: --texts FILE[:FIELD]")
    opened = _open_model(input_name, folder, layers, request, texts, work)
    return opened._replace(notes=note + opened.notes)


def _refuse_model_options(title: str, kind: str, request: Request) -> None:
    for option in MODEL_OPTIONS:
        if getattr(request, option) is not None:
            name = option.replace("_", "-")
            raise IsotropyError(f"{title}: --{name} is for models, this is {kind}")


def _open_arrays(
    arrays: dict[str, PointCloud], layers: list[str] | None, request: Request
) -> _Opened:
    """Choose clouds of arrays in memory, and read the groups of their rows."""
    title = next(iter(arrays.values())).input
    _refuse_model_options(title, "an array", request)
    if request.columns is not None:
        raise IsotropyError(f"{title}: --columns is for tables")
    sources = {name: _group_source(request, name, None, None) for name in GROUPS}
    return _group_rows(lambda: select_layers(title, arrays, layers), sources, [])


def _group_rows(
    open_clouds: Callable[[], list[PointCloud]], sources: dict[str, Column | None], read: list[Path]
) -> _Opened:
    """Read the groups of rows, then the clouds, which must have as many rows."""
    groups = {name: _read_group(name, source) for name, source in sources.items()}
    clouds = open_clouds()
    for name, values in groups.items():
        for cloud in clouds:
            _require_rows(name, sources[name], values, cloud.n)
    return _Opened(clouds, Groups(**groups), [], read)


def _open_file(path: Path, layers: list[str] | None, request: Request, work: Path) -> _Opened:
    """Open a file: its clouds, and the groups of their rows, whose columns are no dimensions."""
    sources = {name: _group_source(request, name, path, None) for name in GROUPS}
    not_dimensions = frozenset(
        source.field or name
        for name, source in sources.items()
        if source is not None and source.path.samefile(path)
    )
    columns = None
    if request.columns is not None:
        columns = [name.strip() for name in request.columns.split(",") if name.strip()]
        if not columns:
            raise IsotropyError("--columns: expected names or globs, as 'dim_*', got none")
    separator = "\t" if request.separator == r"\t" else request.separator
    if separator not in (None, *SEPARATORS):
        raise IsotropyError(rf"--separator: expected ',', ';' or '\t', got {separator!r}")
    open_clouds = partial(open_file, path, layers, work, columns, not_dimensions, separator)
    return _group_rows(open_clouds, sources, [path])


def _open_model(
    input_name: str,
    folder: Path,
    layers: list[str] | None,
    request: Request,
    texts: Column,
    work: Path,
) -> _Opened:
    """Embed texts, or their tokens, with a model."""
    lines = read_texts(texts)
    sources = {name: _group_source(request, name, None, texts) for name in GROUPS}
    text_groups = {name: _read_group(name, source) for name, source in sources.items()}
    for name, values in text_groups.items():
        _require_rows(name, sources[name], values, len(lines))
    chosen = np.arange(len(lines))
    if request.sample is not None and request.pooling != "tokens":
        chosen = sample_rows(len(lines), request.sample, request.seed).numpy()
    embedded = embed_texts(
        input_name,
        folder,
        [lines[i] for i in chosen],
        ModelOptions(
            layers,
            request.pooling,  # type: ignore[arg-type]
            request.device,
            request.prompt,
            request.prompt_name,
            request.truncate_dim,
        ),
        work,
    )
    groups = Groups(
        **{
            name: None if values is None else values[chosen][embedded.texts]
            for name, values in text_groups.items()
        }
    )
    if embedded.types is not None:  # of tokens, the word pieces and the texts are known
        groups = groups._replace(
            types=embedded.types if groups.types is None else groups.types,
            sentences=embedded.texts if groups.sentences is None else groups.sentences,
        )
    return _Opened(embedded.clouds, groups, embedded.notes, [folder, texts.path], embedded.model)


def _group_source(
    request: Request, name: str, input: Path | None, texts: Column | None
) -> Column | None:
    """Where a value per row (labels, types or sentences) is: a file, the texts, or the input."""
    value = getattr(request, name)
    if value is None:
        return None
    if Path(value).is_file() or Path(value.rpartition(":")[0]).is_file():
        return parse_column(value)
    if texts is not None:
        return Column(texts.path, value)
    if input is not None and format_suffix(input) in (*TABLES, ".npz"):
        return Column(input, value)
    raise IsotropyError(f"--{name} {value}: no such file; give FILE or FILE:FIELD")


def _read_group(name: str, source: Column | None) -> np.ndarray | None:
    return None if source is None else read_labels(source, name)


def _require_rows(name: str, source: Column | None, values: np.ndarray | None, n: int) -> None:
    """Refuse values of another number of rows than the input's."""
    if values is not None and len(values) != n:
        raise IsotropyError(f"--{name}: {source} has {len(values)} rows, the input has {n}")


def _measure_cloud(
    cloud: PointCloud, groups: Groups, requested: list[str] | None, request: Request
) -> _Measured:
    """Measure a cloud: rows of the result, notes and effects."""
    available = {name for name in GROUPS if getattr(groups, name) is not None} | {""}
    names = [name for name in METRICS if METRICS[name].needs in available]
    if requested is not None:
        for name in requested:
            if name not in names:
                raise IsotropyError(f"--metrics {name} needs --{METRICS[name].needs}")
        names = requested
    if groups.labels is not None and len(np.unique(groups.labels)) < 2:
        raise IsotropyError("--labels: expected at least 2 classes, all labels are equal")
    columns = cloud.columns
    cloud, groups = sample_cloud(cloud, groups, request.sample, request.seed)
    facts: Row = {"input": cloud.input, "layer": cloud.layer, "n": cloud.n, "d": cloud.d}
    facts["columns"] = columns
    scores = measure_cloud(
        cloud,
        groups,
        names,
        required=requested is not None,
        sample=request.sample,
        seed=request.seed,
    )
    if not request.transforms and request.save_transform is None:
        return _Measured([facts | scores.columns], scores.notes, scores.effects)
    # Loads scikit-learn: 2 s
    from isotropy.measurement.enhancement import advice, candidates, enhance

    transforms = candidates(cloud.d, request.clusters, request.components, request.seed)
    results = enhance(cloud, transforms, request.seed, groups.sentences)
    if request.save_transform is not None:
        _save(results, request.save_transform)
    rows = [facts | {"transform": row.transform} | _result_columns(row) for row in results]
    rows[0] |= scores.columns
    return _Measured(rows, [*scores.notes, advice(results)], scores.effects)


def _result_columns(row: Enhanced) -> Row:
    scores = {"isoscore": row.isoscore, "isoscore_error": row.error}
    return scores | {"log10_isotropy_matched": row.matched}


def _save(results: list[Enhanced], path: Path) -> None:
    from isotropy.measurement.enhancement import best
    from isotropy.transform_files import save_transform

    top = best(results)
    if top.fitted is None:
        raise IsotropyError(
            "--save-transform: no transform raises IsoScore by more than its error: nothing to save"
        )
    save_transform(top.fitted, path)
