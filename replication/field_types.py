"""Field types shared by several parts of the configuration: names used in paths, lists of distinct
values, seeds.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, GetJsonSchemaHandler, StringConstraints

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$")]
"""A name that becomes part of paths: letters, digits, - and _ only (a dot would end the stem of a
result)."""

Value = TypeVar("Value")


def distinct(values: list[Value]) -> list[Value]:
    """Return the list unchanged.

    Raises:
        ValueError: a value occurs twice.
    """
    if len(set(values)) < len(values):
        raise ValueError(f"duplicate value {next(v for v in values if values.count(v) > 1)!r}")
    return values


def ascending(values: list[int]) -> list[int]:
    """Return the list unchanged.

    Raises:
        ValueError: a value is not larger than the one before.
    """
    if sorted(set(values)) != values:
        raise ValueError("expected strictly ascending values")
    return values


class _Droppable(BeforeValidator):
    """Validator for mappings that drops entries with the value null, so that a later configuration
    file can remove an entry of an earlier one.
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


def _drop_null_entries(value: Any) -> Any:
    return {k: v for k, v in value.items() if v is not None} if isinstance(value, dict) else value


def _or_null(schema: Any) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}


DROPPABLE = _Droppable(_drop_null_entries)

Seeds = Annotated[
    list[Annotated[int, Field(ge=0, lt=2**32)]], Field(min_length=1), AfterValidator(distinct)
]
