"""Everything that was fetched: from where, under which licence, and the digest of each file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from isotropy.files import read_json
from isotropy.workflow.page_spec import Inputs, PageSpec


def content(spec: PageSpec, inputs: Inputs, folder: Path) -> dict[str, Any]:
    """What the page shows.

    Args:
        spec: what defines it.
        inputs: `lineage`: the sources behind the results, from the summary.
        folder: where the page lies.
    """
    fetched = read_json(inputs("lineage")[0])["sources"]
    return {
        "fetched": [
            {**source, "files": one["files"], "bytes": sum(size for *_, size in one["files"])}
            for one in fetched
            for source in one["sources"]
        ]
    }
