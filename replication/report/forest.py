"""Arrange the statements of a page as forest plots: those on one scale share an axis, on which the
published numbers, the bounds and ours have positions in per cent of its width.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.scale import LogTransform, SymmetricalLogTransform
from matplotlib.ticker import LogLocator, MaxNLocator, SymmetricalLogLocator
from matplotlib.transforms import IdentityTransform, Transform

from isotropy.printable import print_minus
from replication.claims.scales import Scale
from replication.palette import SIGNS

INSET = 3.0
"""Width in per cent that stays free at both ends of an axis, for marks and labels."""
MOST_TICKS = 6
LINE_HEIGHT, MIN_HEIGHT, MAX_HEIGHT = 11, 26, 90
"""Height of a line of a plot, and of a whole plot, in pixels."""
LOG_LINEAR = 1.0
"""Numbers below this size are linear on a symmetrical logarithmic axis."""
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


class Axis(NamedTuple):
    """An axis of a forest plot.

    Attributes:
        transform: from numbers to places.
        ends: places of its ends.
        ticks: numbers with a tick.
    """

    transform: Transform
    ends: tuple[float, float]
    ticks: list[float]

    def position(self, value: float) -> float:
        """The position of a number in per cent of the width; that of the nearer end if beyond."""
        low, high = self.ends
        place = float(self.transform.transform(np.array([value]))[0])
        share = min(max((place - low) / (high - low), 0.0), 1.0)
        return round(INSET + (100 - 2 * INSET) * share, 1)


def forest(statements: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Group statements by scale, each group with an axis; statements stand in the order of the
    paper's sections, groups in that of their first statement. Statements and cases get `marks`, and
    statements their place in both orders (`by_section`, `by_verdict`).

    Args:
        statements: statements with a number (`replication.report.verdicts.group_statements`).
    """
    ordered = sorted(statements, key=lambda statement: section_order(statement["head"]["locator"]))
    groups: dict[Scale, list[dict[str, Any]]] = {}
    for i, statement in enumerate(ordered):
        head = statement["head"]
        head["by_section"], head["by_verdict"] = i, list(SIGNS).index(head["group"])
        groups.setdefault(head["scale"], []).append(statement)
    return [_group(i, scale, rows) for i, (scale, rows) in enumerate(groups.items())]


def section_order(locator: str) -> tuple[int, ...]:
    """Sort key of a place in a paper: abstract, sections, appendices, then all else.

    Examples:
        >>> sorted(["slides", "section 10", "Appendix B", "section 4.1", "abstract"],
        ...        key=section_order)
        ['abstract', 'section 4.1', 'section 10', 'Appendix B', 'slides']
    """
    if locator.startswith("abstract"):
        return (0,)
    if numbers := re.search(r"section (\d+(?:\.\d+)*)", locator):
        return tuple(map(int, numbers[1].split(".")))
    return (998,) if locator.startswith("Appendix") else (999,)


def _group(number: int, scale: Scale, rows: list[dict[str, Any]]) -> dict[str, Any]:
    claims = [claim for row in rows for claim in (row["head"], *row["cases"])]
    axis = _axis(scale, [v for c in claims if c["scale"] == scale for v in c["values"].values()])
    for row in rows:
        head, cases = row["head"], row["cases"]
        for claim in (head, *cases):
            claim["marks"] = _marks([claim], scale, axis)
        if not head["values"]:
            head["marks"] = _marks(row["decisive"], scale, axis)
    return {
        "id": f"axis-{number}",
        "label": scale.label,
        "ticks": [(axis.position(tick), _tick(tick)) for tick in axis.ticks],
        "zero": axis.position(0) if scale.axis != "log" else None,
        "statements": rows,
    }


def _axis(scale: Scale, values: list[float]) -> Axis:
    """Fit the axis of a scale to numbers; a logarithmic one to those above zero."""
    if scale.axis == "log":
        values = [value for value in values if value > 0] or [1.0]
        low, high = min(values), max(values)
        subs = (1.0, 2.0, 5.0) if high < 10 * low else (1.0,)
        ticks = LogLocator(subs=subs, numticks=MOST_TICKS).tick_values(low, high)
        return _covering(LogTransform(10), low, high, ticks)
    low, high = (end(0.0, *values, *(scale.limits or ())) for end in (min, max))
    if scale.axis == "symlog":
        locator = SymmetricalLogLocator(base=10, linthresh=LOG_LINEAR)
        locator.set_params(numticks=MOST_TICKS)
        transform = SymmetricalLogTransform(10, LOG_LINEAR, 1)
        return _covering(transform, low, high, locator.tick_values(low, high))
    high = high if high > low else 1.0
    ticks = MaxNLocator(nbins=6, steps=[1, 2, 5, 10]).tick_values(low, high)
    return _covering(IdentityTransform(), low, high, ticks)


def _covering(transform: Transform, low: float, high: float, given: Sequence[float]) -> Axis:
    """An axis from a low to a high number, or as far as the ticks next to them."""
    ticks = np.unique(given)
    low = max(ticks[ticks <= low], default=low)
    high = min(ticks[ticks >= high], default=high)
    start, end = transform.transform(np.array([low, high]))
    within = ticks[(ticks >= low) & (ticks <= high)]
    return Axis(transform, (float(start), float(end)), [float(tick) for tick in within])


def _marks(claims: list[dict[str, Any]], scale: Scale, axis: Axis) -> dict[str, Any]:
    """Positions of claims on a scale: their bounds and published numbers, each once, and a line per
    claim with our number and its interval; lines are stacked.
    """
    drawn = [claim for claim in claims if claim["values"] and claim["scale"] == scale]
    positions = [
        {name: axis.position(value) for name, value in claim["values"].items()} for claim in drawn
    ]
    height = min(max(LINE_HEIGHT * len(drawn), MIN_HEIGHT), MAX_HEIGHT)
    step = height / max(len(drawn), 1)
    return {
        "height": height,
        "bounds": sorted({p["bound"] for p in positions if "bound" in p}),
        "lines": [
            {
                "group": claim["group"],
                "y": round((i + 0.5) * step),
                "text": f"{claim.get('label', '')} {claim['obtained']} {claim['interval']}".strip(),
                **position,
            }
            for i, (claim, position) in enumerate(zip(drawn, positions, strict=True))
        ],
    }


def _tick(value: float) -> str:
    """A number at a tick; powers of ten as such where they are long."""
    size = abs(value)
    if size and not 1e-3 <= size < 1e5:
        power = str(round(math.log10(size))).translate(SUPERSCRIPTS)
        return print_minus(f"{'-' if value < 0 else ''}10{power}")
    return print_minus(f"{value:.6g}")
