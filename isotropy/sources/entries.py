"""From an entry of the registry, as its file has it, to the source that it describes.

What an entry leaves out follows from the rest:

- its kind, from its file (a corpus says `kind: corpus`, and a user's own entry its kind);
- an origin's content, if there is only one;
- a hub's `repo_type`, from the kind, and the files of a model (`MODEL_FILES`);
- the origin in a mirror folder that has a hub's files at `hf/models/<repo>/<file>` or
  `hf/datasets/<repo>/<file>`, right behind the hub, unless the hub's origin says `mirror: false`;
- names of files, from the last part of their paths, where `files` is a list;
- all of a model with random weights but `random: {like: ID, seed: 0}`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from isotropy.errors import shown, suggest
from isotropy.sources import formats
from isotropy.sources.encoder import Encoder
from isotropy.sources.sizes import ModelSize, Size, TextsSize, VectorsSize
from isotropy.sources.spec import (
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
"""What a hub's repository of a model delivers unless the entry says otherwise."""
EXPECTED = ("rows", "unique_texts", "content_sha256", "files")
"""Fields of a content that stand below `expect` in a file."""
ORIGINS = (HubOrigin, UrlOrigin, MirrorOrigin, PackageOrigin, FileOrigin, Piece)
FIELDS: dict[str, set[str]] = {
    "": {*Source.model_fields, "size", "each", "random"},
    "contents": {*Content.model_fields, "expect"},
    "origins": {name for model in ORIGINS for name in model.model_fields} | {"mirror"},
    "encoder": {*Encoder.model_fields},
}
"""Fields by the part of an entry that they belong to, for hints."""

Model = TypeVar("Model", bound=BaseModel)


class Mistake(ValueError):
    """What is wrong with an entry, and in which field."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


def source(kind: str | None, entry: Any, citations: dict[str, str]) -> tuple[Source, Size | None]:
    """The source that an entry describes, and its size if the entry has one.

    Args:
        kind: kind of the source, unless the entry says another; None: the entry must say it.
        entry: the entry, as its file has it.
        citations: the registry's citations, by key.

    Raises:
        Mistake: a field does not fit.
    """
    if not isinstance(entry, dict):
        raise Mistake("", f"expected a mapping, got {shown(entry)}")
    fields = {**({"kind": kind} if kind else {}), **entry}
    size = fields.pop("size", None)
    if "citation" in fields:
        fields["citation"] = _cite(fields["citation"], citations)
    if isinstance(contents := fields.get("contents"), dict):
        fields["contents"] = {name: _content(name, content) for name, content in contents.items()}
    places: list[int] = []
    if isinstance(origins := fields.get("origins"), list):
        complete = [
            (place, one)
            for place, origin in enumerate(origins)
            for one in _origins(origin, str(fields.get("kind")), fields.get("contents"))
        ]
        places = [place for place, _ in complete]
        fields["origins"] = [one for _, one in complete]
    found = _validated(Source, fields, places)
    _require_readers(found)
    return found, None if size is None else _size(found.kind, size)


def control(entry: dict[Any, Any], sources: Mapping[str, Source]) -> tuple[str, Source]:
    """The model that an entry's random weights are like, and the source that it describes: all is
    that model's but the weights.

    Args:
        entry: the entry, as its file has it, with `random`.
        sources: those without random weights, by id.

    Raises:
        Mistake: a field does not fit.
    """
    if others := sorted(str(key) for key in entry if key not in ("random", "kind")):
        raise Mistake(others[0], "expected nothing beside `random`, which is all of such an entry")
    wanted = entry["random"]
    if not isinstance(wanted, dict):
        raise Mistake("random", f"expected {{like: ID, seed: 0}}, got {shown(wanted)}")
    own = {"type": "random", "content": "weights", "files": {name: name for name in MODEL_FILES}}
    origin = _validated(RandomOrigin, own | wanted, under="random")
    if origin.like not in sources or sources[origin.like].kind != "model":
        models = [name for name, one in sources.items() if one.kind == "model"]
        hint = suggest(origin.like, models, "in the registry")
        raise Mistake(
            "random.like", f"expected a model of the registry, got {origin.like!r}; {hint}"
        )
    content = Content(status="stand-in", title=origin.describe())
    update = {"contents": {"weights": content}, "origins": [origin]}
    return origin.like, sources[origin.like].model_copy(update=update)


def _cite(keys: Any, citations: dict[str, str]) -> str:
    """The text of one citation or of several, by their keys."""
    texts = []
    for key in keys if isinstance(keys, list) else [keys]:
        if not isinstance(key, str) or key not in citations:
            hint = suggest(shown(key), citations, "in citations")
            raise Mistake("citation", f"expected a key of citations, got {shown(key)}; {hint}")
        texts.append(citations[key])
    return "; ".join(texts)


def _content(name: str, content: Any) -> Any:
    """A content with what is expected of it beside its other fields."""
    if not isinstance(content, dict):
        return content
    if stray := [field for field in EXPECTED if field in content]:
        raise Mistake(f"contents.{name}.{stray[0]}", "move this field under `expect:`")
    rest = {key: value for key, value in content.items() if key != "expect"}
    expect = content.get("expect", {})
    if not isinstance(expect, dict) or (unknown := sorted(set(expect) - set(EXPECTED))):
        got = repr(expect) if not isinstance(expect, dict) else unknown[0]
        fields = ", ".join(EXPECTED)
        raise Mistake(f"contents.{name}.expect", f"expected the fields {fields}, got {got}")
    return rest | expect


def _origins(origin: Any, kind: str, contents: Any) -> list[Any]:
    """An origin with what follows from the rest of its entry, and the origin in a mirror folder
    that a hub implies.
    """
    if not isinstance(origin, dict):
        return [origin]
    one = dict(origin)
    if isinstance(contents, dict) and len(contents) == 1:
        one.setdefault("content", next(iter(contents)))
    if one.get("type") != "hub":
        return [one | _named(one.get("files"))]
    mirrored = one.pop("mirror", True)
    if not isinstance(mirrored, bool):
        raise Mistake("origins.mirror", f"expected true or false, got {shown(mirrored)}")
    one.setdefault("repo_type", "model" if kind == "model" else "dataset")
    if kind == "model":
        one.setdefault("files", MODEL_FILES)
    one |= _named(one.get("files"))
    if not mirrored or not isinstance(one.get("files"), dict):
        return [one]
    folder = f"hf/{one['repo_type']}s/{one.get('repo')}"
    below = {name: f"{folder}/{path}" for name, path in one["files"].items()}
    return [one, {"type": "mirror", "content": one.get("content"), "files": below}]


def _named(files: Any) -> dict[str, Any]:
    """The field `files`, if there is one: names from the last part of the paths of a list."""
    if not isinstance(files, list) or not all(isinstance(path, str) for path in files):
        return {} if files is None else {"files": files}
    names = [PurePosixPath(path).name for path in files]
    if len(set(names)) < len(names):
        raise Mistake("origins.files", "expected different names, got the same name for two paths")
    return {"files": dict(zip(names, files, strict=True))}


def _size(kind: str, size: Any) -> Size:
    if kind == "model":
        return _validated(ModelSize, size, under="size")
    if kind == "vectors":
        return _validated(VectorsSize, size, under="size")
    return _validated(TextsSize, size, under="size")


def _require_readers(found: Source) -> None:
    for name, content in found.contents.items():
        if content.format is not None and content.format not in formats.known():
            hint = suggest(content.format, formats.known(), "in isotropy/sources/readers")
            field = f"contents.{name}.format"
            raise Mistake(field, f"expected a format with a reader, got {content.format!r}; {hint}")


def _validated(
    model: type[Model], data: Any, places: list[int] | None = None, under: str = ""
) -> Model:
    """The model of the data.

    Args:
        model: what the data describe.
        data: the data.
        places: for each origin, the number of the one in the file that it follows from.
        under: the field that holds the data.

    Raises:
        Mistake: the first field that does not fit.
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        path = list(first["loc"])
        if path[:1] == ["origins"] and len(path) > 1 and places:
            path[1] = places[int(path[1])]
        if path[:1] == ["contents"] and len(path) > 2 and path[2] in EXPECTED:
            path.insert(2, "expect")
        field = ".".join(str(part) for part in ([under] if under else []) + path)
        known = FIELDS.get(str(path[0]) if path[1:] else under, {*model.model_fields})
        raise Mistake(field, _explain(dict(first), known)) from error


def _explain(error: dict[str, Any], fields: set[str]) -> str:
    """What was expected and what came, in words; with the fields that there could be."""
    value, context = error["input"], error.get("ctx", {})
    match error["type"]:
        case "missing":
            return "expected a value, got none"
        case "extra_forbidden":
            return f"unknown field; {suggest(str(error['loc'][-1]), fields, 'in CONTRIBUTING.md')}"
        case "value_error":
            return str(context["error"])
        case "string_pattern_mismatch":
            return f"expected text that matches {context['pattern']}, got {shown(value)}"
        case "literal_error" | "union_tag_invalid":
            choices = context.get("expected") or context.get("expected_tags")
            return f"expected {choices}, got {shown(context.get('tag', value))}"
    message = error["msg"].removeprefix("Input should be ")
    return f"expected {message}, got {shown(value)}"
