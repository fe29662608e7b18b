"""The settings of a study of Cai et al. 2021, and the measurements that they define."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from replication.context import (
    Context,
    Result,
    Results,
    TokenLayers,
    source_folder,
    token_vectors_folder,
)
from replication.extension import ResolvedExtension
from replication.field_types import DROPPABLE, Seeds, ascending, distinct
from replication.geometry.spec import Clustering, LayerSpec, Lid, TypesName, Variant, VectorsSpec
from replication.papers.registry import Paper, PaperPlan, PaperStudy
from replication.spec import Strict


class Contextual(Strict):
    """The measurements of one model."""

    corpora: Annotated[list[str], Field(min_length=1), AfterValidator(distinct)]
    """Names from `datasets`: corpora."""
    layers: Annotated[
        list[Annotated[int, Field(ge=1)]], Field(min_length=1), AfterValidator(ascending)
    ]
    """Hidden layers: 1 is the first block's output. The embedding layer is not read."""
    variants: Annotated[list[Variant], AfterValidator(distinct)] = []
    """Variants to measure besides all tokens unchanged: without the first of each window, without
    massive activations, or with standardized dimensions. For decoders, whose first tokens and few
    largest dimensions can hide the rest."""

    @model_validator(mode="after")
    def _besides_all(self) -> Contextual:
        if "all" in self.variants:
            raise ValueError("variants must not contain all, which is always measured")
        return self


class Cai2021(PaperStudy):
    """Clusters and manifolds of contextual embeddings, layer by layer."""

    models: Annotated[dict[str, Contextual], Field(min_length=1), DROPPABLE]
    """Models of the source registry."""
    vectors: Annotated[list[str], Field(min_length=1), AfterValidator(distinct)]
    """Static vectors of the source registry, for Table 3."""
    window: Annotated[int, Field(ge=2)]
    """Tokens that a model reads at once: all lines, each with its special tokens, are one stream,
    cut without regard to lines; 512 in the authors' code."""
    types: Annotated[list[TypesName], Field(min_length=1), AfterValidator(distinct)]
    """Units that are taken as types; the authors take subwords."""
    clustering: Clustering
    """How clusters are found."""
    lid: Lid
    """How the local intrinsic dimension is measured."""
    n_points: Annotated[int, Field(ge=10)]
    """Tokens in the pictures of a layer."""
    seeds: Seeds
    """Random seeds of k-means, samples and queries; the authors set none."""

    def check(self, context: Context) -> None:
        """Refuse names that do not exist and choices that do not fit."""
        for name, model in self.models.items():
            path = f"cai2021.models.{name}"
            context.require_source(path, name, "model")
            context.require_layers(f"{path}.layers", name, model.layers)
            context.require_window("cai2021.window", name, self.window)
            for i, corpus in enumerate(model.corpora):
                context.require_corpus(f"{path}.corpora.{i}", corpus)
        for i, name in enumerate(self.vectors):
            context.require_source(f"cai2021.vectors.{i}", name, "vectors")

    def extended(self, extension: ResolvedExtension) -> Cai2021 | None:
        """The study with a user's models, on its own and the user's corpora, beside static vectors;
        decoders in all variants of their tokens. None: there are no models.
        """
        if not extension.models:
            return None
        corpora = [c for model in self.models.values() for c in model.corpora] + extension.corpora
        models = {
            model.name: Contextual(
                corpora=list(dict.fromkeys(corpora)),
                layers=model.measured_layers(),
                variants=["no-first", "no-massive", "standardized"] if model.causal else [],
            )
            for model in extension.models
        }
        return self.changed(
            models=models,
            vectors=list(dict.fromkeys(self.vectors + extension.vectors)),
            window=min(self.window, extension.positions),
        )

    def sections(self) -> list[str]:
        """Optional parts that this study has; tables of other parts are left out."""
        return ["variants"] if any(model.variants for model in self.models.values()) else []

    def measured(self) -> list[tuple[str, str, int]]:
        """All measurements: corpus, model, layer."""
        return [
            (corpus, name, n)
            for name, model in self.models.items()
            for corpus in model.corpora
            for n in model.layers
        ]


KEY = "cai2021"


def plan(study: Cai2021, context: Context) -> PaperPlan:
    """Plan the jobs: every layer of every model on every corpus, and the vectors of Table 3."""
    layers: Results = {
        f"geometry/{KEY}/{dataset}/{model}/layer{layer}": Result(
            partial(_layer_spec, study, context, dataset, model, layer),
            {"tokens": [token_vectors_folder(dataset, model)]},
        )
        for dataset, model, layer in study.measured()
    }
    vectors: Results = {
        f"geometry/{KEY}/vectors/{name}": Result(
            partial(_vectors_spec, study, name), {"vectors_source": [source_folder(name)]}
        )
        for name in study.vectors
    }
    tokens = [
        TokenLayers(corpus, name, model.layers, study.window)
        for name, model in study.models.items()
        for corpus in model.corpora
    ]
    groups = {"layers": list(layers), "vectors": list(vectors)}
    return PaperPlan(layers | vectors, groups, frozenset(study.sections()), tokens)


def _layer_spec(
    study: Cai2021, context: Context, dataset: str, model: str, layer: int
) -> LayerSpec:
    variants = ["all", *study.models[model].variants]
    return LayerSpec.collect(
        context.datasets[dataset], study, paper=KEY, dataset=dataset, model=model, layer=layer,
        variants=variants,
    )  # fmt: skip


def _vectors_spec(study: Cai2021, name: str) -> VectorsSpec:
    return VectorsSpec(paper=KEY, vectors=name, lid=study.lid, seeds=study.seeds)


BIBTEX = """@inproceedings{cai-etal-2021-isotropy,
  title = {Isotropy in the Contextual Embedding Space: Clusters and Manifolds},
  author = {Cai, Xingyu and Huang, Jiaji and Bian, Yuchen and Church, Kenneth},
  booktitle = {International Conference on Learning Representations},
  year = {2021},
  url = {https://openreview.net/forum?id=xYGNO86OWDH}
}
"""
PAPER = Paper(
    key="cai2021",
    title="Isotropy in the Contextual Embedding Space: Clusters and Manifolds",
    reference="Cai, Huang, Bian & Church (2021), ICLR, and its slides",
    name="Cai et al. 2021",
    link="https://openreview.net/forum?id=xYGNO86OWDH",
    bibtex=BIBTEX,
    says=(
        "Contextual embeddings look anisotropic because they lie in a few isolated clusters: "
        "within clusters they are nearly isotropic, on manifolds of low dimension."
    ),
    lead="cai2021/cosines",
    study=Cai2021,
    results=plan,
    model_column="embedding",
)
