"""Verdicts as the pages show them."""

from __future__ import annotations

import doctest
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotropy.claims.evaluate import NO_NUMBER_FOR, SCHEMA
from isotropy.palette import STATUS, VERDICTS
from isotropy.report import verdicts
from isotropy.report.paper import _constant
from isotropy.report.provenance import _packages
from isotropy.report.verdicts import GROUPS, SIGNS, count_groups, families, labels

NAN = float("nan")


def claim(name: str, word: str, **others: Any) -> dict[str, Any]:
    empty = {n: "" if kind == "str" else NAN for n, kind in SCHEMA.items()}
    own = {"id": name, "word": word, "family": "f", "headline": False, "paper": "p"}
    return {**empty, "statement": f"It rises: {name}.", **own, **others}


def family(*rows: dict[str, Any]) -> dict[str, Any]:
    (found,) = families(pd.DataFrame(list(rows)))
    return found


HEAD = claim(
    "f", "inconsistent", headline=True, judged="contradicted", unit="cases", n_judged=2, n_holding=1
)


def test_each_verdict_has_a_group_a_sign_and_a_colour() -> None:
    assert set(GROUPS.values()) == set(SIGNS) == set(VERDICTS)
    assert not set(STATUS.values()) & set(VERDICTS.values())
    with pytest.raises(ValueError, match=r"expected a verdict among .*, got 'perhaps'"):
        family({**HEAD, "word": "perhaps"})


def test_a_family_is_its_headline_and_its_cases() -> None:
    found = family(
        HEAD,
        claim("a", "consistent", published=1.0, obtained=2.0, low=1.5, high=2.5, column="c"),
        claim("b", "not attempted", reason=NO_NUMBER_FOR, missing_case="dataset x"),
        claim("c", "not attempted", reason=NO_NUMBER_FOR, missing_case="dataset y"),
    )
    assert [case["id"] for case in found["cases"]] == ["a"]
    assert found["n_left_out"] == 2
    assert list(found["left_out"]) == ["the study makes no number for them"]
    assert found["head"]["words"] == "inconsistent contradicted"
    assert count_groups([found]) == {"holds": 0, "fails": 1, "undecided": 0, "none": 0}
    # Published, interval and our number on a line from 8 to 152.
    assert found["cases"][0]["plot"] == {"published": 8, "low": 56, "high": 152, "obtained": 104}


def test_a_bound_is_drawn_where_a_claim_names_one() -> None:
    row = claim("a", "consistent", obtained=-1.0, low=-2.0, high=0.0)
    below = family(HEAD, row | {"side": "below", "bound": 2.0})
    assert below["cases"][0]["plot"] == {"bound": 152, "low": 8, "high": 80, "obtained": 44}
    assert below["cases"][0]["facts"]["expected"] == "< 2"
    tiny = family(HEAD, row | {"side": "below", "bound": 1e-06})["cases"][0]
    assert tiny["plot"]["bound"] == 152
    assert tiny["facts"]["expected"] == "< 1e-06"
    assert family(HEAD, claim("a", "undecided", obtained=1.0))["cases"][0]["plot"] is None


def test_addresses_differ_where_ids_do_not() -> None:
    cases = [claim("a", "consistent", setup=f"d {d}, K {k}") for d in (2, 3) for k in (1, 2)]
    found = family(HEAD, *cases, claim("f", "consistent", setup="words"))
    addresses = [case["address"] for case in found["cases"]]
    assert addresses == ["a-d-2-K-1", "a-d-2-K-2", "a-d-3-K-1", "a-d-3-K-2", "f-words"]


def test_what_cases_have_in_common_stands_once() -> None:
    shared = {"status": "stand-in", "deviations": "one; two", "trust": "slides", "locator": "p 1"}
    found = family(
        {**HEAD, **shared}, *(claim(name, "consistent", **shared) for name in ("a", "b"))
    )
    assert found["head"]["facts"]["stands on"] == ("stand-in", ["one", "two"])
    assert found["head"]["facts"]["source"] == "p 1: slides"
    assert all(case["facts"] == {} for case in found["cases"])
    # What the headline says otherwise stays with the cases.
    own = family(
        {**HEAD, "trust": "paper", "locator": "p 1"},
        *(claim(name, "consistent", **shared) for name in ("a", "b")),
    )
    assert own["head"]["facts"]["source"] == "p 1: paper"
    assert all(case["facts"]["source"] == "p 1: slides" for case in own["cases"])


def test_columns_that_say_the_same_stand_beside_a_table() -> None:
    """Texts and empty columns of several rows; numbers stay, and so does a table of one row."""
    table = pd.DataFrame({"data": ["a", "a"], "none": [NAN, NAN], "d": [3, 3], "x": ["b", "c"]})
    assert _constant(table) == ["data", "none"]
    assert _constant(table.head(1)) == []
    assert _constant(table[["data"]]) == []


def test_packages_against_the_lock() -> None:
    """Names are compared as PyPI does, builds do not count; without a lock nothing is said."""
    environment = {"jobs": 2, "python": "3.11", "packages": {"jinja2": "3.1", "torch": "2.13+cpu"}}
    (found,) = _packages([environment], {"jinja2": "3.1", "torch": "2.12"})
    assert found["other"] == [("torch", "2.13+cpu", "2.12")]
    assert found["unlocked"] == []


def test_examples() -> None:
    assert doctest.testmod(verdicts).failed == 0


@given(st.lists(st.text("ab ", min_size=1, max_size=12), min_size=1, max_size=5))
def test_labels_tell_statements_apart(statements: list[str]) -> None:
    """As many as statements; different where the statements have different words."""
    found = labels(statements)
    assert len(found) == len(statements)
    words = {tuple(statement.split()) for statement in statements}
    assert len(set(found)) >= len(words) or len(set(statements)) < len(statements)
    assert np.all([len(label) <= len(s) + 4 for label, s in zip(found, statements, strict=True)])
