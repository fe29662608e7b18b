"""`isotropy.measure` and `isotropy.compare`: the command's numbers as data frames."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isotropy.errors import InputError, IsotropyError, missing_package
from isotropy.measurement.differences import Measured, differences, is_result
from isotropy.measurement.inputs import Request, make_request
from isotropy.measurement.output import to_frame
from isotropy.measurement.run import Measurement, run

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
        x: an array or tensor of shape (n, d) or (layers, n, d), on any device; a data frame of
            pandas, polars, Arrow, or any that exports Arrow's C stream or the dataframe
            interchange; a file of vectors, a model's folder or ORG/NAME[@REVISION] of a hub; a
            `SentenceTransformer`; or a pair of a model of transformers and its tokenizer. A model
            is run as it is, in evaluation mode: its class, hooks, precision and device are kept.
        labels: class of each row, shape (n,), compared by value: 1 is 1.0, and not "1"; or what the
            command takes: a column of x, a field of the texts, or FILE[:FIELD].
        texts: for a model, n strings or FILE[:FIELD].
        metrics: names of metrics; None: all that are possible.
        layers: numbers of a model's layers, "output", or "all"; or names of arrays.
        transforms: compare transforms that may make the vectors more isotropic; a row for each.
        options: the command's others, by their names: `types` and `sentences` (as `labels`),
            `columns`, `separator`, `quoting`, `pooling`, `prompt`, `prompt_name`, `truncate_dim`,
            `sample`, `seed`, `clusters`, `components`, `device`.

    Returns:
        A row per layer (and transform) with scores and their standard errors (`…_error`), NaN where
        a layer has none. `attrs["notes"]` has the command's notes, `attrs["models"]` what was
        loaded.

    Raises:
        InputError: an input that cannot be measured, or an invalid option; it is an IsotropyError
            and a ValueError.
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
        return _to_frame(_measure(x, {**given, "transforms": transforms, **options}, work))


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
        InputError: as `measure`; or no layer in common.

    Example:
        >>> import numpy as np, isotropy
        >>> X = np.random.default_rng(0).normal(size=(500, 8)) * np.arange(1, 9)
        >>> isotropy.compare(X, X / X.std(axis=0), metrics="isoscore").round(3)
                       score      a      b  difference  error  paired
        0           isoscore  0.527  0.986       0.458  0.015    True
        1  isoscore_unbiased  0.533  1.005       0.472  0.015    True
    """
    if options.get("transforms"):
        raise InputError("compare takes no transforms: give it results of measure with them")
    if options and is_result(a) and is_result(b):
        raise InputError(f"{min(options)} is for measuring, and both are results of measure")
    # Both need the values of a generator
    options = {k: list(v) if isinstance(v, Iterator) else v for k, v in options.items()}
    with _plain_errors() as work:
        measured = []
        for x in (a, b):
            if is_result(x):
                measured.append(Measured(x))
            else:
                result = _measure(x, options, work, keep_effects=True)
                measured.append(Measured(_to_frame(result), result.effects))
        return differences(*measured, same_rows="sample" not in options)


@contextmanager
def _plain_errors() -> Iterator[Path]:
    """Yield a folder for data that do not fit memory. Errors name parameters, not the command's
    options, and are a ValueError as well.
    """
    with tempfile.TemporaryDirectory(prefix="isotropy-", ignore_cleanup_errors=True) as name:
        try:
            import pandas  # noqa: F401

            yield Path(name)
        except IsotropyError as error:
            message = str(error.args[0])
            names = re.sub(r"--[a-z-]+", lambda option: option[0][2:].replace("-", "_"), message)
            raise InputError(names) from None
        except ModuleNotFoundError as error:
            if (sentence := missing_package(error, measuring=True)) is None:
                raise
            raise ModuleNotFoundError(sentence, name=error.name) from None


def _measure(
    x: Any, options: dict[str, Any], work: Path, *, keep_effects: bool = False
) -> Measurement:
    unknown = set(options) - set(Request._fields) | {"inputs", "save_transform"} & set(options)
    if unknown:
        raise IsotropyError(f"measure has no option {min(unknown)!r}")
    return run(make_request([x], options), work, keep_effects=keep_effects)


def _to_frame(result: Measurement) -> pd.DataFrame:
    """The rows of a result; notes and facts of the models are attributes."""
    frame = to_frame(result.rows)
    frame.attrs = {"notes": result.notes, "models": result.models}
    return frame
