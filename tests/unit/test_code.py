"""Code identity: which changes of code rerun which rules."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from isotropy.errors import IsotropyError
from replication.provenance.code import INFRASTRUCTURE, Codebase, load

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
        '"""Makes one."""\n\nfrom replication.job import Job\nfrom isotropy.stage import work\n\n'
        "with Job(snakemake) as job:\n    work(job)\n"
    ),
    "scripts/draw.py": (
        "from replication.job import Job\n\nwith Job(snakemake) as job:\n    job.load('x')\n"
    ),
    "isotropy/__init__.py": "",
    "replication/__init__.py": "",
    "replication/job.py": (
        "from replication.provenance import record\nfrom replication.resources import lock\n"
        "from replication.spec import Spec\n"
    ),
    "replication/resources.py": "def lock(): pass\n",
    "replication/spec.py": "class Spec: pass\n",
    "replication/provenance/__init__.py": "",
    "replication/provenance/record.py": "import replication.provenance.identity\n",
    "replication/provenance/identity.py": "MARK = 'mark'\n",
    "isotropy/stage/__init__.py": "from .work import work\n",
    "isotropy/stage/work.py": (
        "def work(job):\n    from ..metric import score\n    return score(job)\n"
    ),
    "isotropy/stage/work.csv": "a,b\n",
    "isotropy/stage/work.txt": "not a template\n",
    "isotropy/unseen.py": "X = 1\n",
    "isotropy/metric.py": "def score(x):\n    return x\n",
    "replication/papers/__init__.py": "",
    "replication/papers/one/__init__.py": "",
    "replication/papers/one/tables.py": (
        "from isotropy.metric import score\nfrom isotropy.helper import mean\n\n"
        "DIGITS = 3\n\n\ndef first(x):\n    return score(x)\n\n\n"
        "def second(x):\n    return round(mean(x), DIGITS)\n"
    ),
    "isotropy/helper.py": "def mean(x):\n    return sum(x) / len(x)\n",
}
TABLES = "replication.papers.one.tables"


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
    result = Codebase(small_checkout).code("make")
    assert set(result.files) == {
        *("scripts/make.py", "isotropy/__init__.py", "isotropy/metric.py"),
        *(f"isotropy/stage/{name}" for name in ("__init__.py", "work.py", "work.csv")),
        *(f"replication/{name}" for name in ("__init__.py", "spec.py")),
        *(f"replication/provenance/{name}" for name in ("__init__.py", "identity.py")),
    }
    infrastructure = {"job.py", "resources.py", "provenance/record.py"}
    assert set(result.infrastructure) == {f"replication/{name}" for name in infrastructure}
    assert result.sha256.keys() == result.files.keys()


@pytest.mark.parametrize(
    ("name", "old", "new", "reruns"),
    [
        ("isotropy/metric.py", "return x", "return x + 1", {"make"}),
        ("isotropy/metric.py", "def score", "# the score\ndef score", set()),
        ("isotropy/metric.py", "    return", '    """Score."""\n    return', set()),
        ("isotropy/stage/work.csv", "a,b", "a,c", {"make"}),
        ("isotropy/stage/work.txt", "not", "no", set()),
        ("isotropy/unseen.py", "1", "2", set()),
        ("replication/job.py", "Spec\n", "Spec\n\nprint('a real change')\n", set()),
        ("replication/resources.py", "pass", "return 1", set()),
        ("replication/provenance/record.py", "import", "print(1)\nimport", set()),
        ("replication/provenance/identity.py", "'mark'", "'other'", {"make", "draw"}),
        ("replication/spec.py", "pass", "x = 1", {"make", "draw"}),
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
    before = {rule: Codebase(small_checkout).code(rule).param() for rule in ("make", "draw")}
    edit(small_checkout, name, old, new)
    assert {
        rule for rule in before if Codebase(small_checkout).code(rule).param() != before[rule]
    } == reruns


@pytest.mark.parametrize(
    ("name", "old", "new", "reruns"),
    [
        ("replication/papers/one/tables.py", "score(x)", "score(2 * x)", True),
        ("replication/papers/one/tables.py", "DIGITS = 3", "DIGITS = 3  # of all", False),
        ("isotropy/helper.py", "len(x)", "max(1, len(x))", True),
        ("replication/papers/__init__.py", "", "import os\n", True),
        ("isotropy/unseen.py", "X = 1", "X = 2", False),
    ],
)
def test_code_parameter_depends_on_modules_loaded_by_name(
    small_checkout: Path, name: str, old: str, new: str, reruns: bool
) -> None:
    before = Codebase(small_checkout).code("draw", TABLES).param()
    assert before != Codebase(small_checkout).code("draw").param()
    edit(small_checkout, name, old, new)
    assert (Codebase(small_checkout).code("draw", TABLES).param() != before) == reruns


def test_code_parameter_contains_module_names(small_checkout: Path) -> None:
    result = Codebase(small_checkout).code("draw", TABLES)
    assert "replication/papers/one/tables.py" in result.files
    assert result.param() == f"{result.digest()} {TABLES}"


@pytest.mark.parametrize("module", ["replication.papers.two", "os.path", "replication.job"])
def test_invalid_module_names_are_rejected(small_checkout: Path, module: str) -> None:
    with pytest.raises(IsotropyError, match=f"'{module}'"):
        Codebase(small_checkout).code("draw", module)


def test_syntax_error_names_the_file(small_checkout: Path) -> None:
    (small_checkout / "isotropy/metric.py").write_text("def score(:\n")
    with pytest.raises(IsotropyError, match=r"metric\.py.*line 1"):
        Codebase(small_checkout).code("make")
    with pytest.raises(LookupError, match="no rule"):
        Codebase(small_checkout).code("no_such_rule")


def test_load_accepts_only_modules_of_the_rule() -> None:
    assert load("errors", ["replication.cli", "isotropy.errors"]).format_value("abc") == "'abc'"
    for modules in ([], ["replication.cli"], 2 * ["isotropy.errors"]):
        with pytest.raises(IsotropyError, match="one module"):
            load("errors", modules)


# The project itself


def rules(root: Path) -> list[str]:
    """List the rules that run a script; of rules defined in a loop, that of one paper."""
    texts = [path.read_text("utf8") for path in sorted((root / "rules").glob("*.smk"))]
    result = [m for text in texts for m in re.split(r"^(?=[ ]*rule\b)", text, flags=re.M)[1:]]
    named = (re.search(r'rule (\w+):|name:\s+f"(\w+){paper}"', m) for m in result if "script:" in m)
    return [m[1] or f"{m[2]}mickus2024" for m in named if m]


@pytest.fixture(scope="module")
def sources(project: Path) -> dict[str, str]:
    """Text of each module on which a result depends."""
    codebase = Codebase(project)
    names = {name for rule in rules(project) for name in codebase.code(rule).files}
    return {n: (project / n).read_text("utf8") for n in names if n.endswith(".py")}


def test_results_import_only_listed_names_from_infrastructure(sources: dict[str, str]) -> None:
    """None of them changes the content of outputs."""
    imported = set()
    for text in sources.values():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and node.module in INFRASTRUCTURE:
                imported |= {f"{node.module}.{alias.name}" for alias in node.names}
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names} & INFRASTRUCTURE.keys()
    assert imported <= {
        "replication.job.Job",
        "replication.job.jobs",
        "isotropy.errors.IsotropyError",
        "isotropy.errors.first_line",
        "isotropy.errors.format_value",
        "isotropy.errors.suggest",
        "replication.provenance.audit.GOOD",
        "replication.provenance.audit.verify",
        "replication.provenance.graph.RecordGraph",
        "replication.provenance.format.LEDGER",
        "replication.provenance.format.ledger_bytes",
        "replication.provenance.format.path_problem",
        "replication.provenance.format.read_ledger",
        "replication.provenance.record.Record",
        "replication.provenance.record.read_record",
    }
    assert "replication.job.Job" in imported


def test_no_result_depends_on_docstrings(sources: dict[str, str]) -> None:
    """Docstrings are not part of code digests. Those that are captions are part of specs."""
    for name, text in sources.items():
        assert not re.search(r"\b(__doc__|getdoc)\b", text), name
