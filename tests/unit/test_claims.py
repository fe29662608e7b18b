"""Verdicts: each kind, on numbers that are known; and a falsified result flips one."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from isotropy.claims.evaluate import SCHEMA, Estimate, evaluate, judge
from isotropy.claims.read import read_claims
from isotropy.claims.spec import Claim
from isotropy.claims.write import readable, write_page
from isotropy.errors import IsotropyError
from isotropy.papers.registry import Paper, paper, papers
from tests.conftest import Workflow
from tests.unit.entries import TABLES

EQUALS = {"kind": "equals", "tolerance": 0.01}
BELOW = {"kind": "below", "bound": 0}


def claim(
    test: dict[str, object] | None, published: float | None = None, **changes: object
) -> Claim:
    entry: dict[str, object] = {
        "id": "c",
        "paper": "mickus2024",
        "locator": "section 1",
        "statement": "it is so",
        "test": test,
        "quantity": {
            "table": "t",
            "column": "x",
            "where": {"dataset": "d"},
            "original": {"model": "m"},
        },
        "published": None if published is None else {"value": published, "trust": "printed"},
    }
    return Claim.model_validate(entry | changes)


@pytest.mark.parametrize(
    ("test", "published", "values", "verdict"),
    [
        (EQUALS, -0.8, [-0.81, -0.79], "reproduced"),
        (EQUALS, -0.8, [-0.79], "reproduced"),  # on the edge of the tolerance
        (EQUALS, -0.8, [-0.76, -0.7602, -0.7598], "deviates by +0.04"),
        (EQUALS, -0.8, [0.5, 0.51, 0.52], "contradicted"),
        (EQUALS, -0.8, [0.5], "contradicted"),
        (EQUALS, -0.8, [-0.7, -0.86], "undecided"),
        (EQUALS, -0.8, [0.3, -0.2], "undecided"),
        ({"kind": "equals", "tolerance": 0}, 4094976, [4094976], "reproduced"),
        ({"kind": "equals", "tolerance": 0}, 4094976, [4094975], "deviates by -1"),
        (BELOW, None, [-0.1, -0.11], "reproduced"),
        # Two seeds leave an interval that includes zero, on either side.
        (BELOW, None, [-0.1, -0.2], "undecided"),
        (BELOW, None, [0.1, 0.2], "undecided"),
        # In the mean, the interval excludes zero.
        (BELOW, None, [-0.5, -0.6, -0.55, -0.52, 0.01], "reproduced"),
        (BELOW, None, [-0.1, 0.2], "undecided"),
        (BELOW, None, [0.1, 0.11], "contradicted"),
        (BELOW, None, [0.1], "contradicted"),
        ({"kind": "below", "bound": -0.998}, None, [-0.99, -0.991], "deviates by +0.0075"),
        ({"kind": "below", "bound": -0.998}, None, [0.5, 0.51], "contradicted"),
        ({"kind": "above", "bound": 0}, None, [3.0, 3.1], "reproduced"),
        ({"kind": "above", "bound": 0}, None, [3.0, 4.0], "undecided"),
        ({"kind": "above", "bound": 0, "every": True}, None, [3.0, 4.0], "reproduced"),
        ({"kind": "above", "bound": 0, "every": True}, None, [3.0, 400.0, -1.0], "contradicted"),
        (
            {"kind": "below", "bound": -0.998, "every": True},
            None,
            [-0.999, -0.99],
            "deviates by +0.008",
        ),
    ],
)
def test_judge(
    test: dict[str, object], published: float | None, values: list[float], verdict: str
) -> None:
    assert judge(claim(test, published), Estimate.of_seeds(np.array(values)))[0] == verdict


def test_interval_is_students() -> None:
    values = np.random.default_rng(0).standard_normal(5)
    expected = stats.t.interval(0.95, 4, loc=values.mean(), scale=stats.sem(values))
    assert Estimate.of_seeds(values).interval == pytest.approx(expected)
    assert Estimate.of_summary(values.mean(), values.std(ddof=1), 5).interval == pytest.approx(
        expected
    )
    assert np.isnan(Estimate.of_seeds(values[:1]).interval).all()


def test_independent_samples_are_compared_by_their_means() -> None:
    """As SciPy's Welch test; which run bears which number does not matter."""
    ours, theirs = (
        np.array([70.0, 70.4, 70.8, 71.2, 71.6]),
        np.array([69.8, 70.2, 70.6, 71.0, 71.4]),
    )
    welch = stats.ttest_ind(ours, theirs, equal_var=False)
    for other in (theirs, theirs[::-1]):
        found = Estimate.of_difference(ours, other)
        assert found.interval == pytest.approx(welch.confidence_interval(0.95))
        assert judge(claim({"kind": "above", "bound": 0}), found)[0] == "undecided"
    assert (
        judge(claim({"kind": "above", "bound": 0}), Estimate.of_difference(ours, theirs - 3))[0]
        == "reproduced"
    )
    assert np.isnan(Estimate.of_difference(ours[:1], theirs[:1]).interval).all()
    table = TABLE.assign(y=[-3.0, -3.2, 0.0, 1.0, 1.2])
    minus = {"table": "t", "column": "x", "minus": "y", "where": {}}
    rows = evaluated(claim({"kind": "above", "bound": 0}, quantity=minus), table)
    assert rows["verdict"].tolist() == ["reproduced", "contradicted"]
    assert rows["obtained"].tolist() == pytest.approx([2.3, -1.6])
    assert rows["column"].tolist() == ["x minus y"] * 2
    nothing = evaluated(claim(BELOW, quantity=minus), table.assign(y=np.nan))
    assert nothing["verdict"][0] == "not computable because y is not a number"


@pytest.mark.parametrize("values", [[0.0], [0.0, 0.0], [-1.0, 1.0]])
def test_no_difference_is_no_contradiction(values: list[float]) -> None:
    assert (
        judge(claim({"kind": "above", "bound": 0}), Estimate.of_seeds(np.array(values)))[0]
        == "undecided"
    )


@pytest.mark.parametrize(
    ("test", "bound"), [(EQUALS, 54.4), ({"kind": "above", "bound": 54.4}, None)]
)
def test_a_mean_with_its_deviation_has_an_interval(
    test: dict[str, object], bound: float | None
) -> None:
    """Rows that stand for several seeds: the published value, or the bound, lies in the interval of
    the mean."""
    row = pd.DataFrame(
        {"setup": ["a"], "status": ["original"], "x": [57.0], "x_sd": [4.0], "n_seeds": [5]}
    )
    one = claim(test, bound, quantity={"table": "t", "column": "x", "where": {}})
    found = evaluated(one, row)
    assert found["verdict"][0] == "undecided"
    assert found[["sd", "n_seeds"]].iloc[0].tolist() == [4, 5]
    assert found["high"][0] - 57 == pytest.approx(stats.t.ppf(0.975, 4) * 4 / math.sqrt(5))
    assert evaluated(one, row.assign(x_sd=0.1))["verdict"][0] != "undecided"
    assert evaluated(one, row.assign(x_sd=np.nan, n_seeds=1))["verdict"][0] != "undecided"


TABLE = pd.DataFrame(
    {
        "setup": ["a", "a", "a", "b", "b"],
        "dataset": "d",
        "model": ["m", "m", "m", "other", "other"],
        "seed": ["0", "1", "mean", "0", "1"],
        "status": "original",
        "data": "the data",
        "x": [-0.79, -0.81, 7.0, -0.5, -0.5],
    }
)


def evaluated(one: Claim, table: pd.DataFrame = TABLE) -> pd.DataFrame:
    return evaluate([one], {"t": table}, {"t": "f" * 64}, "the study leaves it out")


def test_one_verdict_per_setup_and_stand_ins_never_reproduce() -> None:
    """Summary rows do not count; another model than the paper's is a stand-in, whatever its source
    says."""
    rows = evaluated(claim(EQUALS, -0.8))
    assert list(rows["setup"]) == ["a", "b"]
    assert list(rows["verdict"]) == ["reproduced", "inconsistent"]
    assert list(rows["status"]) == ["original", "stand-in"]
    assert rows.loc[0, ["obtained", "n_seeds", "record", "data"]].tolist() == [
        pytest.approx(-0.8),
        2,
        "f" * 64,
        "the data",
    ]
    assert "deviates by +0.3" in rows.loc[1, "detail"]
    several = claim(
        EQUALS,
        -0.8,
        quantity={"table": "t", "column": "x", "where": {}, "original": {"model": ["m", "other"]}},
    )
    assert list(evaluated(several)["status"]) == ["original", "original"]
    stand_in = evaluated(claim(EQUALS, -0.8), TABLE.assign(status="stand-in"))
    assert list(stand_in["verdict"]) == ["consistent", "inconsistent"]
    assert list(rows.columns) == list(SCHEMA)


def test_a_falsified_result_flips_the_verdict() -> None:
    assert evaluated(claim(EQUALS, -0.8))["verdict"][0] == "reproduced"
    assert (
        evaluated(claim(EQUALS, -0.8), TABLE.assign(x=-TABLE["x"]))["verdict"][0] == "contradicted"
    )
    assert evaluated(claim(BELOW))["verdict"][0] == "reproduced"
    assert evaluated(claim(BELOW), TABLE.assign(x=0.3))["verdict"][0] == "contradicted"


def test_without_a_number() -> None:
    quantity = {"table": "t", "column": "x", "where": {"dataset": "elsewhere"}}
    found = evaluated(claim(BELOW, quantity=quantity))
    assert found["verdict"][0] == "not attempted because the study has no dataset elsewhere"
    nothing = claim(BELOW, quantity=quantity | {"where": {"dataset": "", "model": "elsewhere"}})
    assert (
        evaluated(nothing)["verdict"][0] == "not attempted because the study has no model elsewhere"
    )
    other = claim(BELOW, quantity=quantity | {"table": "u"})
    assert evaluated(other)["verdict"][0] == "not attempted because the study leaves it out"
    absent = claim(BELOW, quantity={"table": "t", "column": "y", "where": {}})
    assert evaluated(absent)["verdict"][0] == "not computable because t has no column y"
    empty = evaluated(claim(BELOW), TABLE.assign(x=np.nan))
    assert empty["verdict"][0] == "not computable because x is not a number"
    twice = evaluated(claim(BELOW), pd.concat([TABLE, TABLE]))
    assert twice["verdict"][0] == "not computable because there are several values per seed"
    everything = claim(BELOW, quantity={"table": "t", "column": "x", "where": {}})
    assert len(evaluated(everything)) == 2
    why = claim(None, quantity=None, because="the number is lost")
    assert evaluated(why)["verdict"][0] == "not attempted because the number is lost"


def test_claims_of_the_papers() -> None:
    """Every entry is valid, names a table that we make, and its published number is in the list."""
    claims = [claim for one in papers() for claim in read_claims(one)]
    assert len({claim.id for claim in claims}) == len(claims)
    assert len(claims) > 150
    assert {c.quantity.table for c in claims if c.quantity} <= set(TABLES)
    published = {c.id: c.published for c in claims if c.published}
    assert published["mickus2024-pearson-snli"].value == -0.878
    assert published["mickus2024-table2-qqp-roberta"].value == 379298306


def test_smoke_study(smoke: Workflow) -> None:
    """All claims have a verdict; all of this study's stand on stand-ins; quantities that it has are
    computed.

    Six updates teach a model nothing, and samples are smaller than the dimensions: what that leaves
    open has no number.
    """
    results = smoke.folder / "results"
    verdicts = pd.read_parquet(results / "claims.parquet")
    kinds = set(verdicts["verdict"].str.split(" because", regex=False).str[0])
    assert kinds <= {"consistent", "inconsistent", "undecided", "not attempted", "not computable"}
    open_ends = {
        "isoscore_performance_r",
        "istar_minus_none",
        "none_minus_cosreg",
        "difference_falls",
        "lid_depth_rho",
    }
    assert (
        set(verdicts[verdicts["verdict"].str.startswith("not computable")]["column"]) <= open_ends
    )
    done = verdicts[verdicts["obtained"].notna()]
    assert set(done["setup"]) >= {"polarity", "pos-scaled", "supersenses", "supersenses-scaled"}
    assert (done["record"].str.len() == 64).all()
    assert set(done["status"]) == {"stand-in"}
    page = (results / "claims.html").read_text("utf8")
    assert page.count("<tr") == len(verdicts) + 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "- {id: a, locator: l, statement: s, quantity: null, test: null}",
            "either `quantity` and `test`",
        ),
        (
            "- {id: a, locator: l, statement: s, quantity: null, because: b, test: null}\n" * 2,
            "duplicate id a",
        ),
        ("- [", "claims"),
        (
            "- {id: a, locator: l, statement: s, quantity: {table: t, column: c, where: "
            "{}}, "
            "published: {dataset: no}, test: {kind: below, bound: 0}}",
            "0 published numbers fit",
        ),
    ],
)
def test_mistakes_in_claims(
    text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Paper, "folder", tmp_path)
    (tmp_path / "claims.yaml").write_text(text)
    (tmp_path / "published.csv").write_text("locator,dataset,model,quantity,value,trust\n")
    with pytest.raises(IsotropyError, match=message):
        read_claims(paper("mickus2024"))


def test_readers_see_escaped_text(tmp_path: Path) -> None:
    rows = evaluated(claim(EQUALS, -0.8, statement="<script>alert(1)</script>"))
    write_page(tmp_path / "c.html", rows, "a & b", "isotropy-record:0")
    page = (tmp_path / "c.html").read_text("utf8")
    assert "<script>" not in page
    assert "a &amp; b" in page
    assert readable(rows)["obtained [95 % interval]"][0].startswith("-0.8 [")
