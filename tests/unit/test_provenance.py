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
    registry = tmp_path / "home/sources"
    registry.parent.mkdir()
    registry.symlink_to(project / "config/sources")
    for mirror in (tmp_path / "home/mirror", tmp_path / "scratch/alice/mirror"):
        file = mirror.parent / "own.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("study: mine\n")
        given = {"sources": {"mirror": str(mirror), "registry": str(registry)}}
        append_run(tmp_path / "results", project, [project / "config.yaml", file], given)
        ledger = (tmp_path / "results/ledger.jsonl").read_text()
        assert str(mirror) not in ledger
        study = study_plan(project, tmp_path, None).study.config
        assert (study.study, study.sources.mirror) == ("mine", str(mirror))
        assert study.sources.registry == str(registry)


def test_verify_finds_each_kind_of_damage(run: Path) -> None:
    """In a file, in a folder and in all; nothing of the checkout's own is one."""
    note, results = Path("results/note.txt"), run / "results"
    intact = {"results/note.txt": "intact", "results/source.txt": "intact"}
    assert states(verify(run, [note])) == intact
    (results / "README.md").write_text("What will stand here.\n")  # part of the checkout
    (results / "stray.txt").write_text("?")
    (results / ".hidden").write_text("x")
    (results / "link.txt").symlink_to("/etc/hostname")
    os.mkfifo(results / "pipe.record.json")
    os.mkfifo(results / "pipe.txt")
    (results / "folder.record.json").mkdir()
    found = intact | {
        "results/stray.txt": "without record",
        "results/.hidden": "without record",
        "results/link.txt": "altered",
        "results/pipe.record.json": "altered",
        "results/pipe.txt": "without record",
        "results/folder.record.json": "altered",
    }
    assert states(verify_all(run)) == found
    assert states(verify(run, [Path("results")])).items() >= found.items()
    (results / "empty").mkdir()
    assert states(verify(run, [Path("results/empty")])) == {"results/empty": "missing"}
    (results / "source.txt").write_text("BYTES")
    assert states(verify(run, [note]))["results/source.txt"] == "altered"
    (results / "source.txt").unlink()
    assert states(verify(run, [note]))["results/source.txt"] == "missing"
    record_path(run / note).unlink()
    assert states(verify(run, [note]))["results/note.txt"] == "without record"


@pytest.mark.parametrize("field", ["lineage", "spec", "inputs", "seeds"])
def test_verify_finds_a_changed_record(run: Path, project: Path, field: str) -> None:
    """A record cannot be rewritten unnoticed: records of results made from it have its digest."""
    write_note(project, "end", inputs={"source": "results/note.txt"})
    path = run / "results/note.record.json"
    changed = {
        "lineage": Lineage().model_dump(),
        "spec": {"text": "x"},
        "inputs": [],
        "seeds": {"a": 1},
    }
    write_json(path, read_json(path) | {field: changed[field]})
    findings = verify(run, [Path("results/end.txt")])
    (finding,) = (f for f in findings if f.path == "results/end.txt")
    assert finding.state == "input changed"
    assert "note.record.json" in finding.detail
    assert states(findings)["results/note.record.json"] == "altered"  # by the ledger


def test_verify_finds_a_result_made_from_an_earlier_input(run: Path, project: Path) -> None:
    """Each file is what its job wrote, but the input was written again since."""
    write_note(project, "source", text="newer")
    assert states(verify(run, [Path("results/note.txt")]))["results/note.txt"] == "input changed"


def test_verify_finds_changed_code_and_packages(run: Path, project: Path, tmp_path: Path) -> None:
    """A finding names the file, the rule or the package; damage takes precedence."""
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
    assert stale.state == "stale"
    assert "the text of rule prepare_sentences" in stale.detail
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
    counts = "1 stale, 0 input changed, 0 without record, 0 missing, 1 altered"
    assert output.splitlines()[-1].split(";")[0].endswith(counts)
    assert "incomplete: specs were not compared" in output


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


def test_links_in_place_of_results_and_removed_records_are_found(run: Path) -> None:
    """Also a ledger that is a link; by verify of a folder and of a file."""
    note, ledger = run / "results/note.txt", run / "results/ledger.jsonl"
    for path in (note, ledger):
        path.rename(run / path.name)
        path.symlink_to(run / path.name)
        name = f"results/{path.name}"
        assert states(verify_all(run))[name] == "altered"
        assert states(verify(run, [Path("results/note.txt")]))[name] == "altered"
        path.unlink()
        (run / path.name).rename(path)
    note.unlink()
    record_path(note).unlink()
    assert states(verify(run, [Path("results")]))["results/note.record.json"] == "missing"


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
    """A line with the right digest of the line before; the other lines are checked."""
    ledger = run / "results/ledger.jsonl"
    append_run(run / "results", project, [project / "config.yaml"], {})
    lines = ledger.read_bytes().splitlines()
    head = {"n": len(lines), "previous": line_sha256(lines[-1]), "time": "2026-01-01T00:00:00"}
    added = json.dumps(head | entry, separators=(",", ":")).encode()
    ledger.write_bytes(b"\n".join([*lines, added, b""]))
    output = audit("verify", "--all", "--root", run, "--project", project, code=1)
    assert f"line {len(lines) + 1} is not an entry" in output
    assert "3 files: " in output


@pytest.mark.parametrize(
    ("name", "n_bytes"),
    [("ledger.jsonl", 3_000_000_000), ("note.record.json", MAX_RECORD_BYTES + 1)],
)
def test_an_oversized_file_is_not_read(run: Path, name: str, n_bytes: int) -> None:
    with (run / "results" / name).open("ab") as stream:
        stream.truncate(n_bytes)  # sparse: none of it is on the disk
    output = audit("verify", "--all", "--digests-only", "--root", run, code=1)
    assert re.search(rf"altered: results/{name} .*{n_bytes:,} bytes", output)


def test_configuration_outside_the_checkout_is_read_only_if_unchanged(
    run: Path, project: Path
) -> None:
    """A foreign ledger could name any file of this machine, and an error message show its text."""
    secret = run / "secret"
    secret.write_text("topsecret: [a ^ b\n")
    append_run(run / "results", project, [project / "config.yaml", secret], {})
    secret.write_text("topsecret: [c ^ d\n")
    output = audit("verify", "--all", "--root", run, "--project", project, code=2)
    assert "--configfile" in output
    assert "c ^ d" not in output


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
    texts = '"results/prepare/{dataset}.texts.parquet"'
    rules.write_text(rules.read_text().replace(f"texts={texts}", f"note=temp({texts})", 1))
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
    changed = {"replication/job.py": 2, "replication/resources.py": 2}
    assert edited.changed_infrastructure == changed
    append_run(run / "results", checkout, [checkout / "config.yaml"], {})
    output = audit("verify", "--all", "--project", checkout, code=1)
    for name in changed:
        assert f"infrastructure changed since: {name} (2 files)" in output
    assert "2 stale" in output  # the notes are no results of the configured study


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
    with (checkout / "replication/palette.py").open("a") as stream:
        stream.write("EDITED = True\n")
    stale = verify(run, [Path("results/loaded.txt")], Checkout(checkout))[0]
    assert (stale.state, stale.detail) == ("stale", "prepare_sentences: replication/palette.py")


def test_record_of_a_newer_format_is_rejected(run: Path) -> None:
    record = run / "results/note.record.json"
    write_json(record, {**read_json(record), "format": 5})
    with pytest.raises(IsotropyError, match="later version"):
        read_record(record)


def test_trace_leads_from_a_result_to_its_source(run: Path, project: Path) -> None:
    """A job that is listed already is named, not repeated."""
    write_note(project, "end", inputs={"note": "results/note.txt", "source": "results/source.txt"})
    lineage = json.loads(audit("trace", "results/end.txt", "--json"))
    assert lineage["status"] == "stand-in"
    note, source = lineage["inputs"]
    assert (note["path"], note["spec"]) == ("results/note.txt", {"text": "hello"})
    assert note["sources"] == []
    assert note["inputs"][0]["sources"][0]["id"] == "a"
    assert f"scripts/prepare/{RULE}.py" in note["code"]
    assert "replication/job.py" in note["infrastructure"]
    assert set(source) == {"path", "sha256", "record"}
    assert source["sha256"] == note["inputs"][0]["sha256"]
    shown = audit("trace", "results/end.txt")
    assert "results/source.txt" in shown
    assert "(by a job above)" in shown
    for missing in ("results/none.txt", "results/note.csv", "elsewhere", "pyproject.toml"):
        assert "no record lists" in audit("trace", missing, code=2)
