"""Keep secrets and persons out of records: tokens, passwords in addresses, home folders, user names in paths."""

from __future__ import annotations

import getpass
import re
from pathlib import Path
from typing import Any

GONE = "***"

_TOKENS = re.compile(r"\b(hf_|gh[pousr]_|github_pat_|glpat-|sk-|xox[abp]-)[A-Za-z0-9_-]{16,}")
_BEARER = re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}")
_LOGIN = re.compile(r"(?i)\b([a-z][a-z0-9+.-]*://)[^/\s@]+@")
_QUERY = re.compile(r"(?i)([?&;][\w.-]*(?:token|key|secret|signature|sig|password|passwd|credential)[\w.-]*=)[^&\s;#]+")


def scrub(value: Any) -> Any:
    """The same JSON value, its texts without what must not be recorded.

    Gone are access tokens, logins and secret parameters of addresses; the home folder is written `~`, and the user's name as
    a part of an absolute path `***`.
    """
    if isinstance(value, str):
        return _scrub_text(value)
    if isinstance(value, dict):
        return {scrub(key): scrub(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [scrub(item) for item in value]
    return value


def _scrub_text(text: str) -> str:
    for pattern in (_LOGIN, _QUERY):
        text = pattern.sub(rf"\g<1>{GONE}" + ("@" if pattern is _LOGIN else ""), text)
    text = _BEARER.sub(rf"\g<1> {GONE}", _TOKENS.sub(GONE, text))
    home = str(Path.home())
    if home != "/":
        # A relative path that climbs to the root names the home folder, too.
        text = re.sub(rf"(?:\.\.(?:/\.\.)*|(?<![\w.-])){re.escape(home)}(?![\w-])", "~", text)
    return re.sub(rf"((?:^|[\s'\"=(:,]|\.\.)/(?:[^/\s]+/)*){re.escape(_user())}(?![\w-])", rf"\g<1>{GONE}", text)


def without_user(text: str) -> str:
    """A text, such as a host's name, without the user's name."""
    return re.sub(rf"(?<![a-z]){re.escape(_user())}(?![a-z])", GONE, text)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a number without a name, as in some containers
        return "nobody"
