"""Real runs in unusual places: a Snakefile named through `..` or a link, results on another disk,
braces in names; and files that are touched or edited."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from tests.conftest import PROJECT, Workflow, copy_checkout
from tests.workflow.study import audit

PREPARED = "results/prepare/polarity-part.texts.parquet"
NOTHING = "Nothing to be done"
TEXTS = "results/prepare/reviews.texts.parquet"


def through_dots(folder: Path) -> str:
    return os.path.relpath(PROJECT / "Snakefile", folder)


def through_a_link(folder: Path) -> str:
    (folder / "link").symlink_to(PROJECT)
    return "link/Snakefile"


def results_elsewhere(folder: Path) -> str:
    folder.with_name("scratch").mkdir()
    (folder / "results").symlink_to(folder.with_name("scratch"))
    return str(PROJECT / "Snakefile")


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("a folder of 'mine'", through_dots),
        ("a folder of 'mine'", through_a_link),
        ("a {folder}", results_elsewhere),
    ],
)
def test_runs_and_is_intact(tmp_path: Path, name: str, place: Callable[[Path], str]) -> None:
    """Run from a folder of its own: everything is intact, and nothing is made again."""
    folder = tmp_path / name
    folder.mkdir()
    workflow, snakefile = Workflow(folder, [str(PROJECT / "config/smoke.yaml")]), place(folder)
    workflow.done("--snakefile", snakefile, "--", PREPARED)
    verified = audit(workflow, "verify", "--all", "--project", str(PROJECT))
    assert (verified.returncode, "4 files: 4 intact" in verified.stdout) == (0, True)
    assert NOTHING in workflow.done("--snakefile", snakefile, "--", PREPARED)


def test_a_checkout_with_braces_is_refused(tmp_path: Path) -> None:
    """Snakemake takes them for wildcards."""
    workflow = Workflow(copy_checkout(tmp_path / "a {checkout}"))
    result = workflow.run("-n", "--", PREPARED)
    assert result.returncode == 1
    assert "move it to a folder without braces" in result.stdout
    assert "Traceback" not in result.stdout


@pytest.fixture
def reviews(tmp_path: Path) -> Workflow:
    """A study with a data set of the user's own: a file in a mirror, without a digest."""
    workflow = Workflow(copy_checkout(tmp_path / "checkout"), ["own.yaml"])
    mirror = workflow.folder / "mirror"
    mirror.mkdir()
    lines = [f"review {i} is {'good' if i % 2 else 'bad'}\n" for i in range(40_000)]
    for side, name in enumerate(("neg", "pos")):
        (mirror / f"rt-polarity.{name}").write_text("".join(lines[side::2]))
    (workflow.folder / "sources").mkdir()
    (workflow.folder / "sources/datasets.yaml").write_text(
        """
citations: {own: mine}
sources:
  reviews:
    licence: own
    citation: own
    contents: {own: {status: stand-in, title: my reviews, format: rt-polarity}}
    origins:
      - type: mirror
        files: {rt-polarity.neg: rt-polarity.neg, rt-polarity.pos: rt-polarity.pos}
"""
    )
    (workflow.folder / "own.yaml").write_text(
        """
sources: {registry: sources, order: [mirror], mirror: mirror, trust_on_first_use: true}
datasets: {reviews: {kind: sentences, source: reviews, label_names: [bad, good]}}
"""
    )
    (workflow.folder / "config.yaml").write_text(
        """
study: own
compute: {device: cpu, dtype: float32, token_budget: 2048, shards: 1}
"""
    )
    workflow.done("--", TEXTS)
    return workflow


def test_an_edited_local_file_is_fetched_again(reviews: Workflow) -> None:
    """Its digest is part of what defines the fetch, also where its size and time are as before."""
    assert NOTHING in reviews.done("--", TEXTS)
    file = reviews.folder / "mirror/rt-polarity.pos"
    before = file.stat()
    file.write_bytes(file.read_bytes().replace(b"good", b"fine"))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert file.stat().st_size == before.st_size
    reviews.done("--", TEXTS)
    assert "review 1 is fine" in set(pd.read_parquet(reviews.folder / TEXTS)["text"])
    assert NOTHING in reviews.done("--", TEXTS)


def test_touched_results(smoke_whole_copy: Workflow) -> None:
    """A newer file with the same bytes makes nothing again. A folder counts by its time: what is
    made from it is planned, until `--touch` says that all is well."""
    results = smoke_whole_copy.folder / "results"
    for path in results.rglob("*"):
        if path.is_file() and path.name != ".snakemake_timestamp":
            os.utime(path)
    assert smoke_whole_copy.planned() == {}
    os.utime(results / "fetch/polarity/.snakemake_timestamp")
    assert "prepare/polarity" in smoke_whole_copy.planned()
    smoke_whole_copy.done("--touch")
    assert smoke_whole_copy.planned() == {}
    assert audit(smoke_whole_copy, "verify", "--all").returncode == 0
