"""Real runs in unusual folders and in a container; and of local files that are edited."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from tests.conftest import PROJECT, Workflow, copy_checkout
from tests.workflow.study import audit

PREPARED = "results/prepare/polarity-part.texts.parquet"
NOTHING = "Nothing to be done"
TEXTS = "results/prepare/reviews.texts.parquet"


def results_by_symlink(folder: Path) -> str:
    """Link the results to another folder, and name the Snakefile by a path with `..`."""
    folder.with_name("scratch").mkdir()
    (folder / "results").symlink_to(folder.with_name("scratch"))
    return os.path.relpath(PROJECT / "Snakefile", folder)


def snakefile_by_symlink(folder: Path) -> str:
    (folder / "link").symlink_to(PROJECT)
    return "link/Snakefile"


@pytest.mark.parametrize(
    ("name", "place"),
    [("a folder of 'mine'", snakefile_by_symlink), ("a {folder}", results_by_symlink)],
)
def test_study_in_unusual_folder_runs_and_is_intact(
    tmp_path: Path, name: str, place: Callable[[Path], str]
) -> None:
    """Outside of the checkout; a second run does nothing."""
    folder = tmp_path / name
    folder.mkdir()
    workflow, snakefile = Workflow(folder, [str(PROJECT / "config/smoke.yaml")]), place(folder)
    workflow.done("--snakefile", snakefile, "--", PREPARED)
    verified = audit(workflow, "verify", "--all", "--project", str(PROJECT))
    assert (verified.returncode, "4 files: 4 intact" in verified.stdout) == (0, True)
    assert NOTHING in workflow.done("--snakefile", snakefile, "--", PREPARED)


@pytest.fixture
def reviews(tmp_path: Path) -> Workflow:
    """A study with a user's data set: files in a mirror folder, without digests."""
    workflow = Workflow(copy_checkout(tmp_path / "checkout"), ["own.yaml"])
    mirror = workflow.folder / "mirror"
    mirror.mkdir()
    lines = [f"review {i} is {'good' if i % 2 else 'bad'}\n" for i in range(40_000)]
    for side, name in enumerate(("neg", "pos")):
        (mirror / f"rt-polarity.{name}").write_text("".join(lines[side::2]))
    (workflow.folder / "sources").mkdir()
    (workflow.folder / "sources/datasets.yaml").write_text(
        """
reviews:
  kind: dataset
  licence: own
  citation: mine
  contents: {own: {status: stand-in, title: my reviews, format: rt-polarity}}
  origins:
    - type: mirror
      content: own
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
compute: {device: cpu, dtype: float32, token_budget: auto, jobs_per_gpu: 1, shards: 1}
"""
    )
    workflow.done("--", TEXTS)
    return workflow


def test_an_edited_local_file_is_fetched_again(reviews: Workflow) -> None:
    """Its digest is part of the fetch job's spec, so the same size and time do not hide an edit."""
    assert NOTHING in reviews.done("--", TEXTS)
    file = reviews.folder / "mirror/rt-polarity.pos"
    stat = file.stat()
    file.write_bytes(file.read_bytes().replace(b"good", b"fine"))
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert file.stat().st_size == stat.st_size
    reviews.done("--", TEXTS)
    assert "review 1 is fine" in set(pd.read_parquet(reviews.folder / TEXTS)["text"])
    assert NOTHING in reviews.done("--", TEXTS)


APPTAINER = """#!/usr/bin/env python3
\"\"\"A stand-in for apptainer, which Debian does not have: it notes image and options, and runs the
command without a container.\"\"\"
import os, sys
if sys.argv[1:] == ["--version"]:
    print("apptainer version 1.3.4")
    raise SystemExit
*options, image, shell, _, command = sys.argv[1:]
with open(os.environ["NOTES"], "a") as notes:
    print(image, *options, file=notes)
os.execvp(shell, [shell, "-c", command])
"""


def test_jobs_run_in_the_configured_container(tmp_path: Path) -> None:
    """With `--sdm apptainer` Snakemake hands every job to the image of `compute.container`, and the
    audit finds the results; a name that a shell would interpret is refused."""
    workflow = Workflow(tmp_path, [str(PROJECT / "config/smoke.yaml"), "image.yaml"])
    command = tmp_path / "bin/apptainer"
    command.parent.mkdir()
    command.write_text(APPTAINER)
    command.chmod(0o755)
    (tmp_path / "isotropy.sif").write_bytes(b"")
    (tmp_path / "image.yaml").write_text("compute: {container: isotropy.sif}\n")
    path = os.pathsep.join(
        [str(command.parent), str(Path(sys.executable).parent), os.environ["PATH"]]
    )
    snakefile = str(PROJECT / "Snakefile")
    arguments = ("--snakefile", snakefile, "--sdm", "apptainer", "--", PREPARED)
    workflow.done(*arguments, env={"PATH": path, "NOTES": str(tmp_path / "notes")})
    notes = (tmp_path / "notes").read_text().splitlines()
    assert [note.split()[0] for note in notes] == ["isotropy.sif"] * 2  # fetched, and prepared
    assert audit(workflow, "verify", "--all", "--project", str(PROJECT)).returncode == 0
    (tmp_path / "image.yaml").write_text("compute: {container: 'a.sif; touch here'}\n")
    refused = workflow.run(*arguments, env={"PATH": path})
    assert refused.returncode == 1
    assert "compute.container" in refused.stdout
    assert not (tmp_path / "here").exists()
