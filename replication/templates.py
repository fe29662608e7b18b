"""Read YAML files of entries, in which duplicate keys are errors, and expand templates of entries.

A template is an entry with the key `each`: a list of items, or a mapping of names to lists of
values, where every combination of values is an item. It expands to one entry per item, in which the
item's values replace the names in braces.
"""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path
from typing import Any

import yaml

from isotropy.errors import IsotropyError, format_value, suggest

_PLACEHOLDER = re.compile(r"\{([a-z][a-z0-9_]*)\}")
MAX_LEVELS = 50
MANY = 5000
"""So many lists and mappings could be nested too deeply for libyaml."""
_MERGE_TAG = "tag:yaml.org,2002:merge"


FastLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Loader by libyaml, where installed: ten times as fast, for what each start of the workflow reads;
it overflows the stack of texts that are nested many thousand levels deep."""


class _UniqueKeyLoader(FastLoader):  # type: ignore[misc]
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


def expand_template(entry: Any) -> list[tuple[dict[str, Any], Any]]:
    """Expand a template: return for each item its values and the entry to `fill` with them. An
    entry that is not a template is returned alone, without values.

    Raises:
        ValueError: `each` is neither a list of mappings nor a mapping of lists.

    Examples:
        >>> expand_template({"id": "{a}-{b}", "each": {"a": [1, 2], "b": ["x"]}})
        [({'a': 1, 'b': 'x'}, {'id': '{a}-{b}'}), ({'a': 2, 'b': 'x'}, {'id': '{a}-{b}'})]
    """
    if not isinstance(entry, dict) or "each" not in entry:
        return [({}, entry)]
    items = entry["each"]
    if isinstance(items, dict) and all(isinstance(values, list) for values in items.values()):
        items = [
            dict(zip(items, combination, strict=True)) for combination in product(*items.values())
        ]
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise ValueError("each: expected a list of mappings, or a mapping of names to lists")
    template = {key: value for key, value in entry.items() if key != "each"}
    return [(item, template) for item in items]


def fill(value: Any, values: dict[str, Any]) -> Any:
    """Replace names in braces by their values, anywhere in an entry. A text that consists of one
    name in braces becomes the value itself, of any type. Without values nothing is replaced.

    Raises:
        ValueError: a name in braces has no value.

    Examples:
        >>> fill({"title": "GLUE {task}", "rows": "{rows}"}, {"task": "rte", "rows": 277})
        {'title': 'GLUE rte', 'rows': 277}
    """
    if isinstance(value, dict):
        return {_fill_key(key, values): fill(inner, values) for key, inner in value.items()}
    if isinstance(value, list):
        return [fill(inner, values) for inner in value]
    if not isinstance(value, str) or not values:
        return value
    if (name_match := _PLACEHOLDER.fullmatch(value)) is not None:
        return _look_up(name_match[1], values)
    return _PLACEHOLDER.sub(lambda match: str(_look_up(match[1], values)), value)


def _fill_key(key: Any, values: dict[str, Any]) -> Any:
    filled = fill(key, values)
    if isinstance(filled, dict | list):
        raise ValueError(
            f"each: expected a text or number for the key {key!r}, got {format_value(filled)}"
        )
    return filled


def _look_up(name: str, values: dict[str, Any]) -> Any:
    if name not in values:
        raise ValueError(f"each: an item has no {name!r}: {suggest(name, values)}")
    return values[name]
