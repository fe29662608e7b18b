"""Prepare verdicts for pages: statements and their cases, each with its numbers as text."""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import Any

import pandas as pd

from isotropy.printable import print_minus
from replication.claims.scales import scale_of
from replication.claims.wording import MAX_IN_FULL, expectation, explanation, plain_number
from replication.palette import GROUPS, SIGNS
from replication.report.outcome import count_text

MAX_DECIMALS = 6


def group_statements(verdicts: pd.DataFrame) -> list[dict[str, Any]]:
    """Group verdicts into statements, in the order of the table: a statement and its cases."""
    result = []
    for _, rows in verdicts.groupby("statement_id", sort=False):
        raw = [{str(k): v for k, v in row.items()} for row in rows.to_dict("records")]
        shown = [_claim(row) for row in raw]
        head = next(claim for claim in shown if claim["overall"])
        cases = [claim for claim in shown if not claim["overall"]]
        for case, label in zip(cases, _labels(head, cases), strict=True):
            case["label"] = label
        _set_addresses(cases, {head["id"]})
        attempted = [claim for claim in cases if claim["group"] != "none"]
        left_out: dict[str, list[dict[str, Any]]] = {}
        for case in cases:
            if case["group"] == "none":
                # The missing number is named in the case itself.
                reason = f"{case['reason']}{' any of these' if case['missing_case'] else ''}"
                left_out.setdefault(reason, []).append(case)
        _move_shared_facts(head, attempted)
        # Stand-ins do not decide beside original cases
        decisive = [case for case in attempted if case["status"] == head["status"]] or attempted
        for case in cases:
            case["quantity"] = "" if case["quantity"] == head["quantity"] else case["quantity"]
        if not head["obtained"]:
            head["published"], head["obtained"] = _span(decisive, "published"), _span(decisive)
            n = sum(bool(case["values"]) for case in decisive)
            head["over"] = f"in {n} cases" if n > 1 else ""
        result.append(
            {
                "head": head,
                "cases": attempted,
                "decisive": decisive,
                "unit": Counter(claim["unit"] for claim in cases or [head]).most_common(1)[0][0],
                "left_out": left_out,
                "n_left_out": len(cases) - len(attempted),
            }
        )
    return result


def _labels(head: dict[str, Any], cases: list[dict[str, Any]]) -> list[str]:
    """A label per case: its set-up where all of these differ, else how the statements differ."""
    statements = [case["statement"] for case in cases]
    counts, setups = Counter(statements), [case["setup"] for case in cases]
    if len(set(setups)) == len(cases) > 1 and all(setups):
        return setups
    short = dict(zip(counts, labels(list(counts)), strict=True))
    return [
        f"{short[statement]} ({case['setup']})"
        if counts[statement] > 1 and case["setup"]
        else short[statement]
        for statement, case in zip(statements, cases, strict=True)
    ]


def _set_addresses(cases: list[dict[str, Any]], taken: set[str]) -> None:
    """Give each case a unique anchor on its page: its id, with its set-up where several cases have
    that id. `taken` holds the anchors in use.
    """
    counts = Counter(case["id"] for case in cases)
    for case in cases:
        name = case["id"]
        if counts[name] > 1 or name in taken:
            name = "-".join([name, *re.findall(r"[A-Za-z0-9.]+", case["setup"])])
        names = (f"{name}-{i}" if i else name for i in range(len(taken) + 1))
        free = next(n for n in names if n not in taken)
        taken.add(free)
        case["address"] = free


def labels(statements: list[str]) -> list[str]:
    """Shorten statements to the words that distinguish them: without those with which all begin or
    end, but for the word before a number.

    Examples:
        >>> labels(["It rises: MiniLM, layer 1.", "It rises: mpnet, layer 1."])
        ['MiniLM', 'mpnet']
        >>> labels(["It rises."])
        ['It rises.']
    """
    words = [statement.split() for statement in statements]
    shortest = min(map(len, words), default=0)
    start = next((i for i in range(shortest) if len({w[i] for w in words}) > 1), shortest)
    rest = shortest - start
    end = next((i for i in range(rest) if len({w[-1 - i] for w in words}) > 1), rest)
    if len(set(statements)) < max(2, len(statements)) or start + end < 2:
        return statements
    is_number = any(w[start : start + 1] and w[start][0] in "-0123456789" for w in words)
    if start and is_number and words[0][start - 1] not in ("has", "is", "of"):
        start -= 1
    short = (" ".join(w[start : len(w) - end]).rstrip(",.:;") for w in words)
    return [part or statement for part, statement in zip(short, statements, strict=True)]


def _move_shared_facts(head: dict[str, Any], cases: list[dict[str, Any]]) -> None:
    """Move facts that all cases share to the statement; drop a status that the statement covers."""
    head_status = head["facts"].get("stands on")
    for case in cases:
        status, reasons = case["facts"].get("stands on", ("", []))
        if (
            head_status is not None
            and status == head_status[0]
            and set(reasons) <= set(head_status[1])
        ):
            case["facts"].pop("stands on", None)
    for name in [*(cases[0]["facts"] if len(cases) > 1 else [])]:
        values = [case["facts"].get(name) for case in cases]
        is_same = all(value == values[0] for value in values)
        if is_same and head["facts"].get(name, values[0]) == values[0]:
            head["facts"][name] = values[0]
            for case in cases:
                del case["facts"][name]


def count_words(statement_list: list[dict[str, Any]]) -> str:
    """Statements by verdict in words."""
    counts = Counter(statement["head"]["group"] for statement in statement_list)
    return count_text({group: counts[group] for group in SIGNS})


def has_number(statement: dict[str, Any]) -> bool:
    """Whether a statement was tested."""
    return bool(statement["head"]["group"] != "none")


def select_by_origin(statement_list: list[dict[str, Any]], *, ours: bool) -> list[dict[str, Any]]:
    """Return the statements of the papers, or the controls that are ours."""
    return [s for s in statement_list if s["head"]["ours"] is ours]


def _claim(row: dict[str, Any]) -> dict[str, Any]:
    word = row["word"]
    if word not in GROUPS:
        raise ValueError(f"expected a verdict among {', '.join(GROUPS)}, got {word!r}")
    return {
        **{
            name: row[name]
            for name in ("id", "paper", "locator", "statement", "overall", "control_of")
        },
        "status": row["status"],
        "ours": bool(row["ours"]),
        "unit": row["unit"],
        "group": GROUPS[word],
        "detail": explanation(row),
        "quantity": row["quantity"] or scale_of(row["column"]).label,
        "bound": _bound(row),
        "over": "",
        "reason": row["reason"],
        "missing_case": row["missing_case"],
        "published": format_number(row["published"]),
        **format_estimate(row["obtained"], row["low"], row["high"]),
        "setup": row["setup"],
        "table": row["table"] if row["record"] else "",
        "facts": _facts(row),
        "scale": (scale := scale_of(row["column"])),
        "values": _values(row, relative=scale.relative),
    }


def _bound(row: dict[str, Any]) -> str:
    """The bound or tolerance of a claim where it is ours; empty where it is the paper's."""
    if row["bound_by"] != "ours":
        return ""
    if row["side"] == "within":
        return f"our tolerance: {row['tolerance']:.3g}"
    return print_minus(f"our bound: {'>' if row['side'] == 'above' else '<'} {row['bound']:g}")


def _facts(row: dict[str, Any]) -> dict[str, Any]:
    """Facts about a claim besides its numbers, by name: `stands on` is its status and the
    deviations that make it a stand-in, `numbers` its table and column.
    """
    reasons = [part for part in row["deviations"].split("; ") if part]
    facts = {
        "what we test": print_minus(expectation(row)),
        "published number": row["source_note"] and f"{row['locator']}: {row['source_note']}",
        "data": " with ".join(filter(None, [row["data"], row["embedding"]])),
        "over": _units(row["n_units"], row["unit"]),
        "stands on": (row["status"], reasons) if row["status"] else None,
        "numbers": (row["table"], row["column"]) if row["record"] else None,
    }
    return {name: value for name, value in facts.items() if value}


def format_estimate(obtained: float, low: float, high: float) -> dict[str, str]:
    """Format a number and its interval, with the digits that the interval carries: two of half its
    width. The interval is empty if it is missing, or a single number.

    Examples:
        >>> format_estimate(-0.1803, -0.2388, -0.1181)
        {'obtained': '−0.180', 'interval': '[−0.239, −0.118]'}
        >>> format_estimate(3.1e-9, 2e-9, 4e-9)
        {'obtained': '3.1e-09', 'interval': '[2e-09, 4e-09]'}
        >>> format_estimate(0.25, float("nan"), float("nan"))
        {'obtained': '0.25', 'interval': ''}
    """
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        return {"obtained": format_number(obtained), "interval": ""}
    digits = max(1 - math.floor(math.log10((high - low) / 2)), 0)
    if digits > MAX_DECIMALS or max(abs(low), abs(high)) >= MAX_IN_FULL:
        interval = f"[{format_number(low)}, {format_number(high)}]"
        return {"obtained": format_number(obtained), "interval": interval}
    ends = (print_minus(f"{end:,.{digits}f}") for end in (low, high))
    number = "" if math.isnan(obtained) else print_minus(f"{obtained:,.{digits}f}")
    return {"obtained": number, "interval": f"[{', '.join(ends)}]"}


def _units(n: float, unit: str) -> str:
    """The units that an interval is over, in words; a deterministic number has none. Empty for
    cases, which the detail of a statement counts.
    """
    if pd.isna(n) or unit == "cases":
        return ""
    if unit == "deterministic":
        return "a deterministic number"
    return f"{int(n):,} {unit.removesuffix('s') if n == 1 else unit}"


def format_number(value: float) -> str:
    """Format a number: whole ones in full, others with four digits; empty if missing."""
    if math.isnan(value):
        return ""
    return print_minus(plain_number(value))


def _span(claims: list[dict[str, Any]], name: str = "obtained") -> str:
    """The smallest and the largest number of claims, in three digits; empty without numbers."""
    numbers = sorted(claim["values"][name] for claim in claims if name in claim["values"])
    return " to ".join(dict.fromkeys(_brief(number) for number in numbers[:1] + numbers[-1:]))


def _brief(number: float) -> str:
    """Three digits of a number; those below a million without an exponent."""
    is_long = 1e3 <= abs(number) < 1e6
    return print_minus(f"{number:,.0f}" if is_long else f"{number:.3g}")


def _values(row: dict[str, Any], *, relative: bool) -> dict[str, float]:
    """Numbers of a claim that a plot shows, by name; with `relative`, as ratios to the published
    one. Empty if we have no number.
    """
    unit = row["published"] if relative else 1.0
    names = ("published", "bound", "low", "high", "obtained")
    values = {name: row[name] / unit for name in names if math.isfinite(row[name] / unit)}
    return values if "obtained" in values else {}
