"""The scorecard: each headline claim by model, as if a study had that model alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pandas as pd

from isotropy.claims.evaluate import SCHEMA, evaluate
from isotropy.claims.spec import OF_NO_MODEL, Claim

COLUMNS = (
    *("paper", "id", "locator", "statement", "model", "word", "judged", "amount", "reason"),
    "missing_case",
    *("n_judged", "n_holding", "n_failing", "n_missing", "status"),
    *("side", "bound", "tolerance", "published", "obtained", "low", "high"),
    *("unit", "n_units", "trust", "table", "column", "record"),
)
KEPT = {name: SCHEMA.get(name, "str") for name in COLUMNS}


def scorecard(
    claims: Sequence[Claim],
    tables: Mapping[str, pd.DataFrame],
    records: Mapping[str, str],
    missing: str,
    model_columns: Mapping[str, str],
) -> pd.DataFrame:
    """Verdicts of headline claims by model: a row for each headline and model that the study has a
    number for, or a reason why it is not computable; columns as in COLUMNS.

    Args:
        claims: the claims of all papers.
        tables: our tables by id.
        records: id of each table's record.
        missing: why a table that is not there is not.
        model_columns: by paper, the column of its tables that holds the id of a model.
    """
    found = []
    for paper, column in model_columns.items():
        own = [claim for claim in claims if claim.paper == paper]
        ours = {name: table for name, table in tables.items() if name.split("/")[0] == paper}
        for model in [OF_NO_MODEL, *models(ours.values(), column)]:
            rows = evaluate(own, _of_model(ours, column, model), records, missing)
            rows = rows[rows["headline"] & (rows["word"] != "not attempted")]
            found.append(rows.assign(model=model))
    rows = pd.concat(found) if found else pd.DataFrame(columns=list(KEPT))
    order = {name: i for i, name in enumerate(dict.fromkeys(c.belongs_to.id for c in claims))}
    rows = rows.sort_values("id", key=lambda ids: ids.map(order), kind="stable")
    return rows[list(KEPT)].astype(KEPT).reset_index(drop=True)


def models(tables: Iterable[pd.DataFrame], column: str) -> list[str]:
    """Ids of the models that tables are about, in the order in which they come."""
    named = [table[column] for table in tables if column in table.columns]
    return list(dict.fromkeys(str(v) for values in named for v in values.dropna() if v != ""))


def _of_model(
    tables: Mapping[str, pd.DataFrame], column: str, model: str
) -> dict[str, pd.DataFrame]:
    """Rows of a model; of none, the tables and rows that are about no model."""
    with_models = {name: table for name, table in tables.items() if column in table.columns}
    found = {name: table[table[column] == model] for name, table in with_models.items()}
    if model == OF_NO_MODEL:
        found |= {name: table for name, table in tables.items() if name not in with_models}
    return {name: table for name, table in found.items() if len(table)}
