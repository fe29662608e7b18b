"""What a study chooses of fine-tuning: tasks, models, training; and checks that they fit."""

from __future__ import annotations

from typing import Annotated, Protocol, TypeVar

from pydantic import AfterValidator, Field

from isotropy.context import Context, require_known
from isotropy.errors import IsotropyError
from isotropy.extension import ResolvedExtension
from isotropy.field_types import DROPPABLE, Name, Seeds, distinct
from isotropy.finetune.spec import GeometrySettings, Method, Metric, Training
from isotropy.prepare.spec import SentencesSpec
from isotropy.spec import Strict

METRICS = {
    "single-label": ("accuracy", "f1", "matthews"),
    "regression": ("pearson", "spearman"),
    "extractive": ("exact_match", "f1"),
}
LEAST_WINDOW = 64


class Task(Strict):
    """A task, and what of `training` it changes."""

    train: str
    """A name from `datasets`."""
    validation: str
    """A name from `datasets`: the whole of it is scored."""
    metric: Metric
    """The task's own metric."""
    learning_rate: Annotated[float, Field(gt=0)] | None = None
    """null: as in `training`; so are the others."""
    batch_size: Annotated[int, Field(ge=2)] | None = None
    """Items in a batch."""
    epochs: Annotated[int, Field(ge=1)] | None = None
    """Passes over the training items."""
    n_train: Annotated[int, Field(ge=2)] | None = None
    """Training items."""
    max_length: Annotated[int, Field(ge=8)] | None = None
    """Longest input in word pieces."""
    pad_to_max_length: bool | None = None
    """Pad each item to `max_length`."""

    def trained(self, common: Training) -> Training:
        """How the models of this task are trained."""
        own = self.model_dump(exclude={"train", "validation", "metric"}, exclude_none=True)
        return common.model_copy(update=own)


Sides = TypeVar("Sides", bound=Strict)


def own_tasks(own: ResolvedExtension, task: type[Sides]) -> dict[str, Sides]:
    """Tasks of an extension's data sets with classes, by name."""
    return {
        name: task.model_validate(
            {"train": f"{name}-train", "validation": f"{name}-validation", "metric": "accuracy"}
        )
        for name in own.classes
    }


class FinetuneRun(Strict):
    """One task with one model and method, fine-tuned once per seed."""

    task: str
    model: str
    method: Method


class FineTuning(Strict):
    """Tasks with models, each fine-tuned with every method and seed."""

    tasks: Annotated[dict[Name, Task], Field(min_length=1), DROPPABLE]
    """Tasks that there are, by name."""
    run_tasks: Annotated[list[str], Field(min_length=1), AfterValidator(distinct)]
    """Tasks to run."""
    models: Annotated[list[str], Field(min_length=1), AfterValidator(distinct)]
    """Models of the source registry."""
    seeds: Seeds
    """Of initialization, order and dropout."""
    training: Training
    """How models are trained; a task may differ."""
    measure: GeometrySettings
    """How their geometry is measured."""

    def runs_of(self, methods: list[Method]) -> dict[str, FinetuneRun]:
        """All runs, by name: every task with every model and method."""
        return {
            f"{task}--{model}--{method.name}": FinetuneRun(task=task, model=model, method=method)
            for task in self.run_tasks
            for model in self.models
            for method in methods
        }

    def check_tasks(self, path: str, context: Context) -> None:
        """Refuse tasks, models and settings that do not exist or do not fit.

        Args:
            path: of this part in the configuration.
            context: data sets, sources and settings.

        Raises:
            IsotropyError: the first mistake: the field's path, the value, and what is expected.
        """
        for i, model in enumerate(self.models):
            context.require_source(f"{path}.models.{i}", model, "model")
        for i, name in enumerate(self.run_tasks):
            require_known(f"{path}.run_tasks.{i}", name, self.tasks, "task")
        for name, task in self.tasks.items():
            own = f"{path}.tasks.{name}"
            train = check_sides(own, task, context)
            length = task.trained(self.training).max_length
            if train.task == "extractive" and length < LEAST_WINDOW:
                raise IsotropyError(
                    f"config: {own}.max_length: expected at least {LEAST_WINDOW} word pieces for a "
                    f"question and its context, got {length}"
                )
        if self.training.precision == "float16" and context.compute.device == "cpu":
            raise IsotropyError(
                f"config: {path}.training.precision: float16 needs a GPU, and compute.device is cpu"
            )


class HasSides(Protocol):
    """A task with data sets for training and validation, and a metric."""

    @property
    def train(self) -> str:
        """A name from `datasets`."""

    @property
    def validation(self) -> str:
        """A name from `datasets`."""

    @property
    def metric(self) -> str:
        """The task's own metric."""


def check_sides(path: str, task: HasSides, context: Context) -> SentencesSpec:
    """The training side of a task, if both sides fit each other and the metric.

    Args:
        path: of the task in the configuration.
        task: the task.
        context: data sets, sources and settings.

    Raises:
        IsotropyError: the first mistake.
    """
    train = context.require_sentences(f"{path}.train", task.train)
    validation = context.require_sentences(f"{path}.validation", task.validation)
    if (train.task, train.label_names) != (validation.task, validation.label_names):
        raise IsotropyError(
            f"config: {path}.validation: expected the task and label_names of {task.train!r}, got "
            f"those of {task.validation!r}, which differ"
        )
    if train.source == validation.source and not _are_apart(train, validation):
        raise IsotropyError(
            f"config: {path}: train and validation share the source {train.source!r}: both need "
            "the same sample, and a split with the same held_out and seed, one the part train, the "
            "other validation"
        )
    fits = [
        metric
        for metric in METRICS[train.task]
        if metric != "f1" or train.task == "extractive" or len(train.label_names) == 2
    ]
    if task.metric not in fits:
        raise IsotropyError(
            f"config: {path}.metric: expected {' or '.join(fits)}, got {task.metric!r}"
        )
    return train


def _are_apart(train: SentencesSpec, validation: SentencesSpec) -> bool:
    """Whether two sides of one source have no item in common."""
    if train.split is None or validation.split is None or train.sample != validation.sample:
        return False
    other = train.split.model_copy(update={"part": "validation"})
    return train.split.part == "train" and validation.split == other
