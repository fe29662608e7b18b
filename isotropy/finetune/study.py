"""What a study of Rudman & Eickhoff 2024 chooses, and the runs that follow from it."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from isotropy.finetune.spec import Measure, Method, Metric, Training
from isotropy.geometry.spec import Stability
from isotropy.names import Name, Seeds, distinct
from isotropy.spec import Strict


def _strengths(values: list[float]) -> list[float]:
    """Distinct to six digits, which is what paths have of them, and not 0."""
    distinct([f"{value:g}" for value in values])
    if 0 in values:
        raise ValueError("0 is no penalty, which is always there")
    return values


class Task(Strict):
    """A task, and in what it departs from `training`."""

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

    def trained(self, common: Training) -> Training:
        """How the models of this task are trained."""
        own = self.model_dump(exclude={"train", "validation", "metric"}, exclude_none=True)
        return common.model_copy(update=own)


class Rudman2024(Strict):
    """Stable Anisotropic Regularization: fine-tuning with I-STAR and CosReg."""

    tasks: Annotated[dict[Name, Task], Field(min_length=1)]
    """Tasks that there are, by name."""
    attempt: Annotated[list[str], Field(min_length=1), AfterValidator(distinct)]
    """Tasks to run."""
    models: Annotated[list[str], Field(min_length=1), AfterValidator(distinct)]
    """Models of the source registry."""
    strengths: Annotated[list[float], Field(min_length=1), AfterValidator(_strengths)]
    """lambda of I-STAR, not 0: that is `none`, which is always there."""
    zetas: Annotated[
        list[Annotated[float, Field(ge=0, le=1)]], Field(min_length=1), AfterValidator(distinct)
    ]
    """Shares of the shrinkage covariance in I-STAR."""
    cosreg: float | None
    """lambda of CosReg; null: not attempted."""
    seeds: Seeds
    """Of initialization, order and dropout."""
    training: Training
    """How models are trained; a task may differ."""
    measure: Measure
    """How their geometry is measured."""
    stability: Stability
    """Figure 4."""

    def runs(self) -> dict[str, Run]:
        """All runs, by name: every task with every model and method."""
        methods = [Method(kind="none")]
        methods += [] if self.cosreg is None else [Method(kind="cosreg", strength=self.cosreg)]
        methods += [
            Method(kind="istar", strength=s, zeta=z) for z in self.zetas for s in self.strengths
        ]
        return {
            f"{task}--{model}--{method.name}": Run(task=task, model=model, method=method)
            for task in self.attempt
            for model in self.models
            for method in methods
        }

    def shown(self) -> dict[str, Run]:
        """Runs whose points and activations are drawn: none, CosReg, the smallest and largest
        lambda at the first zeta.
        """
        ends, zeta = (min(self.strengths), max(self.strengths)), self.zetas[0]
        return {
            name: run
            for name, run in self.runs().items()
            if run.method.kind != "istar"
            or (run.method.strength in ends and run.method.zeta == zeta)
        }


class Run(Strict):
    """One task with one model and method, fine-tuned once per seed."""

    task: str
    model: str
    method: Method
