"""What `snakemake --profile slurm` would submit for each rule that can use a GPU: partition, GPU,
memory, time.

Resources are those of a real dry run with the profile; the lines are made by the executor's own
functions. An edit of rules or profile cannot drop a GPU unseen.
"""

from __future__ import annotations

import logging
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from snakemake.resources import GroupResources, Resources
from snakemake_executor_plugin_slurm.partitions import get_best_partition, read_partition_file
from snakemake_executor_plugin_slurm.submit_string import get_submit_command
from snakemake_executor_plugin_slurm.utils import set_gres_string

from isotropy.config import load_study, read_configuration
from isotropy.costs import CostModel, read_rates
from isotropy.plan import Plan
from tests.conftest import Workflow

ON_GPU = {
    "embed_sentences",
    "embed_tokens",
    "embed_shard",
    "optimize_embeddings",
    "finetune_model",
    "classify_frozen",
}
ON_CPU = {
    "prepare_sentences",
    "prepare_words",
    "prepare_corpus",
    "embed_words",
    "measure_stability",
    "measure_layer",
}
ON_CPU |= {"measure_vectors", "measure_similarity", "tune_similarity"}
LOCAL = {
    "all",
    "figures",
    "tables",
    "fetch_source",
    "make_table",
    "draw_figure",
    "evaluate_claims",
    "write_page",
}


def dry_run(workflow: Workflow, *overlays: str) -> list[dict[str, Any]]:
    """What each job of a dry run says of itself: rule, record, threads, resources."""
    command = [
        sys.executable,
        "-m",
        "snakemake",
        "--profile",
        "slurm",
        "--dry-run",
        "--configfile",
        *overlays,
    ]
    shown = subprocess.run(
        command, cwd=workflow.folder, capture_output=True, text=True, timeout=1200
    )
    assert shown.returncode == 0, shown.stdout + shown.stderr
    found = []
    # Jobs of a group stand further in
    for block in re.split(r"\n(?= *(?:local)?rule \w+:)", shown.stdout + shown.stderr):
        if not (head := re.match(r" *(?:local)?rule (\w+):", block)):
            continue
        own = re.search(r"^ +resources: (.*)$", block, re.M)
        values = (
            dict(part.split("=", 1) for part in own[1].split(", ") if "=" in part) if own else {}
        )
        threads = re.search(r"^ +threads: (\d+)$", block, re.M)
        record = re.search(r"^ +output: .*?results/(\S+)\.record\.json", block, re.M)
        found.append(
            {
                "rule": head[1],
                "stem": record[1] if record else None,
                "threads": int(threads[1]) if threads else 1,
                "resources": {k: int(v) if v.isdigit() else v for k, v in values.items()},
            }
        )
    return found


def planned(workflow: Workflow, *overlays: str) -> dict[str, dict[str, Any]]:
    """Resources and threads of one job of each rule, from a dry run."""
    return {job["rule"]: job for job in dry_run(workflow, *overlays)}


def together(project: Path, about: dict[str, Any], n: int) -> dict[str, Any]:
    """What a group of n such jobs asks for, with the resources of the profile."""
    profile = yaml.safe_load((project / "profiles/slurm/config.yaml").read_text())
    limits = Resources.parse(profile["resources"], allow_expressions=False)
    job: Any = SimpleNamespace(
        resources={"_cores": about["threads"]} | about["resources"], pipe_group=None
    )
    asked = GroupResources.basic_layered([[job] * n], limits, run_local=False)
    return {
        "threads": asked["_cores"],
        "resources": {name: asked[name] for name in about["resources"] if name in asked},
    }


def submission(project: Path, rule: str, about: dict[str, Any]) -> str:
    """The line that the executor would call."""

    class Resources(dict[str, Any]):
        __getattr__ = dict.__getitem__

    job: Any = SimpleNamespace(
        name=rule,
        threads=about["threads"],
        resources=Resources(about["resources"]),
        is_group=lambda: False,
    )
    partitions = read_partition_file(project / "profiles/slurm/partitions.yaml")
    logger = logging.getLogger("test")
    partition = get_best_partition(partitions, job, logger)  # type: ignore[arg-type]
    run = {"run_uuid": "u", "slurm_logfile": "l", "comment_str": "c", "account": "", "workdir": "w"}
    line: str = get_submit_command(job, run | {"partition": f"-p '{partition}'"}) + set_gres_string(
        job
    )
    return line


def test_every_gpu_rule_asks_for_its_gpu(checkout: Workflow, project: Path) -> None:
    (checkout.folder / "cuda.yaml").write_text("compute: {device: cuda}\n")
    (checkout.folder / "shards.yaml").write_text("compute: {shards: 2}\n")
    one = planned(checkout, "config/smoke.yaml", "cuda.yaml")
    several = planned(checkout, "config/smoke.yaml", "cuda.yaml", "shards.yaml")
    assert {
        rule for rule, about in (several | one).items() if about["resources"].get("gpu")
    } == ON_GPU
    for rule in ON_GPU:
        line = submission(project, rule, (several | one)[rule])
        assert "-p 'gpu'" in line, line
        assert line.endswith("--gpus=1"), line
        assert re.search(r" --mem [1-9]\d{3,} ", line), line
        assert re.search(r" -t [1-9]\d+ ", line), line
        assert "--cpus-per-task=" in line, line
    seeds = submission(
        project, "optimize_embeddings", together(project, one["optimize_embeddings"], 10)
    )
    assert "-p 'gpu'" in seeds
    assert seeds.endswith("--gpus=1"), seeds
    memory = one["optimize_embeddings"]["resources"]["mem_mb"]
    # Ten times the time of one, and no more of the rest
    assert f" -t 300 --mem {memory} --cpus-per-task=1 " in seeds, seeds
    one["finetune_model"]["resources"]["gpu_model"] = "h200"
    assert submission(project, "finetune_model", one["finetune_model"]).endswith("--gpus=h200:1")
    merge = submission(project, "embed_tokens", several["embed_tokens"])
    assert "-p 'cpu'" in merge  # it only puts shares together
    assert "--gpus" not in merge


def test_without_gpus_everything_goes_to_cpus(checkout: Workflow, project: Path) -> None:
    local = re.search(r"^localrules:\n((?:    \w+,\n)+)", (project / "Snakefile").read_text(), re.M)
    assert local is not None
    assert set(re.findall(r"\w+", local[1])) == LOCAL
    limits = read_partition_file(project / "profiles/slurm/partitions.yaml")
    most = min(int(partition.limits.max_runtime) for partition in limits)
    jobs = planned(checkout, "config/smoke.yaml")
    assert set(jobs) == LOCAL - {"figures", "tables"} | ON_GPU - {"embed_shard"} | ON_CPU
    for rule in set(jobs) - LOCAL:
        line = submission(project, rule, jobs[rule])
        assert "-p 'cpu'" in line, line
        assert "--gpus" not in line, line
        # Time doubles with each of three attempts: what no partition gives would be waited for for
        # ever.
        assert 4 * jobs[rule]["resources"]["runtime"] <= most, rule
    assert 4 * together(project, jobs["optimize_embeddings"], 10)["resources"]["runtime"] <= most


@pytest.mark.parametrize("study", ["paper", "mirror"])
def test_no_job_is_planned_above_what_it_asks_for(
    checkout: Workflow, study: str, request: pytest.FixtureRequest
) -> None:
    """`isotropy plan` does not foresee that a job runs out of the memory or time of its first
    attempt."""
    overlay: dict[str, Any] = {"rudman2024": {"seeds": [0], "strengths": [1]}}
    if study == "mirror":
        overlay["sources"] = {"mirror": str(request.getfixturevalue("mirror"))}
    # Seeds and strengths cost the same
    (checkout.folder / "fewer.yaml").write_text(yaml.safe_dump(overlay))
    overlays = [f"config/{study}.yaml", "fewer.yaml"]
    files = [checkout.folder / name for name in ("config.yaml", *overlays)]
    plan = Plan(
        load_study(read_configuration(files, {}), checkout.folder), checkout.folder, checkout.folder
    )
    estimate = CostModel(plan, read_rates(checkout.folder / "config/rates.yaml"))
    compared = set()
    for job in dry_run(checkout, *overlays):
        if job["rule"] not in LOCAL:
            cost = estimate.of(job["stem"])
            assert cost.memory / 1e6 <= job["resources"]["mem_mb"], job["stem"]
            assert cost.seconds / 60 <= job["resources"]["runtime"], job["stem"]
            compared.add(job["rule"])
    assert compared >= (ON_GPU | ON_CPU) - {"embed_shard", "tune_similarity"}
