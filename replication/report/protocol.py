"""The protocol of a study on pages: the choices of a paper's authors beside what was used here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from replication.papers.choices import Line


def with_stand_ins(lines: Iterable[Line], sources: Iterable[Mapping[str, Any]]) -> list[Line]:
    """Say in each line which of the sources that it names came as stand-ins. Such a line departs
    from the authors' choice, though the configuration follows it.

    Args:
        lines: the protocol, as it was configured.
        sources: what was fetched (`replication.sources.spec.FetchedSource`), as records have it.
    """
    stand_ins = {s["id"]: s["content"]["title"] for s in sources if s["status"] != "original"}
    return [_with_titles(line, stand_ins) for line in lines]


def _with_titles(line: Line, stand_ins: Mapping[str, str]) -> Line:
    text = line.study
    for name in sorted(stand_ins, key=len, reverse=True):
        text = re.sub(
            rf"(?<![\w-]){re.escape(name)}(?![\w-])",
            lambda match: f"{match[0]} (here: {stand_ins[match[0]]})",
            text,
        )
    if text == line.study:
        return line
    state = "departed from" if line.state == "followed" else line.state
    return line.model_copy(update={"study": text, "state": state})
