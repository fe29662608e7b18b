"""Records, code identities and audit, on small jobs run for real."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from isotropy.audit_cli import study_plan
from isotropy.cli import app
from isotropy.errors import IsotropyError
from isotropy.files import atomic, read_json, record_of, write_json
from isotropy.job import Job
from isotropy.provenance.audit import verify, verify_all
from isotropy.provenance.checkout import Checkout
from isotropy.provenance.code import code_identity, code_param
from isotropy.provenance.environment import packages
from isotropy.provenance.ledger import append_run
from isotropy.provenance.lineage import Lineage
from isotropy.spec import Spec
from tests.conftest import NOT_COPIED

RULE = "prepare_sentences"


class NoteSpec(Spec):
    """A job that writes one text."""

    text: str


class Named(list):
    """Stands for Snakemake's lists with names, which a script gets."""

    def items(self) -> list[tuple[str, Any]]:
        return list(self)

    def __getattr__(self, name: str) -> Any:
        return next(value for key, value in self if key == name)


def snakemake_object(
    project: Path, stem: str, text: str = "hello", inputs: dict[str, Any] | None = None
) -> SimpleNamespace:
    """What Snakemake gives a script, for a job that writes results/<stem>.txt."""
    return SimpleNamespace(
        rule=RULE,
        params=SimpleNamespace(
            spec=NoteSpec(text=text).canonical(), code=code_param(project, RULE)
        ),
        input=Named((inputs or {}).items()),
        output=Named(
            {"note": f"results/{stem}.txt", "record": f"results/{stem}.record.json"}.items()
        ),
        log=[f"results/logs/{stem}.log"],
        wildcards=Named(),
        threads=1,
    )


def write_note(
    project: Path, stem: str, text: str = "hello", inputs: dict[str, Any] | None = None
) -> None:
    with (
        Job(snakemake_object(project, stem, text, inputs), NoteSpec) as job,
        job.write("note") as path,
    ):
        path.write_text(job.spec.text)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, project: Path) -> Path:
    """A folder with a chain of two jobs: a source, and a note made from it."""
    monkeypatch.chdir(tmp_path)
    stand_in = Lineage(status="stand-in", reasons=["not the paper's"], sources=[{"id": "a"}])
    with Job(snakemake_object(project, "source"), NoteSpec) as job, job.write("note") as path:
        path.write_text("bytes")
        job.lineage.merge(stand_in)
    write_note(project, "note", inputs={"source": "results/source.txt"})
    return tmp_path


def test_record_says_what_happened(run: Path) -> None:
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
    assert "isotropy/job.py" not in record["code"]["rule"]
    assert f"scripts/prepare/{RULE}.py" in record["code"]["files"]
    environment = record["environment"]
    assert environment["packages"]["numpy"]
    gpu = environment["gpu"]
    assert gpu.get("devices") or gpu["reason"]  # known, or null with a reason


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc")
def test_peak_memory_is_the_processes_own() -> None:
    """Not that of the larger one that started it, as `getrusage` has it."""
    small = "from isotropy.provenance.environment import peak_memory_bytes as peak; print(peak())"
    program = f"import subprocess, sys; held = b'x' * 10**9; subprocess.run([sys.executable, '-c', {small!r}], check=True)"
    told = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert 1e6 < int(told.stdout) < 5e8


def test_packages_are_those_that_are_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that is installed, of a name found twice the first; a folder without a description and
    one named twice do no harm."""
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
    found = packages()
    assert (found["torch-like"], found["only-first"], found["only-second"]) == ("2.0", "2.0", "1.0")
    assert "broken" not in found
    for name in set(found) - {"torch-like"}:
        assert found[name] == metadata.version(name)


def test_departures_make_a_stand_in() -> None:
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


def test_job_that_writes_nothing_has_failed(run: Path, project: Path) -> None:
    with pytest.raises(SystemExit), Job(snakemake_object(project, "empty"), NoteSpec):
        pass
    assert not (run / "results/empty.record.json").exists()
    assert "ended without writing results/empty.txt" in (run / "results/logs/empty.log").read_text()


def test_error_leaves_nothing(run: Path, project: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Also not an output that was already complete; the sentence stands alone, without a trace."""
    logging.getLogger("isotropy").propagate = True
    with pytest.raises(SystemExit), Job(snakemake_object(project, "bad"), NoteSpec) as job:
        with job.write("note") as path:
            path.write_text("x")
        raise IsotropyError("the data are wrong")
    assert sorted(p.name for p in (run / "results").glob("*bad*")) == []
    text = (run / "results/logs/bad.log").read_text()
    assert "error: the data are wrong" in text
    assert "Traceback" not in text


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


def test_leftovers_of_the_dead_are_removed_and_of_the_living_kept(tmp_path: Path) -> None:
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


def test_what_cannot_be_cleared_up_fails_no_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A leftover of another user's killed job, and a folder in which a file is still open on
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


def test_a_lock_of_another_user_is_one_sentence(run: Path, project: Path) -> None:
    # Cannot be opened for writing, whoever tries
    (run / "results/.mine.work/lock").mkdir(parents=True)
    with pytest.raises(SystemExit), Job(snakemake_object(project, "mine"), NoteSpec):
        pass
    log = (run / "results/logs/mine.log").read_text()
    assert "if a killed job of another user has left results/.mine.work, remove it" in log
    assert "Traceback" not in log


def test_paths_of_home_and_user_are_found_again(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ledger has neither; the audit finds the last run's configuration all the same, also where
    a mirror has gone."""
    monkeypatch.setattr("getpass.getuser", lambda: "alice")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for mirror in (tmp_path / "home/mirror", tmp_path / "scratch/alice/mirror"):
        file = mirror.parent / "own.yaml"
        file.parent.mkdir(parents=True)
        file.write_text("study: mine\n")
        given = {"sources": {"mirror": str(mirror)}}
        append_run(tmp_path / "results", project, [project / "config.yaml", file], given)
        ledger = (tmp_path / "results/ledger.jsonl").read_text()
        assert str(mirror) not in ledger
        study = study_plan(project, tmp_path, None).study.config
        assert (study.study, study.sources.mirror) == ("mine", str(mirror))


def test_atomic_write_keeps_the_old_file(tmp_path: Path) -> None:
    """A write that breaks half-way changes nothing and leaves nothing."""
    write_json(tmp_path / "a.json", 1)
    with pytest.raises(OSError, match="disk full"), atomic(tmp_path / "a.json") as temporary:
        temporary.write_text("half")
        raise OSError("disk full")
    assert read_json(tmp_path / "a.json") == 1
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


def states(findings: list[Any]) -> dict[str, str]:
    return {f.path: f.state for f in findings}


def test_verify_finds_each_kind_of_damage(run: Path) -> None:
    note = Path("results/note.txt")
    assert states(verify(run, [note])) == {
        "results/note.txt": "intact",
        "results/source.txt": "intact",
    }
    (run / "results/source.txt").write_text("BYTES")
    assert states(verify(run, [note]))["results/source.txt"] == "altered"
    (run / "results/source.txt").unlink()
    assert states(verify(run, [note]))["results/source.txt"] == "missing"
    (run / "results/stray.txt").write_text("?")
    assert states(verify_all(run))["results/stray.txt"] == "without record"
    record_of(run / note).unlink()
    assert states(verify(run, [note]))["results/note.txt"] == "without record"


def test_job_refuses_a_folder_with_files_added_or_removed(run: Path, project: Path) -> None:
    """A reader that takes all files of a folder would use them."""
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


def test_files_in_use_cannot_be_removed_on_nfs(
    run: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NFS keeps an open file under another name until it is closed: a finished job neither fails
    nor loses its result."""
    unlink, n_kept = os.unlink, 0

    def of_nfs(path: Any, *, dir_fd: int | None = None) -> None:
        nonlocal n_kept
        file = os.stat(path, dir_fd=dir_fd, follow_symlinks=False)
        mine = []
        for descriptor in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):
                mine.append(os.fstat(int(descriptor)))
        if not any(os.path.samestat(file, other) for other in mine):
            return unlink(path, dir_fd=dir_fd)
        n_kept += 1
        other = f".nfs{file.st_ino:016x}"
        return os.rename(
            path,
            Path(path).parent / other if dir_fd is None else other,
            src_dir_fd=dir_fd,
            dst_dir_fd=dir_fd,
        )

    monkeypatch.setattr(os, "unlink", of_nfs)
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


def test_two_processes_do_not_make_the_same_result(run: Path, project: Path) -> None:
    """A job that outlived its killed run still works: the next run's job stops with a sentence."""
    with Job(snakemake_object(project, "twice"), NoteSpec) as first, first.write("note") as path:
        path.write_text("1")
        with pytest.raises(SystemExit), Job(snakemake_object(project, "twice"), NoteSpec):
            pass
    assert (run / "results/twice.txt").read_text() == "1"
    assert "another process is still making twice" in (run / "results/logs/twice.log").read_text()


@pytest.mark.parametrize("field", ["lineage", "spec", "inputs", "seeds"])
def test_verify_finds_a_changed_record(run: Path, project: Path, field: str) -> None:
    """What a result was made from cannot be rewritten: the results made from it hold the digest of
    its record."""
    write_note(project, "end", inputs={"source": "results/note.txt"})
    path = run / "results/note.record.json"
    record = read_json(path)
    record[field] = {
        "lineage": Lineage().model_dump(),
        "spec": {"text": "x"},
        "inputs": [],
        "seeds": {"a": 1},
    }[field]
    write_json(path, record)
    findings = verify(run, [Path("results/end.txt")])
    finding = next(f for f in findings if f.path == "results/end.txt")
    assert (finding.state, "note.record.json no longer says" in finding.detail) == (
        "mismatched",
        True,
    )
    assert states(findings)["results/note.record.json"] == "altered"  # by the ledger


def test_verify_folder(run: Path) -> None:
    """Files without a record count in a folder as well; so do links, and an empty folder is not
    intact."""
    (run / "results/stray.txt").write_text("?")
    (run / "results/link.txt").symlink_to("/etc/hostname")
    assert states(verify(run, [Path("results")])) == {
        "results/note.txt": "intact",
        "results/source.txt": "intact",
        "results/stray.txt": "without record",
        "results/link.txt": "altered",
    }
    (run / "results/empty").mkdir()
    assert states(verify(run, [Path("results/empty")])) == {"results/empty": "missing"}


def test_verify_finds_a_result_made_from_an_earlier_input(run: Path, project: Path) -> None:
    """Each file is what its own job wrote, yet the two do not belong together."""
    write_note(project, "source", text="newer")
    finding = next(
        f for f in verify(run, [Path("results/note.txt")]) if f.path == "results/note.txt"
    )
    assert finding.state == "mismatched"
    assert "made from another results/source.txt" in finding.detail


def test_verify_command(run: Path) -> None:
    """Exit 0 when all is well, 1 on a finding, 2 when it cannot be told; the last line sums up."""
    cli = CliRunner()
    good = cli.invoke(app, ["audit", "verify", "--all", "--digests-only"])
    assert (good.exit_code, good.output.splitlines()[-1].split(";")[0]) == (
        0,
        "2 files: 2 intact, 0 temporary, 0 behind, 0 outside, 0 stale, 0 mismatched, 0 without "
        "record, 0 missing, 0 altered",
    )
    head = good.output.split()[-1]
    assert (
        cli.invoke(app, ["audit", "verify", "--all", "--digests-only", "--head", head]).exit_code
        == 0
    )
    forged = cli.invoke(app, ["audit", "verify", "--all", "--digests-only", "--head", "0" * 64])
    assert (forged.exit_code, "none of its lines" in forged.output) == (1, True)
    nowhere = cli.invoke(app, ["audit", "verify", "--all", "--project", "nowhere"])
    assert (nowhere.exit_code, "nowhere is not a checkout" in nowhere.output) == (2, True)
    (run / "results/note.txt").write_text("HELLO")
    bad = cli.invoke(app, ["audit", "verify", "results/note.txt", "--digests-only"])
    assert bad.exit_code == 1
    assert "altered" in bad.output
    assert cli.invoke(app, ["audit", "verify"]).exit_code == 2
    assert cli.invoke(app, ["audit", "verify", "--all", "--root", "nowhere"]).exit_code == 2


def test_verify_finds_code_and_packages_that_have_changed(
    run: Path, project: Path, tmp_path: Path
) -> None:
    """Stale names the file, or the rule; behind names the package and both versions; damage weighs
    more than either."""
    note = Path("results/note.txt")
    checkout = tmp_path / "checkout"
    shutil.copytree(project, checkout, ignore=NOT_COPIED)
    assert {f.state for f in verify(run, [note], Checkout(checkout))} == {"intact"}
    lock = checkout / "requirements.lock"
    lock.write_text(re.sub(r"numpy==.*", "numpy==1.0.0", lock.read_text()))
    behind = verify(run, [note], Checkout(checkout))[0]
    assert behind.state == "behind"
    assert re.fullmatch(r"prepare_sentences: numpy [\d.]+, not 1.0.0", behind.detail)
    rule = checkout / "rules/prepare.smk"
    rule.write_text(rule.read_text().replace("runtime=", "runtime=1 + ", 1))
    stale = verify(run, [note], Checkout(checkout))[0]
    assert (stale.state, stale.detail) == (
        "stale",
        "prepare_sentences: the text of rule prepare_sentences",
    )
    with (checkout / "isotropy/errors.py").open("a") as stream:
        stream.write("# edited\n")
    stale = verify(run, [note], Checkout(checkout))[0]
    assert stale.detail.startswith("prepare_sentences: isotropy/errors.py, ")
    (run / "results/note.txt").write_text("HELLO")
    assert states(verify(run, [note], Checkout(checkout))) == {
        "results/note.txt": "altered",
        "results/source.txt": "stale",
    }
    found = CliRunner().invoke(app, ["audit", "verify", "--all", "--project", str(checkout)])
    assert found.exit_code == 1
    assert "stale: results/source.txt (prepare_sentences: isotropy/errors.py" in found.output
    assert (
        found.output.splitlines()[-1]
        .split(";")[0]
        .endswith("1 stale, 0 mismatched, 0 without record, 0 missing, 1 altered")
    )
    assert (
        "incomplete: specs were not compared: results/ledger.jsonl names no run"
        in found.output
    )


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text.replace('"prefix"', '"prefiy"'),
        lambda text: text.replace('"files"', '"fils"'),
        lambda text: text.replace('"hello"', '"\\ud800"'),
        lambda text: text.replace("results/source.txt", "results/" + "x" * 1200),
        lambda text: text.replace("results/source.txt", "../source.txt"),
        lambda text: text.replace("results/source.txt", "/etc/hostname"),
        lambda text: "[" * 200_000,
        lambda text: "null",
        lambda text: "",
    ],
)
def test_damaged_records_are_named(run: Path, project: Path, damage: Callable[[str], str]) -> None:
    """Whatever a record has become, the audit says which one it is and goes on."""
    record = run / "results/note.record.json"
    record.write_text(damage(record.read_text()))
    found = states(verify_all(run, Checkout(project)))
    assert found["results/note.record.json"] == "altered"
    assert found["results/source.txt"] == "intact"
    assert not [
        f for f in verify_all(run, Checkout(project)) if "\n" in f"{f.path} {f.detail}"
    ]  # one line each
    assert (
        CliRunner()
        .invoke(app, ["audit", "rerun", "results/note.record.json", "--project", str(project)])
        .exit_code
        == 2
    )


@pytest.mark.parametrize("data", [b"\xff\xfe", b"[" * 200_000, b'{"n":0}\n', b"null\n", b""])
def test_damaged_ledgers_are_named(run: Path, data: bytes) -> None:
    (run / "results/ledger.jsonl").write_bytes(data)
    assert states(verify_all(run))["results/ledger.jsonl"] == "altered"


def test_what_hides_is_found(run: Path) -> None:
    """Hidden files, links on the way, a ledger elsewhere, results removed with their record: by
    folder and by file."""
    (run / "results/.hidden").write_text("x")
    assert states(verify_all(run))["results/.hidden"] == "without record"
    (run / "results/.hidden").unlink()
    (run / "elsewhere").mkdir()
    (run / "results").rename(run / "elsewhere/results")
    (run / "results").symlink_to(run / "elsewhere/results")
    assert "altered" in states(verify(run, [Path("results/note.txt")])).values()
    (run / "results").unlink()
    (run / "elsewhere/results").rename(run / "results")
    (run / "results/ledger.jsonl").rename(run / "ledger.jsonl")
    (run / "results/ledger.jsonl").symlink_to(run / "ledger.jsonl")
    assert states(verify(run, [Path("results/note.txt")]))["results/ledger.jsonl"] == "altered"
    (run / "results/ledger.jsonl").unlink()
    (run / "ledger.jsonl").rename(run / "results/ledger.jsonl")
    for name in ("note.txt", "note.record.json"):
        (run / "results" / name).unlink()
    assert states(verify(run, [Path("results")]))["results/note.record.json"] == "missing"


def test_temporary_outputs_may_be_gone(
    run: Path, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that the rule declares so; others are missing."""
    checkout = tmp_path / "checkout"
    shutil.copytree(project, checkout, ignore=NOT_COPIED)
    rules = checkout / "rules/prepare.smk"
    texts = 'texts="results/prepare/{dataset}.texts.parquet"'
    rules.write_text(
        rules.read_text().replace(texts, 'note=temp("results/prepare/{dataset}.texts.parquet")', 1)
    )
    monkeypatch.setattr("isotropy.job.PROJECT", checkout)
    write_note(checkout, "brief")
    (run / "results/brief.txt").unlink()
    (run / "results/note.txt").unlink()
    found = states(verify_all(run))
    assert (found["results/brief.txt"], found["results/note.txt"]) == ("temporary", "missing")


def test_trace(run: Path, project: Path) -> None:
    """From a result to its source: jobs, seeds, code, origin; a job that was met before is named,
    not repeated."""
    write_note(project, "end", inputs={"note": "results/note.txt", "source": "results/source.txt"})
    cli = CliRunner()
    lineage = json.loads(cli.invoke(app, ["audit", "trace", "results/end.txt", "--json"]).output)
    assert lineage["status"] == "stand-in"
    note, source = lineage["inputs"]
    assert (note["path"], note["spec"], note["sources"]) == (
        "results/note.txt",
        {"text": "hello"},
        [],
    )
    assert note["inputs"][0]["sources"][0]["id"] == "a"
    assert f"scripts/prepare/{RULE}.py" in note["code"]
    assert set(source) == {"path", "sha256", "record"}
    assert source["sha256"] == note["inputs"][0]["sha256"]
    shown = cli.invoke(app, ["audit", "trace", "results/end.txt"])
    assert shown.exit_code == 0
    assert "results/source.txt" in shown.output
    assert "(by a job above)" in shown.output
    for missing in ("results/none.txt", "elsewhere"):
        refused = cli.invoke(app, ["audit", "trace", missing])
        assert (refused.exit_code, "no record lists" in refused.output) == (2, True)


def test_code_identity_follows_imports(tmp_path: Path, project: Path) -> None:
    """A module counts for the rules that reach it, directly or not; a comment in the rule file's
    head does not."""
    root = tmp_path / "checkout"
    shutil.copytree(project, root, ignore=NOT_COPIED)
    before = {
        rule: code_param(root, rule)
        for rule in ("embed_sentences", "optimize_embeddings", "fetch_source")
    }
    # Reached through silhouette
    with (root / "isotropy/metrics/validation.py").open("a") as stream:
        stream.write("# edited\n")
    after = {rule: code_param(root, rule) for rule in before}
    assert [rule for rule in before if before[rule] != after[rule]] == ["optimize_embeddings"]
    page = code_param(root, "write_page")
    with (root / "isotropy/report/page.html").open("a") as stream:
        stream.write("<!-- edited -->\n")
    assert code_param(root, "write_page") != page
    rules = root / "rules/fetch.smk"
    rules.write_text(rules.read_text().replace("mem_mb=2000", "mem_mb=3000"))
    assert code_param(root, "fetch_source") != after["fetch_source"]
    assert (
        "isotropy/figures/mickus2024.py"
        in code_identity(root, "draw_figure", ["isotropy.figures.mickus2024"]).files
    )
    with pytest.raises(LookupError, match="no rule"):
        code_identity(root, "no_such_rule")


def test_code_changed_during_a_run_stops_the_job(run: Path, project: Path) -> None:
    script = snakemake_object(project, "late")
    script.params.code = "0" * 64
    with pytest.raises(SystemExit), Job(script, NoteSpec):
        pass
    assert "changed while the workflow was running" in (run / "results/logs/late.log").read_text()
