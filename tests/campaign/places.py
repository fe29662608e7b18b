"""Hostile environments: in each, a small study must complete with intact results, or fail with an
error message of one line.

python -m tests.campaign.places [--n 1] [--seed 0]

Paths with quotes, spaces and a snowman in a POSIX locale; no home, a strict umask, no folder for
temporary files, a read-only checkout; disks of five sizes that fill up and are then enlarged; two
runs at once; no network. Disks are tmpfs mounts, which need root: without it they are reported as
left out.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.conftest import PROJECT, Workflow, copy_checkout
from tests.workflow.study import audit

TARGET = "results/prepare/polarity-part.texts.parquet"
MEGABYTES = (1, 4, 16, 30, 60)
"""Sizes of disks; the study needs about 40 MB."""
OFFLINE = {
    **dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), "http://127.0.0.1:9"),
    **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), "http://127.0.0.1:9"),
    **dict.fromkeys(("no_proxy", "NO_PROXY", "PIP_FIND_LINKS"), ""),
    "PIP_CONFIG_FILE": os.devnull,
}


class Missed(Exception):
    """A study failed in a way that it should not; the message says how."""


class LeftOut(Exception):
    """A place that cannot be set up on this machine; the message says why."""


def check_fails_without_traceback(workflow: Workflow, *says: str, **env: str) -> None:
    """Run; it must fail, print one of the texts `says`, and show no traceback."""
    result = workflow.run("--", TARGET, env=env)
    if result.returncode == 0:
        raise Missed("it did not fail")
    if "Traceback" in result.stdout or not any(text in result.stdout for text in says):
        raise Missed(f"it said {result.stdout[-1500:]}")


def check_completes(workflow: Workflow, **env: str) -> None:
    """Run; it must succeed, pass the audit, and leave nothing to do for a second run."""
    result = workflow.run("--", TARGET, env=env)
    if result.returncode != 0:
        raise Missed(f"it ended with {result.returncode}: {result.stdout[-1500:]}")
    verified = audit(workflow, "verify", "--all", "--project", str(PROJECT))
    if verified.returncode != 0:
        raise Missed(verified.stdout)
    if "Nothing to be done" not in workflow.run("--", TARGET, env=env).stdout:
        raise Missed("a finished study had something to do")


def a_strange_path(folder: Path) -> None:
    workflow = Workflow(copy_checkout(folder / 'it\'s "a" \u2603 & more; $HOME'))
    check_completes(workflow, LC_ALL="POSIX", LANG="POSIX")


def no_home(folder: Path) -> None:
    workflow = Workflow(copy_checkout(folder / "checkout"))
    command = ["env", "-u", "HOME", *workflow.command("--", TARGET)]
    done = subprocess.run(command, cwd=workflow.folder, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        raise Missed(done.stdout[-1500:] + done.stderr[-1500:])
    check_completes(workflow)


def a_strict_umask(folder: Path) -> None:
    before = os.umask(0o077)
    try:
        check_completes(Workflow(copy_checkout(folder / "checkout")))
    finally:
        os.umask(before)


def no_place_for_temporary_files(folder: Path) -> None:
    check_completes(Workflow(copy_checkout(folder / "checkout")), TMPDIR=str(folder / "nothing"))


def a_read_only_checkout(folder: Path) -> None:
    if os.geteuid() == 0:
        raise LeftOut("root writes to what is read-only")
    checkout, run = copy_checkout(folder / "checkout"), folder / "run"
    run.mkdir()
    subprocess.run(["chmod", "-R", "a-w", str(checkout)], check=True)
    try:
        workflow = Workflow(run, [str(checkout / "config/smoke.yaml")])
        snakefile = ("--snakefile", str(checkout / "Snakefile"))
        result = workflow.run(*snakefile, "--", TARGET)
        verified = audit(workflow, "verify", "--all", "--project", str(checkout))
        if result.returncode != 0 or verified.returncode != 0:
            raise Missed(result.stdout[-1500:] + verified.stdout)
    finally:
        subprocess.run(["chmod", "-R", "u+w", str(checkout)], check=True)


def two_runs_at_once(folder: Path) -> None:
    workflow = Workflow(copy_checkout(folder / "checkout"))
    both = [
        subprocess.Popen(
            workflow.command("--", TARGET),
            cwd=workflow.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for _ in range(2)
    ]
    outputs = [process.communicate(timeout=600)[0] for process in both]
    failed = [text for process, text in zip(both, outputs, strict=True) if process.returncode]
    if len(failed) == 2 or any("locked" not in text.lower() for text in failed):
        raise Missed(str(failed)[-1500:])
    check_completes(workflow)


def no_network(folder: Path) -> None:
    workflow = Workflow(copy_checkout(folder / "checkout"))
    check_fails_without_traceback(
        workflow, "Check the network", "no origin could be used", **OFFLINE
    )
    check_completes(workflow)


def a_full_disk(megabytes: int) -> Callable[[Path], None]:
    def place(folder: Path) -> None:
        workflow, disk = Workflow(copy_checkout(folder / "checkout")), folder / "disk"
        disk.mkdir()
        size = ["-o", f"size={megabytes}m"]
        mount = ["mount", "-t", "tmpfs", *size, "tmpfs", str(disk)]
        try:
            subprocess.run(mount, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise LeftOut(f"no file system in memory: {error}") from error
        try:
            (workflow.folder / "results").mkdir(exist_ok=True)
            shutil.rmtree(workflow.folder / "results")
            (workflow.folder / "results").symlink_to(disk)
            result = workflow.run("--", TARGET)
            if result.returncode != 0:
                expected_messages = ("No space left", "could be used", "Errno 28")
                explained = any(text in result.stdout for text in expected_messages)
                if "Traceback" in result.stdout or not explained:
                    raise Missed(result.stdout[-1500:])
                enlarge = ["mount", "-o", "remount,size=400m", str(disk)]
                subprocess.run(enlarge, check=True, capture_output=True)
                workflow.run("--unlock")
            check_completes(workflow)
        finally:
            subprocess.run(["umount", str(disk)], check=False, capture_output=True)

    place.__name__ = f"a_disk_of_{megabytes}_MB"
    return place


PLACES: list[Callable[[Path], None]] = [
    a_strange_path,
    no_home,
    a_strict_umask,
    no_place_for_temporary_files,
    a_read_only_checkout,
    two_runs_at_once,
    no_network,
    *map(a_full_disk, MEGABYTES),
]


def campaign(n: int, seed: int) -> tuple[int, list[str]]:
    """Run in each place `n` times, in random order; return the number of runs, and failures."""
    missed = []
    schedule = PLACES * n
    random.Random(seed).shuffle(schedule)
    for place in schedule:
        began = time.monotonic()
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            try:
                place(Path(folder).resolve())
                outcome = "ok"
            except LeftOut as reason:
                outcome = f"left out: {reason}"
            except (Missed, subprocess.SubprocessError) as error:
                outcome = f"missed: {error}"
                missed.append(f"{place.__name__}: {error}")
        print(f"{place.__name__}: {outcome} ({time.monotonic() - began:.0f} s)", flush=True)
    return len(schedule), missed


def main() -> int:
    """Run a campaign; return exit code 1 if a check failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    n, missed = campaign(arguments.n, arguments.seed)
    print(f"{n} places: {len(missed)} missed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
