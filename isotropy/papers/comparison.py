"""A study beside a paper's text, line by line: what each says, where the paper says it, and whether
the study follows it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Literal

from isotropy.spec import Strict

State = Literal["followed", "unknown", "departed from"]


class Line(Strict):
    """One choice of a protocol."""

    topic: str
    paper: str
    """What the paper, its code or its authors say; empty where they say nothing."""
    study: str
    """What the study does."""
    source: str
    """Where the paper says it."""
    state: State


def line(topic: str, paper: object, study: object, source: str) -> Line:
    """One line, with its state.

    Args:
        topic: what is chosen.
        paper: what the paper has; None: not known. A study that has all of a collection, and more,
            follows it.
        study: what the study has.
        source: where the paper says it.
    """
    if paper is None:
        return Line(topic=topic, paper="", study=shown(study), source=source, state="unknown")
    both = _is_collection(paper) and _is_collection(study)
    follows = set(paper) <= set(study) if both else paper == study  # type: ignore[call-overload]
    state: State = "followed" if follows else "departed from"
    return Line(topic=topic, paper=shown(paper), study=shown(study), source=source, state=state)


def always(topic: str, both: str, source: str) -> Line:
    """A choice that no configuration changes: the code does here what the paper does."""
    return line(topic, both, both, source)


def revisions(models: Iterable[str], registry: Mapping[str, Any]) -> Line:
    """The revisions of models, which no paper states.

    Args:
        models: ids of the registry.
        registry: its entries (`isotropy.sources.spec.Source`), by id.
    """
    found = []
    for name in sorted(models):  # a configuration is in the order in which it was merged
        origins = registry[name].origins
        hub = [o.revision[:7] for o in origins if o.type == "hub"]
        found.append(f"{name} {hub[0] if hub else 'without a revision'}")
    return line("model revisions", None, found, "not stated")


def shown(value: object) -> str:
    """A value as text."""
    if _is_collection(value):
        return ", ".join(shown(one) for one in value) or "none"  # type: ignore[attr-defined]
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _is_collection(value: object) -> bool:
    return isinstance(value, Collection) and not isinstance(value, str)
