"""Compute how large a study must be to decide a claim that is undecided."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas as pd

from isotropy.errors import IsotropyError, suggest
from replication.claims.judge import MIN_RUNS
from replication.tables.spec import TableSpec


def runs_needed(claim: str, verdicts: pd.DataFrame) -> tuple[int, str]:
    """Compute how many fresh runs would decide an undecided claim or statement with a probability
    of 80 % (`replication.claims.estimate.Estimate.needed`).

    Args:
        claim: id of a claim or a statement.
        verdicts: the table of verdicts.

    Returns:
        The number of runs, and the id of the table that the claim reads.

    Raises:
        IsotropyError: there is no such claim, none of its cases is undecided, or more runs do not
            help.
    """
    claim_rows = verdicts[(verdicts["id"] == claim) | (verdicts["statement_id"] == claim)]
    if claim_rows.empty:
        known_ids = [*verdicts["id"].unique(), *verdicts["statement_id"].unique()]
        raise IsotropyError(f"no claim {claim!r}: {suggest(claim, known_ids)}")
    cases = claim_rows[claim_rows["obtained"].notna() & (claim_rows["unit"] != "cases")]
    undecided = cases[cases["word"] == "undecided"]
    if undecided.empty:
        raise IsotropyError(f"{claim}: none of its cases is undecided in these results")
    if not (undecided["unit"] == "seeds").all():
        units = ", ".join(sorted(undecided.loc[undecided["unit"] != "seeds", "unit"].unique()))
        raise IsotropyError(
            f"{claim}: its interval is over {units}, which more runs do not narrow; the column "
            "`needed` of claims.csv says how many it would take"
        )
    few = undecided["n_units"] < MIN_RUNS
    needed = undecided["needed"].mask(few & undecided["needed"].isna(), MIN_RUNS)
    if needed.isna().any():
        case = undecided[needed.isna()].iloc[0]
        near = "it is so close to the bound that no feasible number of runs decides it"
        reason = case["reason"] if case["reason"].startswith("no interval") else near
        raise IsotropyError(f"{claim}: {case['setup']}: {reason}")
    return max(MIN_RUNS, int(needed.max())), str(undecided["table"].iloc[0])


def runs_configuration(section: str, path: str, n: int, current: Any) -> dict[str, Any]:
    """Make the content of a configuration file that sets the runs.

    Seeds are fresh ones: a study that is continued because it was undecided, and counts its first
    runs again, is falsely decided in 11 to 17 % instead of 5.

    Args:
        section: section of the paper.
        path: dotted path of the field for runs, relative to the section.
        n: number of runs.
        current: current value of the field: a list of seeds; or a number of runs, whose seeds begin
            with 0, so that the first runs are counted again.
    """
    value: Any = n
    if isinstance(current, list):
        first = max(current, default=-1) + 1
        value = list(range(first, first + n))
    for name in reversed([section, *path.split(".")]):
        value = {name: value}
    configuration: dict[str, Any] = value
    return configuration


def table_with_runs(table: str, declared: Iterable[TableSpec]) -> TableSpec:
    """Return the spec of a table, whose `repeats` is the field with the runs that it is made from.

    Raises:
        IsotropyError: no field counts the runs of this table.
    """
    spec = next((spec for spec in declared if spec.id == table and spec.repeats), None)
    if spec is None:
        raise IsotropyError(f"no field of the configuration sets the number of runs of {table}")
    return spec
