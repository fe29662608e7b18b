"""Reference of the configuration as a page of Markdown, from the JSON schema of its models."""

from __future__ import annotations

import json
import re
from typing import Any

INTRODUCTION = """\
# Configuration

<!-- Made by `isotropy schema --write` from the models of the configuration; do not edit. -->

`config.yaml`, at the top level of the checkout, is the default study. To change it, write what
differs into a file of your own and name it: `snakemake --cores all --configfile mine.yaml`. Of
several files the later one counts, key by key; `null` removes a named entry.
`isotropy plan --configfile mine.yaml` says what the study costs. A mistake ends the run before the
first job, with the field's path and what is expected. A field without a default has its value in
`config.yaml`.

The files of this folder are such changes of the default study: `smoke.yaml` (what the tests run),
`mirror.yaml` (data that a mirror of the official files has), `paper.yaml` (the full scale),
`decisive.yaml` (after it: the smallest study that can decide the statements), `gpu.yaml` (after
`mirror.yaml`: one GPU), `ptb.yaml` (your copy of the Penn Treebank), `gallery.yaml` (all models of
package registries), `model.yaml` (a template for yours). `rates.yaml` has the speeds that
`isotropy plan` counts with, `sources/` is the registry of models and data.

Editors complete and check a configuration that begins with the line
`# yaml-language-server: $schema=schemas/config.schema.json`.
"""


def reference(schema: dict[str, Any]) -> str:
    """Return the page: a table of fields per model, each after the one that first refers to it.

    Args:
        schema: JSON schema of a pydantic model, with its `$defs`.
    """
    root = {key: value for key, value in schema.items() if key != "$defs"}
    models = {root["title"]: root}
    for model in (queue := [root]):  # grows while it is read
        for name in re.findall(r'"#/\$defs/(\w+)"', json.dumps(model)):
            if name not in models:
                models[name] = schema["$defs"][name]
                queue.append(models[name])
    return "\n".join([INTRODUCTION, *(_section(*item) for item in models.items())])


def _title(name: str) -> str:
    """Return a model's name; pydantic puts the module before a name that two models have."""
    *module, name = name.split("__")
    return f"{name} of {module[-2]}" if module else name


def _section(name: str, model: dict[str, Any]) -> str:
    lines = [f"## {_title(name)}", "", _join_lines(model["description"]), ""]
    for field, schema in model["properties"].items():
        value = _value(schema)
        given = f" ({value})" if value else ""
        lines.append(
            f"- `{field}`{given}: {_join_lines(schema.get('description', ''))}".rstrip(": ")
        )
    return "\n".join([*lines, ""])


def _join_lines(text: str) -> str:
    return " ".join(text.split())


def _value(schema: dict[str, Any]) -> str:
    """Words or models that a field accepts; numbers and texts are the schema's."""
    if "$ref" in schema:
        title = _title(schema["$ref"].rpartition("/")[2])
        return f"[{title}](#{title.lower().replace(' ', '-')})"
    if "const" in schema or "enum" in schema:
        return ", ".join(f"`{json.dumps(v)}`" for v in schema.get("enum", [schema.get("const")]))
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " or ".join(filter(None, map(_value, schema[key])))
    entries = schema.get("patternProperties") or {"": schema.get("additionalProperties")}
    inner = schema.get("items") or next(iter(entries.values()))
    return _value(inner) if isinstance(inner, dict) else ""
