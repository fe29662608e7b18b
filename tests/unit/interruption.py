"""Interruptions of long computations at a chosen point."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest


@contextmanager
def interrupted_at(n: int, owner: type, method: str) -> Iterator[None]:
    """Raise KeyboardInterrupt in the call of a method after `n` calls, and expect it."""
    calls, original = itertools.count(), getattr(owner, method)

    def interrupted(*arguments: Any, **options: Any) -> Any:
        if next(calls) == n:
            raise KeyboardInterrupt
        return original(*arguments, **options)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(owner, method, interrupted)
        yield
