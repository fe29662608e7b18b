"""Measure inputs: which they are, what is known of their rows, and their scores."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import numpy as np

from isotropy.errors import IsotropyError, suggest
from isotropy.measure.arrays import open_file
from isotropy.measure.clouds import PointCloud
from isotropy.measure.hub import fetch_model, is_hub_id
from isotropy.measure.models import Pooling, embed_texts
from isotropy.measure.scores import METRICS, Groups, measure_cloud
from isotropy.metrics.validation import sample_rows
from isotropy.sources.text_files import Column, column, read_labels, read_texts

if TYPE_CHECKING:
    from isotropy.measure.enhancement import Enhanced

Row = dict[str, Any]
GROUPS = Groups._fields


class Request(NamedTuple):
    """What is asked for: the arguments of `isotropy measure`."""

    inputs: list[str]
    texts: str | None = None
    layers: str | None = None
    pooling: str | None = None
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


class Result(NamedTuple):
    """What was measured.

    Attributes:
        rows: one per layer, and one per transform of it.
        notes: sentences for the user.
        read: files and folders that were read.
    """

    rows: list[Row]
    notes: list[str]
    read: list[Path]


class _Opened(NamedTuple):
    clouds: list[PointCloud]
    groups: Groups
    notes: list[str]
    read: list[Path]


def print_metrics() -> None:
    """All metrics, a line each."""
    from rich.console import Console

    console = Console(highlight=False)
    for name, metric in METRICS.items():
        needs = f" (needs --{metric.needs})" if metric.needs else ""
        console.print(f"{name:26}{metric.summary}{needs}", markup=False, soft_wrap=True)


def run(request: Request, work: Path) -> Result:
    """Measure all inputs.

    Args:
        request: what is asked for.
        work: a folder for what does not fit memory.

    Raises:
        IsotropyError: what cannot be done, in one sentence.
    """
    _require_sound(request)
    wanted = _metrics(request)
    texts = None if request.texts is None else column(request.texts)
    rows: list[Row] = []
    notes: list[str] = []
    read: list[Path] = []
    for given in request.inputs:
        opened = _open(given, request, texts, work)
        notes += opened.notes
        read += opened.read
        if request.save_transform and len(opened.clouds) * len(request.inputs) > 1:
            raise IsotropyError("--save-transform: name one layer of one input with --layers")
        said: dict[str, list[str]] = {}
        for cloud in opened.clouds:
            found, about = _measured(cloud, opened.groups, wanted, request)
            rows += found
            for note in about:
                said.setdefault(note, []).append(str(cloud.layer))
        notes += [_of_layers(note, of, len(opened.clouds)) for note, of in said.items()]
    return Result(rows, list(dict.fromkeys(notes)), list(dict.fromkeys(read)))


def _of_layers(note: str, layers: list[str], n: int) -> str:
    """A note, with the layers that it is about if it is not about all."""
    if len(layers) == n:
        return note
    return f"{'layer' if len(layers) == 1 else 'layers'} {', '.join(layers)}: {note}"


def _require_sound(request: Request) -> None:
    for name, least in (("sample", 3), ("clusters", 1), ("components", 0), ("seed", 0)):
        value = getattr(request, name)
        if value is not None and value < least:
            raise IsotropyError(f"--{name}: expected {least} or more, got {value}")
    if request.pooling is not None and request.pooling not in get_args(Pooling):
        hint = suggest(request.pooling, get_args(Pooling), "in the help")
        raise IsotropyError(f"--pooling: expected {', '.join(get_args(Pooling))}; {hint}")
    path = request.save_transform
    if path is not None and path.suffix != ".safetensors":
        raise IsotropyError(f"--save-transform: expected a .safetensors, got {path}")


def _metrics(request: Request) -> list[str] | None:
    """Names that are asked for; None: all that make sense."""
    if request.metrics is None:
        return None
    names = list(dict.fromkeys(name.strip() for name in request.metrics.split(",")))
    for name in names:
        if name not in METRICS:
            hint = suggest(name, METRICS, "by --metrics list")
            raise IsotropyError(f"--metrics: no metric {name!r}; {hint}")
    return [name for name in METRICS if name in names]


def _open(given: str, request: Request, texts: Column | None, work: Path) -> _Opened:
    """The clouds of an input, and what is known of their rows."""
    layers = None if request.layers is None else [x.strip() for x in request.layers.split(",")]
    path = Path(given)
    if path.is_file() or (not path.exists() and path.suffix and not is_hub_id(given)):
        if not path.is_file():
            raise IsotropyError(f"{path}: no such file")
        if request.texts is not None or request.pooling is not None:
            raise IsotropyError(f"{path}: --texts and --pooling are for models, this is a file")
        clouds = open_file(path, None if layers == ["all"] else layers, work)
        groups = {name: _of_rows(request, name, path, None, clouds[0].n) for name in GROUPS}
        return _Opened(clouds, Groups(**groups), [], [path])
    if path.is_dir():
        folder, note = path, []
    elif is_hub_id(given):
        folder, revision = fetch_model(given)
        note = [f"{given}: revision {revision}"]
    else:
        raise IsotropyError(f"{given}: no such file or folder; a model of a hub is ORG/NAME")
    if texts is None:
        raise IsotropyError(f"{given}: a model needs texts to embed: --texts FILE[:FIELD]")
    opened = _embedded(given, folder, layers, request, texts, work)
    return opened._replace(notes=note + opened.notes)


def _embedded(
    given: str,
    folder: Path,
    layers: list[str] | None,
    request: Request,
    texts: Column,
    work: Path,
) -> _Opened:
    """The layers of a model, of texts or of their tokens."""
    lines = read_texts(texts)
    known = {name: _of_rows(request, name, None, texts, len(lines)) for name in GROUPS}
    chosen = np.arange(len(lines))
    if request.sample is not None and request.pooling != "tokens":
        chosen = sample_rows(len(lines), request.sample, request.seed).numpy()
    found = embed_texts(
        given,
        folder,
        [lines[i] for i in chosen],
        layers=layers,
        pooling=request.pooling,  # type: ignore[arg-type]
        device=request.device,
        work=work,
    )
    groups = Groups(
        **{
            name: None if values is None else values[chosen][found.texts]
            for name, values in known.items()
        }
    )
    if found.types is not None:  # tokens: their pieces and texts are known
        groups = groups._replace(
            types=found.types if groups.types is None else groups.types,
            sentences=found.texts if groups.sentences is None else groups.sentences,
        )
    return _Opened(found.clouds, groups, found.notes, [folder, texts.path])


def _of_rows(
    request: Request, name: str, input: Path | None, texts: Column | None, n: int
) -> np.ndarray | None:
    """What is known of each row: of a file of its own, a field of the texts, or of the input."""
    value = getattr(request, name)
    if value is None:
        return None
    if Path(value).is_file() or Path(value.rpartition(":")[0]).is_file():
        source = column(value)
    elif texts is not None:
        source = Column(texts.path, value)
    elif input is not None and input.suffix == ".parquet":
        source = Column(input, value)
    else:
        raise IsotropyError(f"--{name} {value}: no such file; give FILE or FILE:FIELD")
    found = read_labels(source, name)
    if len(found) != n:
        raise IsotropyError(f"--{name}: {source} has {len(found)} rows, the input has {n}")
    return found


def _measured(
    cloud: PointCloud, groups: Groups, wanted: list[str] | None, request: Request
) -> tuple[list[Row], list[str]]:
    """Rows of a layer, and notes."""
    known = {name for name in GROUPS if getattr(groups, name) is not None} | {""}
    names = [name for name in METRICS if METRICS[name].needs in known]
    if wanted is not None:
        for name in wanted:
            if name not in names:
                raise IsotropyError(f"--metrics {name} needs --{METRICS[name].needs}")
        names = wanted
    if groups.labels is not None and len(np.unique(groups.labels)) < 2:
        raise IsotropyError("--labels: expected at least 2 classes, all labels are equal")
    scores = measure_cloud(
        cloud,
        groups,
        names,
        required=wanted is not None,
        sample=request.sample,
        seed=request.seed,
    )
    about: Row = {"input": cloud.input, "layer": cloud.layer, "n": cloud.n, "d": cloud.d}
    if request.sample is not None:
        about["n"] = min(cloud.n, request.sample)
    if not request.transforms and request.save_transform is None:
        return [about | scores.columns], scores.notes
    from isotropy.measure.enhancement import advice, candidates, enhance  # loads scikit-learn: 2 s

    todo = candidates(cloud.d, request.clusters, request.components, request.seed)
    found = enhance(cloud, todo, request.seed)
    if request.save_transform is not None:
        _save(found, request.save_transform)
    rows = [about | {"transform": row.transform} | _columns(row) for row in found]
    rows[0] |= scores.columns
    return rows, [*scores.notes, advice(found)]


def _columns(row: Enhanced) -> Row:
    return {"isoscore": row.isoscore, "log10_isotropy_matched": row.matched}


def _save(found: list[Enhanced], path: Path) -> None:
    from isotropy.measure.enhancement import best
    from isotropy.transform_files import save_transform

    top = best(found)
    if top.fitted is None:
        raise IsotropyError("--save-transform: no transform raises IsoScore: nothing to save")
    save_transform(top.fitted, path)
