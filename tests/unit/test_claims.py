"""Verdicts of claims on known numbers, and on tables derived from the claims themselves."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests

from isotropy.errors import IsotropyError
from replication.claims import estimate as estimates
from replication.claims.evaluate import SCHEMA, estimate_over_conventions, evaluate
from replication.claims.judge import count_outliers, judge, p_value
from replication.claims.read import expand_template, fill, matching_rows, read_claims
from replication.claims.spec import ALPHA, Beyond, Claim, Equals, Statement
from replication.claims.statements import holm
from replication.claims.wording import expectation, explanation, sentence
from replication.papers.registry import KEYS, Paper, paper, papers
from replication.yaml_files import read_yaml
from tests.conftest import Workflow
from tests.unit.entries import TABLES

EQUALS = {"kind": "equals", "tolerance": 0.01}
BELOW = {"kind": "below", "bound": 0}
ABOVE = {"kind": "above", "bound": 0}
X: dict[str, object] = {"table": "t", "column": "x", "where": {}}
ONE_ROW = pd.DataFrame({"setup": ["a"], "status": "original", "x": 57.0})
QUANTITY = X | {"where": {"dataset": "d"}, "original": {"model": "m"}}


def claim(
    test: dict[str, object] | None, published: float | None = None, **changes: object
) -> Claim:
    entry: dict[str, object] = {
        "id": "c",
        "paper": "mickus2024",
        "locator": "section 1",
        "statement": "it is so",
        "unit": None if test is None else "seeds",
        "test": test,
        "quantity": QUANTITY,
        "published": None if published is None else {"value": published, "source_note": "printed"},
    }
    return Claim.model_validate(entry | changes)


@pytest.mark.parametrize(
    ("test", "published", "values", "word"),
    [
        # The interval is inside the tolerance, outside, or neither.
        (EQUALS, -0.8, [-0.801, -0.799, -0.8], "reproduced"),
        (EQUALS, -0.8, [-0.76, -0.7602, -0.7598], "deviates"),
        (EQUALS, -0.8, [0.5, 0.51, 0.52], "contradicted"),
        (EQUALS, -0.8, [-0.9, -0.1, -0.4], "undecided"),
        # The mean is inside, but the interval is wide.
        ({"kind": "equals", "tolerance": 20}, 92.4, [80, 105.2, 92], "undecided"),
        (BELOW, None, [-0.1, -0.11, -0.12], "reproduced"),
        (BELOW, None, [-0.1, 0.2, -0.3], "undecided"),
        (BELOW, None, [0.1, 0.11, 0.12], "contradicted"),
        # Equal runs do not show how runs differ; a run that collapsed may be on the other side.
        (BELOW, None, [-0.1, -0.1, -0.1], "undecided"),
        (BELOW, None, [-9.0] * 3 + [-9.001] * 9 + [0.1], "undecided"),
        (BELOW, None, [-9.0] * 3 + [-9.001] * 9 + [-0.1], "reproduced"),
        # Fewer than three runs decide nothing.
        (EQUALS, -0.8, [-0.8], "undecided"),
        (BELOW, None, [0.4, 0.41], "undecided"),
        ({"kind": "below", "bound": -0.998}, None, [-0.99, -0.991, -0.992], "deviates"),
        # `every`: a single exception contradicts, even of one run.
        (ABOVE | {"every": True}, None, [3.0, 4.0, 400.0, 2.0, 5.0], "reproduced"),
        (ABOVE | {"every": True}, None, [3.0, 4.0, 400.0, 2.0], "undecided"),  # 53 % may fail
        (ABOVE | {"every": True}, None, [3.0, 400.0, -1.0], "contradicted"),
        ({"kind": "below", "bound": -0.998, "every": True}, None, [-0.999, -0.99], "deviates"),
        # An exact number has no interval.
        ({"kind": "equals", "tolerance": 0}, 4094976, 4094976, "reproduced"),
        ({"kind": "equals", "tolerance": 0}, 4094976, 4094975, "deviates"),
        (EQUALS, -0.8, -0.79, "reproduced"),  # on the edge of the tolerance
        (ABOVE, None, -0.2, "contradicted"),
        (ABOVE, None, 0.0, "undecided"),
    ],
)
def test_judge_gives_the_expected_verdict(
    test: dict[str, object], published: float | None, values: list[float] | float, word: str
) -> None:
    exact = not isinstance(values, list)
    tested = claim(test, published, unit="deterministic" if exact else "seeds")
    estimate = estimates.exact(values) if exact else estimates.mean(np.array(values))
    assert judge(tested, estimate, p_value(tested, estimate)).word == word


def test_a_convention_widens_the_interval() -> None:
    """Signs of eigenvectors move I(W): an exact number is decided where all signs agree; one over
    seeds has the interval from that of the lowest values to that of the highest."""
    quantity = {**QUANTITY, "convention": "signs"}
    exact = claim(EQUALS, -0.8, unit="deterministic", quantity=quantity)
    cases = {"reproduced": (-0.805, -0.795), "undecided": (-0.9, -0.795), "deviates": (-0.95, -0.9)}
    for word, (low, high) in cases.items():
        table = pd.DataFrame({"x": [(low + high) / 2], "x_low": [low], "x_high": [high]})
        estimate = estimate_over_conventions(exact, table)
        assert estimate.interval == (low, high)
        assert judge(exact, estimate, p_value(exact, estimate)).word == word

    values = np.array([1.0, 1.1, 1.2])
    table = pd.DataFrame({"x": values, "x_low": values - 0.5, "x_high": values + 2})
    above = claim(ABOVE, quantity=quantity)
    estimate = estimate_over_conventions(above, table)
    low, high = estimates.mean(values).interval
    assert (estimate.value, *estimate.interval) == pytest.approx((1.1, low - 0.5, high + 2))
    assert estimate.p(0.7) == 1  # some signs give it
    for edge in estimate.interval:
        assert estimate.p(edge) == pytest.approx(ALPHA)
    without = estimate_over_conventions(above, table[["x"]])
    assert without.interval == (low, high)


def test_minus_compares_two_columns_by_welchs_test() -> None:
    table = TABLE.assign(y=[-3.0, -3.2, -3.1, 0.0, 0.0, 1.0, 1.2])
    minus = X | {"minus": "y"}
    rows = evaluated(claim(ABOVE, quantity=minus), table)
    cases = rows[~rows["overall"]]
    assert cases["word"].tolist() == ["reproduced", "undecided"]
    assert cases["obtained"].tolist() == pytest.approx([2.3, -1.2337], abs=1e-3)
    assert cases["column"].tolist() == ["x minus y"] * 2
    assert cases["interval_method"].iloc[0] == "Welch's t"
    nothing = evaluated(claim(BELOW, quantity=minus), table.assign(y=np.nan))
    assert set(nothing.loc[~nothing["overall"], "reason"]) == {"y is not a number"}


def test_row_with_mean_and_sd_has_an_interval() -> None:
    """The row summarizes several seeds."""
    row = ONE_ROW.assign(x_sd=4.0, n_seeds=5)
    above = claim({"kind": "above", "bound": 54.4}, quantity=X)
    result = evaluated(above, row)
    assert result["word"][0] == "undecided"
    assert result[["sd", "n_units"]].iloc[0].tolist() == [4, 5]
    assert result["high"][0] - 57 == pytest.approx(stats.t.ppf(0.975, 4) * 4 / math.sqrt(5))
    assert result["needed"][0] > 5
    assert evaluated(above, row.assign(x_sd=0.1))["word"][0] == "reproduced"
    alone = evaluated(above, row.assign(x_sd=np.nan, n_seeds=1))
    assert verdict_text(alone) == "open: 1 run, 3 are needed"


def test_interval_over_items_is_read_from_the_table() -> None:
    """One run is enough then."""
    row = ONE_ROW.assign(x_low=55.0, x_high=59.0, n_items=872, interval_method="bootstrap")
    equals_claim = claim({"kind": "equals", "tolerance": 3}, 57.5, unit="items", quantity=X)
    result = evaluated(equals_claim, row).iloc[0]
    assert result["word"] == "reproduced"
    assert result[["unit", "n_units", "interval_method"]].tolist() == ["items", 872, "bootstrap"]
    assert evaluated(equals_claim, row.assign(x_high=62.0))["word"][0] == "undecided"


def test_layers_are_fixed() -> None:
    """Their statistic is computed for each seed, or exactly."""
    table = pd.DataFrame({"layer": np.tile(np.arange(7), 3), "seed": np.repeat(list("012"), 7)})
    table = table.assign(setup="a", status="original", x=table["layer"] * 1.0)
    layers = X | {"across_layers": True}
    rises = claim({"kind": "above", "bound": 0.5}, quantity=layers | {"against": "layer"})
    result = evaluated(rises, table).iloc[0]
    assert (result["word"], result["unit"], result["n_units"]) == ("reproduced", "seeds", 3)
    assert result["high"] == 1
    assert 0.94 < result["low"] < 1
    assert evaluated(rises, table[table["seed"] < "2"])["word"][0] == "undecided"
    flat = verdict_text(evaluated(rises, table.assign(x=1.0)))
    assert flat == "not tested: its values do not vary"
    most = claim({"kind": "above", "bound": 0.5}, quantity=layers | {"statistic": "share"})
    assert evaluated(most, table.assign(x=table["layer"] > 1))["obtained"][0] == 5 / 7
    assert evaluated(most, table.assign(x=table["layer"] > 2))["word"][0] == "undecided"
    assert verdict_text(evaluated(most, table.assign(x=0.0))) == "fails"
    counted = claim({"kind": "above", "bound": 0.5}, unit="deterministic", quantity=most.quantity)
    one_seed = table[:7].assign(x=table["layer"] > 2)
    assert evaluated(counted, one_seed)["low"][0] == 4 / 7
    by_layer = evaluated(claim(ABOVE, unit="deterministic", quantity=X | {"by": ["layer"]}), table)
    assert by_layer["setup"].tolist() == ["", *(f"a, layer {i}" for i in range(7))]
    assert explanation(by_layer.iloc[0]) == "open in 1 of 7, holds in 6"


@pytest.mark.parametrize(("error", "word"), [(0.01, "reproduced"), (3.0, "undecided")])
def test_errors_over_items_decide_on_the_order_of_layers(error: float, word: str) -> None:
    table = pd.DataFrame({"layer": range(6), "x": np.arange(6.0), "n_items": 100})
    ends = {"x_low": table["x"] - 1.96 * error, "x_high": table["x"] + 1.96 * error}
    table = table.assign(setup="a", status="original", **ends)
    layers = X | {"across_layers": True}
    rises = claim(ABOVE, unit="items", quantity=layers | {"against": "layer"})
    assert evaluated(rises, table)["word"][0] == word
    most = claim(
        {"kind": "above", "bound": 0.5}, unit="items", quantity=layers | {"statistic": "share"}
    )
    assert evaluated(most, table)["obtained"][0] == 5 / 6


@pytest.mark.parametrize(
    ("n_below", "word"), [(0, "reproduced"), (1, "reproduced"), (2, "deviates")]
)
def test_second_lowest_layer_decides_on_all_layers_but_one(n_below: int, word: str) -> None:
    x = np.where(np.arange(6) < n_below, 0.1, 0.3 + 0.01 * np.arange(6))
    table = pd.DataFrame({"layer": range(6), "x": x, "n_items": 100, "setup": "a"})
    table = table.assign(status="original", x_low=x - 0.01, x_high=x + 0.01)
    quantity = X | {"across_layers": True, "statistic": "second_lowest"}
    but_one = claim({"kind": "above", "bound": 0.2}, unit="items", quantity=quantity)
    result = evaluated(but_one, table).iloc[0]
    assert (result["word"].split()[0], result["obtained"]) == (word, np.sort(x)[1])


def test_equal_runs_are_exact_where_the_seed_has_no_effect() -> None:
    quantity = X | {"exact_where": {"n_clusters": 1}}
    table = TABLE[:3].assign(x=0.5, n_clusters=[1, 1, 1])
    result = evaluated(claim(ABOVE, quantity=quantity), table).iloc[0]
    assert (result["word"], result["n_units"], result["low"]) == ("reproduced", 3, 0.5)
    drawn = evaluated(claim(ABOVE, quantity=quantity), table.assign(n_clusters=[1, 1, 2]))
    assert drawn["reason"][0] == "no interval: all values are equal"


def test_runs_apart_are_counted() -> None:
    """About 1 % of normal samples; all samples of which a tenth is far away."""
    rng = np.random.default_rng(1)
    counted = [count_outliers(rng.standard_normal(n)) > 0 for n in (5, 10, 30) for _ in range(400)]
    assert 0.003 < np.mean(counted) < 0.02
    for n, n_outliers in ((10, 1), (30, 3)):
        values = np.r_[rng.normal(90, 1, n - n_outliers), rng.normal(50, 1, n_outliers)]
        assert count_outliers(values) == n_outliers
    assert count_outliers(np.array([1.0, 1, 1, 1, 1 + 1e-12])) == count_outliers(np.ones(9)) == 0
    runs = np.r_[np.linspace(0.8, 0.9, 9), 0.3]
    table = pd.DataFrame({"setup": "a", "status": "original", "seed": range(10), "x": runs})
    row = evaluated(claim(ABOVE, quantity=X), table).iloc[0]
    assert row["runs"].startswith("0.3 0.8 ")
    assert sentence(row) == "holds: 1 of 10 runs apart from the others"


@pytest.mark.parametrize(
    ("requires", "changes", "verdict"),
    [
        ("requires_learned", {"learned": False}, "not tested: .* did not learn"),
        ("requires_all_learned", {"all_learned": False}, "not tested: .* compared"),
        ("requires_training", {"too_short": "25 updates", "status": "stand-in"}, ".*25 updates"),
        ("requires_training", {"too_short": "25 updates"}, "holds"),  # the authors' own
        ("requires_training", {"too_short": ""}, "holds"),
    ],
)
def test_performance_of_unlearned_tasks_has_no_verdict(
    requires: str, changes: dict[str, object], verdict: str
) -> None:
    performance = claim(BELOW, quantity=QUANTITY | {requires: True})
    assert re.match(verdict, verdict_text(evaluated(performance, TABLE[:3].assign(**changes))))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_equals_statsmodels(p: list[float]) -> None:
    *adjusted, missing = holm([*p, math.nan])
    assert adjusted == pytest.approx(multipletests(p, method="holm")[1])
    assert math.isnan(missing)


def of_setups(values: dict[str, list[float]], *status: str) -> pd.DataFrame:
    """Return a table of setups with the given values per seed, by default all original."""
    parts = [
        pd.DataFrame({"setup": setup, "status": how, "x": of_seeds}).assign(
            seed=[str(i) for i in range(len(of_seeds))]
        )
        for (setup, of_seeds), how in zip(
            values.items(), status or ("original",) * len(values), strict=True
        )
    ]
    return pd.concat(parts, ignore_index=True)


def statement(rule: str, values: dict[str, list[float]]) -> pd.DataFrame:
    """Evaluate a claim on setups with the given values per seed."""
    return evaluated(claim(ABOVE, rule=rule, quantity=X), of_setups(values))


WELL, BADLY, OPEN = [1.0, 1.1, 0.9], [-1.0, -1.1, -0.9], [1.0, -1.0, 0.3]


@pytest.mark.parametrize(
    ("rule", "values", "word", "detail"),
    [
        ("all", {"a": WELL, "b": WELL}, "reproduced", "holds in 2 of 2"),
        ("all", {"a": WELL, "b": OPEN}, "undecided", "open in 1 of 2, holds in 1"),
        (
            "all",
            {"a": WELL, "b": BADLY, "c": OPEN},
            "contradicted",
            "fails in 1 of 3, holds in 1, open in 1",
        ),
        ("any", {"a": WELL, "b": BADLY}, "reproduced", "holds in 1 of 2, fails in 1"),
        ("any", {"a": OPEN, "b": BADLY}, "undecided", "open in 1 of 2, fails in 1"),
        ("any", {"a": BADLY, "b": BADLY}, "contradicted", "fails in 2 of 2"),
        ("pooled", {"a": WELL, "b": WELL, "c": OPEN}, "undecided", "interval"),
        ("pooled", {"a": WELL, "b": WELL, "c": [1.2, 1.3, 1.1]}, "reproduced", "holds in 3 of 3"),
        ("pooled", {"a": WELL, "b": WELL}, "undecided", "2 cases, 3 are needed"),
        ("pooled", {"a": [1.0], "b": [1.1], "c": [0.9]}, "undecided", "1 run, 3 are needed"),
    ],
)
def test_a_statement_has_one_overall_verdict(
    rule: str, values: dict[str, list[float]], word: str, detail: str
) -> None:
    rows = statement(rule, values)
    assert rows["overall"].tolist() == [True] + [False] * len(values)
    head = rows.iloc[0]
    assert head["word"] == word
    assert detail in explanation(head)
    assert set(rows["statement_id"]) == {"c"}


def test_many_cases_are_adjusted_for_their_number() -> None:
    """A case that is significant by itself is undecided among twenty; the verdict of the statement
    needs no adjustment if all cases hold."""
    values = [0.5, 1.5, 0.9, 1.2]
    alone = statement("all", {"a": values}).iloc[0]
    assert alone["p"] < 0.05 < 20 * alone["p"]
    assert alone["word"] == "reproduced"
    twenty = statement("all", {f"s{i}": values for i in range(20)})
    assert set(twenty.loc[~twenty["overall"], "word"]) == {"undecided"}
    assert "correction" in twenty["reason"][1]
    assert "20 of them" in twenty["reason"][0]
    assert twenty["word"][0] == "reproduced"
    assert twenty["p"][0] == pytest.approx(alone["p"])


def test_incomplete_statement_is_undecided() -> None:
    """Unless a case with the paper's own data contradicts the claim, or shows a claim on any."""
    given = {"id": "f", "text": "all of them"}
    claims = [
        claim(BELOW, id=name, part_of=given, quantity=QUANTITY | {"where": {"setup": name}})
        for name in ("a", "elsewhere")
    ]
    head = evaluate(claims, {"t": TABLE}, {"t": "f" * 64}, "")
    assert head["id"].tolist() == ["f", "a", "elsewhere"]
    assert head["word"].tolist()[:2] == ["undecided", "reproduced"]
    assert "1 not tested" in explanation(head.iloc[0])
    against = evaluate(claims, {"t": TABLE.assign(x=-TABLE["x"])}, {"t": "f" * 64}, "")
    assert against["word"].tolist()[:2] == ["contradicted", "contradicted"]
    any_of_them = [c.model_copy(update={"part_of": ANY_OF_THEM}) for c in claims]
    shown = evaluate(any_of_them, {"t": TABLE}, {"t": "f" * 64}, "")
    assert shown["word"].tolist()[:2] == ["reproduced", "reproduced"]


def test_originals_decide_and_stand_ins_have_a_verdict_of_their_own() -> None:
    """Whatever stand-ins do, and however many there are."""
    values = {"a": WELL, "b": BADLY, "c": OPEN}
    table = of_setups(values, "original", "stand-in", "stand-in")
    above = claim(ABOVE, quantity=X)
    head = evaluated(above, table).iloc[0]
    assert (head["word"], head["status"], head["deviations"]) == ("reproduced", "original", "")
    stand_ins = evaluated(above, table[table["status"] == "stand-in"]).iloc[0]
    columns = ["stand_in_word", "n_stand_ins", "n_stand_ins_holding", "n_stand_ins_failing"]
    assert head[columns].tolist() == stand_ins[columns].tolist() == ["inconsistent", 2, 0, 1]
    assert stand_ins["word"] == "inconsistent"
    behind = evaluated(above, table.iloc[::-1]).iloc[0]  # the original case is the last row
    assert (behind["word"], behind["bound"], behind["record"]) == ("reproduced", 0, "f" * 64)
    # One p-value in each family: the stand-ins do not weaken the original case.
    alone = evaluated(above, table[table["setup"] == "a"]).iloc[0]
    assert head["p"] == alone["p"]
    assert alone["stand_in_word"] == ""
    # The counts of a single stand-in are not those of its values.
    every = claim(ABOVE | {"every": True}, quantity=X)
    one = evaluated(every, of_setups({"a": WELL, "b": OPEN}, "original", "stand-in")).iloc[0]
    assert one[columns[1:]].tolist() == [1, 0, 1]


def test_tests_for_stand_ins_alone() -> None:
    """The sign of a number in place of the number, or nothing at all, with the reason."""
    signed = claim(EQUALS, -0.8, stand_in_test=BELOW)
    rows = evaluated(signed).set_index("setup")
    assert rows["word"].to_dict() == {"": "reproduced", "a": "reproduced", "b": "consistent"}
    assert [expectation(rows.loc[name]) for name in ("a", "b")] == [
        "-0.8 ± 0.01 (our tolerance)",
        "< 0",
    ]
    assert evaluated(claim(EQUALS, -0.8)).set_index("setup").loc["b", "word"] == "inconsistent"
    only = claim(EQUALS, -0.8, originals_only="it has other numbers")
    assert verdict_text(evaluated(only), 2) == "not tested: it has other numbers"
    nothing = evaluated(only, TABLE.assign(status="stand-in"))
    assert set(nothing["word"]) == {"not attempted"}


def test_few_items_decide_nothing() -> None:
    row = ONE_ROW.assign(x_low=55.0, x_high=59.0, n_items=19)
    above = claim(ABOVE, unit="items", quantity=X)
    assert verdict_text(evaluated(above, row)) == "open: 19 items; a verdict needs 20"
    assert evaluated(above, row.assign(n_items=20))["word"][0] == "reproduced"


ANY_OF_THEM = Statement(id="f", text="any of them", rule="any")
TABLE = pd.DataFrame(
    {
        "setup": ["a"] * 4 + ["b"] * 3,
        "dataset": "d",
        "model": ["m"] * 4 + ["other"] * 3,
        "seed": ["0", "1", "2", "mean", "0", "1", "2"],
        "status": "original",
        "deviations": "",
        "data": "the data",
        "x": [-0.799, -0.801, -0.8, 7.0, -0.5, -0.5, -0.501],
    }
)


def verdict_text(verdicts: pd.DataFrame, row: int = 0) -> str:
    """Return the sentence of a verdict."""
    return sentence(verdicts.iloc[row])


def evaluated(one: Claim, table: pd.DataFrame = TABLE) -> pd.DataFrame:
    return evaluate([one], {"t": table}, {"t": "f" * 64}, "the study leaves it out")


def test_one_verdict_per_setup_and_stand_ins_never_reproduce() -> None:
    """Summary rows do not count. A model other than the paper's is a stand-in, whatever the status
    of its source."""
    rows = evaluated(claim(EQUALS, -0.8))
    assert rows["setup"].tolist() == ["", "a", "b"]
    assert rows["word"].tolist() == ["reproduced", "reproduced", "inconsistent"]
    assert rows["status"].tolist() == ["original", "original", "stand-in"]
    assert rows.loc[1, ["n_units", "record", "data"]].tolist() == [3, "f" * 64, "the data"]
    assert rows.loc[1, "obtained"] == pytest.approx(-0.8)
    assert verdict_text(rows, 2) == "fails"
    assert rows["judged"].tolist() == ["reproduced", "reproduced", "deviates"]
    assert expectation(rows.iloc[1]) == "-0.8 ± 0.01 (our tolerance)"
    assert rows["deviations"].tolist() == ["", "", "model other"]
    several = QUANTITY | {"original": {"model": ["m", "other"]}}
    assert set(evaluated(claim(EQUALS, -0.8, quantity=several))["status"]) == {"original"}
    stand_in = TABLE.assign(status="stand-in", deviations="a sample; in float16")
    result = evaluated(claim(EQUALS, -0.8), stand_in)
    assert result["word"].tolist() == ["inconsistent", "consistent", "inconsistent"]
    assert result["deviations"][0] == "a sample; in float16; model other"
    assert list(rows.columns) == list(SCHEMA)


# Number of values per unit in synthetic tables: enough for a verdict.
ROWS = {"deterministic": 1, "items": 1, "seeds": 5}
N_LAYERS = 12


def table_for(one: Claim, values: np.ndarray) -> pd.DataFrame:
    """Build a table that fits a claim, with the given values per unit."""
    quantity = one.quantity
    assert quantity is not None
    n = len(values)
    columns: dict[str, object] = {"setup": ["s"] * n, "status": "original", **quantity.where}
    columns |= {"seed": list(map(str, range(n))), **dict.fromkeys(quantity.besides, "another")}
    for name, wanted in quantity.original.items():
        columns[name] = wanted[0] if isinstance(wanted, list) else wanted
    columns |= dict.fromkeys(quantity.by, 1)
    columns |= {"learned": True, "all_learned": True, "too_short": ""}
    columns[quantity.column] = values
    if quantity.minus:
        columns[quantity.minus] = 0.0
    columns |= dict.fromkeys(quantity.exact_where, 1)
    if quantity.points:
        columns[quantity.points] = 1000
    if quantity.across_layers:
        columns["layer"] = np.arange(n) % N_LAYERS
        columns["seed"] = (np.arange(n) // N_LAYERS).astype(str)
    if one.unit == "items":
        width = one.test.around(one.value) / 20 if isinstance(one.test, Equals) else 0.01
        columns[f"{quantity.column}_low"] = values - width
        columns[f"{quantity.column}_high"] = values + width
        columns["n_items"] = 1000
    return pd.DataFrame(columns)


def effects(one: Claim) -> dict[str, np.ndarray]:
    """Return values that agree with a claim, the opposite, and values without the effect."""
    assert one.quantity is not None
    n = ROWS[str(one.unit)]
    noise = np.resize([0.0, 1.0, -1.0, 0.5, -0.5], n)
    layers = np.tile(np.arange(float(N_LAYERS)), n)
    if one.quantity.statistic == "share":
        true = np.ones(len(layers))
        return {"claimed": true, "opposite": 1 - true, "null": layers % 2}
    if one.quantity.against:
        assert isinstance(one.test, Beyond)
        rising = layers if one.test.kind == "above" else -layers
        return {"claimed": rising, "opposite": -rising, "null": (layers // 2) % 2}
    if one.quantity.across_layers:
        noise = np.repeat(noise, N_LAYERS)
    if isinstance(one.test, Equals):
        value, tolerance = one.value, one.test.around(one.value)
        spread = noise * tolerance / 10
        far = value + 10 * tolerance + abs(value) + 1
        return {"claimed": value + spread, "opposite": far + spread, "null": far + spread}
    assert isinstance(one.test, Beyond)
    sign = 1 if one.test.kind == "above" else -1
    step = 0.001 if one.quantity.scale == "correlation" or one.test.every else 1.0
    bound, spread = one.test.bound, noise * step
    if one.quantity.statistic == "sd":
        return {"claimed": spread * bound / 50, "opposite": spread * 50, "null": spread * bound}
    return {
        "claimed": bound + sign * step + 0.1 * spread,
        "opposite": bound - sign * step + 0.1 * spread,
        "null": bound + spread if not one.test.every else bound - sign * np.abs(spread),
    }


def test_every_claim_can_be_reproduced_and_contradicted() -> None:
    """Synthetic tables with the claimed effect, the opposite and no effect give the corresponding
    verdicts, also for statements."""
    testable = [
        c.model_copy(update={"quantity": c.quantity.model_copy(update={"table": c.id})})
        for of_paper in papers()
        for c in read_claims(of_paper)
        if c.quantity
    ]
    verdicts = {}
    for name in ("claimed", "opposite", "null"):
        tables = {c.id: table_for(c, effects(c)[name]) for c in testable}
        rows = evaluate(testable, tables, defaultdict(str), "")
        assert len(rows[~rows["overall"] | rows["id"].isin(tables)]) >= len(testable)
        verdicts[name] = rows.set_index("id")["word"]
    assert verdicts["claimed"].eq("reproduced").all()
    assert verdicts["opposite"].isin(["contradicted", "deviates"]).all()
    assert verdicts["null"].ne("reproduced").all()
    assert len(testable) > 300


@pytest.mark.parametrize("key", KEYS)
def test_every_published_number_is_used_by_a_claim(key: str) -> None:
    """A claim tests each row of published.csv, or lists it with the reason why it is not
    tested."""
    source_paper = paper(key)
    numbers = source_paper.published()
    tested, listed = set(), set()
    for entry in read_yaml(source_paper.folder / "claims.yaml")["claims"]:
        for values, member in expand_template(entry):
            keys = fill(member.get("published"), values)
            if keys is not None:
                tested.update(n.model_dump_json() for n in matching_rows(keys, numbers))
            for columns in member.get("prints", []):
                assert member["because"]
                result = matching_rows(columns, numbers)
                assert result, columns
                listed.update(n.model_dump_json() for n in result)
    published_rows = [n.model_dump_json() for n in numbers]
    assert [n for n in published_rows if n not in tested | listed] == []
    assert not tested & listed


def test_claims_of_the_papers_are_valid() -> None:
    """Each names an existing table, published numbers are looked up, and a statement says "(Ours"
    exactly where it is declared as ours."""
    claims = [claim for source_paper in papers() for claim in read_claims(source_paper)]
    assert len({claim.id for claim in claims}) == len(claims) > 150
    assert {c.quantity.table for c in claims if c.quantity} <= set(TABLES)
    published = {c.id: c.published for c in claims if c.published}
    assert published["mickus2024-pearson-snli"].value == -0.878
    assert published["mickus2024-table2-qqp-roberta"].value == 379298306
    statements = [claim.belongs_to for claim in claims]
    for one in statements:
        assert one.control_of in {"", *(other.id for other in statements if not other.ours)}
        said = ("(Ours", ": ours,", "A decoder in their place", "as Rudman et al.")
        assert one.ours == any(text in one.text for text in said), one.id


def test_verdicts_of_the_smoke_study(smoke: Workflow) -> None:
    """All claims have a verdict; except for claims without data, all are based on stand-ins.

    The study trains for six updates, on samples smaller than the dimension, so some quantities
    cannot be computed.
    """
    results = smoke.folder / "results"
    verdicts = pd.read_parquet(results / "claims.parquet")
    tables_without_data = ["mickus2024/simplices", "mickus2024/nested_classes"]
    without_data = verdicts["table"].isin(tables_without_data)
    words = verdicts["word"]
    assert set(words[without_data & verdicts["overall"]]) == {"contradicted", "reproduced"}
    kinds = set(words[~without_data])
    assert kinds <= {"consistent", "inconsistent", "undecided", "not attempted", "not computable"}
    open_ends = (
        "isoscore_performance_r isoscore_silhouette_rho istar_minus_none istar_minus_cosreg "
        "none_minus_cosreg difference difference_falls performance_change change "
        "transductive_mlp_gain inductive_mlp_gain"
    )
    unknown = verdicts[verdicts["word"] == "not computable"]
    assert set(unknown["column"]) <= set(open_ends.split())
    done = verdicts[verdicts["obtained"].notna() & ~without_data]
    assert set(done["setup"]) >= {"polarity", "pos-scaled", "supersenses", "supersenses-scaled"}
    assert (done["record"].str.len() == 64).all()
    assert set(done["status"]) == {"stand-in"}
    assert verdicts.groupby("statement_id")["overall"].sum().eq(1).all()
    assert done["deviations"].ne("").all()


ENTRY = "- {id: a, locator: l, statement: s, quantity: null, test: null"


@pytest.mark.parametrize(
    ("text", "keyword"),
    [
        (f"{ENTRY}}}", "`quantity` and `test`"),
        (f"{ENTRY}, because: b}}\n" * 2, "duplicate"),
        ("[", "claims"),
        (f"{ENTRY}, because: b, statment: s}}", "statment"),
        (f"{ENTRY}, because: b, unit: sedes}}", "sedes"),
        (
            "- {id: a, locator: l, statement: s, unit: seeds, published: {dataset: no}, "
            "quantity: {table: t, column: c, where: {}}, test: {kind: below, bound: 0}}",
            "no row",
        ),
    ],
)
def test_errors_in_claims_files(
    text: str, keyword: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Paper, "folder", tmp_path)
    (tmp_path / "claims.yaml").write_text(f"claims:\n{text}")
    (tmp_path / "published.csv").write_text("locator,dataset,model,quantity,value,source_note\n")
    with pytest.raises(IsotropyError, match=keyword):
        read_claims(paper("mickus2024"))
