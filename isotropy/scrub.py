"""Keep secrets and persons out of records: tokens, passwords in addresses, home folders, user names
in paths.
"""

from __future__ import annotations

import getpass
import re
from functools import cache
from pathlib import Path
from typing import Any

GONE = "***"

_NAME = (
    r"(?:[\w.-]*[-_.])?(?:(?:access|auth)[-_]?token|token|api[-_]?key|access[-_]?key(?:[-_]?id)?"
    r"|secret(?:[-_]?key)?"
    r"|signature|sig|password|passwd|pwd|pass|auth|credentials?)"
)
_SECRETS = [
    (re.compile(r"(?i)\b([a-z][a-z0-9+.-]*://)[^/\s?#]+@"), rf"\g<1>{GONE}@"),
    (re.compile(rf"(?i)([?&;#]{_NAME}=)[^&\s;#]+"), rf"\g<1>{GONE}"),
    (
        re.compile(
            r"(?i)(?<![\w?&;#])((?:\w+_)?(?:token|secret|password|passwd|api_?key)=)[^\s'\",;}]+"
        ),
        rf"\g<1>{GONE}",
    ),
    # Tokens are no words: they have a digit or a capital.
    (re.compile(r"\b(?:hf|gh[pousr]|npm)_(?=[a-z]*[A-Z0-9])[A-Za-z0-9]{16,}"), GONE),
    (
        re.compile(
            r"\b(?:github_pat_|glpat-|pypi-|xox[a-z]-|sk-)(?=[\w-]*[A-Z0-9])(?![a-z]+-[a-z]+-)"
            r"[\w-]{16,}"
        ),
        GONE,
    ),
    (re.compile(r"\bAKIA[0-9A-Z]{16}\b|\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]+"), GONE),
    (re.compile(r"(?i)\b(authorization:\s*\w+|bearer)\s+[A-Za-z0-9._~+/=-]{8,}"), rf"\g<1> {GONE}"),
]

Patterns = list[tuple[re.Pattern[str], str]]


def scrub(value: Any) -> Any:
    """The same JSON value, its texts without what must not be recorded.

    Gone are access tokens, logins and secret parameters of addresses; the home folder is written
    `~`, and the user's name as a part of an absolute path `***`.
    """
    return _scrub(value, _SECRETS + _personal(str(Path.home()), _user()))


def as_it_was(path: str) -> str:
    """A path from a record or ledger as it was before `scrub`, for the same user."""
    return str(Path(path.replace(f"/{GONE}", f"/{_user()}")).expanduser())


def without_user(text: str) -> str:
    """A text, such as a host's name, without the user's name."""
    return re.sub(rf"(?<![a-z]){re.escape(_user())}(?![a-z])", GONE, text)


def _scrub(value: Any, patterns: Patterns) -> Any:
    if isinstance(value, str):
        before = None
        # What one pattern leaves may be another's, and a path may have the name twice
        while value != before:
            before = value
            for pattern, clean in patterns:
                value = pattern.sub(clean, value)
        return value
    if isinstance(value, dict):
        return {_scrub(key, patterns): _scrub(item, patterns) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_scrub(item, patterns) for item in value]
    return value


@cache
def _personal(home: str, user: str) -> Patterns:
    name = re.compile(
        rf"((?:^|[\s'\"`=(\[:,]|//|-I|\.\.)/(?:[^/\s]+/)*?){re.escape(user)}(?![\w-])"
    )
    # A relative path that climbs to the root names the home folder, too.
    folder = re.compile(rf"(?:\.\.(?:/\.\.)*|(?<![\w.-])|(?<=-I)){re.escape(home)}(?![\w-])")
    return [*([(folder, "~")] if home != "/" else []), (name, rf"\g<1>{GONE}")]


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a number without a name, as in some containers
        return "nobody"
