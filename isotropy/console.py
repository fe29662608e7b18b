"""The console that all commands print to."""

from __future__ import annotations

from typing import Any

from rich.console import Console


def plain_console(**options: Any) -> Console:
    """A console of rich that prints texts as they are: `[b]` is no markup, and `:a:` no emoji."""
    return Console(highlight=False, markup=False, emoji=False, **options)
