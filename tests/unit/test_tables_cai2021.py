"""Tables of cai2021 from handwritten rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from replication.claims.read import read_claims
from replication.geometry.spec import LayerFacts, VectorsFacts
from replication.papers.cai2021 import tables as cai2021
from replication.papers.registry import paper


def layer(
    n: int, *, dataset: str = "ptb", model: str = "gpt2", status: str = "original"
) -> LayerFacts:
    return LayerFacts(
        dataset=dataset,
        embedding=model,
        layer=n,
        data="Penn Treebank",
        model=model.upper(),
        status=status,
        window=512,
        n_windows=3,
        d=768,
        lid_k=100,
        n_components=None,
        threshold=0.1,
    )


def rows(
    types: str = "subwords", seeds: tuple[int, ...] = (0, 1), variant: str = "all", **scores: float
) -> pd.DataFrame:
    plain = {
        "n_tokens": 1_091_000,
        "s_inter": 0.5,
        "s_intra": 0.7,
        "mean_cosine": 0.4,
        "isoscore": 0.1,
        "n_clusters": 2,
        "s_inter_adjusted": 0.01,
        "s_intra_adjusted": 0.3,
        "lid_cosine": 14.0,
        "lid_euclidean": 15.0,
        "position_share": 0.2,
        "roll_gain": 0.3,
        "roll_along_position": 0.8,
        "roll_along_frequency": 0.1,
        "s_inter_random_parts": 0.06,
        "s_inter_centred": -0.05,
        "lid_cosine_equal_n": 13.0,
        "lid_cosine_per_type_1": 30.0,
        "lid_cosine_per_type_all": 16.0,
        "own_type_share": 0.95,
    }
    both = plain | scores
    both |= {f"{name}_published": both[name] / 2 for name in ("lid_cosine", "lid_euclidean")}
    facts = {"types": types, "variant": variant, "n_dropped": 0}
    return pd.DataFrame([{**facts, "seed": seed, **both} for seed in seeds])


@pytest.fixture
def layers() -> pd.DataFrame:
    return cai2021.layers(
        [
            (
                layer(1),
                rows(
                    lid_cosine=12.0, lid_euclidean=11.0, position_share=0.9, s_inter_adjusted=-0.2
                ),
            ),
            (layer(2), rows(s_inter=0.3, n_clusters=1, lid_euclidean=12.0)),
            (layer(3), rows(lid_cosine=16.0, s_intra_adjusted=0.005)),
            (layer(3), rows("words", s_inter=0.0)),
        ]
    )


@pytest.fixture
def vectors() -> pd.DataFrame:
    facts = VectorsFacts(
        embedding="glove-twitter-100d",
        model="GloVe",
        status="original",
        n=1_193_514,
        d=100,
        lid_k=100,
    )
    lids = {
        "lid_cosine": 36.0,
        "lid_cosine_equal_n": 33.0,
        "lid_cosine_per_type_1": 20.0,
        "lid_cosine_per_type_all": 20.0,
        "lid_euclidean": 30.0,
        "lid_cosine_published": 18.0,
        "lid_euclidean_published": 15.0,
    }
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
    assert (ours["published_lid"], ours["published_n"], ours["n"], ours["n_layers"]) == (
        7.0,
        1_090_000,
        1_091_000,
        3,
    )
    assert (ours["kind"], ours["n_seeds"], ours["lid_cosine_sd"]) == ("contextual", 2, 0)
    static = table.loc["glove-twitter-100d"]
    assert (
        static["kind"],
        static["published_lid"],
        static["lid_cosine_published"],
        static["n_layers"],
    ) == ("static", 18, 18, 0)


def test_directions_of_each_layer(layers: pd.DataFrame) -> None:
    table = cai2021.directions(layers)
    assert list(table["seed"]) == ["0", "1"] * 3
    by_layer = table[table["seed"] == "0"].set_index("layer")
    assert by_layer["s_inter"].min() == 0.3
    assert by_layer["has_clusters"].mean() == pytest.approx(2 / 3)
    assert by_layer["s_inter_adjusted_size"].max() == pytest.approx(0.2)
    assert by_layer["s_inter_reduction"].min() == pytest.approx(0.29)
    assert by_layer["s_intra_minus_inter_adjusted"].min() == pytest.approx(-0.005)
    assert by_layer["low"].tolist() == [True, True, False]
    assert by_layer.loc[by_layer["low"], "position_share"].max() == 0.9
    assert by_layer["lid_euclidean"].is_monotonic_increasing
    assert by_layer["s_inter_below_random_parts"].max() == pytest.approx(0.05)
    assert by_layer["s_inter_below_centred"].max() == pytest.approx(0.04)
    assert by_layer["roll_gain"].eq(0.3).all()


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
    assert table.groupby("seed")["static_minus_contextual"].mean().tolist() == pytest.approx(
        [22, 22]
    )
    assert table["static_minus_contextual_equal_n"].tolist() == [20] * len(table)
    assert table[["n", "n_static"]].iloc[0].tolist() == [1_091_000, 1_193_514]
    assert set(table["status"]) == {"original"}
    stand_in = cai2021.against_static(layers, vectors.assign(status="stand-in"))
    assert set(stand_in["status"]) == {"stand-in"}
    assert set(stand_in["deviations"]) == {"of stand-in vectors"}
    assert set(table["setup"]) == {"ptb, gpt2 against glove-twitter-100d"}


def test_measurements_of_words_are_stand_ins(
    layers: pd.DataFrame, vectors: pd.DataFrame, published: pd.DataFrame
) -> None:
    assert set(layers.groupby(["types", "status"]).groups) == {
        ("subwords", "original"),
        ("words", "stand-in"),
    }
    tried = {"types": ["subwords", "words"], "variant": "all", "k": 2, "silhouette": 0.1}
    silhouettes = cai2021.silhouettes([(layer(1), pd.DataFrame(tried))])
    assert silhouettes["status"].tolist() == ["original", "stand-in"]
    words = layers[layers["types"] == "words"]
    table = cai2021.table3(words, vectors, published).set_index("kind")
    assert table.loc["contextual", "status"] == "stand-in"


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
    directions = cai2021.variant_directions(with_variants)
    assert directions[directions["variant"] == "no-first"].groupby("layer")[
        "s_inter"
    ].mean().tolist() == [0.05, 0.3]
    table = cai2021.turns(with_variants).set_index(["statement", "variant"])
    high = table.loc["S_inter is above 0.1"]
    assert high["n_hold"].to_dict() == {"all": 2, "no-first": 1}
    assert high["turns"].to_dict() == {"all": False, "no-first": True}
    clusters = table.loc["there is more than one cluster"]
    assert not clusters["turns"].any()
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
    """One token per type turns the comparison with static vectors in these rows: 16 with all
    tokens, 30 with one per type, 20 for static vectors."""
    table = cai2021.repeated_types(layers, vectors)
    assert len(table) == (3 + 1) * 2 * 2  # layers and vectors, seeds, numbers
    means = table.groupby(["setup", "tokens_per_type"])["lid_cosine"].mean()
    assert means.to_dict() == {
        ("ptb, gpt2", "1"): 30,
        ("ptb, gpt2", "all"): 16,
        ("glove-twitter-100d", "1"): 20,
        ("glove-twitter-100d", "all"): 20,
    }
    against = cai2021.against_static(layers, vectors)
    assert (against["static_minus_contextual_one_per_type"] == -10).all()
    assert (against["static_minus_contextual_equal_n"] == 20).all()
