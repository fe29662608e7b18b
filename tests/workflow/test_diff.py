"""`audit diff` names the cause of a difference between two runs, and `audit rerun` repeats jobs."""

from __future__ import annotations

from replication.provenance.audit import verify_all
from replication.provenance.diff import diff
from tests.conftest import Workflow
from tests.workflow.study import audit

POLARITY = "results/optimize/mickus2024/polarity/seed0"


def first(before: Workflow, after: Workflow) -> dict[str, str]:
    return {d.name: "; ".join(d.causes) for d in diff(before.folder, after.folder).first}


def test_diff_names_a_changed_hyperparameter(smoke: Workflow, smoke_copy: Workflow) -> None:
    assert first(smoke, smoke_copy) == {}
    configfile = smoke_copy.folder / "config/smoke.yaml"
    configfile.write_text(
        configfile.read_text().replace("updates: 40", "updates: 40\n  learning_rate: 0.01")
    )
    (smoke_copy.folder / f"{POLARITY}.parquet").unlink()
    smoke_copy.done("--", f"{POLARITY}.parquet")
    result = first(smoke, smoke_copy)
    assert result == {"optimize/mickus2024/polarity/seed0": "spec: learning_rate 0.001 → 0.01"}
    shown = audit(smoke_copy, "diff", str(smoke.folder), ".")
    assert shown.returncode == 1
    assert "learning_rate 0.001 → 0.01" in shown.stdout
    assert audit(smoke_copy, "diff", ".", "elsewhere").returncode == 2


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
    targets = [f"results/{name}" for name in ("figures/mickus2024/figure3.png", "claims.csv")]
    broken = audit(smoke_copy, "rerun", *targets)
    assert broken.returncode == 2
    assert "has changed" in broken.stdout
