"""Claims of the papers as data: what each says, which of our numbers bears on it, and when that
number agrees.

`claims.yaml` in a paper's folder has one entry per claim, or one for a family of claims that differ
in a few words: `each` lists what to put for the names in braces. A published number stands in the
entry, or is looked up in the paper's `published.csv`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import yaml
from pydantic import Field, ValidationError, model_validator

from isotropy.errors import IsotropyError
from isotropy.papers.registry import Paper
from isotropy.spec import Spec, Strict
from isotropy.tables.spec import PublishedNumber


class Quantity(Strict):
    """A column of a table of ours, which has a column `status`: one value per seed."""

    table: str
    """Id of a table."""
    column: str
    """With a column of its standard deviation (`_sd`) and one of `n_seeds` beside, it is a mean
    over seeds."""
    minus: str | None = None
    """A column that is subtracted, whose runs have nothing in common with those of `column` but
    their number."""
    where: dict[str, str | int]
    """Values that the row must have in other columns. Rows of several setups are several
    quantities."""
    original: dict[str, str | bool | list[str]] = {}
    """What else the row must have to be the paper's own case, one of several values; rows that
    differ count as stand-ins."""

    @property
    def columns(self) -> list[str]:
        """`column`, and `minus` where there is one."""
        return [self.column] if self.minus is None else [self.column, self.minus]


class Equals(Strict):
    """The published value, within a tolerance."""

    kind: Literal["equals"]
    tolerance: Annotated[float, Field(ge=0)]


class Beyond(Strict):
    """Below or above a bound, in the mean over seeds, if its interval excludes the bound; one seed
    decides by itself.
    """

    kind: Literal["below", "above"]
    bound: float
    every: bool = False
    """What must hold without exception: one value on the wrong side decides."""


class Published(Strict):
    """What the paper prints, and how far to trust it."""

    value: float
    trust: str


class Claim(Strict):
    """One claim of a paper."""

    id: str
    paper: str
    locator: str
    """Where the paper says it."""
    statement: str
    quantity: Quantity | None
    """Null: not attempted."""
    because: str | None = None
    """Why it is not attempted."""
    published: Published | None = None
    """The published number; null: a direction."""
    test: Annotated[Equals | Beyond, Field(discriminator="kind")] | None

    @model_validator(mode="after")
    def _complete(self) -> Claim:
        if (self.quantity is None) != (self.because is not None) or (self.quantity is None) != (
            self.test is None
        ):
            raise ValueError("either `quantity` and `test`, or `because`")
        if isinstance(self.test, Equals) and self.published is None:
            raise ValueError("`equals` needs a published value")
        return self


class ClaimsSpec(Spec):
    """What defines the verdicts of a study."""

    study: str
    claims: list[Claim]
    attempted: list[str]
    """Tables of the study, in the order of the job's inputs."""


def read_claims(paper: Paper) -> list[Claim]:
    """All claims of a paper, families written out and published numbers looked up.

    Raises:
        IsotropyError: an entry that does not fit, two of the same id, or a published number that is
            not in the paper's table.
    """
    path = paper.folder / "claims.yaml"
    try:
        entries = yaml.safe_load(path.read_text("utf8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise IsotropyError(f"claims {path}: {error}") from error
    numbers = paper.published()
    claims: list[Claim] = []
    for entry in entries or []:
        for values in entry.pop("each", [{}]):
            one = _fill(entry, values) | {"paper": paper.key}
            try:
                claims.append(Claim.model_validate(_look_up(one, numbers)))
            except (KeyError, ValidationError, ValueError) as error:
                reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
                raise IsotropyError(f"claims {path}: {one.get('id')}: {reason}") from error
    ids = [claim.id for claim in claims]
    if repeated := sorted({i for i in ids if ids.count(i) > 1}):
        raise IsotropyError(f"claims {path}: duplicate id {repeated[0]}")
    return claims


def _fill(value: Any, values: dict[str, Any]) -> Any:
    """Put values for the names in braces, anywhere in an entry; a text that is one name becomes the
    value itself.
    """
    if isinstance(value, dict):
        return {key: _fill(v, values) for key, v in value.items()}
    if not isinstance(value, str):
        return value
    for name, put in values.items():
        if value == f"{{{name}}}":
            return put
        value = value.replace(f"{{{name}}}", str(put))
    return value


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
