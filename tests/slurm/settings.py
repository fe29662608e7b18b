"""Lines of the configuration files of the test SLURM in `cluster`, and Snakemake options for it."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import NamedTuple

CPUS, MEMORY_MB = 4, 64000

FAST = (
    # Short waits, for tests.
    "KillWait=2",
    "InactiveLimit=0",
    # Daemons may answer late on a busy machine.
    "SlurmdTimeout=60",
    "MessageTimeout=30",
    "BatchStartTimeout=120",
    "UnkillableStepTimeout=300",
    "SchedulerType=sched/backfill",
    "SchedulerParameters=bf_interval=2,sched_min_interval=100000,batch_sched_delay=1",
    "SelectType=select/cons_tres",
    "SelectTypeParameters=CR_CPU_Memory",
)

SHORT_WAITS = ("--slurm-init-seconds-before-status-checks", "2", "--latency-wait", "20")
"""Snakemake options for the test SLURM; a real cluster is given more time."""

PARTITIONS = (
    "PartitionName=cpu Nodes=cpu1 Default=YES MaxTime=2-00:00:00 OverTimeLimit=0",
    "PartitionName=gpu Nodes=gpu1,gpu2 MaxTime=2-00:00:00 OverTimeLimit=0",
)


class Node(NamedTuple):
    """Name, number of declared GPUs and port of a slurmd."""

    name: str
    gpus: int
    port: int

    def line(self) -> str:
        """Return the node's line of slurm.conf."""
        resources = f"CPUs={CPUS} RealMemory={MEMORY_MB}"
        resources += f" Gres=gpu:test:{self.gpus}" if self.gpus else ""
        address = f"NodeHostname={self.name} NodeAddr=127.0.0.1 Port={self.port}"
        return f"NodeName={self.name} {address} {resources}"

    def gpu_line(self, folder: Path) -> str:
        """Return the line of gres.conf with the node's GPUs."""
        files = f"{folder}/dev/nvidia[0-{self.gpus - 1}]"
        return f"NodeName={self.name} Name=gpu Type=test File={files}"


def munge_socket(folder: Path) -> Path:
    """Return the socket on which munged listens."""
    return folder / "run/munge.socket"


def daemons(folder: Path, controller: int) -> list[str]:
    """Return the lines of slurm.conf about daemons, authentication and files."""
    return [
        "ClusterName=local",
        f"SlurmctldHost={socket.gethostname().split('.')[0]}(127.0.0.1)",
        f"SlurmctldPort={controller}",
        "SlurmUser=root",
        "SlurmdUser=root",
        "AuthType=auth/munge",
        f"AuthInfo=socket={munge_socket(folder)}",
        "CredType=cred/munge",
        f"StateSaveLocation={folder}/state",
        f"SlurmdSpoolDir={folder}/spool/%n",
        f"SlurmctldPidFile={folder}/run/slurmctld.pid",
        f"SlurmdPidFile={folder}/run/slurmd.%n.pid",
        f"SlurmctldLogFile={folder}/log/slurmctld.log",
        f"SlurmdLogFile={folder}/log/slurmd.%n.log",
        "MailProg=/bin/true",
        "MpiDefault=none",
        "SwitchType=switch/none",
        "ReturnToService=2",
    ]


def limits(by_cgroups: bool) -> list[str]:
    """Return the lines of slurm.conf that limit memory: cgroups enforce the limit where they are
    available; otherwise SLURM polls, and a job that exceeds it ends as FAILED."""
    tracking = (
        ["ProctrackType=proctrack/cgroup", "TaskPlugin=task/cgroup"]
        if by_cgroups
        else ["ProctrackType=proctrack/pgid"]
    )
    return [
        *tracking,
        "JobAcctGatherType=jobacct_gather/linux",
        "JobAcctGatherFrequency=task=1",
        f"JobAcctGatherParams={'' if by_cgroups else 'OverMemoryKill,'}UsePss",
    ]


def accounts(folder: Path, port: int) -> list[str]:
    """Return the lines of slurm.conf about accounting through slurmdbd."""
    return [
        "AccountingStorageType=accounting_storage/slurmdbd",
        "AccountingStorageHost=127.0.0.1",
        f"AccountingStoragePort={port}",
        f"AccountingStoragePass={munge_socket(folder)}",
        "AccountingStorageTRES=gres/gpu,gres/gpu:test",
        "AccountingStoreFlags=job_comment",
        "SlurmdParameters=config_overrides",
        "GresTypes=gpu",
    ]


def cgroups(mounted: Path) -> list[str]:
    """Return the lines of cgroup.conf, for cgroups version 1."""
    return [
        "CgroupPlugin=cgroup/v1",
        f"CgroupMountpoint={mounted}",
        "CgroupAutomount=no",
        "ConstrainRAMSpace=yes",
    ]


def database(folder: Path, port: int) -> list[str]:
    """Return the lines of slurmdbd.conf."""
    return [
        "AuthType=auth/munge",
        f"AuthInfo=socket={munge_socket(folder)}",
        "DbdHost=localhost",
        "DbdAddr=127.0.0.1",
        f"DbdPort={port}",
        "SlurmUser=root",
        f"LogFile={folder}/log/slurmdbd.log",
        f"PidFile={folder}/run/slurmdbd.pid",
        "StorageType=accounting_storage/mysql",
        "StorageUser=root",
        "StorageHost=localhost",
        "StorageLoc=slurm_acct_db",
    ]
