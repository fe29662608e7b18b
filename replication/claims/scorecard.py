"""The scorecard: each statement by model, as if a study had that model alone."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

import pandas as pd

from replication.claims.evaluate import SCHEMA, evaluate
from replication.claims.spec import WITHOUT_MODEL, Claim
from replication.palette import GROUPS, NO_MODEL

COLUMNS = (
    *("paper", "id", "locator", "statement", "model", "model_title", "word", "judged", "amount"),
    *("reason", "missing_case"),
    *("n_judged", "n_holding", "n_failing", "n_missing", "failure_bound", "status", "ours"),
    *("stand_in_word", "n_stand_ins", "n_stand_ins_holding", "n_stand_ins_failing"),
    *("quantity", "side", "bound", "bound_by", "tolerance", "published", "obtained", "low", "high"),
    *("unit", "n_units", "n_outliers", "source_note", "table", "column", "record", "cases"),
)
COLUMN_TYPES = {name: SCHEMA.get(name, "str") for name in COLUMNS}
"""Columns of the scorecard, with their types: those of the table of verdicts, and

- `model`, `model_title`: id and title of the model.
- `cases`: the tested cases of the statement with that model, as JSON: `[[id, setup], …]`, which
  are columns of the table of verdicts."""


def scorecard(
    claims: Sequence[Claim],
    tables: Mapping[str, pd.DataFrame],
    records: Mapping[str, str],
    missing: str,
    model_columns: Mapping[str, str],
    titles: Mapping[str, str],
) -> pd.DataFrame:
    """Judge statements by model: a row for each statement and each model for which the study
    has a number; columns as in COLUMNS.

    Args:
        claims: the claims of all papers.
        tables: tables of our results, by id.
        records: id of the record of each table, by table id.
        missing: reason to give for a table that does not exist.
        model_columns: for each paper, the column of its tables with the id of a model.
        titles: title of each fetched model, by id: that of the stand-in, where one came.
    """
    parts = []
    for paper, column in model_columns.items():
        paper_claims = [claim for claim in claims if claim.paper == paper]
        paper_tables = {
            name: table for name, table in tables.items() if name.split("/")[0] == paper
        }
        for model in [WITHOUT_MODEL, *models(paper_tables.values(), column)]:
            rows = evaluate(
                paper_claims, _model_tables(paper_tables, column, model), records, missing
            )
            rows = rows[rows["word"].map(GROUPS) != "none"]
            cases = _cases(rows)
            rows = rows[rows["overall"]]
            parts.append(
                rows.assign(
                    model=model,
                    model_title=titles.get(model, model) or NO_MODEL,
                    cases=rows["statement_id"].map(cases),
                )
            )
    rows = pd.concat(parts) if parts else pd.DataFrame(columns=list(COLUMN_TYPES))
    order = {name: i for i, name in enumerate(dict.fromkeys(c.belongs_to.id for c in claims))}
    rows = rows.sort_values("id", key=lambda ids: ids.map(order), kind="stable")
    return rows[list(COLUMN_TYPES)].astype(COLUMN_TYPES).reset_index(drop=True)


def _cases(rows: pd.DataFrame) -> dict[str, str]:
    """The cases of each statement, as in the column `cases`: a statement with one row is its own
    case.
    """
    return {
        str(statement): json.dumps(
            group.loc[~group["overall"] | (len(group) == 1), ["id", "setup"]].to_numpy().tolist(),
            ensure_ascii=False,
        )
        for statement, group in rows.groupby("statement_id", sort=False)
    }


def models_by_case(card: pd.DataFrame) -> dict[tuple[str, str], list[str]]:
    """List the models of each case, by its id and setup, in the order of the scorecard."""
    result: dict[tuple[str, str], list[str]] = {}
    for model, cases in zip(card["model"], card["cases"], strict=True):
        for case, setup in json.loads(cases):
            result.setdefault((case, setup), []).append(model)
    return result


def models(tables: Iterable[pd.DataFrame], column: str) -> list[str]:
    """List the ids of the models in some tables, in order of appearance."""
    columns = [table[column] for table in tables if column in table.columns]
    return list(dict.fromkeys(str(v) for values in columns for v in values.dropna() if v != ""))


def _model_tables(
    tables: Mapping[str, pd.DataFrame], column: str, model: str
) -> dict[str, pd.DataFrame]:
    """Select the rows of a model from each table; for WITHOUT_MODEL, those that name no model, and
    tables without a column of models.
    """
    with_models = {name: table for name, table in tables.items() if column in table.columns}
    selected = {name: table[table[column] == model] for name, table in with_models.items()}
    if model == WITHOUT_MODEL:
        selected |= {name: table for name, table in tables.items() if name not in with_models}
    return {name: table for name, table in selected.items() if len(table)}
