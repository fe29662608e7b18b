"""Claims of the papers as data: the statement, our number that tests it, the sampling unit of that
number, and the test. `docs/verdicts.md` explains the statistics.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from replication.spec import Spec, Strict

Unit = Literal["deterministic", "seeds", "items"]
"""Sampling unit of a number: its interval is over these. Layers of a model are no sample: see
`Quantity.across_layers`."""

Rule = Literal["all", "any", "pooled"]
"""Rule that combines cases to one verdict. `all`: the statement holds if it does in every case, and
fails if it does in one. `any`: it holds if it does in one case, and fails if it does in all.
`pooled`: the mean over cases, which are the sample, is tested. Cases that share seeds or models are
not independent; `replication.claims.statements` says how that is taken into account."""

ALPHA = 0.05
"""Significance level of all tests; the confidence of all intervals is 1 - ALPHA."""
WITHOUT_MODEL = ""
"""Model id in the scorecard for claims that are not about a model, such as a theorem."""


class Quantity(Strict):
    """A column of a table of our results; the table must have a column `status`."""

    table: str
    """Id of a table."""
    column: str
    """One value per seed. One row with a column of the standard deviation (`_sd`)
    and one of `n_seeds` is a mean over seeds; one with `_low`, `_high` and `n_items` has an
    interval over items."""
    name: str = ""
    """What the number is, in words; empty: the name of its column (`replication.claims.scales`)."""
    minus: str | None = None
    """A column to subtract. Its runs are independent of those of `column`, even where seeds are
    equal."""
    across_layers: bool = False
    """Whether the quantity is a statistic over the layers of a model, which are no sample: they are
    fixed, and resemble their neighbours. It is computed from the values of each seed, or from draws
    of the errors over items, and the interval is over these."""
    against: str | None = None
    """A column to correlate `column` with: the quantity is Spearman's rho across layers."""
    statistic: Literal["mean", "sd", "share", "second_lowest"] = "mean"
    """Statistic of the values: their mean; their standard deviation; the share of layers with a
    value above 0.5; the second lowest of the layers, for what holds in all but one."""
    scale: Literal["linear", "correlation"] = "linear"
    """`correlation`: the interval stays within -1 and 1."""
    points: str | None = None
    """A column with the number of points of each rank correlation, on which depends in what steps
    it varies."""
    where: dict[str, str | int | bool]
    """Values that rows must have in other columns. Rows of different setups are different
    cases."""
    besides: dict[str, list[str]] = {}
    """Values that rows must not have in other columns."""
    by: list[str] = []
    """Columns that split the rows of a setup into cases."""
    exact_where: dict[str, str | int | bool] = {}
    """Values of other columns with which the number does not depend on the seed, such as that there
    is one cluster. Equal values of such runs are exact; other equal values have no interval, since
    few runs that agree do not show that others would."""
    convention: str | None = None
    """What a convention decides, such as the signs of eigenvectors: where the table has `column`
    with `_low` and `_high`, these are its lowest and highest value over all conventions, and widen
    the interval."""
    requires_learned: bool = False
    """Whether the models without any method must have learned their task (column `learned`): a
    claim on performance has no verdict otherwise."""
    requires_training: bool = False
    """Whether the claim is on performance, of which a stand-in says nothing that was trained too
    briefly or too fast (column `too_short`, the reason)."""
    requires_all_learned: bool = False
    """Whether every model that is compared must have learned (column `all_learned`): one at chance
    has no classes to compare."""
    original: dict[str, str | bool | list[str]] = {}
    """Values that rows must also have in other columns to be the paper's own case (a list: any of
    them); rows that differ count as stand-ins."""

    @property
    def columns(self) -> list[str]:
        """All columns that must be numbers."""
        return [c for c in (self.column, self.minus, self.against) if c is not None]


class Equals(Strict):
    """Test that the whole interval lies within the tolerance around a value."""

    kind: Literal["equals"]
    value: float | None = None
    """The value, where the paper says it without a number; null: the published one."""
    tolerance: Annotated[float, Field(ge=0)] = 0
    relative: Annotated[float, Field(ge=0)] = 0
    """Relative tolerance, as a share of the published value; added to `tolerance`."""

    def around(self, value: float) -> float:
        """Compute the total tolerance around a published value."""
        return self.tolerance + self.relative * abs(value)


class Beyond(Strict):
    """Test that the whole interval lies below or above a bound."""

    kind: Literal["below", "above"]
    bound: float
    every: bool = False
    """Whether it must hold for every value: one value on the wrong side contradicts, and no
    interval is needed."""
    published: bool = False
    """Whether the paper states the bound; one that is not 0 is ours otherwise."""


class Published(Strict):
    """A number that the paper prints, and a note on its source, such as a figure or the text."""

    value: float
    source_note: str


class Statement(Strict):
    """What a paper says once, of one case or of several, each of which is a claim."""

    id: str
    text: str
    rule: Rule = "all"
    control_of: str = ""
    """Id of the paper's statement that it is our control or variant of; empty: the paper's own."""

    @property
    def ours(self) -> bool:
        """Whether the paper does not state it."""
        return bool(self.control_of)


class Claim(Strict):
    """One claim of a paper."""

    id: str
    paper: str
    locator: str
    """Place in the paper: section, table or figure."""
    statement: str
    unit: Unit | None = None
    """Null: not attempted."""
    part_of: Statement | None = None
    """Null: the claim is a statement by itself, whose cases are the setups of the study."""
    rule: Rule = "all"
    """Rule of the statement where `part_of` is null."""
    control_of: str = ""
    """Id of the paper's statement that it is our control of, where `part_of` is null."""
    quantity: Quantity | None
    """Null: not attempted."""
    because: str | None = None
    """Why it is not attempted."""
    extension: bool = False
    """Whether it is about a user's own data or models; in a study without these it is left out."""
    prints: list[dict[str, str]] = []
    """Rows of `published.csv` that remain untested for this reason, by values of their columns."""
    published: Published | None = None
    """The published number; null: the claim is a direction, not a number."""
    test: Annotated[Equals | Beyond, Field(discriminator="kind")] | None
    stand_in_test: Annotated[Equals | Beyond, Field(discriminator="kind")] | None = None
    """Test in place of `test` on stand-ins, such as the sign of a number that depends on the model;
    null: the same."""
    originals_only: str | None = None
    """Why the claim is not attempted on stand-ins, which could not meet it; null: it is."""

    @property
    def value(self) -> float:
        """The value that an `equals` tests."""
        if isinstance(self.test, Equals) and self.test.value is not None:
            return self.test.value
        assert self.published is not None
        return self.published.value

    @property
    def belongs_to(self) -> Statement:
        """The statement that the claim is a case of, made from the claim if it declares none."""
        return self.part_of or Statement(
            id=self.id, text=self.statement, rule=self.rule, control_of=self.control_of
        )

    @model_validator(mode="after")
    def _complete(self) -> Claim:
        absent = self.quantity is None
        if absent != (self.because is not None) or absent != (self.test is None):
            raise ValueError("expected either `quantity` and `test`, or `because`")
        if absent != (self.unit is None):
            raise ValueError("expected `unit` beside `quantity`")
        if isinstance(self.test, Equals) and (self.published is None) == (self.test.value is None):
            raise ValueError("expected either a published value or `value` for `equals`")
        quantity = self.quantity
        of_layers = quantity and quantity.statistic in ("share", "second_lowest")
        over_layers = quantity and (quantity.against or of_layers)
        if quantity and over_layers and not quantity.across_layers:
            raise ValueError("expected `across_layers: true` for `against` and for `statistic`")
        return self


class ClaimsSpec(Spec):
    """Spec of the table of verdicts of a study."""

    study: str
    claims: list[Claim]
    attempted: list[str]
    """Ids of the tables that the study makes, in the order of the job's inputs."""


class ScorecardSpec(ClaimsSpec):
    """Spec of the scorecard of a study."""

    model_columns: dict[str, str]
    """For each paper, the column of its tables with the id of a model."""
