"""Tables of cai2021 from handwritten rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from replication.claims.read import read_claims
from replication.geometry.spec import LayerFacts, VectorsFacts
from replication.papers.cai2021 import tables as cai2021
from replication.papers.registry import paper


def layer(n: int, *, model: str = "gpt2") -> LayerFacts:
    names = {"dataset": "ptb", "embedding": model, "data": "Penn Treebank", "model": model.upper()}
    sizes = {"layer": n, "window": 512, "n_windows": 3, "d": 768, "lid_k": 100, "threshold": 0.1}
    return LayerFacts(**names, **sizes, status="original", n_components=None)


SCORES = {
    **{"n_tokens": 1_091_000, "s_inter": 0.5, "s_intra": 0.7, "mean_cosine": 0.4, "isoscore": 0.1},
    **{"n_clusters": 2, "s_inter_adjusted": 0.01, "s_intra_adjusted": 0.3, "position_share": 0.2},
    **{"lid_cosine": 14.0, "lid_euclidean": 15.0, "lid_cosine_equal_n": 13.0},
    **{"roll_gain": 0.3, "roll_along_position": 0.8, "roll_along_frequency": 0.1},
    **{"s_inter_random_parts": 0.06, "s_inter_centred": -0.05, "own_type_share": 0.95},
    **{"lid_cosine_per_type_1": 30.0, "lid_cosine_per_type_all": 16.0},
}


def rows(types: str = "subwords", variant: str = "all", **scores: float) -> pd.DataFrame:
    both = SCORES | scores
    both |= {f"{name}_published": both[name] / 2 for name in ("lid_cosine", "lid_euclidean")}
    facts = {"types": types, "variant": variant, "n_dropped": 0}
    return pd.DataFrame([{**facts, "seed": seed, **both} for seed in (0, 1)])


@pytest.fixture
def layers() -> pd.DataFrame:
    first = {"lid_cosine": 12.0, "lid_euclidean": 11.0, "position_share": 0.9}
    return cai2021.layers(
        [
            (layer(1), rows(**first, s_inter_adjusted=-0.2)),
            (layer(2), rows(s_inter=0.3, n_clusters=1, lid_euclidean=12.0)),
            (layer(3), rows(lid_cosine=16.0, s_intra_adjusted=0.005)),
            (layer(3), rows("words", s_inter=0.0)),
        ]
    )


@pytest.fixture
def vectors() -> pd.DataFrame:
    names = {"embedding": "glove-twitter-100d", "model": "GloVe", "status": "original"}
    facts = VectorsFacts(**names, n=1_193_514, d=100, lid_k=100)
    lids = {"lid_cosine": 36.0, "lid_euclidean": 30.0, "lid_cosine_equal_n": 33.0}
    lids |= {"lid_cosine_published": 18.0, "lid_euclidean_published": 15.0}
    lids |= {"lid_cosine_per_type_1": 20.0, "lid_cosine_per_type_all": 20.0}
    return cai2021.vectors([(facts, pd.DataFrame([{"seed": s, **lids} for s in (0, 1)]))])


@pytest.fixture
def published() -> pd.DataFrame:
    printed = [
        ("Table 3", "ptb", "gpt2", "lid", 7.0),
        ("Table 3", "ptb", "gpt2", "n", 1_090_000),
        ("Table 3", "", "glove-twitter-100d", "lid", 18.0),
        ("IsoScore (2022), WikiText-2", "wikitext-2", "gpt2", "isoscore layer 2", 0.0089),
    ]
    return pd.DataFrame(printed, columns=["locator", "dataset", "model", "quantity", "value"])


def test_table3_has_means_over_layers_and_published_numbers(
    layers: pd.DataFrame, vectors: pd.DataFrame, published: pd.DataFrame
) -> None:
    """Rows of words do not count, and the published estimate has its own column."""
    table = cai2021.table3(layers, vectors, published).set_index("embedding")
    ours = table.loc["gpt2"]
    assert ours["lid_cosine_published"] == pytest.approx((6 + 7 + 8) / 3)
    assert ours["lid_cosine"] == pytest.approx(14)
    numbers = ["published_lid", "published_n", "n", "n_layers", "n_seeds", "lid_cosine_sd"]
    assert ours[numbers].tolist() == [7, 1_090_000, 1_091_000, 3, 2, 0]
    static = table.loc["glove-twitter-100d"]
    assert static[["published_lid", "lid_cosine_published", "n_layers"]].tolist() == [18, 18, 0]
    assert (ours["kind"], static["kind"]) == ("contextual", "static")


def test_directions_of_each_layer(layers: pd.DataFrame) -> None:
    table = cai2021.directions(layers)
    assert list(table["seed"]) == ["0", "1"] * 3
    expected = {
        "s_inter": [0.5, 0.3, 0.5],
        "has_clusters": [1, 0, 1],
        "s_inter_adjusted_size": [0.2, 0.01, 0.01],
        "s_inter_reduction": [0.3, 0.29, 0.49],
        "s_intra_minus_inter_adjusted": [0.5, 0.29, -0.005],
        "low": [1, 1, 0],
        "position_share": [0.9, 0.2, 0.2],
        "lid_euclidean": [11, 12, 15],
        "s_inter_below_random_parts": [-0.14, 0.05, 0.05],
        "s_inter_below_centred": [-0.15, 0.04, 0.04],
        "roll_gain": [0.3, 0.3, 0.3],
    }
    by_layer = table[table["seed"] == "0"]
    for column, values in expected.items():
        assert by_layer[column].tolist() == pytest.approx(values), column


def test_reference_has_published_isoscore_of_the_same_layer(
    layers: pd.DataFrame, published: pd.DataFrame
) -> None:
    # The published numbers are of another corpus
    assert cai2021.reference(layers, published)["published_isoscore"].isna().all()
    wikitext = layers.assign(dataset="wikitext-2", setup="wikitext-2, gpt2")
    table = cai2021.reference(wikitext, published)
    assert list(table["layer"]) == [1, 2, 3]
    assert np.array_equal(table["published_isoscore"], [np.nan, 0.0089, np.nan], equal_nan=True)


def test_difference_of_static_and_contextual_dimension(
    layers: pd.DataFrame, vectors: pd.DataFrame
) -> None:
    table = cai2021.against_static(layers, vectors)
    differences = table.groupby("seed")["static_minus_contextual"].mean()
    assert differences.tolist() == pytest.approx([22, 22])
    assert (table["static_minus_contextual_equal_n"] == 20).all()
    assert (table["static_minus_contextual_one_per_type"] == -10).all()
    assert table[["n", "n_static"]].iloc[0].tolist() == [1_091_000, 1_193_514]
    assert set(table["status"]) == {"original"}
    stand_in = cai2021.against_static(layers, vectors.assign(status="stand-in"))
    assert set(stand_in["status"]) == {"stand-in"}
    assert set(stand_in["deviations"]) == {"of stand-in vectors"}


def test_measurements_of_words_are_stand_ins(
    layers: pd.DataFrame, vectors: pd.DataFrame, published: pd.DataFrame
) -> None:
    stand_ins = {("subwords", "original"), ("words", "stand-in")}
    assert set(layers.groupby(["types", "status"]).groups) == stand_ins
    tried = {"types": ["subwords", "words"], "variant": "all", "k": 2, "silhouette": 0.1}
    silhouettes = cai2021.silhouettes([(layer(1), pd.DataFrame(tried))])
    assert silhouettes["status"].tolist() == ["original", "stand-in"]
    table = cai2021.table3(layers[layers["types"] == "words"], vectors, published)
    assert table.set_index("kind").loc["contextual", "status"] == "stand-in"


def test_variants_are_in_separate_tables() -> None:
    """Other tables have no rows of variants; `turns` marks statements that hold for all tokens or
    for the variant, but not for both."""
    runs = [
        (layer(1), pd.concat([rows(s_inter=0.5), rows(variant="no-first", s_inter=0.05)])),
        (layer(2), pd.concat([rows(s_inter=0.4), rows(variant="no-first", s_inter=0.3)])),
        (layer(1, model="bert-base-uncased"), rows()),
    ]
    plain = cai2021.layers(runs)
    assert "variant" not in plain
    assert len(plain) == 6
    assert set(plain["status"]) == {"original"}
    with_variants = cai2021.variants(runs)
    assert set(with_variants["embedding"]) == {"gpt2"}
    assert set(with_variants.loc[with_variants["variant"] == "no-first", "status"]) == {"stand-in"}
    directions = cai2021.variant_directions(with_variants).query("variant == 'no-first'")
    assert directions.groupby("layer")["s_inter"].mean().tolist() == [0.05, 0.3]
    table = cai2021.turns(with_variants).set_index(["statement", "variant"])
    high = table.loc["S_inter is above 0.1"]
    assert high["n_hold"].to_dict() == {"all": 2, "no-first": 1}
    assert high["turns"].to_dict() == {"all": False, "no-first": True}
    assert not table.loc["there is more than one cluster"]["turns"].any()
    assert table["status"].xs("no-first", level="variant").eq("stand-in").all()


def test_statements_have_the_bounds_of_claims() -> None:
    claims = {
        claim.quantity.column: claim.test
        for claim in read_claims(paper("cai2021"))
        if claim.quantity is not None and claim.quantity.table == "cai2021/directions"
    }
    for column, kind, bound in cai2021._STATEMENTS.values():
        assert (claims[column].kind, claims[column].bound) == (kind, bound)


def test_repeated_types_are_counted_for_layers_and_static_vectors(
    layers: pd.DataFrame, vectors: pd.DataFrame
) -> None:
    """One token per type turns the comparison with static vectors in these rows."""
    table = cai2021.repeated_types(layers, vectors)
    assert len(table) == (3 + 1) * 2 * 2  # layers and vectors, seeds, numbers
    means = table.groupby(["setup", "tokens_per_type"])["lid_cosine"].mean()
    assert means.to_dict() == {
        ("ptb, gpt2", "1"): 30,
        ("ptb, gpt2", "all"): 16,
        ("glove-twitter-100d", "1"): 20,
        ("glove-twitter-100d", "all"): 20,
    }
