"""Verdicts: each claim against the number that bears on it.

A claim is `reproduced`, `deviates by x`, or `contradicted` (the opposite sign, or the opposite side
of zero); `undecided` where the interval over seeds includes the bound, or the published value. What
stands on a stand-in is only `consistent`, `inconsistent` or `undecided`. Without a number it is
`not computable because` or `not attempted because`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from isotropy.claims.spec import Beyond, Claim, Equals, Quantity

CONFIDENCE = 0.95
SUMMARIES = ["mean", "sd"]  # rows of a table over its seeds
STAND_IN = {"reproduced": "consistent", "undecided": "undecided"}

SCHEMA = {
    "id": "str",
    "paper": "str",
    "locator": "str",
    "statement": "str",
    "setup": "str",
    "verdict": "str",
    "status": "str",
    "detail": "str",
    "published": "float64",
    "obtained": "float64",
    "sd": "float64",
    "low": "float64",
    "high": "float64",
    "n_seeds": "Int64",
    "expected": "str",
    "trust": "str",
    "data": "str",
    "embedding": "str",
    "table": "str",
    "column": "str",
    "record": "str",
}
"""Columns of the table of verdicts. `low` and `high`: 95 % interval of the mean over seeds;
`record`: id of the record of the table that the number stands in, from which the audit goes on."""


class Estimate(NamedTuple):
    """A quantity over seeds.

    Attributes:
        values: those of each seed, as far as they are known; all differences of two samples; or the
            mean alone.
        sd: standard deviation of one value (ddof = 1); NaN where it is not known.
        error: standard error of the mean.
        freedom: its degrees of freedom.
    """

    values: np.ndarray
    sd: float
    error: float
    freedom: float

    @classmethod
    def of_seeds(cls, values: np.ndarray) -> Estimate:
        """From the values of n seeds; without an interval for n = 1."""
        n = len(values)
        return cls.of_summary(
            float(values.mean()), float(values.std(ddof=1)) if n > 1 else math.nan, n
        )._replace(values=values)

    @classmethod
    def of_summary(cls, mean: float, sd: float, n: int) -> Estimate:
        """From the mean and standard deviation of n seeds."""
        return cls(np.array([mean]), sd, sd / math.sqrt(n), n - 1)

    @classmethod
    def of_difference(cls, values: np.ndarray, subtracted: np.ndarray) -> Estimate:
        """Of two independent samples with variances of their own (Welch 1947)."""
        a, b = cls.of_seeds(values), cls.of_seeds(subtracted)
        squares = np.array([a.error, b.error]) ** 2
        total = float(squares.sum())
        parts = float((squares**2 / [max(a.freedom, 1), max(b.freedom, 1)]).sum())
        freedom = total**2 / parts if parts > 0 else math.nan
        return cls(
            np.subtract.outer(values, subtracted).ravel(),
            math.hypot(a.sd, b.sd),
            math.sqrt(total),
            freedom,
        )

    @property
    def mean(self) -> float:
        """The mean."""
        return float(self.values.mean())

    @property
    def interval(self) -> tuple[float, float]:
        """Interval of the mean at CONFIDENCE by Student's t; NaN for one value."""
        half = (
            0.0
            if self.error == 0
            else self.error * float(stats.t.ppf((1 + CONFIDENCE) / 2, self.freedom))
        )
        return self.mean - half, self.mean + half


def evaluate(
    claims: Sequence[Claim],
    tables: Mapping[str, pd.DataFrame],
    records: Mapping[str, str],
    missing: str,
) -> pd.DataFrame:
    """Verdicts of all claims, one row per claim and setup that it bears on; columns as in SCHEMA.

    Args:
        claims: the claims.
        tables: our tables by id.
        records: id of each table's record.
        missing: why a table that is not there is not.
    """
    rows = [row for claim in claims for row in _rows(claim, tables, records, missing)]
    empty = {name: "" if kind == "str" else None for name, kind in SCHEMA.items()}
    return pd.DataFrame([empty | row for row in rows], columns=list(SCHEMA)).astype(SCHEMA)


def _rows(
    claim: Claim, tables: Mapping[str, pd.DataFrame], records: Mapping[str, str], missing: str
) -> Iterator[dict[str, Any]]:
    row: dict[str, Any] = claim.model_dump(include={"id", "paper", "locator", "statement"})
    row["published"] = claim.published.value if claim.published else math.nan
    row["trust"] = claim.published.trust if claim.published else "a direction, not a number"
    row["expected"] = _expected(claim)
    quantity = claim.quantity
    if quantity is None:
        yield row | {"verdict": f"not attempted because {claim.because}"}
        return
    row |= {"table": quantity.table, "column": " minus ".join(quantity.columns)}
    if quantity.table not in tables:
        yield row | {"verdict": f"not attempted because {missing}"}
        return
    row["record"] = records[quantity.table]
    table = tables[quantity.table]
    if absent := [
        c
        for c in ("status", *quantity.columns, *quantity.where, *quantity.original)
        if c not in table.columns
    ]:
        yield row | {
            "verdict": f"not computable because {quantity.table} has no column {absent[0]}"
        }
        return
    chosen = table
    for name, value in quantity.where.items():
        chosen = chosen[chosen[name] == value]
    if "seed" in chosen.columns:
        chosen = chosen[~chosen["seed"].isin(SUMMARIES)]
    if chosen.empty:
        # Static vectors have no data set
        which = ", ".join(f"{c} {v}" for c, v in quantity.where.items() if v != "")
        yield row | {"verdict": f"not attempted because the study has no {which}"}
        return
    groups = chosen.groupby("setup", sort=False) if "setup" in chosen.columns else [("", chosen)]
    for setup, group in groups:
        yield row | {"setup": str(setup)} | _of_group(claim, quantity, group)


def _of_group(claim: Claim, quantity: Quantity, group: pd.DataFrame) -> dict[str, Any]:
    """Verdict on the rows of one setup."""
    status = "original" if (group["status"] == "original").all() else "stand-in"
    own = {c: v if isinstance(v, list) else [v] for c, v in quantity.original.items()}
    if status == "original" and not all(group[c].isin(v).all() for c, v in own.items()):
        status = "stand-in"
    if group["status"].iloc[0].startswith("not attempted"):
        return {
            "verdict": group["status"]
            .iloc[0]
            .replace("not attempted:", "not attempted because it is")
        }
    about = {c: group[c].iloc[0] for c in ("data", "embedding") if c in group.columns}
    for column in quantity.columns:
        if not np.isfinite(_numbers(group[column])).all():
            return about | {
                "status": status,
                "verdict": f"not computable because {column} is not a number",
            }
    if "seed" in group.columns and group["seed"].duplicated().any():
        return about | {
            "status": status,
            "verdict": "not computable because there are several values per seed",
        }
    estimate = _estimate(quantity, group)
    verdict, detail = judge(claim, estimate)
    if status == "stand-in" and verdict not in STAND_IN:
        detail = f"{verdict}, {detail}" if detail else verdict
    if status == "stand-in":
        verdict = STAND_IN.get(verdict, "inconsistent")
    n_seeds = (
        group["seed"].nunique()
        if "seed" in group.columns
        else group.get("n_seeds", pd.Series([pd.NA])).iloc[0]
    )
    low, high = estimate.interval
    numbers = {
        "obtained": estimate.mean,
        "sd": estimate.sd,
        "low": low,
        "high": high,
        "n_seeds": n_seeds,
    }
    return about | numbers | {"status": status, "verdict": verdict, "detail": detail}


def _estimate(quantity: Quantity, group: pd.DataFrame) -> Estimate:
    values = _numbers(group[quantity.column])
    if quantity.minus is not None:
        return Estimate.of_difference(values, _numbers(group[quantity.minus]))
    deviation = f"{quantity.column}_sd"
    if (
        len(group) == 1
        and {"n_seeds", deviation} <= set(group.columns)
        and group["n_seeds"].iloc[0] > 1
    ):
        return Estimate.of_summary(
            float(values[0]), float(group[deviation].iloc[0]), int(group["n_seeds"].iloc[0])
        )
    return Estimate.of_seeds(values)


def _numbers(column: pd.Series) -> np.ndarray:
    return column.to_numpy(dtype=np.float64, na_value=math.nan)


def judge(claim: Claim, estimate: Estimate) -> tuple[str, str]:
    """Verdict on a number as if it were the paper's own case, and what to add."""
    if isinstance(claim.test, Equals):
        assert claim.published is not None
        return _judge_value(claim.published.value, claim.test.tolerance, estimate)
    assert claim.test is not None
    judge_bound = _judge_every_value if claim.test.every else _judge_mean
    return judge_bound(claim.test, estimate)


def _judge_value(published: float, tolerance: float, estimate: Estimate) -> tuple[str, str]:
    """Verdict on a claim that gives a number."""
    difference = estimate.mean - published
    # The tolerance is a decimal number, the difference a rounded one.
    if abs(difference) <= tolerance * (1 + 1e-9):
        return "reproduced", ""
    low, high = estimate.interval
    if low <= published <= high:
        return "undecided", "the interval over seeds includes the published value"
    if estimate.mean * published < 0 and not low < 0 < high:
        return "contradicted", f"the opposite sign, by {difference:+.3g}"
    return f"deviates by {difference:+.3g}", ""


def _judge_every_value(test: Beyond, estimate: Estimate) -> tuple[str, str]:
    """Verdict on a claim that no value is on the other side of a bound."""
    beyond = _beyond(test, estimate.values)
    if (beyond > 0).all():
        return "reproduced", ""
    worst = float(estimate.values[beyond.argmin()])
    failed = f"{(beyond <= 0).sum()} of {len(beyond)} values"
    if test.bound == 0:
        return "contradicted", f"{failed}, {worst:.3g} at worst"
    return f"deviates by {worst - test.bound:+.3g}", failed


def _judge_mean(test: Beyond, estimate: Estimate) -> tuple[str, str]:
    """Verdict on a claim that the mean is on one side of a bound."""
    mean, beyond = estimate.mean, _beyond(test, estimate.values)
    low, high = sorted(_beyond(test, np.array(estimate.interval)))
    if low < 0 < high:
        return "undecided", "the interval over seeds includes the bound"
    if beyond.mean() > 0:
        return "reproduced", "" if (beyond > 0).all() else "in the mean over seeds"
    if beyond.mean() == 0:
        return "undecided", "exactly at the bound"
    if test.bound == 0 or mean * test.bound < 0:
        return "contradicted", f"{-beyond.mean():.3g} on the other side"
    return f"deviates by {mean - test.bound:+.3g}", ""


def _beyond(test: Beyond, values: np.ndarray) -> np.ndarray:
    """How far values are on the side of the bound that the claim names."""
    distances: np.ndarray = values - test.bound
    return distances if test.kind == "above" else -distances


def _expected(claim: Claim) -> str:
    """What the test asks for, in words."""
    if claim.test is None:
        return ""
    if isinstance(claim.test, Equals):
        assert claim.published is not None
        tolerance = f" ± {claim.test.tolerance:g}" if claim.test.tolerance else ""
        return f"{claim.published.value:.12g}{tolerance}"
    return f"{'> ' if claim.test.kind == 'above' else '< '}{claim.test.bound:g}"
