"""Code identity: which changes of code rerun which rules."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from isotropy.errors import IsotropyError
from isotropy.provenance import code
from isotropy.provenance.code import code_identity, code_param, load
from isotropy.provenance.infrastructure import INFRASTRUCTURE
from tests.conftest import copy_checkout

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
def small_checkout(tmp_path: Path) -> Path:
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


def test_code_identity_contains_imported_files(small_checkout: Path) -> None:
    """Also through packages, relative imports and imports inside functions, and modules imported by
    infrastructure, but not infrastructure itself."""
    result = code_identity(small_checkout, "make")
    assert set(result.files) == {
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
    assert set(result.infrastructure) == {
        "isotropy/job.py",
        "isotropy/locks.py",
        "isotropy/provenance/record.py",
    }
    assert result.sha256.keys() == result.files.keys()
    assert result.modules == []


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
def test_rules_that_rerun_after_a_change(
    small_checkout: Path, name: str, old: str, new: str, reruns: set[str]
) -> None:
    before = {rule: code_param(small_checkout, rule) for rule in ("make", "draw")}
    edit(small_checkout, name, old, new)
    assert {rule for rule in before if code_param(small_checkout, rule) != before[rule]} == reruns


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
def test_code_parameter_depends_on_modules_loaded_by_name(
    small_checkout: Path, name: str, old: str, new: str, reruns: bool
) -> None:
    before = code_param(small_checkout, "draw", TABLES)
    assert before != code_param(small_checkout, "draw")
    edit(small_checkout, name, old, new)
    assert (code_param(small_checkout, "draw", TABLES) != before) == reruns


def test_code_parameter_contains_module_names(small_checkout: Path) -> None:
    result = code_identity(small_checkout, "draw", [TABLES])
    assert "isotropy/papers/one/tables.py" in result.files
    assert (
        result.param()
        == f"{result.digest()} {TABLES}"
        == code_param(small_checkout, "draw", TABLES)
    )


def test_rules_defined_in_a_loop_are_found(small_checkout: Path) -> None:
    """They are the same rule under different names."""
    first, other = (code_param(small_checkout, f"tables_{paper}") for paper in ("one", "other"))
    assert first == other != code_param(small_checkout, "draw")
    edit(small_checkout, "rules/make.smk", "Of one paper.", "Tables of one paper.")
    assert code_param(small_checkout, "tables_one") == first
    edit(small_checkout, "rules/make.smk", "        name:\n", "        threads: 2\n        name:\n")
    assert code_param(small_checkout, "tables_one") != first
    with pytest.raises(LookupError):
        code_param(small_checkout, "figures_one")


@pytest.mark.parametrize(
    ("module", "kind"),
    [
        ("isotropy.papers.two", "of isotropy"),
        ("os.path", "of isotropy"),
        ("isotropy.job", "that can change results"),
    ],
)
def test_invalid_module_names_are_rejected(small_checkout: Path, module: str, kind: str) -> None:
    with pytest.raises(IsotropyError, match=f"expected a module {kind}, got '{module}'"):
        code_identity(small_checkout, "draw", [module])


def test_syntax_error_names_the_file(small_checkout: Path) -> None:
    (small_checkout / "isotropy/metric.py").write_text("def score(:\n")
    with pytest.raises(IsotropyError, match=r"isotropy/metric.py is not valid Python: .*line 1"):
        code_identity(small_checkout, "make")
    with pytest.raises(LookupError, match="no rule"):
        code_identity(small_checkout, "no_such_rule")


def test_load_accepts_only_modules_of_the_rule() -> None:
    assert load("errors", ["isotropy.cli", "isotropy.errors"]).format_value("abc") == "'abc'"
    for modules in ([], ["isotropy.cli"], 2 * ["isotropy.errors"]):
        with pytest.raises(IsotropyError, match="expected one module errors"):
            load("errors", modules)


# The project itself


def rules(root: Path) -> list[str]:
    """List the rules that run a script; of rules defined in a loop, that of one paper."""
    texts = [path.read_text("utf8") for path in sorted((root / "rules").glob("*.smk"))]
    result = [m for text in texts for m in re.split(r"^(?=[ ]*rule\b)", text, flags=re.M)[1:]]
    named = (re.search(r'rule (\w+):|name:\s+f"(\w+){paper}"', m) for m in result if "script:" in m)
    return [m[1] or f"{m[2]}mickus2024" for m in named if m]


def params(root: Path) -> dict[str, str]:
    return {rule: code_param(root, rule) for rule in rules(root)}


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout whose files a test may change temporarily (see `appended`)."""
    return copy_checkout(tmp_path_factory.mktemp("code") / "checkout")


@pytest.fixture(scope="module")
def before(copy: Path) -> dict[str, str]:
    return params(copy)


@contextmanager
def appended(path: Path, text: str) -> Iterator[None]:
    """Append to a file; restore it at the end with its time, so that caches stay valid."""
    data, stat = path.read_bytes(), path.stat()
    path.write_bytes(data + text.encode())
    try:
        yield
    finally:
        path.write_bytes(data)
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def rerun(copy: Path, before: dict[str, str], name: str, text: str) -> set[str]:
    """Return the rules that rerun after text is appended to a file."""
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
def test_comments_rerun_nothing(copy: Path, before: dict[str, str], name: str) -> None:
    assert len(before) >= 20
    assert rerun(copy, before, name, '\n# a remark\n"""And one more."""\n') == set()


@pytest.mark.parametrize("name", [*INFRASTRUCTURE, "isotropy.provenance.verify_bundle"])
def test_changed_infrastructure_reruns_nothing(
    copy: Path, before: dict[str, str], name: str
) -> None:
    """The change is visible in the code identity of rules that use the module."""
    path = f"{name.replace('.', '/')}.py"
    assert rerun(copy, before, path, "\nCHANGED = True\n") == set()
    old = code_identity(copy, "summarize_run").infrastructure
    with appended(copy / path, "\nCHANGED = True\n"):
        new = code_identity(copy, "summarize_run").infrastructure
    changed = [name for name in new if old[name] != new[name]]
    assert changed == ([path] if name in INFRASTRUCTURE else [])


def test_changed_metric_reruns_its_importers(copy: Path, before: dict[str, str]) -> None:
    path = "isotropy/metrics/silhouettes.py"
    importers = {rule for rule in before if path in code_identity(copy, rule).files}
    assert {"optimize_embeddings", "finetune_model", "measure_layer"} <= importers
    assert not {"fetch_source", "embed_tokens", "draw_figures_mickus2024"} & importers
    assert rerun(copy, before, path, "\nCHANGED = True\n") == importers


@pytest.mark.parametrize(
    "name", ["files", "provenance.identity", "provenance.lineage", "scrub", "spec", "threads"]
)
def test_modules_that_rerun_every_rule(copy: Path, before: dict[str, str], name: str) -> None:
    """Ids, lineages, specs and thread limits affect the outputs of each job."""
    path = f"isotropy/{name.replace('.', '/')}.py"
    assert rerun(copy, before, path, "\nCHANGED = True\n") == before.keys()


def test_changed_templates_rerun_pages(copy: Path, before: dict[str, str]) -> None:
    """Layout, style and scripts affect all pages; other templates only their own page."""
    for name in ("site.html", "site.css", "site.js", "explore.uPlot.js"):
        pages = rerun(copy, before, f"isotropy/report/{name}", "\n")
        assert pages == {"write_pages"}, name
    assert rerun(copy, before, "isotropy/report/overview.html", "\n") == set()


def test_results_import_only_listed_names_from_infrastructure(project: Path) -> None:
    """Code that affects results imports only these names from infrastructure, none of which
    changes the content of outputs."""
    imported = set()
    for rule in rules(project):
        for name in code_identity(project, rule).files:
            if name.endswith(".py"):
                for node in ast.walk(ast.parse((project / name).read_text("utf8"))):
                    if isinstance(node, ast.ImportFrom) and node.module in INFRASTRUCTURE:
                        imported |= {f"{node.module}.{alias.name}" for alias in node.names}
                    if isinstance(node, ast.Import):
                        imported |= {alias.name for alias in node.names} & INFRASTRUCTURE.keys()
    assert imported <= {
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
    assert "isotropy.job.Job" in imported


def test_infrastructure_modules_exist_with_a_reason(project: Path) -> None:
    for name, reason in INFRASTRUCTURE.items():
        assert (project / f"{name.replace('.', '/')}.py").is_file(), name
        assert len(reason.split()) >= 2


def test_no_result_depends_on_docstrings(project: Path) -> None:
    """Docstrings are not part of code digests. Those that are captions are part of specs."""
    for rule in rules(project):
        for name in code_identity(project, rule).files:
            text = (project / name).read_text("utf8")
            assert not re.search(r"\b(__doc__|getdoc)\b", text), name


def test_modules_are_parsed_once(project: Path) -> None:
    """Syntax trees are cached across rules, because the workflow is parsed before a run and in each
    job."""
    for cached in (code._read, code._tree, code._imports, code._digest):
        cached.cache_clear()
    assert len(params(project)) >= 20
    modules = sum(1 for path in project.rglob("*.py") if ".venv" not in path.parts)
    for cached in (code._tree, code._imports, code._digest):
        assert 0 < cached.cache_info().misses <= modules
        assert cached.cache_info().hits > 0
