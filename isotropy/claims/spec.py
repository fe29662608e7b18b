"""Claims of the papers as data: what each says, which of our numbers bears on it, what that number
is a sample of, and when it agrees. `docs/verdicts.md` has the statistics.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from isotropy.spec import Spec, Strict

Unit = Literal["deterministic", "seeds", "items", "layers", "tasks"]
"""What a number is a sample of: its interval is over these."""

Rule = Literal["all", "any", "pooled"]
"""How cases make one verdict. `all`: it holds in every case, and fails with one. `any`: it holds
with one case, and fails where all do. `pooled`: it holds in the mean over cases, which are the
sample."""

OF_NO_MODEL = ""
"""A model's id in the scorecard, for claims that are about no model, such as a theorem."""


class Quantity(Strict):
    """A column of a table of ours, which has a column `status`."""

    table: str
    """Id of a table."""
    column: str
    """One value per seed, layer or task. One row with a column of the standard deviation (`_sd`)
    and one of `n_seeds` is a mean over seeds; one with `_low`, `_high` and `n_items` has an
    interval over items."""
    minus: str | None = None
    """A column that is subtracted, whose runs have nothing in common with those of `column` but
    their number."""
    against: str | None = None
    """A column with which `column` is ranked: the quantity is Spearman's rho over the units."""
    statistic: Literal["mean", "sd", "share"] = "mean"
    """Of the values: their mean; their standard deviation; the share of those that are true."""
    scale: Literal["linear", "correlation"] = "linear"
    """Correlations have intervals on Fisher's scale, which stay within -1 and 1."""
    where: dict[str, str | int | bool]
    """Values that the row must have in other columns. Rows of several setups are several
    cases."""
    besides: dict[str, list[str]] = {}
    """Values that the row must not have in other columns."""
    by: list[str] = []
    """Columns that split the rows of a setup into cases."""
    gate: str | None = None
    """A column that says whether the models without any method learned their task: without that a
    claim on performance has no verdict."""
    original: dict[str, str | bool | list[str]] = {}
    """What else the row must have to be the paper's own case, one of several values; rows that
    differ count as stand-ins."""

    @property
    def columns(self) -> list[str]:
        """All columns that must be numbers."""
        return [c for c in (self.column, self.minus, self.against) if c is not None]


class Equals(Strict):
    """The published value: the whole interval lies within the tolerance around it."""

    kind: Literal["equals"]
    tolerance: Annotated[float, Field(ge=0)] = 0
    relative: Annotated[float, Field(ge=0)] = 0
    """As a share of the published value, added to the tolerance."""

    def around(self, value: float) -> float:
        """The tolerance around a published value."""
        return self.tolerance + self.relative * abs(value)


class Beyond(Strict):
    """Below or above a bound: the whole interval lies on that side."""

    kind: Literal["below", "above"]
    bound: float
    every: bool = False
    """What must hold without exception: one value on the wrong side contradicts, and no interval
    is needed."""


class Published(Strict):
    """What the paper prints, and how far to trust it."""

    value: float
    trust: str


class Family(Strict):
    """What the paper says once, of several cases."""

    id: str
    statement: str
    rule: Rule = "all"


class Claim(Strict):
    """One claim of a paper."""

    id: str
    paper: str
    locator: str
    """Where the paper says it."""
    statement: str
    unit: Unit | None = None
    """Null: not attempted."""
    family: Family | None = None
    """Null: a family of its own, whose cases are the setups of the study."""
    rule: Rule = "all"
    """Of a family of its own."""
    quantity: Quantity | None
    """Null: not attempted."""
    because: str | None = None
    """Why it is not attempted."""
    extension: bool = False
    """About data or models of the user's: of a study without such it says nothing at all."""
    prints: list[dict[str, str]] = []
    """Rows of `published.csv` that are not tested for this reason, by values of their columns."""
    published: Published | None = None
    """The published number; null: a direction."""
    test: Annotated[Equals | Beyond, Field(discriminator="kind")] | None

    @property
    def belongs_to(self) -> Family:
        """Its family."""
        return self.family or Family(id=self.id, statement=self.statement, rule=self.rule)

    @model_validator(mode="after")
    def _complete(self) -> Claim:
        absent = self.quantity is None
        if absent != (self.because is not None) or absent != (self.test is None):
            raise ValueError("expected either `quantity` and `test`, or `because`")
        if absent != (self.unit is None):
            raise ValueError("expected `unit` beside `quantity`")
        if isinstance(self.test, Equals) and self.published is None:
            raise ValueError("expected a published value for `equals`")
        if self.quantity and self.quantity.against and self.unit not in ("layers", "tasks"):
            raise ValueError("expected unit layers or tasks for `against`")
        return self


def untested(claims: list[Claim], because: str) -> list[Claim]:
    """The same claims, none of them tested for a reason."""
    nothing = {"unit": None, "quantity": None, "test": None, "because": because}
    return [claim.model_copy(update=nothing) for claim in claims if not claim.extension]


class ClaimsSpec(Spec):
    """What defines the verdicts of a study."""

    study: str
    claims: list[Claim]
    attempted: list[str]
    """Tables of the study, in the order of the job's inputs."""


class ScorecardSpec(ClaimsSpec):
    """What defines the scorecard of a study."""

    model_columns: dict[str, str]
    """By paper, the column of its tables that holds the id of a model."""
