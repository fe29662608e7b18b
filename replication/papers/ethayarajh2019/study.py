"""The settings of a study of Ethayarajh 2019, and the measurements that they define."""

from __future__ import annotations

from functools import partial
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, Field, model_validator

from isotropy.errors import IsotropyError
from replication.context import (
    Context,
    Result,
    Results,
    TokenLayers,
    prepared_table,
    require_known,
    source_folder,
    token_vectors_folder,
)
from replication.extension import ResolvedExtension
from replication.field_types import DROPPABLE, Name, ascending, distinct
from replication.geometry.spec import ContextsSpec, StaticWordsSpec, Unit, Variant
from replication.papers.registry import Paper, PaperPlan, PaperStudy
from replication.prepare.spec import WordsSpec
from replication.spec import Strict


class Contextual(Strict):
    """The measurements of one model."""

    texts: Annotated[list[str], Field(min_length=1), AfterValidator(distinct)]
    """Names from `texts`."""
    layers: Annotated[
        list[Annotated[int, Field(ge=0)]], Field(min_length=1), AfterValidator(ascending)
    ]
    """Hidden layers; 0 is the embedding layer, which the paper counts as one."""
    unit: Unit
    """Unit that is taken as a word where claims are tested: the authors take word pieces of BERT,
    and words of GPT-2."""


class Benchmarks(Strict):
    """Static vectors of words, made from layers, on benchmarks of word similarity (Table 1)."""

    datasets: Annotated[list[str], Field(min_length=1), AfterValidator(distinct)]
    """Names from `datasets`: pairs of words with a score."""
    vectors: Annotated[list[str], Field(min_length=1), AfterValidator(distinct)]
    """Static vectors of the source registry, on the same pairs."""


class Ethayarajh2019(PaperStudy):
    """How context-specific the word vectors of each layer are."""

    texts: Annotated[dict[Name, Annotated[list[str], Field(min_length=1)]], DROPPABLE]
    """Collections of sentences, by name: lists of names from `datasets`. A sentence that occurs
    several times counts once."""
    models: Annotated[dict[str, Contextual], Field(min_length=1), DROPPABLE]
    """Models of the source registry."""
    units: Annotated[list[Unit], Field(min_length=1), AfterValidator(distinct)]
    """Units that are taken as words: all are measured. Must contain the `unit` of each model."""
    variants: Annotated[list[Variant], AfterValidator(distinct)]
    """Variants to measure besides all words unchanged: without the first of each sentence, without
    massive activations, or with standardized dimensions."""
    min_contexts: Annotated[int, Field(ge=2)]
    """Fewest distinct sentences in which a word must occur; 5 in the paper."""
    n_baseline: Annotated[int, Field(ge=2)]
    """Random words behind the baseline of explainable variance; 1,000 in the paper."""
    n_draws: Annotated[int, Field(ge=2)]
    """Number of draws of random words; one in the paper."""
    benchmarks: Benchmarks | None
    """Static vectors on benchmarks of word similarity; null: not attempted."""
    seed: Annotated[int, Field(ge=0)]
    """Random seed of draws; the authors set none."""

    @model_validator(mode="after")
    def _complete(self) -> Ethayarajh2019:
        if "all" in self.variants:
            raise ValueError("variants must not contain all, which is always measured")
        missing = {model.unit for model in self.models.values()} - set(self.units)
        if missing:
            raise ValueError(f"units must contain {missing.pop()}, the unit of a model")
        return self

    def check(self, context: Context) -> None:
        """Refuse names that do not exist and choices that do not fit."""
        for name, datasets in self.texts.items():
            for i, dataset in enumerate(datasets):
                path = f"ethayarajh2019.texts.{name}.{i}"
                if isinstance(context.require_dataset(path, dataset), WordsSpec):
                    raise IsotropyError(f"config: {path}: expected sentences, got {dataset!r}")
        for name, model in self.models.items():
            path = f"ethayarajh2019.models.{name}"
            context.require_source(path, name, "model")
            context.require_layers(f"{path}.layers", name, model.layers)
            for i, texts in enumerate(model.texts):
                require_known(f"{path}.texts.{i}", texts, self.texts, "texts")
        if self.benchmarks is not None:
            for i, dataset in enumerate(self.benchmarks.datasets):
                path = f"ethayarajh2019.benchmarks.datasets.{i}"
                context.require_sentences(path, dataset, "regression")
            for i, vectors in enumerate(self.benchmarks.vectors):
                path = f"ethayarajh2019.benchmarks.vectors.{i}"
                context.require_source(path, vectors, "vectors")

    def extended(self, extension: ResolvedExtension) -> Ethayarajh2019 | None:
        """The study with a user's models, on its own and the user's texts: encoders by word pieces,
        decoders by the first piece of each word, as in the paper. None: there are no models.
        """
        if not extension.models:
            return None
        texts = self.texts | {name: [name] for name in extension.texts}
        used = [name for model in self.models.values() for name in model.texts] + extension.texts
        models = {
            model.name: Contextual(
                texts=list(dict.fromkeys(used)),
                layers=[0, *model.measured_layers()],
                unit="first" if model.causal else "pieces",
            )
            for model in extension.models
        }
        units = dict.fromkeys([*self.units, *(model.unit for model in models.values())])
        return self.changed(texts=texts, models=models, units=list(units))

    def sections(self) -> list[str]:
        """Optional parts that this study has; tables of other parts are left out."""
        return ["benchmarks"] if self.benchmarks is not None else []

    def measured(self) -> list[Measured]:
        """All measurements: each model on each of its collections of texts."""
        return [
            Measured(texts, self.texts[texts], name, model.layers, model.unit)
            for name, model in self.models.items()
            for texts in model.texts
        ]


class Measured(NamedTuple):
    """One model on one collection of texts."""

    texts: str
    datasets: list[str]
    model: str
    layers: list[int]
    unit: Unit


KEY = "ethayarajh2019"


def plan(study: Ethayarajh2019, context: Context) -> PaperPlan:
    """Plan the jobs: every layer of every model on its texts, static vectors on benchmarks."""
    layers: Results = {
        f"geometry/{KEY}/contexts/{measured.texts}/{measured.model}/layer{layer}": Result(
            partial(_layer_spec, study, measured, layer), _sentence_inputs(measured)
        )
        for measured in study.measured()
        for layer in measured.layers
    }
    static: Results = {}
    if study.benchmarks is not None:
        benchmark_inputs = _benchmark_inputs(study.benchmarks)
        static = {
            f"geometry/{KEY}/static/{measured.texts}/{measured.model}": Result(
                partial(_static_spec, study, study.benchmarks, measured),
                _sentence_inputs(measured) | benchmark_inputs,
            )
            for measured in study.measured()
        }
    tokens = [TokenLayers(d, m.model, m.layers, None) for m in study.measured() for d in m.datasets]
    groups = {"layers": list(layers), "static": list(static)}
    return PaperPlan(layers | static, groups, frozenset(study.sections()), tokens)


def _sentence_inputs(measured: Measured) -> dict[str, list[str]]:
    return {
        "tokens": [token_vectors_folder(dataset, measured.model) for dataset in measured.datasets],
        "texts": [prepared_table(dataset, "texts") for dataset in measured.datasets],
    }


def _benchmark_inputs(benchmarks: Benchmarks) -> dict[str, list[str]]:
    return {
        "benchmark_items": [prepared_table(name, "items") for name in benchmarks.datasets],
        "benchmark_texts": [prepared_table(name, "texts") for name in benchmarks.datasets],
        "vectors_source": [source_folder(name) for name in benchmarks.vectors],
    }


def _layer_spec(study: Ethayarajh2019, measured: Measured, layer: int) -> ContextsSpec:
    variants = ["all", *study.variants]
    return ContextsSpec.collect(study, measured, paper=KEY, layer=layer, variants=variants)


def _static_spec(
    study: Ethayarajh2019, benchmarks: Benchmarks, measured: Measured
) -> StaticWordsSpec:
    return StaticWordsSpec.collect(
        study, measured, paper=KEY, benchmarks=benchmarks.datasets, vectors=benchmarks.vectors
    )


BIBTEX = """@inproceedings{ethayarajh-2019-contextual,
  title = {How Contextual are Contextualized Word Representations? Comparing the Geometry of
    {BERT}, {ELM}o, and {GPT}-2 Embeddings},
  author = {Ethayarajh, Kawin},
  booktitle = {Proceedings of EMNLP-IJCNLP 2019},
  year = {2019},
  pages = {55--65},
  doi = {10.18653/v1/D19-1006}
}
"""
PAPER = Paper(
    key="ethayarajh2019",
    title="How Contextual are Contextualized Word Representations?",
    reference="Ethayarajh (2019), EMNLP",
    name="Ethayarajh 2019",
    link="https://doi.org/10.18653/v1/D19-1006",
    bibtex=BIBTEX,
    says=(
        "Upper layers give a word more context-specific vectors, which lie in a narrow cone; a "
        "static embedding explains less than 5 % of their variance."
    ),
    lead="ethayarajh2019/figure1",
    study=Ethayarajh2019,
    results=plan,
    model_column="embedding",
)
