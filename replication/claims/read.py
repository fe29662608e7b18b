"""Read the claims of a paper.

`claims.yaml` in its folder lists its main statements (`main`) and all its `claims`: one entry per
claim, or one template for claims that differ in a
few words: an entry with the key `each`, a list of items, or a mapping of names to lists of values,
where every combination of values is an item. It expands to one entry per item, in which the item's
values replace the names in braces. A published number is given in the entry, or looked up in the
paper's `published.csv`; `{printed}` in a statement is replaced by this number.
"""

from __future__ import annotations

import math
import re
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from isotropy.errors import IsotropyError, format_value, suggest
from replication.claims.spec import Claim, Statement
from replication.papers.protocol import MainStatement
from replication.papers.registry import Paper
from replication.spec import first_mistake
from replication.tables.spec import PublishedNumber
from replication.yaml_files import read_yaml

_PLACEHOLDER = re.compile(r"\{([a-z][a-z0-9_]*)\}")


def read_claims(paper: Paper) -> list[Claim]:
    """Read all claims of a paper, with statements expanded and published numbers looked up.

    Raises:
        IsotropyError: an entry is invalid, an id occurs twice, or a published number is not in the
            paper's table.
    """
    path = paper.folder / "claims.yaml"
    numbers = paper.published()
    claims = [
        _claim(entry, values, paper, numbers)
        for template in _content(path).get("claims", [])
        for values, entry in expand_template(template)
    ]
    ids = [claim.id for claim in claims]
    if repeated := sorted({i for i in ids if ids.count(i) > 1}):
        raise IsotropyError(f"{path}: duplicate id {repeated[0]}")
    statements: dict[str, Statement] = {}
    for claim in claims:
        statement = claim.belongs_to
        if statements.setdefault(statement.id, statement) != statement:
            raise IsotropyError(
                f"{path}: {claim.id}: statement {statement.id} is declared in two different ways"
            )
    return claims


def read_main(paper: Paper) -> list[MainStatement]:
    """Read the main statements of a paper, in its own order of importance."""
    path = paper.folder / "claims.yaml"
    return [MainStatement.model_validate(entry) for entry in _content(path).get("main", [])]


@cache
def _content(path: Path) -> dict[str, Any]:
    """Read a file of claims; cached, since pages need the main statements and verdicts the rest."""
    return read_yaml(path) or {}


def _claim(
    entry: dict[str, Any], values: dict[str, Any], paper: Paper, numbers: list[PublishedNumber]
) -> Claim:
    try:
        keys = fill(entry.get("published"), values)
        if keys is not None:
            printed, published = _look_up(keys, numbers)
            entry = entry | {"published": published}
            values = values | {"printed": f"{printed:.12g}"}
        return Claim.model_validate(fill(entry, values) | {"paper": paper.key})
    except ValidationError as error:
        raise IsotropyError(
            f"{_message_prefix(paper, entry)}{first_mistake(error, Claim)}"
        ) from error
    except (KeyError, ValueError) as error:
        raise IsotropyError(f"{_message_prefix(paper, entry)}{error}") from error


def _message_prefix(paper: Paper, entry: dict[str, Any]) -> str:
    """Return file and id of a claim's entry, as the start of an error message."""
    return f"{paper.folder / 'claims.yaml'}: {entry.get('id')}: "


def _look_up(keys: dict[str, Any], numbers: list[PublishedNumber]) -> tuple[float, dict[str, Any]]:
    """Return a published number as given in an entry, or look up its row by the keys; with
    `log10: true`, its logarithm is compared.

    Returns:
        The number as printed, for statements; and the fields of `Published`: the value to compare
        with, and the note on its source.

    Raises:
        ValueError: not exactly one row matches.
    """
    rows = matching_rows(keys, numbers)
    if len(rows) != 1:
        raise ValueError(f"published: {_explain_mismatch(keys, numbers, len(rows))}")
    value, source_note = rows[0].value, rows[0].source_note
    if keys.get("log10"):
        return value, {"value": math.log10(value), "source_note": f"{source_note}; its logarithm"}
    return value, {"value": value, "source_note": source_note}


def _explain_mismatch(keys: dict[str, Any], numbers: list[PublishedNumber], n: int) -> str:
    """Explain why the keys of a published number do not match exactly one row."""
    for key, value in keys.items():
        if key != "log10" and key not in PublishedNumber.model_fields:
            return f"{key}: unknown column; {suggest(key, PublishedNumber.model_fields)}"
        values = {str(getattr(number, key, None)) for number in numbers}
        if key != "log10" and str(value) not in values:
            return f"{key}: no row has {value!r}; {suggest(str(value), values)}"
    return f"expected one row of published.csv for {keys}, got {n}"


def matching_rows(keys: dict[str, Any], numbers: list[PublishedNumber]) -> list[PublishedNumber]:
    """Return the published numbers whose columns have the given values; `log10` is ignored."""
    wanted = {key: value for key, value in keys.items() if key != "log10"}
    return [n for n in numbers if all(getattr(n, k, None) == v for k, v in wanted.items())]


def expand_template(entry: Any) -> list[tuple[dict[str, Any], Any]]:
    """Expand a template: return for each item its values and the entry to `fill` with them. An
    entry that is not a template is returned alone, without values.

    Raises:
        ValueError: `each` is neither a list of mappings nor a mapping of lists.

    Examples:
        >>> expand_template({"id": "{a}-{b}", "each": {"a": [1, 2], "b": ["x"]}})
        [({'a': 1, 'b': 'x'}, {'id': '{a}-{b}'}), ({'a': 2, 'b': 'x'}, {'id': '{a}-{b}'})]
    """
    if not isinstance(entry, dict) or "each" not in entry:
        return [({}, entry)]
    items = entry["each"]
    if isinstance(items, dict) and all(isinstance(values, list) for values in items.values()):
        items = [
            dict(zip(items, combination, strict=True)) for combination in product(*items.values())
        ]
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise ValueError("each: expected a list of mappings, or a mapping of names to lists")
    template = {key: value for key, value in entry.items() if key != "each"}
    return [(item, template) for item in items]


def fill(value: Any, values: dict[str, Any]) -> Any:
    """Replace names in braces by their values, anywhere in an entry. A text that consists of one
    name in braces becomes the value itself, of any type. Without values nothing is replaced.

    Raises:
        ValueError: a name in braces has no value.

    Examples:
        >>> fill({"title": "GLUE {task}", "rows": "{rows}"}, {"task": "rte", "rows": 277})
        {'title': 'GLUE rte', 'rows': 277}
    """
    if isinstance(value, dict):
        return {_fill_key(key, values): fill(inner, values) for key, inner in value.items()}
    if isinstance(value, list):
        return [fill(inner, values) for inner in value]
    if not isinstance(value, str) or not values:
        return value
    if (name_match := _PLACEHOLDER.fullmatch(value)) is not None:
        return _value_of(name_match[1], values)
    return _PLACEHOLDER.sub(lambda match: str(_value_of(match[1], values)), value)


def _fill_key(key: Any, values: dict[str, Any]) -> Any:
    filled = fill(key, values)
    if isinstance(filled, dict | list):
        raise ValueError(
            f"each: expected a text or number for the key {key!r}, got {format_value(filled)}"
        )
    return filled


def _value_of(name: str, values: dict[str, Any]) -> Any:
    if name not in values:
        raise ValueError(f"each: an item has no {name!r}: {suggest(name, values)}")
    return values[name]
