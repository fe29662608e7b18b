"""Types of fields that several parts of the configuration share: names that become parts of paths,
lists without repetitions, seeds.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    GetJsonSchemaHandler,
    StringConstraints,
)

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$")]
"""Names become parts of paths: letters, digits, - and _ only (a dot would end the name of a
record)."""

Value = TypeVar("Value")


def distinct(values: list[Value]) -> list[Value]:
    """The list, if its values are distinct. Raises ValueError: a duplicate value."""
    if len(set(values)) < len(values):
        raise ValueError(f"duplicate value {next(v for v in values if values.count(v) > 1)!r}")
    return values


def ascending(values: list[int]) -> list[int]:
    """The list, if each value is larger than the one before. Raises ValueError: it is not."""
    if sorted(set(values)) != values:
        raise ValueError("expected rising values without repetition")
    return values


class _Droppable(BeforeValidator):
    """For a field with named entries: entries that are null are dropped, so that a later
    configuration file can remove an entry of an earlier one.
    """

    def __get_pydantic_json_schema__(
        self, schema: Any, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        json_schema = handler(schema)
        if "additionalProperties" in json_schema:
            json_schema["additionalProperties"] = _or_null(json_schema["additionalProperties"])
        for pattern, entry in json_schema.get("patternProperties", {}).items():
            json_schema["patternProperties"][pattern] = _or_null(entry)
        return json_schema


def _without_null(value: Any) -> Any:
    return {k: v for k, v in value.items() if v is not None} if isinstance(value, dict) else value


def _or_null(schema: Any) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}


DROPPABLE = _Droppable(_without_null)

Seeds = Annotated[
    list[Annotated[int, Field(ge=0, lt=2**32)]], Field(min_length=1), AfterValidator(distinct)
]
