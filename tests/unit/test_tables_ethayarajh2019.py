"""Tables of ethayarajh2019 from handwritten rows."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from replication.claims.read import read_claims
from replication.geometry.spec import ContextsFacts, StaticWordsFacts
from replication.papers.ethayarajh2019 import tables
from replication.papers.registry import paper

PUBLISHED = pd.DataFrame([n.model_dump() for n in paper("ethayarajh2019").published()])
SHARES = [f"mev_{name}" for name in tables.ESTIMATES]


def facts(layer: int) -> ContextsFacts:
    names = {"texts": "sts", "data": "STS", "status": "original", "main_unit": "pieces"}
    names |= dict.fromkeys(("embedding", "model"), "bert-base-cased")
    return ContextsFacts(**names, layer=layer, min_contexts=5, d=4)


def row(unit: str, variant: str, baseline: float) -> dict[str, object]:
    scores: dict[str, object] = {"unit": unit, "variant": variant, "mean_cosine": 0.5}
    scores |= {"n_sentences": 100, "n_words": 50, "n_tokens": 1000, "n_occurrences": 400}
    for name in [*tables.COUNTS, *(f"{share}_baseline" for share in SHARES)]:
        scores |= {name: 0.4, f"{name}_error": 0.03}
    scores |= {"baseline_cosine": baseline, "baseline_cosine_error": 0.04}
    return scores | {"mev_uncentred_below": 0.25, "intra_formula": 0.3}


@pytest.fixture
def layers() -> pd.DataFrame:
    kinds = [("pieces", "all"), ("pieces", "no-first"), ("mean", "all")]
    baselines = enumerate((0.05, 0.2, 0.12))
    return tables.layers(
        [(facts(n), pd.DataFrame([row(*kind, b) for kind in kinds])) for n, b in baselines]
    )


def test_measures_have_intervals_and_published_numbers(layers: pd.DataFrame) -> None:
    assert layers["main"].tolist() == [True, True, False] * 3
    assert layers["status"].tolist() == ["original", "stand-in", "stand-in"] * 3
    deviations = ["", "variant no-first of the words", "words by another unit"]
    assert layers["deviations"].unique().tolist() == deviations
    measures = tables.measures(layers, PUBLISHED)
    layer1 = measures.query("main and variant == 'all' and layer == 1").set_index("quantity")
    base, adjusted = layer1.loc["baseline_cosine"], layer1.loc["self_similarity_adjusted"]
    assert base["value_high"] - base["value"] == pytest.approx(1.96 * 0.04, rel=1e-3)
    assert (base["n_items"], adjusted["n_items"]) == (100, 50)
    assert (base["published"], adjusted["published"]) == (0.168, 0.753)
    assert adjusted["value"] == pytest.approx(0.2)
    assert adjusted["value"] - adjusted["value_low"] == pytest.approx(1.96 * 0.05, rel=1e-3)
    assert math.isnan(layer1.loc["intra_formula", "value_low"])
    assert measures.loc[measures["variant"] != "all", "published"].isna().all()
    others = {"mean_cosine", "mev_uncentred_below"}
    assert set(layer1.index) >= {*tables.COUNTS, *tables.ADJUSTED, *others}


def test_statements_count_layers(layers: pd.DataFrame) -> None:
    result = tables.statements(tables.measures(layers, PUBLISHED))
    main = result.query("main and unit == 'pieces'").groupby("quantity").first()
    counts = ["n_layers", "n_hold", "n_fail"]
    assert main.loc["baseline_cosine", counts].tolist() == [2, 1, 0]
    expected = [3, 0, 3, 0.4, 0.4]
    assert main.loc["mev_uncentred", [*counts, "least", "largest"]].tolist() == expected


def test_statements_have_the_bounds_of_claims() -> None:
    """For each quantity the bounds in the table equal those in the claims."""
    claims = read_claims(paper("ethayarajh2019"))
    bounds = {
        (claim.quantity.where["quantity"], claim.test.kind, claim.test.bound)
        for claim in claims
        if claim.quantity
        and "quantity" in claim.quantity.where
        and claim.test.kind != "equals"
        and claim.quantity.where.get("variant") == "all"
        and claim.unit == "items"
    }
    table_bounds = {(q, kind, bound) for q, kind, bound, _ in tables.STATEMENTS.values()}
    assert table_bounds - bounds == {("self_similarity_adjusted", "above", 0)}


def test_published_layers_are_listed() -> None:
    result = tables.published_layers(PUBLISHED)
    gpt2 = result[(result["model"] == "gpt2") & (result["quantity"] == "intra_adjusted")]
    assert gpt2["layer"].tolist() == list(range(13))
    assert gpt2["value"].iloc[3] == -0.065
    assert not result["locator"].eq("Table 1").any()


def test_share_of_words_below_stop_words() -> None:
    words = pd.DataFrame({"name": ["the", "Of", "house", "tree", "to"], "n": 5})
    words["self_similarity"] = [0.1, 0.3, 0.5, 0.9, 0.2]
    result = tables.stop_words([(facts(0), words), (facts(1), words)])
    layer1 = result[result["layer"] == 1].set_index("word")["share_below"]
    assert layer1["the"] == 0
    assert layer1["of"] == 0.5
    assert layer1["function words"] == pytest.approx(0.25)
    assert "and" not in layer1
    assert result["hidden"].tolist() == [False] * 4 + [True] * 4
    low, high = result.iloc[-1][["share_below_low", "share_below_high"]]
    assert high - low == pytest.approx(2 * 1.96 * 0.25 / 3**0.5, rel=1e-3)


def pairs() -> tuple[StaticWordsFacts, pd.DataFrame]:
    names = {"texts": "sts", "embedding": "bert-base-cased", "data": "STS", "model": "BERT"}
    static_facts = StaticWordsFacts(
        **names, status="stand-in", deviations="vocabulary", min_contexts=5
    )
    random, pair = np.random.default_rng(0), np.arange(30)
    rows = pd.DataFrame({"benchmark": "simlex999", "pair": pair, "score": random.random(30)})
    rows = rows.assign(first=2 * pair, second=2 * pair + 1, covered=pair < 20)
    kinds = [(n, k) for n in (0, 1, 2) for k in ("first component", "mean")] + [(-1, "glove")]
    noise = {kind: (0.1 + kind[0]) * random.random(30) for kind in kinds}
    parts = [
        rows.assign(layer=layer, vectors=kind, cosine=rows["score"] + noise[(layer, kind)])
        for layer, kind in kinds
    ]
    return static_facts, pd.concat(parts, ignore_index=True)


def test_table1_has_correlations_with_intervals() -> None:
    static_facts, rows = pairs()
    result = tables.table1([(static_facts, rows)], PUBLISHED)
    chosen = "layer == 1 and vectors == 'first component'"
    first, cosines = result.query(chosen).iloc[0], rows.query(chosen)
    for name, given in (("rho", cosines), ("rho_covered", cosines[cosines["covered"]])):
        rho = stats.spearmanr(given["cosine"], given["score"]).statistic
        assert first[name] == pytest.approx(rho)
    assert first["rho_low"] < first["rho"] < first["rho_high"]
    assert first[["n_items", "n_items_covered", "published"]].tolist() == [30, 20, 0.315]
    assert result.loc[result["vectors"] == "mean", "published"].isna().all()
    assert result.iloc[-1]["static"] == "glove"


def test_differences_between_static_vectors() -> None:
    static_facts, rows = pairs()
    result = tables.static_differences([(static_facts, rows)]).set_index("against")
    assert result.index.tolist() == ["upper layer", "glove"]
    table = tables.table1([(static_facts, rows)], PUBLISHED).set_index(["layer", "vectors"])
    rho = table["rho_covered"]
    lower, upper = rho[(1, "first component")], rho[(2, "first component")]
    assert result.loc["upper layer", "difference"] == pytest.approx(lower - upper)
    assert result.loc["glove", "difference"] == pytest.approx(lower - rho[(-1, "glove")])
    assert result.loc["glove", "n_items"] == 20
    low, high = result.loc["glove", ["difference_low", "difference_high"]]
    assert low < result.loc["glove", "difference"] < high
    few = rows.assign(covered=rows["pair"] < 3)
    assert tables.static_differences([(static_facts, few)])["difference"].isna().all()
