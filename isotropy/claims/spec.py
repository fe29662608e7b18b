"""Claims of the papers as data: what each says, which of our numbers bears on it, and when that
number agrees.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from isotropy.spec import Spec, Strict


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
