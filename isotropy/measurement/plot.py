"""`isotropy.plot_layers`: scores against layers, for one or several models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib import rc_context
from matplotlib.figure import Figure

from isotropy.errors import IsotropyError, suggest
from isotropy.figures.draw import curve, footnote, look, panels
from isotropy.figures.names import legend, space_names
from isotropy.figures.style import use_style
from isotropy.measurement.differences import ERROR, is_result, score_names
from isotropy.measurement.models import OUTPUT

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
    last = max([float(layer) for layer in table["layer"] if layer != OUTPUT], default=-1)
    table["position"] = [last + 1 if x == OUTPUT else float(x) for x in table["layer"]]
    with rc_context():
        use_style()
        return _draw(table, list(named))


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
    figure, drawn = panels(
        table.assign(status=None),
        "score",
        title=lambda rows: str(rows["score"].iloc[0]).replace("_", " "),
        xlabel="layer",
        ylabel="",
    )
    ticks = table.drop_duplicates("position").sort_values("position")
    for axes, rows in drawn:
        for i, name in enumerate(names):
            line = rows[rows["result"] == name]
            if len(line):
                curve(axes, line, "position", "value", name or None, look(i), ("low", "high"))
        if OUTPUT in set(ticks["layer"]):
            axes.set_xticks(ticks["position"], ticks["layer"])
    if names != [""]:
        legend(figure)
        space_names(figure)
    if table["low"].notna().any():
        footnote(figure, f"Intervals: {STANDARD_ERRORS} standard errors.")
    return figure
