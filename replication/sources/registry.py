"""The source registry: every model, data set, file of vectors and lexicon that a study can name.

The entries are data, in `config/sources/*.yaml`: by id, the fields of `Source`, and the `size` that
costs are estimated from. A user's own are in `config/local/sources.yaml`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, StringConstraints, TypeAdapter, ValidationError

from isotropy.errors import IsotropyError, suggest
from replication.sources.spec import Source, Tier
from replication.spec import Strict, first_mistake
from replication.yaml_files import read_yaml

Positive = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(gt=0)]


class ModelSize(Strict):
    """Size of a model."""

    weights: Positive
    """Multiplications that a token takes in the layers, in millions."""
    width: Count
    """Dimensions of a token vector in each layer."""
    layers: Count
    gigabytes: Positive
    """Size of the model's files."""
    causal: bool = False
    """Whether it is a decoder: no token sees those after it."""
    positions: Count | None = None
    """Longest input in tokens; null: at least 512."""


class VectorsSize(Strict):
    """Size of static word vectors."""

    points: Count
    """Words."""
    width: Count
    """Dimensions of a word vector."""
    gigabytes: Positive
    """Size of the vectors' files."""
    contents: dict[str, VectorsSize] = {}
    """Sizes of contents that differ, such as a smaller stand-in, by their name in the entry."""


class TextsSize(Strict):
    """Size of a data set, corpus or lexicon, as far as its contents do not state it."""

    rows: Count | None = None
    tokens: Count | None = None
    """Tokens of all texts, special ones included."""
    tokens_per_text: Positive | None = None
    """Tokens of a text, special ones included."""


Size = ModelSize | VectorsSize | TextsSize


__all__ = ["Registry", "Source", "Tier", "load_registry", "parse_entries"]

LOCAL = "local/sources.yaml"
"""A user's own entries beside the registry's folder: `isotropy sources add` writes them, and git
ignores them."""
NAME = r"^[A-Za-z0-9][A-Za-z0-9_-]*$"
"""Pattern of the ids of sources, which become parts of paths."""


class Entry(Source):
    """A source and its size, which is in no spec: correcting it makes no job run again."""

    size: Size | None = None

    def source(self) -> Source:
        """Return the source without its size."""
        return Source.model_construct(**{f: getattr(self, f) for f in Source.model_fields})


class Registry(Strict):
    """The whole registry, by id of the source."""

    sources: dict[str, Source]
    sizes: dict[str, Size] = {}


_ENTRIES: TypeAdapter[dict[str, Entry]] = TypeAdapter(
    dict[Annotated[str, StringConstraints(pattern=NAME)], Entry]
)


def load_registry(folder: Path) -> Registry:
    """Read and validate the registry's files.

    Raises:
        IsotropyError: no file, invalid YAML, an id in two files, or an invalid entry, with its path
            and value.
    """
    entries: dict[str, Entry] = {}
    local = folder.parent / LOCAL
    for file in [*sorted(folder.glob("*.yaml")), *([local] if local.is_file() else [])]:
        new = parse_entries(file, read_yaml(file))
        if both := sorted(entries.keys() & new):
            raise IsotropyError(f"{file}: {both[0]}: another file has this id, too")
        entries |= new
    for name, entry in entries.items():
        origin = entry.random_origin
        if origin is not None and origin.like not in entries:
            raise IsotropyError(f"{folder}: {name}: {suggest(origin.like, entries)}")
    if not entries:
        raise IsotropyError(f"{folder} has no sources: expected models.yaml, datasets.yaml, …")
    return Registry(
        sources={name: entry.source() for name, entry in entries.items()},
        sizes={name: entry.size for name, entry in entries.items() if entry.size is not None},
    )


def parse_entries(file: Path, content: Any) -> dict[str, Entry]:
    """Validate the content of one of the registry's files."""
    try:
        return _ENTRIES.validate_python({} if content is None else content)
    except ValidationError as error:
        raise IsotropyError(f"{file}: {first_mistake(error, Entry)}") from error
