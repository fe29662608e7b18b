"""Choices of a paper's authors, as data: one list per paper, in its `protocol.py`.

From a list follow what departs from the protocol, and so makes a result a stand-in (`deviations`),
and the table *Protocol* of the paper's page (`protocol_lines`). Every field of every spec of a
paper's results is bound by a choice, or listed as without influence, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from importlib import import_module
from typing import Any, Literal

from isotropy.spec import PaperSpec, Strict

State = Literal["followed", "unknown", "departed from"]


class Unknown:
    """Stands for what nobody knows of a protocol."""

    def __repr__(self) -> str:
        return "unknown"


UNKNOWN = Unknown()
WITHOUT_INFLUENCE = {
    "paper": "names the paper",
    "deviations": "follows from the other fields",
    "device": "changes results by rounding only",
    "token_budget": "how many tokens are computed at once changes results by rounding only",
    "rehearsal": "a rehearsal has a status of its own",
}
"""Fields of specs of several stages that no protocol binds -> why."""


@dataclass(frozen=True)
class Choice:
    """One choice of a paper's authors.

    Attributes:
        topic: what is chosen, for the paper's page.
        fields: dotted paths of the fields of a spec that hold it; several are compared together.
            Empty: no configuration changes it.
        theirs: what the authors did: a value; or several in a tuple, of which a result has one; or
            a function that gives either for a spec; UNKNOWN; text, where there is no field.
        source: where the authors say it.
        deviation: what to say of a result that departs from it: text with `found` and `theirs` in
            braces (or for the job, see `PaperSpec.deviations`), or a function of the spec. None:
            the choice only stands on the page.
        where: results that it is about; None: all.
        accepts: whether a result is as the authors have it; None: its value is theirs, or one of
            theirs.
        compared: of these, results that the page compares; None: all but variants of others.
        covers: whether a study follows the paper only with all of several values.
        counted: whether the number of different values is what was chosen, as of seeds.
        departs: whether every result departs from it, or nothing of it is known.
    """

    topic: str
    fields: tuple[str, ...]
    theirs: Any
    source: str
    deviation: str | Callable[[Any], str] | None = None
    where: Callable[[Any], bool] | None = None
    accepts: Callable[[Any], bool] | None = None
    compared: Callable[[Any], bool] | None = None
    covers: bool = False
    counted: bool = False
    departs: bool = False

    def applies(self, spec: PaperSpec) -> bool:
        """Whether a result is one that the choice is about."""
        return self.where is None or self.where(spec)

    def found(self, spec: PaperSpec) -> Any:
        """What a result has: the value of the field, or a tuple of those of several."""
        values = tuple(reduce(getattr, path.split("."), spec) for path in self.fields)
        return values[0] if len(values) == 1 else values

    def expected(self, spec: PaperSpec) -> Any:
        """What the authors have, for a result."""
        return self.theirs(spec) if callable(self.theirs) else self.theirs

    def met(self, spec: PaperSpec) -> bool:
        """Whether a result is as the authors have it; what is not known is met by nothing."""
        theirs = self.expected(spec)
        if theirs is UNKNOWN or self.departs:
            return False
        if self.accepts is not None:
            return self.accepts(spec)
        found = self.found(spec)
        several = isinstance(theirs, tuple) and len(self.fields) == 1
        return not self.fields or found == theirs or (several and found in theirs)

    def deviation_of(self, spec: PaperSpec) -> str | None:
        """What to say of a result that departs from the choice; None: it does not."""
        if self.deviation is None or not self.applies(spec) or self.met(spec):
            return None
        if callable(self.deviation):
            return self.deviation(spec)
        if "{n" in self.deviation:  # for the job to complete
            return self.deviation
        found, theirs = self.found(spec) if self.fields else None, self.expected(spec)
        return self.deviation.format(found=found, theirs=theirs)


class Line(Strict):
    """A line of the table *Protocol*: a choice of the authors beside what a study does."""

    topic: str
    paper: str
    """What the paper, its code or its authors say; empty where they say nothing."""
    study: str
    """What the study does."""
    source: str
    """Where the paper says it."""
    state: State


def choices(key: str) -> tuple[Choice, ...]:
    """The choices of a paper's authors for all its results."""
    lists: Mapping[type[PaperSpec], tuple[Choice, ...]] = _protocol(key).CHOICES
    return tuple(choice for group in lists.values() for choice in group)


def deviations(spec: PaperSpec) -> list[str]:
    """What of a result departs from its paper's protocol, apart from its sources."""
    group: tuple[Choice, ...] = _protocol(spec.paper).CHOICES[type(spec)]
    texts = (choice.deviation_of(spec) for choice in group)
    return list(dict.fromkeys(text for text in texts if text is not None))


def protocol_lines(key: str, specs: Sequence[PaperSpec], registry: Mapping[str, Any]) -> list[Line]:
    """The choices of a paper's authors beside the results that a study makes.

    Args:
        key: the paper's.
        specs: those of all results.
        registry: entries of the source registry, by id.
    """
    lines = [
        line
        for kind, group in _protocol(key).CHOICES.items()
        for choice in group
        if (line := _line(choice, [spec for spec in specs if type(spec) is kind])) is not None
    ]
    names = {str(getattr(spec, n, "")) for spec in specs for n in ("model", "embedding")}
    models = sorted(n for n in names if n in registry and registry[n].kind == "model")
    if models:
        lines.insert(1, _revisions(models, registry))
    return list({line.topic: line for line in reversed(lines)}.values())[::-1]


def _line(choice: Choice, specs: Sequence[PaperSpec]) -> Line | None:
    """A choice beside the results that it is about; None: there are none."""
    compared = choice.compared or (lambda spec: getattr(spec, "variant", None) is None)
    about = [spec for spec in specs if choice.applies(spec) and compared(spec)]
    if not about:
        return None
    theirs = _distinct(choice.expected(spec) for spec in about)
    found = _distinct(choice.found(spec) for spec in about) if choice.fields else theirs
    if choice.counted:
        found = [len(found)]
    unknown = all(value is UNKNOWN for value in theirs)
    if choice.covers:
        follows = set(theirs[0]) <= set(found)
    elif choice.counted:
        follows = found == theirs
    else:
        follows = not choice.departs and all(map(choice.met, about))
    state: State = "unknown" if unknown else "followed" if follows else "departed from"
    return Line(
        topic=choice.topic,
        paper=""
        if unknown
        else shown(theirs[0] if len(theirs) == 1 else sorted(theirs, key=_order)),
        study=shown(found[0] if len(found) == 1 else sorted(found, key=_order)),
        source=choice.source,
        state=state,
    )


def _revisions(models: Iterable[str], registry: Mapping[str, Any]) -> Line:
    """The revisions of models, which no paper states."""
    revisions = []
    for name in models:
        hub = [o.revision[:7] for o in registry[name].origins if o.type == "hub"]
        revisions.append(f"{name} {hub[0] if hub else 'without a revision'}")
    study = shown(revisions)
    return Line(
        topic="model revisions", paper="", study=study, source="not stated", state="unknown"
    )


def _distinct(values: Iterable[Any]) -> list[Any]:
    return list({repr(value): value for value in values}.values())


def _order(value: Any) -> tuple[str, Any]:
    """Numbers in their order, all else as text."""
    number = isinstance(value, int | float)
    return (" ", value) if number else (type(value).__name__, str(value))


def shown(value: object) -> str:
    """A value as text."""
    if isinstance(value, Collection) and not isinstance(value, str):
        return ", ".join(map(shown, value)) or "none"
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, Strict):
        return ", ".join(f"{n.replace('_', ' ')} {shown(v)}" for n, v in value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def _protocol(key: str) -> Any:
    return import_module(f"isotropy.papers.{key}.protocol")
