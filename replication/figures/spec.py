"""The spec of a figure."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from replication.spec import Spec


class FigureSpec(Spec):
    """The spec of a figure, which is also its entry on the paper's page."""

    id: str
    """Paper and number: `results/figures/<id>.pdf`, `.svg`, `.png`."""
    function: str
    """Function in the paper's `figures.py`."""
    tables: list[str]
    """Tables that it reads, in the order of the function's arguments."""
    explore: bool = False
    """Whether readers can explore its points, in `results/figures/<id>.js`."""
    needs: str | None = None
    """Part of the paper's study that the figure needs; without it there is no such figure."""
    section: str
    """Section of the paper."""
    caption: Annotated[str, Field(min_length=1)]
    title: str
    """What is seen: the title of the figure, and its heading on the paper's page."""
