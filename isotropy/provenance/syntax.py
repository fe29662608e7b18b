"""Digests of source text: modules by their syntax trees, rules by their tokens.

Plain Python, without the rest of the project: the checker of bundles uses it, too. Comments,
docstrings, other bare strings, `pass` and layout do not count; everything else does. Digests are
the same on every Python from 3.11 on.
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
"""Fields of a syntax tree that are derived from the place of a node, or from comments."""
LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.ENCODING, tokenize.ENDMARKER}
RULE = re.compile(r"^([ \t]*)(?:rule|checkpoint)\b[ \t]*(\w*):.*\n", re.M)
NAME = re.compile(r"^\s+name:\s+f?\"([^\"]*)\"", re.M)


def file_digest(name: str, data: bytes) -> str | None:
    """Digest of a project file: of a module's syntax tree, of another file's bytes.

    Returns:
        64 hex digits; None for a module that is no Python.
    """
    if not name.endswith(".py"):
        return hashlib.sha256(data).hexdigest()
    try:
        return tree_digest(ast.parse(data))
    except (SyntaxError, ValueError):
        return None


def tree_digest(tree: ast.Module) -> str:
    """Digest of a syntax tree."""
    return hashlib.sha256(_text(tree).encode("utf8", "surrogatepass")).hexdigest()


def _text(value: Any) -> str:
    """A node, a list or a constant as text that is the same on every Python."""
    if isinstance(value, list):
        return f"[{','.join([_text(item) for item in value if not _is_empty(item)])}]"
    if isinstance(value, ast.JoinedStr):
        value = ast.JoinedStr(list(_merged(value.values)))
    if not isinstance(value, ast.AST):
        # Not repr: which letters it shows as they are depends on the version's Unicode tables.
        return f"{type(value).__name__}:{value!a}"
    parts = [type(value).__name__]
    for name in value._fields:
        field = getattr(value, name, None)
        if name not in SKIPPED and field is not None and field != []:
            parts.append(f"{name}={_text(field)}")
    return f"({' '.join(parts)})"


def _is_empty(node: Any) -> bool:
    """Whether a statement does nothing: a docstring or another bare string, or `pass`."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    return isinstance(node, ast.Pass)


def _merged(values: list[ast.expr]) -> Iterator[ast.expr]:
    """Parts of an f-string, neighbouring texts merged: Python versions split them differently."""
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
    """The text of a rule in a rule file; None if the file has no such rule.

    A rule of a loop has no name in its head: it has `name: f"make_tables_{paper}"`, in which each
    field stands for any word.
    """
    for head in RULE.finditer(text):
        indent = head[1]
        body = re.compile(rf"(?:{indent}[ \t]+.*\n|[ \t]*\n|[ \t]*#.*\n)*").match(
            text if text.endswith("\n") else text + "\n", head.end()
        )
        found = head[0] + (body[0] if body else "")
        named = NAME.search(found)
        pattern = re.escape(head[2])
        if not head[2] and named:
            fields = re.split(r"\{[^}]*\}", named[1])
            pattern = r"\w+".join(map(re.escape, fields))
        if pattern and re.fullmatch(pattern, rule):
            return found
    return None


def rule_digest(text: str) -> str:
    """Digest of a rule's text without comments, docstring and layout; all directives count."""
    marks = {tokenize.INDENT: "\t", tokenize.DEDENT: "\b", tokenize.NEWLINE: "\n"}
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(_dedented(text)).readline))
        words = [marks.get(t.type, t.string) for t in tokens if t.type not in LAYOUT]
    except (tokenize.TokenError, SyntaxError):
        words = text.split()
    start = words.index("\t") + 1 if "\t" in words else 0
    if start and words[start].endswith(("'", '"')) and words[start + 1] == "\n":
        del words[start : start + 2]  # the docstring
    # Before Python 3.12 an f-string is one token, then it is several, without doubled braces.
    joined = "".join(words).replace("{{", "{").replace("}}", "}")
    return hashlib.sha256(joined.encode()).hexdigest()


def _dedented(text: str) -> str:
    """A rule of a loop, moved to the margin."""
    indent = len(text) - len(text.lstrip(" \t"))
    return "".join(
        line[min(indent, len(line) - len(line.lstrip(" \t"))) :] for line in text.splitlines(True)
    )
