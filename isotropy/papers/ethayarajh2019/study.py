"""What a study of Ethayarajh 2019 chooses, and the measurements that follow from it."""

from __future__ import annotations

from functools import partial
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, Field, model_validator

from isotropy.context import (
    Context,
    Result,
    Results,
    TokenLayers,
    fetched,
    prepared,
    require_known,
    token_vectors,
)
from isotropy.errors import IsotropyError
from isotropy.extension import Own
from isotropy.field_types import DROPPABLE, Name, distinct, rising
from isotropy.geometry.spec import ContextsSpec, StaticWordsSpec, Unit, Variant
from isotropy.papers.registry import Paper, PaperPlan, PaperStudy
from isotropy.prepare.spec import WordsSpec
from isotropy.spec import Strict


class Contextual(Strict):
    """How one model is measured."""

    texts: Annotated[list[str], Field(min_length=1), AfterValidator(distinct)]
    """Names from `texts`."""
    layers: Annotated[
        list[Annotated[int, Field(ge=0)]], Field(min_length=1), AfterValidator(rising)
    ]
    """Hidden layers; 0 is the embedding layer, which the paper counts as one."""
    unit: Unit
    """What stands for a word where claims are tested: the authors' words of BERT are pieces, those
    of GPT-2 words."""


class Benchmarks(Strict):
    """Static vectors of words, made from layers, on benchmarks of word similarity (Table 1)."""

    datasets: Annotated[list[str], Field(min_length=1), AfterValidator(distinct)]
    """Names from `datasets`: pairs of words with a score."""
    vectors: Annotated[list[str], Field(min_length=1), AfterValidator(distinct)]
    """Static vectors of the source registry, on the same pairs."""


class Ethayarajh2019(PaperStudy):
    """How contextual each layer's vectors of words are."""

    texts: Annotated[dict[Name, Annotated[list[str], Field(min_length=1)]], DROPPABLE]
    """Names from `datasets` that together are the sentences, by a name of their own; a sentence
    that several have counts once."""
    models: Annotated[dict[str, Contextual], Field(min_length=1), DROPPABLE]
    """Models of the source registry."""
    units: Annotated[list[Unit], Field(min_length=1), AfterValidator(distinct)]
    """What stands for a word: all are measured, and must hold the `unit` of each model."""
    variants: Annotated[list[Variant], AfterValidator(distinct)]
    """What is measured besides all words as they are: without the first of each sentence, without
    massive activations, or with standardized dimensions."""
    min_contexts: Annotated[int, Field(ge=2)]
    """Different sentences in which a word must stand; 5 in the paper."""
    n_baseline: Annotated[int, Field(ge=2)]
    """Random words behind the baseline of explainable variance; 1,000 in the paper."""
    n_draws: Annotated[int, Field(ge=2)]
    """Draws of them; one in the paper."""
    benchmarks: Benchmarks | None
    """null: not attempted."""
    seed: Annotated[int, Field(ge=0)]
    """Of draws; the authors seed nothing."""

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
            for i, texts in enumerate(model.texts):
                require_known(f"{path}.texts.{i}", texts, self.texts, "texts")
        if self.benchmarks is not None:
            for i, dataset in enumerate(self.benchmarks.datasets):
                path = f"ethayarajh2019.benchmarks.datasets.{i}"
                context.require_sentences(path, dataset, "regression")
            for i, vectors in enumerate(self.benchmarks.vectors):
                path = f"ethayarajh2019.benchmarks.vectors.{i}"
                context.require_source(path, vectors, "vectors")

    def extended(self, own: Own) -> Ethayarajh2019 | None:
        """Models on the study's texts and on others: encoders by word pieces, decoders by the first
        piece of each word, as the paper.
        """
        if not own.models:
            return None
        texts = self.texts | {name: [name] for name in own.texts}
        used = [name for model in self.models.values() for name in model.texts] + own.texts
        models = {
            model.name: Contextual(
                texts=list(dict.fromkeys(used)),
                layers=[0, *model.spread()],
                unit="first" if model.causal else "pieces",
            )
            for model in own.models
        }
        units = dict.fromkeys([*self.units, *(model.unit for model in models.values())])
        return self.changed(texts=texts, models=models, units=list(units))

    def parts(self) -> list[str]:
        """Parts that not every study has: tables of others are left out."""
        return ["benchmarks"] if self.benchmarks is not None else []

    def measured(self) -> list[Measured]:
        """All models on all texts."""
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
    """Every layer of every model on its texts, and static vectors on benchmarks."""
    layers: Results = {
        f"geometry/{KEY}/contexts/{one.texts}/{one.model}/layer{layer}": Result(
            partial(_layer, study, one, layer), _sentences(one)
        )
        for one in study.measured()
        for layer in one.layers
    }
    static: Results = {}
    if study.benchmarks is not None:
        beside = _benchmarks(study.benchmarks)
        static = {
            f"geometry/{KEY}/static/{one.texts}/{one.model}": Result(
                partial(_static, study, study.benchmarks, one), _sentences(one) | beside
            )
            for one in study.measured()
        }
    layers_of: dict[tuple[str, str], set[int]] = {}
    for one in study.measured():
        for dataset in one.datasets:
            layers_of.setdefault((dataset, one.model), set()).update(one.layers)
    tokens = [TokenLayers(*key, sorted(found), None) for key, found in layers_of.items()]
    groups = {"layers": list(layers), "static": list(static)}
    return PaperPlan(layers | static, groups, frozenset(study.parts()), tokens)


def _sentences(one: Measured) -> dict[str, list[str]]:
    return {
        "tokens": [token_vectors(dataset, one.model) for dataset in one.datasets],
        "texts": [prepared(dataset, "texts") for dataset in one.datasets],
    }


def _benchmarks(benchmarks: Benchmarks) -> dict[str, list[str]]:
    return {
        "benchmark_items": [prepared(name, "items") for name in benchmarks.datasets],
        "benchmark_texts": [prepared(name, "texts") for name in benchmarks.datasets],
        "vectors_source": [fetched(name) for name in benchmarks.vectors],
    }


def _layer(study: Ethayarajh2019, one: Measured, layer: int) -> ContextsSpec:
    return ContextsSpec(
        paper=KEY,
        texts=one.texts,
        datasets=one.datasets,
        model=one.model,
        layer=layer,
        unit=one.unit,
        units=study.units,
        variants=["all", *study.variants],
        min_contexts=study.min_contexts,
        n_baseline=study.n_baseline,
        n_draws=study.n_draws,
        seed=study.seed,
    )


def _static(study: Ethayarajh2019, benchmarks: Benchmarks, one: Measured) -> StaticWordsSpec:
    return StaticWordsSpec(
        paper=KEY,
        texts=one.texts,
        datasets=one.datasets,
        model=one.model,
        layers=one.layers,
        min_contexts=study.min_contexts,
        benchmarks=benchmarks.datasets,
        vectors=benchmarks.vectors,
    )


PAPER = Paper(
    key="ethayarajh2019",
    title="How Contextual are Contextualized Word Representations?",
    reference="Ethayarajh (2019), EMNLP",
    says=(
        "Upper layers give a word more context-specific vectors, which lie in a narrow cone; a "
        "static embedding explains less than 5 % of their variance."
    ),
    lead="ethayarajh2019/figure1",
    study=Ethayarajh2019,
    results=plan,
    model_column="embedding",
)
