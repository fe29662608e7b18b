"""Run a rule's script without Snakemake: `python -m isotropy.provenance.execute JOB.json`, in the
folder of the run.
"""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any


class Named(list[Any]):
    """Paths by name, as Snakemake gives them to a script."""

    def __init__(self, values: dict[str, Any]) -> None:
        super().__init__(values.values())
        self._values = values

    def items(self) -> list[tuple[str, Any]]:
        """Names and values."""
        return list(self._values.items())

    def __getattr__(self, name: str) -> Any:
        try:
            return self._values[name]
        except KeyError:
            raise AttributeError(name) from None


def main(path: Path) -> None:
    """Run the job that a JSON file describes: script, rule, wildcards, spec, code, input, output,
    log, threads.
    """
    job = json.loads(path.read_text("utf8"))
    given = SimpleNamespace(
        rule=job["rule"],
        params=SimpleNamespace(spec=job["spec"], code=job["code"]),
        input=Named(dict(job["input"])),
        output=Named(job["output"]),
        wildcards=Named(job["wildcards"]),
        log=[job["log"]],
        threads=job["threads"],
    )
    runpy.run_path(job["script"], init_globals={"snakemake": given}, run_name="__main__")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
