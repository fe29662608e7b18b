"""Specs: everything that defines a job's result, as one frozen model with one canonical text."""

from __future__ import annotations

import hashlib
import json
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict

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
    """Fields that say where things lie on this machine: a job needs them, its record does not have
    them."""

    def canonical(self) -> str:
        """The spec as JSON with sorted keys and no blanks: equal specs give equal text."""
        return canonical_json(self.model_dump(mode="json"))

    def recorded(self) -> dict[str, Any]:
        """The spec as records have it: without what belongs to a machine or a person."""
        fields = self.model_dump(mode="json", exclude=set(self.machine_fields))
        recorded: dict[str, Any] = scrub(fields)
        return recorded

    @classmethod
    def parse(cls, text: str) -> Self:
        """The inverse of `canonical`."""
        return cls.model_validate_json(text)


def canonical_json(value: Any) -> str:
    """JSON with sorted keys, no blanks, no NaN."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def digest(value: Any) -> str:
    """SHA-256 of the canonical JSON of a value, as 64 hex digits."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()
