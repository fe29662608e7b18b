"""Specs: everything that defines a job's result, as one frozen model with one canonical text."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from isotropy.errors import format_value, suggest
from isotropy.scrub import scrub


class Strict(BaseModel):
    """A model that refuses unknown keys, wrong types (no text for numbers), NaN, and later
    changes.
    """

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,
        protected_namespaces=(),
    )


class Spec(Strict):
    """The base of every job's spec. Rules pass `canonical()` as their one parameter; the script
    parses it back.
    """

    machine_fields: ClassVar[frozenset[str]] = frozenset()
    """Fields with paths on this machine: jobs need them, and records leave them out."""

    def canonical(self) -> str:
        """The spec as JSON with sorted keys and no blanks: equal specs give equal text."""
        return canonical_json(self.model_dump(mode="json"))

    def recorded(self) -> dict[str, Any]:
        """The spec as it is written to records: without paths of this machine and personal data."""
        fields = self.model_dump(mode="json", exclude=set(self.machine_fields))
        recorded: dict[str, Any] = scrub(fields)
        return recorded

    @classmethod
    def parse(cls, text: str) -> Self:
        """The inverse of `canonical`."""
        return cls.model_validate_json(text)


class PaperSpec(Spec):
    """The spec of a result of a paper."""

    paper: str
    deviations: list[str] = []
    """Departures from the paper's protocol, apart from the sources (`isotropy.papers.choices`). One
    with a field `{n:,}` holds where a part of the items is used, which only the job knows."""

    def departures(self, n: int, of: int) -> list[str]:
        """Departures of a result that used `n` of `of` items."""
        texts = (text for text in self.deviations if n < of or "{n" not in text)
        return [text.format(n=n, of=of) if "{n" in text else text for text in texts]


def canonical_json(value: Any) -> str:
    """JSON with sorted keys, no blanks, no NaN."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def digest(value: Any) -> str:
    """SHA-256 of the canonical JSON of a value, as 64 hex digits."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def first_mistake(
    error: ValidationError, model: type[BaseModel], location: Sequence[str | int] | None = None
) -> str:
    """Describe the first mistake in validated data: path of the field, its value, and what is
    expected, or the nearest valid name.

    Args:
        error: the error that validation raised.
        model: the model of the data.
        location: path of the field in the message; None: that in the error.
    """
    first = clearest(error)
    path = ".".join(map(str, first["loc"] if location is None else location))
    if first["type"] == "extra_forbidden":
        return f"{path}: unknown key; {suggest(path.rsplit('.', 1)[-1], known_keys(model))}"
    if first["type"] == "missing":
        return f"{path}: missing"
    hint = ""
    if isinstance(first["input"], str) and first["type"] in ("float_type", "int_type"):
        hint = "; a number must not be in quotes, and YAML reads 1e-3 as text: write 0.001"
    message = first["msg"].removeprefix("Value error, ")
    got = "" if first["type"] == "value_error" else f", got {format_value(first['input'])}"
    return ": ".join(filter(None, [path, message])) + got + hint


def clearest(error: ValidationError) -> Any:
    """The first unknown key, else the first error: a misspelt key is also reported as missing."""
    errors = error.errors()
    return next((e for e in errors if e["type"] == "extra_forbidden"), errors[0])


def known_keys(model: type[BaseModel]) -> set[str]:
    """Keys of a model and of all models in it."""
    definitions = model.model_json_schema().get("$defs", {}).values()
    return set(model.model_fields) | {key for d in definitions for key in d.get("properties", {})}
