"""Measure inputs: a row per layer, and per transform, with scores and their errors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import numpy as np

from isotropy.console import plain_console
from isotropy.errors import IsotropyError, suggest
from isotropy.measurement.inputs import GROUPS, Request, open_input
from isotropy.measurement.scores import METRICS, Effects, Groups, measure_cloud, sample_cloud
from isotropy.models.hidden_states import Pooling
from isotropy.read.clouds import PointCloud

if TYPE_CHECKING:
    from isotropy.measurement.enhancement import Enhanced

Row = dict[str, Any]
MINIMA = {"sample": 3, "clusters": 1, "components": 0, "seed": 0, "truncate_dim": 2}
"""Smallest values of options."""


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


def print_metrics() -> None:
    """Print all metrics, one per line."""
    console = plain_console()
    for name, metric in METRICS.items():
        needs = f" (needs --{metric.needs})" if metric.needs else ""
        console.print(f"{name:26}{metric.summary}{needs}", soft_wrap=True)


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
    rows: list[Row] = []
    notes: list[str] = []
    read: list[Path] = []
    models: dict[str, dict[str, Any]] = {}
    effects: list[Effects] = []
    for x in request.inputs:
        opened = open_input(x, request, work)
        notes += opened.notes
        read += opened.read
        if opened.model is not None:
            models[opened.clouds[0].input] = opened.model
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
    """Names of the metrics that are asked for, in their order; None: all that the input allows."""
    if request.metrics is None:
        return None
    for name in request.metrics:
        if name not in METRICS:
            hint = suggest(name, METRICS, "by --metrics list")
            raise IsotropyError(f"--metrics: no metric {name!r}; {hint}")
    return [name for name in METRICS if name in request.metrics]


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
