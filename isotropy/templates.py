"""Read YAML files of entries: duplicate keys are refused, and families of entries are expanded.

A family is one entry with `each`: a list of items, or lists of values by name, of which every
combination is an item. It expands to one entry per item, with the item's values in place of the
names in braces.
"""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path
from typing import Any

import yaml

from isotropy.errors import IsotropyError, format_value, suggest

_NAME = re.compile(r"\{([a-z][a-z0-9_]*)\}")
MAX_LEVELS = 50
_MERGE = "tag:yaml.org,2002:merge"


# libyaml is ten times as fast, where installed: each start of the workflow reads the registry.
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _UniqueKeys(_Loader):  # type: ignore[misc]
    """A loader that refuses duplicate keys in a mapping; PyYAML itself keeps the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[tuple[str, str]] = set()
        for key, _ in node.value:
            name = (key.tag, str(key.value))
            if name in seen and key.tag != _MERGE:
                raise yaml.constructor.ConstructorError(
                    None, None, f"duplicate key {key.value!r}", key.start_mark
                )
            seen.add(name)
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        return mapping


def read_yaml(path: Path) -> Any:
    """The content of a YAML file.

    Raises:
        IsotropyError: the file cannot be read, is not YAML, or has a mapping with a duplicate key.
    """
    try:
        with path.open(encoding="utf8") as stream:
            content = yaml.load(stream, Loader=_UniqueKeys)  # noqa: S506 (a SafeLoader)
    except RecursionError as error:
        raise IsotropyError(f"{path}: nested too deeply") from error
    except (OSError, ValueError, yaml.YAMLError) as error:  # ValueError: the 30th of February
        raise IsotropyError(f"{path}: {' '.join(str(error).split())}") from error
    if is_nested_deeper(content):
        raise IsotropyError(f"{path}: nested too deeply, more than {MAX_LEVELS} levels")
    return content


def is_nested_deeper(value: Any, levels: int = MAX_LEVELS) -> bool:
    """Whether lists and mappings are nested more than `levels` deep, which no one writes by hand,
    and which validation cannot process.
    """
    row = [value] if isinstance(value, dict | list) else []
    for _ in range(levels + 1):
        # Each object once: aliases in YAML can repeat an object, or make a cycle.
        nested = {
            id(inner): inner
            for outer in row
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        }
        row = list(nested.values())
        if not row:
            return False
    return True


def expand_family(entry: Any) -> list[tuple[dict[str, Any], Any]]:
    """Expand a family: for each item, its values and the entry to fill with them. An entry that is
    no family is returned alone, without values.

    Raises:
        ValueError: `each` is neither a list of mappings nor a mapping of lists.

    Examples:
        >>> members({"id": "{a}-{b}", "each": {"a": [1, 2], "b": ["x"]}})
        [({'a': 1, 'b': 'x'}, {'id': '{a}-{b}'}), ({'a': 2, 'b': 'x'}, {'id': '{a}-{b}'})]
    """
    if not isinstance(entry, dict) or "each" not in entry:
        return [({}, entry)]
    items = entry["each"]
    if isinstance(items, dict) and all(isinstance(values, list) for values in items.values()):
        items = [dict(zip(items, chosen, strict=True)) for chosen in product(*items.values())]
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise ValueError("each: expected a list of mappings, or lists by name")
    rest = {key: value for key, value in entry.items() if key != "each"}
    return [(item, rest) for item in items]


def fill(value: Any, values: dict[str, Any]) -> Any:
    """Replace names in braces by their values, anywhere in an entry. A text that is only a name
    becomes the value itself, of any type. Without values nothing is replaced.

    Raises:
        ValueError: a name in braces has no value.

    Examples:
        >>> fill({"title": "GLUE {task}", "rows": "{rows}"}, {"task": "rte", "rows": 277})
        {'title': 'GLUE rte', 'rows': 277}
    """
    if isinstance(value, dict):
        return {_key(key, values): fill(inner, values) for key, inner in value.items()}
    if isinstance(value, list):
        return [fill(inner, values) for inner in value]
    if not isinstance(value, str) or not values:
        return value
    if (name_match := _NAME.fullmatch(value)) is not None:
        return _value(name_match[1], values)
    return _NAME.sub(lambda match: str(_value(match[1], values)), value)


def _key(key: Any, values: dict[str, Any]) -> Any:
    filled = fill(key, values)
    if isinstance(filled, dict | list):
        raise ValueError(
            f"each: expected a text or number for the key {key!r}, got {format_value(filled)}"
        )
    return filled


def _value(name: str, values: dict[str, Any]) -> Any:
    if name not in values:
        raise ValueError(f"each: an item has no {name!r}: {suggest(name, values)}")
    return values[name]
