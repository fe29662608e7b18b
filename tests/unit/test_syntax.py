"""Digests of code: which edits change them, on difficult cases."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from replication.provenance.syntax import rule_digest, rule_text, tree_digest

EQUIVALENT = {
    "comments": ("x = 1\n", "# why\nx = 1  # how\n"),
    "docstring of a module": ("x = 1\n", '"""What."""\nx = 1\n'),
    "docstring of a function": (
        "def f():\n    return 1\n",
        'def f():\n    """W."""\n    return 1\n',
    ),
    "docstring of a nested function": (
        "def f():\n    def g():\n        return 1\n    return g\n",
        'def f():\n    def g():\n        "Doc."\n        return 1\n    return g\n',
    ),
    "docstring of an async function": (
        "async def f():\n    return 1\n",
        "async def f():\n    '''D'''\n    return 1\n",
    ),
    "docstring of an attribute": (
        "class A:\n    x: int = 1\n",
        'class A:\n    """A."""\n\n    x: int = 1\n    """Its x."""\n',
    ),
    "docstring of a variable": ("X = 1\n", 'X = 1\n"""The one."""\n'),
    "raw docstring": ("def f():\n    return 1\n", 'def f():\n    r"""\\d"""\n    return 1\n'),
    "docstring of pieces": (
        "def f():\n    return 1\n",
        'def f():\n    ("a" \n     "b")\n    return 1\n',
    ),
    "body of a docstring alone": ("def f():\n    pass\n", 'def f():\n    "Doc."\n'),
    "body of a docstring and pass": ("class A:\n    'Doc.'\n", "class A:\n    'Doc.'\n    pass\n"),
    "blank lines and indentation": ("if x:\n    f()\n    g()\n", "\n\nif x:\n\tf()\n\n\tg()\n"),
    "semicolons": ("a = 1\nb = 2\n", "a = 1; b = 2\n"),
    "line continuation": ("x = 1 + 2\n", "x = 1 + \\\n    2\n"),
    "brackets over lines": ("f(1, 2)\n", "f(\n    1,\n    2,\n)\n"),
    "brackets that group": ("x = 1 + 2\n", "x = (1 + 2)\n"),
    "quotes": ("x = 'a'\n", 'x = """a"""\n'),
    "joined strings": ("x = 'ab'\n", "x = ('a'\n     'b')\n"),
    "joined strings with fields": ("x = f'a{b}c'\n", "x = ('a'\n     f'{b}' 'c')\n"),
    "empty format": ("x = f'{b}'\n", "x = f'{b:}'\n"),
    "escapes": ("x = 'é'\n", "x = '\\u00e9'\n"),
    "prefix of strings": ("x = 'a'\n", "x = u'a'\n"),
    "numbers": ("x = 1000\n", "x = 1_000\n"),
    "comment on types": ("x = []\n", "x = []  # type: list[int]\n"),
    "encoding": ("x = 'é'\n", "# -*- coding: utf-8 -*-\nx = 'é'\n"),
    "end of file": ("x = 1\n", "x = 1"),
    "docstrings in branches": ("if x:\n    y = 1\n", "if x:\n    y = 1\n    'why'\n"),
    "docstrings in handlers": (
        "try:\n    f()\nexcept E:\n    g()\n",
        "try:\n    'a'\n    f()\nexcept E:\n    'b'\n    g()\n",
    ),
    "docstrings in cases": (
        "match x:\n    case 1:\n        f()\n",
        "match x:\n    case 1:\n        'one'\n        f()\n",
    ),
}
DIFFERENT = {
    "string that is assigned": ("x = 'a'\n", "x = 'b'\n"),
    "string that is returned": ("def f():\n    return 'a'\n", "def f():\n    return 'b'\n"),
    "string that is passed": ("f('a')\n", "f('b')\n"),
    "string in a tuple": ("x = 1\n'a',\n", "x = 1\n'b',\n"),
    "string as a default": ("def f(x='a'):\n    pass\n", "def f(x='b'):\n    pass\n"),
    "string that is compared": ("assert x == 'a'\n", "assert x == 'b'\n"),
    "string that is joined to": ("'a' + x\n", "'b' + x\n"),
    "string with fields at the start": ("def f(x):\n    f'{x()}'\n", "def f(x):\n    f'{x}'\n"),
    "string with fields instead of none": ("def f(x):\n    'x'\n", "def f(x):\n    f'{x}'\n"),
    "conversion": ("x = f'{b!r}'\n", "x = f'{b!s}'\n"),
    "format": ("x = f'{b:>3}'\n", "x = f'{b:>4}'\n"),
    "format with a field": ("x = f'{b:{c}}'\n", "x = f'{b:{d}}'\n"),
    "text or field": ("x = f'{{b}}'\n", "x = f'{b}'\n"),
    "bytes or text": ("x = b'a'\n", "x = 'a'\n"),
    "kind of number": ("x = 1\n", "x = 1.0\n"),
    "truth or number": ("x = True\n", "x = 1\n"),
    "sign of zero": ("x = 0.0\n", "x = -0.0\n"),
    "default": ("def f(x=1):\n    pass\n", "def f(x=2):\n    pass\n"),
    "default of a keyword": ("def f(*, x=1):\n    pass\n", "def f(*, x):\n    pass\n"),
    "annotation": ("def f(x: int):\n    pass\n", "def f(x: float):\n    pass\n"),
    "annotation of the result": ("def f() -> int:\n    pass\n", "def f():\n    pass\n"),
    "decorator": ("@a\ndef f():\n    pass\n", "@b\ndef f():\n    pass\n"),
    "order of decorators": ("@a\n@b\ndef f():\n    pass\n", "@b\n@a\ndef f():\n    pass\n"),
    "name of a variable": ("def f():\n    x = 1\n", "def f():\n    y = 1\n"),
    "order of statements": ("f()\ng()\n", "g()\nf()\n"),
    "indentation that means": ("if x:\n    f()\ng()\n", "if x:\n    f()\n    g()\n"),
    "brackets that mean": ("x = 1 - (2 - 3)\n", "x = 1 - 2 - 3\n"),
    "tuple or value": ("x = (7)\n", "x = (7,)\n"),
    "operator": ("x = a // b\n", "x = a / b\n"),
    "spread in a dictionary": ("x = {**a, 'b': c}\n", "x = {'b': c, **a}\n"),
    "finally": (
        "try:\n    f()\nfinally:\n    g()\n",
        "try:\n    f()\n    g()\nfinally:\n    pass\n",
    ),
    "relative import": ("from .a import b\n", "from a import b\n"),
    "dots that are shown": ("def f():\n    ...\n", "def f():\n    return ...\n"),
}


def digest(text: str) -> str:
    return tree_digest(ast.parse(text))


@pytest.mark.parametrize("case", EQUIVALENT)
def test_equivalent_code_has_the_same_digest(case: str) -> None:
    a, b = EQUIVALENT[case]
    assert digest(a) == digest(b)


@pytest.mark.parametrize("case", DIFFERENT)
def test_different_code_has_another_digest(case: str) -> None:
    a, b = DIFFERENT[case]
    assert digest(a) != digest(b)


def test_digests_of_all_cases_differ() -> None:
    """A digest that drops too much would make some of these equal."""
    texts = {digest(a) for a, _ in DIFFERENT.values()}
    assert len(texts) == len({a for a, _ in DIFFERENT.values()})


def test_digest_of_an_example_has_not_changed() -> None:
    """Another serialization of syntax trees would make all existing results stale."""
    text = "from a import b\n\n\ndef f(x: int = 1, *, y: str = f'{b!r:>{x}}') -> None:\n    b[x:]\n"
    assert digest(text) == KNOWN


KNOWN = "238a1dd60aca78b464cda57842d2354ee197a20d956cbf3b8f278869bee03e57"


def other_python(version: str) -> str | None:
    """Find another Python on this machine, also an inactive one of pyenv."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    pyenv_commands = [str(path) for path in sorted(root.glob(f"versions/{version}.*/bin/python"))]
    for command in [*pyenv_commands, f"python{version}"]:
        path = shutil.which(command)
        if path and subprocess.run([path, "-V"], capture_output=True).returncode == 0:
            return path
    return None


@pytest.mark.parametrize("version", ["3.12", "3.13", "3.14"])
def test_other_versions_of_python_agree(version: str, project: Path) -> None:
    """Other installed Pythons give the same digests of all cases, modules and rules."""
    python = other_python(version)
    if python is None:
        pytest.skip(f"there is no Python {version} here")
    paths = [
        p for package in ("metrics", "provenance") for p in project.glob(f"isotropy/{package}/*.py")
    ]
    names = sorted(p.relative_to(project).as_posix() for p in paths)
    program = (
        "import re, sys; sys.dont_write_bytecode = True\n"
        "sys.path.insert(0, '.')\n"
        "from pathlib import Path\n"
        "import ast\n"
        "from replication.provenance.syntax import rule_digest, rule_text, tree_digest\n"
        f"for name in {names!r}:\n"
        "    print(tree_digest(ast.parse(Path(name).read_bytes())))\n"
        "for path in sorted(Path('rules').glob('*.smk')):\n"
        "    for rule in re.findall(r'rule (\\w+):', text := path.read_text('utf8'), re.M):\n"
        "        print(rule_digest(rule_text(text, rule)))\n"
        f"for text in {[text for pair in (EQUIVALENT | DIFFERENT).values() for text in pair]!r}:\n"
        "    print(tree_digest(ast.parse(text)))\n"
    )
    here, other = (
        subprocess.run([command, "-I", "-c", program], cwd=project, capture_output=True, text=True)
        for command in (sys.executable, python)
    )
    assert other.stdout == here.stdout, other.stderr
    assert "None" not in here.stdout
    assert len(set(here.stdout.split())) > len(DIFFERENT) + len(names) / 2


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
