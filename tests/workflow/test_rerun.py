"""Which changes rerun jobs of the smoke study: swapped values, kept models, shards. For edited code
see test_code_identity.py."""

from __future__ import annotations

import json
import shutil
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from tests.conftest import Workflow, digests
from tests.workflow.conftest import PlannedJobs, configured
from tests.workflow.study import made_from, stems_made_by

# Numbers of jobs in the smoke study and the full-scale study, counted by hand.
TRAJECTORIES = {
    "smoke": 4 * 2 + 1 + 4 + (2 + 2) * 2,
    "paper": 6 * 5 + 24 * 5 + 4 * 4 * 5 + (2 + 4) * 3,
}
MODELS = {"smoke": 4 + 2, "paper": 3 * 9 * (5 * 7 + 2) * 5 + 2 * 2 * 5}
FIGURES = 32


def test_swapping_two_configuration_values_reruns_their_jobs(smoke_copy: Workflow) -> None:
    """The same set of numbers under other names is another spec. GLUE setups have their own values
    and do not rerun."""
    configfile = smoke_copy.folder / "config/smoke.yaml"
    config = yaml.safe_load(configfile.read_text())
    paper = config["mickus2024"]
    updates, measure = paper["updates"], paper["measure"]
    paper |= {"updates": measure["sample_size"], "measure": {"sample_size": updates}}
    configfile.write_text(yaml.safe_dump(config))
    swapped = {
        stem
        for stem in stems_made_by(smoke_copy.folder, "optimize_embeddings")
        if not stem.startswith("optimize/mickus2024/polarity--all-MiniLM-L6-v2/")
    }
    assert len(swapped) == TRAJECTORIES["smoke"] - 1
    assert smoke_copy.planned().keys() == made_from(smoke_copy.folder, swapped)


def test_keeping_a_model_of_a_finished_study_reruns_its_job(smoke_copy: Workflow) -> None:
    """By the rule that keeps the model; what is made from its score runs again, too."""
    run = "polarity--all-MiniLM-L6-v2--istar_lambda1_zeta0_2"
    (smoke_copy.folder / "keep.yaml").write_text(f"rudman2024: {{keep_models: [{run}]}}\n")
    keep = Workflow(smoke_copy.folder, [*smoke_copy.configfiles, "keep.yaml"])
    planned = keep.planned()
    stems = {stem for stem in planned if stem.startswith(f"finetune/rudman2024/{run}/")}
    assert {planned[stem] for stem in stems} == {"finetune_and_keep_model"}
    assert planned.keys() == made_from(smoke_copy.folder, stems)


@pytest.mark.parametrize("study", ["smoke", "paper"])
def test_planned_jobs_are_as_counted_by_hand(project: Path, study: str) -> None:
    stems = Workflow(project, [f"config/{study}.yaml"]).plan().stems()
    assert len(set(stems)) == len(stems)
    stages = [stem.partition("/")[0] for stem in stems]
    assert stages.count("optimize") == TRAJECTORIES[study]
    assert stages.count("finetune") == MODELS[study]
    assert stages.count("figures") == FIGURES


@pytest.mark.parametrize("study", ["smoke", "few-seeds"])
def test_snakemake_makes_each_planned_result_once(
    fresh: PlannedJobs, tmp_path: Path, study: str
) -> None:
    """Also of the full-scale study, whose fine-tuned models have one seed here."""
    plan = configured(tmp_path / "checkout", study).plan()
    assert sorted(job.stem for job in fresh(study)) == sorted(plan.stems())


def test_shards_do_not_change_token_vectors(smoke_copy: Workflow) -> None:
    """Three jobs compute the token vectors of a corpus; another number of shards reruns nothing."""
    before = digests(smoke_copy.folder)
    folder = smoke_copy.folder / "results/embed/brown"
    shutil.rmtree(folder / "tokens")
    (smoke_copy.folder / "three.yaml").write_text("compute: {shards: 3}\n")
    three = Workflow(smoke_copy.folder, [*smoke_copy.configfiles, "three.yaml"])
    three.done("--", "results/embed/brown/tokens/all-MiniLM-L6-v2")
    assert digests(smoke_copy.folder) == before
    remaining_files = [path.name for path in (folder / "shards").rglob("*") if path.is_file()]
    # Records of the shards, for the audit
    assert sorted(remaining_files) == [f"{k}-of-3.record.json" for k in (1, 2, 3)]
    record = json.loads((folder / "tokens/all-MiniLM-L6-v2.record.json").read_text())
    assert record["measurements"]["shards"] == 3
    assert not [path for path in record["input_names"] if "shard" in path]
    planned = smoke_copy.planned()  # jobs whose results are older than the vectors
    assert stems_made_by(smoke_copy.folder, "measure_layer") <= planned.keys()
    assert not {"embed_tokens", "embed_shard"} & set(planned.values())
    module = smoke_copy.folder / "replication/embed/tokens.py"
    module.write_text(module.read_text() + "\nEDITED = True\n")
    planned = smoke_copy.planned()  # jobs follow the current configuration, without shards
    assert stems_made_by(smoke_copy.folder, "embed_tokens") <= planned.keys()
    assert "embed_shard" not in planned.values()


def test_jobs_fail_without_the_requested_gpu(smoke_copy: Workflow) -> None:
    """A one-line error per job, and no outputs."""
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    names = (
        "embed/polarity/all-MiniLM-L6-v2.safetensors",
        "embed/polarity-part/tokens/all-MiniLM-L6-v2",
        "similarity/rajaee2021/classification/polarity/all-MiniLM-L6-v2.json",
        "finetune/rudman2024/polarity--all-MiniLM-L6-v2--istar_lambda1_zeta0_2/seed0.json",
    )
    targets = [f"results/{name}" for name in names]
    result = smoke_copy.run("--config", "compute={device: cuda}", "--", *targets)
    assert result.returncode != 0
    error = "error: device: cuda"
    assert result.stdout.count(error) >= len(targets), result.stdout
    for target in targets:
        log = smoke_copy.folder / "results/logs" / Path(target).relative_to("results")
        assert error in log.with_suffix(".log").read_text(), target
        assert not (smoke_copy.folder / target).exists()


def test_configuration_errors_end_the_run_before_the_first_job(checkout: Workflow) -> None:
    """An unknown key: one error message without traceback."""
    mistake = {"mickus2024": {"updatse": 3}}
    (checkout.folder / "config/smoke.yaml").write_text(yaml.safe_dump(mistake))
    result = checkout.run("--dry-run")
    assert result.returncode != 0
    assert "did you mean 'updates'" in result.stdout, result.stdout
    assert "Traceback" not in result.stdout
    assert not (checkout.folder / "results").exists()


def test_jobs_take_turns_on_a_gpu(smoke_copy: Workflow) -> None:
    """With one GPU and `jobs_per_gpu: 1`, trajectories are computed one after another, whatever
    cores are free. The GPU is a file; the jobs compute on the CPU."""
    devices = smoke_copy.folder / "dev"
    devices.mkdir()
    (devices / "nvidia0").touch()
    module = smoke_copy.folder / "replication/resources.py"
    module.write_text(module.read_text().replace('Path("/dev")', f"Path({str(devices)!r})"))
    (smoke_copy.folder / "turns.yaml").write_text("compute: {jobs_per_gpu: 1}\n")
    stems = sorted(stems_made_by(smoke_copy.folder, "optimize_embeddings"))[:3]
    for stem in stems:
        (smoke_copy.folder / f"results/{stem}.parquet").unlink()
    turns = Workflow(smoke_copy.folder, [*smoke_copy.configfiles, "turns.yaml"])
    turns.done("--", *(f"results/{stem}.parquet" for stem in stems), cores=4)
    records = [
        json.loads((smoke_copy.folder / f"results/{stem}.record.json").read_text())
        for stem in stems
    ]
    times = sorted((record["started"], record["ended"]) for record in records)
    assert all(ended <= started for (_, ended), (started, _) in pairwise(times))
