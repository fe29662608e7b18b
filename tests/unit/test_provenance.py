"""The audit, on small jobs run for real."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from isotropy.cli import app
from isotropy.cli.audit import study_plan
from isotropy.errors import IsotropyError
from isotropy.files import read_json, record_of, write_json
from isotropy.job import Job
from isotropy.provenance.audit import verify, verify_all
from isotropy.provenance.checkout import Checkout
from isotropy.provenance.format import MAX_RECORD_BYTES, line_sha256
from isotropy.provenance.ledger import append_job, append_run
from isotropy.provenance.lineage import Lineage
from isotropy.provenance.record import find_record, read_record
from tests.conftest import NOT_COPIED
from tests.unit.jobs import RULE, NoteSpec, snakemake_object, states, write_note


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
    (run / "results/README.md").write_text("What will stand here.\n")  # the checkout's own
    assert states(verify_all(run))["results/stray.txt"] == "without record"
    assert "results/README.md" not in states(verify_all(run))
    record_of(run / note).unlink()
    assert states(verify(run, [note]))["results/note.txt"] == "without record"


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
        "input changed",
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
    assert finding.state == "input changed"
    assert "made from another results/source.txt" in finding.detail


def test_verify_command(run: Path) -> None:
    """Exit 0 when all is well, 1 on a finding, 2 when it is inconclusive; the last line sums up."""
    cli = CliRunner()
    good = cli.invoke(app, ["audit", "verify", "--all", "--digests-only"])
    assert (good.exit_code, good.output.splitlines()[-1].split(";")[0]) == (
        0,
        "2 files: 2 intact, 0 temporary, 0 other version, 0 other environment, 0 stale, "
        "0 input changed, 0 without record, 0 missing, 0 altered",
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
    """Stale names the file, or the rule; other version names the package and both versions; damage
    weighs more than either."""
    note = Path("results/note.txt")
    checkout = tmp_path / "checkout"
    shutil.copytree(project, checkout, ignore=NOT_COPIED)
    assert {f.state for f in verify(run, [note], Checkout(checkout))} == {"intact"}
    lock = checkout / "requirements.lock"
    lock.write_text(re.sub(r"numpy==.*", "numpy==1.0.0", lock.read_text()))
    old = verify(run, [note], Checkout(checkout))[0]
    assert old.state == "other version"
    assert re.fullmatch(r"prepare_sentences: numpy [\d.]+, not 1.0.0", old.detail)
    rule = checkout / "rules/prepare.smk"
    rule.write_text(rule.read_text().replace("runtime=", "runtime=1 + ", 1))
    stale = verify(run, [note], Checkout(checkout))[0]
    assert (stale.state, stale.detail) == (
        "stale",
        "prepare_sentences: the text of rule prepare_sentences",
    )
    with (checkout / "isotropy/prepare/table.py").open("a") as stream:
        stream.write("EDITED = True\n")
    stale = verify(run, [note], Checkout(checkout))[0]
    assert stale.detail.startswith("prepare_sentences: isotropy/prepare/table.py, ")
    (run / "results/note.txt").write_text("HELLO")
    assert states(verify(run, [note], Checkout(checkout))) == {
        "results/note.txt": "altered",
        "results/source.txt": "stale",
    }
    found = CliRunner().invoke(app, ["audit", "verify", "--all", "--project", str(checkout)])
    assert found.exit_code == 1
    assert "stale: results/source.txt (prepare_sentences: isotropy/prepare/table.py" in found.output
    assert (
        found.output.splitlines()[-1]
        .split(";")[0]
        .endswith("1 stale, 0 input changed, 0 without record, 0 missing, 1 altered")
    )
    assert "incomplete: specs were not compared: results/ledger.jsonl names no run" in found.output


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


def test_a_results_folder_elsewhere(run: Path, project: Path) -> None:
    """As on a cluster, where results lie on the scratch: a link to the folder is no finding, and
    jobs work through it."""
    (run / "scratch").mkdir()
    (run / "results").rename(run / "scratch/results")
    (run / "results").symlink_to(run / "scratch/results")
    write_note(project, "end", inputs={"source": "results/note.txt"})
    assert set(states(verify_all(run, Checkout(project))).values()) == {"intact"}
    assert set(states(verify(run, [Path("results/end.txt")])).values()) == {"intact"}


HOSTILE = {
    "a run without configuration": {"event": "run", "overrides": {}},
    "a path that is a number": {"event": "run", "overrides": {}, "configfiles": [{"path": 5}]},
    "overrides that are a list": {"event": "run", "overrides": [], "configfiles": []},
    "a job without digest": {"event": "job", "record": "results/note.record.json"},
    "a job elsewhere": {"event": "job", "record": "../note.record.json", "sha256": "0" * 64},
    "an unknown event": {"event": "party"},
}


@pytest.mark.parametrize("entry", HOSTILE.values(), ids=HOSTILE)
def test_entries_of_another_shape_are_named(
    run: Path, project: Path, entry: dict[str, object]
) -> None:
    """A line that follows on the one before and is no entry is a finding of its own; the rest is
    checked."""
    ledger = run / "results/ledger.jsonl"
    append_run(run / "results", project, [project / "config.yaml"], {})
    lines = ledger.read_bytes().splitlines()
    head = {"n": len(lines), "previous": line_sha256(lines[-1]), "time": "2026-01-01T00:00:00"}
    ledger.write_bytes(
        b"\n".join([*lines, json.dumps(head | entry, separators=(",", ":")).encode(), b""])
    )
    command = ["audit", "verify", "--all", "--root", str(run), "--project", str(project)]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 1, result.output
    assert f"line {len(lines) + 1} is not an entry" in result.output
    assert "3 files: " in result.output


def test_records_of_names_that_no_file_system_takes(run: Path, project: Path) -> None:
    """They are not readable records; the others are checked."""
    record = run / "results/note.record.json"
    for name in ("results/" + "a" * 300, "results/" + "a/" * 600 + "b", "results/\ud800"):
        content = read_json(record)
        content["outputs"][0]["path"] = name
        record.write_text(json.dumps(content))
        found = states(verify_all(run, Checkout(project)))
        assert found["results/note.record.json"] == "altered"
        assert found["results/source.txt"] == "intact"


@pytest.mark.parametrize("field", ["files", "sha256", "infrastructure"])
@pytest.mark.parametrize("name", ["x" * 300, "/etc/passwd", "../../etc/passwd", "a\0b"])
def test_code_with_names_that_lead_elsewhere(
    run: Path, project: Path, field: str, name: str
) -> None:
    """A record that names such code is none; no file outside the checkout is read for it."""
    record = run / "results/note.record.json"
    content = read_json(record)
    content["code"][field][name] = "0" * 64
    record.write_text(json.dumps(content))
    (run / "results/extra.txt").write_text("?")
    found = states(verify_all(run, Checkout(project)))
    assert found["results/note.record.json"] == "altered"
    assert found["results/extra.txt"] == "without record"


def test_a_ledger_larger_than_ledgers_are(run: Path) -> None:
    with (run / "results/ledger.jsonl").open("ab") as stream:
        stream.truncate(3_000_000_000)  # sparse: none of it is on the disk
    command = ["audit", "verify", "--all", "--digests-only", "--root", str(run)]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 1
    assert "altered: results/ledger.jsonl (it has 3,000,000,000 bytes" in result.output


def test_configuration_elsewhere_is_read_only_as_it_was(run: Path, project: Path) -> None:
    """A ledger of someone else could name any file of this machine, and a message show a line."""
    secret = run / "secret"
    secret.write_text("topsecret: [a ^ b\n")
    append_run(run / "results", project, [project / "config.yaml", secret], {})
    secret.write_text("topsecret: [c ^ d\n")
    command = ["audit", "verify", "--all", "--root", str(run), "--project", str(project)]
    result = CliRunner().invoke(app, command)
    assert "secret is not what configured the last run: name it with --configfile" in result.output
    assert "c ^ d" not in result.output


def test_an_entry_that_only_looks_like_a_run(run: Path, project: Path) -> None:
    append_run(run / "results", project, [project / "config.yaml"], {})
    ledger = run / "results/ledger.jsonl"
    lines = ledger.read_bytes().splitlines()
    entry = json.loads(lines[0]) | {
        "n": len(lines),
        "previous": line_sha256(lines[-1]),
        "x": {"event": "run"},
    }
    assert entry["event"] == "job"
    with ledger.open("ab") as stream:
        stream.write(json.dumps(entry, separators=(",", ":")).encode() + b"\n")
    assert study_plan(project, run, None).study.config.study == "default"


def test_trace_of_sources_that_are_none(run: Path) -> None:
    record = run / "results/source.record.json"
    content = read_json(record)
    content["lineage"]["sources"] = [{"content": 5}]
    record.write_text(json.dumps(content))
    result = CliRunner().invoke(app, ["audit", "trace", "results/source.txt", "--root", str(run)])
    assert result.exit_code == 0, result.output


def test_what_is_no_file_is_named(run: Path) -> None:
    """Pipes and folders, named like records or not; none is opened."""
    os.mkfifo(run / "results/pipe.record.json")
    os.mkfifo(run / "results/pipe.txt")
    (run / "results/folder.record.json").mkdir()
    found = states(verify_all(run))
    assert found["results/pipe.record.json"] == "altered"
    assert found["results/folder.record.json"] == "altered"
    assert found["results/pipe.txt"] == "without record"
    assert found["results/note.txt"] == "intact"


def test_no_record_is_read_that_is_larger_than_records_are(
    run: Path,
) -> None:
    with (run / "results/note.record.json").open("ab") as stream:
        stream.truncate(MAX_RECORD_BYTES + 1)  # sparse: none of it is on the disk
    findings = {f.path: f for f in verify(run, [Path("results")])}
    assert findings["results/note.record.json"].state == "altered"
    assert "67,108,865 bytes" in findings["results/note.record.json"].detail


def test_names_cannot_forge_lines(run: Path, project: Path) -> None:
    """A line break, colours or a change of direction in a name are printed as escapes."""
    for name in ("a\n44 files: 44 intact", "b\x1b[32m", "c\u202etxt.a", "d\r44 files"):
        (run / "results" / name).write_text("x")
    result = CliRunner().invoke(
        app, ["audit", "verify", "--all", "--digests-only", "--root", str(run)]
    )
    assert result.exit_code == 1
    for shown in ("a\\n44 files: 44 intact", "b\\x1b[32m", "c\\u202etxt.a", "d\\r44 files"):
        assert f"without record: results/{shown} (" in result.output
    assert len(result.output.splitlines()) == 5


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


def test_comments_and_changed_infrastructure_are_no_findings(
    run: Path, project: Path, tmp_path: Path
) -> None:
    """Changed infrastructure is named, and the exit code stays."""
    checkout = tmp_path / "checkout"
    shutil.copytree(project, checkout, ignore=NOT_COPIED)
    for name in ("isotropy/files.py", "scripts/prepare/prepare_sentences.py"):
        with (checkout / name).open("a") as stream:
            stream.write('# edited\n"""And a text."""\n')
    seen = Checkout(checkout)
    assert {f.state for f in verify_all(run, seen)} == {"intact"}
    assert not seen.changed_infrastructure
    with (checkout / "isotropy/job.py").open("a") as stream:
        stream.write("EDITED = True\n")
    (checkout / "isotropy/locks.py").unlink()
    seen = Checkout(checkout)
    assert {f.state for f in verify_all(run, seen)} == {"intact"}
    assert seen.changed_infrastructure == {"isotropy/job.py": 2, "isotropy/locks.py": 2}
    arguments = ["audit", "verify", "--all", "--project", str(checkout)]
    append_run(run / "results", checkout, [checkout / "config.yaml"], {})
    found = CliRunner().invoke(app, arguments)
    assert "infrastructure changed since: isotropy/job.py (2 files)" in found.output
    assert "infrastructure changed since: isotropy/locks.py (2 files)" in found.output
    assert "2 stale" in found.output  # they are no results of the study
    assert "isotropy/job.py" not in [f.path for f in verify_all(run, seen)]


def test_stale_names_the_module(run: Path, project: Path, tmp_path: Path) -> None:
    """Also one that the script loads by name."""
    checkout = tmp_path / "checkout"
    shutil.copytree(project, checkout, ignore=NOT_COPIED)
    module = "isotropy.palette"
    script = snakemake_object(project, "loaded", modules=[module])
    with Job(script, NoteSpec) as job, job.write("note") as path:
        path.write_text(job.load("palette").REHEARSAL)
        with pytest.raises(IsotropyError, match="expected one module diff"):
            job.load("diff")
    assert read_record(run / "results/loaded.record.json").code.modules == [module]
    loaded = [Path("results/loaded.txt")]
    with (checkout / "isotropy/palette.py").open("a") as stream:
        stream.write("# a remark\n")
    assert {f.state for f in verify(run, loaded, Checkout(checkout))} == {"intact"}
    with (checkout / "isotropy/palette.py").open("a") as stream:
        stream.write("EDITED = True\n")
    stale = verify(run, loaded, Checkout(checkout))[0]
    assert (stale.state, stale.detail) == ("stale", "prepare_sentences: isotropy/palette.py")


FORMER = "expected a record of format 4, got 2, made by a former layout of the project"


def make_former(record: Path) -> None:
    """Give a record the form that it had before, and the ledger what it then had said."""
    content = read_json(record)
    content["code"] = {"files": {}, "rule": "0" * 64, "modules": []}
    write_json(record, {**content, "format": 2})
    append_job(Path("results"), record)


def test_results_of_a_former_layout(run: Path, project: Path) -> None:
    """One sentence, whatever is asked; where some were made again, the rest is stale."""
    cli = CliRunner()
    make_former(Path("results/note.record.json"))
    found = {f.path: f for f in verify_all(run, Checkout(project))}
    assert found["results/source.txt"].state == "intact"
    for path in ("results/note.txt", "results/note.record.json"):
        assert found[path].state == "stale"
        assert FORMER in found[path].detail
    make_former(Path("results/source.record.json"))
    for command in (
        ["verify", "--all", "--digests-only"],
        ["verify", "results/note.txt", "--project", str(project)],
        ["trace", "results/note.txt"],
        ["identify", "results/note.txt"],
        ["diff", ".", "."],
        ["export", "--project", str(project)],
    ):
        refused = cli.invoke(app, ["audit", *command])
        assert (refused.exit_code, FORMER in refused.output) == (2, True), command
        assert len(refused.output.splitlines()) == 1
        assert isinstance(refused.exception, SystemExit)
    again = cli.invoke(app, ["audit", "rerun", "results/note.txt", "--project", str(project)])
    assert again.exit_code == 2
    assert find_record(Path("results/note.record.json")) is None
    assert find_record(Path("results/none.record.json")) is None


def test_record_of_a_later_layout(run: Path) -> None:
    record = run / "results/note.record.json"
    write_json(record, {**read_json(record), "format": 5})
    with pytest.raises(IsotropyError, match="got 5, made by a later version of the project"):
        read_record(record)


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
    assert "isotropy/job.py" in note["infrastructure"]
    assert set(source) == {"path", "sha256", "record"}
    assert source["sha256"] == note["inputs"][0]["sha256"]
    shown = cli.invoke(app, ["audit", "trace", "results/end.txt"])
    assert shown.exit_code == 0
    assert "results/source.txt" in shown.output
    assert "(by a job above)" in shown.output
    for missing in ("results/none.txt", "elsewhere"):
        refused = cli.invoke(app, ["audit", "trace", missing])
        assert (refused.exit_code, "no record lists" in refused.output) == (2, True)
