"""The configuration: one model, from which the schema is generated and which names every mistake
before the first job.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import Field, ValidationError

from isotropy.errors import IsotropyError, suggest
from isotropy.finetune.study import Rudman2024, Task
from isotropy.geometry.study import Cai2021
from isotropy.names import Name
from isotropy.optimize.study import Mickus2024
from isotropy.prepare.spec import CorpusSpec, SentencesSpec, WordsSpec
from isotropy.similarity.study import Classification, ClassTask, FineTuning, Rajaee2021
from isotropy.sources.registry import Registry, Tier, load_registry
from isotropy.spec import Strict


class Sources(Strict):
    """Where inputs come from."""

    registry: str
    """Path of the source registry, relative to the project."""
    order: Annotated[list[Tier], Field(min_length=1)]
    """Kinds of origins, in the order in which they are tried."""
    mirror: str | None
    """A folder in the layout of the official homes, relative to the project; null: none."""
    trust_on_first_use: bool
    """Accept a download whose sha256 the registry does not know, and record what came."""


class Compute(Strict):
    """How jobs compute."""

    device: Literal["auto", "cpu", "cuda"]
    """`auto`: the GPU where there is one; `cuda`: a job without a GPU stops."""
    dtype: Literal["float32", "bfloat16"]
    """Number format of the encoders. The papers' results are float32."""
    token_budget: Annotated[int, Field(ge=16)]
    """Most tokens in one batch of an encoder, padding included."""
    shards: Annotated[int, Field(ge=1)]
    """Jobs that share out the extraction of the token vectors of one data set by one model. Does
    not change the result."""

    def of_encoders(self) -> dict[str, Any]:
        """What specs of encoders have of it."""
        return self.model_dump(exclude={"shards"})


DataSpec = SentencesSpec | WordsSpec | CorpusSpec


class Config(Strict):
    """Everything that a study can choose."""

    study: str
    """Name of the study, shown on its pages."""
    sources: Sources
    compute: Compute
    datasets: dict[Name, Annotated[DataSpec, Field(discriminator="kind")]]
    """Prepared data sets, by name."""
    mickus2024: Mickus2024
    rudman2024: Rudman2024 | None
    """null: not attempted."""
    rajaee2021: Rajaee2021 | None
    """null: not attempted."""
    cai2021: Cai2021 | None
    """null: not attempted."""


class Study(Strict):
    """A validated configuration with the registry that it names."""

    config: Config
    registry: Registry


def load_study(raw: dict[str, Any], root: Path, *, mirror_there: bool = True) -> Study:
    """Validate a configuration as Snakemake merged it.

    Args:
        raw: the merged mapping.
        root: the project's folder, to which the registry's path is relative.
        mirror_there: whether the mirror's folder must be there, as for a run.

    Raises:
        IsotropyError: the first mistake: the field's path, the value, and what is allowed.
    """
    try:
        config = Config.model_validate(raw)
    except ValidationError as error:
        raise IsotropyError(_explain(error)) from error
    registry = load_registry(root / config.sources.registry)
    mirror = config.sources.mirror
    if mirror is not None and mirror_there and not (root / mirror).is_dir():
        raise IsotropyError(
            f"config: sources.mirror: {mirror!r} is not a folder; correct the path, or set it to "
            "null"
        )
    study = Study(config=config, registry=registry)
    _check_names(study)
    return study


def read_configuration(files: Iterable[Path], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Read configuration files and merge them as Snakemake does: mappings key by key, the later
    value before the earlier.

    Raises:
        IsotropyError: a file is not there, or is not a mapping.
    """
    merged: dict[str, Any] = {}
    for file in files:
        if not file.is_file():
            raise IsotropyError(f"{file} is not there")
        try:
            values = yaml.safe_load(file.read_text("utf8")) or {}
        except (OSError, ValueError, yaml.YAMLError) as error:
            raise IsotropyError(f"{file} cannot be read: {' '.join(str(error).split())}") from error
        if not isinstance(values, dict):
            raise IsotropyError(f"{file} is not a configuration")
        merged = _merged(merged, values)
    return _merged(merged, overrides)


def schema() -> str:
    """JSON schema of the configuration, for editors and for `schemas/config.schema.json`."""
    return (
        json.dumps(Config.model_json_schema(), indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    )


def _merged(base: Mapping[str, Any], update: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in update.items():
        old = merged.get(key)
        merged[key] = (
            _merged(old, value)
            if isinstance(old, Mapping) and isinstance(value, Mapping)
            else value
        )
    return merged


NeedDataset = Callable[[str, str], DataSpec]
NeedSource = Callable[..., None]
METRICS = {
    "single-label": ("accuracy", "f1", "matthews"),
    "regression": ("pearson", "spearman"),
    "extractive": ("exact_match", "f1"),
}
LEAST_WINDOW = 64


def _check_names(study: Study) -> None:
    """Every source, data set and embedding that the configuration names exists and fits."""
    registry, config = study.registry.sources, study.config

    def source(path: str, name: str, *kinds: str) -> None:
        if name not in registry:
            raise IsotropyError(
                f"config: {path}: no source {name!r} in {config.sources.registry}: "
                f"{suggest(name, registry)}"
            )
        if registry[name].kind not in kinds:
            raise IsotropyError(
                f"config: {path}: {name!r} is a {registry[name].kind}, needed is a "
                f"{' or '.join(kinds)}"
            )
        if not registry[name].usable(
            config.sources.order, mirror=config.sources.mirror is not None
        ):
            kinds_there = ", ".join(sorted({o.type for o in registry[name].origins}))
            raise IsotropyError(
                f"config: sources.order: {name} comes by {kinds_there} only (mirror: if "
                "sources.mirror is set)"
            )

    for name, dataset in config.datasets.items():
        if isinstance(dataset, SentencesSpec):
            source(f"datasets.{name}.source", dataset.source, "dataset")
        elif isinstance(dataset, CorpusSpec):
            source(f"datasets.{name}.source", dataset.source, "corpus")
        else:
            source(f"datasets.{name}.lexicon", dataset.lexicon, "lexicon")
            source(f"datasets.{name}.vectors", dataset.vectors, "vectors")
            if dataset.word_list is not None:
                source(f"datasets.{name}.word_list", dataset.word_list, "lexicon")

    def data(path: str, name: str) -> DataSpec:
        if name not in config.datasets:
            raise IsotropyError(
                f"config: {path}: no data set {name!r} in datasets: "
                f"{suggest(name, config.datasets)}"
            )
        return config.datasets[name]

    _check_mickus2024(config.mickus2024, data, source)
    if config.rudman2024 is not None:
        _check_rudman2024(config.rudman2024, data, source)
    if config.rajaee2021 is not None:
        _check_rajaee2021(study, config.rajaee2021, data, source)
    if config.cai2021 is not None:
        _check_cai2021(config.cai2021, data, source)
    finetuning = None if config.rajaee2021 is None else config.rajaee2021.finetuning
    for path, paper in {
        "rudman2024": config.rudman2024,
        "rajaee2021.finetuning": finetuning,
    }.items():
        if (
            paper is not None
            and paper.training.precision == "float16"
            and config.compute.device == "cpu"
        ):
            raise IsotropyError(
                f"config: {path}.training.precision: float16 needs a GPU, and compute.device is cpu"
            )


def _check_mickus2024(paper: Mickus2024, data: NeedDataset, source: NeedSource) -> None:
    for name, setup in paper.setups.items():
        path = f"mickus2024.setups.{name}"
        dataset = data(f"{path}.dataset", setup.dataset)
        if isinstance(dataset, CorpusSpec):
            raise IsotropyError(
                f"config: {path}.dataset: {setup.dataset!r} is a corpus, needed are sentences or "
                "words with labels"
            )
        if isinstance(dataset, SentencesSpec) and dataset.task != "single-label":
            raise IsotropyError(
                f"config: {path}.dataset: {setup.dataset!r} is a {dataset.task} task, needed are "
                "classes"
            )
        fitting = "cross_entropy" if isinstance(dataset, SentencesSpec) else "binary_cross_entropy"
        if setup.loss != fitting:
            raise IsotropyError(
                f"config: {path}.loss: {setup.loss!r} does not fit {setup.dataset}, which needs "
                f"{fitting!r}"
            )
        if isinstance(dataset, SentencesSpec):
            source(f"{path}.embedding", setup.embedding, "model")
        else:
            source(f"{path}.embedding", setup.embedding, "vectors")
            if setup.embedding != dataset.vectors:
                raise IsotropyError(
                    f"config: {path}.embedding: {setup.embedding!r}, but "
                    f"datasets.{setup.dataset}.vectors chose its words "
                    f"from {dataset.vectors!r}; use the same vectors for both"
                )
    if paper.glue is not None:
        for i, task in enumerate(paper.glue.tasks):
            found = data(f"mickus2024.glue.tasks.{i}", task)
            if not isinstance(found, SentencesSpec) or found.task != "single-label":
                raise IsotropyError(
                    f"config: mickus2024.glue.tasks.{i}: {task!r} holds no sentences with classes"
                )
        for i, embedding in enumerate(paper.glue.embeddings):
            source(f"mickus2024.glue.embeddings.{i}", embedding, "model")
    if paper.sensitivity is not None:
        for i, name in enumerate(paper.sensitivity.setups):
            if name not in paper.setups:
                hint = suggest(name, paper.setups)
                raise IsotropyError(
                    f"config: mickus2024.sensitivity.setups.{i}: no setup {name!r}: {hint}"
                )
        if unknown := set(paper.sensitivity.seeds) - set(paper.seeds):
            raise IsotropyError(
                f"config: mickus2024.sensitivity.seeds: {min(unknown)} is not in "
                "mickus2024.seeds: there would be nothing to "
                "compare it with"
            )


def _check_rudman2024(paper: Rudman2024, data: NeedDataset, source: NeedSource) -> None:
    _check_fine_tuning("rudman2024", paper, data, source)
    for name, cloud in paper.stability.clouds.items():
        if cloud.dataset is not None and cloud.embedding is not None:
            path = f"rudman2024.stability.clouds.{name}"
            dataset = data(f"{path}.dataset", cloud.dataset)
            if isinstance(dataset, CorpusSpec):
                raise IsotropyError(
                    f"config: {path}.dataset: {cloud.dataset!r} is a corpus, needed are sentences "
                    "or words"
                )
            words = isinstance(dataset, WordsSpec)
            source(f"{path}.embedding", cloud.embedding, "vectors" if words else "model")


def _check_cai2021(paper: Cai2021, data: NeedDataset, source: NeedSource) -> None:
    for name, model in paper.models.items():
        source(f"cai2021.models.{name}", name, "model")
        for i, corpus in enumerate(model.corpora):
            if not isinstance(data(f"cai2021.models.{name}.corpora.{i}", corpus), CorpusSpec):
                raise IsotropyError(
                    f"config: cai2021.models.{name}.corpora.{i}: {corpus!r} is no corpus, needed "
                    "is kind: corpus"
                )
    for i, name in enumerate(paper.vectors):
        source(f"cai2021.vectors.{i}", name, "vectors")


def _check_rajaee2021(
    study: Study, paper: Rajaee2021, data: NeedDataset, source: NeedSource
) -> None:
    def pairs(path: str, name: str) -> None:
        dataset = data(path, name)
        if not isinstance(dataset, SentencesSpec) or dataset.task != "regression":
            raise IsotropyError(
                f"config: {path}: {name!r} holds no pairs with scores, which is task: regression"
            )

    for name, encoding in paper.embeddings.items():
        path = f"rajaee2021.embeddings.{name}"
        source(path, name, "model", "vectors")
        static = study.registry.sources[name].kind == "vectors"
        if static == bool(encoding.layers) or (static and encoding.profile):
            raise IsotropyError(
                f"config: {path}.layers: a model needs layers, and static vectors have none"
            )
        for i, dataset in enumerate(encoding.sets):
            if static:
                pairs(f"{path}.sets.{i}", dataset)
            elif not isinstance(data(f"{path}.sets.{i}", dataset), SentencesSpec):
                raise IsotropyError(
                    f"config: {path}.sets.{i}: {dataset!r} holds no sentences, which a model needs"
                )
        if static and encoding.numbers is None:
            raise IsotropyError(
                f"config: {path}.numbers: null, but static vectors are not tuned; give numbers"
            )
    for field in ("profile", "pictured"):
        name = getattr(paper, field)
        if name is not None and not isinstance(data(f"rajaee2021.{field}", name), SentencesSpec):
            raise IsotropyError(f"config: rajaee2021.{field}: {name!r} holds no sentences")
    measured = paper.measured().values()
    if paper.pictured is not None and not any(one.pictured for one in measured):
        raise IsotropyError(
            f"config: rajaee2021.pictured: no embedding has {paper.pictured!r} among its sets, or "
            "kmeans is not among methods"
        )
    if paper.more_clusters and not any(one.more_clusters for one in measured):
        raise IsotropyError(
            "config: rajaee2021.more_clusters: no embedding has a layer both in layers and in "
            "profile"
        )
    if paper.tuning is not None:
        pairs("rajaee2021.tuning.dataset", paper.tuning.dataset)
    if paper.finetuning is not None:
        _check_fine_tuning("rajaee2021.finetuning", paper.finetuning, data, source)
        for name, tuned in paper.finetuning.tasks.items():
            train = data(f"rajaee2021.finetuning.tasks.{name}.train", tuned.train)
            if isinstance(train, SentencesSpec) and train.task == "extractive":
                raise IsotropyError(
                    f"config: rajaee2021.finetuning.tasks.{name}: extractive, and its head reads "
                    "no first token"
                )
            if tuned.trained(paper.finetuning.training).batch_size < 3:
                raise IsotropyError(
                    f"config: rajaee2021.finetuning: batches of two ({name}) would be left as "
                    "they are: batch_size is 3 or more"
                )
    if paper.classification is None:
        return
    chosen, path = paper.classification, "rajaee2021.classification"
    _check_attempt(path, chosen)
    for name in chosen.embeddings:
        source(f"{path}.embeddings.{name}", name, "model")
        encoder = study.registry.sources[name].encoder
        if encoder is not None and encoder.max_length < chosen.max_length:
            raise IsotropyError(
                f"config: {path}.max_length: {chosen.max_length}, but {name} reads at most "
                f"{encoder.max_length}"
            )
    for name, task in chosen.tasks.items():
        train = _check_sides(f"{path}.tasks.{name}", task, data)
        if train.task != "single-label" or len(train.label_names) != 2:
            raise IsotropyError(
                f"config: {path}.tasks.{name}.train: {task.train!r} has not two classes, as the "
                "classifier has"
            )


def _check_fine_tuning(
    of: str, paper: Rudman2024 | FineTuning, data: NeedDataset, source: NeedSource
) -> None:
    for i, model in enumerate(paper.models):
        source(f"{of}.models.{i}", model, "model")
    _check_attempt(of, paper)
    for name, task in paper.tasks.items():
        path = f"{of}.tasks.{name}"
        train = _check_sides(path, task, data)
        if train.task == "extractive" and task.trained(paper.training).max_length < LEAST_WINDOW:
            raise IsotropyError(
                f"config: {path}.max_length: a question and its context need at least "
                f"{LEAST_WINDOW} word pieces"
            )


def _check_attempt(path: str, chosen: Rudman2024 | FineTuning | Classification) -> None:
    for i, name in enumerate(chosen.attempt):
        if name not in chosen.tasks:
            raise IsotropyError(
                f"config: {path}.attempt.{i}: no task {name!r}: {suggest(name, chosen.tasks)}"
            )


def _check_sides(path: str, task: Task | ClassTask, data: NeedDataset) -> SentencesSpec:
    """The training side of a task, both of whose sides fit each other and the metric."""
    train, validation = (
        data(f"{path}.{role}", getattr(task, role)) for role in ("train", "validation")
    )
    if not isinstance(train, SentencesSpec) or not isinstance(validation, SentencesSpec):
        role = "validation" if isinstance(train, SentencesSpec) else "train"
        raise IsotropyError(f"config: {path}.{role}: {getattr(task, role)!r} holds no sentences")
    if (train.task, train.label_names) != (validation.task, validation.label_names):
        raise IsotropyError(
            f"config: {path}.validation: its task or label_names are not those of train"
        )
    if train.source == validation.source and not _apart(train, validation):
        raise IsotropyError(
            f"config: {path}: train and validation are of one source, {train.source!r}: both need "
            "the same sample, and a "
            "split with the same held_out and seed, one the part train, the other validation"
        )
    fits = [
        m
        for m in METRICS[train.task]
        if m != "f1" or train.task == "extractive" or len(train.label_names) == 2
    ]
    if task.metric not in fits:
        raise IsotropyError(
            f"config: {path}.metric: {task.metric!r} does not fit; possible: {', '.join(fits)}"
        )
    return train


def _apart(train: SentencesSpec, validation: SentencesSpec) -> bool:
    """Whether two sides of one source have no item in common."""
    if train.split is None or validation.split is None or train.sample != validation.sample:
        return False
    return train.split.part == "train" and validation.split == train.split.model_copy(
        update={"part": "validation"}
    )


def _explain(error: ValidationError) -> str:
    """The first mistake in one sentence."""
    first = error.errors()[0]
    # The third part of a data set's path is the kind by which the model was chosen, not a key of
    # the configuration.
    location = [
        part for i, part in enumerate(first["loc"]) if (first["loc"][0], i) != ("datasets", 2)
    ]
    path = ".".join(str(part) for part in location)
    value = first["input"]
    if first["type"] == "extra_forbidden":
        return f"config: {path}: unknown key; {suggest(path.rsplit('.', 1)[-1], _known_keys())}"
    if first["type"] == "missing":
        return f"config: {path}: missing; see config.yaml for an example"
    hint = ""
    if isinstance(value, str) and first["type"] in ("float_type", "int_type"):
        hint = "; a number must not be in quotes, and YAML reads 1e-3 as text: write 0.001"
    return f"config: {path}: {first['msg']}, got {value!r}{hint}"


def _known_keys() -> set[str]:
    definitions = Config.model_json_schema()["$defs"].values()
    return set(Config.model_fields) | {key for d in definitions for key in d.get("properties", {})}
