"""Jobs and their records, on small jobs."""

from __future__ import annotations

import contextlib
import json
import logging
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


def test_record_describes_the_job(run: Path) -> None:
    record = read_json(run / "results/note.record.json")
    assert record["spec"] == {"text": "hello"}
    assert record["inputs"][0]["path"] == "results/source.txt"
    assert record["outputs"][0]["bytes"] == 5
    assert record["lineage"] == {
        "status": "stand-in",
        "reasons": ["not the paper's"],
        "sources": [{"id": "a"}],
    }
    assert record["exit"] == "completed"
    code = record["code"]
    assert code["files"].keys() == code["sha256"].keys()
    assert f"scripts/prepare/{RULE}.py" in code["files"]
    assert "replication/job.py" in code["infrastructure"]
    assert not code["files"].keys() & code["infrastructure"].keys()
    assert (record["format"], code["modules"]) == (4, [])
    environment = record["environment"]
    assert environment["packages"]["numpy"]
    gpu = environment["gpu"]
    assert gpu.get("devices") or gpu["reason"]  # devices, or a reason why there are none


def test_outputs_can_be_read_by_those_whom_the_umask_permits(run: Path, project: Path) -> None:
    with Job(snakemake_object(project, "shared"), NoteSpec) as job, job.write("note") as path:
        path.touch(0o600)
    new = run / "new"
    new.touch()
    assert (run / "results/shared.txt").stat().st_mode == new.stat().st_mode


def test_job_with_several_results_writes_a_record_each(run: Path, project: Path) -> None:
    """Each result has its inputs and record; a result can be an input of another one; the job has
    one log, and CPU time is divided among results.
    """
    results = [
        {"stem": "first", "spec": {"text": "one"}, "inputs": {"note": ["results/note.txt"]}},
        {"stem": "second", "spec": {"text": "two"}, "inputs": {"first": ["results/first.txt"]}},
    ]
    given = snakemake_object(project, "both")
    given.params.spec = json.dumps(results)
    given.output = Named(
        {
            "note": ["results/first.txt", "results/second.txt"],
            "record": ["results/first.record.json", "results/second.record.json"],
        }.items()
    )
    for job in jobs(given, NoteSpec):
        with job, job.write("note") as path:
            path.write_text(job.spec.text)
    first, second = (read_record(Path(f"results/{n}.record.json")) for n in ("first", "second"))
    assert [f.path for f in first.inputs] == ["results/note.txt"]
    assert list(second.input_records) == ["results/first.record.json"]
    assert (first.output_names, second.spec) == ({"note": "results/first.txt"}, {"text": "two"})
    assert first.id != second.id
    lines = Path("results/logs/both.log").read_text().splitlines()
    assert [line.split()[1] for line in lines] == ["first:", "first:", "second:", "second:"]
    assert all(f"started by rule {RULE}" in line for line in lines[::2])
    total = (first.cpu_seconds or 0) + (second.cpu_seconds or 0)
    assert 0 < total < time.process_time() + 0.1


def test_one_of_several_results_can_be_made_alone(run: Path, project: Path) -> None:
    """With the spec of one result, as in `isotropy audit rerun`."""
    (job,) = jobs(snakemake_object(project, "alone", "text"), NoteSpec)
    with job, job.write("note") as path:
        path.write_text(job.spec.text)
    assert read_record(Path("results/alone.record.json")).spec == {"text": "text"}


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc")
def test_peak_memory_excludes_the_parent_process() -> None:
    """Unlike `getrusage`, which includes the memory of the process that started it."""
    small = (
        "from replication.provenance.environment import peak_memory_bytes as peak; print(peak())"
    )
    start = f"subprocess.run([sys.executable, '-c', {small!r}], check=True)"
    program = f"import subprocess, sys; held = b'x' * 10**9; {start}"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert 1e6 < int(done.stdout) < 5e8


def test_recorded_packages_are_those_found_first_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All installed packages, with the first version of a name; folders without metadata, or twice
    on the path, are tolerated."""
    for folder, version in (("first", "2.0"), ("second", "1.0")):
        for name in ("Torch_Like", "only." + folder):
            described = tmp_path / folder / f"{name}-{version}.dist-info"
            described.mkdir(parents=True)
            (described / "METADATA").write_text(
                f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
            )
    (tmp_path / "first/broken-1.0.dist-info").mkdir()
    added = [str(tmp_path / folder) for folder in ("first", "second", "first")]
    monkeypatch.setattr(sys, "path", [*added, *sys.path])
    result = packages()
    assert (result["torch-like"], result["only-first"], result["only-second"]) == (
        "2.0",
        "2.0",
        "1.0",
    )
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
    assert "ended without writing results/empty.txt" in (run / "results/logs/empty.log").read_text()


def test_failed_job_leaves_no_outputs(
    run: Path, project: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Not even completed ones; the log has the error message without a traceback."""
    logging.getLogger("isotropy").propagate = True
    with pytest.raises(SystemExit), Job(snakemake_object(project, "bad"), NoteSpec) as job:
        with job.write("note") as path:
            path.write_text("x")
        raise IsotropyError("the data are wrong")
    assert sorted(p.name for p in (run / "results").glob("*bad*")) == []
    text = (run / "results/logs/bad.log").read_text()
    assert "error: the data are wrong" in text
    assert "Traceback" not in text


def test_gpu_without_memory_is_one_sentence(run: Path, project: Path) -> None:
    """What to change, and what torch says, without a traceback."""
    error = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.\nSee the docs")
    with pytest.raises(SystemExit), Job(snakemake_object(project, "large"), NoteSpec):
        raise error
    text = (run / "results/logs/large.log").read_text()
    assert "error: the GPU has no memory left: set a smaller batch_size" in text
    assert "(CUDA out of memory. Tried to allocate 2 GiB.)" in text
    assert "Traceback" not in text


NO_LOCKS = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=flock"]
NO_LOCKS += ["-e", "inject=flock:error=ENOLCK"]
"""Runs a command whose locks fail as on a file system without them."""


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_job_without_a_working_lock_says_so(run: Path, project: Path) -> None:
    code = "from tests.unit.jobs import *; write_note(Path(PROJECT), 'unlocked')"
    result = subprocess.run(
        [*NO_LOCKS, sys.executable, "-c", code.replace("PROJECT", repr(str(project)))],
        env={**os.environ, "PYTHONPATH": str(project)},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 1
    (line,) = (line for line in result.stderr.splitlines() if "error" in line)
    assert "lock cannot be locked ([Errno 37] No locks available): results need a file" in line
    assert "Traceback" not in result.stderr
    assert not list((run / "results").glob("unlocked*"))


def test_altered_input_stops_the_next_job(run: Path, project: Path) -> None:
    (run / "results/source.txt").write_text("other")
    with pytest.raises(SystemExit):
        write_note(project, "late", inputs={"source": "results/source.txt"})
    assert (
        "results/source.txt is not what prepare_sentences wrote; delete results/source.txt"
        in (run / "results/logs/late.log").read_text()
    )


def test_input_without_record_stops_the_job(run: Path, project: Path) -> None:
    (run / "results/by_hand.txt").write_text("x")
    with pytest.raises(SystemExit):
        write_note(project, "late", inputs={"source": "results/by_hand.txt"})


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
    """Also without Snakemake, a job that imports torch itself uses its number of threads; another
    number would change last digits."""
    code = (
        "from replication.resources import limit_threads\n"
        "limits = limit_threads(1)\n"
        "import torch\n"
        "print(torch.get_num_threads())"
    )
    environment = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=project, env=environment, capture_output=True, text=True
    )
    assert done.stdout == "1\n", done.stderr


def test_error_message_is_one_line(run: Path, project: Path) -> None:
    """Line breaks and control characters in messages are escaped; tracebacks keep their lines."""
    for kind, expected in ((IsotropyError, "error: a title\\n44 files"), (ValueError, "a title")):
        with (
            pytest.raises((SystemExit, ValueError)),
            Job(snakemake_object(project, "lines"), NoteSpec),
        ):
            raise kind("a title\n44 files: 44 intact\x1b[2J")
        text = Path("results/logs/lines.log").read_text()
        assert expected in text
        assert "\x1b" not in text
        assert not [line for line in text.splitlines() if line.startswith("44 files")]


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
    log = (run / "results/logs/mine.log").read_text()
    assert "if a killed job of another user has left results/.mine.work, remove it" in log
    assert "Traceback" not in log


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
    script.output = Named(
        {"note": "results/folder", "record": "results/folder.record.json"}.items()
    )
    with Job(script, NoteSpec) as job, job.write("note") as path:
        path.mkdir()
        (path / "a").write_text("1")
        (path / "b").write_text("2")
    write_note(project, "user", inputs={"source": "results/folder"})
    (run / "results/folder/c").write_text("3")
    with pytest.raises(SystemExit):
        write_note(project, "user", inputs={"source": "results/folder"})
    (run / "results/folder/c").unlink()
    (run / "results/folder/b").unlink()
    with pytest.raises(SystemExit):
        write_note(project, "user", inputs={"source": "results/folder"})
    assert "results/folder/b is not what" in (run / "results/logs/user.log").read_text()


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
        other = f".nfs{file.st_ino:016x}"
        return os.rename(
            path,
            Path(path).parent / other if dir_fd is None else other,
            src_dir_fd=dir_fd,
            dst_dir_fd=dir_fd,
        )

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
    for name in ("plain", "mapped"):
        assert states(verify(run, [Path(f"results/{name}.txt")]))[f"results/{name}.txt"] == "intact"
    with (
        Job(snakemake_object(project, "mapped", "again"), NoteSpec) as job,
        job.write("note") as path,
    ):
        path.write_text("again")
    assert not (run / "results/.mapped.work").exists()


def test_second_process_making_the_same_result_fails(run: Path, project: Path) -> None:
    """A job of a killed run may still be running: the job of the next run ends with an error."""
    with Job(snakemake_object(project, "twice"), NoteSpec) as first, first.write("note") as path:
        path.write_text("1")
        with pytest.raises(SystemExit), Job(snakemake_object(project, "twice"), NoteSpec):
            pass
    assert (run / "results/twice.txt").read_text() == "1"
    assert "another process is still making twice" in (run / "results/logs/twice.log").read_text()


def test_code_changed_during_a_run_stops_the_job(run: Path, project: Path) -> None:
    script = snakemake_object(project, "late")
    script.params.code = "0" * 64
    with pytest.raises(SystemExit), Job(script, NoteSpec):
        pass
    assert "changed while the workflow was running" in (run / "results/logs/late.log").read_text()
