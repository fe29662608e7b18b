"""The plan: spec and inputs that a configuration gives each result. Rules hand them to jobs, the
audit compares records.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from isotropy.errors import IsotropyError
from isotropy.files import RESULTS
from replication.claims.read import read_claims
from replication.claims.spec import Claim, ClaimsSpec, ScorecardSpec
from replication.context import Context, Results, TokenLayers, shard_stems
from replication.figures.spec import FigureSpec
from replication.papers.locations import figure_file, package, table_file
from replication.papers.protocol import deviations
from replication.papers.registry import KEYS, Paper, PaperPlan, paper
from replication.plan import inputs
from replication.plan.config import Study
from replication.plan.pages import INDEX, pages, site_inputs, site_spec
from replication.prepare.spec import CorpusSpec, SentencesSpec, WordsSpec
from replication.sources import formats
from replication.spec import PaperSpec, Spec, canonical_json
from replication.tables.spec import TableSpec


@dataclass(frozen=True)
class Plan:
    """What a study makes.

    Attributes:
        study: the validated configuration and its registry.
        project: the checkout, to which paths in the configuration are relative.
        folder: the folder of the run, to which paths in specs are relative.
    """

    study: Study
    project: Path
    folder: Path

    @cached_property
    def context(self) -> Context:
        """Data sets, sources and settings shared by all papers."""
        return self.study.context

    @cached_property
    def attempted(self) -> dict[str, tuple[Paper, PaperPlan]]:
        """The papers that the study attempts, and what it makes of each."""
        return {
            key: (paper(key), paper(key).results(section, self.context))
            for key, section in self.study.chosen().items()
        }

    @cached_property
    def of_papers(self) -> Results:
        """What stages make for the papers: trainings and measurements."""
        return {
            stem: result
            for _, plan in self.attempted.values()
            for stem, result in plan.results.items()
        }

    @cached_property
    def kept(self) -> frozenset[str]:
        """Stems of the fine-tuned models that are kept."""
        plans = [plan for _, plan in self.attempted.values()]
        return frozenset(stem for plan in plans for stem in plan.groups.get("kept", []))

    @cached_property
    def tokens(self) -> dict[tuple[str, str], TokenLayers]:
        """Token vectors that papers read, by data set and model, the layers of all together.

        Raises:
            IsotropyError: two papers read a data set in different windows.
        """
        merged: dict[tuple[str, str], TokenLayers] = {}
        for _, plan in self.attempted.values():
            for tokens in plan.tokens:
                key = (tokens.dataset, tokens.model)
                known = merged.setdefault(key, tokens)
                if known.window != tokens.window:
                    raise IsotropyError(
                        f"config: {tokens.dataset} with {tokens.model}: expected the same window "
                        f"in all papers, got {known.window} and {tokens.window}"
                    )
                layers = sorted({*known.layers, *tokens.layers})
                merged[key] = known._replace(layers=layers)
        return merged

    @cached_property
    def tables(self) -> dict[str, TableSpec]:
        """All tables of the study, by id."""
        return {
            entry.id: entry
            for paper, made in self.attempted.values()
            for entry in paper.tables
            if _includes(made, entry)
        }

    @cached_property
    def figures(self) -> dict[str, FigureSpec]:
        """All figures of the study, by id."""
        return {
            entry.id: entry
            for paper, made in self.attempted.values()
            for entry in paper.figures
            if _includes(made, entry)
        }

    @cached_property
    def _batches(self) -> dict[str, list[str]]:
        """Results that one job makes together, by their folder below the results: stems of the
        tables of a paper, of the figures of a paper, of the pages.
        """
        grouped: dict[str, list[str]] = {}
        for kind, ids in {"tables": list(self.tables), "figures": list(self.figures)}.items():
            for name in ids:
                grouped.setdefault(f"{kind}/{name.split('/')[0]}", []).append(f"{kind}/{name}")
        return grouped | {"site": [*(f"site/{page}" for page in pages()), INDEX]}

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
            spec: Spec | None = self.of_papers[stem].spec()
        else:
            spec = inputs.spec(self, path) or self._spec_of_outcome(path)
        if spec is None:
            raise LookupError(f"no result {stem}")
        if isinstance(spec, PaperSpec):
            spec = spec.model_copy(update={"deviations": deviations(spec)})
        return spec

    def _spec_of_outcome(self, path: list[str]) -> Spec | None:
        """The spec of a table, a figure, the verdicts, the scorecard or a page."""
        match path:
            case ["tables", key, table]:
                entry = self.tables[f"{key}/{table}"]
                if entry.published is None:
                    return entry
                return entry.model_copy(update={"published": paper(key).published()})
            case ["figures", key, figure]:
                return self.figures[f"{key}/{figure}"]
            case ["claims"]:
                return ClaimsSpec(**self._judged())
            case ["scorecard"]:
                columns = {key: paper.model_column for key, (paper, _) in self.attempted.items()}
                return ScorecardSpec(**self._judged(), model_columns=columns)
        return site_spec(self, path)

    def _judged(self) -> dict[str, Any]:
        """What verdicts are made from: claims of all papers, tables of the study."""
        return {
            "study": self.study.config.study,
            "claims": [claim for key in KEYS for claim in _claims(key)],
            "attempted": list(self.tables),
        }

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
        files = inputs.inputs(self, path)
        files = self._inputs_of_outcome(path) if files is None else files
        if files is None:
            raise LookupError(f"no result {stem}")
        return files

    def _inputs_of_outcome(self, path: list[str]) -> dict[str, list[str]] | None:
        """Inputs of a table, a figure, the verdicts, the scorecard or a page."""
        match path:
            case ["tables", key, table]:
                return _table_inputs(self.attempted[key][1], self.tables[f"{key}/{table}"])
            case ["figures", key, figure]:
                return {"tables": list(map(table_file, self.figures[f"{key}/{figure}"].tables))}
            case ["claims"] | ["scorecard"]:
                return {"tables": self.table_files()}
        return site_inputs(self, path)

    def modules(self, stem: str) -> list[str]:
        """Modules that the script of a result, or of the results in a folder, loads by name: the
        readers of its sources, the writer of a kept model, the module of a paper's tables or
        figures, or those of the pages.
        """
        kind, *rest = stem.split("/")
        if kind in ("tables", "figures"):
            return [f"{package(rest[0])}.{kind}"]
        if kind == "site":
            kinds = {self.spec(page).kind for page in self.batch(kind)}  # type: ignore[attr-defined]
            pages_of = [f"replication.report.{name}" for name in kinds]
            return sorted([*pages_of, *(f"{package(key)}.figures" for key in KEYS)])
        if kind == "finetune":
            return ["replication.finetune.kept_model"] if stem in self.kept else []
        sources = self.study.registry.sources
        read = [sources[name] for name in _sources_read(self.spec(stem)) if name]
        return sorted({module for source in read for module in formats.modules(source)})

    def stems(self, wanted: str = "index") -> list[str]:
        """All that a result is made from, itself included: inputs before what reads them."""
        stems: dict[str, None] = {}
        waiting = [(wanted, False)]
        while waiting:
            stem, ready = waiting.pop()
            if ready:
                stems[stem] = None
            elif stem not in stems:
                waiting.append((stem, True))
                waiting += [(needed, False) for needed in self._needed(stem)]
        return list(stems)

    def _needed(self, stem: str) -> Iterator[str]:
        """Results that a result reads, shards of token vectors included."""
        match stem.split("/"):
            case ["embed", dataset, "tokens", model]:
                yield from shard_stems(dataset, model, self.study.config.compute.shards)
        yield from {stem_of_file(p): None for paths in self.inputs(stem).values() for p in paths}

    def batch(self, folder: str) -> list[str]:
        """The results that one job makes together, in an order in which each can be made: those of
        a paper below `tables` or `figures`, or the pages (`site`).

        Args:
            folder: `tables/<paper>`, `figures/<paper>` or `site`.
        """
        stems = self._batches.get(folder, [])
        ordered: dict[str, None] = {}
        for stem in stems:
            for needed in self.stems_within(stem, set(stems)):
                ordered[needed] = None
        return list(ordered)

    def batches(self) -> list[str]:
        """Folders below results whose results one job makes together."""
        return list(self._batches)

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
        return canonical_json([self._described(stem) for stem in self.batch(folder)])

    def _described(self, stem: str) -> dict[str, Any]:
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
        return sorted(path for path in files if stem_of_file(path) not in set(stems))

    def papers_with(self, kind: str) -> list[str]:
        """List the papers with results of a kind (tables or figures); includes `claims`, which
        covers all papers.
        """
        return [f.split("/")[1] for f in self._batches if f.startswith(f"{kind}/")]

    def files(self, folder: str, suffix: str) -> list[str]:
        """List the files with a suffix that one job makes in a folder of the results."""
        return [f"{RESULTS}/{stem}{suffix}" for stem in self.batch(folder)]

    def text_files(self, folder: str) -> dict[str, list[str]]:
        """Return the notes on the figures in a folder, and the scripts with the values of those
        that readers can explore, by the names of these outputs.
        """
        explored = [stem for stem in self.batch(folder) if self.figures[stem[8:]].explore]
        values = [f"{RESULTS}/{stem}.js" for stem in explored]
        return {"note": self.files(folder, ".txt"), "values": values}

    def page_files(self, kind: str, suffix: str) -> list[str]:
        """List the files with a suffix of the pages of a kind."""
        stems = [s for s in self.batch("site") if getattr(self.spec(s), "kind", "") == kind]
        return [f"{RESULTS}/{stem}{suffix}" for stem in stems]

    def table_files(self) -> list[str]:
        """Parquet files of all tables."""
        return [table_file(name) for name in self.tables]

    def figure_files(self) -> list[str]:
        """One file of each figure."""
        return [figure_file(name) for name in self.figures]


@cache
def _claims(key: str) -> list[Claim]:
    """Claims of a paper, read once: the verdicts and the scorecard both hold them."""
    return read_claims(paper(key))


def _includes(made: PaperPlan, entry: TableSpec | FigureSpec) -> bool:
    """Whether the study has what a table or figure shows: it may leave out sections of a paper."""
    return entry.needs is None or entry.needs in made.sections


def _table_inputs(made: PaperPlan, entry: TableSpec) -> dict[str, list[str]]:
    """Tables, and runs: in the configured order, then seeds."""
    files = {"tables": [table_file(name) for name in entry.tables]}
    if entry.runs is not None:
        stems = [f"{RESULTS}/{stem}" for stem in made.groups.get(entry.runs, [])]
        suffix = f".{entry.run_table}.parquet" if entry.run_table else ".parquet"
        files["runs"] = [f"{stem}.json" for stem in stems]
        files["rows"] = [f"{stem}{suffix}" for stem in stems]
    return files


def _sources_read(spec: Spec) -> list[str]:
    """Ids of the sources whose files the job of a spec reads by itself."""
    if isinstance(spec, SentencesSpec | CorpusSpec):
        return [spec.source]
    if isinstance(spec, WordsSpec):
        return [name for name in (spec.lexicon, spec.vectors, spec.word_list) if name]
    vectors = getattr(spec, "vectors", None) or getattr(spec, "id", None) or []
    return [vectors] if isinstance(vectors, str) else vectors


def stem_of_file(path: str) -> str:
    """The result that a file belongs to."""
    folder, _, name = path.removeprefix(f"{RESULTS}/").rpartition("/")
    return f"{folder}/{name.split('.')[0]}".lstrip("/")
