"""The plan: spec and inputs that a configuration gives each result. Rules hand them to jobs, the
audit compares records.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from isotropy.files import RESULTS
from replication.context import shard_stems
from replication.papers.choices import deviations
from replication.plan import inputs, outcomes
from replication.plan.parts import Parts
from replication.spec import PaperSpec, Spec, canonical_json


class Plan(Parts):
    """What a study makes."""

    def spec(self, stem: str) -> Spec:
        """The spec of a result.

        Args:
            stem: path of the result below `results/`, without a suffix, such as
                `embed/polarity/all-MiniLM-L6-v2`.

        Raises:
            LookupError: the study has no such result.
        """
        path = stem.split("/")
        if stem in self.of_papers:
            found: Spec | None = self.of_papers[stem].spec()
        else:
            found = inputs.spec(self, path) or outcomes.spec(self, path)
        if found is None:
            raise LookupError(f"no result {stem}")
        if isinstance(found, PaperSpec):
            found = found.model_copy(update={"deviations": deviations(found)})
        return found

    def inputs(self, stem: str) -> dict[str, list[str]]:
        """The inputs of a result, by the names that its rule gives them.

        Returns:
            Name -> paths relative to the folder of the run.

        Raises:
            LookupError: the study has no such result.
        """
        if stem in self.of_papers:
            return self.of_papers[stem].inputs
        path = stem.split("/")
        found = inputs.inputs(self, path)
        found = outcomes.inputs(self, path) if found is None else found
        if found is None:
            raise LookupError(f"no result {stem}")
        return found

    def stems(self, wanted: str = "index") -> list[str]:
        """All that a result is made from, itself included: inputs before what reads them."""
        found: dict[str, None] = {}
        waiting = [(wanted, False)]
        while waiting:
            stem, ready = waiting.pop()
            if ready:
                found[stem] = None
            elif stem not in found:
                waiting.append((stem, True))
                waiting += [(one, False) for one in self._needed(stem)]
        return list(found)

    def _needed(self, stem: str) -> Iterator[str]:
        """Results that a result reads, shards of token vectors included."""
        match stem.split("/"):
            case ["embed", dataset, "tokens", model]:
                yield from shard_stems(dataset, model, self.study.config.compute.shards)
        yield from {_stem(p): None for paths in self.inputs(stem).values() for p in paths}

    def batch(self, folder: str) -> list[str]:
        """The results that one job makes together, in an order in which each can be made: those of
        a paper below `tables` or `figures`, or the pages (`site`).

        Args:
            folder: `tables/<paper>`, `figures/<paper>` or `site`.
        """
        stems = outcomes.batches(self).get(folder, [])
        ordered: dict[str, None] = {}
        for stem in stems:
            for needed in self.stems_within(stem, set(stems)):
                ordered[needed] = None
        return list(ordered)

    def batches(self) -> list[str]:
        """Folders below results whose results one job makes together."""
        return list(outcomes.batches(self))

    def stems_within(self, stem: str, batch: set[str]) -> Iterator[str]:
        """Results of a batch that a result of it is made from, and the result itself."""
        for needed in self._needed(stem):
            if needed in batch:
                yield from self.stems_within(needed, batch)
        yield stem

    def batch_spec(self, folder: str) -> str:
        """The parameter `spec` of a job that makes several results: stem, spec and named inputs of
        each, as canonical JSON (`replication.job.jobs`).
        """
        return canonical_json([self._part(stem) for stem in self.batch(folder)])

    def _part(self, stem: str) -> dict[str, Any]:
        """One result of a job that makes several: its stem, spec and inputs."""
        return {
            "stem": stem,
            "spec": self.spec(stem).model_dump(mode="json"),
            "inputs": self.inputs(stem),
        }

    def batch_inputs(self, folder: str) -> list[str]:
        """Files that a job of several results reads, without those that it makes itself."""
        stems = self.batch(folder)
        files = {path for stem in stems for paths in self.inputs(stem).values() for path in paths}
        return sorted(path for path in files if _stem(path) not in set(stems))

    def table_files(self) -> list[str]:
        """Parquet files of all tables."""
        return outcomes.table_files(self)

    def figure_files(self) -> list[str]:
        """One file of each figure."""
        return outcomes.figure_files(self)


def _stem(path: str) -> str:
    """The result that a file belongs to."""
    folder, _, name = path.removeprefix(f"{RESULTS}/").rpartition("/")
    return f"{folder}/{name.split('.')[0]}".lstrip("/")
