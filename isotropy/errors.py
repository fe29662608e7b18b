"""The error that a user should read: one sentence that says what is wrong and what to do. Jobs
print it without a trace.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class IsotropyError(Exception):
    """Something a user can act on: bad configuration, unreachable data, a checksum that does not
    match.
    """


def suggest(name: str, known: Iterable[str]) -> str:
    """A hint for a misspelt name: the nearest known ones, or all of them if none is near."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=2, cutoff=0.6)
    if near:
        return "did you mean " + " or ".join(repr(n) for n in near) + "?"
    return "known: " + ", ".join(names)
