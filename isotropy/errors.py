"""The error that a user should read: one sentence that says what is wrong and what to do. Jobs
print it without a trace.
"""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Iterable

from isotropy.printable import for_terminal

MOST_NAMES = 3
"""Names that a hint shows."""


class IsotropyError(Exception):
    """Something a user can act on: bad configuration, unreachable data, a checksum that does not
    match.

    Its message is one line without control characters, whatever a name or a value in it holds.
    """

    def __str__(self) -> str:
        return for_terminal(super().__str__())


def shown(value: object) -> str:
    """A value in a message, as Python writes it: long texts, lists and mappings shortened, what is
    nested deeply left out.

    Examples:
        >>> shown([1, "a"])
        "[1, 'a']"
        >>> shown([[[[[[[1]]]]]]])
        '[[[[[[...]]]]]]'
    """
    short = reprlib.Repr()
    short.maxlevel, short.maxdict, short.maxlist, short.maxtuple = 5, 8, 12, 12
    short.maxstring = short.maxother = short.maxlong = 200
    try:
        return short.repr(value)
    except ValueError:  # a number of thousands of digits
        return f"a {type(value).__name__}"


def suggest(name: str, known: Iterable[str], where: str = "there") -> str:
    """A hint for a misspelt name: at most three of the nearest known ones; if none is near, how
    many there are.

    Args:
        name: what was written.
        known: what could have been meant.
        where: the place that lists them, in words.

    Examples:
        >>> suggest("polarty", ["polarity", "snli"])
        "did you mean 'polarity'?"
        >>> suggest("qqp", ["rte", "wnli"])
        "known: 'rte', 'wnli'"
        >>> suggest("x", ["cola", "mrpc", "rte", "wnli"], "in config.yaml")
        'none of the 4 names listed in config.yaml is similar'
    """
    names = sorted(known)
    if near := difflib.get_close_matches(name, names, n=MOST_NAMES, cutoff=0.6):
        *first, last = (repr(n) for n in near)
        return f"did you mean {', '.join(first)} or {last}?" if first else f"did you mean {last}?"
    if len(names) <= MOST_NAMES:
        return "known: " + (", ".join(repr(n) for n in names) or "none")
    return f"none of the {len(names)} names listed {where} is similar"
