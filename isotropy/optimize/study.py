"""What a study of Mickus et al. 2024 chooses, and the trajectories that follow from it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from isotropy.names import Name, Seeds
from isotropy.optimize.spec import Loss, Measure
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
    measure: Measure


class Mickus2024(Strict):
    """Isotropy, Clusters, and Classifiers: direct optimization of embeddings."""

    setups: Annotated[dict[Name, Setup], Field(min_length=1), AfterValidator(_no_double_hyphen)]
    """Setups to run, by name."""
    seeds: Seeds
    """Initializations of the classifier."""
    updates: Annotated[int, Field(ge=2)]
    """Updates of full-batch Adam."""
    learning_rate: Annotated[float, Field(gt=0)]
    """Adam's learning rate; the other hyper-parameters are PyTorch's defaults."""
    measure: Measure
    """How IsoScore and silhouette are taken."""
    glue: Glue | None
    """Appendix A; null: not attempted."""
    sensitivity: Sensitivity | None
    """What changes the results; null: not attempted."""

    def trajectories(self) -> dict[str, Trajectory]:
        """All trajectories by name: section 3, then Appendix A, then the variants."""
        main = {
            name: Trajectory(
                group="section3",
                base=name,
                variant=None,
                setup=setup,
                seeds=self.seeds,
                updates=self.updates,
                learning_rate=self.learning_rate,
                measure=self.measure,
            )
            for name, setup in self.setups.items()
        }
        result = dict(main)
        if self.glue is not None:
            for embedding in self.glue.embeddings:
                for task in self.glue.tasks:
                    result[f"{task}--{embedding}"] = Trajectory(
                        group="glue",
                        base=task,
                        variant=None,
                        setup=Setup(
                            dataset=task, embedding=embedding, loss="cross_entropy", bias=True
                        ),
                        seeds=self.glue.seeds,
                        updates=self.glue.updates,
                        learning_rate=self.learning_rate,
                        measure=self.measure.model_copy(
                            update={"sample_size": self.glue.sample_size}
                        ),
                    )
        if self.sensitivity is not None:
            for name in self.sensitivity.setups:
                result |= _variants(name, main[name], self.sensitivity)
        return result


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
