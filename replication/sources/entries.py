"""Parse entries of the registry's files into sources.

Fields that an entry leaves out are inferred:

- its kind, from its file (corpora and a user's own entries must state `kind`);
- an origin's `content`, if the source has only one;
- a hub origin's `repo_type`, from the kind, and the files of a model (`MODEL_FILES`);
- after each hub origin, an origin in the mirror folder with the same files at
  `hf/models/<repo>/<file>` or `hf/datasets/<repo>/<file>`, unless the hub origin has
  `mirror: false`;
- names of files, from the last part of their paths, where `files` is a list;
- everything in an entry with `random: {like: ID, seed: 0}`, a model with random weights, from the
  model ID.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from isotropy.errors import format_value, suggest
from isotropy.models.encoder import Encoder
from replication.sources import formats
from replication.sources.sizes import ModelSize, Size, TextsSize, VectorsSize
from replication.sources.spec import (
    Content,
    FileOrigin,
    HubOrigin,
    MirrorOrigin,
    PackageOrigin,
    Piece,
    RandomOrigin,
    Source,
    UrlOrigin,
)

MODEL_FILES = ["model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json"]
"""Files of a model that are fetched from a hub unless its entry lists others."""
EXPECTED = ("rows", "unique_texts", "content_sha256", "files")
"""Fields of a content that a registry file has under `expect`."""
ORIGINS = (HubOrigin, UrlOrigin, MirrorOrigin, PackageOrigin, FileOrigin, Piece)
FIELDS: dict[str, set[str]] = {
    "": {*Source.model_fields, "size", "each", "random"},
    "contents": {*Content.model_fields, "expect"},
    "origins": {name for model in ORIGINS for name in model.model_fields} | {"mirror"},
    "encoder": {*Encoder.model_fields},
}
"""Valid fields of each part of an entry, for hints about misspelt ones."""

Model = TypeVar("Model", bound=BaseModel)


class EntryError(ValueError):
    """An error in an entry of the registry, with the field that it is in."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


def parse_source(
    kind: str | None, entry: Any, citations: dict[str, str]
) -> tuple[Source, Size | None]:
    """Parse an entry into a source, and its size if the entry states one.

    Args:
        kind: kind of the source, unless the entry states another; None: the entry must state it.
        entry: the entry, as read from its file.
        citations: the registry's citations, by key.

    Raises:
        EntryError: a field is missing or invalid.
    """
    if not isinstance(entry, dict):
        raise EntryError("", f"expected a mapping, got {format_value(entry)}")
    fields = {**({"kind": kind} if kind else {}), **entry}
    size = fields.pop("size", None)
    if "citation" in fields:
        fields["citation"] = _citation_text(fields["citation"], citations)
    if isinstance(contents := fields.get("contents"), dict):
        fields["contents"] = {
            name: _flatten_content(name, content) for name, content in contents.items()
        }
    places: list[int] = []
    if isinstance(origins := fields.get("origins"), list):
        complete = [
            (place, full_origin)
            for place, origin in enumerate(origins)
            for full_origin in _complete_origin(
                origin, str(fields.get("kind")), fields.get("contents")
            )
        ]
        places = [place for place, _ in complete]
        fields["origins"] = [full_origin for _, full_origin in complete]
    parsed = _validate(Source, fields, places)
    _require_readers(parsed)
    return parsed, None if size is None else _parse_size(parsed.kind, size)


def parse_control(entry: dict[Any, Any], sources: Mapping[str, Source]) -> tuple[str, Source]:
    """Parse an entry of a model with random weights.

    Args:
        entry: the entry, as read from its file, with `random`.
        sources: the sources without random weights, by id.

    Returns:
        Id of the model with the same architecture, and a copy of its source that has random
        weights.

    Raises:
        EntryError: a field is missing or invalid.
    """
    if extra := sorted(str(key) for key in entry if key not in ("random", "kind")):
        raise EntryError(
            extra[0], "expected nothing beside `random`; all other fields are inferred"
        )
    options = entry["random"]
    if not isinstance(options, dict):
        raise EntryError("random", f"expected {{like: ID, seed: 0}}, got {format_value(options)}")
    implied = {
        "type": "random",
        "content": "weights",
        "files": {name: name for name in MODEL_FILES},
    }
    origin = _validate(RandomOrigin, implied | options, parent="random")
    if origin.like not in sources or sources[origin.like].kind != "model":
        models = [name for name, candidate in sources.items() if candidate.kind == "model"]
        hint = suggest(origin.like, models, "in the registry")
        raise EntryError(
            "random.like", f"expected a model of the registry, got {origin.like!r}; {hint}"
        )
    content = Content(status="stand-in", title=origin.describe())
    update = {"contents": {"weights": content}, "origins": [origin]}
    return origin.like, sources[origin.like].model_copy(update=update)


def _citation_text(keys: Any, citations: dict[str, str]) -> str:
    """The text of one citation or of several, by their keys."""
    texts = []
    for key in keys if isinstance(keys, list) else [keys]:
        if not isinstance(key, str) or key not in citations:
            hint = suggest(format_value(key), citations, "in citations")
            raise EntryError(
                "citation", f"expected a key of citations, got {format_value(key)}; {hint}"
            )
        texts.append(citations[key])
    return "; ".join(texts)


def _flatten_content(name: str, content: Any) -> Any:
    """Put the fields under `expect` beside the other fields of a content."""
    if not isinstance(content, dict):
        return content
    if stray := [field for field in EXPECTED if field in content]:
        raise EntryError(f"contents.{name}.{stray[0]}", "move this field under `expect:`")
    rest = {key: value for key, value in content.items() if key != "expect"}
    expect = content.get("expect", {})
    if not isinstance(expect, dict) or (unknown := sorted(set(expect) - set(EXPECTED))):
        got = repr(expect) if not isinstance(expect, dict) else unknown[0]
        fields = ", ".join(EXPECTED)
        raise EntryError(f"contents.{name}.expect", f"expected the fields {fields}, got {got}")
    return rest | expect


def _complete_origin(origin: Any, kind: str, contents: Any) -> list[Any]:
    """Complete an origin with fields inferred from its entry; after a hub origin, add the origin in
    the mirror folder that it implies.
    """
    if not isinstance(origin, dict):
        return [origin]
    full = dict(origin)
    if isinstance(contents, dict) and len(contents) == 1:
        full.setdefault("content", next(iter(contents)))
    if full.get("type") != "hub":
        return [full | _name_files(full.get("files"))]
    mirrored = full.pop("mirror", True)
    if not isinstance(mirrored, bool):
        raise EntryError("origins.mirror", f"expected true or false, got {format_value(mirrored)}")
    full.setdefault("repo_type", "model" if kind == "model" else "dataset")
    if kind == "model":
        full.setdefault("files", MODEL_FILES)
    full |= _name_files(full.get("files"))
    if not mirrored or not isinstance(full.get("files"), dict):
        return [full]
    folder = f"hf/{full['repo_type']}s/{full.get('repo')}"
    mirror_paths = {name: f"{folder}/{path}" for name, path in full["files"].items()}
    return [full, {"type": "mirror", "content": full.get("content"), "files": mirror_paths}]


def _name_files(files: Any) -> dict[str, Any]:
    """The field `files`, if there is one; a list becomes a mapping, named by the last parts."""
    if not isinstance(files, list) or not all(isinstance(path, str) for path in files):
        return {} if files is None else {"files": files}
    names = [PurePosixPath(path).name for path in files]
    if len(set(names)) < len(names):
        raise EntryError(
            "origins.files", "expected different names, got the same name for two paths"
        )
    return {"files": dict(zip(names, files, strict=True))}


def _parse_size(kind: str, size: Any) -> Size:
    if kind == "model":
        return _validate(ModelSize, size, parent="size")
    if kind == "vectors":
        return _validate(VectorsSize, size, parent="size")
    return _validate(TextsSize, size, parent="size")


def _require_readers(parsed: Source) -> None:
    for name, content in parsed.contents.items():
        if content.format is not None and content.format not in formats.known_formats():
            hint = suggest(
                content.format, formats.known_formats(), "in replication/sources/readers"
            )
            field = f"contents.{name}.format"
            raise EntryError(
                field, f"expected a format with a reader, got {content.format!r}; {hint}"
            )


def _validate(
    model: type[Model], data: Any, places: list[int] | None = None, parent: str = ""
) -> Model:
    """Validate data by a model.

    Args:
        model: the Pydantic model.
        data: the data.
        places: for each origin, the index of its entry in the file, which has no implied origins.
        parent: the field of the entry that holds the data; "": the entry itself.

    Raises:
        EntryError: the first field that is missing or invalid.
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        first_error = error.errors()[0]
        path = list(first_error["loc"])
        if path[:1] == ["origins"] and len(path) > 1 and places:
            path[1] = places[int(path[1])]
        if path[:1] == ["contents"] and len(path) > 2 and path[2] in EXPECTED:
            path.insert(2, "expect")
        field = ".".join(str(part) for part in ([parent] if parent else []) + path)
        valid_fields = FIELDS.get(str(path[0]) if path[1:] else parent, {*model.model_fields})
        raise EntryError(field, _explain(dict(first_error), valid_fields)) from error


def _explain(error: dict[str, Any], fields: set[str]) -> str:
    """Say what was expected and what was given; for an unknown field, suggest a valid one."""
    value, context = error["input"], error.get("ctx", {})
    match error["type"]:
        case "missing":
            return "expected a value, got none"
        case "extra_forbidden":
            return f"unknown field; {suggest(str(error['loc'][-1]), fields, 'in CONTRIBUTING.md')}"
        case "value_error":
            return str(context["error"])
        case "string_pattern_mismatch":
            return f"expected text that matches {context['pattern']}, got {format_value(value)}"
        case "literal_error" | "union_tag_invalid":
            choices = context.get("expected") or context.get("expected_tags")
            return f"expected {choices}, got {format_value(context.get('tag', value))}"
    message = error["msg"].removeprefix("Input should be ")
    return f"expected {message}, got {format_value(value)}"
