"""The settings of a study of Mickus et al. 2024, and the trajectories that they define."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from isotropy.errors import IsotropyError
from replication.context import (
    Context,
    Result,
    Results,
    embeddings_file,
    prepared_table,
    require_known,
)
from replication.extension import ResolvedExtension
from replication.field_types import DROPPABLE, Name, Seeds, ascending
from replication.optimize.spec import Control, Evaluation, Loss, OptimizeSpec
from replication.papers.registry import Paper, PaperPlan, PaperStudy
from replication.prepare.spec import SentencesSpec, WordsSpec
from replication.spec import Strict

Group = Literal["section3", "glue", "sensitivity", "controls"]


def _refuse_double_hyphen(names: dict[str, Setup]) -> dict[str, Setup]:
    if reserved := [name for name in names if "--" in name]:
        raise ValueError(f"{reserved[0]!r}: two hyphens are reserved for names of variants")
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
    """Mean Euclidean norm to which the initial vectors are scaled; null: they are not scaled."""
    seeds: Seeds | None = None
    """Initializations of the classifier; null: those of the study."""

    def check(self, path: str, context: Context) -> None:
        """Refuse a data set, loss or embedding that does not exist or does not fit."""
        dataset = context.require_items(f"{path}.dataset", self.dataset)
        if isinstance(dataset, SentencesSpec):
            context.require_sentences(f"{path}.dataset", self.dataset, "single-label")
        expected = "binary_cross_entropy" if isinstance(dataset, WordsSpec) else "cross_entropy"
        if self.loss != expected:
            raise IsotropyError(
                f"config: {path}.loss: expected {expected!r} for {self.dataset}, got {self.loss!r}"
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
    """Setups of section 3 with one setting changed at a time: learning rate, bias, sampled
    metrics.
    """

    setups: Annotated[list[str], Field(min_length=1)]
    """Names from `setups`."""
    seeds: Seeds
    """Initializations of the classifier, among those of the study."""
    sample_size: Annotated[int, Field(ge=2)]
    """Items on which the metrics are taken in the sampled variant."""


class Controls(Strict):
    """What the classifier does to labels that say nothing of the vectors: shuffled labels, and
    noise with a growing number of classes.
    """

    setup: str
    """A name from `setups`, with one label per item."""
    n_items: Annotated[int, Field(ge=4)]
    """Items of each control."""
    dimensions: Annotated[int, Field(ge=2)]
    """Dimensions of the noise whose classes grow in number."""
    class_counts: Annotated[
        list[Annotated[int, Field(ge=2)]], Field(min_length=1), AfterValidator(ascending)
    ]
    """Numbers of classes of this noise; `dimensions` + 1 is the largest that can be equally far
    from each other."""
    decay: Annotated[float, Field(gt=0, le=1)]
    """Standard deviation of a dimension of this noise over that of the one before."""
    seeds: Seeds
    """Initializations of the classifier, shuffles and draws of noise."""

    def check(self, setups: dict[str, Setup]) -> None:
        """Refuse a setup that does not exist or has several labels per item."""
        path = "mickus2024.controls.setup"
        require_known(path, self.setup, setups, "setup")
        if setups[self.setup].loss != "cross_entropy":
            raise IsotropyError(f"config: {path}: expected one label per item, got {self.setup}")


class Trajectory(Strict):
    """A run of a setup, or of a variant of it."""

    group: Group
    base: str
    """Name of the setup, or of the task, that is run or varied."""
    variant: str | None
    """The setting that is changed, in words; null: none."""
    setup: Setup
    control: Control | None = None
    seeds: list[int]
    updates: int
    learning_rate: float
    measure: Evaluation


class Mickus2024(PaperStudy):
    """Isotropy, Clusters, and Classifiers: direct optimization of embeddings."""

    setups: Annotated[
        dict[Name, Setup], Field(min_length=1), AfterValidator(_refuse_double_hyphen), DROPPABLE
    ]
    """Setups to run, by name."""
    seeds: Seeds
    """Initializations of the classifier."""
    updates: Annotated[int, Field(ge=2)]
    """Updates of full-batch Adam."""
    learning_rate: Annotated[float, Field(gt=0)]
    """Adam's learning rate; the other hyper-parameters are PyTorch's defaults."""
    measure: Evaluation
    """How IsoScore and silhouette are measured."""
    glue: Glue | None
    """Appendix A; null: not attempted."""
    sensitivity: Sensitivity | None
    """Variants that show what changes the results; null: not attempted."""
    controls: Controls | None
    """Controls, without a relation of labels to vectors; null: not attempted."""

    def check(self, context: Context) -> None:
        """Refuse names that do not exist and choices that do not fit."""
        for name, setup in self.setups.items():
            setup.check(f"mickus2024.setups.{name}", context)
        if self.glue is not None:
            for i, task in enumerate(self.glue.tasks):
                context.require_sentences(f"mickus2024.glue.tasks.{i}", task, "single-label")
            for i, embedding in enumerate(self.glue.embeddings):
                context.require_source(f"mickus2024.glue.embeddings.{i}", embedding, "model")
        if self.controls is not None:
            self.controls.check(self.setups)
        if self.sensitivity is None:
            return
        for i, name in enumerate(self.sensitivity.setups):
            require_known(f"mickus2024.sensitivity.setups.{i}", name, self.setups, "setup")
        for name in self.sensitivity.setups:
            seeds = self.setups[name].seeds or self.seeds
            if unknown := set(self.sensitivity.seeds) - set(seeds):
                raise IsotropyError(
                    f"config: mickus2024.sensitivity.seeds: expected seeds of {name}, got "
                    f"{min(unknown)}, which leaves nothing to compare with"
                )

    def extended(self, extension: ResolvedExtension) -> Mickus2024 | None:
        """The study with a user's models, on its sentences and the user's data with classes;
        vectors on its data sets of words. None: there is nothing to run.
        """
        sentences = {
            name: setup for name, setup in self.setups.items() if setup.loss == "cross_entropy"
        }
        words = {name: setup for name, setup in self.setups.items() if name not in sentences}
        sentences |= {
            dataset: Setup(dataset=dataset, embedding="", loss="cross_entropy", bias=True)
            for dataset in extension.classes
        }
        setups = [
            (f"{name}-{model.name}", setup.model_copy(update={"embedding": model.name}))
            for model in extension.models
            for name, setup in sentences.items()
        ]
        for vectors in extension.vectors:
            for name, setup in words.items():
                is_same = setup.embedding == vectors
                dataset = setup.dataset if is_same else extension.words_name(setup.dataset, vectors)
                update = {"dataset": dataset, "embedding": vectors}
                setups.append((f"{name}-{vectors}", setup.model_copy(update=update)))
        names = [name for name, _ in setups]
        if repeated := [name for name in names if names.count(name) > 1]:
            raise IsotropyError(
                f"config: extension: {repeated[0]!r} would name two set-ups of mickus2024: give a "
                "model or data set another name"
            )
        if not setups:
            return None
        return self.changed(setups=dict(setups), glue=None, sensitivity=None, controls=None)

    def trajectories(self) -> dict[str, Trajectory]:
        """All trajectories by name: section 3, then Appendix A, then the variants."""
        main = {name: self._trajectory(name, setup) for name, setup in self.setups.items()}
        result = main | self._glue()
        for name in self.sensitivity.setups if self.sensitivity is not None else []:
            assert self.sensitivity is not None
            result |= _variants(name, main[name], self.sensitivity)
        if self.controls is not None:
            result |= _controls(main[self.controls.setup], self.controls)
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
    """Variants of a trajectory, each with one setting changed."""
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


def _controls(run: Trajectory, controls: Controls) -> dict[str, Trajectory]:
    """Controls of a trajectory: shuffled labels, noise, and noise with each number of classes."""
    n = controls.n_items
    whole = {"n_items": n, "dimensions": None, "n_classes": None, "decay": 1}
    kinds = {
        "shuffled": ("shuffled labels", Control.model_validate({"kind": "shuffled", **whole})),
        "noise": ("noise for vectors", Control.model_validate({"kind": "noise", **whole})),
    }
    d, decay = controls.dimensions, controls.decay
    for k in controls.class_counts:
        noise = Control(kind="noise", n_items=n, dimensions=d, n_classes=k, decay=decay)
        kinds[f"classes{k}"] = (f"noise, {k} classes in {d} dimensions", noise)
    return {
        f"{run.base}--{name}": run.model_copy(
            update={
                "group": "controls",
                "variant": text,
                "control": control,
                "seeds": controls.seeds,
            }
        )
        for name, (text, control) in kinds.items()
    }


def plan(study: Mickus2024, context: Context) -> PaperPlan:
    """Plan the trajectories of section 3, of Appendix A (GLUE), and of the variants."""
    results: Results = {}
    groups: dict[str, list[str]] = {}
    for name, run in study.trajectories().items():
        setup = run.setup
        inputs = {
            "dataset": [prepared_table(setup.dataset, "items")],
            "embeddings": [embeddings_file(setup.dataset, setup.embedding)],
        }
        for seed in run.seeds:
            stem = f"optimize/mickus2024/{name}/seed{seed}"
            results[stem] = Result(partial(_spec, name, run, seed, context), inputs)
            groups.setdefault(run.group, []).append(stem)
    return PaperPlan(results, groups, sections=frozenset(groups))


def _spec(name: str, run: Trajectory, seed: int, context: Context) -> OptimizeSpec:
    return OptimizeSpec.collect(
        run, run.setup, context.compute, paper="mickus2024", setup=name, seed=seed
    )


BIBTEX = r"""@inproceedings{mickus-etal-2024-isotropy,
  title = {Isotropy, Clusters, and Classifiers},
  author = {Mickus, Timothee and Gr{\"o}nroos, Stig-Arne and Attieh, Joseph},
  booktitle = {Proceedings of the 62nd Annual Meeting of the Association for Computational
    Linguistics (Short Papers)},
  year = {2024},
  pages = {75--84},
  doi = {10.18653/v1/2024.acl-short.7}
}
"""
PAPER = Paper(
    key="mickus2024",
    title="Isotropy, Clusters, and Classifiers",
    reference="Mickus, Grönroos & Attieh (2024), ACL, short papers",
    name="Mickus et al. 2024",
    link="https://doi.org/10.18653/v1/2024.acl-short.7",
    bibtex=BIBTEX,
    says=(
        "Embeddings cannot be isotropic and form clusters at once, and a linear classifier "
        "needs clusters: so training embeddings for classification lowers their isotropy."
    ),
    lead="mickus2024/figure2",
    study=Mickus2024,
    results=plan,
    model_column="model",
)
