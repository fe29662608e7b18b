"""The ledger: changed, added or removed lines break its chain, and writers are serialized."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import chdir
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from isotropy.errors import IsotropyError
from replication.provenance.format import LEDGER, read_ledger
from replication.provenance.ledger import append_job, append_run, last_run

RECORD = Path("results/0.record.json")


def ledger(folder: Path) -> Path:
    return folder / "results" / LEDGER


def write_ledger(folder: Path, n: int = 6) -> list[bytes]:
    """Write a ledger with a run and `n` jobs; return its lines."""
    with chdir(folder):
        Path("config.yaml").write_text("study: a\n")
        append_run(Path("results"), Path(), ["config.yaml"], {"study": "b"})
        for i in range(n):
            record = RECORD.with_name(f"{i}.record.json")
            record.write_text(str(i))
            append_job(Path("results"), record)
    return ledger(folder).read_bytes().splitlines(keepends=True)


def test_ledger_lists_runs_and_jobs(tmp_path: Path) -> None:
    lines = write_ledger(tmp_path)
    records, breaks, lines_found = read_ledger(b"".join(lines))
    assert (len(records), breaks, len(lines_found)) == (6, [], 7)
    run = last_run(tmp_path / "results")
    assert [f["path"] for f in run["configfiles"]] == ["config.yaml"]
    assert run["overrides"] == {"study": "b"}
    with pytest.raises(IsotropyError, match="no run"):
        last_run(tmp_path / "elsewhere")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(data=st.data())
def test_any_change_of_lines_breaks_the_chain(tmp_path: Path, data: st.DataObject) -> None:
    """Except for removing lines at the end, which is found only through the records that they name,
    or through a published head."""
    if not ledger(tmp_path).exists():
        write_ledger(tmp_path)
    lines = ledger(tmp_path).read_bytes().splitlines(keepends=True)
    i = data.draw(st.integers(0, len(lines) - 2))
    operation = data.draw(st.sampled_from(["remove", "swap", "repeat", "edit"]))
    if operation == "remove":
        changed = lines[:i] + lines[i + 1 :]
    elif operation == "swap":
        changed = [*lines[:i], lines[i + 1], lines[i], *lines[i + 2 :]]
    elif operation == "repeat":
        changed = [*lines[: i + 1], lines[i], *lines[i + 1 :]]
    else:
        entry = json.loads(lines[i])
        entry["time"] = "2000-01-01T00:00:00+00:00"
        changed = [*lines[:i], json.dumps(entry).encode() + b"\n", *lines[i + 1 :]]
    assert read_ledger(b"".join(changed))[1]
    assert read_ledger(b"".join(lines)[:-5])[1]


def test_concurrent_writers_keep_the_chain(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    with chdir(tmp_path), ThreadPoolExecutor(8) as pool:
        RECORD.write_text("{}")
        list(pool.map(lambda _: append_job(Path("results"), RECORD), range(64)))
    _, breaks, _ = read_ledger(ledger(tmp_path).read_bytes())
    assert breaks == []
    assert len(ledger(tmp_path).read_text().splitlines()) == 64


def test_incomplete_last_line_is_dropped(tmp_path: Path) -> None:
    write_ledger(tmp_path)
    with ledger(tmp_path).open("a") as stream:
        stream.write('{"n":7,"event":"jo')
    with chdir(tmp_path):
        append_job(Path("results"), RECORD)
    assert read_ledger(ledger(tmp_path).read_bytes())[1] == []
