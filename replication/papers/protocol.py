"""What a paper is and what its authors chose, as data: one list of choices per paper, in its
`protocol.py`.

These lists determine the deviations of a result, which make it a stand-in (`deviations`), and the
table *Protocol* of the paper's page (`protocol_lines`). Every field of every spec of a paper's
results must be covered by a choice, or listed as without influence, with the reason.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from importlib import import_module
from typing import Any, Literal

from replication.spec import PaperSpec, Spec, Strict

State = Literal["followed", "unknown", "not followed"]


class Unknown:
    """Placeholder for a choice that the authors do not state."""

    def __repr__(self) -> str:
        return "unknown"


UNKNOWN = Unknown()
WITHOUT_INFLUENCE = {
    "paper": "names the paper",
    "deviations": "follows from the other fields",
    "device": "changes results by rounding only",
    "token_budget": "how many tokens are computed at once changes results by rounding only",
}
"""Fields of specs that no choice needs to cover -> why."""
LEAST_SHARE_OF_UPDATES, MOST_TIMES_RATE = 0.1, 10
"""Share of the authors' updates, and multiple of their learning rate, beyond which a run is no
evidence on performance."""


@dataclass(frozen=True)
class Choice:
    """One choice of a paper's authors.

    Attributes:
        topic: the subject of the choice, for the paper's page.
        fields: dotted paths of the spec fields with the value; several are compared as a tuple.
            Empty: no configuration changes it.
        theirs: the authors' value; or a tuple of admissible values (for a single field); or a
            function from a spec to either; or UNKNOWN; or text, if there is no field.
        source: place where the authors state it.
        deviation: text for a result that does not follow the choice, with replacement fields
            `{value}` and `{theirs}` (or others that the job fills in, see `PaperSpec.deviations`);
            or a function from a spec to the text. None: the choice is only listed on the page.
        where: predicate of the specs that the choice applies to; None: all.
        accepts: predicate of the specs that follow the choice; None: those with the authors' value
            or one of these.
        compared: predicate of the specs, among those it applies to, that the page compares; None:
            all but variants.
        covers: whether a study follows the choice only if it has all of several values.
        counted: whether the choice is the number of values of each experiment, as for seeds.
        never_followed: whether no result follows the choice, whatever its value.
        absent: what the value None means.
        ours: what this project does, where no configuration changes it; empty: as the authors.
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
    never_followed: bool = False
    absent: str = "none"
    ours: str = ""

    def applies(self, spec: PaperSpec) -> bool:
        """Return whether the choice applies to a result."""
        return self.where is None or self.where(spec)

    def value_in(self, spec: PaperSpec) -> Any:
        """Return the value that a result has: that of the field, or a tuple for several fields."""
        values = tuple(reduce(getattr, path.split("."), spec) for path in self.fields)
        return values[0] if len(values) == 1 else values

    def expected(self, spec: PaperSpec) -> Any:
        """Return the authors' value for a result."""
        return self.theirs(spec) if callable(self.theirs) else self.theirs

    def met(self, spec: PaperSpec) -> bool:
        """Return whether a result follows the choice; no result follows an unknown choice."""
        theirs = self.expected(spec)
        if theirs is UNKNOWN or self.never_followed:
            return False
        if self.accepts is not None:
            return self.accepts(spec)
        value = self.value_in(spec)
        has_alternatives = isinstance(theirs, tuple) and len(self.fields) == 1
        return not self.fields or value == theirs or (has_alternatives and value in theirs)

    def deviation_in(self, spec: PaperSpec) -> str | None:
        """Describe how a result deviates from the choice; None if it follows it."""
        if self.deviation is None or not self.applies(spec) or self.met(spec):
            return None
        if callable(self.deviation):
            return self.deviation(spec)
        if "{n" in self.deviation:  # the job fills it in
            return self.deviation
        value, theirs = self.value_in(spec) if self.fields else None, self.expected(spec)
        return self.deviation.format(value=value, theirs=theirs)


@dataclass(frozen=True)
class PublishedTraining:
    """How long the authors train, and at which rate.

    Attributes:
        items: training items of each of their tasks.
        batch_size: items of an update.
        epochs: passes over the items.
        learning_rate: their learning rate; None where it is not known.
    """

    items: Mapping[str, int]
    batch_size: int
    epochs: int
    learning_rate: float | None = None

    def updates(self, task: str) -> int:
        """Return the number of updates on a task; on one that they do not have, that of their
        smallest.
        """
        n_items = self.items.get(task, min(self.items.values()))
        return math.ceil(n_items / self.batch_size) * self.epochs

    def shortfall(self, task: str, updates: int, learning_rate: float) -> str:
        """Explain why a run says nothing of performance: under a tenth of the authors' updates, or
        over ten times their learning rate; empty if it does.
        """
        theirs, rate = self.updates(task), self.learning_rate
        too_short = updates < LEAST_SHARE_OF_UPDATES * theirs
        too_fast = rate is not None and learning_rate > MOST_TIMES_RATE * rate
        if not too_short and not too_fast:
            return ""
        problem = "training too short" if too_short else "learning rate too high"
        rates = (
            f"learning rate {learning_rate:g}, theirs {'unknown' if rate is None else f'{rate:g}'}"
        )
        return f"{problem}: {updates:,} updates, the authors have {theirs:,}; {rates}"


class MainStatement(Strict):
    """A main statement of a paper."""

    id: str
    """Id of the statement among the paper's claims."""
    says: str
    """The statement in words that a reader of the abstract recognizes."""
    notes: dict[str, str] = {}
    """Why it fails, by the name of a stand-in that fails; `all`: whichever fails."""
    control: str | None = None
    """Id of the control of ours without which its verdict would mislead."""


class Publication(Spec):
    """A paper as pages describe it."""

    key: str
    """Name of its folder, also used in paths and in the configuration."""
    title: str
    reference: str
    name: str
    """Authors and year, for links."""
    link: str = ""
    """Address of the paper; with a DOI where it has one."""
    bibtex: str = ""
    main: list[MainStatement] = []
    """Its main statements, in its own order of importance."""
    says: str
    """The paper's main result, in one sentence."""
    lead: str | None = None
    """Its most telling figure, for the overview; null: the study does not draw it."""
    lead_caption: str = ""


class Line(Strict):
    """A line of the table *Protocol*: a choice of the authors beside what a study does."""

    topic: str
    paper: str
    """The choice according to the paper, its code or its authors; empty if they do not state it."""
    study: str
    """The choice in the study."""
    source: str
    """Place where the authors state it."""
    state: State


def choices(key: str) -> tuple[Choice, ...]:
    """Return the choices of a paper's authors for all its results."""
    lists: Mapping[type[PaperSpec], tuple[Choice, ...]] = _protocol(key).CHOICES
    return tuple(choice for group in lists.values() for choice in group)


def deviations(spec: PaperSpec) -> list[str]:
    """List the deviations of a result from its paper's protocol, apart from substituted sources."""
    group: tuple[Choice, ...] = _protocol(spec.paper).CHOICES[type(spec)]
    texts = (choice.deviation_in(spec) for choice in group)
    return list(dict.fromkeys(text for text in texts if text is not None))


def protocol_lines(key: str, specs: Sequence[PaperSpec], registry: Mapping[str, Any]) -> list[Line]:
    """Compare the choices of a paper's authors with the results of a study.

    Args:
        key: key of the paper.
        specs: specs of all results of the study.
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


def with_stand_ins(lines: Iterable[Line], sources: Iterable[Mapping[str, Any]]) -> list[Line]:
    """Say in each line which of the sources that it names came as stand-ins. Such a line does
    not follow the authors' choice, though the configuration does.

    Args:
        lines: the protocol, as it was configured.
        sources: what was fetched (`replication.sources.spec.FetchedSource`), as records have it.
    """
    stand_ins = {s["id"]: s["content"]["title"] for s in sources if s["status"] != "original"}
    return [_with_titles(line, stand_ins) if stand_ins else line for line in lines]


def _with_titles(line: Line, stand_ins: Mapping[str, str]) -> Line:
    """Add the titles to names, and say of those that the paper has that these came instead."""
    names = sorted(stand_ins, key=len, reverse=True)
    pattern = rf"(?<![\w-])({'|'.join(map(re.escape, names))})(?![\w-])"
    theirs = set(re.findall(pattern, line.paper))

    def came(match: re.Match[str]) -> str:
        title = stand_ins[match[0]]
        return f"{match[0]} ({'used instead: ' * (match[0] in theirs)}{title})"

    text = re.sub(pattern, came, line.study)
    if text == line.study:
        return line
    state = "not followed" if line.state == "followed" else line.state
    return line.model_copy(update={"study": text, "state": state})


def _line(choice: Choice, specs: Sequence[PaperSpec]) -> Line | None:
    """Compare a choice with the results that it applies to; None if there are none."""
    compared = choice.compared or (lambda spec: getattr(spec, "variant", None) is None)
    applicable = [spec for spec in specs if choice.applies(spec) and compared(spec)]
    if not applicable:
        return None
    paper_values = _distinct(choice.expected(spec) for spec in applicable)
    unknown = all(value is UNKNOWN for value in paper_values)
    if not choice.fields:
        studied = [choice.ours or ("not stated" if unknown else paper_values[0])]
    elif choice.counted:
        studied = _distinct(_counts(choice.fields[0], applicable))
    else:
        studied = _distinct(choice.value_in(spec) for spec in applicable)
    if choice.covers:
        follows = set(paper_values[0]) <= set(studied)
    elif choice.counted:
        follows = studied == paper_values
    else:
        follows = not choice.never_followed and all(map(choice.met, applicable))
    state: State = "unknown" if unknown else "followed" if follows else "not followed"
    paper, study = (
        [choice.absent if value is None else value for value in sorted(values, key=_sort_key)]
        for values in (paper_values, studied)
    )
    return Line(
        topic=choice.topic,
        paper="" if unknown else shown(paper[0] if len(paper) == 1 else paper),
        study=shown(study[0] if len(study) == 1 else study),
        source=choice.source,
        state=state,
    )


def _counts(field: str, specs: Iterable[PaperSpec]) -> list[int]:
    """Number of values of a field in each group of specs that are otherwise equal."""
    return list(Counter(spec.model_copy(update={field: 0}).canonical() for spec in specs).values())


def _revisions(models: Iterable[str], registry: Mapping[str, Any]) -> Line:
    """Make the line about revisions of models, which no paper states."""
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


def _sort_key(value: Any) -> tuple[str, Any]:
    """Return a sort key: numbers by value, anything else by type and text."""
    number = isinstance(value, int | float)
    return (" ", value) if number else (type(value).__name__, str(value))


def shown(value: object) -> str:
    """Format a value for the table *Protocol*."""
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
    return import_module(f"replication.papers.{key}.protocol")
