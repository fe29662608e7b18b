"""Differences between two values or two environments, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

ABSENT = "nothing"


def differences(before: Any, after: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield the leaves in which two JSON values differ: path of the field, value before, value
    after (`ABSENT` where there is none).
    """
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted(before.keys() | after.keys()):
            yield from differences(
                before.get(key, ABSENT), after.get(key, ABSENT), f"{path}.{key}" if path else key
            )
    elif (
        isinstance(before, list)
        and isinstance(after, list)
        and _have_ids(before)
        and _have_ids(after)
    ):
        # Entries with ids are matched by id, so that an inserted entry does not change all others.
        yield from differences({x["id"]: x for x in before}, {y["id"]: y for y in after}, path)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for i, (x, y) in enumerate(zip(before, after, strict=True)):
            yield from differences(x, y, f"{path}[{i}]")
    elif before != after:
        yield path, before, after


def spec_differences(before: Any, after: Any) -> list[tuple[str, Any, Any]]:
    """List the fields in which two specs differ, as `differences` yields them. The field
    `deviations` follows from other fields, and is listed only if no other field differs.
    """
    changes = list(differences(before, after))
    return [change for change in changes if not change[0].startswith("deviations")] or changes


def _have_ids(entries: list[Any]) -> bool:
    return bool(entries) and all(isinstance(x, dict) and "id" in x for x in entries)


def changed_names(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """List keys whose values differ between two mappings, or that only one of them has."""
    return [
        name for name in sorted(before.keys() | after.keys()) if before.get(name) != after.get(name)
    ]


def shown(value: Any, max_length: int = 60) -> str:
    """Format a value for a line of text, truncated if it is long."""
    text = str(value)
    entries_note = f" ({len(value)} entries)" if isinstance(value, list | dict) else ""
    return text if len(text) <= max_length else text[: max_length - 1] + "…" + entries_note
