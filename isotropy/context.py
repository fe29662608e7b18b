"""What surrounds a paper's part of a study: data sets, sources, settings, and checks of names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from isotropy.errors import IsotropyError, suggest
from isotropy.prepare.spec import CorpusSpec, SentencesSpec, WordsSpec
from isotropy.settings import Compute, Sources
from isotropy.sources.registry import Source

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
        if not source.usable(self.sources.order, mirror=self.sources.mirror is not None):
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
