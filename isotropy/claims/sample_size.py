"""How large a study must be to decide a claim that is undecided."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas as pd

from isotropy.claims.judge import FEWEST
from isotropy.errors import IsotropyError, suggest
from isotropy.tables.spec import TableSpec


def runs_needed(claim: str, verdicts: pd.DataFrame) -> tuple[int, str]:
    """Runs with which an undecided claim or family would be decided with a power of 80 %, by the
    spread that was observed, and the table that it reads.

    Args:
        claim: id of a claim or a family.
        verdicts: the table of verdicts.

    Raises:
        IsotropyError: no such claim, none of its cases is undecided, or more runs do not help.
    """
    of_claim = verdicts[(verdicts["id"] == claim) | (verdicts["family"] == claim)]
    if of_claim.empty:
        known = [*verdicts["id"].unique(), *verdicts["family"].unique()]
        raise IsotropyError(f"no claim {claim!r}: {suggest(claim, known)}")
    cases = of_claim[of_claim["obtained"].notna()]
    undecided = cases[cases["word"] == "undecided"]
    if undecided.empty:
        raise IsotropyError(f"{claim}: no case of it is undecided in these results")
    if not (undecided["unit"] == "seeds").all():
        units = ", ".join(sorted(undecided.loc[undecided["unit"] != "seeds", "unit"].unique()))
        raise IsotropyError(
            f"{claim}: its interval is over {units}, which more runs do not narrow; the column "
            "`needed` of claims.csv says how many it would take"
        )
    few = undecided["n_units"] < FEWEST
    needed = undecided["needed"].mask(few & undecided["needed"].isna(), FEWEST)
    if needed.isna().any():
        where = undecided.loc[needed.isna(), "setup"].iloc[0]
        raise IsotropyError(
            f"{claim}: {where} lies so near to the bound that no number of runs would decide it"
        )
    return max(FEWEST, int(needed.max())), str(undecided["table"].iloc[0])


def overlay(section: str, path: str, n: int, current: Any) -> dict[str, Any]:
    """Configuration with more runs, and the rest as it is.

    Args:
        section: of the paper.
        path: of the field that holds runs, below the section.
        n: how many.
        current: what the field is now: a list of seeds, or a number of runs.
    """
    value: Any = list(range(n)) if isinstance(current, list) else n
    for name in reversed([section, *path.split(".")]):
        value = {name: value}
    found: dict[str, Any] = value
    return found


def field_of_runs(table: str, declared: Iterable[TableSpec]) -> str:
    """The field of a paper's section that holds the runs behind a table.

    Raises:
        IsotropyError: the table has no runs.
    """
    fields = {spec.id: spec.repeats for spec in declared}
    if (field := fields.get(table)) is None:
        raise IsotropyError(f"{table} is not made from runs that a configuration counts")
    return field
