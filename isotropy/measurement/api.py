"""`isotropy.measure` and `isotropy.compare`: the command's numbers as data frames."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from isotropy.errors import IsotropyError, first_line, missing_package
from isotropy.measurement.differences import Measured, differences, is_result
from isotropy.measurement.output import to_frame
from isotropy.measurement.run import GROUPS, Measurement, Request, run
from isotropy.metrics.validation import as_array
from isotropy.read.clouds import PointCloud, cloud_from_array, require_matrix

if TYPE_CHECKING:
    import pandas as pd


def measure(
    x: Any,
    *,
    labels: Any = None,
    texts: Any = None,
    metrics: str | Sequence[str] | None = None,
    layers: str | int | Sequence[str | int] | None = None,
    transforms: bool = False,
    **options: Any,
) -> pd.DataFrame:
    """Measure embeddings: the numbers of the command `isotropy measure`, as a data frame.

    Args:
        x: an array or tensor of shape (n, d) or (layers, n, d), on any device; a data frame; a file
            of vectors, a model's folder or ORG/NAME[@REVISION] of a hub; a `SentenceTransformer`;
            or a pair of a model of transformers and its tokenizer. A model is not changed: a copy
            in single precision is saved in a temporary folder, and run.
        labels: class of each row, shape (n,); or what the command takes: a column of x, a field of
            the texts, or FILE[:FIELD].
        texts: for a model, n strings or FILE[:FIELD].
        metrics: names of metrics; None: all that are possible.
        layers: numbers of a model's layers, "output", or "all"; or names of arrays.
        transforms: compare transforms that may make the vectors more isotropic; a row for each.
        options: the command's others, by their names: `types` and `sentences` (as `labels`),
            `columns`, `separator`, `pooling`, `prompt`, `prompt_name`, `truncate_dim`, `sample`,
            `seed`, `clusters`, `components`, `device`.

    Returns:
        A row per layer (and transform) with scores and their standard errors (`…_error`), NaN where
        a layer has none. `attrs["notes"]` has the command's notes, `attrs["models"]` what was
        loaded.

    Raises:
        IsotropyError: an input that cannot be measured, or an invalid option.
        ModuleNotFoundError: a package of an extra is missing; the message says which.

    Example:
        >>> import numpy as np, isotropy
        >>> X = np.random.default_rng(0).normal(size=(500, 8)) * np.arange(1, 9)
        >>> isotropy.measure(X, metrics="mean_cosine").round(4)
           input    n  d  mean_cosine
        0  array  500  8      -0.0004
    """
    given = {"labels": labels, "texts": texts, "metrics": metrics, "layers": layers}
    with _plain_errors() as work:
        return _to_frame(_measure(x, {**given, "transforms": transforms, **options}, work), work)


def compare(a: Any, b: Any, **options: Any) -> pd.DataFrame:
    """Compare two embeddings, score by score.

    Args:
        a: what `measure` takes, or its result.
        b: the same. Layers of the same name are compared, or the only one of each.
        options: those of `measure`, for both, without `transforms`.

    Returns:
        A row per layer and score: `a`, `b`, `difference` (b - a), and its standard error, NaN where
        none is known. It is `paired` where row i of both is the same thing: if two inputs have the
        same number of rows and no `sample`, or (with `sentences`, or tokens of a model) sentences
        in common. For clouds drawn apart, the paired error is right as well, since the covariance
        that it estimates is 0. Of two results the rows are not known: their errors are those of
        clouds drawn apart.

    Raises:
        IsotropyError: as `measure`; or no layer in common.

    Example:
        >>> import numpy as np, isotropy
        >>> X = np.random.default_rng(0).normal(size=(500, 8)) * np.arange(1, 9)
        >>> isotropy.compare(X, X / X.std(axis=0), metrics="isoscore").round(3)
                       score      a      b  difference  error  paired
        0           isoscore  0.527  0.986       0.458  0.015    True
        1  isoscore_unbiased  0.533  1.005       0.472  0.015    True
    """
    if options.get("transforms"):
        raise IsotropyError("compare takes no transforms: give it results of measure with them")
    if options and is_result(a) and is_result(b):
        raise IsotropyError(f"{min(options)} is for measuring, and both are results of measure")
    with _plain_errors() as work:
        measured = []
        for name, x in (("a", a), ("b", b)):
            folder = work / name
            folder.mkdir()
            if is_result(x):
                measured.append(Measured(x))
            else:
                result = _measure(x, options, folder, keep_effects=True)
                measured.append(Measured(_to_frame(result, folder), result.effects))
        return differences(*measured, same_rows="sample" not in options)


@contextmanager
def _plain_errors() -> Iterator[Path]:
    """Yield a temporary folder. Errors name neither its files nor the command's dashes."""
    with tempfile.TemporaryDirectory(prefix="isotropy-", ignore_cleanup_errors=True) as name:
        try:
            import pandas  # noqa: F401

            yield Path(name)
        except IsotropyError as error:
            message = _without_folder(str(error.args[0]), Path(name))
            names = re.sub(r"--[a-z-]+", lambda option: option[0][2:].replace("-", "_"), message)
            raise IsotropyError(names) from None
        except ModuleNotFoundError as error:
            if (sentence := missing_package(error, measuring=True)) is None:
                raise
            raise ModuleNotFoundError(sentence, name=error.name) from None


def _without_folder(text: str, work: Path) -> str:
    """Replace paths of files in the temporary folder by what they stand for."""
    return re.sub(rf"{re.escape(str(work))}/(?:[ab]/)?([\w-]+)(?:\.\w+)?", r"\1", text)


def _measure(
    x: Any, options: dict[str, Any], work: Path, *, keep_effects: bool = False
) -> Measurement:
    unknown = set(options) - set(Request._fields) | {"inputs", "save_transform"} & set(options)
    if unknown:
        raise IsotropyError(f"measure has no option {min(unknown)!r}")
    given = {name: value for name, value in options.items() if value is not None}
    for name in ("metrics", "layers", "columns"):
        if name in given:
            given[name] = _listing(given[name])
    for name in ("texts", *GROUPS):
        if name in given and not isinstance(given[name], str):
            given[name] = _save_values(given[name], name, work)
    truncate_dim = None if "pooling" in given else getattr(x, "truncate_dim", None)
    if truncate_dim is not None:
        given.setdefault("truncate_dim", truncate_dim)
    return run(Request([_input(x, work)], **given), work, keep_effects=keep_effects)


def _listing(value: Any) -> str:
    """Join names by commas, as the command takes them."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        return str(value)
    return ",".join(map(str, value))


def _save_values(values: Any, name: str, work: Path) -> str:
    """Save the texts or groups of rows for the command; paths are the command's already."""
    if isinstance(values, Path):
        return str(values)
    import pandas as pd

    if isinstance(values, torch.Tensor):
        values = values.detach().cpu().numpy()
    values = np.asarray(values, dtype=object) if isinstance(values, list) else values
    shape: tuple[int, ...] = getattr(values, "shape", ())
    if len(shape) == 2 and shape[1] == 1:  # a column
        values = np.asarray(values)[:, 0]
    elif len(shape) > 1:
        raise IsotropyError(f"{name}: expected one per row, got an array of the shape {shape}")
    series = pd.Series(values)
    file = work / f"{name}.jsonl"
    with file.open("w", encoding="utf8") as stream:
        for value in series.astype(object).where(series.notna(), None).tolist():
            stream.write(json.dumps({"value": value}, default=str) + "\n")
    return str(file)


def _input(x: Any, work: Path) -> str | dict[str, PointCloud]:
    """The input as `run` takes it: a name, clouds, or what was saved of it."""
    if isinstance(x, str | Path):
        return str(x)
    parts = x if isinstance(x, tuple | list) else (x,)
    if parts and all(hasattr(part, "save_pretrained") for part in parts):
        return _save_model(parts, work)
    if hasattr(x, "to_parquet"):
        file = work / "DataFrame.parquet"
        try:
            x.to_parquet(file)
        except (ValueError, TypeError) as error:  # of pyarrow
            raise IsotropyError(
                f"DataFrame: {' '.join(map(str, error.args))}: give each column one type, or "
                "leave the column out"
            ) from None
        return str(file)
    return _clouds(x)


def _save_model(parts: Sequence[Any], work: Path) -> str:
    """Save a model of sentence-transformers, or one of transformers and its tokenizer."""
    name = type(parts[0]).__name__
    if len(parts) == 1 and not hasattr(parts[0], "tokenizer"):
        raise IsotropyError(
            f"{name}: a model needs its tokenizer: give the pair (model, tokenizer)"
        )
    from transformers.utils import logging

    logging.disable_progress_bar()  # saving is too fast for one to be of use
    for part in parts:
        part.save_pretrained(str(work / name))
    return str(work / name)


def _clouds(x: Any) -> dict[str, PointCloud]:
    """Clouds of an array, shape (n, d), or of one per layer, shape (layers, n, d)."""
    if isinstance(x, torch.Tensor):
        x = x.detach().cpu()
        x = (x.float() if x.dtype == torch.bfloat16 else x).numpy()
    try:
        array = as_array(x, "array")
    except (ValueError, TypeError) as error:
        raise IsotropyError(first_line(error)) from None
    if array.dtype.kind not in "fiub":
        raise IsotropyError(f"array: expected real numbers, got {type(x).__name__}")
    layers = array if array.ndim == 3 else array[None]
    if not len(layers):
        raise IsotropyError(f"array: no layers, the shape is {array.shape}")
    require_matrix("array", layers.shape[1:] if array.ndim == 3 else array.shape)
    return {
        str(i) if array.ndim == 3 else "": cloud_from_array(
            "array", i if array.ndim == 3 else "", layer
        )
        for i, layer in enumerate(layers)
    }


def _to_frame(result: Measurement, work: Path) -> pd.DataFrame:
    """The rows of a result; notes and facts of the models are attributes."""
    frame = to_frame(result.rows)
    frame["input"] = [_without_folder(name, work) for name in frame["input"]]
    frame.attrs = {
        "notes": [_without_folder(note, work) for note in result.notes],
        "models": {_without_folder(name, work): facts for name, facts in result.models.items()},
    }
    return frame
