"""A study of models and data of one's own: what takes the place of the papers' own, and by which
rules layers, clusters and sizes follow from a model's depth and width (docs/your-model.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import AfterValidator, Field

from isotropy.context import Context, DataSpec
from isotropy.errors import IsotropyError
from isotropy.field_types import distinct
from isotropy.prepare.spec import Blocks, CorpusSpec, Sample, SentencesSpec, Split, WordsSpec
from isotropy.sources.registry import Source
from isotropy.sources.sizes import ModelSize, Size
from isotropy.spec import Strict

MOST_LAYERS = 6
"""Hidden layers that are measured of a model: as many as MiniLM has."""
BASE_WIDTH, BASE_COMPONENTS, BASE_GLOBAL = 768, 12, 15
"""Components that Rajaee & Pilehvar remove from BERT's 768 dimensions, in clusters and in all."""
MOST_ITEMS, MOST_TASK_ITEMS, MOST_BLOCKS, LINES = 5000, 600, 30, 40
"""Items of a trajectory and of a task, blocks of a corpus and their lines: the default study's."""


class Extension(Strict):
    """Models and data sets of your own, in place of the papers': each experiment that makes sense
    for them is run, at the scale of config.yaml.
    """

    models: Annotated[list[str], Field(min_length=1), AfterValidator(distinct)]
    """Models or static vectors of the source registry."""
    datasets: Annotated[list[str], AfterValidator(distinct)] = []
    """Data sets and corpora of the source registry, besides the default study's."""
    papers: Annotated[list[str], Field(min_length=1), AfterValidator(distinct)] | None = None
    """Keys of the papers; null: all that config.yaml attempts."""


@dataclass(frozen=True)
class OwnModel:
    """What a paper's study must know of a model.

    Attributes:
        name: its id in the registry.
        layers: hidden layers.
        width: numbers per token.
        max_length: tokens that it reads.
        causal: whether it is a decoder.
        positions: tokens that it has positions for.
    """

    name: str
    layers: int
    width: int
    max_length: int
    causal: bool
    positions: int = 512

    def spread(self) -> list[int]:
        """Hidden layers that are measured: all, or MOST_LAYERS at equal distances, the first and
        the last among them.

        Examples:
            >>> OwnModel("m", 12, 768, 512, False).spread()
            [1, 3, 5, 8, 10, 12]
        """
        if self.layers <= MOST_LAYERS:
            return list(range(1, self.layers + 1))
        step = (self.layers - 1) / (MOST_LAYERS - 1)
        return [1 + round(i * step) for i in range(MOST_LAYERS)]

    def ends(self) -> list[int]:
        """The first, the middle and the last of these."""
        spread = self.spread()
        return sorted({spread[0], spread[(len(spread) - 1) // 2], spread[-1]})

    def components(self) -> tuple[int, int]:
        """Components to remove in clusters and in all: BERT's, in proportion to the width."""
        share = self.width / BASE_WIDTH
        return max(1, round(BASE_COMPONENTS * share)), max(1, round(BASE_GLOBAL * share))


@dataclass(frozen=True)
class Own:
    """What a study is extended to.

    Attributes:
        models: models.
        vectors: static vectors.
        classes: data sets with classes: whole (to MOST_ITEMS).
        scores: data sets of pairs with a score.
        corpora: running text, as one stream.
        texts: running text, line by line.
        datasets: specs of all data sets that this needs beside the study's.
    """

    models: list[OwnModel]
    vectors: list[str]
    classes: list[str] = field(default_factory=list)
    scores: list[str] = field(default_factory=list)
    corpora: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    datasets: dict[str, DataSpec] = field(default_factory=dict)

    @property
    def positions(self) -> int:
        """Tokens that all models have positions for."""
        return min(model.positions for model in self.models)

    @property
    def encoders(self) -> list[OwnModel]:
        """Models that are fine-tuned: no paper fine-tunes decoders."""
        return [model for model in self.models if not model.causal]

    def names(self, dataset: str) -> list[str]:
        """Names of the classes of a data set."""
        found = self.datasets[dataset]
        return found.label_names if isinstance(found, SentencesSpec) else []

    def words(self, dataset: str, vectors: str) -> str:
        """Name of a data set of words with these vectors."""
        return f"{dataset}-{vectors}"


def own(extension: Extension, context: Context, sizes: Mapping[str, Size]) -> Own:
    """What a study is extended to.

    Raises:
        IsotropyError: a source that does not exist, of another kind, or of unknown size or classes.
    """
    found = Own([], [])
    for i, name in enumerate(extension.models):
        path = f"extension.models.{i}"
        source = context.require_source(path, name, "model", "vectors")
        if source.kind == "vectors":
            found.vectors.append(name)
            _add_words(found, name, context)
        else:
            found.models.append(_model(path, name, source, sizes))
    for i, name in enumerate(extension.datasets):
        path = f"extension.datasets.{i}"
        source = context.require_source(path, name, "dataset", "corpus")
        if name in context.datasets:
            raise IsotropyError(f"config: {path}: {name!r} is a data set of the study already")
        _add_texts(found, path, name, source)
    if found.classes + found.scores + found.corpora and not found.models:
        raise IsotropyError(
            "config: extension.models: expected a model for extension.datasets, got word vectors"
        )
    if taken := [name for name in found.datasets if name in context.datasets]:
        raise _taken(taken[0])
    return found


def _taken(name: str) -> IsotropyError:
    return IsotropyError(
        f"config: extension.datasets: {name!r} would name two data sets: give one another name "
        "(isotropy sources add --name)"
    )


def _model(path: str, name: str, source: Source, sizes: Mapping[str, Size]) -> OwnModel:
    size = sizes.get(name)
    if not isinstance(size, ModelSize) or source.encoder is None:
        raise IsotropyError(f"config: {path}: expected `size` in the registry's entry of {name!r}")
    length = source.encoder.max_length
    return OwnModel(name, size.layers, size.width, length, size.causal, size.positions)


def _add_words(found: Own, vectors: str, context: Context) -> None:
    """The study's data sets of words, with other vectors."""
    for name, dataset in context.datasets.items():
        if isinstance(dataset, WordsSpec) and dataset.vectors != vectors:
            other = dataset.model_copy(update={"vectors": vectors})
            found.datasets[found.words(name, vectors)] = other


def _add_texts(found: Own, path: str, name: str, source: Source) -> None:
    content = next(iter(source.contents.values()))
    rows = content.rows or 0
    ends = ("", "-part", "-train", "-validation", "-lines")
    if taken := [name + end for end in ends if name + end in found.datasets]:
        raise _taken(taken[0])
    if source.kind == "corpus":
        most = min(MOST_BLOCKS, rows // LINES)
        stream = Blocks(n_blocks=most, n_lines=LINES, seed=0) if most else None
        lines = Blocks(n_blocks=min(rows, 1000), n_lines=1, seed=0) if rows else None
        found.datasets[name] = CorpusSpec(kind="corpus", source=name, blocks=stream)
        own_lines = CorpusSpec(kind="corpus", source=name, blocks=lines)
        found.datasets[f"{name}-lines"] = own_lines
        found.corpora.append(name)
        found.texts.append(f"{name}-lines")
        return
    if content.label_names:
        common = {"kind": "sentences", "source": name, "label_names": content.label_names}
        part = Sample(n_items=MOST_TASK_ITEMS, seed=0) if rows > MOST_TASK_ITEMS else None
        whole = Sample(n_items=MOST_ITEMS, seed=0) if rows > MOST_ITEMS else None
        found.datasets[name] = SentencesSpec.model_validate({**common, "sample": whole})
        found.datasets[f"{name}-part"] = SentencesSpec.model_validate({**common, "sample": part})
        for side in ("train", "validation"):
            split = Split(part=side, held_out=0.5, seed=0)
            one = SentencesSpec.model_validate({**common, "sample": part, "split": split})
            found.datasets[f"{name}-{side}"] = one
        found.classes.append(name)
    elif content.label_field is not None and len(content.text_fields) == 2:
        found.datasets[name] = SentencesSpec(kind="sentences", source=name, task="regression")
        found.scores.append(name)
    else:
        raise IsotropyError(
            f"config: {path}: the classes or scores of {name!r} are not in its entry of the "
            "registry: add the data as your own, by isotropy sources add"
        )
