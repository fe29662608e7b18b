"""Code identity: what a change of code makes jobs run again for."""

from __future__ import annotations

import ast
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from isotropy.errors import IsotropyError
from isotropy.provenance import code
from isotropy.provenance.code import code_identity, code_param, load
from isotropy.provenance.machinery import COUNTED_WITH_EVERY_JOB, MACHINERY, OF_SUMMARIES
from tests.conftest import NOT_COPIED

SMALL = {
    "rules/make.smk": (
        'rule make:\n    """Makes one."""\n    output:\n        "a.txt",\n'
        '    script:\n        "../scripts/make.py"\n\n\n'
        'rule draw:\n    script:\n        "../scripts/draw.py"\n'
    ),
    "scripts/make.py": (
        '"""Makes one."""\n\nfrom isotropy.job import Job\nfrom isotropy.stage import work\n\n'
        "with Job(snakemake) as job:\n    work(job)\n"
    ),
    "scripts/draw.py": (
        "from isotropy.job import Job\n\nwith Job(snakemake) as job:\n    job.load('x')\n"
    ),
    "isotropy/__init__.py": "",
    "isotropy/job.py": (
        "from isotropy.provenance import record\nfrom isotropy.only import tool\n"
        "from isotropy.spec import Spec\n"
    ),
    "isotropy/only.py": "def tool(): pass\n",
    "isotropy/spec.py": "class Spec: pass\n",
    "isotropy/provenance/__init__.py": "",
    "isotropy/provenance/record.py": "import isotropy.provenance.identity\n",
    "isotropy/provenance/identity.py": "MARK = 'mark'\n",
    "isotropy/stage/__init__.py": "from .work import work\n",
    "isotropy/stage/work.py": (
        "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    from isotropy.unseen import X\n"
        "def work(job):\n    from ..metric import score\n    return score(job)\n"
    ),
    "isotropy/stage/work.csv": "a,b\n",
    "isotropy/stage/work.txt": "not a template\n",
    "isotropy/unseen.py": "X = 1\n",
    "isotropy/metric.py": "def score(x):\n    return x\n",
    "isotropy/papers/__init__.py": "",
    "isotropy/papers/one/__init__.py": "",
    "isotropy/papers/one/tables.py": (
        "from isotropy.metric import score\nfrom isotropy.helper import mean\n\n"
        "DIGITS = 3\n\n\ndef first(x):\n    return score(x)\n\n\n"
        "def second(x):\n    return round(mean(x), DIGITS)\n"
    ),
    "isotropy/helper.py": "def mean(x):\n    return sum(x) / len(x)\n",
}
TABLES = "isotropy.papers.one.tables"


@pytest.fixture
def small(tmp_path: Path) -> Path:
    for name, text in SMALL.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def edit(root: Path, name: str, old: str, new: str) -> None:
    path = root / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_files_that_a_script_imports_count(small: Path) -> None:
    """By way of packages, relative imports and imports in functions; not for type checkers."""
    found = code_identity(small, "make")
    assert set(found.files) == {
        "scripts/make.py",
        "isotropy/__init__.py",
        "isotropy/spec.py",
        "isotropy/stage/__init__.py",
        "isotropy/stage/work.py",
        "isotropy/stage/work.csv",
        "isotropy/metric.py",
        "isotropy/provenance/identity.py",
    }
    assert set(found.machinery) == {
        "isotropy/job.py",
        "isotropy/only.py",
        "isotropy/provenance/__init__.py",
        "isotropy/provenance/record.py",
    }
    assert found.sha256.keys() == found.files.keys()
    assert found.entries == []


@pytest.mark.parametrize(
    ("name", "old", "new", "reruns"),
    [
        ("isotropy/metric.py", "return x", "return x + 1", {"make"}),
        ("isotropy/metric.py", "def score", "# the score\ndef score", set()),
        ("isotropy/metric.py", "    return", '    """Score."""\n    return', set()),
        ("isotropy/stage/work.csv", "a,b", "a,c", {"make"}),
        ("isotropy/stage/work.txt", "not", "no", set()),
        ("isotropy/unseen.py", "1", "2", set()),
        ("isotropy/job.py", "Spec\n", "Spec\n\nprint('a real change')\n", set()),
        ("isotropy/only.py", "pass", "return 1", set()),
        ("isotropy/provenance/record.py", "import", "print(1)\nimport", set()),
        ("isotropy/provenance/identity.py", "'mark'", "'other'", {"make", "draw"}),
        ("isotropy/spec.py", "pass", "x = 1", {"make", "draw"}),
        ("scripts/draw.py", "'x'", "'y'", {"draw"}),
        ("rules/make.smk", "Makes one.", "Makes another.", set()),
        ("rules/make.smk", '"a.txt"', '"b.txt"', {"make"}),
        ("rules/make.smk", "rule draw:\n", "rule draw:\n    threads: 2\n", {"draw"}),
        ("rules/make.smk", "rule make:\n", "# about the rule\nrule make:\n    # why\n", set()),
    ],
)
def test_what_a_change_reruns(small: Path, name: str, old: str, new: str, reruns: set[str]) -> None:
    before = {rule: code_param(small, rule) for rule in ("make", "draw")}
    edit(small, name, old, new)
    assert {rule for rule in before if code_param(small, rule) != before[rule]} == reruns


@pytest.mark.parametrize(
    ("name", "old", "new", "reruns"),
    [
        ("isotropy/papers/one/tables.py", "score(x)", "score(2 * x)", {"first", ""}),
        ("isotropy/papers/one/tables.py", "DIGITS = 3", "DIGITS = 4", {"second", ""}),
        ("isotropy/papers/one/tables.py", "DIGITS = 3", "DIGITS = 3\n# of all", set()),
        (
            "isotropy/papers/one/tables.py",
            "DIGITS = 3",
            "DIGITS = 3\nprint()",
            {"first", "second", ""},
        ),
        ("isotropy/helper.py", "len(x)", "max(1, len(x))", {"second", ""}),
        ("isotropy/metric.py", "return x", "return -x", {"first", ""}),
        ("isotropy/papers/__init__.py", "", "import os\n", {"first", "second", ""}),
    ],
)
def test_functions_that_are_loaded_by_name(
    small: Path, name: str, old: str, new: str, reruns: set[str]
) -> None:
    """Each counts with what it reaches; without a function the whole module does."""

    def params() -> dict[str, str]:
        entries = {f: f"{TABLES}:{f}" if f else TABLES for f in ("first", "second", "")}
        return {f: code_param(small, "draw", entry) for f, entry in entries.items()}

    before = params()
    edit(small, name, old, new)
    assert {f for f, param in params().items() if before[f] != param} == reruns


def test_names_of_what_counts(small: Path) -> None:
    entry = f"{TABLES}:first"
    found = code_identity(small, "draw", [entry])
    assert "isotropy/papers/one/tables.py:first" in found.files
    assert "isotropy/papers/one/tables.py" not in found.files
    assert "isotropy/papers/one/tables.py" in found.sha256
    assert "isotropy/papers/one/tables.py" not in found.machinery
    assert "isotropy/helper.py" not in found.files
    assert found.param() == f"{found.digest()} {entry}"
    both = code_identity(small, "draw", [entry, TABLES])
    assert "isotropy/papers/one/tables.py:first" not in both.files  # the whole is more
    assert "isotropy/papers/one/tables.py" in both.files
    edit(small, "isotropy/papers/one/tables.py", "DIGITS = 3", "from os.path import *")
    assert "isotropy/papers/one/tables.py" in code_identity(small, "draw", [entry]).files


def test_a_new_function_changes_no_other(small: Path) -> None:
    before = code_param(small, "draw", f"{TABLES}:first")
    tables = small / "isotropy/papers/one/tables.py"
    tables.write_text(
        "import isotropy.unseen as new\n" + tables.read_text() + "\n\ndef third(x):\n    new.X\n"
    )
    assert code_param(small, "draw", f"{TABLES}:first") == before
    assert "isotropy/unseen.py" in code_identity(small, "draw", [f"{TABLES}:third"]).files


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (
            f"{TABLES}:frist",
            "expected a function of isotropy.papers.one.tables, got 'frist': .*first",
        ),
        ("isotropy.papers.two", "expected a module of isotropy, got 'isotropy.papers.two'"),
        (
            "isotropy.job:Job",
            "expected a module that counts, got 'isotropy.job:Job': it is machinery",
        ),
        ("os.path:join", "expected a module of isotropy, got 'os.path'"),
    ],
)
def test_entries_that_name_nothing(small: Path, entry: str, message: str) -> None:
    with pytest.raises(IsotropyError, match=message):
        code_identity(small, "draw", [entry])


def test_what_is_no_python_is_named(small: Path) -> None:
    (small / "isotropy/metric.py").write_text("def score(:\n")
    with pytest.raises(IsotropyError, match=r"isotropy/metric.py is no Python: .*line 1"):
        code_identity(small, "make")
    with pytest.raises(LookupError, match="no rule"):
        code_identity(small, "no_such_rule")


def test_only_what_the_rule_names_is_loaded() -> None:
    entry = "isotropy.provenance.compare:shown"
    assert load("compare", ["isotropy.cli", entry])("abc") == "abc"
    assert load("compare", ["isotropy.provenance.compare"]).shown is not None
    for entries in ([], ["isotropy.provenance.diff"], [entry, "isotropy.provenance.compare"]):
        with pytest.raises(IsotropyError, match="expected one entry of a module compare"):
            load("compare", entries)


# The project itself


def rules(root: Path) -> list[str]:
    """Rules that run a script."""
    texts = [path.read_text("utf8") for path in sorted((root / "rules").glob("*.smk"))]
    found = [m for text in texts for m in re.split(r"^(?=rule )", text, flags=re.M)[1:]]
    return [m.split(":")[0].split()[1] for m in found if "\n    script:" in m]


def params(root: Path) -> dict[str, str]:
    return {rule: code_param(root, rule) for rule in rules(root)}


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory, project: Path) -> Path:
    """A checkout whose files a test may change for a while (`appended`)."""
    folder = tmp_path_factory.mktemp("code") / "checkout"
    shutil.copytree(project, folder, ignore=NOT_COPIED)
    return folder


@pytest.fixture(scope="module")
def before(copy: Path) -> dict[str, str]:
    return params(copy)


@contextmanager
def appended(path: Path, text: str) -> Iterator[None]:
    """Add to a file; put it back, with its time, so that it is not read once more."""
    data, stat = path.read_bytes(), path.stat()
    path.write_bytes(data + text.encode())
    try:
        yield
    finally:
        path.write_bytes(data)
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def rerun(copy: Path, before: dict[str, str], name: str, text: str) -> set[str]:
    """Rules that run again after an addition to a file."""
    with appended(copy / name, text):
        return {rule for rule, param in params(copy).items() if before[rule] != param}


@pytest.mark.parametrize(
    "name",
    [
        "isotropy/job.py",
        "isotropy/provenance/verify_bundle.py",
        "isotropy/metrics/silhouettes.py",
        "isotropy/spec.py",
    ],
)
def test_a_comment_reruns_nothing(copy: Path, before: dict[str, str], name: str) -> None:
    assert len(before) >= 20
    assert rerun(copy, before, name, '\n# a remark\n"""And one more."""\n') == set()


@pytest.mark.parametrize("name", [*MACHINERY, "isotropy.provenance.verify_bundle"])
def test_a_change_of_the_machinery_reruns_nothing(
    copy: Path, before: dict[str, str], name: str
) -> None:
    """But is noted, where jobs need it."""
    path = f"{name.replace('.', '/')}.py"
    assert rerun(copy, before, path, "\nCHANGED = True\n") == set()
    rule = "summarize_run" if name in OF_SUMMARIES else "prepare_words"
    old = code_identity(copy, rule).machinery
    with appended(copy / path, "\nCHANGED = True\n"):
        new = code_identity(copy, rule).machinery
    changed = [name for name in new if old[name] != new[name]]
    assert changed == ([path] if name in MACHINERY else [])


def test_a_change_of_a_metric_reruns_what_imports_it(copy: Path, before: dict[str, str]) -> None:
    path = "isotropy/metrics/silhouettes.py"
    importers = {rule for rule in before if path in code_identity(copy, rule).files}
    assert {"optimize_embeddings", "finetune_model", "measure_layer"} <= importers
    assert not {"fetch_source", "embed_tokens", "make_table", "draw_figure"} & importers
    assert rerun(copy, before, path, "\nCHANGED = True\n") == importers


@pytest.mark.parametrize("name", COUNTED_WITH_EVERY_JOB)
def test_what_counts_with_every_job(copy: Path, before: dict[str, str], name: str) -> None:
    path = f"{name.replace('.', '/')}.py"
    assert rerun(copy, before, path, "\nCHANGED = True\n") == before.keys()


def test_templates_count(copy: Path, before: dict[str, str]) -> None:
    """Layout, style and scripts of all pages; another page's template counts for that page."""
    for name in ("site.html", "site.css", "site.js", "site.sortable.js"):
        pages = rerun(copy, before, f"isotropy/report/{name}", "\n")
        assert pages == {"write_page", "write_overview"}, name
    assert rerun(copy, before, "isotropy/report/overview.html", "\n") == set()


def test_what_results_take_from_the_machinery(project: Path) -> None:
    """A job, an error, a record, a refused path: nothing else is imported from it by what counts,
    so that no bytes of outputs come from there unseen."""
    taken = set()
    for rule in rules(project):
        for name in code_identity(project, rule).files:
            if name.endswith(".py"):
                for node in ast.walk(ast.parse((project / name).read_text("utf8"))):
                    if isinstance(node, ast.ImportFrom) and node.module in MACHINERY:
                        taken |= {f"{node.module}.{alias.name}" for alias in node.names}
                    if isinstance(node, ast.Import):
                        taken |= {alias.name for alias in node.names} & MACHINERY.keys()
    assert taken <= {
        "isotropy.job.Job",
        "isotropy.errors.IsotropyError",
        "isotropy.errors.shown",
        "isotropy.errors.suggest",
        "isotropy.forkserver",
        "isotropy.provenance.audit.GOOD",
        "isotropy.provenance.audit.verify",
        "isotropy.provenance.chain.Chain",
        "isotropy.provenance.format.LEDGER",
        "isotropy.provenance.format.ledger_bytes",
        "isotropy.provenance.format.path_problem",
        "isotropy.provenance.format.read_ledger",
        "isotropy.provenance.record.Record",
        "isotropy.provenance.record.read_record",
    }
    assert "isotropy.job.Job" in taken


def test_modules_that_are_named_exist_and_say_why(project: Path) -> None:
    for name, reason in (MACHINERY | COUNTED_WITH_EVERY_JOB).items():
        assert (project / f"{name.replace('.', '/')}.py").is_file(), name
        assert len(reason.split()) >= 2
    assert not MACHINERY.keys() & COUNTED_WITH_EVERY_JOB.keys()


def test_no_module_is_machinery_by_chance(project: Path) -> None:
    """What the machinery imports is named itself, in one of the two lists, with a reason."""
    for rule in rules(project):
        names = MACHINERY.keys() - (set() if rule == "summarize_run" else OF_SUMMARIES.keys())
        names -= {"isotropy.forkserver"} if rule == "fetch_source" else set()  # needs no libraries
        named = {f"{name.replace('.', '/')}.py" for name in names}
        assert code_identity(project, rule).machinery.keys() == named


def test_files_are_parsed_once(project: Path) -> None:
    """The workflow is parsed often, before a run and in each job that it starts: the tree of a
    module is made for one rule, and not again for the next."""
    for cached in (code._text, code._source, code._imports_of, code._digest):
        cached.cache_clear()
    assert len(params(project)) >= 20
    modules = sum(1 for path in project.rglob("*.py") if ".venv" not in path.parts)
    for cached in (code._source, code._imports_of, code._digest):
        assert 0 < cached.cache_info().misses <= modules
        assert cached.cache_info().hits > 0
