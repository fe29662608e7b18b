"""What `snakemake --profile slurm` would submit for each rule that can use a GPU: partition, GPU,
memory, time.

Resources are those of a real dry run with the profile; the lines are made by the executor's own
functions. An edit of rules or profile cannot drop a GPU unseen.
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

from isotropy.papers.registry import KEYS
from isotropy.workflow.costs import CostModel, read_rates
from tests.conftest import Planned, Workflow, read_dry_run
from tests.workflow.conftest import Fresh

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
ON_CPU |= {"measure_contexts", "measure_static_words", "measure_vectors"}
ON_CPU |= {"measure_similarity", "tune_similarity"}
LOCAL = {
    "all",
    "figures",
    "tables",
    "fetch_source",
    *(f"make_tables_{key}" for key in KEYS),
    *(f"draw_figures_{key}" for key in (*KEYS, "claims")),
    "evaluate_claims",
    "make_scorecard",
    "summarize_run",
    "write_pages",
}


def by_rule(jobs: list[Planned]) -> dict[str, Planned]:
    """Resources and threads of one job of each rule."""
    return {job.rule: job for job in jobs}


def together(project: Path, about: Planned, n: int) -> Planned:
    """What a group of n such jobs asks for, with the resources of the profile."""
    profile = yaml.safe_load((project / "profiles/slurm/config.yaml").read_text())
    limits = Resources.parse(profile["resources"], allow_expressions=False)
    job: Any = SimpleNamespace(
        resources={"_cores": about.threads} | about.resources, pipe_group=None
    )
    asked = GroupResources.basic_layered([[job] * n], limits, run_local=False)
    resources = {name: asked[name] for name in about.resources if name in asked}
    return about._replace(threads=asked["_cores"], resources=resources)


def submission(project: Path, about: Planned) -> str:
    """The line that the executor would call."""

    class Resources(dict[str, Any]):
        __getattr__ = dict.__getitem__

    job: Any = SimpleNamespace(
        name=about.rule,
        threads=about.threads,
        resources=Resources(about.resources),
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


def test_every_gpu_rule_asks_for_its_gpu(fresh: Fresh, project: Path) -> None:
    one, several = by_rule(fresh("cuda")), by_rule(fresh("shards"))
    jobs = several | one
    assert {rule for rule, job in jobs.items() if job.resources.get("gpu")} == ON_GPU
    for rule in ON_GPU:
        line = submission(project, jobs[rule])
        assert "-p 'gpu'" in line, line
        assert line.endswith("--gpus=1"), line
        assert re.search(r" --mem [1-9]\d{3,} ", line), line
        assert re.search(r" -t [1-9]\d+ ", line), line
        assert "--cpus-per-task=" in line, line
    seeds = submission(project, together(project, one["optimize_embeddings"], 10))
    assert "-p 'gpu'" in seeds
    assert seeds.endswith("--gpus=1"), seeds
    memory = one["optimize_embeddings"].resources["mem_mb"]
    # Ten times the time of one, and no more of the rest
    assert f" -t 300 --mem {memory} --cpus-per-task=1 " in seeds, seeds
    one["finetune_model"].resources["gpu_model"] = "h200"
    assert submission(project, one["finetune_model"]).endswith("--gpus=h200:1")
    merge = submission(project, several["embed_tokens"])
    assert "-p 'cpu'" in merge  # it only puts shares together
    assert "--gpus" not in merge


def test_without_gpus_everything_goes_to_cpus(fresh: Fresh, project: Path) -> None:
    listed = re.search(
        r"^localrules:\n((?:    \w+,\n)+)", (project / "Snakefile").read_text(), re.M
    )
    assert listed
    local = set(re.findall(r"\w+", listed[1]))
    for file in (project / "rules").glob("*.smk"):
        for rule in re.split(r"^(?= *rule\b)", file.read_text(), flags=re.M):
            name = re.search(r'rule (\w+):|name:\s+f"(\w+_){paper}"', rule)
            if name and "localrule: True" in rule:
                papers = [*KEYS, *(["claims"] if "figures" in rule else [])]
                local |= {name[1]} if name[1] else {f"{name[2]}{key}" for key in papers}
    assert local == LOCAL
    limits = read_partition_file(project / "profiles/slurm/partitions.yaml")
    most = min(int(partition.limits.max_runtime) for partition in limits)
    jobs = by_rule(fresh("smoke"))
    assert set(jobs) == LOCAL - {"all", "figures", "tables"} | ON_GPU - {"embed_shard"} | ON_CPU
    for rule in set(jobs) - LOCAL:
        line = submission(project, jobs[rule])
        assert "-p 'cpu'" in line, line
        assert "--gpus" not in line, line
        # Time doubles with each of three attempts: what no partition gives would be waited for for
        # ever.
        assert 4 * jobs[rule].resources["runtime"] <= most, rule
    seeds = together(project, jobs["optimize_embeddings"], 10)
    assert 4 * seeds.resources["runtime"] <= most


def rules_within_estimate(workflow: Workflow, jobs: list[Planned]) -> set[str]:
    """Rules of the jobs that go to nodes, none of which is estimated above what it asks for."""
    costs = CostModel(workflow.plan(), read_rates(workflow.folder / "config/rates.yaml"))
    compared = set()
    for job in jobs:
        if job.rule not in LOCAL:
            cost = costs.cost(job.stem)
            assert cost.memory / 1e6 <= job.resources["mem_mb"], job.stem
            assert cost.seconds / 60 <= job.resources["runtime"], job.stem
            compared.add(job.rule)
    return compared


EVERY_RULE = (ON_GPU | ON_CPU) - {"embed_shard", "tune_similarity"}


def test_no_job_is_planned_above_what_it_asks_for(fresh: Fresh, project: Path) -> None:
    """`isotropy plan` does not foresee that a job runs out of the memory or time of its first
    attempt."""
    paper = Workflow(project, ["config/paper.yaml"])
    assert rules_within_estimate(paper, fresh("paper")) >= EVERY_RULE


def test_no_job_on_the_mirror_is_planned_above_what_it_asks_for(
    checkout: Workflow, mirror: Path
) -> None:
    # Seeds and strengths cost the same
    overlay = {"rudman2024": {"seeds": [0], "lambdas": [1]}, "sources": {"mirror": str(mirror)}}
    (checkout.folder / "fewer.yaml").write_text(yaml.safe_dump(overlay))
    checkout.overlays = ["config/mirror.yaml", "fewer.yaml"]
    jobs = read_dry_run(checkout.dry_run("--profile", "slurm"))
    assert rules_within_estimate(checkout, jobs) >= EVERY_RULE
