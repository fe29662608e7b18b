"""Jobs and their records, on small jobs."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import torch

from isotropy.errors import IsotropyError
from isotropy.files import atomic, read_json, write_json
from replication.job import Job, jobs
from replication.provenance.audit import verify
from replication.provenance.environment import packages
from replication.provenance.lineage import Lineage
from replication.provenance.record import read_record
from tests.unit.jobs import RULE, Named, NoteSpec, snakemake_object, states, write_note


def log(name: str) -> str:
    return Path(f"results/logs/{name}.log").read_text()


def test_record_describes_the_job(run: Path) -> None:
    record = read_json(run / "results/note.record.json")
    assert (record["spec"], record["exit"]) == ({"text": "hello"}, "completed")
    assert record["inputs"][0]["path"] == "results/source.txt"
    assert record["outputs"][0]["bytes"] == 5
    assert record["lineage"] == {
        "status": "stand-in",
        "reasons": ["not the paper's"],
        "sources": [{"id": "a"}],
    }
    code = record["code"]
    assert code["files"].keys() == code["sha256"].keys()
    assert f"scripts/prepare/{RULE}.py" in code["files"]
    assert "replication/job.py" in code["infrastructure"]
    assert not code["files"].keys() & code["infrastructure"].keys()
    assert record["environment"]["packages"]["numpy"]
    gpu = record["environment"]["gpu"]
    assert gpu.get("devices") or gpu["reason"]  # devices, or a reason why there are none


def test_outputs_can_be_read_by_those_whom_the_umask_permits(run: Path, project: Path) -> None:
    with Job(snakemake_object(project, "shared"), NoteSpec) as job, job.write("note") as path:
        path.touch(0o600)
    new = run / "new"
    new.touch()
    assert (run / "results/shared.txt").stat().st_mode == new.stat().st_mode


def test_job_with_several_results_writes_a_record_each(run: Path, project: Path) -> None:
    """A result can be an input of another one; CPU time is divided among results."""
    results = [
        {"stem": "first", "spec": {"text": "one"}, "inputs": {"note": ["results/note.txt"]}},
        {"stem": "second", "spec": {"text": "two"}, "inputs": {"first": ["results/first.txt"]}},
    ]
    given = snakemake_object(project, "both")
    given.params.spec = json.dumps(results)
    given.output = Named(
        [
            ("note", ["results/first.txt", "results/second.txt"]),
            ("record", ["results/first.record.json", "results/second.record.json"]),
        ]
    )
    for job in jobs(given, NoteSpec):
        with job, job.write("note") as path:
            path.write_text(job.spec.text)
    first, second = (read_record(Path(f"results/{n}.record.json")) for n in ("first", "second"))
    assert [f.path for f in first.inputs] == ["results/note.txt"]
    assert list(second.input_records) == ["results/first.record.json"]
    assert (first.output_names, second.spec) == ({"note": "results/first.txt"}, {"text": "two"})
    assert first.id != second.id
    lines = log("both").splitlines()
    assert [line.split()[1] for line in lines] == ["first:", "first:", "second:", "second:"]
    total = (first.cpu_seconds or 0) + (second.cpu_seconds or 0)
    assert 0 < total < time.process_time() + 0.1


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc")
def test_peak_memory_excludes_the_parent_process() -> None:
    """Unlike `getrusage`, which includes the memory of the process that started it."""
    imported = "from replication.provenance.environment import peak_memory_bytes"
    small = f"{imported}; print(peak_memory_bytes())"
    start = f"subprocess.run([sys.executable, '-c', {small!r}], check=True)"
    program = f"import subprocess, sys; held = b'x' * 10**9; {start}"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert 1e6 < int(done.stdout) < 5e8


def test_recorded_packages_are_those_found_first_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Folders without metadata, or twice on the path, are tolerated."""
    for folder, version in (("first", "2.0"), ("second", "1.0")):
        for name in ("Torch_Like", "only." + folder):
            described = tmp_path / folder / f"{name}-{version}.dist-info"
            described.mkdir(parents=True)
            text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
            (described / "METADATA").write_text(text)
    (tmp_path / "first/broken-1.0.dist-info").mkdir()
    added = [str(tmp_path / folder) for folder in ("first", "second", "first")]
    monkeypatch.setattr(sys, "path", [*added, *sys.path])
    result = packages()
    versions = {"torch-like": "2.0", "only-first": "2.0", "only-second": "1.0"}
    assert result.items() >= versions.items()
    assert "broken" not in result
    for name in set(result) - {"torch-like"}:
        assert result[name] == metadata.version(name)
    (tmp_path / "second/only.second-1.0.dist-info").rename(tmp_path / "second/late-3.dist-info")
    assert "only-second" in packages()  # the name comes from the file METADATA
    shutil.rmtree(tmp_path / "second/late-3.dist-info")
    assert result.keys() - packages().keys() == {"only-second"}


def test_deviations_make_a_stand_in() -> None:
    lineage = Lineage(sources=[{"id": "a"}])
    lineage.deviate([])
    assert lineage == Lineage(sources=[{"id": "a"}])
    lineage.deviate(["trained on a part"])
    lineage.deviate(["trained on a part", "in float16"])
    assert lineage == Lineage(
        status="stand-in", reasons=["trained on a part", "in float16"], sources=[{"id": "a"}]
    )


def test_secrets_are_not_recorded(
    run: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret_value")
    write_note(project, "other")
    assert "hf_secret_value" not in (run / "results/other.record.json").read_text()


def test_job_without_its_output_fails(run: Path, project: Path) -> None:
    with pytest.raises(SystemExit), Job(snakemake_object(project, "empty"), NoteSpec):
        pass
    assert not (run / "results/empty.record.json").exists()
    assert "without writing results/empty.txt" in log("empty")


def test_failed_job_leaves_no_outputs(run: Path, project: Path) -> None:
    """Not even completed ones."""
    with pytest.raises(SystemExit), Job(snakemake_object(project, "bad"), NoteSpec) as job:
        with job.write("note") as path:
            path.write_text("x")
        raise IsotropyError("the data are wrong")
    assert sorted(p.name for p in (run / "results").glob("*bad*")) == []


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (IsotropyError("a title\n44 files: 44 intact\x1b[2J"), "error: a title\\n44 files"),
        (torch.OutOfMemoryError("CUDA out of memory.\nSee the docs"), "smaller batch_size"),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "a.parquet"), "free some space"),
        (RuntimeError(f"I/O error: {os.strerror(errno.ENOSPC)} (os error 28)"), "free some space"),
        (ValueError("a title\n44 files: 44 intact\x1b[2J"), "a title"),
    ],
)
def test_error_message_is_one_line(run: Path, project: Path, error: Exception, shown: str) -> None:
    """Line breaks and control characters in messages are escaped. Only what is no fault of the
    user's has a traceback."""
    with pytest.raises(SystemExit), Job(snakemake_object(project, "bad"), NoteSpec):
        raise error
    assert shown in log("bad")
    assert ("Traceback" in log("bad")) == isinstance(error, ValueError)
    assert "\x1b" not in log("bad")
    assert not [line for line in log("bad").splitlines() if line.startswith("44 files")]


NO_LOCKS = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=flock"]
NO_LOCKS += ["-e", "inject=flock:error=ENOLCK"]
"""Runs a command whose locks fail as on a file system without them."""


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_job_without_a_working_lock_says_so(run: Path, project: Path) -> None:
    code = "import sys; from pathlib import Path; from tests.unit.jobs import write_note; "
    code += "write_note(Path(sys.argv[1]), 'unlocked')"
    result = subprocess.run(
        [*NO_LOCKS, sys.executable, "-c", code, project],
        env={**os.environ, "PYTHONPATH": str(project)},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 1
    assert "lock cannot be locked" in result.stderr
    assert "Traceback" not in result.stderr
    assert not list((run / "results").glob("unlocked*"))


@pytest.mark.parametrize("name", ["source.txt", "by_hand.txt"])
def test_altered_input_stops_the_next_job(run: Path, project: Path, name: str) -> None:
    """Or one without a record."""
    (run / "results" / name).write_text("other")
    with pytest.raises(SystemExit):
        write_note(project, "late", inputs={"source": f"results/{name}"})
    assert f"results/{name.partition('.')[0]}" in log("late")


def test_temporary_files_of_dead_processes_are_removed(tmp_path: Path) -> None:
    host = socket.gethostname()
    dead = subprocess.Popen(["true"])
    dead.wait()
    for pid in (dead.pid, os.getppid()):
        (tmp_path / f".a.json.{host}.{pid}.tmp").write_text("half")
    write_json(tmp_path / "a.json", 1)
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        f".a.json.{host}.{os.getppid()}.tmp",
        "a.json",
    ]


def test_thread_limit_applies_to_torch_loaded_later(project: Path) -> None:
    """Also without Snakemake; another number of threads would change last digits."""
    code = (
        "from replication.threads import limit_threads\n"
        "limits = limit_threads(1)\n"
        "import torch\n"
        "print(torch.get_num_threads())"
    )
    environment = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=project, env=environment, capture_output=True, text=True
    )
    assert done.stdout == "1\n", done.stderr


def test_failed_cleanup_does_not_fail_a_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Temporary files of another user's killed job, and a folder with a file that is still open on
    NFS."""
    dead = subprocess.Popen(["true"])
    dead.wait()
    (tmp_path / f".a.json.{socket.gethostname()}.{dead.pid}.tmp").mkdir()

    def refuse(path: Any, *_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(shutil, "rmtree", refuse)
    write_json(tmp_path / "a.json", 1)
    assert read_json(tmp_path / "a.json") == 1
    with pytest.raises(IsotropyError, match="NaN"), atomic(tmp_path / "b") as temporary:
        temporary.mkdir()
        raise IsotropyError("NaN in layer 3")


def test_lock_of_another_user_is_an_error_without_traceback(run: Path, project: Path) -> None:
    # A folder cannot be opened for writing by any user
    (run / "results/.mine.work/lock").mkdir(parents=True)
    with pytest.raises(SystemExit), Job(snakemake_object(project, "mine"), NoteSpec):
        pass
    assert "remove it" in log("mine")
    assert "Traceback" not in log("mine")


def test_atomic_write_keeps_the_old_file(tmp_path: Path) -> None:
    """A failed write does not change the old file, and leaves no temporary file."""
    write_json(tmp_path / "a.json", 1)
    with pytest.raises(OSError, match="disk full"), atomic(tmp_path / "a.json") as temporary:
        temporary.write_text("half")
        raise OSError("disk full")
    assert read_json(tmp_path / "a.json") == 1
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


def test_job_rejects_an_input_folder_with_added_or_removed_files(run: Path, project: Path) -> None:
    """Jobs may read all files of a folder."""
    script = snakemake_object(project, "folder")
    outputs = {"note": "results/folder", "record": "results/folder.record.json"}
    script.output = Named(outputs.items())
    with Job(script, NoteSpec) as job, job.write("note") as path:
        path.mkdir()
        (path / "a").write_text("1")
        (path / "b").write_text("2")
    folder = run / "results/folder"
    write_note(project, "user", inputs={"source": "results/folder"})
    for change in ((folder / "c").touch, (folder / "b").unlink):
        change()
        with pytest.raises(SystemExit):
            write_note(project, "user", inputs={"source": "results/folder"})
        (folder / "c").unlink(missing_ok=True)
    assert "results/folder/b is not what" in log("user")


def test_job_succeeds_if_open_files_remain_on_nfs(
    run: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NFS renames a removed file that is still open; the finished job must not fail or lose its
    result."""
    unlink, n_kept = os.unlink, 0

    def unlink_as_nfs(path: Any, *, dir_fd: int | None = None) -> None:
        nonlocal n_kept
        file = os.stat(path, dir_fd=dir_fd, follow_symlinks=False)
        open_files = []
        for descriptor in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):
                open_files.append(os.fstat(int(descriptor)))
        if not any(os.path.samestat(file, other) for other in open_files):
            return unlink(path, dir_fd=dir_fd)
        n_kept += 1
        kept = Path(path).with_name(f".nfs{file.st_ino:016x}")
        return os.rename(path, kept, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", unlink_as_nfs)
    write_note(project, "plain")
    assert not (run / "results/.plain.work").exists()
    assert n_kept == 0
    with Job(snakemake_object(project, "mapped"), NoteSpec) as job, job.write("note") as path:
        job.work.mkdir()
        (job.work / "part").write_text("a part that the job still reads")
        in_use = (job.work / "part").open()
        path.write_text("done")
    assert n_kept == 1
    in_use.close()
    for name in ("results/plain.txt", "results/mapped.txt"):
        assert states(verify(run, [Path(name)]))[name] == "intact"
    write_note(project, "mapped", "again")
    assert not (run / "results/.mapped.work").exists()


def test_second_process_making_the_same_result_fails(run: Path, project: Path) -> None:
    """A job of a killed run may still be running: the job of the next run ends with an error."""
    with Job(snakemake_object(project, "twice"), NoteSpec) as first, first.write("note") as path:
        path.write_text("1")
        with pytest.raises(SystemExit), Job(snakemake_object(project, "twice"), NoteSpec):
            pass
    assert (run / "results/twice.txt").read_text() == "1"
    assert "still making twice" in log("twice")


def test_code_changed_during_a_run_stops_the_job(run: Path, project: Path) -> None:
    script = snakemake_object(project, "late")
    script.params.code = "0" * 64
    with pytest.raises(SystemExit), Job(script, NoteSpec):
        pass
    assert "changed while" in log("late")
