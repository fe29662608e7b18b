"""Make texts from elsewhere safe to show: file names, titles and messages may hold line breaks,
control characters or markup. Plain Python, without the rest of the project: the checker of bundles
uses it, too.
"""

from __future__ import annotations

import html
import unicodedata

UNSAFE = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
"""Categories of Unicode: control, invisible formatting (which can turn the direction of a line),
lone surrogates, private use, line and paragraph separators."""


def escape_for_terminal(text: str) -> str:
    """Escape a text for a terminal: one line, in which characters that could move the cursor, or
    colour or hide text, are written as in Python (a line break as backslash and n).
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
