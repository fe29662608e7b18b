"""What defines a figure."""

from __future__ import annotations

from isotropy.spec import Spec


class FigureSpec(Spec):
    """What defines a figure; also its entry on the paper's page."""

    id: str
    """Paper and number: `results/figures/<id>.pdf`, `.svg`, `.png`."""
    function: str
    """Function in the paper's `figures.py`."""
    tables: list[str]
    """Tables that it reads, in the order of the function's arguments."""
    needs: str | None = None
    """Part of the paper without which there is no such figure."""
    rehearsal: bool = False
    """Whether the study is a rehearsal: of a figure that is made from nothing, no source says
    so."""
    section: str
    """Section of the paper."""
    caption: str
