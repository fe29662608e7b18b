"""A small real SLURM on this machine, without systemd: two nodes with declared GPUs, one with CPUs
only, and accounting.

Several slurmd run side by side, each a node of its own. A declared GPU is a copy of /dev/null:
SLURM hands it out and sets CUDA_VISIBLE_DEVICES as it would for a real one. Nodes claim more memory
than there is, so that the rules' requests fit.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from filelock import FileLock

from tests.slurm import settings
from tests.slurm.settings import Node

NODES = {"cpu1": 0, "gpu1": 2, "gpu2": 2}  # name -> number of GPUs
ETC = Path("/etc/slurm")
FILES = ("slurm.conf", "gres.conf", "cgroup.conf")
CGROUPS = Path("/sys/fs/cgroup")
PROGRAMS = ("munged", "mariadbd", "slurmdbd", "slurmctld", "slurmd", "sbatch", "sacct")
PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"
MARK = ".isotropy-tests"


def reason_unavailable() -> str:
    """Return why no SLURM can be started here; an empty string if one can."""
    if os.geteuid() != 0:
        return "not root: SLURM's daemons cannot be started"
    if absent := [name for name in PROGRAMS if shutil.which(name, path=PATH) is None]:
        return f"not installed: {', '.join(absent)}; see tests/slurm/install.sh"
    if "SLURM_CONF" in os.environ:
        return "SLURM_CONF is set: this machine has a SLURM of its own"
    for file in (ETC / name for name in FILES):
        if file.exists() and not (
            file.is_symlink() and (file.resolve().parents[1] / MARK).exists()
        ):
            return f"{file} is there: this machine has a SLURM of its own"
    return ""


def wait_until(ready: Callable[[], bool], trouble: str, seconds: float = 300) -> None:
    """Wait until `ready` returns true; raise TimeoutError(trouble) after some seconds. A SLURM
    command that fails in `ready`, because a daemon is busy, counts as not ready."""
    deadline, last_error = time.monotonic() + seconds, None
    while True:
        try:
            if ready():
                return
        except subprocess.SubprocessError as error:
            last_error = error
        if time.monotonic() > deadline:
            raise TimeoutError(trouble) from last_error
        time.sleep(0.2)


@dataclass
class Cluster:
    """A SLURM in its own folder. Its daemons are child processes of this one: `stop` ends only
    these."""

    folder: Path
    daemons: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self) -> None:
        spools = (f"spool/{node}" for node in NODES)
        for name in ("run", "log", "state", "dev", "munge", "db", "etc", *spools):
            (self.folder / name).mkdir(parents=True)
        self.folder.chmod(0o755)
        (self.folder / MARK).touch()
        self._configure(*_free_ports(2 + len(NODES)))
        self._munge()
        self._accounting()
        self.start_controller()
        for node in NODES:
            self.start_node(node)
        idle = {f"{node} idle" for node in NODES}  # a node of two partitions is listed twice
        wait_until(
            lambda: set(self.ask("sinfo", "-h", "-N", "-o", "%N %T").splitlines()) == idle,
            "nodes are not idle",
        )

    def stop(self) -> None:
        with contextlib.suppress(subprocess.SubprocessError, TimeoutError):
            self.ask("scancel", "--user", "root")
            wait_until(lambda: not self.ask("squeue", "-h"), "jobs do not end", 20)
        for name in reversed(list(self.daemons)):
            self.end(name)
        for name in FILES:
            link = ETC / name
            if link.is_symlink() and link.resolve().is_relative_to(self.folder.resolve()):
                link.unlink()
        for node in NODES:
            for cgroup in CGROUPS.glob(f"*/slurm_{node}"):
                inside = (path for path in cgroup.rglob("*") if path.is_dir())
                for inner in [*sorted(inside, reverse=True), cgroup]:
                    with contextlib.suppress(OSError):  # a process that takes its time to end
                        inner.rmdir()

    def ask(self, *command: str) -> str:
        """Run a SLURM command and return its output."""
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=300, env=self.environment()
        )
        if done.returncode != 0:
            raise subprocess.SubprocessError(f"{command}: {done.returncode}: {done.stderr}")
        return done.stdout

    def describe(self) -> str:
        """Describe jobs and nodes, with the ends of SLURM's logs, for reports of failed tests."""
        found = []
        jobs = "JobID,Comment%40,State%20,ExitCode,NodeList,Submit,Start,End"
        for command in (
            ["sacct", "-X", "--format", jobs],
            ["squeue", "-t", "all"],
            ["sinfo", "-N", "-l"],
        ):
            with contextlib.suppress(subprocess.SubprocessError):
                found.append(self.ask(*command))
        for log in sorted((self.folder / "log").iterdir()):
            found += [f"{log.name}:", *log.read_text(errors="replace").splitlines()[-60:]]
        return "\n".join(found)

    def states(self, comment: str) -> list[dict[str, str]]:
        """Return the accounting fields of all jobs whose comment contains a text, oldest first. The
        executor writes the rule into the comment."""
        fields = ("JobID", "Comment", "State", "Partition", "ReqMem", "AllocTRES")
        options = ("-X", "-n", "-P", "--starttime", "now-1day", "--format", ",".join(fields))
        lines = self.ask("sacct", *options).splitlines()
        jobs = [dict(zip(fields, line.split("|"), strict=True)) for line in lines]
        lines = self.ask("squeue", "-h", "-t", "all", "-o", "%i|%k").splitlines()
        queued = dict(line.split("|", 1) for line in lines)
        for job in jobs:  # accounting gets the comment only some time after the job has ended
            job["Comment"] = job["Comment"] or queued.get(job["JobID"], "")
        found = (job for job in jobs if comment in job["Comment"])
        return sorted(found, key=lambda job: int(job["JobID"]))

    def wait_until_running(self, comment: str, n: int = 1) -> None:
        """Wait until accounting has n jobs whose comment contains a text, and all are running."""
        wait_until(
            lambda: [job["State"] for job in self.states(comment)] == ["RUNNING"] * n,
            f"{comment}: accounting does not have {n} running",
        )

    def wait_until_gone(self, job: str) -> None:
        """Wait until a job that has ended is no longer in the queue."""
        wait_until(
            lambda: job not in self.ask("squeue", "-h", "-o", "%i").split(),
            f"{job} has ended, but is still in the queue",
        )

    def environment(self) -> dict[str, str]:
        return {**os.environ, "PATH": PATH, "SLURM_CONF": str(self.folder / "etc/slurm.conf")}

    def start_controller(self) -> None:
        self._run("slurmctld", "slurmctld", "-D")
        wait_until(lambda: bool(self.ask("sinfo")), "slurmctld does not start")

    def start_node(self, node: str) -> None:
        self._run(f"slurmd {node}", "slurmd", "-D", "-N", node)

    def end(self, name: str) -> None:
        """End a daemon; kill it after a minute. (The controller waits half a minute for its threads
        before it saves the jobs.)"""
        daemon = self.daemons.pop(name)
        daemon.terminate()
        try:
            daemon.wait(60)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()

    def _run(self, name: str, *command: str, env: dict[str, str] | None = None) -> None:
        with (self.folder / "log" / f"{name}.out").open("ab") as out:
            self.daemons[name] = subprocess.Popen(
                command,
                env=self.environment() | (env or {}),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )

    def _munge(self) -> None:
        folder, socket_file = self.folder / "munge", self.folder / "run/munge.socket"
        folder.chmod(0o700)
        key = folder / "key-file"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        options = ("key-file", "pid-file", "log-file", "seed-file")
        files = [f"--{option}={folder / option}" for option in options]
        self._run("munged", "munged", "--foreground", "--force", f"--socket={socket_file}", *files)
        wait_until(socket_file.exists, "munged does not start")

    def _accounting(self) -> None:
        database, socket_file = self.folder / "db", self.folder / "run/mariadb.socket"
        options = ["--no-defaults", "--user=root", f"--datadir={database}", "--skip-test-db"]
        self.ask("mariadb-install-db", *options, "--auth-root-authentication-method=socket")
        flags = "--skip-networking --innodb-buffer-pool-size=64M --innodb-flush-log-at-trx-commit=0"
        paths = (
            f"--datadir={database}",
            f"--socket={socket_file}",
            f"--pid-file={self.folder / 'run/mariadb.pid'}",
        )
        self._run("mariadbd", "mariadbd", "--no-defaults", "--user=root", *paths, *flags.split())
        client = ["mariadb", "--no-defaults", f"--socket={socket_file}", "--execute"]
        wait_until(lambda: bool(self.ask(*client, "select 1")), "mariadbd does not start")
        self.ask(*client, "create database slurm_acct_db")
        self._run("slurmdbd", "slurmdbd", "-D", env={"MYSQL_UNIX_PORT": str(socket_file)})
        wait_until(
            lambda: self.ask("sacctmgr", "-n", "list", "cluster") is not None,
            "slurmdbd does not start",
        )
        for entity in (
            "cluster local",
            "account test Cluster=local",
            "user root Account=test DefaultAccount=test",
        ):
            self.ask("sacctmgr", "-i", "add", *entity.split())

    def _configure(self, controller: int, accounting: int, *ports: int) -> None:
        """Write the daemons' configuration files, and link them into SLURM's default folder: inside
        a job no variable names them."""
        etc = self.folder / "etc"
        with_cgroups = (CGROUPS / "memory").is_dir() and (CGROUPS / "freezer").is_dir()
        for n in range(max(NODES.values())):
            os.mknod(self.folder / f"dev/nvidia{n}", 0o20666, os.makedev(1, 3))
        nodes = [
            Node(name, gpus, port) for (name, gpus), port in zip(NODES.items(), ports, strict=True)
        ]
        lines = settings.daemons(self.folder, controller) + settings.limits(with_cgroups)
        lines += [*settings.FAST, *settings.accounts(self.folder, accounting)]
        lines += [*(node.line() for node in nodes), *settings.PARTITIONS]
        _write(etc / "slurm.conf", lines)
        _write(etc / "gres.conf", [n.gpu_line(self.folder) for n in nodes if n.gpus])
        _write(etc / "cgroup.conf", settings.cgroups(CGROUPS) if with_cgroups else [])
        _write(etc / "slurmdbd.conf", settings.database(self.folder, accounting))
        ETC.mkdir(exist_ok=True)
        for name in FILES:
            (ETC / name).unlink(missing_ok=True)
            (ETC / name).symlink_to(etc / name)


@contextlib.contextmanager
def running() -> Iterator[Cluster]:
    """Run a SLURM while the block runs; a lock allows one at a time on a machine."""
    cluster = Cluster(Path(tempfile.mkdtemp(prefix="isotropy-slurm-")))
    with FileLock(Path(tempfile.gettempdir()) / "isotropy-slurm.lock"):
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.stop()
            shutil.rmtree(cluster.folder, ignore_errors=True)


def _write(path: Path, lines: list[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines))
    path.chmod(0o600)  # slurmdbd refuses a file that others can read


def _free_ports(n: int) -> list[int]:
    """Find free ports below the range for outgoing connections, which could take a port before its
    daemon does."""
    free: list[int] = []
    for port in random.sample(range(20000, 32000), 200):
        with socket.socket() as candidate, contextlib.suppress(OSError):
            candidate.bind(("127.0.0.1", port))
            free.append(port)
    return free[:n]
