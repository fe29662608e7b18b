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
from isotropy.provenance.infrastructure import INFRASTRUCTURE
from tests.conftest import NOT_COPIED

SMALL = {
    "rules/make.smk": (
        'rule make:\n    """Makes one."""\n    output:\n        "a.txt",\n'
        '    script:\n        "../scripts/make.py"\n\n\n'
        'rule draw:\n    script:\n        "../scripts/draw.py"\n\n\n'
        'for paper in PAPERS:\n\n    rule:\n        """Of one paper."""\n'
        '        name:\n            f"tables_{paper}"\n        script:\n'
        '            "../scripts/draw.py"\n'
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
        "from isotropy.provenance import record\nfrom isotropy.locks import lock\n"
        "from isotropy.spec import Spec\n"
    ),
    "isotropy/locks.py": "def lock(): pass\n",
    "isotropy/spec.py": "class Spec: pass\n",
    "isotropy/provenance/__init__.py": "",
    "isotropy/provenance/record.py": "import isotropy.provenance.identity\n",
    "isotropy/provenance/identity.py": "MARK = 'mark'\n",
    "isotropy/stage/__init__.py": "from .work import work\n",
    "isotropy/stage/work.py": (
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
    """By way of packages, relative imports and imports in functions; also what only infrastructure
    imports, but for infrastructure itself."""
    found = code_identity(small, "make")
    assert set(found.files) == {
        "scripts/make.py",
        "isotropy/__init__.py",
        "isotropy/spec.py",
        "isotropy/stage/__init__.py",
        "isotropy/stage/work.py",
        "isotropy/stage/work.csv",
        "isotropy/metric.py",
        "isotropy/provenance/__init__.py",
        "isotropy/provenance/identity.py",
    }
    assert set(found.infrastructure) == {
        "isotropy/job.py",
        "isotropy/locks.py",
        "isotropy/provenance/record.py",
    }
    assert found.sha256.keys() == found.files.keys()
    assert found.modules == []


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
        ("isotropy/locks.py", "pass", "return 1", set()),
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
        ("isotropy/papers/one/tables.py", "score(x)", "score(2 * x)", True),
        ("isotropy/papers/one/tables.py", "DIGITS = 3", "DIGITS = 3  # of all", False),
        ("isotropy/helper.py", "len(x)", "max(1, len(x))", True),
        ("isotropy/papers/__init__.py", "", "import os\n", True),
        ("isotropy/unseen.py", "X = 1", "X = 2", False),
    ],
)
def test_modules_loaded_by_name(small: Path, name: str, old: str, new: str, reruns: bool) -> None:
    before = code_param(small, "draw", TABLES)
    assert before != code_param(small, "draw")
    edit(small, name, old, new)
    assert (code_param(small, "draw", TABLES) != before) == reruns


def test_the_parameter_names_the_modules(small: Path) -> None:
    found = code_identity(small, "draw", [TABLES])
    assert "isotropy/papers/one/tables.py" in found.files
    assert found.param() == f"{found.digest()} {TABLES}" == code_param(small, "draw", TABLES)


def test_rules_of_a_loop_are_found_by_their_names(small: Path) -> None:
    """Each is the same rule with another name."""
    one, other = (code_param(small, f"tables_{paper}") for paper in ("one", "other"))
    assert one == other != code_param(small, "draw")
    edit(small, "rules/make.smk", "Of one paper.", "Tables of one paper.")
    assert code_param(small, "tables_one") == one
    edit(small, "rules/make.smk", "        name:\n", "        threads: 2\n        name:\n")
    assert code_param(small, "tables_one") != one
    with pytest.raises(LookupError):
        code_param(small, "figures_one")


@pytest.mark.parametrize(
    ("module", "kind"),
    [
        ("isotropy.papers.two", "of isotropy"),
        ("os.path", "of isotropy"),
        ("isotropy.job", "that can change results"),
    ],
)
def test_modules_that_cannot_be_named(small: Path, module: str, kind: str) -> None:
    with pytest.raises(IsotropyError, match=f"expected a module {kind}, got '{module}'"):
        code_identity(small, "draw", [module])


def test_what_is_no_python_is_named(small: Path) -> None:
    (small / "isotropy/metric.py").write_text("def score(:\n")
    with pytest.raises(IsotropyError, match=r"isotropy/metric.py is no Python: .*line 1"):
        code_identity(small, "make")
    with pytest.raises(LookupError, match="no rule"):
        code_identity(small, "no_such_rule")


def test_only_what_the_rule_names_is_loaded() -> None:
    assert load("errors", ["isotropy.cli", "isotropy.errors"]).format_value("abc") == "'abc'"
    for modules in ([], ["isotropy.cli"], 2 * ["isotropy.errors"]):
        with pytest.raises(IsotropyError, match="expected one module errors"):
            load("errors", modules)


# The project itself


def rules(root: Path) -> list[str]:
    """Rules that run a script; those of a loop for one paper."""
    texts = [path.read_text("utf8") for path in sorted((root / "rules").glob("*.smk"))]
    found = [m for text in texts for m in re.split(r"^(?=[ ]*rule\b)", text, flags=re.M)[1:]]
    named = (re.search(r'rule (\w+):|name:\s+f"(\w+){paper}"', m) for m in found if "script:" in m)
    return [m[1] or f"{m[2]}mickus2024" for m in named if m]


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


@pytest.mark.parametrize("name", [*INFRASTRUCTURE, "isotropy.provenance.verify_bundle"])
def test_a_change_of_infrastructure_reruns_nothing(
    copy: Path, before: dict[str, str], name: str
) -> None:
    """But is noted, where jobs need it."""
    path = f"{name.replace('.', '/')}.py"
    assert rerun(copy, before, path, "\nCHANGED = True\n") == set()
    old = code_identity(copy, "summarize_run").infrastructure
    with appended(copy / path, "\nCHANGED = True\n"):
        new = code_identity(copy, "summarize_run").infrastructure
    changed = [name for name in new if old[name] != new[name]]
    assert changed == ([path] if name in INFRASTRUCTURE else [])


def test_a_change_of_a_metric_reruns_what_imports_it(copy: Path, before: dict[str, str]) -> None:
    path = "isotropy/metrics/silhouettes.py"
    importers = {rule for rule in before if path in code_identity(copy, rule).files}
    assert {"optimize_embeddings", "finetune_model", "measure_layer"} <= importers
    assert not {"fetch_source", "embed_tokens", "draw_figures_mickus2024"} & importers
    assert rerun(copy, before, path, "\nCHANGED = True\n") == importers


@pytest.mark.parametrize(
    "name", ["files", "provenance.identity", "provenance.lineage", "scrub", "spec", "threads"]
)
def test_what_counts_with_every_job(copy: Path, before: dict[str, str], name: str) -> None:
    """Ids, lineages, specs and limits of threads reach outputs of each job."""
    path = f"isotropy/{name.replace('.', '/')}.py"
    assert rerun(copy, before, path, "\nCHANGED = True\n") == before.keys()


def test_templates_count(copy: Path, before: dict[str, str]) -> None:
    """Layout, style and scripts of all pages; another page's template counts for that page."""
    for name in ("site.html", "site.css", "site.js", "site.sortable.js"):
        pages = rerun(copy, before, f"isotropy/report/{name}", "\n")
        assert pages == {"write_pages"}, name
    assert rerun(copy, before, "isotropy/report/overview.html", "\n") == set()


def test_what_results_take_from_infrastructure(project: Path) -> None:
    """A job, an error, a record, a refused path: nothing else is imported from it by what counts,
    so that no bytes of outputs come from there unseen."""
    taken = set()
    for rule in rules(project):
        for name in code_identity(project, rule).files:
            if name.endswith(".py"):
                for node in ast.walk(ast.parse((project / name).read_text("utf8"))):
                    if isinstance(node, ast.ImportFrom) and node.module in INFRASTRUCTURE:
                        taken |= {f"{node.module}.{alias.name}" for alias in node.names}
                    if isinstance(node, ast.Import):
                        taken |= {alias.name for alias in node.names} & INFRASTRUCTURE.keys()
    assert taken <= {
        "isotropy.job.Job",
        "isotropy.job.jobs",
        "isotropy.errors.IsotropyError",
        "isotropy.errors.format_value",
        "isotropy.errors.suggest",
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


def test_infrastructure_is_there_and_says_why(project: Path) -> None:
    for name, reason in INFRASTRUCTURE.items():
        assert (project / f"{name.replace('.', '/')}.py").is_file(), name
        assert len(reason.split()) >= 2


def test_no_job_reads_docstrings(project: Path) -> None:
    """They are no part of a digest, so no output may depend on one."""
    for rule in rules(project):
        for name in code_identity(project, rule).files:
            text = (project / name).read_text("utf8")
            assert not re.search(r"\b(__doc__|getdoc)\b", text), name


def test_files_are_parsed_once(project: Path) -> None:
    """The workflow is parsed often, before a run and in each job that it starts: the tree of a
    module is made for one rule, and not again for the next."""
    for cached in (code._read, code._tree, code._imports, code._digest):
        cached.cache_clear()
    assert len(params(project)) >= 20
    modules = sum(1 for path in project.rglob("*.py") if ".venv" not in path.parts)
    for cached in (code._tree, code._imports, code._digest):
        assert 0 < cached.cache_info().misses <= modules
        assert cached.cache_info().hits > 0
