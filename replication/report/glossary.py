"""The page of words that the other pages use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from replication.plan.page_spec import Inputs, PageSpec


def content(spec: PageSpec, inputs: Inputs, folder: Path) -> dict[str, Any]:
    """Make the variables of the page's template: the words of the spec, in alphabetical order."""
    return {"words": sorted(spec.glossary.items(), key=lambda item: item[0].casefold())}
