"""The text of a rule, and its digest without comments, docstring and layout.

Plain Python, without the rest of the project: the checker of bundles uses it, too.
"""

from __future__ import annotations

import hashlib
import io
import re
import tokenize
from collections.abc import Iterator


def rule_text(rules: str, rule: str) -> str | None:
    """The text of a rule in a rule file; None: it has no such rule."""
    body = r"((?:[ \t]+.*\n|#.*\n|[ \t]*\n)*)"
    found = re.search(rf"^(?:rule|checkpoint) {re.escape(rule)}:.*\n{body}", rules + "\n", re.M)
    return found[0] if found else None


def rule_digest(text: str) -> str:
    """Digest of a rule's text without comments, docstring and layout; all directives count."""
    try:
        words = _without_docstring(list(_words(text)))
    except (tokenize.TokenError, SyntaxError):
        words = [line.rstrip() for line in text.strip().splitlines()]
    return hashlib.sha256("\0".join(words).encode()).hexdigest()


def _words(text: str) -> Iterator[str]:
    """Tokens as text. Strings with fields are one: before Python 3.12 they are not taken apart."""
    lines = text.splitlines(keepends=True)
    start, depth = (0, 0), 0
    layout = {"NEWLINE": "\n", "INDENT": "\t", "DEDENT": "\b"}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        name = tokenize.tok_name[token.type]
        if name.endswith("STRING_START"):
            start, depth = token.start if depth == 0 else start, depth + 1
        elif name.endswith("STRING_END"):
            depth -= 1
            if depth == 0:
                yield _between(lines, start, token.end)
        elif depth == 0 and name not in ("COMMENT", "NL", "ENCODING", "ENDMARKER"):
            yield layout.get(name, token.string)


def _between(lines: list[str], start: tuple[int, int], end: tuple[int, int]) -> str:
    chosen = lines[start[0] - 1 : end[0]]
    chosen[-1] = chosen[-1][: end[1]]
    chosen[0] = chosen[0][start[1] :]
    return "".join(chosen)


def _without_docstring(words: list[str]) -> list[str]:
    """Without a string that stands alone at the start of the rule's body."""
    if "\t" not in words:
        return words
    start = end = words.index("\t") + 1
    while words[end].endswith(("'", '"')):
        end += 1
    return words[:start] + words[end + 1 :] if end > start and words[end] == "\n" else words
