"""Tables of Ethayarajh 2019. `setup` is a collection of texts with a model; `main` marks rows of
the unit that claims take as the model's words.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from replication.geometry.spec import ContextsFacts, StaticWordsFacts
from replication.papers.declare import table
from replication.tables.bootstrap import percentiles, spearman_draws, spearman_influences, widen
from replication.tables.items import Z
from replication.tables.runs import deviate, long_table, printed

LayerRuns = Sequence[tuple[ContextsFacts, pd.DataFrame]]
"""Facts about each layer, and one of its tables."""
StaticRuns = Sequence[tuple[StaticWordsFacts, pd.DataFrame]]
"""Facts about static vectors of each setup, and a row per layer, benchmark and pair."""

ABOUT = ["setup", "texts", "embedding", "data", "model", "status", "deviations"]
KEYS = [*ABOUT, "layer", "unit", "variant", "main"]
NULLS = ("", "_null", "_excess")
ESTIMATES = ("uncentred", "centred", "truncated_svd")
"""Estimates of maximum explainable variance."""
COUNTS = {"baseline_cosine": "n_sentences", "self_similarity": "n_words"}
COUNTS |= {f"{n}{end}": "n_sentences" for n in ("intra", "intra_loo") for end in NULLS}
COUNTS |= {
    f"mev_{name}{end}": "n_words" for name in ESTIMATES for end in ("", "_matched", "_excess")
}
"""Quantities with a standard error, and the column that counts the units it is over."""
ADJUSTED = {
    "self_similarity_adjusted": ("self_similarity", "baseline_cosine"),
    "intra_adjusted": ("intra", "baseline_cosine"),
    **{f"mev_{n}_adjusted": (f"mev_{n}", f"mev_{n}_baseline") for n in ESTIMATES},
}
"""Adjusted quantities, as in the paper: the raw quantity, and the baseline to subtract."""
PAPER_WORDS = ("and", "of", "'s", "the", "to")
"""The words with the lowest self-similarity in ELMo (section 4.1)."""
OTHER_KINDS = ("mean", "first component, centred")
"""Kinds of static vectors that are ours, beside the paper's."""
STOP_WORDS = """a about after all also an and are as at be been but by can do for from had has have
he her his i if in into is it its more my no not of on one or our out she so some than that the
their them then there they this to up was we were what when which who will with would you"""
"""The most frequent function words of English."""


STATEMENTS: dict[str, tuple[str, str, float, bool]] = {
    "words are anisotropic in hidden layers: baseline cosine above 0.1": (
        "baseline_cosine",
        "above",
        0.1,
        True,
    ),
    "words are alike in their contexts: adjusted self-similarity above 0": (
        "self_similarity_adjusted",
        "above",
        0,
        False,
    ),
    "words of a sentence are more alike than random ones: adjusted, as published": (
        "intra_adjusted",
        "above",
        0,
        False,
    ),
    "the same, over shuffled sentences": ("intra_excess", "above", 0, False),
    "the same, leave-one-out, over shuffled sentences": ("intra_loo_excess", "above", 0, False),
    **{
        f"{how} explainable variance is below 5 %: {words}": (
            f"mev_{name}{end}",
            "below",
            0.05,
            False,
        )
        for how, end in (("adjusted", "_adjusted"), ("raw", ""))
        for name, words in zip(
            ESTIMATES, ("the formula", "about the mean", "TruncatedSVD"), strict=True
        )
    },
}
"""For each statement: quantity, side of the bound, bound, and whether only for hidden layers."""


@table(
    "statements", title="In how many layers each statement holds", tables=["measures"], section="4"
)
def statements(measures: pd.DataFrame) -> pd.DataFrame:
    """In how many layers each statement holds (its whole 95 % interval lies on the statement's
    side), by estimator, unit and variant.
    """
    rows = []
    keys = ["setup", "texts", "embedding", "data", "model", "unit", "variant", "main"]
    for statement, (quantity, side, bound, hidden) in STATEMENTS.items():
        selected = measures[measures["quantity"] == quantity]
        selected = selected[selected["layer"] > 0] if hidden else selected
        for key, group in selected.groupby(keys, sort=False):
            above = side == "above"
            holds = group["value_low"] > bound if above else group["value_high"] < bound
            fails = group["value_high"] < bound if above else group["value_low"] > bound
            row_facts = {"statement": statement, "quantity": quantity, "n_layers": len(group)}
            row_facts |= {"n_hold": int(holds.sum()), "n_fail": int(fails.sum())}
            row_facts |= {"least": group["value"].min(), "largest": group["value"].max()}
            row_facts |= {c: group[c].iloc[0] for c in ("status", "deviations")}
            rows.append(dict(zip(keys, key, strict=True)) | row_facts)
    return pd.DataFrame(rows)


@table(
    "table1",
    title="Static vectors on word similarity",
    runs="static",
    kind="static_words",
    published=True,
    needs="benchmarks",
    section="Table 1",
)
def table1(runs: StaticRuns, published: pd.DataFrame) -> pd.DataFrame:
    """Spearman's rho of static vectors on word similarity, by layer and kind: all pairs, a word
    without vector having the mean of all, as the authors; and the pairs whose words all vectors
    have.

    `covered` marks pairs whose words are in all sets of vectors. Intervals are from a bootstrap
    over pairs.
    """
    rows = []
    for facts, pairs in runs:
        for key, group in pairs.groupby(["benchmark", "layer", "vectors"], sort=False):
            benchmark, layer, vectors = str(key[0]), int(str(key[1])), str(key[2])
            setup_facts = _with_setup(facts)
            title = facts.vector_titles.get(vectors, vectors)
            name = title if layer < 0 else f"{facts.embedding}, layer {layer}"
            row_facts = {"benchmark": benchmark, "layer": layer, "static": name, "vectors": vectors}
            rows.append(
                setup_facts
                | row_facts
                | _rho(group, "")
                | _rho(group[group["covered"]], "_covered")
            )
    table = pd.DataFrame(rows)
    values = printed(
        table,
        published,
        locator="Table 1",
        dataset=table["benchmark"],
        model=table["embedding"],
        quantity="table 1 layer " + table["layer"].astype(str),
    )
    return table.assign(published=values.where(table["vectors"] == "first component"))


@table(
    "static_differences",
    title="Differences of static vectors",
    runs="static",
    kind="static_words",
    needs="benchmarks",
    section="Table 1",
)
def static_differences(runs: StaticRuns) -> pd.DataFrame:
    """First components of the first hidden layer against those of the last and against other static
    vectors: differences of Spearman's rho, paired bootstrap over pairs.

    Only covered pairs count.
    """
    rows = []
    for facts, pairs in runs:
        covered = pairs[pairs["covered"] & ~pairs["vectors"].isin(OTHER_KINDS)]
        for benchmark, group in covered.groupby("benchmark", sort=False):
            wide = group.pivot_table(index="pair", columns=["vectors", "layer"], values="cosine")
            pair_rows = group.drop_duplicates("pair").set_index("pair").loc[wide.index]
            first_components = wide["first component"]
            lower, upper = (
                first_components[first_components.columns[first_components.columns > 0]]
                .iloc[:, [0, -1]]
                .to_numpy()
                .T
            )
            other_vectors = {
                name: wide[name][-1].to_numpy()
                for name in wide.columns.unique("vectors")
                if name != "first component"
            }
            for name, worse in ({"upper layer": upper} | other_vectors).items():
                row_facts = {"benchmark": benchmark, "against": name, "n_items": len(pair_rows)}
                difference = _rho_difference(lower, worse, pair_rows)
                rows.append(_with_setup(facts) | row_facts | difference)
    return pd.DataFrame(rows)


def _with_setup(facts: ContextsFacts | StaticWordsFacts) -> dict[str, object]:
    return {
        "setup": f"{facts.texts}, {facts.embedding}",
        **facts.model_dump(exclude={"vector_titles"}),
    }


def _without_interval(layers: pd.DataFrame, name: str, value: pd.Series) -> pd.DataFrame:
    return layers[KEYS].assign(quantity=name, value=value)


def _with_interval(
    layers: pd.DataFrame, name: str, value: pd.Series, error: pd.Series | np.ndarray, count: str
) -> pd.DataFrame:
    low, high = value - Z * error, value + Z * error
    rows = _without_interval(layers, name, value)
    return rows.assign(value_low=low, value_high=high, n_items=layers[count])


def _score(layers: pd.DataFrame, name: str, count: str) -> pd.DataFrame:
    return _with_interval(layers, name, layers[name], layers[f"{name}_error"], count)


def _difference(layers: pd.DataFrame, name: str, raw: str, less: str) -> pd.DataFrame:
    error = np.hypot(layers[f"{raw}_error"], layers[f"{less}_error"])
    return _with_interval(layers, name, layers[raw] - layers[less], error, COUNTS[raw])


def _empty_interval(name: str) -> dict[str, float]:
    return {f"{name}_low": math.nan, f"{name}_high": math.nan}


def _rho(group: pd.DataFrame, suffix: str) -> dict[str, float]:
    """Spearman's rho of the pairs of a group, with its interval; NaN with fewer than four."""
    names = [f"rho{suffix}", f"rho{suffix}_low", f"rho{suffix}_high"]
    cosines, scores = group["cosine"].to_numpy(), group["score"].to_numpy()
    values = [math.nan] * 3
    if len(group) > 3 and np.ptp(cosines) > 0:
        rho = pd.Series(cosines).corr(pd.Series(scores), method="spearman")
        draws = spearman_draws(cosines, scores)[0]
        influences = spearman_influences(cosines, scores)[0]
        texts = group[["first", "second"]].to_numpy()
        values = [rho, *percentiles(widen(draws, rho, influences, texts))]
    return {f"n_items{suffix}": len(group), **dict(zip(names, values, strict=True))}


def _rho_difference(
    better: np.ndarray, worse: np.ndarray, pair_rows: pd.DataFrame
) -> dict[str, float]:
    """Difference of two rhos on the same pairs; NaN with fewer than four pairs."""
    cosines, scores = np.stack([better, worse]), pair_rows["score"].to_numpy()
    if len(scores) < 4 or (np.ptp(cosines, axis=1) == 0).any():
        return {"difference": math.nan, **_empty_interval("difference")}
    draws, influences = spearman_draws(cosines, scores), spearman_influences(cosines, scores)
    rho = [pd.Series(row).corr(pd.Series(scores), method="spearman") for row in cosines]
    difference, by_pair = rho[0] - rho[1], influences[0] - influences[1]
    texts = pair_rows[["first", "second"]].to_numpy()
    low, high = percentiles(widen(draws[0] - draws[1], difference, by_pair, texts))
    return {"difference": difference, "difference_low": low, "difference_high": high}


@table(
    "stop_words",
    title="Function words",
    runs="layers",
    kind="contexts",
    run_table="words",
    section="4.2",
)
def stop_words(runs: LayerRuns) -> pd.DataFrame:
    """Share of all words with a lower self-similarity: of the words that the paper names, and the
    mean over function words, with its 95 % interval over these.

    A row per layer and word, or mean.
    """
    rows = []
    for facts, words in runs:
        rank = words["self_similarity"].rank(method="average")
        share = ((rank - 1) / max(len(words) - 1, 1)).to_numpy()
        lower = words["name"].str.lower().str.lstrip("▁Ġ")
        setup_facts = _with_setup(facts) | {"n_words": len(words), "hidden": facts.layer > 0}
        for name in PAPER_WORDS:
            word_shares = share[(lower == name).to_numpy()]
            if len(word_shares):
                row_facts = {"word": name, "n_items": len(word_shares)}
                row_facts |= {"share_below": word_shares.mean(), **_empty_interval("share_below")}
                rows.append(setup_facts | row_facts)
        function_shares = share[lower.isin(STOP_WORDS.split()).to_numpy()]
        if len(function_shares) > 1:
            mean, n = function_shares.mean(), len(function_shares)
            half = Z * function_shares.std(ddof=1) / math.sqrt(n)
            row_facts = {"word": "function words", "n_items": n, "share_below": mean}
            row_facts |= {"share_below_low": mean - half, "share_below_high": mean + half}
            rows.append(setup_facts | row_facts)
    return pd.DataFrame(rows)


@table(
    "measures",
    title="What the claims test, by layer",
    tables=["layers"],
    published=True,
    section="4",
)
def measures(layers: pd.DataFrame, published: pd.DataFrame) -> pd.DataFrame:
    """Every quantity of every layer with its 95 % interval, as published and over its null, beside
    the paper's number.

    `adjusted` is minus the baseline, as in the paper; `excess` is minus the value for as many
    random tokens. The squares of the errors of both parts are added.
    """
    parts = [_score(layers, name, count) for name, count in COUNTS.items()]
    parts += [_difference(layers, name, *terms) for name, terms in ADJUSTED.items()]
    parts += [
        _without_interval(layers, name, layers[name])
        for name in layers.columns
        if name.startswith("mean_cosine") or name.endswith("_formula") or name.endswith("_below")
    ]
    parts += [_score(layers, f"mev_{n}_baseline", "n_sentences") for n in ESTIMATES]
    table = pd.concat(parts, ignore_index=True).dropna(subset="value", ignore_index=True)
    table["hidden"] = table["layer"] > 0
    table["interval_method"] = "normal, over words or sentences"
    quantity = table["quantity"] + " layer " + table["layer"].astype(str)
    values = printed(table, published, model=table["embedding"], quantity=quantity)
    main = table["main"] & (table["variant"] == "all")
    return table.assign(published=values.where(main))


@table("layers", title="Every score of every layer", runs="layers", kind="contexts", section="3, 4")
def layers(runs: LayerRuns) -> pd.DataFrame:
    """Every score of every layer, with standard errors, by unit and variant.

    A row per texts, model, layer, unit and variant.
    """
    table = long_table((_with_setup(facts), rows) for facts, rows in runs)
    table["main"] = table["unit"] == table["main_unit"]
    table = deviate(table, ~table["main"], "words by another unit")
    for variant in table.loc[table["variant"] != "all", "variant"].unique():
        table = deviate(table, table["variant"] == variant, f"variant {variant} of the words")
    return table


@table(
    "dimensions",
    title="Dimensions that contribute most to the mean cosine",
    runs="layers",
    kind="contexts",
    run_table="dimensions",
    section="Timkey & van Schijndel (2021)",
)
def dimensions(runs: LayerRuns) -> pd.DataFrame:
    """Dimensions that contribute most to the mean cosine, per layer and variant."""
    return long_table((_with_setup(facts), rows) for facts, rows in runs)


@table("published_layers", title="Published curves", published=True, section="Figures 1 to 4")
def published_layers(published: pd.DataFrame) -> pd.DataFrame:
    """The numbers of the authors' result files, layer by layer.

    A row per model, quantity and layer.
    """
    parts = published["quantity"].str.extract(r"^(?P<quantity>\w+) layer (?P<layer>\d+)$")
    selected = published[["locator", "model", "value", "source_note"]].join(parts)
    table = selected[selected["locator"].str.startswith("Figure")].astype({"layer": int})
    return table.assign(status="original").reset_index(drop=True)
