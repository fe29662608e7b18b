"""Specs: everything that defines a job's result, as one frozen model with one canonical text."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Protocol, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from isotropy.errors import format_value, suggest
from isotropy.scrub import scrub


class Lineage(Protocol):
    """What facts say of where a result comes from (`replication.provenance.lineage`)."""

    status: Any

    @property
    def deviations(self) -> str:
        """Reasons why it is a stand-in, as one text."""


class Strict(BaseModel):
    """An immutable pydantic model that rejects unknown keys, NaN, and values of another type, such
    as text for numbers.
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
    """Base class of the specs of jobs. Rules pass `canonical()` as a parameter, which the script
    parses.
    """

    machine_fields: ClassVar[frozenset[str]] = frozenset()
    """Names of fields with paths on this machine, which jobs need and records leave out."""

    def canonical(self) -> str:
        """Return the spec without paths on this machine as JSON with sorted keys and no blanks:
        equal specs give equal text.
        """
        return canonical_json(self.model_dump(mode="json", exclude=set(self.machine_fields)))

    def places(self) -> str:
        """Return the paths on this machine in the same form."""
        return canonical_json(self.model_dump(mode="json", include=set(self.machine_fields)))

    def recorded(self) -> dict[str, Any]:
        """Return the spec for records, without paths on this machine and personal data."""
        fields = self.model_dump(mode="json", exclude=set(self.machine_fields))
        recorded: dict[str, Any] = scrub(fields)
        return recorded

    @classmethod
    def collect(cls, /, *parts: BaseModel | tuple[Any, ...], **fields: Any) -> Self:
        """Make a spec from the fields of the same names in some parts (models or named tuples), a
        later part before an earlier one, and `fields` before all.
        """
        values: dict[str, Any] = {}
        for part in parts:
            values |= dict(part) if isinstance(part, BaseModel) else part._asdict()  # type: ignore[attr-defined]
        known = {name: v for name, v in (values | fields).items() if name in cls.model_fields}
        return cls(**known)

    @classmethod
    def parse(cls, text: str, places: str = "{}") -> Self:
        """Parse the texts of `canonical` and `places`."""
        return cls.model_validate_json(canonical_json(json.loads(text) | json.loads(places)))


class PaperSpec(Spec):
    """Base class of the specs of a paper's results."""

    paper: str
    deviations: list[str] = []
    """Deviations from the paper's protocol, apart from substituted sources
    (`papers.protocol`). Those with a replacement field `{n:,}` apply if only a part of the
    items is used, which is known when the job runs (`deviations_of`)."""

    def deviations_of(self, n: int, of: int) -> list[str]:
        """Return the deviations of a result that used `n` of `of` items, with numbers filled in."""
        texts = (text for text in self.deviations if n < of or "{n" not in text)
        return [text.format(n=n, of=of) if "{n" in text else text for text in texts]


Deviations = Annotated[str, Field(description="Reasons why it is a stand-in; semicolons between.")]


class Facts(Spec):
    """Base class of facts about a result, written beside its rows. It declares no fields, since
    those of a base class come first, and their order is that of columns of tables.
    """

    @classmethod
    def of(cls, spec: Spec, lineage: Lineage, **fields: Any) -> Self:
        """Collect facts: fields of the spec, status and deviations of the lineage, and others."""
        origin = {"status": lineage.status, "deviations": lineage.deviations}
        return cls.collect(spec, **(origin | fields))

    def write(self, path: Path) -> None:
        """Write the facts as JSON."""
        path.write_text(self.canonical() + "\n", "utf8")


def canonical_json(value: Any) -> str:
    """Serialize a value to JSON with sorted keys and without blanks; NaN is refused."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def digest(value: Any) -> str:
    """Compute the SHA-256 of the canonical JSON of a value, as 64 hex digits."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


IN_BRACES = "; what stands in braces after --config is text, too: use a file and --configfile"
HINTS = {
    "bool_type": f"; true and false must not be in quotes{IN_BRACES}",
    **dict.fromkeys(
        ("float_type", "int_type"),
        "; a number must not be in quotes, and YAML reads 1e-3 as text: write 0.001" + IN_BRACES,
    ),
}
"""Type of a pydantic error -> what may have made a text of the value."""


def first_mistake(
    error: ValidationError, model: type[BaseModel], location: Sequence[str | int] | None = None
) -> str:
    """Describe the first error in validated data: path of the field, its value, and what is
    expected, or the most similar valid name.

    Args:
        error: the error that validation raised.
        model: the pydantic model of the data.
        location: path of the field to show in the message; None: the path in the error.
    """
    first = clearest(error)
    path = ".".join(map(str, first["loc"] if location is None else location))
    if first["type"] == "extra_forbidden":
        return f"{path}: unknown key; {suggest(path.rsplit('.', 1)[-1], known_keys(model))}"
    if first["type"] == "missing":
        return f"{path}: missing"
    hint = HINTS.get(first["type"], "") if isinstance(first["input"], str) else ""
    message = first["msg"].removeprefix("Value error, ")
    got = "" if first["type"] == "value_error" else f", got {format_value(first['input'])}"
    return ": ".join(filter(None, [path, message])) + got + hint


def clearest(error: ValidationError) -> Any:
    """Return the first error about an unknown key, else the first error: a misspelt key also causes
    an error about the missing right one.
    """
    errors = error.errors()
    return next((e for e in errors if e["type"] == "extra_forbidden"), errors[0])


def known_keys(model: type[BaseModel]) -> set[str]:
    """Return the keys of a model and of all models nested in it."""
    definitions = model.model_json_schema().get("$defs", {}).values()
    return set(model.model_fields) | {key for d in definitions for key in d.get("properties", {})}
