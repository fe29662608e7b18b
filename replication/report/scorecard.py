"""The scorecard: statements by model, the paper's own numbers first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pandas as pd

from isotropy.printable import print_minus
from replication.claims.scales import scale_of
from replication.claims.spec import WITHOUT_MODEL
from replication.claims.wording import expectation, explanation
from replication.palette import GROUPS, SIGNS
from replication.plan.page_spec import Inputs, PageSpec
from replication.report.claims import model_name
from replication.report.outcome import count_text
from replication.report.verdicts import format_estimate, group_statements


def content(spec: PageSpec, inputs: Inputs, folder: Path) -> dict[str, Any]:
    """Make the variables of the page's template.

    Args:
        spec: the spec of the page.
        inputs: `scorecard`: verdicts by model; `claims`: those of the study.
        folder: where the page lies.
    """
    table = pd.read_parquet(inputs("scorecard")[0])
    addresses = _addresses(pd.read_parquet(inputs("claims")[0]))
    models = sorted(table["model"].unique(), key=lambda model: model == WITHOUT_MODEL)  # it is last
    return {
        "models": [
            {"name": rows["model_title"].iloc[0], "counts": _counts(rows)}
            for rows in (table[table["model"] == model] for model in models)
        ],
        "papers": [
            (paper, rows)
            for paper in spec.papers
            if (rows := _rows(table[table["paper"] == paper.key], models, addresses))
        ],
    }


def _addresses(verdicts: pd.DataFrame) -> dict[tuple[str, str], str]:
    """Anchor on the page of claims of each case that was attempted, by its id and setup."""
    return {
        (case["id"], case["setup"]): case.get("address", case["id"])
        for statement in group_statements(verdicts)
        for case in statement["cases"] or [statement["head"]]
    }


def _rows(
    table: pd.DataFrame, models: list[str], addresses: dict[tuple[str, str], str]
) -> list[dict[str, Any]]:
    """Statements of a paper, each with a cell per model; None: no number for that model."""
    statements = []
    for name, group in table.groupby("id", sort=False):
        first = group.iloc[0]
        cells = {row["model"]: _cell(row, addresses) for row in group.to_dict("records")}
        statements.append(
            {
                "id": name,
                "statement": first["statement"],
                "locator": first["locator"],
                "says": first["source_note"],
                "quantity": first["quantity"] or scale_of(first["column"]).label,
                "tests": print_minus(expectation(dict(first))),
                "ours": bool(first["ours"]),
                "cells": [cells.get(model) for model in models],
            }
        )
    return statements


def _cell(row: dict[Any, Any], addresses: dict[tuple[str, str], str]) -> dict[str, str]:
    return {
        "address": _address(row, addresses),
        "group": GROUPS[row["word"]],
        "status": row["status"],
        "detail": explanation(row | {"n_missing": 0}),  # which another model has, most often
        **format_estimate(row["obtained"], row["low"], row["high"]),
    }


def _address(row: dict[Any, Any], addresses: dict[tuple[str, str], str]) -> str:
    """The view of the page of claims that shows what a cell sums up: its case, or its cases."""
    cases = [tuple(case) for case in json.loads(row["cases"])]
    if len(cases) == 1:
        return addresses[cases[0]]
    return urlencode({"q": row["id"], "model": model_name(row["model"])})


def _counts(rows: pd.DataFrame) -> str:
    """How many statements of a model hold, fail or are open, in words; the papers' on
    original cases and on stand-ins, and our own controls.
    """
    groups, ours = rows["word"].map(GROUPS), rows["ours"].astype(bool)
    kinds = {
        "original": ~ours & (rows["status"] == "original"),
        "stand-ins": ~ours & (rows["status"] == "stand-in"),
        "our own controls": ours,
    }
    counts = {
        name: count_text({group: int((groups[selected] == group).sum()) for group in SIGNS})
        for name, selected in kinds.items()
    }
    return "; ".join(f"{name}: {words}" for name, words in counts.items() if words)
