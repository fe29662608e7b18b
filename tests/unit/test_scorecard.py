"""The scorecard: a model's column has the verdicts of a study with only that model."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import pandas as pd

from replication.claims.evaluate import evaluate
from replication.claims.read import read_claims
from replication.claims.scorecard import COLUMN_TYPES, models_by_case, scorecard
from replication.claims.spec import WITHOUT_MODEL
from replication.papers.protocol import Publication
from replication.papers.registry import paper, papers
from replication.plan.page_spec import PageSpec
from replication.report.scorecard import content
from replication.report.site import render

CLAIMS = [claim for one in papers() for claim in read_claims(one)]
COLUMNS = {one.key: one.model_column for one in papers()}
TITLES = {"falls": "what came in its place"}


def correlations(**models: float) -> pd.DataFrame:
    """Return a table of correlations on polarity: five seeds per model around the given value."""
    noise = np.array([0.0, 0.001, -0.001, 0.0005, -0.0005])
    table = pd.DataFrame([(name, seed) for name in models for seed in "01234"])
    table.columns = ["setup", "seed"]
    value = table["setup"].map(models) + np.tile(noise, len(models))
    scores = dict.fromkeys(("spearman_rho", "pearson_r", "isoscore_change"), value)
    return table.assign(
        dataset="polarity",
        model=table["setup"],
        embedding=table["setup"],
        data="polarity",
        bias=False,
        status="stand-in",
        deviations="another model",
        updates=1000,
        silhouette_change=np.tile(noise, len(models)) - table["setup"].map(models),
        **scores,
    )


def card(**models: float) -> pd.DataFrame:
    tables = {"mickus2024/correlations": correlations(**models)}
    return scorecard(CLAIMS, tables, defaultdict(str), "left out", COLUMNS, TITLES)


def verdicts(**models: float) -> pd.DataFrame:
    tables = {"mickus2024/correlations": correlations(**models)}
    return evaluate(CLAIMS, tables, defaultdict(str), "left out")


def test_column_equals_the_study_of_one_model() -> None:
    """One model agrees with the claim, the other contradicts it."""
    both = card(falls=-0.9, rises=0.9)
    assert list(both.columns) == list(COLUMN_TYPES)
    for name, value in (("falls", -0.9), ("rises", 0.9)):
        alone = verdicts(**{name: value})
        alone = alone[alone["overall"] & (alone["word"] != "not attempted")]
        column = both[both["model"] == name]
        assert column["id"].tolist() == alone["id"].tolist()
        assert column["word"].tolist() == alone["word"].tolist()
        assert ("mickus2024-pearson-polarity", name) in models_by_case(column)
    wide = both.pivot(index="id", columns="model", values="word")
    assert wide.loc["mickus2024-monotone", "falls"] == "consistent"
    assert wide.loc["mickus2024-monotone", "rises"] == "inconsistent"


def test_claims_without_models_have_separate_rows() -> None:
    """Claims on a table without a model column."""
    name = "mickus2024/simplices"
    claims = [c for c in CLAIMS if c.quantity is not None and c.quantity.table == name]
    columns: dict[str, object] = {}
    for claim in claims:
        assert claim.quantity is not None
        columns |= dict.fromkeys((*claim.quantity.columns, *claim.quantity.by), 0.1)
        columns |= claim.quantity.where
    table = pd.DataFrame([columns | {"setup": "a", "status": "original"}])
    result = scorecard(claims, {name: table}, defaultdict(str), "", COLUMNS, TITLES)
    assert set(result["model"]) == {WITHOUT_MODEL}


def test_scorecard_of_an_empty_study() -> None:
    result = scorecard(CLAIMS, {}, defaultdict(str), "left out", COLUMNS, TITLES)
    assert len(result) == 0
    assert list(result.columns) == list(COLUMN_TYPES)


def test_page_of_the_scorecard(tmp_path: Path) -> None:
    """Each model has a column, and markup in names is escaped."""
    table = card(falls=-0.9, rises=0.9)
    table["model_title"] = table["model_title"].replace({"rises": "<script>alert(1)</script>"})
    files = {name: tmp_path / f"{name}.parquet" for name in ("scorecard", "claims")}
    table.to_parquet(files["scorecard"])
    verdicts(falls=-0.9, rises=0.9).to_parquet(files["claims"])
    entries = [
        Publication(key=p.key, title=p.title, reference="r", name=p.name, says="s")
        for p in papers()
    ]
    spec = PageSpec(kind="scorecard", study="own", papers=entries)
    result = content(spec, lambda name: [files[name]], Path("results/site"))
    counts = {model["name"]: model["counts"] for model in result["models"]}
    assert counts["what came in its place"] == "stand-ins: 4 hold, 1 fails"
    html = render(spec, result, Path("results/site"), "record:" + "0" * 64)
    assert "<script>alert" not in html
    assert html.count('<th scope="col">') == 4
    assert html.count('href="claims.html#') == table["id"].nunique() + len(table)  # and cells
    assert 'href="claims.html#mickus2024-pearson-polarity-rises"' in html  # its only case
    assert paper("mickus2024").title in html
