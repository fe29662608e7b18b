"""The page of fetched sources: origin, licence, and the digest of each file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from isotropy.files import read_json
from replication.plan.page_spec import Inputs, PageSpec


def content(spec: PageSpec, inputs: Inputs, folder: Path) -> dict[str, Any]:
    """Make the variables of the page's template.

    Args:
        spec: the spec of the page.
        inputs: `lineage`: the sources behind the results, from the summary.
        folder: folder of the page.
    """
    fetched = read_json(inputs("lineage")[0])["sources"]
    return {
        "fetched": [
            {**source, "files": record["files"], "bytes": sum(size for *_, size in record["files"])}
            for record in fetched
            for source in record["sources"]
        ]
    }
