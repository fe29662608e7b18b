"""Differences between two values or two environments, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

ABSENT = "nothing"


def differences(before: Any, after: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Leaves in which two JSON values differ: path of the field, value before, value after
    (`ABSENT` where there is none).
    """
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted(before.keys() | after.keys()):
            yield from differences(
                before.get(key, ABSENT), after.get(key, ABSENT), f"{path}.{key}" if path else key
            )
    elif isinstance(before, list) and isinstance(after, list) and _by_id(before) and _by_id(after):
        # Entries that have names are compared by them: one more does not make all others different.
        yield from differences({x["id"]: x for x in before}, {y["id"]: y for y in after}, path)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for i, (x, y) in enumerate(zip(before, after, strict=True)):
            yield from differences(x, y, f"{path}[{i}]")
    elif before != after:
        yield path, before, after


def spec_differences(before: Any, after: Any) -> list[tuple[str, Any, Any]]:
    """Fields in which two specs differ, as `differences` has them. Departures from a protocol
    follow from other fields, and are named only where no other field differs.
    """
    changes = list(differences(before, after))
    return [change for change in changes if not change[0].startswith("deviations")] or changes


def _by_id(items: list[Any]) -> bool:
    return bool(items) and all(isinstance(x, dict) and "id" in x for x in items)


def changed_names(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Keys under which two mappings differ, or that one of them lacks."""
    return [
        name for name in sorted(before.keys() | after.keys()) if before.get(name) != after.get(name)
    ]


def shown(value: Any, longest: int = 60) -> str:
    """A value for a line of text, cut if it is long."""
    text = str(value)
    more = f" ({len(value)} entries)" if isinstance(value, list | dict) else ""
    return text if len(text) <= longest else text[: longest - 1] + "…" + more
