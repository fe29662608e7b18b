"""Data sets, sources and settings shared by all papers, the results that a study asks for, and
where these lie.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field

from isotropy.errors import IsotropyError, suggest
from isotropy.files import RESULTS
from isotropy.prepare.spec import CorpusSpec, SentencesSpec, WordsSpec
from isotropy.sources.registry import Source, Tier
from isotropy.spec import Spec, Strict


class Sources(Strict):
    """Where inputs come from."""

    registry: str
    """Folder of the source registry, relative to the project."""
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
    """Jobs that share the extraction of the token vectors of one data set by one model. Does not
    change the result."""

    def for_encoders(self) -> dict[str, Any]:
        """The fields that specs of encoders have."""
        return self.model_dump(exclude={"shards"})


class Result(NamedTuple):
    """One result: the outputs of one job, which share a stem.

    Attributes:
        spec: makes the spec of its job.
        inputs: files that the job reads, by the names that its rule gives them; paths are relative
            to the folder of the run.
    """

    spec: Callable[[], Spec]
    inputs: dict[str, list[str]]


Results = dict[str, Result]
"""Results by stem: their path below `results/` without a suffix."""


class TokenLayers(NamedTuple):
    """Token vectors that a paper reads of a data set.

    Attributes:
        dataset: a name from `datasets`.
        model: a model of the source registry.
        layers: hidden layers; 0 is the embedding layer.
        window: tokens that the model reads at once, for a corpus; None: each text by itself.
    """

    dataset: str
    model: str
    layers: list[int]
    window: int | None


def fetched(name: str) -> str:
    """Folder of a fetched source."""
    return f"{RESULTS}/fetch/{name}"


def prepared(dataset: str, table: str) -> str:
    """A table of a prepared data set: `texts` or `items`."""
    return f"{RESULTS}/prepare/{dataset}.{table}.parquet"


def embedded(dataset: str, embedding: str) -> str:
    """Embeddings of a data set's texts."""
    return f"{RESULTS}/embed/{dataset}/{embedding}.safetensors"


def token_vectors(dataset: str, model: str) -> str:
    """Folder of the token vectors of a data set's texts."""
    return f"{RESULTS}/embed/{dataset}/tokens/{model}"


def shard_stems(dataset: str, model: str, n: int) -> list[str]:
    """The shards of token vectors, below the results and without suffixes; none where one job makes
    them all.
    """
    return [f"embed/{dataset}/shards/{model}/{k}-of-{n}" for k in range(1, n + 1)] if n > 1 else []


def sides(datasets: dict[str, str]) -> dict[str, list[str]]:
    """Texts and items of a task's data sets, by role."""
    return {
        f"{role}_{table}": [prepared(dataset, table)]
        for role, dataset in datasets.items()
        for table in ("texts", "items")
    }


DataSpec = SentencesSpec | WordsSpec | CorpusSpec
NOUN = {
    SentencesSpec: "a data set of sentences",
    WordsSpec: "a data set of words",
    CorpusSpec: "a corpus",
}


@dataclass(frozen=True)
class Context:
    """Data sets, sources and settings of a study.

    Attributes:
        datasets: prepared data sets, by name.
        registry: entries of the source registry, by name.
        sources: where inputs come from.
        compute: how jobs compute.
    """

    datasets: Mapping[str, DataSpec]
    registry: Mapping[str, Source]
    sources: Sources
    compute: Compute

    def require_source(self, path: str, name: str, *kinds: str) -> Source:
        """The source that a field names.

        Args:
            path: the field's path in the configuration.
            name: its value.
            kinds: kinds of sources that fit.

        Raises:
            IsotropyError: no such source, one of another kind, or one that no origin can deliver.
        """
        if name not in self.registry:
            raise IsotropyError(
                f"config: {path}: no source {name!r} in {self.sources.registry}: "
                f"{suggest(name, self.registry, 'by isotropy sources list')}"
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

    def require_dataset(self, path: str, name: str) -> DataSpec:
        """The data set that a field names.

        Raises:
            IsotropyError: there is no such data set.
        """
        if name not in self.datasets:
            raise IsotropyError(
                f"config: {path}: no data set {name!r} in datasets: {suggest(name, self.datasets)}"
            )
        return self.datasets[name]

    def require_sentences(self, path: str, name: str, *tasks: str) -> SentencesSpec:
        """The data set of sentences that a field names.

        Args:
            path: the field's path in the configuration.
            name: its value.
            tasks: tasks that fit; none: all.

        Raises:
            IsotropyError: no such data set, or one of another kind or task.
        """
        found = self.require_dataset(path, name)
        expected = f"sentences with task {' or '.join(tasks)}" if tasks else "sentences"
        if not isinstance(found, SentencesSpec):
            raise IsotropyError(
                f"config: {path}: expected {expected}, got {name!r}, {NOUN[type(found)]}"
            )
        if tasks and found.task not in tasks:
            raise IsotropyError(
                f"config: {path}: expected {expected}, got {name!r} with task {found.task}"
            )
        return found

    def require_corpus(self, path: str, name: str) -> CorpusSpec:
        """The corpus that a field names.

        Raises:
            IsotropyError: no such data set, or no corpus.
        """
        found = self.require_dataset(path, name)
        if not isinstance(found, CorpusSpec):
            raise IsotropyError(
                f"config: {path}: expected a corpus, got {name!r}, {NOUN[type(found)]}"
            )
        return found

    def require_items(self, path: str, name: str) -> SentencesSpec | WordsSpec:
        """The data set of sentences or words that a field names.

        Raises:
            IsotropyError: no such data set, or a corpus.
        """
        found = self.require_dataset(path, name)
        if isinstance(found, CorpusSpec):
            raise IsotropyError(
                f"config: {path}: expected sentences or words, got {name!r}, a corpus"
            )
        return found

    def require_embedding(self, path: str, name: str, dataset: SentencesSpec | WordsSpec) -> Source:
        """The embedding that a field names: a model for sentences, vectors for words.

        Raises:
            IsotropyError: no such source, or one of another kind.
        """
        kind = "vectors" if isinstance(dataset, WordsSpec) else "model"
        return self.require_source(path, name, kind)


def require_known(path: str, name: str, known: Mapping[str, object], what: str) -> None:
    """Refuse a name that is not among the keys of another field.

    Raises:
        IsotropyError: the field's path, the name, and the nearest that there are.
    """
    if name not in known:
        raise IsotropyError(f"config: {path}: no {what} {name!r}: {suggest(name, known)}")
