"""Data sets, sources and settings shared by all papers, the results that a study asks for, and
their paths.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field

from isotropy.errors import IsotropyError, suggest
from isotropy.files import RESULTS
from replication.prepare.spec import CorpusSpec, SentencesSpec, WordsSpec
from replication.sources.registry import ModelSize, Size, Source, Tier
from replication.spec import Spec, Strict


class Sources(Strict):
    """Configuration of the sources of inputs."""

    registry: str
    """Folder of the source registry, relative to the project."""
    order: Annotated[list[Tier], Field(min_length=1)]
    """Kinds of origins, in the order in which they are tried."""
    mirror: str | None
    """A folder with copies of official files in the layout of their original hosts, relative to the
    project; null: none."""
    trust_on_first_use: bool
    """Whether to accept a download without a sha256 in the registry, and record its digest."""


class Compute(Strict):
    """Configuration of device, precision and batches."""

    device: Literal["auto", "cpu", "cuda"]
    """`auto`: a GPU if the machine on which the workflow starts has one; `cuda`: jobs fail without
    a GPU."""
    dtype: Literal["float32", "bfloat16"]
    """Floating-point type of the encoders. The papers use float32."""
    token_budget: Literal["auto"] | Annotated[int, Field(ge=16)]
    """Maximum number of tokens in a batch of an encoder, padding included, but at least one text.
    `auto`: 2,048 on a CPU, 16,384 on a GPU."""
    jobs_per_gpu: Annotated[int, Field(ge=1)]
    """Number of jobs that compute on one GPU of this machine at a time; on a cluster each job gets
    a GPU of its own."""
    shards: Annotated[int, Field(ge=1)]
    """Number of jobs that split the extraction of the token vectors of a data set with a model.
    Does not change the result."""
    container: Annotated[str, Field(pattern=r"^[\w@:/.+-]+$")] | None = None
    """Image in which jobs run with `--sdm apptainer`, made from the Dockerfile: a file, or an
    address such as `docker://registry/isotropy:tag`. Snakemake puts it into a shell command, so
    that blanks, quotes and the like are refused."""

    def for_encoders(self) -> dict[str, Any]:
        """Return the fields that the specs of encoders have."""
        return self.model_dump(exclude={"shards", "jobs_per_gpu", "container"})


class Result(NamedTuple):
    """One result: the outputs of one job, which share a stem.

    Attributes:
        spec: function that makes the spec of the job.
        inputs: files that the job reads, by input name of the rule; paths are relative to the
            folder of the run.
    """

    spec: Callable[[], Spec]
    inputs: dict[str, list[str]]


Results = dict[str, Result]
"""Results by stem: their path below `results/` without a suffix."""


class TokenLayers(NamedTuple):
    """Token vectors of a data set that a paper needs.

    Attributes:
        dataset: a name from `datasets`.
        model: a model of the source registry.
        layers: hidden layers; 0 is the embedding layer.
        window: number of tokens that the model reads at once, for a corpus; None: each text is
            read by itself.
    """

    dataset: str
    model: str
    layers: list[int]
    window: int | None


def source_folder(name: str) -> str:
    """Return the folder of the files of a source."""
    return f"{RESULTS}/fetch/{name}"


def prepared_table(dataset: str, table: str) -> str:
    """Return the path of a table of a data set (`texts` or `items`), made by the stage prepare."""
    return f"{RESULTS}/prepare/{dataset}.{table}.parquet"


def embeddings_file(dataset: str, embedding: str) -> str:
    """Return the path of the embeddings of a data set's texts."""
    return f"{RESULTS}/embed/{dataset}/{embedding}.safetensors"


def token_vectors_folder(dataset: str, model: str) -> str:
    """Return the folder of the token vectors of a data set's texts."""
    return f"{RESULTS}/embed/{dataset}/tokens/{model}"


def shard_stems(dataset: str, model: str, n: int) -> list[str]:
    """Return the stems of the n shards of token vectors, below the results folder; none if n is 1,
    where one job makes all token vectors.
    """
    return [f"embed/{dataset}/shards/{model}/{k}-of-{n}" for k in range(1, n + 1)] if n > 1 else []


def task_inputs(datasets: dict[str, str]) -> dict[str, list[str]]:
    """Return the inputs of a task: tables of texts and items of its data sets, by role.

    Args:
        datasets: data sets by role, such as train and validation.
    """
    return {
        f"{role}_{table}": [prepared_table(dataset, table)]
        for role, dataset in datasets.items()
        for table in ("texts", "items")
    }


DataSpec = SentencesSpec | WordsSpec | CorpusSpec
KIND_TITLES = {
    SentencesSpec: "a data set of sentences",
    WordsSpec: "a data set of words",
    CorpusSpec: "a corpus",
}


@dataclass(frozen=True)
class Context:
    """Data sets, sources and settings of a study.

    Attributes:
        datasets: specs of the data sets, by name.
        registry: entries of the source registry, by name.
        sizes: sizes of sources as far as the registry states them, by name.
        sources: configuration of the sources of inputs.
        compute: configuration of device, precision and batches.
    """

    datasets: Mapping[str, DataSpec]
    registry: Mapping[str, Source]
    sizes: Mapping[str, Size]
    sources: Sources
    compute: Compute

    def require_source(self, path: str, name: str, *kinds: str) -> Source:
        """Look up the source that a configuration field names.

        Args:
            path: path of the field in the configuration.
            name: value of the field.
            kinds: accepted kinds of sources.

        Raises:
            IsotropyError: there is no such source, it has another kind, or none of its origins is
                enabled.
        """
        if name not in self.registry:
            raise IsotropyError(
                f"config: {path}: no source {name!r} in {self.sources.registry}: "
                f"{suggest(name, self.registry, 'in config/sources')}"
            )
        source = self.registry[name]
        if source.kind not in kinds:
            raise IsotropyError(
                f"config: {path}: expected a source of kind {' or '.join(kinds)}, got {name!r} "
                f"of kind {source.kind}"
            )
        if not source.usable_origins(self.sources.order, mirror=self.sources.mirror is not None):
            origins = ", ".join(sorted({o.type for o in source.origins}))
            raise IsotropyError(
                f"config: sources.order: expected one of {origins} for {name}, got "
                f"{', '.join(self.sources.order)} (mirror counts if sources.mirror is set)"
            )
        return source

    def require_layers(self, path: str, model: str, layers: list[int]) -> None:
        """Require that a model has the layers that a configuration field names, where the registry
        states its size.

        Raises:
            IsotropyError: it does not have one.
        """
        size = self.sizes.get(model)
        if isinstance(size, ModelSize) and (beyond := [n for n in layers if n > size.layers]):
            raise IsotropyError(
                f"config: {path}: expected layers up to {size.layers}, which {model} has, got "
                f"{beyond[0]}"
            )

    def require_window(self, path: str, model: str, window: int) -> None:
        """Require that a model can read so many tokens at once, where the registry states its
        positions.

        Raises:
            IsotropyError: it cannot.
        """
        size = self.sizes.get(model)
        positions = size.positions if isinstance(size, ModelSize) else None
        if positions is not None and window > positions:
            raise IsotropyError(
                f"config: {path}: expected at most {positions}, which {model} reads, got {window}"
            )

    def require_dataset(self, path: str, name: str) -> DataSpec:
        """Look up the data set that a configuration field names.

        Raises:
            IsotropyError: there is no such data set.
        """
        if name not in self.datasets:
            raise IsotropyError(
                f"config: {path}: no data set {name!r} in datasets: {suggest(name, self.datasets)}"
            )
        return self.datasets[name]

    def require_sentences(self, path: str, name: str, *tasks: str) -> SentencesSpec:
        """Look up the data set of sentences that a configuration field names.

        Args:
            path: path of the field in the configuration.
            name: value of the field.
            tasks: accepted tasks; none: all.

        Raises:
            IsotropyError: there is no such data set, or it has another kind or task.
        """
        dataset = self.require_dataset(path, name)
        expected = f"sentences with task {' or '.join(tasks)}" if tasks else "sentences"
        if not isinstance(dataset, SentencesSpec):
            raise IsotropyError(
                f"config: {path}: expected {expected}, got {name!r}, {KIND_TITLES[type(dataset)]}"
            )
        if tasks and dataset.task not in tasks:
            raise IsotropyError(
                f"config: {path}: expected {expected}, got {name!r} with task {dataset.task}"
            )
        return dataset

    def require_corpus(self, path: str, name: str) -> CorpusSpec:
        """Look up the corpus that a configuration field names.

        Raises:
            IsotropyError: there is no such data set, or it is not a corpus.
        """
        dataset = self.require_dataset(path, name)
        if not isinstance(dataset, CorpusSpec):
            raise IsotropyError(
                f"config: {path}: expected a corpus, got {name!r}, {KIND_TITLES[type(dataset)]}"
            )
        return dataset

    def require_items(self, path: str, name: str) -> SentencesSpec | WordsSpec:
        """Look up the data set of sentences or words that a configuration field names.

        Raises:
            IsotropyError: there is no such data set, or it is a corpus.
        """
        dataset = self.require_dataset(path, name)
        if isinstance(dataset, CorpusSpec):
            raise IsotropyError(
                f"config: {path}: expected sentences or words, got {name!r}, a corpus"
            )
        return dataset

    def require_embedding(self, path: str, name: str, dataset: SentencesSpec | WordsSpec) -> Source:
        """Look up the embedding that a configuration field names: a model for sentences, vectors
        for words.

        Raises:
            IsotropyError: there is no such source, or it has another kind.
        """
        kind = "vectors" if isinstance(dataset, WordsSpec) else "model"
        return self.require_source(path, name, kind)


def require_known(path: str, name: str, known: Mapping[str, object], what: str) -> None:
    """Require that a name in the configuration is one of the known names.

    Args:
        path: path of the field in the configuration.
        name: value of the field.
        known: mapping whose keys are the known names.
        what: noun for the message, such as "task".

    Raises:
        IsotropyError: the name is unknown; the message suggests the most similar known name.
    """
    if name not in known:
        raise IsotropyError(f"config: {path}: no {what} {name!r}: {suggest(name, known)}")
