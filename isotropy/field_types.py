"""What several parts of the configuration share: names that become parts of paths, lists without
repetitions, seeds.
"""

from __future__ import annotations

from typing import Annotated, TypeVar

from pydantic import AfterValidator, Field, StringConstraints

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$")]
"""Names become parts of paths: letters, digits, - and _ only (a dot would end the name of a
record)."""

Value = TypeVar("Value")


def distinct(values: list[Value]) -> list[Value]:
    """The list, if its values are distinct. Raises ValueError: a duplicate value."""
    if len(set(values)) < len(values):
        raise ValueError(f"duplicate value {next(v for v in values if values.count(v) > 1)!r}")
    return values


def rising(values: list[int]) -> list[int]:
    """The list, if each value is larger than the one before. Raises ValueError: it is not."""
    if sorted(set(values)) != values:
        raise ValueError("expected rising values without repetition")
    return values


Seeds = Annotated[
    list[Annotated[int, Field(ge=0, lt=2**32)]], Field(min_length=1), AfterValidator(distinct)
]
