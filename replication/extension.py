"""Studies of a user's own models and data in place of the papers', with layers, components and
sample sizes derived from a model's depth and width (docs/your-model.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import AfterValidator, Field

from isotropy.errors import IsotropyError
from replication.context import Context, DataSpec
from replication.field_types import distinct
from replication.prepare.spec import Blocks, CorpusSpec, Sample, SentencesSpec, Split, WordsSpec
from replication.sources.registry import ModelSize, Size, Source
from replication.spec import Strict

MAX_LAYERS = 6
"""Maximum number of hidden layers to measure per model: as many as MiniLM has."""
BERT_WIDTH, BERT_CLUSTER_COMPONENTS, BERT_GLOBAL_COMPONENTS = 768, 12, 15
"""BERT's width, and the components that Rajaee & Pilehvar remove per cluster and globally."""
MAX_ITEMS, MAX_TASK_ITEMS, MAX_BLOCKS, LINES_PER_BLOCK = 5000, 600, 30, 40
"""Sizes as in the default study: items per trajectory, items per task, blocks per corpus, lines per
block."""


class Extension(Strict):
    """The user's own models and data sets, in place of the papers'. Every applicable experiment is
    run, at the scale of config.yaml.
    """

    models: Annotated[list[str], Field(min_length=1), AfterValidator(distinct)]
    """Models or static vectors of the source registry."""
    datasets: Annotated[list[str], AfterValidator(distinct)] = []
    """Data sets and corpora of the source registry, in addition to those of the default study."""
    papers: Annotated[list[str], Field(min_length=1), AfterValidator(distinct)] | None = None
    """Keys of the papers whose experiments are run; null: all papers in config.yaml."""


@dataclass(frozen=True)
class UserModel:
    """A user's model, with the properties that the papers' studies depend on.

    Attributes:
        name: id in the source registry.
        layers: number of hidden layers.
        width: number of dimensions of a token vector.
        max_length: maximum number of tokens of a text; the rest is cut off.
        causal: whether it is a decoder (has causal attention).
        positions: maximum number of tokens that it has position embeddings for.
    """

    name: str
    layers: int
    width: int
    max_length: int
    causal: bool
    positions: int = 512

    def measured_layers(self) -> list[int]:
        """Return the hidden layers to measure: all, or MAX_LAYERS equally spaced ones that include
        the first and the last.

        Examples:
            >>> UserModel("m", 12, 768, 512, False).measured_layers()
            [1, 3, 5, 8, 10, 12]
        """
        if self.layers <= MAX_LAYERS:
            return list(range(1, self.layers + 1))
        step = (self.layers - 1) / (MAX_LAYERS - 1)
        return [1 + round(i * step) for i in range(MAX_LAYERS)]

    def outer_layers(self) -> list[int]:
        """Return the first, the middle and the last of the layers to measure."""
        layers = self.measured_layers()
        return sorted({layers[0], layers[(len(layers) - 1) // 2], layers[-1]})

    def components(self) -> tuple[int, int]:
        """Return the numbers of components to remove per cluster and globally, in proportion to the
        width, as for BERT.
        """
        scale = self.width / BERT_WIDTH
        return max(1, round(BERT_CLUSTER_COMPONENTS * scale)), max(
            1, round(BERT_GLOBAL_COMPONENTS * scale)
        )


@dataclass(frozen=True)
class ResolvedExtension:
    """The models and data of an extension, grouped by the experiments that they allow.

    Attributes:
        models: the models.
        vectors: names of static vectors.
        classes: names of data sets with classes, of at most MAX_ITEMS items.
        scores: names of data sets of pairs with a score.
        corpora: names of corpora, each read as one stream.
        texts: names of corpora, each line read as a text.
        datasets: specs of all data sets needed in addition to those of the study, by name.
    """

    models: list[UserModel]
    vectors: list[str]
    classes: list[str] = field(default_factory=list)
    scores: list[str] = field(default_factory=list)
    corpora: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    datasets: dict[str, DataSpec] = field(default_factory=dict)

    @property
    def positions(self) -> int:
        """Maximum number of tokens that all models accept."""
        return min(model.positions for model in self.models)

    @property
    def encoders(self) -> list[UserModel]:
        """Models to fine-tune: all but decoders, which no paper fine-tunes."""
        return [model for model in self.models if not model.causal]

    def class_names(self, dataset: str) -> list[str]:
        """Return the names of the classes of a data set."""
        spec = self.datasets[dataset]
        return spec.label_names if isinstance(spec, SentencesSpec) else []

    def words_name(self, dataset: str, vectors: str) -> str:
        """Return the name of the copy of a data set of words that uses other vectors."""
        return f"{dataset}-{vectors}"


def resolve_extension(
    extension: Extension, context: Context, sizes: Mapping[str, Size]
) -> ResolvedExtension:
    """Look up the models and data of an extension in the source registry.

    Raises:
        IsotropyError: a source does not exist, has another kind, or has no size or labels.
    """
    resolved = ResolvedExtension([], [])
    for i, name in enumerate(extension.models):
        path = f"extension.models.{i}"
        source = context.require_source(path, name, "model", "vectors")
        if source.kind == "vectors":
            resolved.vectors.append(name)
            _add_words(resolved, name, context)
        else:
            resolved.models.append(_user_model(path, name, source, sizes))
    for i, name in enumerate(extension.datasets):
        path = f"extension.datasets.{i}"
        source = context.require_source(path, name, "dataset", "corpus")
        if name in context.datasets:
            raise IsotropyError(f"config: {path}: the study already has a data set {name!r}")
        _add_texts(resolved, path, name, source)
    if resolved.classes + resolved.scores + resolved.corpora and not resolved.models:
        raise IsotropyError(
            "config: extension.models: expected a model for extension.datasets, got word vectors"
        )
    if taken := [name for name in resolved.datasets if name in context.datasets]:
        raise _duplicate_error(taken[0])
    return resolved


def _duplicate_error(name: str) -> IsotropyError:
    return IsotropyError(
        f"config: extension.datasets: {name!r} would name two data sets: give one another name "
        "(isotropy sources add --name)"
    )


def _user_model(path: str, name: str, source: Source, sizes: Mapping[str, Size]) -> UserModel:
    size = sizes.get(name)
    if not isinstance(size, ModelSize) or source.encoder is None:
        raise IsotropyError(f"config: {path}: expected `size` in the registry's entry of {name!r}")
    length = source.encoder.max_length
    return UserModel(name, size.layers, size.width, length, size.causal, size.positions or 512)


def _add_words(resolved: ResolvedExtension, vectors: str, context: Context) -> None:
    """Add copies of the study's data sets of words that use the given vectors."""
    for name, dataset in context.datasets.items():
        if isinstance(dataset, WordsSpec) and dataset.vectors != vectors:
            words_copy = dataset.model_copy(update={"vectors": vectors})
            resolved.datasets[resolved.words_name(name, vectors)] = words_copy


def _add_texts(resolved: ResolvedExtension, path: str, name: str, source: Source) -> None:
    content = next(iter(source.contents.values()))
    rows = content.rows or 0
    suffixes = ("", "-part", "-train", "-validation", "-lines")
    if taken := [name + suffix for suffix in suffixes if name + suffix in resolved.datasets]:
        raise _duplicate_error(taken[0])
    if source.kind == "corpus":
        n_blocks = min(MAX_BLOCKS, rows // LINES_PER_BLOCK)
        stream = Blocks(n_blocks=n_blocks, n_lines=LINES_PER_BLOCK, seed=0) if n_blocks else None
        lines = Blocks(n_blocks=min(rows, 1000), n_lines=1, seed=0) if rows else None
        resolved.datasets[name] = CorpusSpec(kind="corpus", source=name, blocks=stream)
        lines_spec = CorpusSpec(kind="corpus", source=name, blocks=lines)
        resolved.datasets[f"{name}-lines"] = lines_spec
        resolved.corpora.append(name)
        resolved.texts.append(f"{name}-lines")
        return
    if content.label_names:
        common = {"kind": "sentences", "source": name, "label_names": content.label_names}
        task_sample = Sample(n_items=MAX_TASK_ITEMS, seed=0) if rows > MAX_TASK_ITEMS else None
        full_sample = Sample(n_items=MAX_ITEMS, seed=0) if rows > MAX_ITEMS else None
        resolved.datasets[name] = SentencesSpec.model_validate({**common, "sample": full_sample})
        resolved.datasets[f"{name}-part"] = SentencesSpec.model_validate(
            {**common, "sample": task_sample}
        )
        for side in ("train", "validation"):
            split = Split(part=side, held_out=0.5, seed=0)
            split_spec = SentencesSpec.model_validate(
                {**common, "sample": task_sample, "split": split}
            )
            resolved.datasets[f"{name}-{side}"] = split_spec
        resolved.classes.append(name)
    elif content.label_field is not None and len(content.text_fields) == 2:
        resolved.datasets[name] = SentencesSpec(kind="sentences", source=name, task="regression")
        resolved.scores.append(name)
    else:
        raise IsotropyError(
            f"config: {path}: the registry's entry of {name!r} has neither classes nor scores: add "
            "the data as your own with isotropy sources add"
        )
