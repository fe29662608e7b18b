"""Remove secrets and personal data from records: tokens, passwords in URLs, home folders, and user
names in paths.
"""

from __future__ import annotations

import getpass
import re
from functools import cache
from pathlib import Path
from typing import Any

REDACTED = "***"

_CREDENTIAL_PARAMETER = (
    r"(?:[\w.-]*[-_.])?(?:(?:access|auth)[-_]?token|token|api[-_]?key|access[-_]?key(?:[-_]?id)?"
    r"|secret(?:[-_]?key)?"
    r"|signature|sig|password|passwd|pwd|pass|auth|credentials?)"
)
_SECRET_PATTERNS = [
    (re.compile(r"(?i)\b([a-z][a-z0-9+.-]*://)[^/\s?#]+@"), rf"\g<1>{REDACTED}@"),
    (re.compile(rf"(?i)([?&;#]{_CREDENTIAL_PARAMETER}=)[^&\s;#]+"), rf"\g<1>{REDACTED}"),
    (
        re.compile(
            r"(?i)(?<![\w?&;#])((?:\w+_)?(?:token|secret|password|passwd|api_?key)=)[^\s'\",;}]+"
        ),
        rf"\g<1>{REDACTED}",
    ),
    # Unlike ordinary words, tokens contain a digit or a capital letter.
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
    """Remove secrets and personal data from all strings of a JSON value.

    Access tokens, and logins and secret parameters in URLs, become `***`, the home folder `~`, and
    the user's name in an absolute path `***`.
    """
    return _scrub(value, _SECRET_PATTERNS + _personal_patterns(str(Path.home()), _user_name()))


def restore_path(path: str) -> str:
    """Undo `scrub` for a path from a record or ledger that the same user wrote."""
    return str(Path(path.replace(f"/{REDACTED}", f"/{_user_name()}")).expanduser())


def remove_user(text: str) -> str:
    """Replace the user's name in a text, such as a host name, by `***`."""
    return re.sub(rf"(?<![a-z]){re.escape(_user_name())}(?![a-z])", REDACTED, text)


def _scrub(value: Any, patterns: Patterns) -> Any:
    if isinstance(value, str):
        previous = None
        # Repeated: a replacement may expose another secret, and a path may contain the name twice
        while value != previous:
            previous = value
            for pattern, replacement in patterns:
                value = pattern.sub(replacement, value)
        return value
    if isinstance(value, dict):
        return {_scrub(key, patterns): _scrub(item, patterns) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_scrub(item, patterns) for item in value]
    return value


@cache
def _personal_patterns(home: str, user: str) -> Patterns:
    user_pattern = re.compile(
        rf"((?:^|[\s'\"`=(\[:,]|//|-I|\.\.)/(?:[^/\s]+/)*?){re.escape(user)}(?![\w-])"
    )
    # A relative path that goes up to the root can also lead to the home folder.
    home_pattern = re.compile(rf"(?:\.\.(?:/\.\.)*|(?<![\w.-])|(?<=-I)){re.escape(home)}(?![\w-])")
    return [*([(home_pattern, "~")] if home != "/" else []), (user_pattern, rf"\g<1>{REDACTED}")]


def _user_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user id without a name, as in some containers
        return "nobody"
