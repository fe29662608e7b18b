"""The exception for errors that users can fix: one sentence that says what is wrong and what to do.
Jobs print it without a traceback.
"""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Iterable

from isotropy.printable import escape_for_terminal

MAX_NAMES = 3
"""Maximum number of names in a hint."""
IN_TRAINING = {
    "accelerate",
    "gguf",
    "huggingface_hub",
    "safetensors",
    "sentence_transformers",
    "transformers",
}
"""Packages of the extra `training`; others are in `workflow`. pydantic is in both: measuring needs
it for models only.
"""


class IsotropyError(Exception):
    """Something a user can act on: bad configuration, unreachable data, a checksum that does not
    match.

    Its message is one line without control characters, even if names or values in it contain some.
    """

    exit_code = 2
    """That of a command that ends with the error."""

    def __str__(self) -> str:
        return escape_for_terminal(super().__str__())


class InputError(IsotropyError, ValueError):
    """An argument of `isotropy.measure` or `isotropy.compare` that cannot be measured."""


def format_value(value: object) -> str:
    """Format a value for a message, as Python writes it; long texts, lists and mappings are
    shortened, and deeply nested values are left out.

    Examples:
        >>> format_value([1, "a"])
        "[1, 'a']"
        >>> format_value([[[[[[[1]]]]]]])
        '[[[[[[...]]]]]]'
    """
    short = reprlib.Repr()
    short.maxlevel, short.maxdict, short.maxlist, short.maxtuple = 5, 8, 12, 12
    short.maxstring = short.maxother = short.maxlong = 200
    try:
        return short.repr(value)
    except ValueError:  # a number of thousands of digits
        return f"a {type(value).__name__}"


def suggest(name: str, candidates: Iterable[str], where: str = "there") -> str:
    """Return a hint for a misspelt name: up to three similar names; if none is similar, all names,
    or their number if there are many.

    Args:
        name: the name as written.
        candidates: all valid names.
        where: where the names are listed, as part of the sentence, e.g. "in config.yaml".

    Examples:
        >>> suggest("polarty", ["polarity", "snli"])
        "did you mean 'polarity'?"
        >>> suggest("qqp", ["rte", "wnli"])
        "known: 'rte', 'wnli'"
        >>> suggest("x", ["cola", "mrpc", "rte", "wnli"], "in config.yaml")
        'none of the 4 names listed in config.yaml is similar'
    """
    names = sorted(candidates)
    if similar := difflib.get_close_matches(name, names, n=MAX_NAMES, cutoff=0.6):
        *first, last = (repr(n) for n in similar)
        return f"did you mean {', '.join(first)} or {last}?" if first else f"did you mean {last}?"
    if len(names) <= MAX_NAMES:
        return "known: " + (", ".join(repr(n) for n in names) or "none")
    return f"none of the {len(names)} names listed {where} is similar"


def missing_package(error: ModuleNotFoundError, *, measuring: bool = False) -> str | None:
    """Return the sentence that says which extra has a missing package; None for modules of our own.

    Args:
        error: the error of the import.
        measuring: whether embeddings were being measured.

    Examples:
        >>> missing_package(ModuleNotFoundError(name="pandas"))
        "this needs the package pandas, which is not installed: pip install 'isotropy[workflow]'"
    """
    package = (error.name or "").split(".")[0]
    if package in ("", "isotropy", "replication"):
        return None
    for_models = measuring and package == "pydantic"
    extra = "training" if package in IN_TRAINING or for_models else "workflow"
    return (
        f"this needs the package {package}, which is not installed: pip install 'isotropy[{extra}]'"
    )


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or the name of its class if it has none."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def is_failure(error: BaseException) -> bool:
    """Return whether an error is one of a library, rather than an interruption: an Exception, or a
    panic of Rust code, which is none.
    """
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"
