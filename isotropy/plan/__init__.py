"""The plan: spec and inputs that a configuration gives each result. Rules hand them to jobs, the
audit compares records.
"""

from __future__ import annotations

from collections.abc import Iterator

from isotropy.files import RESULTS
from isotropy.paths import shard_stems
from isotropy.plan import data, report
from isotropy.plan.parts import Parts
from isotropy.spec import Spec


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
            found = data.spec(self, path) or report.spec(self, path)
        if found is None:
            raise LookupError(f"no result {stem}")
        if self.study.config.rehearsal and "rehearsal" in type(found).model_fields:
            return found.model_copy(update={"rehearsal": True})
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
        found = data.inputs(self, path)
        found = report.inputs(self, path) if found is None else found
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

    def table_files(self) -> list[str]:
        """Parquet files of all tables."""
        return report.table_files(self)

    def figure_files(self) -> list[str]:
        """One file of each figure."""
        return report.figure_files(self)


def _stem(path: str) -> str:
    """The result that a file belongs to."""
    folder, _, name = path.removeprefix(f"{RESULTS}/").rpartition("/")
    return f"{folder}/{name.split('.')[0]}".lstrip("/")
