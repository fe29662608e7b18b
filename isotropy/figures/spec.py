"""The spec of a figure."""

from __future__ import annotations

from isotropy.spec import Spec


class FigureSpec(Spec):
    """The spec of a figure, which is also its entry on the paper's page."""

    id: str
    """Paper and number: `results/figures/<id>.pdf`, `.svg`, `.png`."""
    function: str
    """Function in the paper's `figures.py`."""
    tables: list[str]
    """Tables that it reads, in the order of the function's arguments."""
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
