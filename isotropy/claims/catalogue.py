"""The table and the figures of the verdicts on all papers' claims."""

from __future__ import annotations

from isotropy.figures.spec import FigureSpec
from isotropy.tables.spec import TableSpec

VERDICTS = TableSpec(
    id="claims/verdicts",
    function="evaluate",
    section="all",
    caption=(
        "Every claim of the papers against our number. Reproduced, deviates, contradicted: on the "
        "paper's own data, model and protocol (original); consistent, inconsistent: on anything "
        "else (stand-in), which never counts as a reproduction; undecided: the interval does not "
        "tell. A headline speaks for its cases."
    ),
)
"""The table that the stage `claims` makes: `results/claims.parquet`."""

SCORECARD = TableSpec(
    id="claims/scorecard",
    function="scorecard",
    section="all",
    caption="Headline claims by model: the verdict as if the study had that model alone.",
)
"""The table by model: `results/scorecard.parquet`."""

PUBLISHED = FigureSpec(
    id="claims/published",
    function="published_against_obtained",
    tables=["claims"],
    section="all",
    caption="Published numbers beside ours, each with its 95 % interval.",
)

FIGURES = (
    PUBLISHED,
    FigureSpec(
        id=SCORECARD.id,
        function="claims_by_model",
        tables=["scorecard"],
        section="all",
        caption=SCORECARD.caption,
    ),
)
