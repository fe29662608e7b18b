"""What a study of Mickus et al. 2024 chooses, and the trajectories that follow."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from isotropy.context import Context, Result, Results, embedded, prepared, require_known
from isotropy.errors import IsotropyError
from isotropy.extension import Own
from isotropy.field_types import DROPPABLE, Name, Seeds
from isotropy.optimize.spec import Evaluation, Loss, OptimizeSpec
from isotropy.papers.registry import Paper, PaperPlan, PaperStudy
from isotropy.prepare.spec import SentencesSpec, WordsSpec
from isotropy.spec import Strict

Group = Literal["section3", "glue", "sensitivity"]


def _no_double_hyphen(names: dict[str, Setup]) -> dict[str, Setup]:
    if found := [name for name in names if "--" in name]:
        raise ValueError(f"{found[0]!r}: two hyphens stand before the name of a variant")
    return names


class Setup(Strict):
    """One setup of section 3.1."""

    dataset: str
    """A name from `datasets`."""
    embedding: str
    """A model (sentences) or vectors (words) from the source registry."""
    loss: Loss
    """Cross-entropy for one label per item, binary cross-entropy per label for several."""
    bias: bool
    """Whether the linear classifier has a bias."""
    mean_norm: Annotated[float, Field(gt=0)] | None = None
    """Scale the starting vectors by one factor to this mean Euclidean norm; null: as they come."""
    seeds: Seeds | None = None
    """Initializations of the classifier; null: those of the study."""

    def check(self, path: str, context: Context) -> None:
        """Refuse a data set, loss or embedding that does not exist or does not fit."""
        dataset = context.require_items(f"{path}.dataset", self.dataset)
        if isinstance(dataset, SentencesSpec):
            context.require_sentences(f"{path}.dataset", self.dataset, "single-label")
        fitting = "binary_cross_entropy" if isinstance(dataset, WordsSpec) else "cross_entropy"
        if self.loss != fitting:
            raise IsotropyError(
                f"config: {path}.loss: expected {fitting!r} for {self.dataset}, got {self.loss!r}"
            )
        context.require_embedding(f"{path}.embedding", self.embedding, dataset)
        if isinstance(dataset, WordsSpec) and self.embedding != dataset.vectors:
            raise IsotropyError(
                f"config: {path}.embedding: expected {dataset.vectors!r}, from which "
                f"datasets.{self.dataset}.vectors chose its words, got {self.embedding!r}"
            )


class Glue(Strict):
    """Appendix A: each task with each encoder."""

    tasks: Annotated[list[str], Field(min_length=1)]
    """Names from `datasets`."""
    embeddings: Annotated[list[str], Field(min_length=1)]
    """Models of the source registry."""
    seeds: Seeds
    """Initializations of the classifier."""
    updates: Annotated[int, Field(ge=2)]
    """Updates of full-batch Adam."""
    sample_size: Annotated[int, Field(ge=2)] | None
    """Items on which the metrics are taken, drawn afresh after every update, where a task has more;
    null: all items."""


class Sensitivity(Strict):
    """Setups of section 3 again, with one thing changed at a time: learning rate, bias, sampled
    metrics.
    """

    setups: Annotated[list[str], Field(min_length=1)]
    """Names from `setups`."""
    seeds: Seeds
    """Initializations of the classifier, among those of the study."""
    sample_size: Annotated[int, Field(ge=2)]
    """Items on which the metrics are taken in the sampled variant."""


class Trajectory(Strict):
    """One setup as it is run, under a name of its own."""

    group: Group
    base: str
    """The setup, or the task, that it is or is a variant of."""
    variant: str | None
    """What is changed; null: nothing."""
    setup: Setup
    seeds: list[int]
    updates: int
    learning_rate: float
    measure: Evaluation


class Mickus2024(PaperStudy):
    """Isotropy, Clusters, and Classifiers: direct optimization of embeddings."""

    setups: Annotated[
        dict[Name, Setup], Field(min_length=1), AfterValidator(_no_double_hyphen), DROPPABLE
    ]
    """Setups to run, by name."""
    seeds: Seeds
    """Initializations of the classifier."""
    updates: Annotated[int, Field(ge=2)]
    """Updates of full-batch Adam."""
    learning_rate: Annotated[float, Field(gt=0)]
    """Adam's learning rate; the other hyper-parameters are PyTorch's defaults."""
    measure: Evaluation
    """How IsoScore and silhouette are taken."""
    glue: Glue | None
    """Appendix A; null: not attempted."""
    sensitivity: Sensitivity | None
    """What changes the results; null: not attempted."""

    def check(self, context: Context) -> None:
        """Refuse names that do not exist and choices that do not fit."""
        for name, setup in self.setups.items():
            setup.check(f"mickus2024.setups.{name}", context)
        if self.glue is not None:
            for i, task in enumerate(self.glue.tasks):
                context.require_sentences(f"mickus2024.glue.tasks.{i}", task, "single-label")
            for i, embedding in enumerate(self.glue.embeddings):
                context.require_source(f"mickus2024.glue.embeddings.{i}", embedding, "model")
        if self.sensitivity is None:
            return
        for i, name in enumerate(self.sensitivity.setups):
            require_known(f"mickus2024.sensitivity.setups.{i}", name, self.setups, "setup")
        for name in self.sensitivity.setups:
            own = self.setups[name].seeds or self.seeds
            if unknown := set(self.sensitivity.seeds) - set(own):
                raise IsotropyError(
                    f"config: mickus2024.sensitivity.seeds: expected seeds of {name}, got "
                    f"{min(unknown)}, which leaves nothing to compare with"
                )

    def extended(self, own: Own) -> Mickus2024 | None:
        """Models on polarity and on other data with classes; vectors on the data sets of words."""
        sentences = {name: one for name, one in self.setups.items() if one.loss == "cross_entropy"}
        words = {name: one for name, one in self.setups.items() if name not in sentences}
        sentences |= {
            dataset: Setup(dataset=dataset, embedding="", loss="cross_entropy", bias=True)
            for dataset in own.classes
        }
        found = [
            (f"{name}-{model.name}", one.model_copy(update={"embedding": model.name}))
            for model in own.models
            for name, one in sentences.items()
        ]
        for vectors in own.vectors:
            for name, one in words.items():
                same = one.embedding == vectors
                dataset = one.dataset if same else own.words(one.dataset, vectors)
                update = {"dataset": dataset, "embedding": vectors}
                found.append((f"{name}-{vectors}", one.model_copy(update=update)))
        names = [name for name, _ in found]
        if repeated := [name for name in names if names.count(name) > 1]:
            raise IsotropyError(
                f"config: extension: {repeated[0]!r} would name two set-ups of mickus2024: give a "
                "model or data set another name"
            )
        if not found:
            return None
        return self.changed(setups=dict(found), glue=None, sensitivity=None)

    def trajectories(self) -> dict[str, Trajectory]:
        """All trajectories by name: section 3, then Appendix A, then the variants."""
        main = {name: self._trajectory(name, setup) for name, setup in self.setups.items()}
        result = main | self._glue()
        for name in self.sensitivity.setups if self.sensitivity is not None else []:
            assert self.sensitivity is not None
            result |= _variants(name, main[name], self.sensitivity)
        return result

    def _trajectory(self, name: str, setup: Setup) -> Trajectory:
        return Trajectory(
            group="section3",
            base=name,
            variant=None,
            setup=setup,
            seeds=setup.seeds or self.seeds,
            updates=self.updates,
            learning_rate=self.learning_rate,
            measure=self.measure,
        )

    def _glue(self) -> dict[str, Trajectory]:
        """Appendix A: each encoder with each task."""
        glue = self.glue
        if glue is None:
            return {}
        changes = {
            "group": "glue",
            "seeds": glue.seeds,
            "updates": glue.updates,
            "measure": self.measure.model_copy(update={"sample_size": glue.sample_size}),
        }
        return {
            f"{task}--{embedding}": self._trajectory(
                task, Setup(dataset=task, embedding=embedding, loss="cross_entropy", bias=True)
            ).model_copy(update=changes)
            for embedding in glue.embeddings
            for task in glue.tasks
        }


def _variants(name: str, run: Trajectory, sensitivity: Sensitivity) -> dict[str, Trajectory]:
    """A trajectory with one thing changed at a time."""
    no_bias = run.setup.model_copy(update={"bias": not run.setup.bias})
    sampled = run.measure.model_copy(update={"sample_size": sensitivity.sample_size})
    changes: dict[str, tuple[str, dict[str, object]]] = {
        "slow": ("learning rate × 0.1", {"learning_rate": run.learning_rate / 10}),
        "fast": ("learning rate × 10", {"learning_rate": run.learning_rate * 10}),
        "bias": (f"{'without' if run.setup.bias else 'with'} bias", {"setup": no_bias}),
        "sampled": (
            f"metrics on {sensitivity.sample_size:,} items, drawn at each step",
            {"measure": sampled},
        ),
    }
    common: dict[str, object] = {"group": "sensitivity", "seeds": sensitivity.seeds}
    return {
        f"{name}--{key}": run.model_copy(update={**common, "variant": variant, **change})
        for key, (variant, change) in changes.items()
    }


def plan(study: Mickus2024, context: Context) -> PaperPlan:
    """Trajectories of section 3, of Appendix A (GLUE), and with one thing changed at a time."""
    results: Results = {}
    groups: dict[str, list[str]] = {}
    for name, run in study.trajectories().items():
        setup = run.setup
        inputs = {
            "dataset": [prepared(setup.dataset, "items")],
            "embeddings": [embedded(setup.dataset, setup.embedding)],
        }
        for seed in run.seeds:
            stem = f"optimize/mickus2024/{name}/seed{seed}"
            results[stem] = Result(partial(_spec, name, run, seed, context), inputs)
            groups.setdefault(run.group, []).append(stem)
    return PaperPlan(results, groups, parts=frozenset(groups))


def _spec(name: str, run: Trajectory, seed: int, context: Context) -> OptimizeSpec:
    return OptimizeSpec(
        paper="mickus2024",
        setup=name,
        group=run.group,
        base=run.base,
        variant=run.variant,
        seed=seed,
        updates=run.updates,
        learning_rate=run.learning_rate,
        measure=run.measure,
        device=context.compute.device,
        **run.setup.model_dump(exclude={"seeds"}),
    )


PAPER = Paper(
    key="mickus2024",
    title="Isotropy, Clusters, and Classifiers",
    reference="Mickus, Grönroos & Attieh (2024), ACL, short papers",
    says=(
        "Embeddings cannot be isotropic and form clusters at once, and a linear classifier "
        "needs clusters: so training embeddings for classification lowers their isotropy."
    ),
    lead="mickus2024/figure3",
    study=Mickus2024,
    results=plan,
    model_column="model",
)
