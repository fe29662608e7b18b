"""What a study of Rajaee & Pilehvar 2021 and Rajaee & Sheikhi 2020 chooses, and the measurements
that follow from it.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, Field, model_validator

from isotropy.context import (
    Context,
    Result,
    Results,
    TokenLayers,
    fetched,
    prepared,
    require_known,
    sides,
    token_vectors,
)
from isotropy.errors import IsotropyError
from isotropy.extension import Own, OwnModel
from isotropy.field_types import DROPPABLE, Name, Seeds, distinct, rising
from isotropy.files import RESULTS
from isotropy.finetune import plan as finetune
from isotropy.finetune.spec import Method, Metric
from isotropy.finetune.tasks import FinetuneRun, FineTuning, Task, check_sides, own_tasks
from isotropy.papers.rajaee2021.protocol import AUTHORS
from isotropy.papers.registry import Paper, PaperPlan, PaperStudy
from isotropy.similarity.spec import (
    ClassifySpec,
    Clusterer,
    DroppedTokens,
    MethodName,
    Mlp,
    Parameters,
    SimilaritySpec,
    TuningSpec,
)
from isotropy.spec import Strict

Layers = Annotated[list[Annotated[int, Field(ge=0)]], AfterValidator(rising)]
Counts = Annotated[list[Annotated[int, Field(ge=1)]], AfterValidator(rising)]


class Encoding(Strict):
    """How one model, or static vectors, are measured."""

    datasets: Annotated[list[str], Field(min_length=1), AfterValidator(distinct)]
    """Names from `datasets`: pairs with a score; of other sentences only the isotropy is
    measured."""
    layers: Layers = []
    """Hidden layers for all methods; 0 is the embedding layer. Empty for static vectors."""
    isotropy_layers: Layers = []
    """Hidden layers whose isotropy is measured, on `isotropy_dataset`."""
    parameters: Parameters | None
    """Clusters and components; null: chosen by `tuning`."""
    drop_tokens: DroppedTokens = "special"
    """Tokens that do not count."""

    def check(self, name: str, context: Context) -> None:
        """Refuse names that do not exist and choices that do not fit."""
        path = f"rajaee2021.embeddings.{name}"
        source = context.require_source(path, name, "model", "vectors")
        if source.kind == "model":
            if not self.layers:
                raise IsotropyError(f"config: {path}.layers: expected layers of a model, got none")
            for i, dataset in enumerate(self.datasets):
                context.require_sentences(f"{path}.datasets.{i}", dataset)
            return
        if self.layers or self.isotropy_layers:
            raise IsotropyError(
                f"config: {path}: expected no layers and no isotropy_layers, got "
                f"{self.layers or self.isotropy_layers}: static vectors have no layers"
            )
        for i, dataset in enumerate(self.datasets):
            context.require_sentences(f"{path}.datasets.{i}", dataset, "regression")
        if self.parameters is None:
            raise IsotropyError(
                f"config: {path}.parameters: expected a mapping, got null: static vectors "
                "are not tuned"
            )


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
    parameters: Parameters
    """Clusters and components."""


def own_parameters(model: OwnModel) -> Parameters:
    """The paper's clusters of BERT, and its components in proportion to the width."""
    clustered, whole = model.components()
    clusters = AUTHORS["bert-base-uncased"].n_clusters
    return Parameters(n_clusters=clusters, n_components=clustered, n_components_global=whole)


class Classification(Strict):
    """Classification on frozen features."""

    tasks: Annotated[dict[Name, ClassTask], Field(min_length=1), DROPPABLE]
    """Tasks that there are, by name."""
    run_tasks: Annotated[list[str], Field(min_length=1), AfterValidator(distinct)]
    """Tasks to run."""
    embeddings: Annotated[dict[str, Frozen], Field(min_length=1), DROPPABLE]
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

    def extended(self, own: Own) -> Classification:
        """The same of other models, with other data besides."""
        tasks = own_tasks(own, ClassTask)
        two = [name for name in tasks if len(own.names(name)) == 2]
        embeddings = {
            model.name: Frozen(layer=model.layers, parameters=own_parameters(model))
            for model in own.models
        }
        fields = {
            "tasks": self.tasks | {name: tasks[name] for name in two},
            "run_tasks": [*self.run_tasks, *two],
            "embeddings": embeddings,
            "max_length": min([self.max_length, *(m.max_length for m in own.models)]),
        }
        return Classification.model_validate(dict(self) | fields)

    @model_validator(mode="after")
    def _complete(self) -> Classification:
        if "none" not in self.methods:
            raise ValueError("methods must hold none, which the others are compared with")
        return self

    def check(self, context: Context) -> None:
        """Refuse names that do not exist and choices that do not fit."""
        path = "rajaee2021.classification"
        for i, name in enumerate(self.run_tasks):
            require_known(f"{path}.run_tasks.{i}", name, self.tasks, "task")
        for name in self.embeddings:
            encoder = context.require_source(f"{path}.embeddings.{name}", name, "model").encoder
            if encoder is not None and encoder.max_length < self.max_length:
                raise IsotropyError(
                    f"config: {path}.max_length: expected at most {encoder.max_length}, which "
                    f"{name} reads, got {self.max_length}"
                )
        for name, task in self.tasks.items():
            train = check_sides(f"{path}.tasks.{name}", task, context)
            if train.task != "single-label" or len(train.label_names) != 2:
                raise IsotropyError(
                    f"config: {path}.tasks.{name}.train: expected two classes, as the classifier "
                    f"has, got {task.train!r}"
                )


class ClusterFineTuning(FineTuning):
    """Fine-tuning with the method inside, on the first tokens of each batch (2020 slides)."""

    n_clusters: Annotated[int, Field(ge=1)]
    """Clusters of a batch; the slides do not say."""
    n_components: Annotated[int, Field(ge=1)]
    """Components removed from each cluster; the slides do not say."""

    def extended(self, own: Own) -> ClusterFineTuning | None:
        """The same of encoders, with other data besides; None: there are no encoders."""
        if not own.encoders:
            return None
        tasks = own_tasks(own, Task)
        fields = {
            "tasks": self.tasks | tasks,
            "run_tasks": [*self.run_tasks, *tasks],
            "models": [model.name for model in own.encoders],
            "training": self.training.no_longer_than(own.positions),
        }
        return ClusterFineTuning.model_validate(dict(self) | fields)

    def runs(self) -> dict[str, FinetuneRun]:
        """All runs, by name: every task with every model, without and with the method."""
        cluster = Method(kind="cluster", n_clusters=self.n_clusters, n_components=self.n_components)
        return self.runs_of([Method(kind="none"), cluster])

    def check(self, context: Context) -> None:
        """Refuse names that do not exist and choices that do not fit."""
        path = "rajaee2021.finetuning"
        self.check_tasks(path, context)
        for name, task in self.tasks.items():
            train = context.require_sentences(f"{path}.tasks.{name}.train", task.train)
            if train.task == "extractive":
                raise IsotropyError(
                    f"config: {path}.tasks.{name}: expected a task whose head reads the first "
                    "token, got an extractive one"
                )
            if task.trained(self.training).batch_size < 3:
                raise IsotropyError(
                    f"config: {path}: expected a batch_size of 3 or more for {name}, got 2: the "
                    "method cannot cluster batches of two"
                )


class Rajaee2021(PaperStudy):
    """Cluster-based isotropy enhancement."""

    embeddings: Annotated[dict[str, Encoding], Field(min_length=1), DROPPABLE]
    """Models and vectors of the source registry."""
    methods: Annotated[list[MethodName], Field(min_length=1), AfterValidator(distinct)]
    """Post-processing; `none` must be among them."""
    n_clusterings: Annotated[int, Field(ge=1)]
    """Clusterings per method, with seeds 0, 1, …"""
    clusterer: Clusterer
    """How clusters are found."""
    repeat_texts: bool
    """A sentence that occurs in several pairs counts as often in the cloud, as in the authors'
    code."""
    isotropy_dataset: str | None
    """A name from `datasets`, for the isotropy of each layer and the effect of the number of
    clusters; null: none."""
    cluster_counts: Counts
    """Numbers of clusters whose effect is shown, on `isotropy_dataset`."""
    plot_dataset: str | None
    """A name from `datasets`, whose tokens are drawn before and after the method; null: none."""
    tuning: Tuning | None
    """How numbers are chosen; null: not."""
    classification: Classification | None
    """Classification on frozen features; null: not attempted."""
    finetuning: ClusterFineTuning | None
    """Fine-tuning with the method inside; null: not attempted."""

    @model_validator(mode="after")
    def _complete(self) -> Rajaee2021:
        if "none" not in self.methods or len(self.methods) == 1:
            raise ValueError(
                "methods must hold none, which the others are compared with, and others"
            )
        if self.tuning is None and any(e.parameters is None for e in self.embeddings.values()):
            raise ValueError(
                "parameters is null for an embedding, and tuning, which would choose them, is null"
            )
        if self.isotropy_dataset is None and (
            self.cluster_counts or any(e.isotropy_layers for e in self.embeddings.values())
        ):
            raise ValueError(
                "isotropy_dataset is null, which isotropy_layers and cluster_counts need"
            )
        return self

    def check(self, context: Context) -> None:
        """Refuse names that do not exist and choices that do not fit."""
        for name, encoding in self.embeddings.items():
            encoding.check(name, context)
        for field in ("isotropy_dataset", "plot_dataset"):
            name = getattr(self, field)
            if name is not None:
                context.require_sentences(f"rajaee2021.{field}", name)
        measured = self.measured().values()
        if self.plot_dataset is not None and not any(one.plotted for one in measured):
            raise IsotropyError(
                f"config: rajaee2021.plot_dataset: no embedding has {self.plot_dataset!r} "
                "among its datasets, or kmeans is not among methods"
            )
        if self.cluster_counts and not any(one.cluster_counts for one in measured):
            raise IsotropyError(
                "config: rajaee2021.cluster_counts: no embedding has a layer both in layers and in "
                "isotropy_layers"
            )
        if self.tuning is not None:
            path = "rajaee2021.tuning.dataset"
            context.require_sentences(path, self.tuning.dataset, "regression")
        for part in (self.finetuning, self.classification):
            if part is not None:
                part.check(context)

    def extended(self, own: Own) -> Rajaee2021 | None:
        """Models on the study's sentences, on other sentences and pairs; vectors on its words;
        classification with the last layer, and fine-tuned encoders.
        """
        models = {model.name: self._encoding(model, own) for model in own.models}
        vectors = [e for e in self.embeddings.values() if not e.layers]
        static = {name: e for name in own.vectors for e in vectors[:1]}
        if not models and not static:
            return None
        fields: dict[str, Any] = {"embeddings": models | static, "tuning": None}
        if not models:
            fields |= {"isotropy_dataset": None, "cluster_counts": [], "plot_dataset": None}
            fields |= {"classification": None, "finetuning": None}
            return self.changed(**fields)
        if self.classification is not None:
            fields["classification"] = self.classification.extended(own)
        if self.finetuning is not None:
            fields["finetuning"] = self.finetuning.extended(own)
        return self.changed(**fields)

    def _encoding(self, model: OwnModel, own: Own) -> Encoding:
        """How a model is measured."""
        studied = [d for e in self.embeddings.values() if e.layers for d in e.datasets]
        parts = [f"{name}-part" for name in own.classes]
        return Encoding(
            datasets=list(dict.fromkeys([*studied, *parts, *own.scores])),
            layers=model.ends(),
            isotropy_layers=[0, *model.spread()] if self.isotropy_dataset else [],
            parameters=own_parameters(model),
        )

    def is_tuned(self, one: Measurement) -> bool:
        """Whether the numbers of a measurement are chosen by the tuning: those without clusters
        need none.
        """
        return self.embeddings[one.embedding].parameters is None and len(one.methods) > 1

    def parts(self) -> list[str]:
        """Parts that the study has beside the measurements: tables and figures of others are left
        out.
        """
        there = {
            "plotted": any(one.plotted for one in self.measured().values()),
            "isotropy-by-layer": any(one.profiled for one in self.measured().values()),
            "cluster-counts": any(one.cluster_counts for one in self.measured().values()),
            "tuning": any(e.parameters is None for e in self.embeddings.values()),
            "classification": self.classification is not None,
            "finetuning": self.finetuning is not None,
        }
        return [name for name, yes in there.items() if yes]

    def measured(self) -> dict[str, Measurement]:
        """All measurements, by the end of their path: data set, embedding, layer."""
        found: dict[str, Measurement] = {}
        for name, encoding in self.embeddings.items():
            layers: list[int | None] = [*encoding.layers] or [None]
            both = set(encoding.layers) & set(encoding.isotropy_layers)
            wanted = [
                (dataset, layer, self.methods) for dataset in encoding.datasets for layer in layers
            ]
            if self.isotropy_dataset is not None:
                wanted += [
                    (self.isotropy_dataset, layer, ["none"]) for layer in encoding.isotropy_layers
                ]
            for dataset, layer, methods in wanted:
                profiled = dataset == self.isotropy_dataset and layer in encoding.isotropy_layers
                more = self.cluster_counts if profiled and layer in both else []
                plotted = dataset == self.plot_dataset and "kmeans" in methods
                one = Measurement(dataset, name, layer, methods, more, profiled, plotted)
                found.setdefault(one.stem, one)
        return found


class Measurement(NamedTuple):
    """One data set with one embedding, in one layer."""

    dataset: str
    embedding: str
    layer: int | None
    methods: list[MethodName]
    cluster_counts: list[int]
    profiled: bool
    plotted: bool

    @property
    def stem(self) -> str:
        """The end of its path."""
        layer = "words" if self.layer is None else f"layer{self.layer}"
        return f"{self.dataset}/{self.embedding}/{layer}"


KEY = "rajaee2021"
TUNING = "-tuning"
"""How the last part of the path of a choice of numbers ends."""


def plan(study: Rajaee2021, context: Context) -> PaperPlan:
    """Measurements, choices of numbers, classifications, fine-tuned models."""
    measured = study.measured()
    measurements = {
        _stem(one): Result(partial(_similarity, study, one), _inputs(study, one, context))
        for one in measured.values()
    }
    tunings: Results = {}
    for one in measured.values():
        if study.tuning is not None and study.is_tuned(one):
            make = partial(_tuning, study, study.tuning, one)
            cloud = _cloud(study.tuning.dataset, one.embedding, context)
            tunings[_tuning_stem(study.tuning, one)] = Result(make, cloud)
    classified = _classified(study, context)
    results = measurements | tunings | classified
    groups = {
        "similarity": list(measurements),
        "plotted": [_stem(one) for one in measured.values() if one.plotted],
        "tuning": list(tunings),
        "classification": list(classified),
    }
    if study.finetuning is not None:
        runs = study.finetuning.runs()
        results |= finetune.results(KEY, study.finetuning, runs, context)
        groups["clustered"] = finetune.stems(KEY, runs, study.finetuning.seeds)
    return PaperPlan(results, groups, frozenset(study.parts()), _tokens(study))


def _stem(one: Measurement) -> str:
    return f"similarity/{KEY}/{one.stem}"


def _tuning_stem(tuning: Tuning, one: Measurement) -> str:
    """The choice of a measurement's numbers."""
    return f"{_stem(one._replace(dataset=tuning.dataset))}{TUNING}"


def _inputs(study: Rajaee2021, one: Measurement, context: Context) -> dict[str, list[str]]:
    inputs = _cloud(one.dataset, one.embedding, context)
    if study.tuning is not None and study.is_tuned(one):
        inputs |= {"tuning": [f"{RESULTS}/{_tuning_stem(study.tuning, one)}.json"]}
    return inputs


def _cloud(dataset: str, embedding: str, context: Context) -> dict[str, list[str]]:
    """Items, and token vectors, or texts and static vectors."""
    items = {"dataset": [prepared(dataset, "items")]}
    if context.registry[embedding].kind == "model":
        return items | {"tokens": [token_vectors(dataset, embedding)]}
    return items | {
        "texts": [prepared(dataset, "texts")],
        "vectors_source": [fetched(embedding)],
    }


def _similarity(study: Rajaee2021, one: Measurement) -> SimilaritySpec:
    encoding = study.embeddings[one.embedding]
    return SimilaritySpec(
        paper=KEY,
        drop_tokens=encoding.drop_tokens,
        repeat_texts=study.repeat_texts,
        parameters=encoding.parameters,
        n_clusterings=study.n_clusterings,
        clusterer=study.clusterer,
        **one._asdict(),
    )


def _tuning(study: Rajaee2021, tuning: Tuning, one: Measurement) -> TuningSpec:
    return TuningSpec(
        paper=KEY,
        embedding=one.embedding,
        layer=one.layer,
        drop_tokens=study.embeddings[one.embedding].drop_tokens,
        repeat_texts=study.repeat_texts,
        n_clusterings=study.n_clusterings,
        clusterer=study.clusterer,
        **tuning.model_dump(),
    )


def _classified(study: Rajaee2021, context: Context) -> Results:
    chosen = study.classification
    if chosen is None:
        return {}
    results: Results = {}
    for task in chosen.run_tasks:
        datasets = chosen.tasks[task].model_dump(include={"train", "validation"})
        for embedding in chosen.embeddings:
            make = partial(_classify, study, chosen, task, embedding, context)
            inputs = sides(datasets) | {"model": [fetched(embedding)]}
            results[f"similarity/{KEY}/classification/{task}/{embedding}"] = Result(make, inputs)
    return results


def _classify(
    study: Rajaee2021, chosen: Classification, task: str, embedding: str, context: Context
) -> ClassifySpec:
    fields = {"methods", "n_train", "max_length", "mlp", "seeds"}
    return ClassifySpec.model_validate(
        {
            "paper": KEY,
            "task": task,
            "embedding": embedding,
            "encoder": context.registry[embedding].encoder,
            "clusterer": study.clusterer,
            **chosen.tasks[task].model_dump(),
            **chosen.embeddings[embedding].model_dump(),
            **chosen.model_dump(include=fields),
            **context.compute.for_encoders(),
        }
    )


def _tokens(study: Rajaee2021) -> list[TokenLayers]:
    """Layers of models that measurements and the tuning read."""
    wanted = [(one.dataset, one.embedding, one.layer) for one in study.measured().values()]
    if study.tuning is not None:
        wanted += [
            (study.tuning.dataset, name, layer)
            for name, encoding in study.embeddings.items()
            if encoding.parameters is None
            for layer in encoding.layers
        ]
    layers: dict[tuple[str, str], set[int]] = {}
    for dataset, embedding, layer in wanted:
        if layer is not None:
            layers.setdefault((dataset, embedding), set()).add(layer)
    return [TokenLayers(*key, sorted(found), None) for key, found in layers.items()]


PAPER = Paper(
    key="rajaee2021",
    title="Cluster-based Isotropy Enhancement",
    reference=(
        "Rajaee & Pilehvar (2021), ACL, short papers, and the slides of Rajaee & Sheikhi (2020)"
    ),
    says=(
        "Token vectors lie in clusters: removing each cluster's mean and dominant directions "
        "makes them isotropic and improves similarity and classification."
    ),
    lead="rajaee2021/similarity",
    study=Rajaee2021,
    results=plan,
    model_column="embedding",
)
