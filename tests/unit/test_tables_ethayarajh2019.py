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


def facts(layer: int, model: str = "bert-base-cased") -> ContextsFacts:
    return ContextsFacts(
        texts="sts",
        embedding=model,
        layer=layer,
        data="STS",
        model=model,
        status="original",
        main_unit="pieces",
        min_contexts=5,
        d=4,
    )


def row(unit: str, variant: str, baseline: float) -> dict[str, object]:
    scores: dict[str, object] = {"unit": unit, "variant": variant, "mean_cosine": 0.5}
    scores |= {"n_sentences": 100, "n_words": 50, "n_tokens": 1000, "n_occurrences": 400}
    for name in [*tables.COUNTS, *(f"{share}_baseline" for share in SHARES)]:
        scores |= {name: 0.4, f"{name}_error": 0.03}
    scores |= {"baseline_cosine": baseline, "baseline_cosine_error": 0.04}
    return scores | {"mev_uncentred_below": 0.25, "intra_formula": 0.3}


@pytest.fixture
def layers() -> pd.DataFrame:
    runs = [
        (
            facts(n),
            pd.DataFrame(
                [
                    row("pieces", "all", baseline),
                    row("pieces", "no-first", baseline),
                    row("mean", "all", baseline),
                ]
            ),
        )
        for n, baseline in ((0, 0.05), (1, 0.2), (2, 0.12))
    ]
    return tables.layers(runs)


def test_measures_have_intervals_and_published_numbers(layers: pd.DataFrame) -> None:
    assert layers["main"].tolist() == [True, True, False] * 3
    assert layers["status"].tolist() == ["original", "stand-in", "stand-in"] * 3
    assert layers["deviations"].unique().tolist() == [
        "",
        "variant no-first of the words",
        "words by another unit",
    ]
    measures = tables.measures(layers, PUBLISHED)
    layer1 = measures[measures["main"] & (measures["variant"] == "all") & (measures["layer"] == 1)]
    layer1 = layer1.set_index("quantity")
    base, adjusted = layer1.loc["baseline_cosine"], layer1.loc["self_similarity_adjusted"]
    assert base["value_high"] - base["value"] == pytest.approx(1.96 * 0.04, rel=1e-3)
    assert (base["n_items"], adjusted["n_items"]) == (100, 50)
    assert (base["published"], adjusted["published"]) == (0.168, 0.753)
    assert adjusted["value"] == pytest.approx(0.2)
    assert adjusted["value"] - adjusted["value_low"] == pytest.approx(1.96 * 0.05, rel=1e-3)
    assert math.isnan(layer1.loc["intra_formula", "value_low"])
    assert measures.loc[measures["variant"] != "all", "published"].isna().all()
    assert set(layer1.index) >= {
        *tables.COUNTS,
        *tables.ADJUSTED,
        "mean_cosine",
        "mev_uncentred_below",
    }


def test_statements_count_layers(layers: pd.DataFrame) -> None:
    result = tables.statements(tables.measures(layers, PUBLISHED))
    main = result[result["main"] & (result["unit"] == "pieces")]
    anisotropic = main[main["quantity"] == "baseline_cosine"].iloc[0]
    assert (anisotropic["n_layers"], anisotropic["n_hold"], anisotropic["n_fail"]) == (2, 1, 0)
    below = main[main["quantity"] == "mev_uncentred"].iloc[0]
    assert (below["n_layers"], below["n_hold"], below["n_fail"]) == (3, 0, 3)
    assert (below["least"], below["largest"]) == (0.4, 0.4)


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
    words = pd.DataFrame(
        {
            "name": ["the", "Of", "house", "tree", "to"],
            "n": 5,
            "self_similarity": [0.1, 0.3, 0.5, 0.9, 0.2],
        }
    )
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
    static_facts = StaticWordsFacts(
        texts="sts",
        embedding="bert-base-cased",
        data="STS",
        model="BERT",
        status="stand-in",
        deviations="vocabulary",
        min_contexts=5,
    )
    random = np.random.default_rng(0)
    score = random.random(30)
    kinds = [(n, k) for n in (0, 1, 2) for k in ("first component", "mean")] + [(-1, "glove")]
    rows = [
        pd.DataFrame(
            {
                "benchmark": "simlex999",
                "vectors": kind,
                "pair": np.arange(30),
                "first": 2 * np.arange(30),
                "second": 2 * np.arange(30) + 1,
                "score": score,
                "cosine": score + (0.1 + layer) * random.random(30),
                "covered": np.arange(30) < 20,
                "layer": layer,
            }
        )
        for layer, kind in kinds
    ]
    return static_facts, pd.concat(rows, ignore_index=True)


def test_table1_has_correlations_with_intervals() -> None:
    static_facts, rows = pairs()
    result = tables.table1([(static_facts, rows)], PUBLISHED)
    first_component = result[
        (result["layer"] == 1) & (result["vectors"] == "first component")
    ].iloc[0]
    cosines = rows[(rows["layer"] == 1) & (rows["vectors"] == "first component")]
    assert first_component["rho"] == pytest.approx(
        stats.spearmanr(cosines["cosine"], cosines["score"]).statistic
    )
    assert first_component["rho_low"] < first_component["rho"] < first_component["rho_high"]
    covered = cosines[cosines["covered"]]
    rho = stats.spearmanr(covered["cosine"], covered["score"]).statistic
    assert first_component["rho_covered"] == pytest.approx(rho)
    assert (
        first_component["n_items"],
        first_component["n_items_covered"],
        first_component["published"],
    ) == (30, 20, 0.315)
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
