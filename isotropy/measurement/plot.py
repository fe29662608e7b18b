"""`isotropy.plot_layers`: scores against layers, for one or several models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from isotropy.errors import IsotropyError, suggest
from isotropy.measurement.differences import ERROR, is_result, score_names
from isotropy.models.hidden_states import OUTPUT

STANDARD_ERRORS = 2
"""Half the width of the intervals: about 95 %."""


def plot_layers(
    results: pd.DataFrame | Mapping[str, pd.DataFrame], scores: str | Sequence[str] | None = None
) -> Figure:
    """Draw the scores of layers, with intervals of two standard errors where they are known.

    Args:
        results: a result of `isotropy.measure` with several layers; or several, by their names in
            the legend.
        scores: columns to draw; None: all.

    Returns:
        A figure with a panel per score, and a line per result. `figure.savefig` writes it.

    Raises:
        IsotropyError: a result without layers, or a column that none has.

    Example:
        >>> import numpy as np, isotropy
        >>> layers = np.random.default_rng(0).normal(size=(3, 100, 8))
        >>> result = isotropy.measure(layers, metrics=["isoscore", "mean_cosine"])
        >>> figure = isotropy.plot_layers(result)
        >>> print(", ".join(axes.get_title(loc="left") for axes in figure.axes))
        isoscore, isoscore unbiased, mean cosine
    """
    named = dict(results) if isinstance(results, Mapping) else {"": results}
    tables = []
    for name, frame in named.items():
        if not is_result(frame) or "layer" not in frame:
            raise IsotropyError("expected results of isotropy.measure with a column layer")
        without = frame[frame["transform"] == "none"] if "transform" in frame else frame
        tables.append(_long(without).assign(result=name))
    table = pd.concat(tables, ignore_index=True)
    table = _choose(table, [scores] if isinstance(scores, str) else scores)
    table["position"] = table["layer"].map(_positions(list(dict.fromkeys(table["layer"]))))
    return _draw(table, list(named))


def _positions(layers: Sequence[str]) -> dict[str, int]:
    """Place layers by their numbers, the output after the last; if they have names, in order."""
    names = [layer for layer in layers if layer != OUTPUT]
    are_numbers = all(_is_number(name) for name in names)
    positions = {name: int(name) if are_numbers else i for i, name in enumerate(names)}
    return positions | {OUTPUT: max(positions.values(), default=-1) + 1}


def _is_number(layer: str) -> bool:
    return layer.removeprefix("-").isdecimal()


def _long(frame: pd.DataFrame) -> pd.DataFrame:
    """A row per layer and score, with the ends of its interval."""
    parts = []
    for name in score_names(frame):
        value = frame[name].astype(float)
        error = frame.get(f"{name}{ERROR}", pd.Series(float("nan"), frame.index)).astype(float)
        ends = {"low": value - STANDARD_ERRORS * error, "high": value + STANDARD_ERRORS * error}
        layers = frame["layer"].astype(str)
        parts.append(pd.DataFrame({"layer": layers, "score": name, "value": value, **ends}))
    return pd.concat(parts).dropna(subset="value")


def _choose(table: pd.DataFrame, scores: Sequence[str] | None) -> pd.DataFrame:
    """The rows of some scores, in their order."""
    names = list(dict.fromkeys(table["score"]))
    for name in scores or []:
        if name not in names:
            raise IsotropyError(f"no score {name!r}; {suggest(name, names, 'in the results')}")
    order = {name: i for i, name in enumerate(scores or names)}
    return table[table["score"].isin(order)].sort_values(
        "score", key=lambda s: s.map(order), kind="stable"
    )


def _draw(table: pd.DataFrame, names: Sequence[str]) -> Figure:
    scores = list(dict.fromkeys(table["score"]))
    figure = Figure(figsize=(3.2 * len(scores), 2.6), layout="constrained")
    ticks = table.drop_duplicates("position").sort_values("position")
    for axes, score in zip(np.ravel(figure.subplots(1, len(scores))), scores, strict=True):
        for name in names:
            line = table[(table["score"] == score) & (table["result"] == name)]
            ends = (line["value"] - line["low"], line["high"] - line["value"])
            axes.errorbar(line["position"], line["value"], ends, label=name, marker="o", ms=4)
        axes.set_title(score.replace("_", " "), loc="left", fontsize="medium")
        axes.set_xlabel("layer")
        axes.grid(alpha=0.3)
        if not all(map(_is_number, ticks["layer"])):
            axes.set_xticks(ticks["position"], ticks["layer"])
    if list(names) != [""]:
        axes.legend()
    if table["low"].notna().any():
        figure.supxlabel(f"Intervals: {STANDARD_ERRORS} standard errors.", fontsize="small")
    return figure
