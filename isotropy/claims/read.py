"""Reads the claims of a paper.

`claims.yaml` in its folder has one entry per claim, or one for a family of claims that differ in a
few words (`isotropy.families`). A published number stands in the entry, or is looked up in the
paper's `published.csv`.
"""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from isotropy.claims.spec import Claim, Family
from isotropy.errors import IsotropyError
from isotropy.families import fill, members, read_yaml
from isotropy.papers.registry import Paper
from isotropy.tables.spec import PublishedNumber


def read_claims(paper: Paper) -> list[Claim]:
    """All claims of a paper, families written out and published numbers looked up.

    Raises:
        IsotropyError: an entry that does not fit, two of the same id, or a published number that is
            not in the paper's table.
    """
    path = paper.folder / "claims.yaml"
    numbers = paper.published()
    claims = [
        _claim(entry, values, paper, numbers)
        for family in read_yaml(path) or []
        for values, entry in members(family)
    ]
    ids = [claim.id for claim in claims]
    if repeated := sorted({i for i in ids if ids.count(i) > 1}):
        raise IsotropyError(f"{path}: duplicate id {repeated[0]}")
    families: dict[str, Family] = {}
    for claim in claims:
        family = claim.belongs_to
        if families.setdefault(family.id, family) != family:
            raise IsotropyError(f"{path}: {claim.id}: family {family.id} has another statement")
    return claims


def _claim(
    entry: dict[str, Any], values: dict[str, Any], paper: Paper, numbers: list[PublishedNumber]
) -> Claim:
    try:
        one = fill(entry, values) | {"paper": paper.key}
        return Claim.model_validate(_look_up(one, numbers))
    except (KeyError, ValueError) as error:
        reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
        path = paper.folder / "claims.yaml"
        raise IsotropyError(f"{path}: {entry.get('id')}: {reason}") from error


def _look_up(entry: dict[str, Any], numbers: list[PublishedNumber]) -> dict[str, Any]:
    """Replace a published number that is given by its keys."""
    keys = entry.get("published")
    if keys is None or "value" in keys:
        return entry
    found = [
        n for n in numbers if all(getattr(n, key, None) == value for key, value in keys.items())
    ]
    if len(found) != 1:
        raise ValueError(f"{len(found)} published numbers fit {keys}")
    return entry | {"published": {"value": found[0].value, "trust": found[0].trust}}
