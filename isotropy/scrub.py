"""Keep secrets and persons out of records: tokens, passwords in addresses, home folders, user names
in paths.
"""

from __future__ import annotations

import getpass
import re
from functools import cache
from pathlib import Path
from typing import Any

REDACTED = "***"

_NAME = (
    r"(?:[\w.-]*[-_.])?(?:(?:access|auth)[-_]?token|token|api[-_]?key|access[-_]?key(?:[-_]?id)?"
    r"|secret(?:[-_]?key)?"
    r"|signature|sig|password|passwd|pwd|pass|auth|credentials?)"
)
_SECRETS = [
    (re.compile(r"(?i)\b([a-z][a-z0-9+.-]*://)[^/\s?#]+@"), rf"\g<1>{REDACTED}@"),
    (re.compile(rf"(?i)([?&;#]{_NAME}=)[^&\s;#]+"), rf"\g<1>{REDACTED}"),
    (
        re.compile(
            r"(?i)(?<![\w?&;#])((?:\w+_)?(?:token|secret|password|passwd|api_?key)=)[^\s'\",;}]+"
        ),
        rf"\g<1>{REDACTED}",
    ),
    # Unlike words, tokens have a digit or a capital.
    (re.compile(r"\b(?:hf|gh[pousr]|npm)_(?=[a-z]*[A-Z0-9])[A-Za-z0-9]{16,}"), REDACTED),
    (
        re.compile(
            r"\b(?:github_pat_|glpat-|pypi-|xox[a-z]-|sk-)(?=[\w-]*[A-Z0-9])(?![a-z]+-[a-z]+-)"
            r"[\w-]{16,}"
        ),
        REDACTED,
    ),
    (re.compile(r"\bAKIA[0-9A-Z]{16}\b|\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]+"), REDACTED),
    (
        re.compile(r"(?i)\b(authorization:\s*\w+|bearer)\s+[A-Za-z0-9._~+/=-]{8,}"),
        rf"\g<1> {REDACTED}",
    ),
]

Patterns = list[tuple[re.Pattern[str], str]]


def scrub(value: Any) -> Any:
    """Remove from all texts of a JSON value what must not be recorded.

    Removed: access tokens, logins and secret parameters of URLs. The home folder is written `~`,
    and the user's name in an absolute path `***`.
    """
    return _scrub(value, _SECRETS + _personal(str(Path.home()), _user()))


def restore_path(path: str) -> str:
    """Undo `scrub` for a path from a record or ledger that the same user wrote."""
    return str(Path(path.replace(f"/{REDACTED}", f"/{_user()}")).expanduser())


def remove_user(text: str) -> str:
    """Remove the user's name from a text, such as the name of a host."""
    return re.sub(rf"(?<![a-z]){re.escape(_user())}(?![a-z])", REDACTED, text)


def _scrub(value: Any, patterns: Patterns) -> Any:
    if isinstance(value, str):
        before = None
        # Repeated: a replacement may expose another secret, and a path may contain the name twice
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
    # A relative path that climbs to the root can also name the home folder.
    folder = re.compile(rf"(?:\.\.(?:/\.\.)*|(?<![\w.-])|(?<=-I)){re.escape(home)}(?![\w-])")
    return [*([(folder, "~")] if home != "/" else []), (name, rf"\g<1>{REDACTED}")]


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user id without a name, as in some containers
        return "nobody"
