"""Digests of code: which edits change them, on difficult cases."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from replication.provenance.syntax import rule_digest, rule_text, tree_digest

EQUIVALENT = {
    "comments": ("x = []", "# why\nx = []  # type: list[int]"),
    "docstring of a module": ("x = 1", '"""What."""\nx = 1'),
    "docstring of a function": ("def f(): return 1", 'def f():\n """W."""\n return 1'),
    "raw docstring": ("def f(): return 1", 'def f():\n r"""\\d"""\n return 1'),
    "docstring of pieces": ("def f(): return 1", 'def f():\n ("a" \n "b")\n return 1'),
    "docstring of a nested function": (
        "def f():\n def g():\n  return 1\n return g",
        'def f():\n def g():\n  "Doc."\n  return 1\n return g',
    ),
    "docstring of an async function": (
        "async def f(): return 1",
        "async def f():\n 'D'\n return 1",
    ),
    "docstring of an attribute": (
        "class A:\n x: int = 1",
        'class A:\n """A."""\n\n x: int = 1\n """Its x."""',
    ),
    "docstring of a variable": ("X = 1", 'X = 1\n"""The one."""'),
    "body of a docstring alone": ("def f(): pass", 'def f(): "Doc."'),
    "body of a docstring and pass": ("class A: 'Doc.'", "class A:\n 'Doc.'\n pass"),
    "layout": (
        "if x:\n f(1, 'é')\n g(1 + 2)\n",
        '# coding: utf-8\n\nif x:\n\tf(\n\t\t1,\n\t\tu"""\\u00e9""",\n\t); g((1 + \\\n2))',
    ),
    "numbers": ("x = 1000", "x = 1_000"),
    "joined strings": ("x = 'ab'", "x = ('a'\n 'b')"),
    "joined strings with fields": ("x = f'a{b}c'", "x = ('a'\n f'{b}' 'c')"),
    "empty format": ("x = f'{b}'", "x = f'{b:}'"),
    "docstrings in branches": ("if x:\n y = 1", "if x:\n y = 1\n 'why'"),
    "docstrings in handlers": (
        "try: f()\nexcept E: g()",
        "try:\n 'a'\n f()\nexcept E:\n 'b'\n g()",
    ),
    "docstrings in cases": ("match x:\n case 1: f()", "match x:\n case 1:\n  'one'\n  f()"),
}
DIFFERENT = {
    "string that is assigned": ("x = 'a'", "x = 'b'"),
    "string that is returned": ("def f(): return 'a'", "def f(): return 'b'"),
    "string that is passed": ("f('a')", "f('b')"),
    "string in a tuple": ("x = 1\n'a',", "x = 1\n'b',"),
    "string as a default": ("def f(x='a'): pass", "def f(x='b'): pass"),
    "string that is compared": ("assert x == 'a'", "assert x == 'b'"),
    "string that is joined to": ("'a' + x", "'b' + x"),
    "string with fields at the start": ("def f(x): f'{x()}'", "def f(x): f'{x}'"),
    "string with fields instead of none": ("def f(x): 'x'", "def f(x): f'{x}'"),
    "conversion": ("x = f'{b!r}'", "x = f'{b!s}'"),
    "format": ("x = f'{b:>3}'", "x = f'{b:>4}'"),
    "format with a field": ("x = f'{b:{c}}'", "x = f'{b:{d}}'"),
    "text or field": ("x = f'{{b}}'", "x = f'{b}'"),
    "bytes or text": ("x = b'a'", "x = 'a'"),
    "kind of number": ("x = 1", "x = 1.0"),
    "truth or number": ("x = True", "x = 1"),
    "sign of zero": ("x = 0.0", "x = -0.0"),
    "default": ("def f(x=1): pass", "def f(x=2): pass"),
    "default of a keyword": ("def f(*, x=1): pass", "def f(*, x): pass"),
    "annotation": ("def f(x: int): pass", "def f(x: float): pass"),
    "annotation of the result": ("def f() -> int: pass", "def f(): pass"),
    "decorator": ("@a\ndef f(): pass", "@b\ndef f(): pass"),
    "order of decorators": ("@a\n@b\ndef f(): pass", "@b\n@a\ndef f(): pass"),
    "name of a variable": ("def f(): x = 1", "def f(): y = 1"),
    "order of statements": ("f()\ng()", "g()\nf()"),
    "indentation that means": ("if x:\n f()\ng()", "if x:\n f()\n g()"),
    "brackets that mean": ("x = 1 - (2 - 3)", "x = 1 - 2 - 3"),
    "tuple or value": ("x = (7)", "x = (7,)"),
    "operator": ("x = a // b", "x = a / b"),
    "spread in a dictionary": ("x = {**a, 'b': c}", "x = {'b': c, **a}"),
    "finally": ("try: f()\nfinally: g()", "try:\n f()\n g()\nfinally: pass"),
    "relative import": ("from .a import b", "from a import b"),
    "dots that are shown": ("def f(): ...", "def f(): return ..."),
}
CASES = {**EQUIVALENT, **DIFFERENT}


def digest(text: str) -> str:
    return tree_digest(ast.parse(text))


@pytest.mark.parametrize("case", CASES)
def test_digest_differs_where_code_does(case: str) -> None:
    a, b = CASES[case]
    assert (digest(a) == digest(b)) == (case in EQUIVALENT)


def test_digests_of_all_cases_differ() -> None:
    """A digest that drops too much would make some of these equal."""
    texts = {digest(a) for a, _ in DIFFERENT.values()}
    assert len(texts) == len({a for a, _ in DIFFERENT.values()})


def test_digest_of_an_example_has_not_changed() -> None:
    """Another serialization of syntax trees would make all existing results stale."""
    text = "from a import b\n\n\ndef f(x: int = 1, *, y: str = f'{b!r:>{x}}') -> None:\n    b[x:]\n"
    assert digest(text) == "238a1dd60aca78b464cda57842d2354ee197a20d956cbf3b8f278869bee03e57"


def other_python(version: str) -> str | None:
    """Find another Python on this machine, also an inactive one of pyenv."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    pyenv_commands = [str(path) for path in sorted(root.glob(f"versions/{version}.*/bin/python"))]
    for command in [*pyenv_commands, f"python{version}"]:
        path = shutil.which(command)
        if path and subprocess.run([path, "-V"], capture_output=True).returncode == 0:
            return path
    return None


DIGESTS = """
import ast, json, sys
sys.dont_write_bytecode = True
sys.path.insert(0, ".")
from replication.provenance.syntax import rule_digest, rule_text, tree_digest
texts, rules = json.load(sys.stdin)
print(*(tree_digest(ast.parse(text)) for text in texts))
print(*(rule_digest(rule_text(*rule)) for rule in rules))
"""


@pytest.mark.parametrize("version", ["3.12", "3.13", "3.14"])
def test_other_versions_of_python_agree(version: str, project: Path) -> None:
    """Other installed Pythons give the same digests of all cases, modules and rules."""
    python = other_python(version)
    if python is None:
        pytest.skip(f"there is no Python {version} here")
    folders = [project / "isotropy/metrics", project / "replication/provenance"]
    files = [path.read_text("utf8") for folder in folders for path in sorted(folder.glob("*.py"))]
    texts = [*files, *(text for pair in CASES.values() for text in pair)]
    rule_files = [path.read_text("utf8") for path in sorted((project / "rules").glob("*.smk"))]
    rules = [(text, rule) for text in rule_files for rule in re.findall(r"rule (\w+):", text)]
    here = [digest(text) for text in texts]
    here += [rule_digest(rule_text(*rule) or "") for rule in rules]
    assert len(set(here)) > len(DIFFERENT) + len(files) + len(rules) / 2
    other = subprocess.run(
        [python, "-I", "-c", DIGESTS],
        cwd=project,
        input=json.dumps([texts, rules]),
        capture_output=True,
        text=True,
    )
    assert other.stdout.split() == here, other.stderr


RULE = '''rule make:
    """Makes one."""
    input:
        a="a.txt",  # the first
        b=f"{x}.txt",
    output:
        "b.txt",
    resources:
        mem_mb=1000,
    log:
        "make.log",
    script:
        "../scripts/make.py"


rule other:
    output:
        "c.txt",
'''


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("Makes one.", "Makes another.", True),
        ('    """Makes one."""\n', "", True),
        ("  # the first", "", True),
        ("        mem_mb", "        # enough\n\n        mem_mb", True),
        ("    resources", "# at the margin\n    resources", True),
        ("        mem_mb=1000,\n", "        mem_mb = 1000,\n\n", True),
        ("mem_mb=1000", "mem_mb=2000", False),
        ('"make.log"', '"made.log"', False),
        ('a="a.txt"', 'b="a.txt"', False),
        ('f"{x}.txt"', 'f"{y}.txt"', False),
        ('f"{x}.txt"', '"{x}.txt"', False),
        ('"c.txt"', '"d.txt"', True),  # of another rule
    ],
)
def test_digest_of_a_rule_ignores_comments_and_docstrings(old: str, new: str, same: bool) -> None:
    assert old in RULE
    before, after = rule_text(RULE, "make"), rule_text(RULE.replace(old, new), "make")
    assert before is not None
    assert after is not None
    assert (rule_digest(before) == rule_digest(after)) == same


def test_rule_text_is_found_by_the_whole_name() -> None:
    assert rule_text(RULE, "mak") is None
    assert (rule_text(RULE, "other") or "").rstrip().endswith('"c.txt",')
    assert "rule other" not in (rule_text(RULE, "make") or "")
