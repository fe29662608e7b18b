"""The spec of a figure."""

from __future__ import annotations

from isotropy.spec import Spec, Strict


class Interactive(Strict):
    """Which columns of a table readers can explore below the printed figure.

    Rows with the same values in `by` are a curve, or a set of points; each value of `by` can be
    switched off. The first column of `by` with several values has colours, the second dashes or
    markers.
    """

    x: str
    y: list[str]
    """One chart each."""
    together: str | None = None
    """Label of the one chart that has all of `y`, as curves that can be switched off."""
    by: list[str]
    show: list[str] = []
    """Further columns in the text of a point."""
    labels: dict[str, str] = {}
    """Texts of columns, and of values of `by`."""
    where: dict[str, list[str | bool]] = {}
    """Column -> values of the rows to show."""
    table: int = 0
    """Place of the table in the figure's `tables`."""
    join: bool = True
    """Whether points of the same `by` are joined, in the order of `x`."""
    log_x: bool = False


class FigureSpec(Spec):
    """The spec of a figure, which is also its entry on the paper's page."""

    id: str
    """Paper and number: `results/figures/<id>.pdf`, `.svg`, `.png`."""
    function: str
    """Function in the paper's `figures.py`."""
    tables: list[str]
    """Tables that it reads, in the order of the function's arguments."""
    interactive: Interactive | None = None
    """What readers can explore, in `results/figures/<id>.js`; null: nothing."""
    needs: str | None = None
    """Part of the paper's study that the figure needs; without it there is no such figure."""
    rehearsal: bool = False
    """Whether the study is a rehearsal, which a figure without inputs cannot learn from a
    source."""
    section: str
    """Section of the paper."""
    caption: str
    title: str
    """What is seen: the title of the figure, and its heading on the paper's page."""
