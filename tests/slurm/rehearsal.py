"""Rehearse the full-scale study on SLURM, on nodes that declare GPUs.

python -m tests.slurm.rehearsal [--jobs N]

Each measurement with each architecture, and of fine-tuning each task with each architecture and
method. The same jobs run without SLURM first, below `.rehearsal/study`, where `make
rehearsal` has not made them already. Then SLURM runs them below `.rehearsal/slurm`: jobs of rules
that can use a GPU ask for one, get a declared one, and compute on the processor. It counts what
SLURM says of its jobs, and lists results with other bytes, and what the audit finds.
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
from tests.rehearsal.run import FOLDER, OVERLAYS, STUDY, snakemake
from tests.rehearsal.serve import served
from tests.slurm.cluster import Cluster, obstacle, running
from tests.slurm.settings import SHORT_WAITS

ON_SLURM = FOLDER / "slurm"
WITH_GPU = (
    *("embed_sentences", "embed_tokens", "finetune_model"),
    *("optimize_embeddings", "classify_frozen"),
)
"""Rules whose jobs ask for a GPU where `compute.device` is cuda."""


def main(jobs: int) -> int:
    """Exit code 1: a job failed, results differ, or the audit has a finding."""
    if why := obstacle():
        sys.exit(f"no SLURM: {why}")
    make(FOLDER, None)
    stems = covering_jobs(Workflow(PROJECT, OVERLAYS).plan(), combinations_of)
    targets = ["--", *(f"results/{stem}.record.json" for stem in stems)]
    for folder in (STUDY, ON_SLURM):
        folder.mkdir(exist_ok=True)
    with served(FOLDER) as address:
        hub = {"HF_ENDPOINT": address, "HF_HOME": str(FOLDER / "cache")}
        _run([*snakemake("all"), *targets], {**os.environ, **hub})
        shutil.rmtree(ON_SLURM / "results", ignore_errors=True)
        with running() as cluster:
            _run(_there(jobs, *targets), {**cluster.environment(), **hub})
            seen = _seen(cluster)
    here, there = digests(STUDY), digests(ON_SLURM)
    other = [name for name in sorted(there) if here.get(name) != there[name]]
    found = verify_all(ON_SLURM)
    bad = [f"{f.path}: {f.state}" for f in found if f.state not in GOOD]
    print("\n".join(f"{n} {what}" for what, n in sorted(seen.items())))
    print(f"{len(stems)} results asked for; {len(there)} files, {len(other)} with other bytes than")
    print(f"without SLURM; {len(found)} files audited, {len(bad)} with a finding", *other, *bad)
    return 1 if other or bad else 0


def _there(jobs: int, *targets: str) -> list[str]:
    """The command that sends them to SLURM."""
    gpus = [f"{rule}:gpu=1" for rule in WITH_GPU]
    command = [sys.executable, "-m", "snakemake", "--profile", "slurm", "--jobs", str(jobs)]
    command += ["--directory", str(ON_SLURM), "--quiet", "rules", "--set-resources", *gpus]
    command += ["--default-resources", "slurm_account=test", "disk_mb=1000", "mem_mb=1000"]
    return [*command, "runtime=30", *SHORT_WAITS, "--configfile", *OVERLAYS, *targets]


def _run(command: list[str], environment: dict[str, str]) -> None:
    done = subprocess.run(command, cwd=PROJECT, env=environment)
    if done.returncode:
        sys.exit(f"it ended with {done.returncode}: {' '.join(command[2:8])} ...")


def _seen(cluster: Cluster) -> Counter[str]:
    """Jobs by what SLURM says of them."""
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
