"""What `snakemake --profile slurm` would submit: partition, GPU, memory and time of each rule.

Resources come from a real dry run with the profile, and submit commands from the executor's own
functions, so that edits of rules or profile cannot drop a GPU unnoticed.
"""

from __future__ import annotations

import logging
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import yaml
from snakemake.resources import GroupResources, Resources
from snakemake_executor_plugin_slurm.partitions import get_best_partition, read_partition_file
from snakemake_executor_plugin_slurm.submit_string import get_submit_command
from snakemake_executor_plugin_slurm.utils import set_gres_string

from replication.papers.registry import KEYS
from tests.conftest import Planned
from tests.workflow.conftest import PlannedJobs

ON_GPU = {"embed_sentences", "embed_tokens", "embed_shard", "optimize_embeddings"}
ON_GPU |= {"finetune_model", "classify_frozen"}
ON_CPU = {"prepare_sentences", "prepare_words", "prepare_corpus", "embed_words"}
ON_CPU |= {f"measure_{what}" for what in ("contexts", "layer", "similarity", "stability")}
ON_CPU |= {"measure_static_words", "measure_vectors", "tune_similarity"}
TARGETS = {"all", "figures", "tables"}
LOCAL = {
    *("fetch_source", "evaluate_claims", "make_scorecard", "summarize_run", "write_pages"),
    *(f"make_tables_{key}" for key in KEYS),
    *(f"draw_figures_{key}" for key in KEYS),
}


def one_job_per_rule(jobs: list[Planned]) -> dict[str, Planned]:
    return {job.rule: job for job in jobs}


def group_of_jobs(project: Path, planned: Planned, n: int) -> Planned:
    """Return the resources that a group of n such jobs requests with the profile."""
    profile = yaml.safe_load((project / "profiles/slurm/config.yaml").read_text())
    limits = Resources.parse(profile["resources"], allow_expressions=False)
    requested = {"_cores": planned.threads} | planned.resources
    job: Any = SimpleNamespace(resources=requested, pipe_group=None)
    group = GroupResources.basic_layered([[job] * n], limits, run_local=False)
    resources = {name: group[name] for name in planned.resources if name in group}
    return planned._replace(threads=group["_cores"], resources=resources)


def submission(project: Path, planned: Planned) -> str:
    """Return the sbatch command that the executor would run for a job."""

    class Resources(dict[str, Any]):
        __getattr__ = dict.__getitem__

    job: Any = SimpleNamespace(
        name=planned.rule,
        threads=planned.threads,
        resources=Resources(planned.resources),
        is_group=lambda: False,
    )
    partitions = read_partition_file(project / "profiles/slurm/partitions.yaml")
    logger = logging.getLogger("test")
    partition = get_best_partition(partitions, job, logger)  # type: ignore[arg-type]
    run = {"run_uuid": "u", "slurm_logfile": "l", "comment_str": "c", "account": "", "workdir": "w"}
    line: str = get_submit_command(job, run | {"partition": f"-p '{partition}'"})
    return line + str(set_gres_string(job))


def test_every_gpu_rule_requests_a_gpu(fresh: PlannedJobs, project: Path) -> None:
    single, sharded = one_job_per_rule(fresh("cuda")), one_job_per_rule(fresh("shards"))
    jobs = sharded | single
    assert {rule for rule, job in jobs.items() if job.resources.get("gpu")} == ON_GPU
    for rule in ON_GPU:
        line = submission(project, jobs[rule])
        assert "-p 'gpu'" in line, line
        assert line.endswith("--gpus=1"), line
        assert re.search(r" --mem [1-9]\d{3,} ", line), line
        assert re.search(r" -t [1-9]\d+ ", line), line
        assert "--cpus-per-task=" in line, line
    seeds = submission(project, group_of_jobs(project, single["optimize_embeddings"], 10))
    assert "-p 'gpu'" in seeds
    assert seeds.endswith("--gpus=1"), seeds
    memory = single["optimize_embeddings"].resources["mem_mb"]
    # Ten times the time of one job, with its memory and CPUs
    assert f" -t 300 --mem {memory} --cpus-per-task=1 " in seeds, seeds
    single["finetune_model"].resources["gpu_model"] = "h200"
    assert submission(project, single["finetune_model"]).endswith("--gpus=h200:1")
    merge = submission(project, sharded["embed_tokens"])
    assert "-p 'cpu'" in merge  # it only merges the shards
    assert "--gpus" not in merge


def test_without_gpus_all_jobs_go_to_the_cpu_partition(fresh: PlannedJobs, project: Path) -> None:
    snakefile = (project / "Snakefile").read_text()
    (listed,) = re.findall(r"^localrules:\n((?:    \w+,\n)+)", snakefile, re.M)
    local = set(re.findall(r"\w+", listed))
    for file in (project / "rules").glob("*.smk"):
        for rule in re.split(r"^(?= *rule\b)", file.read_text(), flags=re.M):
            name = re.search(r'rule (\w+):|name:\s+f"(\w+_){paper}"', rule)
            if name and "localrule: True" in rule:
                local |= {name[1]} if name[1] else {f"{name[2]}{key}" for key in KEYS}
    assert local == LOCAL | TARGETS
    limits = read_partition_file(project / "profiles/slurm/partitions.yaml")
    max_runtime = min(int(partition.limits.max_runtime) for partition in limits)
    jobs = one_job_per_rule(fresh("smoke"))
    assert set(jobs) == LOCAL | ON_GPU - {"embed_shard"} | ON_CPU
    for rule in set(jobs) - LOCAL:
        line = submission(project, jobs[rule])
        assert "-p 'cpu'" in line, line
        assert "--gpus" not in line, line
        # Requested time doubles with each of three attempts; a job beyond the partition's limit
        # would wait forever.
        assert 4 * jobs[rule].resources["runtime"] <= max_runtime, rule
    seeds = group_of_jobs(project, jobs["optimize_embeddings"], 10)
    assert 4 * seeds.resources["runtime"] <= max_runtime
