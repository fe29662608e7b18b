"""Rehearse the full-scale study on SLURM, on nodes that declare GPUs.

python -m tests.slurm.rehearsal [--jobs N]

It covers each measurement with each architecture, and fine-tuning on each task with each
architecture and method. The jobs first run without SLURM, below `.rehearsal/study`, unless `make
rehearsal` has made the results already. Then SLURM runs them below `.rehearsal/slurm`: jobs of
rules that can use a GPU request one, are given a declared one, and compute on the CPU. The script
counts SLURM's job states, and lists results that differ and findings of the audit.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections import Counter

from isotropy.provenance.audit import GOOD, verify_all
from tests.conftest import PROJECT, Workflow, digests
from tests.rehearsal.kinds import combinations_of, covering_jobs
from tests.rehearsal.make_hub import make
from tests.rehearsal.run import CONFIGFILES, FOLDER, STUDY, snakemake
from tests.rehearsal.serve import served
from tests.slurm.cluster import Cluster, reason_unavailable, running
from tests.slurm.settings import SHORT_WAITS

ON_SLURM = FOLDER / "slurm"
WITH_GPU = (
    *("embed_sentences", "embed_tokens", "finetune_model"),
    *("optimize_embeddings", "classify_frozen"),
)
"""Rules whose jobs ask for a GPU where `compute.device` is cuda."""


def main(jobs: int) -> int:
    """Run the rehearsal; return exit code 1 if results differ or the audit has a finding."""
    if reason := reason_unavailable():
        sys.exit(f"no SLURM: {reason}")
    make(FOLDER, None)
    stems = covering_jobs(Workflow(PROJECT, CONFIGFILES).plan(), combinations_of)
    targets = ["--", *(f"results/{stem}.record.json" for stem in stems)]
    for folder in (STUDY, ON_SLURM):
        folder.mkdir(exist_ok=True)
    with served(FOLDER) as address:
        hub = {"HF_ENDPOINT": address, "HF_HOME": str(FOLDER / "cache")}
        _run([*snakemake("all"), *targets], {**os.environ, **hub})
        shutil.rmtree(ON_SLURM / "results", ignore_errors=True)
        with running() as cluster:
            _run(_slurm_command(jobs, *targets), {**cluster.environment(), **hub})
            job_counts = _count_job_states(cluster)
    local_digests, slurm_digests = digests(STUDY), digests(ON_SLURM)
    differing = [
        name for name in sorted(slurm_digests) if local_digests.get(name) != slurm_digests[name]
    ]
    findings = verify_all(ON_SLURM)
    problems = [f"{f.path}: {f.state}" for f in findings if f.state not in GOOD]
    print("\n".join(f"{n} {state}" for state, n in sorted(job_counts.items())))
    print(f"{len(stems)} results asked for; {len(slurm_digests)} files,", end=" ")
    print(f"{len(differing)} differ from those without SLURM;")
    print(f"{len(findings)} files audited, {len(problems)} with a finding", *differing, *problems)
    return 1 if differing or problems else 0


def _slurm_command(jobs: int, *targets: str) -> list[str]:
    """Return the command that submits the targets to SLURM."""
    gpus = [f"{rule}:gpu=1" for rule in WITH_GPU]
    command = [sys.executable, "-m", "snakemake", "--profile", "slurm", "--jobs", str(jobs)]
    command += ["--directory", str(ON_SLURM), "--quiet", "rules", "--set-resources", *gpus]
    command += ["--default-resources", "slurm_account=test", "disk_mb=1000", "mem_mb=1000"]
    return [*command, "runtime=30", *SHORT_WAITS, "--configfile", *CONFIGFILES, *targets]


def _run(command: list[str], environment: dict[str, str]) -> None:
    done = subprocess.run(command, cwd=PROJECT, env=environment)
    if done.returncode:
        sys.exit(f"it ended with {done.returncode}: {' '.join(command[2:8])} ...")


def _count_job_states(cluster: Cluster) -> Counter[str]:
    """Count jobs by state, partition, GPU and rule."""
    return Counter(
        f"{job['State']} in partition {job['Partition']}, "
        f"{'a' if 'gres/gpu=1' in job['AllocTRES'] else 'no'} GPU given: "
        f"{job['Comment'].removeprefix('rule_').split('_wildcards_')[0].split('-')[0]}"
        for job in cluster.states("")
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=4, help="jobs in the queue at a time")
    sys.exit(main(parser.parse_args().jobs))
