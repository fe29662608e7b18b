"""Tables of Cai, Huang, Bian & Church 2021. `setup` is a corpus with a model, or static vectors.

The local intrinsic dimension (LID) has two estimates: the conventional one, and the published one,
which takes squares of distances for distances and so is half of it. Tables have both, and compare
only the published one with the paper's numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import pandas as pd

from replication.geometry.spec import LayerFacts, VectorsFacts
from replication.papers.declare import table
from replication.tables.runs import deviate, long_table, printed

LayerRuns = Sequence[tuple[LayerFacts, pd.DataFrame]]
"""Facts about each layer, and one of its tables."""
VectorRuns = Sequence[tuple[VectorsFacts, pd.DataFrame]]
"""Facts about static vectors, and a row per seed."""

FACTS = ["setup", "dataset", "embedding", "data", "model", "status", "deviations"]
ROLL = ["roll_gain", "roll_along_position", "roll_along_frequency"]
LID = ["lid_cosine_published", "lid_cosine", "lid_euclidean_published", "lid_euclidean"]


_STATEMENTS: dict[str, tuple[str, Literal["above", "below"], float]] = {
    "S_inter is above 0.1": ("s_inter", "above", 0.1),
    "S_intra is above 0.1": ("s_intra", "above", 0.1),
    "there is more than one cluster": ("has_clusters", "above", 0.5),
    "S_inter within clusters is below 0.05": ("s_inter_adjusted_size", "below", 0.05),
    "clustering and centring lower S_inter": ("s_inter_reduction", "above", 0),
    "S_intra is above S_inter within clusters": ("s_intra_minus_inter_adjusted", "above", 0),
}
"""Statements of the paper: for each, a column of `directions`, and the side of a bound on which it
holds in a layer. The bound is that of the claim (a test compares them)."""
_SETUP_FACTS = {"dataset", "embedding", "layer", "data", "model", "status", "deviations"}


@table(
    "table3",
    title="Local intrinsic dimension",
    tables=["layers", "vectors"],
    published=True,
    section="Table 3",
)
def table3(layers: pd.DataFrame, vectors: pd.DataFrame, published: pd.DataFrame) -> pd.DataFrame:
    """Local intrinsic dimension of contextual and static vectors, by cosines as published (squares
    of distances, which halve it) and conventional, and by Euclidean distances; mean over layers,
    mean and sd over seeds. The slides do not name the corpus, which follows from n.

    The mean over layers is most probably the paper's.
    """
    contextual = _subwords(layers).rename(columns={"n_tokens": "n"})
    rows = []
    for kind, measured in (("contextual", contextual), ("static", vectors)):
        for key, group in measured.groupby(FACTS, sort=False, dropna=False):
            per_seed = group.groupby("seed")[LID].mean()
            row: dict[str, object] = dict(zip(FACTS, key, strict=True)) | {"kind": kind}
            row |= {name: group[name].iloc[0] for name in ("n", "d")}
            row["n_layers"] = group["layer"].nunique() if kind == "contextual" else 0
            row |= {name: per_seed[name].mean() for name in LID}
            row |= {f"{name}_sd": per_seed[name].std(ddof=1) for name in LID}
            rows.append(row | {"n_seeds": len(per_seed)})
    table = pd.DataFrame(rows)
    for quantity in ("n", "lid"):
        table[f"published_{quantity}"] = _printed(table, published, "Table 3", quantity)
    return table


@table(
    "reference",
    title="IsoScore and mean cosine beside Rudman et al. (2022)",
    tables=["layers"],
    published=True,
    section="3",
)
def reference(layers: pd.DataFrame, published: pd.DataFrame) -> pd.DataFrame:
    """IsoScore and mean cosine of all tokens per layer, beside those of Rudman et al. (2022) for
    the same models, corpus and stream: an independent check.
    """
    subwords = _subwords(layers)
    columns = [*FACTS, "layer", "n_tokens", "d", "isoscore", "mean_cosine"]
    table: pd.DataFrame = subwords[subwords["seed"] == subwords["seed"].min()][columns].reset_index(
        drop=True
    )
    for name in ("isoscore", "mean_cosine"):
        quantity = f"{name} layer " + table["layer"].astype(str)
        values = _printed(table, published, "IsoScore (2022), WikiText-2", quantity)
        table[f"published_{name}"] = values
    return table


@table(
    "directions",
    title="What the claims test, by layer",
    tables=["layers"],
    section="3 to 5",
)
def directions(layers: pd.DataFrame) -> pd.DataFrame:
    """What the claims are about, per corpus, model, layer and seed: cosines before and after
    clustering and centring, local dimension, and how much goes with position.

    `low` marks the layers of the first third, at least two.
    """
    return _directions(_subwords(layers))


def _directions(chosen: pd.DataFrame) -> pd.DataFrame:
    deepest = chosen.groupby("setup")["layer"].transform("max")
    columns = [*FACTS, "layer", "s_inter", "s_intra", "position_share", *ROLL, *LID]
    table = chosen[columns].assign(
        seed=chosen["seed"].astype(str),
        low=chosen["layer"] <= np.maximum(2, deepest // 3),
        has_clusters=(chosen["n_clusters"] > 1).astype(float),
        s_inter_adjusted_size=chosen["s_inter_adjusted"].abs(),
        s_inter_reduction=chosen["s_inter"].abs() - chosen["s_inter_adjusted"].abs(),
        s_inter_below_random_parts=chosen["s_inter_random_parts"].abs()
        - chosen["s_inter_adjusted"].abs(),
        s_inter_below_centred=chosen["s_inter_centred"].abs() - chosen["s_inter_adjusted"].abs(),
        s_intra_minus_inter_adjusted=chosen["s_intra_adjusted"] - chosen["s_inter_adjusted"],
    )
    return table.reset_index(drop=True)


@table(
    "against_static",
    title="Against static vectors",
    tables=["layers", "vectors"],
    section="5",
)
def against_static(layers: pd.DataFrame, vectors: pd.DataFrame) -> pd.DataFrame:
    """Conventional local dimension by cosines of each layer, against that of static vectors: of all
    points, of an equal number, on which the dimension depends, and (our control) of equally many
    types with one token each, since neighbours of a frequent token are of its own type.

    Both have the same seed; `n` and `n_static` are the numbers of all points.
    """
    subwords = _subwords(layers)
    lid = ["lid_cosine", "lid_cosine_equal_n", "lid_cosine_per_type_1"]
    contextual = subwords[[*FACTS, "layer", "seed", *lid, "n_tokens"]].rename(
        columns={"n_tokens": "n"}
    )
    static = vectors[["embedding", "seed", *lid, "n", "status", "deviations"]].rename(
        columns={
            "embedding": "vectors",
            "lid_cosine": "lid_static",
            "lid_cosine_equal_n": "lid_static_equal_n",
            "lid_cosine_per_type_1": "lid_static_per_type_1",
            "n": "n_static",
            "status": "status_static",
            "deviations": "deviations_static",
        }
    )
    pairs = contextual.merge(static, on="seed").assign(seed=lambda t: t["seed"].astype(str))
    pairs["setup"] = pairs["setup"] + " against " + pairs["vectors"]
    pairs["static_minus_contextual"] = pairs["lid_static"] - pairs["lid_cosine"]
    equal = pairs["lid_static_equal_n"] - pairs["lid_cosine_equal_n"]
    pairs["static_minus_contextual_equal_n"] = equal
    one_per_type = pairs["lid_static_per_type_1"] - pairs["lid_cosine_per_type_1"]
    pairs["static_minus_contextual_one_per_type"] = one_per_type
    for reason in pairs.loc[pairs["status_static"] != "original", "deviations_static"].unique():
        contextual = (pairs["status_static"] != "original") & (pairs["deviations_static"] == reason)
        pairs = deviate(pairs, contextual, str(reason) or "of stand-in vectors")
    return pairs.drop(columns=["status_static", "deviations_static"])


@table("repeated_types", title="Tokens per type", tables=["layers", "vectors"], section="5")
def repeated_types(layers: pd.DataFrame, vectors: pd.DataFrame) -> pd.DataFrame:
    """Conventional local dimension by cosines in samples of equal size with at most 1, 3, 10 or any
    number of tokens per type, and the share of a frequent token's neighbours that are of its own
    type. Ours, as a control: of static vectors, each word has one.

    A row per layer or set of static vectors, seed and number; layer NaN for static vectors.
    """
    prefix = "lid_cosine_per_type_"
    keys = [*FACTS, "layer", "seed", "own_type_share"]
    both = pd.concat([_subwords(layers), vectors], ignore_index=True)
    table = both.reindex(columns=[*keys, *layers.filter(like=prefix)]).melt(
        keys, var_name="tokens_per_type", value_name="lid_cosine"
    )
    return table.assign(tokens_per_type=table["tokens_per_type"].str.removeprefix(prefix))


def _with_setup(facts: dict[str, object]) -> dict[str, object]:
    return {"setup": f"{facts['dataset']}, {facts['embedding']}", **facts}


def _subwords(layers: pd.DataFrame) -> pd.DataFrame:
    """Rows with the authors' types, subwords; all rows if there are none."""
    subwords = layers[layers["types"] == "subwords"]
    return subwords if len(subwords) else layers


def _words_stand_in(table: pd.DataFrame) -> pd.DataFrame:
    return deviate(table, table["types"] != "subwords", "types are words, not sub-words")


def _printed(
    rows: pd.DataFrame, published: pd.DataFrame, locator: str, quantity: pd.Series | str
) -> pd.Series:
    """The published value of each row's data set and model."""
    keys = {"dataset": rows["dataset"], "model": rows["embedding"]}
    return printed(rows, published, locator=locator, quantity=quantity, **keys)


@table("layers", title="Every score of every layer", runs="layers", kind="layer", section="3 to 5")
def layers(runs: LayerRuns) -> pd.DataFrame:
    """Every score of every layer: cosines, clusters, local dimension, IsoScore.

    A row per corpus, model, layer, kind of types and seed. Rows with other types than the authors'
    subwords are stand-ins.
    """
    return _words_stand_in(_without_variants(_scores(runs)))


@table(
    "variants",
    title="Every score of every layer, with variants",
    runs="layers",
    kind="layer",
    needs="variants",
    section="3 to 5",
)
def variants(runs: LayerRuns) -> pd.DataFrame:
    """Every score of every layer of models with variants: all tokens, without the first of each
    window, without massive activations, and with standardized dimensions.

    A row per corpus, model, layer, variant and seed; `all` is the variant with all tokens.
    """
    table = _subwords(_words_stand_in(_scores(runs)))
    several = table.groupby("setup")["variant"].transform("nunique") > 1
    table = table[several].reset_index(drop=True)
    for variant in table.loc[table["variant"] != "all", "variant"].unique():
        table = deviate(table, table["variant"] == variant, f"variant {variant} of the tokens")
    return table


@table(
    "variant_directions",
    title="Variants: what the claims ask",
    tables=["variants"],
    needs="variants",
    section="3 to 5",
)
def variant_directions(variants: pd.DataFrame) -> pd.DataFrame:
    """What the claims on variants are about, per model, layer, variant and seed.

    The columns of `directions`, and the variant.
    """
    return _directions(variants).assign(variant=variants["variant"].to_numpy())


@table(
    "turns",
    title="Statements that a variant turns",
    tables=["variants"],
    needs="variants",
    section="3 to 5",
)
def turns(variants: pd.DataFrame) -> pd.DataFrame:
    """In how many layers each statement holds with all tokens and with each variant, and whether
    the variant turns it. Ours: in decoders a few tokens and dimensions can hide the rest.

    Scores are means over seeds.
    """
    rows = []
    per_seed = variant_directions(variants)
    setup_columns = ["setup", "dataset", "embedding", "data", "model"]
    for key, setup in per_seed.groupby(setup_columns, sort=False):
        for statement, (column, kind, bound) in _STATEMENTS.items():
            counts = {
                str(variant): (
                    group["layer"].nunique(),
                    int(_holds(_layer_means(group, column), kind, bound).sum()),
                )
                for variant, group in setup.groupby("variant", sort=False)
            }
            read = {name: _holds_overall(statement, *count) for name, count in counts.items()}
            rows += [
                dict(zip(setup_columns, key, strict=True))
                | {"statement": statement, "variant": name, "n_layers": n, "n_hold": n_hold}
                | {"holds": read[name], "turns": read[name] != read["all"]}
                for name, (n, n_hold) in counts.items()
            ]
    dropped = variants.groupby(["setup", "variant"], as_index=False)["n_dropped"].max()
    reasons = variants.groupby(["setup", "variant"], as_index=False)[
        ["status", "deviations"]
    ].first()
    return pd.DataFrame(rows).merge(dropped).merge(reasons)


def _holds(values: pd.Series, kind: str, bound: float) -> pd.Series:
    """Whether a statement holds, layer by layer, by more than a rounding error."""
    rounded = values.round(9)
    holds: pd.Series = rounded > bound if kind == "above" else rounded < bound
    return holds


def _layer_means(group: pd.DataFrame, column: str) -> pd.Series:
    means: pd.Series = group.groupby("layer")[column].mean()
    return means


def _holds_overall(statement: str, n_layers: int, n_hold: int) -> bool:
    """Whether a statement holds in every layer; the one on clusters, in more than half of them."""
    return 2 * n_hold > n_layers if "more than one" in statement else n_hold == n_layers


def _scores(runs: LayerRuns, facts: set[str] | None = None) -> pd.DataFrame:
    """Rows of all layers, with the named facts about each layer; None: all facts."""
    return long_table((_with_setup(run.model_dump(include=facts)), rows) for run, rows in runs)


def _without_variants(table: pd.DataFrame) -> pd.DataFrame:
    """Rows of all tokens, without those of variants."""
    rows = table[table["variant"] == "all"].drop(columns=["variant", "n_dropped"], errors="ignore")
    return rows.reset_index(drop=True)


@table(
    "silhouettes",
    title="Silhouettes by number of clusters",
    runs="layers",
    kind="layer",
    run_table="silhouettes",
    section="4",
)
def silhouettes(runs: LayerRuns) -> pd.DataFrame:
    """Silhouette for each number of clusters that was tried.

    A row per layer, kind of types, seed and number.
    """
    return _words_stand_in(_without_variants(_scores(runs, _SETUP_FACTS)))


@table(
    "points",
    title="Tokens in a plane",
    runs="layers",
    kind="layer",
    run_table="points",
    section="4, 5",
)
def points(runs: LayerRuns) -> pd.DataFrame:
    """A part of the tokens of each layer on principal components of the whole and of the largest
    cluster.

    Of each the first three components.
    """
    return _words_stand_in(_without_variants(_scores(runs, _SETUP_FACTS)))


@table(
    "vectors",
    title="Local intrinsic dimension of static vectors",
    runs="vectors",
    kind="vectors",
    section="Table 3",
)
def vectors(runs: VectorRuns) -> pd.DataFrame:
    """Local intrinsic dimension of static vectors.

    A row per seed.
    """
    facts = ({"setup": run.embedding, "dataset": "", **run.model_dump()} for run, _ in runs)
    return long_table(zip(facts, (rows for _, rows in runs), strict=True)).assign(
        data=lambda t: t["model"]
    )
