"""Digests of source text: modules by their syntax trees, rules by their tokens.

Comments, docstrings, other bare strings, `pass` and layout are ignored, and nothing else. Digests
are the same on every Python version from 3.11 on.
"""

from __future__ import annotations

import ast
import hashlib
import io
import re
import tokenize
from collections.abc import Iterator
from typing import Any

SKIPPED = {"ctx", "kind", "type_comment", "type_ignores"}
"""Fields of AST nodes that follow from their position or from comments, and are ignored."""
LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.ENCODING, tokenize.ENDMARKER}
RULE = re.compile(r"^([ \t]*)(?:rule|checkpoint)\b[ \t]*(\w*):.*\n", re.M)
NAME = re.compile(r"^\s+name:\s+f?\"([^\"]*)\"", re.M)


def tree_digest(tree: ast.Module) -> str:
    """Digest a syntax tree."""
    return hashlib.sha256(_serialize(tree).encode("utf8", "surrogatepass")).hexdigest()


def _serialize(value: Any) -> str:
    """Serialize a node, a list or a constant to text that is the same on every Python version."""
    if isinstance(value, list):
        return f"[{','.join([_serialize(item) for item in value if not _is_empty(item)])}]"
    if isinstance(value, ast.JoinedStr):
        value = ast.JoinedStr(list(_merged(value.values)))
    if not isinstance(value, ast.AST):
        # Not repr: which characters it escapes depends on the Unicode tables of the Python version.
        return f"{type(value).__name__}:{value!a}"
    parts = [type(value).__name__]
    for name in value._fields:
        field = getattr(value, name, None)
        if name not in SKIPPED and field is not None and field != []:
            parts.append(f"{name}={_serialize(field)}")
    return f"({' '.join(parts)})"


def _is_empty(node: Any) -> bool:
    """Return whether a statement has no effect: a docstring or other bare string, or `pass`."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    return isinstance(node, ast.Pass)


def _merged(values: list[ast.expr]) -> Iterator[ast.expr]:
    """Yield the parts of an f-string with adjacent literals merged: Python versions split them
    differently.
    """
    text = ""
    for value in values:
        if isinstance(value, ast.Constant):
            text += str(value.value)
            continue
        if text:
            yield ast.Constant(text)
        text = ""
        if isinstance(value, ast.FormattedValue) and not getattr(value.format_spec, "values", None):
            value = ast.FormattedValue(value.value, value.conversion, None)  # f"{x:}" is f"{x}"
        yield value
    if text:
        yield ast.Constant(text)


def rule_text(text: str, rule: str) -> str | None:
    """Find the text of a rule in a rule file; None if the file has no such rule.

    A rule defined in a loop has no name in its header but a directive such as
    `name: f"make_tables_{paper}"`, where each replacement field matches any word.
    """
    for header in RULE.finditer(text):
        indent = header[1]
        body = re.compile(rf"(?:{indent}[ \t]+.*\n|[ \t]*\n|[ \t]*#.*\n)*").match(
            text if text.endswith("\n") else text + "\n", header.end()
        )
        candidate = header[0] + (body[0] if body else "")
        name_match = NAME.search(candidate)
        pattern = re.escape(header[2])
        if not header[2] and name_match:
            fields = re.split(r"\{[^}]*\}", name_match[1])
            pattern = r"\w+".join(map(re.escape, fields))
        if pattern and re.fullmatch(pattern, rule):
            return candidate
    return None


def rule_digest(text: str) -> str:
    """Digest the text of a rule without comments, docstring and layout."""
    marks = {tokenize.INDENT: "\t", tokenize.DEDENT: "\b", tokenize.NEWLINE: "\n"}
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(_dedented(text)).readline))
        words = [marks.get(t.type, t.string) for t in tokens if t.type not in LAYOUT]
    except (tokenize.TokenError, SyntaxError):
        words = text.split()
    start = words.index("\t") + 1 if "\t" in words else 0
    if start and words[start].endswith(("'", '"')) and words[start + 1] == "\n":
        del words[start : start + 2]  # the docstring
    # An f-string is one token before Python 3.12, and several without doubled braces since then.
    joined = "".join(words).replace("{{", "{").replace("}}", "}")
    return hashlib.sha256(joined.encode()).hexdigest()


def _dedented(text: str) -> str:
    """Remove the indentation of a rule that is defined in a loop."""
    indent = len(text) - len(text.lstrip(" \t"))
    return "".join(
        line[min(indent, len(line) - len(line.lstrip(" \t"))) :] for line in text.splitlines(True)
    )
