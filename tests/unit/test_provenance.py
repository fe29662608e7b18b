"""`isotropy audit` on the results of small jobs."""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from isotropy.errors import IsotropyError
from isotropy.files import read_json, record_path, write_json
from replication.cli.common import study_plan
from replication.job import Job
from replication.provenance.audit import verify, verify_all
from replication.provenance.checkout import Checkout
from replication.provenance.code import Codebase
from replication.provenance.format import MAX_RECORD_BYTES, line_sha256
from replication.provenance.ledger import append_run
from replication.provenance.lineage import Lineage
from replication.provenance.record import read_record
from tests.conftest import copy_checkout
from tests.unit.jobs import RULE, NoteSpec, audit, snakemake_object, states, write_note


def test_configuration_paths_below_home_are_resolved(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ledger contains neither home folder nor user name; the audit still finds the last run's
    configuration, even if its mirror no longer exists."""
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
    (run / "results/README.md").write_text("What will stand here.\n")  # part of the checkout
    assert states(verify_all(run))["results/stray.txt"] == "without record"
    assert "results/README.md" not in states(verify_all(run))
    record_path(run / note).unlink()
    assert states(verify(run, [note]))["results/note.txt"] == "without record"


@pytest.mark.parametrize("field", ["lineage", "spec", "inputs", "seeds"])
def test_verify_finds_a_changed_record(run: Path, project: Path, field: str) -> None:
    """A record cannot be rewritten unnoticed: records of results made from it have its digest."""
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
    assert (finding.state, "note.record.json has changed since" in finding.detail) == (
        "input changed",
        True,
    )
    assert states(findings)["results/note.record.json"] == "altered"  # by the ledger


def test_verify_of_a_folder_finds_files_without_record(run: Path) -> None:
    """Links in a folder are findings as well, and an empty folder is not intact."""
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
    """Each file is what its job wrote, but the input was written again since."""
    write_note(project, "source", text="newer")
    finding = next(
        f for f in verify(run, [Path("results/note.txt")]) if f.path == "results/note.txt"
    )
    assert finding.state == "input changed"
    assert "made from another results/source.txt" in finding.detail


def test_verify_finds_changed_code_and_packages(run: Path, project: Path, tmp_path: Path) -> None:
    """A stale result's finding names the file or the rule, one of another version names package and
    versions; damage takes precedence."""
    note = Path("results/note.txt")
    checkout = copy_checkout(tmp_path / "checkout")
    assert {f.state for f in verify(run, [note], Checkout(checkout))} == {"intact"}
    lock = checkout / "requirements.lock"
    lock.write_text(re.sub(r"numpy==.*", "numpy==1.0.0", lock.read_text()))
    other_version = verify(run, [note], Checkout(checkout))[0]
    assert other_version.state == "other version"
    assert re.fullmatch(r"prepare_sentences: numpy [\d.]+, not 1.0.0", other_version.detail)
    rule = checkout / "rules/prepare.smk"
    rule.write_text(rule.read_text().replace("runtime=", "runtime=1 + ", 1))
    stale = verify(run, [note], Checkout(checkout))[0]
    assert (stale.state, stale.detail) == (
        "stale",
        "prepare_sentences: the text of rule prepare_sentences",
    )
    with (checkout / "replication/prepare/table.py").open("a") as stream:
        stream.write("EDITED = True\n")
    stale = verify(run, [note], Checkout(checkout))[0]
    assert stale.detail.startswith("prepare_sentences: replication/prepare/table.py, ")
    (run / "results/note.txt").write_text("HELLO")
    assert states(verify(run, [note], Checkout(checkout))) == {
        "results/note.txt": "altered",
        "results/source.txt": "stale",
    }
    output = audit("verify", "--all", "--project", checkout, code=1)
    assert "stale: results/source.txt (prepare_sentences: replication/prepare/table.py" in output
    counts = "1 stale, 0 input changed, 0 without record, 0 missing, 1 altered"
    assert output.splitlines()[-1].split(";")[0].endswith(counts)
    assert "incomplete: specs were not compared: results/ledger.jsonl lists no run" in output


def edited(edit: Callable[[dict[str, Any]], object]) -> Callable[[str], str]:
    """Return the function that edits the content of a record's text."""

    def damage(text: str) -> str:
        content = json.loads(text)
        edit(content)
        return json.dumps(content)

    return damage


LONG_NAMES = ("results/" + "a" * 300, "results/" + "a/" * 600 + "b", "results/\ud800")
OUTSIDE = ("x" * 300, "/etc/passwd", "../../etc/passwd", "a\0b")


@pytest.mark.parametrize(
    "damage",
    [
        *(edited(lambda c, n=n: c["outputs"][0].update(path=n)) for n in LONG_NAMES),
        *(
            edited(lambda c, f=field, n=name: c["code"][f].update({n: "0" * 64}))
            for field, name in itertools.product(("files", "sha256", "infrastructure"), OUTSIDE)
        ),
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
    """The audit names any damaged record in one line and continues with the others. No file
    outside the checkout is read."""
    record = run / "results/note.record.json"
    record.write_text(damage(record.read_text()))
    (run / "results/extra.txt").write_text("?")
    findings = verify_all(run, Checkout(project))
    result = states(findings)
    assert result["results/note.record.json"] == "altered"
    assert result["results/source.txt"] == "intact"
    assert result["results/extra.txt"] == "without record"
    assert not [f for f in findings if "\n" in f"{f.path} {f.detail}"]
    audit("rerun", "results/note.record.json", "--project", project, code=2)


@pytest.mark.parametrize("data", [b"\xff\xfe", b"[" * 200_000, b'{"n":0}\n', b"null\n", b""])
def test_damaged_ledgers_are_named(run: Path, data: bytes) -> None:
    (run / "results/ledger.jsonl").write_bytes(data)
    assert states(verify_all(run))["results/ledger.jsonl"] == "altered"


def test_hidden_files_links_and_removed_records_are_found(run: Path) -> None:
    """Also a ledger that is a link; for verify of a folder and of a file."""
    (run / "results/.hidden").write_text("x")
    assert states(verify_all(run))["results/.hidden"] == "without record"
    (run / "results/.hidden").unlink()
    (run / "elsewhere.txt").write_bytes((run / "results/note.txt").read_bytes())
    (run / "results/note.txt").unlink()
    (run / "results/note.txt").symlink_to(run / "elsewhere.txt")
    assert states(verify_all(run))["results/note.txt"] == "altered"
    (run / "results/note.txt").unlink()
    (run / "elsewhere.txt").rename(run / "results/note.txt")
    (run / "results/ledger.jsonl").rename(run / "ledger.jsonl")
    (run / "results/ledger.jsonl").symlink_to(run / "ledger.jsonl")
    assert states(verify(run, [Path("results/note.txt")]))["results/ledger.jsonl"] == "altered"
    (run / "results/ledger.jsonl").unlink()
    (run / "ledger.jsonl").rename(run / "results/ledger.jsonl")
    for name in ("note.txt", "note.record.json"):
        (run / "results" / name).unlink()
    assert states(verify(run, [Path("results")]))["results/note.record.json"] == "missing"


def test_a_linked_results_folder_is_no_finding(run: Path, project: Path) -> None:
    """As on a cluster, where results are on a scratch disk; jobs work through the link."""
    (run / "scratch").mkdir()
    (run / "results").rename(run / "scratch/results")
    (run / "results").symlink_to(run / "scratch/results")
    write_note(project, "end", inputs={"source": "results/note.txt"})
    assert set(states(verify_all(run, Checkout(project))).values()) == {"intact"}
    assert set(states(verify(run, [Path("results/end.txt")])).values()) == {"intact"}


MALFORMED_ENTRIES = {
    "a run without configuration": {"event": "run", "overrides": {}},
    "a path that is a number": {"event": "run", "overrides": {}, "configfiles": [{"path": 5}]},
    "overrides that are a list": {"event": "run", "overrides": [], "configfiles": []},
    "a job without digest": {"event": "job", "record": "results/note.record.json"},
    "a job elsewhere": {"event": "job", "record": "../note.record.json", "sha256": "0" * 64},
    "an unknown event": {"event": "party"},
}


@pytest.mark.parametrize("entry", MALFORMED_ENTRIES.values(), ids=MALFORMED_ENTRIES)
def test_malformed_ledger_entries_are_named(
    run: Path, project: Path, entry: dict[str, object]
) -> None:
    """A line with the right digest of the line before, but no valid entry, is a finding; the other
    lines are checked."""
    ledger = run / "results/ledger.jsonl"
    append_run(run / "results", project, [project / "config.yaml"], {})
    lines = ledger.read_bytes().splitlines()
    head = {"n": len(lines), "previous": line_sha256(lines[-1]), "time": "2026-01-01T00:00:00"}
    ledger.write_bytes(
        b"\n".join([*lines, json.dumps(head | entry, separators=(",", ":")).encode(), b""])
    )
    output = audit("verify", "--all", "--root", run, "--project", project, code=1)
    assert f"line {len(lines) + 1} is not an entry" in output
    assert "3 files: " in output


def test_an_oversized_ledger_is_not_read(run: Path) -> None:
    with (run / "results/ledger.jsonl").open("ab") as stream:
        stream.truncate(3_000_000_000)  # sparse: none of it is on the disk
    output = audit("verify", "--all", "--digests-only", "--root", run, code=1)
    assert "altered: results/ledger.jsonl (it has 3,000,000,000 bytes" in output


def test_configuration_outside_the_checkout_is_read_only_if_unchanged(
    run: Path, project: Path
) -> None:
    """A foreign ledger could name any file of this machine, and an error message show its text."""
    secret = run / "secret"
    secret.write_text("topsecret: [a ^ b\n")
    append_run(run / "results", project, [project / "config.yaml", secret], {})
    secret.write_text("topsecret: [c ^ d\n")
    output = audit("verify", "--all", "--root", run, "--project", project, code=2)
    assert "secret is not what configured the last run: name it with --configfile" in output
    assert "c ^ d" not in output


def test_pipes_and_folders_among_the_results_are_found(run: Path) -> None:
    """Whatever their names are; none is opened."""
    os.mkfifo(run / "results/pipe.record.json")
    os.mkfifo(run / "results/pipe.txt")
    (run / "results/folder.record.json").mkdir()
    result = states(verify_all(run))
    assert result["results/pipe.record.json"] == "altered"
    assert result["results/folder.record.json"] == "altered"
    assert result["results/pipe.txt"] == "without record"
    assert result["results/note.txt"] == "intact"


def test_an_oversized_record_is_not_read(run: Path) -> None:
    with (run / "results/note.record.json").open("ab") as stream:
        stream.truncate(MAX_RECORD_BYTES + 1)  # sparse: none of it is on the disk
    findings = {f.path: f for f in verify(run, [Path("results")])}
    assert findings["results/note.record.json"].state == "altered"
    assert "67,108,865 bytes" in findings["results/note.record.json"].detail


def test_control_characters_in_file_names_are_escaped(run: Path, project: Path) -> None:
    """Line breaks, colours and direction marks in names cannot forge output lines."""
    for name in ("a\n44 files: 44 intact", "b\x1b[32m", "c\u202etxt.a", "d\r44 files"):
        (run / "results" / name).write_text("x")
    output = audit("verify", "--all", "--digests-only", "--root", run, code=1)
    for shown in ("a\\n44 files: 44 intact", "b\\x1b[32m", "c\\u202etxt.a", "d\\r44 files"):
        assert f"without record: results/{shown} (" in output
    assert len(output.splitlines()) == 5


def test_missing_temporary_outputs_are_no_damage(
    run: Path, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only those that the rule declares as temporary; others count as missing."""
    checkout = copy_checkout(tmp_path / "checkout")
    rules = checkout / "rules/prepare.smk"
    texts = 'texts="results/prepare/{dataset}.texts.parquet"'
    rules.write_text(
        rules.read_text().replace(texts, 'note=temp("results/prepare/{dataset}.texts.parquet")', 1)
    )
    monkeypatch.setattr("replication.job.CODEBASE", Codebase(checkout))
    write_note(checkout, "brief")
    (run / "results/brief.txt").unlink()
    (run / "results/note.txt").unlink()
    result = states(verify_all(run))
    assert (result["results/brief.txt"], result["results/note.txt"]) == ("temporary", "missing")


def test_changed_infrastructure_is_no_finding(run: Path, project: Path, tmp_path: Path) -> None:
    """It is reported, but results stay intact."""
    checkout = copy_checkout(tmp_path / "checkout")
    with (checkout / "replication/job.py").open("a") as stream:
        stream.write("EDITED = True\n")
    (checkout / "replication/resources.py").unlink()
    edited = Checkout(checkout)
    assert {f.state for f in verify_all(run, edited)} == {"intact"}
    assert edited.changed_infrastructure == {"replication/job.py": 2, "replication/resources.py": 2}
    append_run(run / "results", checkout, [checkout / "config.yaml"], {})
    output = audit("verify", "--all", "--project", checkout, code=1)
    assert "infrastructure changed since: replication/job.py (2 files)" in output
    assert "infrastructure changed since: replication/resources.py (2 files)" in output
    assert "2 stale" in output  # the notes are no results of the configured study
    assert "replication/job.py" not in [f.path for f in verify_all(run, edited)]


def test_finding_of_a_stale_result_names_the_module(
    run: Path, project: Path, tmp_path: Path
) -> None:
    """Also a module that the script loads by name."""
    checkout = copy_checkout(tmp_path / "checkout")
    module = "replication.palette"
    script = snakemake_object(project, "loaded", modules=[module])
    with Job(script, NoteSpec) as job, job.write("note") as path:
        path.write_text(job.load("palette").NO_MODEL)
    assert read_record(run / "results/loaded.record.json").code.modules == [module]
    loaded = [Path("results/loaded.txt")]
    with (checkout / "replication/palette.py").open("a") as stream:
        stream.write("EDITED = True\n")
    stale = verify(run, loaded, Checkout(checkout))[0]
    assert (stale.state, stale.detail) == ("stale", "prepare_sentences: replication/palette.py")


def test_record_of_a_newer_format_is_rejected(run: Path) -> None:
    record = run / "results/note.record.json"
    write_json(record, {**read_json(record), "format": 5})
    with pytest.raises(IsotropyError, match="got 5, made by a later version of the project"):
        read_record(record)


def test_trace_leads_from_a_result_to_its_source(run: Path, project: Path) -> None:
    """With jobs, seeds, code and origin; a job that is listed already is named, not repeated."""
    write_note(project, "end", inputs={"note": "results/note.txt", "source": "results/source.txt"})
    lineage = json.loads(audit("trace", "results/end.txt", "--json"))
    assert lineage["status"] == "stand-in"
    note, source = lineage["inputs"]
    assert (note["path"], note["spec"], note["sources"]) == (
        "results/note.txt",
        {"text": "hello"},
        [],
    )
    assert note["inputs"][0]["sources"][0]["id"] == "a"
    assert f"scripts/prepare/{RULE}.py" in note["code"]
    assert "replication/job.py" in note["infrastructure"]
    assert set(source) == {"path", "sha256", "record"}
    assert source["sha256"] == note["inputs"][0]["sha256"]
    shown = audit("trace", "results/end.txt")
    assert "results/source.txt" in shown
    assert "(by a job above)" in shown
    for missing in ("results/none.txt", "elsewhere"):
        assert "no record lists" in audit("trace", missing, code=2)
