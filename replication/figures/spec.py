"""The spec of a figure."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, field_validator

from replication.spec import Spec, Strict


class Beside(Strict):
    """Rows of another table of the figure that are further curves, such as published ones."""

    table: int
    """Place of the table in the figure's `tables`."""
    where: dict[str, list[str | bool]] = {}
    """Column -> values of the rows to show."""
    texts: dict[str, str]
    """Column of the first table -> its text for these rows, with values of columns of this table
    in braces: `{"setup": "{model}, published"}`."""


class Interactive(Strict):
    """Which columns of a table readers can explore below the printed figure.

    Rows with the same values in `by` are a curve, or a set of points; each value of `by` can be
    switched off. The first column of `by` with several values has colours, the second dashes or
    markers.
    """

    title: str = ""
    """What it shows, where a figure has several."""
    x: str
    """A column of numbers, or of texts, which stand in the order of the table."""
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
    beside: Beside | None = None
    """Further curves from another table."""
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
    interactive: list[Interactive] = []
    """What readers can explore, in `results/figures/<id>.js`, one below another."""
    needs: str | None = None
    """Part of the paper's study that the figure needs; without it there is no such figure."""
    section: str
    """Section of the paper."""
    caption: Annotated[str, Field(min_length=1)]
    title: str
    """What is seen: the title of the figure, and its heading on the paper's page."""

    @field_validator("interactive", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        """A declaration of one needs no list."""
        return list(value) if isinstance(value, list | tuple) else [value]
