"""Verdicts and tables as shown on the results pages."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replication.claims.evaluate import NO_NUMBER_FOR, SCHEMA, _describe_column
from replication.claims.read import read_claims
from replication.claims.scales import _SCALES, scale_of
from replication.palette import STATUS, VERDICTS
from replication.papers.protocol import Line, Publication, with_stand_ins
from replication.papers.registry import papers
from replication.plan.page_spec import PageSpec
from replication.report import overview
from replication.report.forest import forest
from replication.report.verdicts import GROUPS, SIGNS, count_groups, group_statements, labels

NAN = float("nan")


def claim(name: str, word: str, **others: Any) -> dict[str, Any]:
    empty = {n: "" if kind == "str" else NAN for n, kind in SCHEMA.items()}
    fields = {"id": name, "word": word, "statement_id": "f", "overall": False, "paper": "p"}
    fields |= {"ours": False}
    return {**empty, "statement": f"It rises: {name}.", **fields, **others}


def statement(*rows: dict[str, Any]) -> dict[str, Any]:
    (result,) = group_statements(pd.DataFrame(list(rows)))
    return result


HEAD = claim(
    "f", "inconsistent", overall=True, judged="contradicted", unit="cases", n_judged=2, n_holding=1
)


def test_every_verdict_has_a_group_sign_and_colour() -> None:
    assert set(GROUPS.values()) == set(SIGNS) == set(VERDICTS)
    assert not set(STATUS.values()) & set(VERDICTS.values())
    with pytest.raises(ValueError, match="perhaps"):
        statement({**HEAD, "word": "perhaps"})


def test_statement_has_overall_verdict_and_cases() -> None:
    values = {"published": 1.0, "low": 1.5, "high": 2.5, "obtained": 2.0}
    missing = [
        claim(name, "not attempted", reason=NO_NUMBER_FOR, missing_case=f"dataset {name}")
        for name in "bc"
    ]
    result = statement(HEAD, claim("a", "consistent", column="c", **values), *missing)
    assert [case["id"] for case in result["cases"]] == ["a"]
    assert result["n_left_out"] == 2
    assert result["head"]["word"] == "inconsistent"  # on a stand-in nothing is contradicted
    assert count_groups([result]) == {"holds": 0, "fails": 1, "undecided": 0, "none": 0}
    assert result["cases"][0]["values"] == values


def test_bound_of_a_claim_is_shown() -> None:
    row = claim("a", "consistent", obtained=-1.0, low=-2.0, high=0.0, side="below")
    for bound, text in ((2.0, "< 2"), (1e-06, "< 1e-06")):
        below = statement(HEAD, row | {"bound": bound})["cases"][0]
        assert below["values"] == {"bound": bound, "low": -2.0, "high": 0.0, "obtained": -1.0}
        assert below["facts"]["expected"] == text


@pytest.mark.parametrize(
    "column", ["pearson_r", "relative_error", "orders_gain", "n_items", "isoscore_gain"]
)
def test_numbers_on_a_scale_keep_their_order_on_its_axis(column: str) -> None:
    """Those below zero lie at the left end of a logarithmic axis; ticks ascend."""
    numbers = np.random.default_rng(0).uniform(-1, 1, 40)
    shared = {"overall": True, "column": column, "published": 0.5}
    rows = [
        claim(f"s{i}", "consistent", statement_id=f"s{i}", obtained=number, **shared)
        for i, number in enumerate(numbers)
    ]
    (group,) = forest(group_statements(pd.DataFrame(rows)))
    marks = [s["head"]["marks"]["lines"][0]["obtained"] for s in group["statements"]]
    drawn = np.maximum(numbers, 0) if scale_of(column).axis == "log" else numbers
    assert all(a[1] <= b[1] for a, b in pairwise(sorted(zip(drawn, marks, strict=True))))
    assert all(0 <= position <= 100 for position in marks)
    ticks = [position for position, _ in group["ticks"]]
    assert ticks == sorted(set(ticks))
    assert 2 <= len(ticks) <= 9


def test_every_column_of_a_claim_has_a_scale() -> None:
    """And every column that has a scale is that of a claim."""
    quantities = [c.quantity for paper in papers() for c in read_claims(paper) if c.quantity]
    assert {_describe_column(quantity) for quantity in quantities} == set(_SCALES)
    assert scale_of("a_column").label == "a column"


def test_cases_with_equal_ids_have_different_addresses() -> None:
    cases = [claim("a", "consistent", setup=f"d {d}, K {k}") for d in (2, 3) for k in (1, 2)]
    result = statement(HEAD, *cases, claim("f", "consistent", setup="words"))
    addresses = [case["address"] for case in result["cases"]]
    assert addresses == ["a-d-2-K-1", "a-d-2-K-2", "a-d-3-K-1", "a-d-3-K-2", "f-words"]


def test_facts_common_to_all_cases_are_in_the_overall_row() -> None:
    shared = {"status": "stand-in", "deviations": "one; two"}
    shared |= {"source_note": "slides", "locator": "p 1"}
    cases = [claim(name, "consistent", **shared) for name in ("a", "b")]
    result = statement(HEAD | shared, *cases)
    assert result["head"]["facts"]["stands on"] == ("stand-in", ["one", "two"])
    assert result["head"]["facts"]["source"] == "p 1: slides"
    assert all(case["facts"] == {} for case in result["cases"])
    # Facts that differ from the statement's stay with the cases.
    different = statement(HEAD | {"source_note": "paper", "locator": "p 1"}, *cases)
    assert different["head"]["facts"]["source"] == "p 1: paper"
    assert all(case["facts"]["source"] == "p 1: slides" for case in different["cases"])


def test_overview_counts_originals_and_leaves_out_controls(tmp_path: Path) -> None:
    """A statement is counted once; controls of ours are not the paper's statements; and the
    expected number of false verdicts is said."""
    original = {"status": "original", "overall": True, "p": 0.01}
    original["unit"] = "seeds"
    stand_in = original | {"status": "stand-in"}
    heads = [
        claim("a", "reproduced", statement_id="a", obtained=-0.8081, published=-0.808, **original),
        claim("b", "contradicted", statement_id="b", **original),
        claim("c", "consistent", statement_id="c", **stand_in),
        claim("d", "undecided", statement_id="d", **stand_in),
        claim("e", "inconsistent", statement_id="e", **stand_in, ours=True),
        claim("f", "not attempted", overall=True),
    ]
    pd.DataFrame(heads).astype(SCHEMA).to_parquet(tmp_path / "claims.parquet")
    (tmp_path / "run.json").write_text("{}")
    (tmp_path / "lineage.json").write_text('{"sources": []}')
    spec = PageSpec(kind="overview", study="s", papers=[paper(main="a", measure="r")])
    files = {"claims": "claims.parquet", "run": "run.json", "lineage": "lineage.json"}
    inputs = {name: [tmp_path / file] for name, file in files.items()}
    result = overview.content(spec, lambda name: inputs.get(name, []), tmp_path)
    (card,) = result["cards"]
    assert card["count_text"] == "2 hold · 1 fails · 1 open · 1 not tested here"
    counts = {kind: n for kind, n, _ in card["counts"]}
    assert counts == {"holds": 2, "fails": 1, "undecided": 1, "not attempted": 1}
    assert "r is −0.81 (published −0.81)" in card["answer"]
    assert (card["group"], card["n_original"]) == ("holds", 2)
    assert card["tested"] == "It rises: a"
    assert (result["n_contradicted"], result["n_original"], result["n_verdicts"]) == (1, 2, 4)
    for said in ("5 verdicts", "about 0.2 of them"):
        assert said in " ".join(result["decides"])


def paper(**others: Any) -> Publication:
    return Publication(key="p", title="t", reference="r", name="n", says="s", **others)


@given(st.lists(st.text("ab ", min_size=1, max_size=12), min_size=1, max_size=5))
def test_labels_distinguish_statements(statements: list[str]) -> None:
    """One label per statement; labels differ if the statements have different words."""
    result = labels(statements)
    assert len(result) == len(statements)
    words = {tuple(statement.split()) for statement in statements}
    assert len(set(result)) >= len(words) or len(set(statements)) < len(statements)
    assert np.all([len(label) <= len(s) + 4 for label, s in zip(result, statements, strict=True)])


def test_protocol_names_what_came_instead_of_a_source() -> None:
    """A line that names a source for which something else came does not follow the choice;
    ids that begin or end like it stay as they are."""
    study = {"study": "glove-a, word2vec, word2vec-b", "state": "followed"}
    line = Line.model_validate(study | {"topic": "vectors", "paper": "word2vec", "source": "s"})
    fetched = [
        {"id": name, "status": status, "content": {"title": title}}
        for name, status, title in (
            ("word2vec", "stand-in", "spaCy's vectors"),
            ("glove-a", "original", "GloVe"),
            ("b", "stand-in", "no part of an id"),
        )
    ]
    (shown,) = with_stand_ins([line], fetched)
    assert shown.study == "glove-a, word2vec (here: spaCy's vectors), word2vec-b"
    assert shown.state == "not followed"
    assert with_stand_ins([line], fetched[1:]) == [line]
    unknown = line.model_copy(update={"state": "unknown"})
    assert with_stand_ins([unknown], fetched)[0].state == "unknown"
