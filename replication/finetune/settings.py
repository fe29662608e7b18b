"""Configuration of fine-tuning in a study (tasks, models, training), and its validation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Annotated, Protocol, TypeVar

from pydantic import AfterValidator, Field

from isotropy.errors import IsotropyError
from replication.context import Context, Result, Results, require_known, source_folder, task_inputs
from replication.extension import ResolvedExtension
from replication.field_types import DROPPABLE, Name, Seeds, distinct
from replication.finetune.spec import FinetuneSpec, GeometrySettings, Method, Metric, Training
from replication.prepare.spec import SentencesSpec
from replication.spec import Strict

METRICS = {
    "single-label": ("accuracy", "f1", "matthews"),
    "regression": ("pearson", "spearman"),
    "extractive": ("exact_match", "f1"),
}
MIN_WINDOW = 64


class Task(Strict):
    """A fine-tuning task, and the settings in which it differs from `training`."""

    train: str
    """Training data: a name from `datasets`."""
    validation: str
    """Validation data, which are used completely: a name from `datasets`."""
    metric: Metric
    """Metric of the task."""
    learning_rate: Annotated[float, Field(gt=0)] | None = None
    """Maximum learning rate; null, here and below: as in `training`."""
    batch_size: Annotated[int, Field(ge=2)] | None = None
    """Number of items in a batch."""
    epochs: Annotated[int, Field(ge=1)] | None = None
    """Number of passes over the training items."""
    n_train: Annotated[int, Field(ge=2)] | None = None
    """Number of training items."""
    max_length: Annotated[int, Field(ge=8)] | None = None
    """Maximum length of an input in word pieces."""
    pad_to_max_length: bool | None = None
    """Pad training items to `max_length`."""

    def training_settings(self, common: Training) -> Training:
        """Return the training settings of this task."""
        overrides = self.model_dump(exclude={"train", "validation", "metric"}, exclude_none=True)
        return common.model_copy(update=overrides)


TaskT = TypeVar("TaskT", bound=Strict)


def extension_tasks(extension: ResolvedExtension, task: type[TaskT]) -> dict[str, TaskT]:
    """Create tasks for the labelled data sets of an extension, by name."""
    return {
        name: task.model_validate(
            {"train": f"{name}-train", "validation": f"{name}-validation", "metric": "accuracy"}
        )
        for name in extension.classes
    }


class FinetuneRun(Strict):
    """One task with one model and method, fine-tuned once per seed."""

    task: str
    model: str
    method: Method


class FineTuning(Strict):
    """Tasks and models, each pair of which is fine-tuned with every method and seed."""

    tasks: Annotated[dict[Name, Task], Field(min_length=1), DROPPABLE]
    """Available tasks, by name."""
    run_tasks: Annotated[list[str], Field(min_length=1), AfterValidator(distinct)]
    """Names of the tasks to run."""
    models: Annotated[list[str], Field(min_length=1), AfterValidator(distinct)]
    """Names of models in the source registry."""
    seeds: Seeds
    """Random seeds of initialization, sample and order of items, and dropout."""
    training: Training
    """Training settings, which tasks may override."""
    measure: GeometrySettings
    """Settings for measuring their geometry."""
    keep_models: bool | Annotated[list[str], AfterValidator(distinct)] = False
    """Whether to keep the models, as folders that transformers loads; a list keeps those of the
    named runs, `task--model--method`."""

    def runs(self) -> dict[str, FinetuneRun]:
        """Return all runs by name."""
        raise NotImplementedError

    def kept_runs(self) -> list[str]:
        """Return the names of the runs whose models are kept."""
        if isinstance(self.keep_models, bool):
            return list(self.runs()) if self.keep_models else []
        return self.keep_models

    def make_runs(self, methods: list[Method]) -> dict[str, FinetuneRun]:
        """Combine every task to run with every model and method; return the runs by name."""
        return {
            f"{task}--{model}--{method.name}": FinetuneRun(task=task, model=model, method=method)
            for task in self.run_tasks
            for model in self.models
            for method in methods
        }

    def check_tasks(self, path: str, context: Context) -> None:
        """Check that tasks, models and settings exist and are compatible.

        Args:
            path: path of this section in the configuration.
            context: data sets, sources and settings of the study.

        Raises:
            IsotropyError: describes the first mistake: path of the field, expected and actual
                value.
        """
        for i, model in enumerate(self.models):
            context.require_source(f"{path}.models.{i}", model, "model")
        for i, name in enumerate(self.run_tasks):
            require_known(f"{path}.run_tasks.{i}", name, self.tasks, "task")
        runs = self.runs()
        for i, name in enumerate(self.kept_runs()):
            require_known(f"{path}.keep_models.{i}", name, runs, "run")
        for name, task in self.tasks.items():
            task_path = f"{path}.tasks.{name}"
            train = check_task_data(task_path, task, context)
            length = task.training_settings(self.training).max_length
            if train.task == "extractive" and length < MIN_WINDOW:
                raise IsotropyError(
                    f"config: {task_path}.max_length: expected at least {MIN_WINDOW} word pieces "
                    f"for a question and its context, got {length}"
                )
        if self.training.precision == "float16" and context.compute.device == "cpu":
            raise IsotropyError(
                f"config: {path}.training.precision: float16 needs a GPU, and compute.device is cpu"
            )


class HasTaskData(Protocol):
    """Any task with data sets for training and validation, and a metric."""

    @property
    def train(self) -> str:
        """Training data: a name from `datasets`."""

    @property
    def validation(self) -> str:
        """Validation data: a name from `datasets`."""

    @property
    def metric(self) -> str:
        """Metric of the task."""


def check_task_data(path: str, task: HasTaskData, context: Context) -> SentencesSpec:
    """Check that the training and validation data of a task fit each other and the metric.

    Args:
        path: path of the task in the configuration.
        task: the task.
        context: data sets, sources and settings of the study.

    Returns:
        The specification of the training data.

    Raises:
        IsotropyError: describes the first mistake.
    """
    train = context.require_sentences(f"{path}.train", task.train)
    validation = context.require_sentences(f"{path}.validation", task.validation)
    if (train.task, train.label_names) != (validation.task, validation.label_names):
        raise IsotropyError(
            f"config: {path}.validation: expected the task and label_names of {task.train!r}, got "
            f"those of {task.validation!r}, which differ"
        )
    if train.source == validation.source and not _are_disjoint(train, validation):
        raise IsotropyError(
            f"config: {path}: train and validation share the source {train.source!r}: both need "
            "the same sample, and a split with the same held_out and seed, where part is train and "
            "validation, respectively"
        )
    allowed_metrics = [
        metric
        for metric in METRICS[train.task]
        if metric != "f1" or train.task == "extractive" or len(train.label_names) == 2
    ]
    if task.metric not in allowed_metrics:
        raise IsotropyError(
            f"config: {path}.metric: expected {' or '.join(allowed_metrics)}, got {task.metric!r}"
        )
    return train


def _are_disjoint(train: SentencesSpec, validation: SentencesSpec) -> bool:
    """Return whether training and validation data from one source have no item in common."""
    if train.split is None or validation.split is None or train.sample != validation.sample:
        return False
    expected = train.split.model_copy(update={"part": "validation"})
    return train.split.part == "train" and validation.split == expected


def stem(paper: str, run: str, seed: int) -> str:
    """Return the stem of a fine-tuned model: its path below the results without a suffix."""
    return f"finetune/{paper}/{run}/seed{seed}"


def stems(paper: str, runs: Iterable[str], seeds: list[int]) -> list[str]:
    """Return the stems of all fine-tuned models, by run and seed."""
    return [stem(paper, run, seed) for run in runs for seed in seeds]


def results(
    paper: str, settings: FineTuning, runs: Mapping[str, FinetuneRun], context: Context
) -> Results:
    """Plan all fine-tuned models of a paper."""
    planned: Results = {}
    for name, run in runs.items():
        task = settings.tasks[run.task]
        inputs = task_inputs({"train": task.train, "validation": task.validation})
        inputs |= {"model": [source_folder(run.model)]}
        for seed in settings.seeds:
            make_spec = partial(_spec, paper, settings, name, run, seed, context)
            planned[stem(paper, name, seed)] = Result(make_spec, inputs)
    return planned


def _spec(
    paper: str, settings: FineTuning, name: str, run: FinetuneRun, seed: int, context: Context
) -> FinetuneSpec:
    task = settings.tasks[run.task]
    training = task.training_settings(settings.training)
    return FinetuneSpec.collect(
        context.compute, settings, task, run, paper=paper, run=name, seed=seed, training=training
    )
