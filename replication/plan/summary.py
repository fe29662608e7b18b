"""Summary of a plan, kept with the logs: what each result should be and take. To plan a study of
thousands of results takes seconds, to read its summary does not.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from isotropy.errors import IsotropyError
from isotropy.files import RESULTS, write_json
from replication.spec import digest

if TYPE_CHECKING:  # which would take longer to import than all else
    from replication.plan.costs import CostModel

FILE = RESULTS / "logs/plan.json"


class Expected(NamedTuple):
    """What a plan says of one result."""

    stage: str
    paper: str
    """Key of its paper, or `shared`."""
    spec: str
    """Digest of its spec, as in records."""
    seconds: float
    """Estimated time of its job, on one core unless it has a GPU."""
    gpu: bool


@dataclass
class Summary:
    """Summary of a plan.

    Attributes:
        results: the results of the plan, by stem, inputs before what reads them.
        codes: the parameter `code` that a rule has now, by rule and modules loaded by name; None
            if there is no such rule. It grows with what is asked for.
    """

    results: dict[str, Expected]
    codes: dict[str, str | None]

    def has_changed(self, project: Path, rule: str, code: str) -> bool:
        """Return whether the code of a rule differs from the parameter `code` in a record."""
        from replication.provenance.code import code_param

        modules = code.split()[1:]
        name = " ".join([rule, *modules])
        if name not in self.codes:
            self.codes[name] = None
            # No such rule or module any more, or not valid just now
            with suppress(LookupError, ValueError, IsotropyError):
                self.codes[name] = code_param(project, rule, *modules)
        return self.codes[name] != code


def summarize(costs: CostModel) -> Summary:
    """Summarize a plan with its costs."""
    from replication.papers.registry import KEYS
    from replication.plan.costs import stage_of
    from replication.provenance.record import spec_digest

    results = {}
    for stem in costs.plan.stems():
        cost = costs.cost(stem)
        paper = next((part for part in stem.split("/") if part in KEYS), "shared")
        spec = spec_digest(costs.plan.spec(stem))
        results[stem] = Expected(stage_of(stem), paper, spec, round(cost.seconds, 3), cost.gpu)
    return Summary(results, {})


def read_summary(root: Path, configuration: Any, project: Path) -> Summary | None:
    """Read the summary of the folder of a run; None if there is none, or the configuration or a
    file of the checkout has changed since.

    Args:
        root: folder of the run.
        configuration: what chose the configuration, as JSON (`write_summary`).
        project: the checkout.
    """
    try:
        kept = json.loads((root / FILE).read_text("utf8"))
        if kept["key"] != _key(configuration, project, Path(kept["registry"])):
            return None
        results = {stem: Expected(*values) for stem, *values in kept["results"]}
        return Summary(results, kept["codes"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_summary(
    root: Path, configuration: Any, project: Path, registry: Path, summary: Summary
) -> None:
    """Keep a summary in the folder of a run, where that can be written."""
    content = {
        "key": _key(configuration, project, registry),
        "registry": str(registry),
        "results": [[stem, *expected] for stem, expected in summary.results.items()],
        "codes": summary.codes,
    }
    with suppress(OSError):
        write_json(root / FILE, content)


def _key(configuration: Any, project: Path, registry: Path) -> str:
    """Digest what a plan follows from: the configuration, and the time stamps of all files of the
    checkout that may change it.
    """
    folders = [project / name for name in ("isotropy", "replication", "rules", "scripts", "config")]
    stamps = {path: stamp for folder in (*folders, registry) for path, stamp in _stamps(folder)}
    return digest([configuration, stamps])


def _stamps(folder: Path) -> Iterator[tuple[str, list[int]]]:
    for path, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != "__pycache__"]
        for name in names:
            stat = os.stat(os.path.join(path, name))
            yield os.path.join(path, name), [stat.st_mtime_ns, stat.st_size]
