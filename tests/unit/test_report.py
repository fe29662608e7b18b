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
from replication.claims.read import read_claims, read_main
from replication.claims.scales import _SCALES, scale_of
from replication.palette import OURS, STATUS, VERDICTS, WORDS
from replication.papers.protocol import Line, Publication, with_stand_ins
from replication.papers.registry import papers
from replication.plan.page_spec import PageSpec
from replication.report import overview
from replication.report.forest import forest
from replication.report.outcome import main_statements
from replication.report.verdicts import GROUPS, SIGNS, count_words, group_statements, labels

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
    assert set(GROUPS.values()) == set(SIGNS) == set(VERDICTS) == set(WORDS)
    assert not {OURS, *STATUS.values()} & set(VERDICTS.values())
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
    assert count_words([result]) == "1 fails"
    assert result["cases"][0]["values"] == values


def test_bound_of_a_claim_is_shown() -> None:
    row = claim("a", "consistent", obtained=-1.0, low=-2.0, high=0.0, side="below")
    for bound, by, text, ours in (
        (2.0, "paper", "< 2 (the paper's bound)", ""),
        (1e-06, "ours", "< 1e-06 (our bound)", "our bound: < 1e-06"),
    ):
        below = statement(HEAD, row | {"bound": bound, "bound_by": by})["cases"][0]
        assert below["values"] == {"bound": bound, "low": -2.0, "high": 0.0, "obtained": -1.0}
        assert (below["facts"]["what we test"], below["bound"]) == (text, ours)


def test_a_range_over_cases_is_no_interval() -> None:
    """Intervals have brackets; a range says of how many cases it is, and a plot shows these."""
    shared = {"column": "pearson_r", "status": "stand-in", "quantity": "r"}
    numbers = (("a", -0.5, "original"), ("b", -0.25, "stand-in"), ("c", 0.125, "stand-in"))
    cases = [
        claim(n, "consistent", **shared | {"obtained": x, "status": s, "low": x - 1, "high": x + 1})
        for n, x, s in numbers
    ]
    result = statement({**HEAD, **shared}, *cases)
    head = result["head"]
    assert (head["obtained"], head["over"]) == ("−0.25 to 0.125", "in 2 cases")
    assert (result["cases"][0]["obtained"], result["cases"][0]["interval"]) == (
        "−0.5",
        "[−1.5, 0.5]",
    )
    forest([result])
    assert len(head["marks"]["lines"]) == 2


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
    assert result["head"]["facts"]["published number"] == "p 1: slides"
    assert all(case["facts"] == {} for case in result["cases"])
    # Facts that differ from the statement's stay with the cases.
    different = statement(HEAD | {"source_note": "paper", "locator": "p 1"}, *cases)
    assert different["head"]["facts"]["published number"] == "p 1: paper"
    assert all(case["facts"]["published number"] == "p 1: slides" for case in different["cases"])


def test_overview_counts_originals_and_leaves_out_controls(tmp_path: Path) -> None:
    """A statement is counted once; controls of ours are not the paper's statements; and the
    expected number of false verdicts is said."""
    original = {"status": "original", "overall": True, "p": 0.01, "embedding": "m"}
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
    main = [{"id": name, "says": f"It says {name}."} for name in ("b", "a")]
    spec = PageSpec(kind="overview", study="s", papers=[paper(main=main)])
    files = {"claims": "claims.parquet", "run": "run.json", "lineage": "lineage.json"}
    inputs = {name: [tmp_path / file] for name, file in files.items()}
    result = overview.content(spec, lambda name: inputs.get(name, []), tmp_path)
    (card,) = result["cards"]
    assert card["count_text"] == "2 hold, 1 fails, 1 open, 1 not tested"
    counts = {group: n for group, n, _ in card["counts"]}
    assert counts == {"holds": 2, "fails": 1, "open": 1, "none": 1}
    assert [line["says"] for line in card["main"]] == ["It says b.", "It says a."]
    assert [line["head"]["group"] for line in card["main"]] == ["fails", "holds"]
    assert (card["n_original"], result["total"], result["counts"]) == (2, 5, card["count_text"])
    assert result["tested"].startswith("We tested 4 of 5 statements. Two were tested on")
    for said in ("5 verdicts", "about 0.2 of them"):
        assert said in " ".join(result["decides"])


def test_main_statement_says_why_it_fails() -> None:
    """By its failing cases, a note on one of them, and whether the bound is ours."""
    head = {**HEAD, "bound": 0.5, "bound_by": "ours", "side": "above", "n_failing": 1}
    head["status"] = "stand-in"
    cases = [
        claim("a", "consistent", setup="good", obtained=0.75, status="stand-in"),
        claim("b", "inconsistent", setup="bad", obtained=0.25, status="stand-in"),
    ]
    main = [{"id": "f", "says": "s", "notes": {"bad": "too long", "good": "no"}}]
    (line,) = main_statements(paper(main=main), [statement(head, *cases)])
    assert line["why"] == "fails in 1 of 2, holds in 1; bad: 0.25, too long; our bound: > 0.5"


def test_main_statement_names_the_verdict_on_its_control() -> None:
    """If the control was tested."""
    head = statement(claim("f", "consistent", overall=True, status="stand-in"))
    main = [{"id": "f", "says": "s", "control": "c"}]
    words = {"inconsistent": "our control “It rises: c” fails", "not attempted": ""}
    for word, why in words.items():
        control = claim("c", word, statement_id="c", overall=True, ours=True, control_of="f")
        (line,) = main_statements(paper(main=main), [head, statement(control)])
        assert line["why"] == why


def test_main_statements_are_statements_of_their_paper() -> None:
    for one in papers():
        names = {claim.belongs_to.id: claim.belongs_to.ours for claim in read_claims(one)}
        main = read_main(one)
        assert 3 <= len(main) <= 5
        assert not any(names[statement.id] for statement in main)
        assert all(names[statement.control] for statement in main if statement.control)


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
    study = {"study": "glove-a, word2vec, word2vec-b, b", "state": "followed"}
    line = Line.model_validate(study | {"topic": "vectors", "paper": "word2vec", "source": "s"})
    fetched = [
        {"id": name, "status": status, "content": {"title": title}}
        for name, status, title in (
            ("word2vec", "stand-in", "spaCy's vectors"),
            ("glove-a", "original", "GloVe"),
            ("b", "stand-in", "in place of word2vec"),
        )
    ]
    (shown,) = with_stand_ins([line], fetched)
    assert (
        shown.study
        == "glove-a, word2vec (used instead: spaCy's vectors), word2vec-b, b (in place of word2vec)"
    )
    assert shown.state == "not followed"
    assert with_stand_ins([line], fetched[1:2]) == [line]
    unknown = line.model_copy(update={"state": "unknown"})
    assert with_stand_ins([unknown], fetched)[0].state == "unknown"
