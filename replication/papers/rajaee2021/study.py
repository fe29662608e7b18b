"""The settings of a study of Rajaee & Pilehvar 2021 and Rajaee & Sheikhi 2020, and the measurements
that they define.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, Field, model_validator

from isotropy.errors import IsotropyError
from isotropy.files import RESULTS
from replication.context import (
    Context,
    Result,
    Results,
    TokenLayers,
    prepared_table,
    require_known,
    source_folder,
    task_inputs,
    token_vectors_folder,
)
from replication.extension import ResolvedExtension, UserModel
from replication.field_types import DROPPABLE, Name, Seeds, ascending, distinct
from replication.finetune import settings as finetune
from replication.finetune.settings import (
    FinetuneRun,
    FineTuning,
    Task,
    check_task_data,
    extension_tasks,
)
from replication.finetune.spec import Method, Metric
from replication.papers.rajaee2021.protocol import AUTHORS
from replication.papers.registry import Paper, PaperPlan, PaperStudy
from replication.similarity.spec import (
    ClassifySpec,
    Clusterer,
    DroppedTokens,
    MethodName,
    Mlp,
    Parameters,
    SimilaritySpec,
    TuningSpec,
)
from replication.spec import Strict

Layers = Annotated[list[Annotated[int, Field(ge=0)]], AfterValidator(ascending)]
Counts = Annotated[list[Annotated[int, Field(ge=1)]], AfterValidator(ascending)]


class Encoding(Strict):
    """The measurements of one model, or of static vectors."""

    datasets: Annotated[list[str], Field(min_length=1), AfterValidator(distinct)]
    """Names from `datasets`: pairs with a score; for other sentences only isotropy is measured."""
    layers: Layers = []
    """Hidden layers for all methods; 0 is the embedding layer. Empty for static vectors."""
    isotropy_layers: Layers = []
    """Hidden layers whose isotropy is measured, on `isotropy_dataset`."""
    parameters: Parameters | None
    """Numbers of clusters and components; null: chosen by `tuning`."""
    drop_tokens: DroppedTokens = "special"
    """Tokens that are left out."""

    def check(self, name: str, context: Context) -> None:
        """Refuse names that do not exist and choices that do not fit."""
        path = f"rajaee2021.embeddings.{name}"
        source = context.require_source(path, name, "model", "vectors")
        if source.kind == "model":
            if not self.layers:
                raise IsotropyError(f"config: {path}.layers: expected layers of a model, got none")
            context.require_layers(f"{path}.layers", name, self.layers)
            context.require_layers(f"{path}.isotropy_layers", name, self.isotropy_layers)
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
    """The choice of the numbers of clusters and components, by the highest Spearman correlation."""

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
    """The layer of a model whose token vectors are features, and the methods' parameters."""

    layer: Annotated[int, Field(ge=0)]
    """Hidden layer; 0 is the embedding layer."""
    parameters: Parameters
    """Numbers of clusters and components."""


def default_parameters(model: UserModel) -> Parameters:
    """As the paper for BERT: its number of clusters, its components in proportion to the width."""
    n_per_cluster, n_global = model.components()
    clusters = AUTHORS["bert-base-uncased"].n_clusters
    return Parameters(n_clusters=clusters, n_components=n_per_cluster, n_components_global=n_global)


class Classification(Strict):
    """Classification on frozen features."""

    tasks: Annotated[dict[Name, ClassTask], Field(min_length=1), DROPPABLE]
    """Available tasks, by name; `run_tasks` selects among them."""
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
    """Random seeds of clustering, initialization and order of items."""

    def extended(self, extension: ResolvedExtension) -> Classification:
        """The section with a user's models, on its own and the user's tasks of two classes."""
        tasks = extension_tasks(extension, ClassTask)
        two = [name for name in tasks if len(extension.class_names(name)) == 2]
        embeddings = {
            model.name: Frozen(layer=model.layers, parameters=default_parameters(model))
            for model in extension.models
        }
        fields = {
            "tasks": self.tasks | {name: tasks[name] for name in two},
            "run_tasks": [*self.run_tasks, *two],
            "embeddings": embeddings,
            "max_length": min([self.max_length, *(m.max_length for m in extension.models)]),
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
        for name, frozen in self.embeddings.items():
            context.require_layers(f"{path}.embeddings.{name}.layer", name, [frozen.layer])
            encoder = context.require_source(f"{path}.embeddings.{name}", name, "model").encoder
            if encoder is not None and encoder.max_length < self.max_length:
                raise IsotropyError(
                    f"config: {path}.max_length: expected at most {encoder.max_length}, which "
                    f"{name} reads, got {self.max_length}"
                )
        for name, task in self.tasks.items():
            train = check_task_data(f"{path}.tasks.{name}", task, context)
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

    def extended(self, extension: ResolvedExtension) -> ClusterFineTuning | None:
        """The section with a user's encoders, on its own and the user's tasks; None: no encoder."""
        if not extension.encoders:
            return None
        tasks = extension_tasks(extension, Task)
        fields = {
            "tasks": self.tasks | tasks,
            "run_tasks": [*self.run_tasks, *tasks],
            "models": [model.name for model in extension.encoders],
            "training": self.training.limit_length(extension.positions),
        }
        return ClusterFineTuning.model_validate(dict(self) | fields)

    def runs(self) -> dict[str, FinetuneRun]:
        """All runs, by name: every task with every model, without and with the method."""
        cluster = Method(kind="cluster", n_clusters=self.n_clusters, n_components=self.n_components)
        return self.make_runs([Method(kind="none"), cluster])

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
            if task.training_settings(self.training).batch_size < 3:
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
    """Whether a sentence that occurs in several pairs is as often in the point cloud, as in the
    authors' code."""
    isotropy_dataset: str | None
    """A name from `datasets`, for the isotropy of each layer and the effect of the number of
    clusters; null: none."""
    cluster_counts: Counts
    """Numbers of clusters whose effect is shown, on `isotropy_dataset`."""
    plot_dataset: str | None
    """A name from `datasets`, whose tokens are drawn before and after the method; null: none."""
    tuning: Tuning | None
    """How the numbers of clusters and components are chosen; null: they are not."""
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
        if self.plot_dataset is not None and not any(
            measurement.plotted for measurement in measured
        ):
            raise IsotropyError(
                f"config: rajaee2021.plot_dataset: no embedding has {self.plot_dataset!r} "
                "among its datasets, or kmeans is not among methods"
            )
        if self.cluster_counts and not any(measurement.cluster_counts for measurement in measured):
            raise IsotropyError(
                "config: rajaee2021.cluster_counts: no embedding has a layer both in layers and in "
                "isotropy_layers"
            )
        if self.tuning is not None:
            path = "rajaee2021.tuning.dataset"
            context.require_sentences(path, self.tuning.dataset, "regression")
        for section in (self.finetuning, self.classification):
            if section is not None:
                section.check(context)

    def extended(self, extension: ResolvedExtension) -> Rajaee2021 | None:
        """The study with a user's models, on its own and the user's sentences and pairs; static
        vectors; classification with the last layer; fine-tuned encoders. None: there is nothing to
        run.
        """
        models = {model.name: self._encoding(model, extension) for model in extension.models}
        vectors = [e for e in self.embeddings.values() if not e.layers]
        static = {name: e for name in extension.vectors for e in vectors[:1]}
        if not models and not static:
            return None
        fields: dict[str, Any] = {"embeddings": models | static, "tuning": None}
        if not models:
            fields |= {"isotropy_dataset": None, "cluster_counts": [], "plot_dataset": None}
            fields |= {"classification": None, "finetuning": None}
            return self.changed(**fields)
        if self.classification is not None:
            fields["classification"] = self.classification.extended(extension)
        if self.finetuning is not None:
            fields["finetuning"] = self.finetuning.extended(extension)
        return self.changed(**fields)

    def _encoding(self, model: UserModel, extension: ResolvedExtension) -> Encoding:
        """The measurements of a user's model."""
        studied = [d for e in self.embeddings.values() if e.layers for d in e.datasets]
        parts = [f"{name}-part" for name in extension.classes]
        return Encoding(
            datasets=list(dict.fromkeys([*studied, *parts, *extension.scores])),
            layers=model.outer_layers(),
            isotropy_layers=[0, *model.measured_layers()] if self.isotropy_dataset else [],
            parameters=default_parameters(model),
        )

    def is_tuned(self, measurement: Measurement) -> bool:
        """Whether the tuning chooses the parameters of a measurement; with the method `none` alone
        there are none to choose.
        """
        return (
            self.embeddings[measurement.embedding].parameters is None
            and len(measurement.methods) > 1
        )

    def sections(self) -> list[str]:
        """Optional parts that this study has; tables and figures of other parts are left out."""
        present = {
            "plotted": any(measurement.plotted for measurement in self.measured().values()),
            "isotropy-by-layer": any(
                measurement.profiled for measurement in self.measured().values()
            ),
            "cluster-counts": any(
                measurement.cluster_counts for measurement in self.measured().values()
            ),
            "tuning": any(e.parameters is None for e in self.embeddings.values()),
            "classification": self.classification is not None,
            "finetuning": self.finetuning is not None,
        }
        return [name for name, is_present in present.items() if is_present]

    def measured(self) -> dict[str, Measurement]:
        """All measurements, by stem: data set, embedding, layer."""
        measurements: dict[str, Measurement] = {}
        for name, encoding in self.embeddings.items():
            layers: list[int | None] = [*encoding.layers] or [None]
            common_layers = set(encoding.layers) & set(encoding.isotropy_layers)
            settings = [
                (dataset, layer, self.methods) for dataset in encoding.datasets for layer in layers
            ]
            if self.isotropy_dataset is not None:
                settings += [
                    (self.isotropy_dataset, layer, ["none"]) for layer in encoding.isotropy_layers
                ]
            for dataset, layer, methods in settings:
                profiled = dataset == self.isotropy_dataset and layer in encoding.isotropy_layers
                counts = self.cluster_counts if profiled and layer in common_layers else []
                plotted = dataset == self.plot_dataset and "kmeans" in methods
                measurement = Measurement(dataset, name, layer, methods, counts, profiled, plotted)
                measurements.setdefault(measurement.stem, measurement)
        return measurements


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
        """The last parts of its path: data set, embedding, layer."""
        layer = "words" if self.layer is None else f"layer{self.layer}"
        return f"{self.dataset}/{self.embedding}/{layer}"


KEY = "rajaee2021"
TUNING = "-tuning"
"""Suffix of the stem of a tuning."""


def plan(study: Rajaee2021, context: Context) -> PaperPlan:
    """Plan the measurements, tunings, classifications and fine-tuned models."""
    measured = study.measured()
    measurements = {
        _stem(measurement): Result(
            partial(_similarity_spec, study, measurement), _inputs(study, measurement, context)
        )
        for measurement in measured.values()
    }
    tunings: Results = {}
    for measurement in measured.values():
        if study.tuning is not None and study.is_tuned(measurement):
            make = partial(_tuning_spec, study, study.tuning, measurement)
            cloud = _cloud_inputs(study.tuning.dataset, measurement.embedding, context)
            tunings[_tuning_stem(study.tuning, measurement)] = Result(make, cloud)
    classified = _classification_results(study, context)
    results = measurements | tunings | classified
    groups = {
        "similarity": list(measurements),
        "plotted": [_stem(measurement) for measurement in measured.values() if measurement.plotted],
        "tuning": list(tunings),
        "classification": list(classified),
    }
    if study.finetuning is not None:
        runs = study.finetuning.runs()
        results |= finetune.results(KEY, study.finetuning, runs, context)
        groups["clustered"] = finetune.stems(KEY, runs, study.finetuning.seeds)
        groups["kept"] = finetune.stems(KEY, study.finetuning.kept_runs(), study.finetuning.seeds)
    return PaperPlan(results, groups, frozenset(study.sections()), _token_layers(study))


def _stem(measurement: Measurement) -> str:
    return f"similarity/{KEY}/{measurement.stem}"


def _tuning_stem(tuning: Tuning, measurement: Measurement) -> str:
    """Stem of the tuning that chooses the parameters of a measurement."""
    return f"{_stem(measurement._replace(dataset=tuning.dataset))}{TUNING}"


def _inputs(study: Rajaee2021, measurement: Measurement, context: Context) -> dict[str, list[str]]:
    inputs = _cloud_inputs(measurement.dataset, measurement.embedding, context)
    if study.tuning is not None and study.is_tuned(measurement):
        inputs |= {"tuning": [f"{RESULTS}/{_tuning_stem(study.tuning, measurement)}.json"]}
    return inputs


def _cloud_inputs(dataset: str, embedding: str, context: Context) -> dict[str, list[str]]:
    """Inputs that make a point cloud: items, with token vectors, or texts and static vectors."""
    items = {"dataset": [prepared_table(dataset, "items")]}
    if context.registry[embedding].kind == "model":
        return items | {"tokens": [token_vectors_folder(dataset, embedding)]}
    return items | {
        "texts": [prepared_table(dataset, "texts")],
        "vectors_source": [source_folder(embedding)],
    }


def _similarity_spec(study: Rajaee2021, measurement: Measurement) -> SimilaritySpec:
    embedding = study.embeddings[measurement.embedding]
    return SimilaritySpec.collect(study, embedding, measurement, paper=KEY)


def _tuning_spec(study: Rajaee2021, tuning: Tuning, measurement: Measurement) -> TuningSpec:
    embedding = study.embeddings[measurement.embedding]
    return TuningSpec.collect(study, embedding, measurement, tuning, paper=KEY)


def _classification_results(study: Rajaee2021, context: Context) -> Results:
    classification = study.classification
    if classification is None:
        return {}
    results: Results = {}
    for task in classification.run_tasks:
        datasets = classification.tasks[task].model_dump(include={"train", "validation"})
        for embedding in classification.embeddings:
            make = partial(_classify_spec, study, classification, task, embedding, context)
            inputs = task_inputs(datasets) | {"model": [source_folder(embedding)]}
            results[f"similarity/{KEY}/classification/{task}/{embedding}"] = Result(make, inputs)
    return results


def _classify_spec(
    study: Rajaee2021, classification: Classification, task: str, embedding: str, context: Context
) -> ClassifySpec:
    return ClassifySpec.collect(
        context.compute,
        classification,
        classification.tasks[task],
        classification.embeddings[embedding],
        paper=KEY,
        task=task,
        embedding=embedding,
        encoder=context.registry[embedding].encoder,
        clusterer=study.clusterer,
    )


def _token_layers(study: Rajaee2021) -> list[TokenLayers]:
    """Layers of token vectors that the measurements and the tuning read."""
    needed = [
        (measurement.dataset, measurement.embedding, measurement.layer)
        for measurement in study.measured().values()
    ]
    if study.tuning is not None:
        needed += [
            (study.tuning.dataset, name, layer)
            for name, encoding in study.embeddings.items()
            if encoding.parameters is None
            for layer in encoding.layers
        ]
    return [TokenLayers(d, name, [layer], None) for d, name, layer in needed if layer is not None]


BIBTEX = """@inproceedings{rajaee-pilehvar-2021-cluster,
  title = {A Cluster-based Approach for Improving Isotropy in Contextual Embedding Space},
  author = {Rajaee, Sara and Pilehvar, Mohammad Taher},
  booktitle = {Proceedings of the 59th Annual Meeting of the Association for Computational
    Linguistics (Short Papers)},
  year = {2021},
  pages = {575--584},
  doi = {10.18653/v1/2021.acl-short.73}
}
"""
PAPER = Paper(
    key="rajaee2021",
    title="A Cluster-based Approach for Improving Isotropy in Contextual Embedding Space",
    reference=(
        "Rajaee & Pilehvar (2021), ACL, short papers, and the slides of Rajaee & Sheikhi (2020)"
    ),
    name="Rajaee & Pilehvar 2021",
    link="https://doi.org/10.18653/v1/2021.acl-short.73",
    bibtex=BIBTEX,
    says=(
        "Token vectors lie in clusters: removing each cluster's mean and dominant directions "
        "makes them isotropic and improves similarity and classification."
    ),
    lead="rajaee2021/similarity",
    study=Rajaee2021,
    results=plan,
    model_column="embedding",
)
