"""Slices: the part of a module that one function reaches."""

from __future__ import annotations

import pytest

from isotropy.provenance.slices import Slice, Slicer
from isotropy.provenance.syntax import Import, Source

MODULE = '''"""Tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from isotropy.tables.runs import gather, spread

if TYPE_CHECKING:
    from isotropy.job import Job

COLUMNS = ["a", "b"]
"""Of all tables."""
DIGITS = 3
UNUSED = 7
Rows = list["Row"]


class Row:
    """A row."""

    value: int = DIGITS


def table1(rows: Rows) -> pd.DataFrame:
    """The first."""
    return pd.DataFrame(gather(rows), columns=COLUMNS)


def table2(frame: pd.DataFrame, job: Job) -> pd.DataFrame:
    from isotropy.metrics.clusters import count

    return _rounded(spread(frame), count)


def _rounded(frame, digits=UNUSED):
    return np.round(frame, digits)
'''


def of(text: str, function: str = "table1") -> Slice:
    return Slicer(Source(text.encode())).slice(function)


def changed(old: str, new: str, function: str = "table1") -> bool:
    assert old in MODULE
    return of(MODULE, function).digest != of(MODULE.replace(old, new), function).digest


@pytest.mark.parametrize(
    ("old", "new", "of_table1", "of_table2"),
    [
        ("The first.", "The very first.", False, False),
        ("columns=COLUMNS", "columns=COLUMNS[:1]", True, False),
        ('["a", "b"]', '["a", "c"]', True, False),  # a constant
        ("spread(frame)", "spread(frame, 2)", False, True),
        ("np.round(frame, digits)", "np.floor(frame)", False, True),  # a helper
        ("UNUSED = 7", "UNUSED = 8", False, True),  # a default of the helper
        ("DIGITS = 3", "DIGITS = 4", True, False),  # by way of a type, a string and a class
        ("value: int", "value: float", True, False),
        ("import numpy as np", "import numpy.ma as np", False, True),
        ("from isotropy.metrics.clusters", "from isotropy.metrics.cosines", False, True),
        ("gather, spread", "gather, spread, more", True, True),  # nothing uses it: for its effect
        ("import Job", "import Other as Job", False, False),
        ("from __future__ import annotations\n", "", True, True),
        ("UNUSED = 7\n", "UNUSED = 7\nprint('hello')\n", True, True),
        ("UNUSED = 7\n", "UNUSED = 7\nNEW = 9\n", False, False),
        ("UNUSED = 7\n", "UNUSED = 7\nNEW = sorted([3, 1])\n", False, False),
        ("UNUSED = 7\n", "UNUSED = 7\nNEW = sorted(COLUMNS)\n", True, False),  # might change it
        ("UNUSED = 7\n", "UNUSED = 7\nCOLUMNS.append('c')\n", True, True),
        ("UNUSED = 7\n", "UNUSED = 7\nCOLUMNS[0] = 'c'\n", True, True),
        ("UNUSED = 7\n", "UNUSED = 7\nCOLUMNS += ['c']\n", True, True),
        ("def table2", "@register\ndef extra():\n    pass\n\n\ndef table2", True, True),
        ("def table2", "def table3():\n    return UNUSED\n\n\ndef table2", False, False),
    ],
)
def test_what_counts_for_a_function(old: str, new: str, of_table1: bool, of_table2: bool) -> None:
    assert (changed(old, new), changed(old, new, "table2")) == (of_table1, of_table2)


def test_a_slice_imports_what_its_function_uses() -> None:
    found = of(MODULE, "table2").imports
    assert Import("isotropy.tables.runs", "spread", 0) in found
    assert Import("isotropy.metrics.clusters", "count", 0) in found
    assert Import("isotropy.tables.runs", "gather", 0) not in found
    assert "isotropy.job" not in {i.module for i in found}


@pytest.mark.parametrize(
    "addition",
    [
        "from os.path import *\n",
        "def __getattr__(name):\n    return 1\n",
        "def reset():\n    global COLUMNS\n    COLUMNS = []\n",
        "class Base:\n    def __init_subclass__(cls):\n        COLUMNS.append(cls)\n",
    ],
)
def test_the_whole_module_counts_where_names_are_not_certain(addition: str) -> None:
    """Anywhere in the module."""
    found = of(MODULE + addition)
    assert found == Slice(Source((MODULE + addition).encode()).digest, found.imports, True)
    assert not of(MODULE).whole


@pytest.mark.parametrize(
    "body",
    [
        "return globals()['COLUMNS']",
        "return vars()",
        "return eval('COLUMNS')",
        "exec('COLUMNS = 1')",
        "return __import__('os')",
        "import sys\n    return sys.modules[__name__].COLUMNS",
        "return Unknown",
    ],
)
def test_the_whole_module_counts_for_a_function_that_hides_what_it_reads(body: str) -> None:
    """And for others that do not use it, their slice."""
    text = f"{MODULE}\n\ndef hiding():\n    {body}\n"
    assert of(text, "hiding").whole
    assert of(text).digest == of(MODULE).digest


@pytest.mark.parametrize(
    "body",
    [
        "return [x for x in range(3)]",
        "return (lambda y: y)(1)",
        "with open('a') as stream:\n        return stream",
        "try:\n        pass\n    except OSError as error:\n        return error",
        "for i, (j, *k) in enumerate([]):\n        print(i, j, k)",
        "match 1:\n        case {'a': a, **rest}:\n            return a, rest\n"
        "        case [b, *c]:\n            return b, c",
        "import os.path\n    return os.path",
        "return (z := 3) + z",
        "def inner(a, *b, c=1, **d):\n        nonlocal e\n        return a, b, c, d\n    e = 1",
        "class Own:\n        x = 1\n    return Own, __file__, __name__",
    ],
)
def test_names_of_a_functions_own_are_known(body: str) -> None:
    text = f"def f():\n    {body}\n"
    assert not of(text, "f").whole


def test_a_change_through_a_function_counts() -> None:
    """`RANK` is not used, but making it may change what is."""
    text = (
        "TABLE = []\n"
        "LIMIT = 3\n"
        "def fill(x):\n    TABLE.append(x)\n    return x\n"
        "def size(x):\n    return x\n"
        "RANK = fill(1)\n"
        "WIDTH = size(LIMIT)\n"
        "def f():\n    return TABLE, LIMIT\n"
    )
    before = of(text, "f").digest
    assert of(text.replace("fill(1)", "fill(2)"), "f").digest != before
    assert of(text.replace("append(x)", "append(2 * x)"), "f").digest != before
    # A number cannot be changed by what it is given to.
    assert of(text.replace("size(LIMIT)", "size(LIMIT + 1)"), "f").digest == before


def test_a_name_that_is_defined_twice() -> None:
    text = "try:\n    import fast as np\nexcept ImportError:\n    import numpy as np\ndef f():\n"
    text += "    return np.x\ndef g():\n    return 1\ndef g():\n    return 2\n"
    assert of(text.replace("import fast", "import faster"), "f").digest != of(text, "f").digest
    assert of(text.replace("return 1", "return 3"), "g").digest != of(text, "g").digest


def test_functions_that_are_not_there() -> None:
    with pytest.raises(LookupError):
        of(MODULE, "table4")
