"""Make untrusted text safe to display: file names, titles and messages may contain line breaks,
control characters or markup. Uses the standard library only, since the bundle verifier, which runs
without the rest of the project, needs it too.
"""

from __future__ import annotations

import html
import re
import unicodedata

UNSAFE = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
"""Unicode categories: control, invisible formatting (which can reverse the direction of a line),
lone surrogates, private use, line and paragraph separators."""


def escape_for_terminal(text: str) -> str:
    """Escape a text for a terminal: one line, in which characters that could move the cursor, or
    colour or hide text, become Python escape sequences (a line break becomes backslash and n).
    """
    return "".join(
        c.encode("unicode_escape").decode() if unicodedata.category(c) in UNSAFE else c
        for c in text
    )


def escape_for_markdown(text: str) -> str:
    """Escape a text for one line of Markdown: no HTML, no cell border, no code, no link."""
    text = html.escape(escape_for_terminal(text.replace("\n", " ").replace("\t", " ")), quote=False)
    for mark, plain in (("|", "\\|"), ("`", "\\`"), ("](", "]\\(")):
        text = text.replace(mark, plain)
    return text


def without_remark(statement: str) -> str:
    """Return a statement without its remark in brackets at the end."""
    return re.sub(r" \((?:[^()]|\([^()]*\))*\)$", "", statement)


def print_minus(number: str) -> str:
    """Replace the hyphen before a number, not that of an exponent, by a minus sign."""
    return re.sub("(?<!e)-", "\N{MINUS SIGN}", number)
