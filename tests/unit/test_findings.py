"""Statements of docs/findings.md, computed again from tables of the default study alone."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from replication.claims.read import read_claims
from replication.papers.registry import KEYS, paper
from replication.plan.page_spec import Findings
from replication.plan.pages import read_findings

ORDINALS = ("none", "one", "two", "three", "four", "five", "six", "seven", "eight")


def mean_and_interval(values: pd.Series) -> tuple[float, float, float]:
    """Mean over runs, with Student's 95 % interval."""
    half = stats.t.ppf(0.975, len(values) - 1) * values.std() / np.sqrt(len(values))
    return values.mean(), values.mean() - half, values.mean() + half


def seeds(table: pd.DataFrame, setup: str) -> pd.DataFrame:
    return table[(table["setup"] == setup) & ~table["seed"].isin(["mean", "sd"])]


def pearson_on_polarity(correlations: pd.DataFrame) -> str:
    r, low, high = mean_and_interval(seeds(correlations, "polarity")["pearson_r"])
    return f"r between IsoScore and silhouette is {r:.3f} [{low:.3f}, {high:.3f}]"


def silhouettes_rise(correlations: pd.DataFrame) -> str:
    rising = correlations[correlations["seed"] == "mean"]["silhouette_change"] > 0
    assert rising.all()
    return f"raises the silhouette in all {ORDINALS[len(rising)]} setups"


def unscaled_supersenses(correlations: pd.DataFrame) -> str:
    assert (seeds(correlations, "supersenses")["pearson_r"] > 0).all()
    assert (seeds(correlations, "supersenses-scaled")["pearson_r"] < 0).all()
    return "IsoScore rises with the silhouette for supersenses whose vectors are 20 times as long"


def steering(steps: pd.DataFrame) -> str:
    by_step = steps.groupby("step")["isoscore_star_change"].apply(mean_and_interval)
    assert all(low > 0 for _, low, _ in by_step)
    return f"it rises at each step of λ ({ORDINALS[steps['seed'].nunique()]} seeds)"


def ratio_with_cosreg(cosreg: pd.DataFrame) -> str:
    ratio, low, high = mean_and_interval(cosreg["isoscore_star_ratio"])
    return f"(ratio {ratio:.1f} [{low:.3g}, {high:.2g}])"


def batches_beyond_a_tenth(stability_of_batches: pd.DataFrame) -> str:
    star = stability_of_batches[stability_of_batches["score"] == "IsoScore*"]
    failing = [mean_and_interval(e)[1] > 0.1 for _, e in star.groupby("setup")["relative_error"]]
    return (
        f"Does not hold in {ORDINALS[sum(failing)]} of {ORDINALS[len(failing)]} cases:** IsoScore* "
        "of a batch within 10 % of the whole cloud's"
    )


def orders_of_isotropy(isotropy: pd.DataFrame) -> str:
    gains = isotropy.groupby("setup")[["orders_gain", "orders_matched_gain"]].mean()
    assert (gains > 1).all(axis=None)
    assert (isotropy["isoscore_gain"] > 0).all()
    first = isotropy[isotropy["layer"] == 1].mean(numeric_only=True)
    return (
        f"on layer 1 of MiniLM, I(W) rises by {first['orders_gain']:.1f} orders, "
        f"at equal norm by {first['orders_matched_gain']:.1f}"
    )


def similarity_is_open(similarity: pd.DataFrame) -> str:
    low, high = similarity.set_index("dataset").loc["wordsim353", ["gain_low", "gain_high"]]
    assert low < 0 < high
    return f"the interval is [{low:.0f}, {high:.0f}] points"


def word_pairs(similarity: pd.DataFrame) -> str:
    words = similarity.set_index("dataset").loc["wordsim353"]
    assert words["cluster_minus_global_high"] < 0
    return f"WordSim-353: {-words['cluster_minus_global']:.0f} points below"


def last_layer(cai: pd.DataFrame) -> str:
    by_layer = cai.groupby("layer")["s_inter"].mean()
    assert (by_layer[:-1] > 0.1).all()
    return f"S_inter above 0.1 in the last layer ({by_layer.iloc[-1]:.3f})"


def within_clusters(cai: pd.DataFrame) -> str:
    above = cai.groupby("layer")["s_inter_adjusted_size"].mean() > 0.05
    return f"it is above 0.05 in {ORDINALS[above.sum()]} of {ORDINALS[len(above)]}"


def depth(cai: pd.DataFrame) -> str:
    by_layer = cai.groupby("layer")[["lid_euclidean", "has_clusters"]].mean().reset_index()
    rho = stats.spearmanr(by_layer["layer"], by_layer["lid_euclidean"]).statistic
    assert (by_layer["has_clusters"] > 0.5).mean() < 0.5
    return f"({ORDINALS[len(by_layer)]} layers: ρ {rho:.2f}"


def in_hidden_layers(ethayarajh: pd.DataFrame, quantity: str) -> pd.Series:
    rows = ethayarajh[(ethayarajh["quantity"] == quantity) & ethayarajh["hidden"]]
    return rows.sort_values("layer")["value"]


def narrow_cone(ethayarajh: pd.DataFrame) -> str:
    cosines = in_hidden_layers(ethayarajh, "baseline_cosine")
    above = cosines > 0.1
    assert not above.iloc[-1]
    return (
        "a mean cosine above our bound of 0.1 in "
        f"{ORDINALS[above.sum()]} of {ORDINALS[len(above)]} hidden layers, "
        f"not in the last ({cosines.iloc[-1]:.3f})"
    )


def context_specific(ethayarajh: pd.DataFrame) -> str:
    rows = ethayarajh[ethayarajh["quantity"] == "self_similarity_adjusted"]
    return f"(ρ {stats.spearmanr(rows['layer'], rows['value']).statistic:.2f} with the layer)"


def less_than_a_twentieth(ethayarajh: pd.DataFrame) -> str:
    shares = {
        estimate: 100 * in_hidden_layers(ethayarajh, f"mev_{estimate}_adjusted")
        for estimate in ("uncentred", "truncated_svd")
    }
    formula, code = shares["uncentred"], shares["truncated_svd"] < 5
    return (
        "less than 5 % of the variance depends on the estimate: by the paper's formula it "
        f"explains {formula.min():.0f} to {formula.max():.0f} %, by the authors' first code, "
        "which fits the published numbers, less than 5 % in "
        f"{ORDINALS[code.sum()]} of {ORDINALS[len(code)]} layers"
    )


def about_the_mean(ethayarajh: pd.DataFrame) -> str:
    shares = 100 * in_hidden_layers(ethayarajh, "mev_centred_adjusted")
    return f"About the mean it is {shares.min():.0f} to {shares.max():.0f} %"


STATEMENTS = [
    ("mickus2024-correlations", silhouettes_rise),
    ("mickus2024-correlations", pearson_on_polarity),
    ("mickus2024-correlations", unscaled_supersenses),
    ("rudman2024-steps", steering),
    ("rudman2024-cosreg", ratio_with_cosreg),
    ("rudman2024-stability_of_batches", batches_beyond_a_tenth),
    ("rajaee2021-directions", orders_of_isotropy),
    ("rajaee2021-directions_similarity", similarity_is_open),
    ("rajaee2021-directions_similarity", word_pairs),
    ("cai2021-directions", last_layer),
    ("cai2021-directions", within_clusters),
    ("cai2021-directions", depth),
    ("ethayarajh2019-measures", narrow_cone),
    ("ethayarajh2019-measures", context_specific),
    ("ethayarajh2019-measures", less_than_a_twentieth),
    ("ethayarajh2019-measures", about_the_mean),
]


def sentence(name: str, statement: Callable[[pd.DataFrame], str], project: Path) -> str:
    """The sentence of the page, made from the table; if the numbers change, so must the page."""
    return statement(pd.read_csv(project / f"docs/results/default/{name}.csv"))


def plain(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("−", "-")


@pytest.mark.parametrize(("name", "statement"), STATEMENTS)
def test_statement_says_what_its_table_says(
    name: str, statement: Callable[[pd.DataFrame], str], project: Path
) -> None:
    page = plain((project / "docs/findings.md").read_text("utf8"))
    assert sentence(name, statement, project) in page


@pytest.mark.parametrize("key", KEYS)
def test_summary_on_a_papers_page_has_numbers_of_tables_only(key: str, project: Path) -> None:
    """And all verdicts of the study that it is about."""
    findings = read_findings(project, paper(key), "default")
    assert read_findings(project, paper(key), "other") == Findings()
    text = plain(findings.text)
    for name, statement in STATEMENTS:
        text = text.replace(sentence(name, statement, project), "")
    assert re.findall(r"[0-9]", text) == []
    statements = {claim.belongs_to.id for claim in read_claims(paper(key))}
    assert text
    assert findings.verdicts
    assert set(findings.verdicts) <= statements
