"""The settings of a study of Rudman & Eickhoff 2024, and the runs that they define."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from replication.context import Context, Result, Results, embeddings_file
from replication.extension import ResolvedExtension
from replication.field_types import distinct
from replication.finetune import settings as finetune
from replication.finetune.settings import FinetuneRun, FineTuning, Task, extension_tasks
from replication.finetune.spec import Method
from replication.geometry.spec import Stability, StabilityCloud, StabilitySpec
from replication.papers.registry import Paper, PaperPlan, PaperStudy


def _validate_lambdas(values: list[float]) -> list[float]:
    """Require values that are not 0, and distinct to the six digits that paths have of them."""
    distinct([f"{value:g}" for value in values])
    if 0 in values:
        raise ValueError("lambdas must not contain 0: the model without penalty is always included")
    return values


class Rudman2024(FineTuning, PaperStudy):
    """Stable Anisotropic Regularization: fine-tuning with I-STAR and CosReg."""

    lambdas: Annotated[list[float], Field(min_length=1), AfterValidator(_validate_lambdas)]
    """lambda of I-STAR, not 0: the model without penalty is always included."""
    zetas: Annotated[
        list[Annotated[float, Field(ge=0, le=1)]], Field(min_length=1), AfterValidator(distinct)
    ]
    """Shares of the shrinkage covariance in I-STAR."""
    cosreg: float | None
    """lambda of CosReg; null: not attempted."""
    istar_layers: Literal["all", "last"]
    """Hidden layers that the penalty of I-STAR is applied to."""
    cosreg_layers: Literal["all", "last"]
    """Hidden layers that the penalty of CosReg is applied to."""
    stability: Stability
    """IsoScore* of samples of point clouds (Figure 4)."""

    def check(self, context: Context) -> None:
        """Refuse names that do not exist and choices that do not fit."""
        self.check_tasks("rudman2024", context)
        for name, cloud in self.stability.clouds.items():
            if cloud.dataset is not None and cloud.embedding is not None:
                path = f"rudman2024.stability.clouds.{name}"
                dataset = context.require_items(f"{path}.dataset", cloud.dataset)
                context.require_embedding(f"{path}.embedding", cloud.embedding, dataset)

    def extended(self, extension: ResolvedExtension) -> Rudman2024 | None:
        """The study with a user's encoders, on its own and the user's tasks; None: no encoders."""
        if not extension.encoders:
            return None
        tasks = extension_tasks(extension, Task)
        clouds = {n: c for n, c in self.stability.clouds.items() if c.embedding is None} | {
            f"{name}-{model.name}": cloud.model_copy(update={"embedding": model.name})
            for name, cloud in self.stability.clouds.items()
            for model in extension.encoders
            if cloud.embedding is not None
        }
        return self.changed(
            tasks=self.tasks | tasks,
            run_tasks=[*self.run_tasks, *tasks],
            models=[model.name for model in extension.encoders],
            training=self.training.limit_length(extension.positions),
            stability=self.stability.model_copy(update={"clouds": clouds}),
        )

    def runs(self) -> dict[str, FinetuneRun]:
        """All runs, by name: every task with every model and method."""
        methods = [Method(kind="none")]
        if self.cosreg is not None:
            methods.append(Method(kind="cosreg", strength=self.cosreg, layers=self.cosreg_layers))
        methods += [
            Method(kind="istar", strength=s, zeta=z, layers=self.istar_layers)
            for z in self.zetas
            for s in self.lambdas
        ]
        return self.make_runs(methods)

    def shown(self) -> dict[str, FinetuneRun]:
        """Runs whose points and activations are drawn: no penalty, CosReg, and I-STAR with the
        smallest and the largest lambda at the first zeta.
        """
        ends, zeta = (min(self.lambdas), max(self.lambdas)), self.zetas[0]
        return {
            name: run
            for name, run in self.runs().items()
            if run.method.kind != "istar"
            or (run.method.strength in ends and run.method.zeta == zeta)
        }


KEY = "rudman2024"


def plan(study: Rudman2024, context: Context) -> PaperPlan:
    """Plan the jobs: every task, model, method and seed; and the clouds of Figure 4."""
    runs = study.runs()
    results = finetune.results(KEY, study, runs, context)
    clouds = _cloud_results(study)
    return PaperPlan(
        results | clouds,
        groups={
            "finetune": finetune.stems(KEY, runs, study.seeds),
            "kept": finetune.stems(KEY, study.kept_runs(), study.seeds),
            "shown": finetune.stems(KEY, study.shown(), [min(study.seeds)]),
            "stability": list(clouds),
        },
    )


def _cloud_results(study: Rudman2024) -> Results:
    """Samples of point clouds: drawn from a distribution, or embeddings."""
    results: Results = {}
    for name, cloud in study.stability.clouds.items():
        inputs = {}
        if cloud.dataset is not None and cloud.embedding is not None:
            inputs = {"embeddings": [embeddings_file(cloud.dataset, cloud.embedding)]}
        results[f"geometry/{KEY}/{name}"] = Result(
            partial(_stability_spec, study, name, cloud), inputs
        )
    return results


def _stability_spec(study: Rudman2024, name: str, cloud: StabilityCloud) -> StabilitySpec:
    common = study.stability.model_dump(exclude={"clouds"})
    return StabilitySpec(paper=KEY, name=name, cloud=cloud, **common)


BIBTEX = """@inproceedings{rudman-eickhoff-2024-stable,
  title = {Stable Anisotropic Regularization},
  author = {Rudman, William and Eickhoff, Carsten},
  booktitle = {International Conference on Learning Representations},
  year = {2024},
  url = {https://openreview.net/forum?id=dbQH9AOVd5}
}
"""
PAPER = Paper(
    key="rudman2024",
    title="Stable Anisotropic Regularization",
    reference="Rudman & Eickhoff (2024), ICLR, and its poster",
    name="Rudman & Eickhoff 2024",
    link="https://openreview.net/forum?id=dbQH9AOVd5",
    bibtex=BIBTEX,
    says=(
        "I-STAR, a penalty on IsoScore* that is stable on mini-batches, steers the isotropy "
        "of a model while it is fine-tuned, and models become better when they are made less "
        "isotropic."
    ),
    lead="rudman2024/lambda",
    study=Rudman2024,
    results=plan,
    model_column="model",
)
