"""Differences of the scores of two measurements, and their standard errors."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from isotropy.errors import IsotropyError
from isotropy.measurement.output import FACTS
from isotropy.measurement.scores import Effects
from isotropy.metrics.isoscores import standard_error

if TYPE_CHECKING:
    import pandas as pd

ERROR = "_error"
"""End of the name of a score's standard error."""


class Measured(NamedTuple):
    """A result of `isotropy.measure`, and the effects of each row, if they are known."""

    frame: pd.DataFrame
    effects: Sequence[Effects] | None = None


def is_result(x: Any) -> bool:
    """Return whether something is a result of `isotropy.measure`, rather than vectors."""
    return hasattr(x, "columns") and {"input", "n", "d"} <= set(x.columns)


def score_names(frame: pd.DataFrame) -> list[str]:
    """Return the columns of a result that are scores, without their errors."""
    return [name for name in map(str, frame) if name not in FACTS and not name.endswith(ERROR)]


def differences(a: Measured, b: Measured, *, same_rows: bool) -> pd.DataFrame:
    """Compare results: a row per layer (and transform) and score, as in `isotropy.compare`.

    Args:
        a: the first.
        b: the second.
        same_rows: whether clouds of one size have the same rows, as they do unless rows were
            sampled.

    Raises:
        IsotropyError: no layer, or no score, in common.
    """
    import pandas as pd

    names = [name for name in score_names(a.frame) if name in b.frame]
    rows: list[dict[str, Any]] = []
    for key, i, j in _matches(a.frame, b.frame):
        first, second = a.frame.iloc[i], b.frame.iloc[j]
        effects = [each.effects[k] if each.effects else None for each, k in ((a, i), (b, j))]
        for name in names:
            values = {"a": first[name], "b": second[name], "difference": second[name] - first[name]}
            if math.isnan(values["difference"]):
                continue
            error = _paired_error(name, *effects, same_rows=same_rows)
            paired = error is not None
            if error is None:
                column = f"{name}{ERROR}"
                error = math.hypot(first.get(column, math.nan), second.get(column, math.nan))
            rows.append({**key, "score": name, **values, "error": error, "paired": paired})
    if not rows:
        raise IsotropyError("no score in common")
    return pd.DataFrame(rows)


def _matches(a: pd.DataFrame, b: pd.DataFrame) -> Iterator[tuple[dict[str, str], int, int]]:
    """Yield layer (and transform), and the numbers of its rows in both results."""
    keys = [_keys(frame) for frame in (a, b)]
    if len(a) == len(b) == 1:
        yield (keys[0][0] if keys[0] == keys[1] else {}), 0, 0
        return
    common = [key for key in keys[0] if key in keys[1]]
    if not common:
        layers = " and ".join(", ".join(k.get("layer", "none") for k in each) for each in keys)
        raise IsotropyError(f"no layer in common: {layers}: name one of each with layers")
    for key in common:
        if max(each.count(key) for each in keys) > 1:
            raise IsotropyError("expected results of one input each, with different layers")
        yield key, keys[0].index(key), keys[1].index(key)


def _keys(frame: pd.DataFrame) -> list[dict[str, str]]:
    names = [name for name in ("layer", "transform") if name in frame]
    rows = frame[names].astype(str).to_dict("records")
    return [{str(name): str(value) for name, value in row.items()} for row in rows]


def _paired_error(
    name: str, a: Effects | None, b: Effects | None, *, same_rows: bool
) -> float | None:
    """Standard error of a difference of scores from the influences of rows, or of sentences, that
    both have; None where they have none in common, or a score has no influences.
    """
    if a is None or b is None or name not in a.influences or name not in b.influences:
        return None
    first, second = a.influences[name], b.influences[name]
    if a.groups is None and b.groups is None and same_rows and len(first) == len(second):
        groups = np.tile(np.arange(len(first)), 2)
    elif a.groups is not None and b.groups is not None and np.isin(a.groups, b.groups).any():
        groups = np.concatenate([a.groups, b.groups])
    else:
        return None
    joint = torch.cat([first / len(first), -second / len(second)])
    try:
        return standard_error(joint, groups) * len(joint)
    except ValueError:  # all rows are of one sentence
        return None
