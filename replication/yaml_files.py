"""Read YAML files, in which duplicate keys are errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from isotropy.errors import IsotropyError

MAX_LEVELS = 50
MANY = 5000
"""So many lists and mappings could be nested too deeply for libyaml."""
_MERGE_TAG = "tag:yaml.org,2002:merge"


_FastLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Loader by libyaml, where installed: ten times as fast, for what each start of the workflow reads;
it overflows the stack of texts that are nested many thousand levels deep."""


class _UniqueKeyLoader(_FastLoader):  # type: ignore[misc]
    """A loader that rejects duplicate keys in a mapping; PyYAML would keep the last value."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[tuple[str, str]] = set()
        for key, _ in node.value:
            name = (key.tag, str(key.value))
            if name in seen and key.tag != _MERGE_TAG:
                raise yaml.constructor.ConstructorError(
                    None, None, f"duplicate key {key.value!r}", key.start_mark
                )
            seen.add(name)
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        return mapping


def read_yaml(path: Path) -> Any:
    """Return the content of a YAML file.

    Raises:
        IsotropyError: the file cannot be read, is not YAML, or has a mapping with a duplicate key.
    """
    try:
        text = path.read_text("utf8")
        # A list or mapping in another one begins so, or with a line that is longer by a blank
        if sum(map(text.count, ("[", "{", "- "))) > MANY and _has_deep_events(text):
            raise RecursionError
        content = yaml.load(text, Loader=_UniqueKeyLoader)  # noqa: S506 (a SafeLoader)
    except RecursionError as error:
        raise IsotropyError(f"{path}: nested too deeply") from error
    except (OSError, ValueError, yaml.YAMLError) as error:  # ValueError: an impossible date
        raise IsotropyError(f"{path}: {' '.join(str(error).split())}") from error
    if is_nested_deeper(content):
        raise IsotropyError(f"{path}: nested too deeply, more than {MAX_LEVELS} levels")
    return content


def _has_deep_events(text: str) -> bool:
    """Whether a text is nested so deeply that libyaml, which recurses, could end the process."""
    depth = 0
    for event in yaml.parse(text, Loader=_UniqueKeyLoader):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_LEVELS:
            return True
    return False


def is_nested_deeper(value: Any, max_levels: int = MAX_LEVELS) -> bool:
    """Return whether lists and mappings are nested more than `max_levels` deep, too deep for
    validation and deeper than anyone writes by hand.
    """
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(max_levels + 1):
        # By identity: aliases in YAML can repeat an object many times, or make a cycle.
        nested = {
            id(inner): inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        }
        level = list(nested.values())
        if not level:
            return False
    return True
