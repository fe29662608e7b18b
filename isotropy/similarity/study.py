"""What a study of Rajaee & Pilehvar 2021 and Rajaee & Sheikhi 2020 chooses, and the measurements
that follow from it.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

from pydantic import AfterValidator, Field, model_validator

from isotropy.finetune.spec import Measure, Method, Metric, Training
from isotropy.finetune.study import Run, Task
from isotropy.names import Name, Seeds, distinct, rising
from isotropy.similarity.spec import Clusterer, Drop, MethodName, Mlp, Numbers
from isotropy.spec import Strict

Layers = Annotated[list[Annotated[int, Field(ge=0)]], AfterValidator(rising)]
Counts = Annotated[list[Annotated[int, Field(ge=1)]], AfterValidator(rising)]


class Encoding(Strict):
    """How one model, or static vectors, are measured."""

    sets: Annotated[list[str], Field(min_length=1), AfterValidator(distinct)]
    """Names from `datasets`: pairs with a score; of other sentences only the isotropy is
    measured."""
    layers: Layers = []
    """Hidden layers for all methods; 0 is the embedding layer. Empty for static vectors."""
    profile: Layers = []
    """Hidden layers whose isotropy alone is measured, on the data set `profile`."""
    numbers: Numbers | None
    """Clusters and components; null: chosen by `tuning`."""
    drop: Drop = "special"
    """Tokens that do not count."""


class Tuning(Strict):
    """The choice of numbers: the highest Spearman correlation."""

    dataset: str
    """A name from `datasets`: pairs with a score."""
    n_clusters: Annotated[Counts, Field(min_length=1)]
    """Numbers of clusters to try; the paper's range is 5 to 30."""
    n_components: Annotated[Counts, Field(min_length=1)]
    """Numbers of components to try; the paper's range is 5 to 30."""


class ClassTask(Strict):
    """A task with two classes."""

    train: str
    """A name from `datasets`."""
    validation: str
    """A name from `datasets`: the whole of it is scored."""
    metric: Metric
    """The task's own metric."""


class Frozen(Strict):
    """The layer of a model whose token vectors are features, and the numbers of the methods."""

    layer: Annotated[int, Field(ge=0)]
    """Hidden layer; 0 is the embedding layer."""
    numbers: Numbers
    """Clusters and components."""


class Classification(Strict):
    """Classification on frozen features."""

    tasks: Annotated[dict[Name, ClassTask], Field(min_length=1)]
    """Tasks that there are, by name."""
    attempt: Annotated[list[str], Field(min_length=1), AfterValidator(distinct)]
    """Tasks to run."""
    embeddings: Annotated[dict[str, Frozen], Field(min_length=1)]
    """Models of the source registry."""
    methods: Annotated[list[MethodName], Field(min_length=1), AfterValidator(distinct)]
    """Post-processing; `none` must be among them."""
    n_train: Annotated[int, Field(ge=2)] | None
    """Training items, drawn once, where there are more; null: all."""
    max_length: Annotated[int, Field(ge=8)]
    """Tokens of an item, special tokens and padding included; the rest is cut. 64 in the paper."""
    mlp: Mlp
    """The authors' classifier."""
    seeds: Seeds
    """Of clustering, initialization and order."""

    @model_validator(mode="after")
    def _complete(self) -> Classification:
        if "none" not in self.methods:
            raise ValueError("methods must hold none, which the others are compared with")
        return self


class FineTuning(Strict):
    """Fine-tuning with the method inside, on the first tokens of each batch (2020 slides)."""

    tasks: Annotated[dict[Name, Task], Field(min_length=1)]
    """Tasks that there are, by name."""
    attempt: Annotated[list[str], Field(min_length=1), AfterValidator(distinct)]
    """Tasks to run."""
    models: Annotated[list[str], Field(min_length=1), AfterValidator(distinct)]
    """Models of the source registry."""
    n_clusters: Annotated[int, Field(ge=1)]
    """Clusters of a batch; the slides do not say."""
    n_components: Annotated[int, Field(ge=1)]
    """Components removed from each cluster; the slides do not say."""
    seeds: Seeds
    """Of initialization, order and dropout."""
    training: Training
    """How models are trained; a task may differ."""
    measure: Measure
    """How their geometry is measured."""

    def runs(self) -> dict[str, Run]:
        """All runs, by name: every task with every model, without and with the method."""
        cluster = Method(kind="cluster", n_clusters=self.n_clusters, n_components=self.n_components)
        return {
            f"{task}--{model}--{method.name}": Run(task=task, model=model, method=method)
            for task in self.attempt
            for model in self.models
            for method in (Method(kind="none"), cluster)
        }


class Rajaee2021(Strict):
    """Cluster-based isotropy enhancement."""

    embeddings: Annotated[dict[str, Encoding], Field(min_length=1)]
    """Models and vectors of the source registry."""
    methods: Annotated[list[MethodName], Field(min_length=1), AfterValidator(distinct)]
    """Post-processing; `none` must be among them."""
    runs: Annotated[int, Field(ge=1)]
    """Clusterings per method, with seeds 0, 1, …"""
    clusterer: Clusterer
    """How clusters are found."""
    repeat_texts: bool
    """A sentence that occurs in several pairs counts as often in the cloud, as in the authors'
    code."""
    profile: str | None
    """A name from `datasets`, for the isotropy of each layer and the effect of the number of
    clusters; null: none."""
    more_clusters: Counts
    """Numbers of clusters whose effect is shown, on the data set `profile`."""
    pictured: str | None
    """A name from `datasets`, whose tokens are drawn before and after the method; null: none."""
    tuning: Tuning | None
    """How numbers are chosen; null: not."""
    classification: Classification | None
    """Classification on frozen features; null: not attempted."""
    finetuning: FineTuning | None
    """Fine-tuning with the method inside; null: not attempted."""

    @model_validator(mode="after")
    def _complete(self) -> Rajaee2021:
        if "none" not in self.methods or len(self.methods) == 1:
            raise ValueError(
                "methods must hold none, which the others are compared with, and others"
            )
        if self.tuning is None and any(e.numbers is None for e in self.embeddings.values()):
            raise ValueError(
                "numbers is null for an embedding, and tuning is null: there is nothing to choose "
                "them"
            )
        if self.profile is None and (
            self.more_clusters or any(e.profile for e in self.embeddings.values())
        ):
            raise ValueError(
                "profile is null: there is no data set for the layers or for more_clusters"
            )
        return self

    def parts(self) -> list[str]:
        """Parts that the study has beside the measurements: tables and figures of others are left
        out.
        """
        there = {
            "pictured": any(one.pictured for one in self.measured().values()),
            "profile": any(one.profiled for one in self.measured().values()),
            "more-clusters": any(one.more_clusters for one in self.measured().values()),
            "tuning": any(e.numbers is None for e in self.embeddings.values()),
            "classification": self.classification is not None,
            "finetuning": self.finetuning is not None,
        }
        return [name for name, yes in there.items() if yes]

    def measured(self) -> dict[str, Measurement]:
        """All measurements, by the end of their path: data set, embedding, layer."""
        found: dict[str, Measurement] = {}
        for name, encoding in self.embeddings.items():
            layers: list[int | None] = [*encoding.layers] or [None]
            both = set(encoding.layers) & set(encoding.profile)
            wanted = [
                (dataset, layer, self.methods) for dataset in encoding.sets for layer in layers
            ]
            if self.profile is not None:
                wanted += [(self.profile, layer, ["none"]) for layer in encoding.profile]
            for dataset, layer, methods in wanted:
                profiled = dataset == self.profile and layer in encoding.profile
                more = self.more_clusters if profiled and layer in both else []
                pictured = dataset == self.pictured and "kmeans" in methods
                one = Measurement(dataset, name, layer, methods, more, profiled, pictured)
                found.setdefault(one.stem, one)
        return found

    def layers(self, dataset: str, embedding: str) -> list[int]:
        """Hidden layers of a model that are read for a data set."""
        of_sets = [
            m.layer
            for m in self.measured().values()
            if (m.dataset, m.embedding) == (dataset, embedding)
        ]
        encoding = self.embeddings.get(embedding)
        tuned = (
            encoding is not None
            and encoding.numbers is None
            and self.tuning
            and self.tuning.dataset == dataset
        )
        of_tuning = encoding.layers if encoding is not None and tuned else []
        return sorted({layer for layer in [*of_sets, *of_tuning] if layer is not None})


class Measurement(NamedTuple):
    """One data set with one embedding, in one layer."""

    dataset: str
    embedding: str
    layer: int | None
    methods: list[MethodName]
    more_clusters: list[int]
    profiled: bool
    pictured: bool

    @property
    def stem(self) -> str:
        """The end of its path."""
        return f"{self.dataset}/{self.embedding}/{'words' if self.layer is None else f'layer{self.layer}'}"
