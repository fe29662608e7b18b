"""The plan: the spec that a configuration gives each result. Rules hand it to jobs, the audit compares records with it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from isotropy.claims.spec import ClaimsSpec, read_claims
from isotropy.config import Study
from isotropy.embed.spec import EmbedSpec, LookUpSpec
from isotropy.figures.catalogue import FIGURES, FigureSpec
from isotropy.optimize.spec import OptimizeSpec
from isotropy.optimize.study import Trajectory
from isotropy.report.spec import PAPERS, PageSpec
from isotropy.sources.fetch import FetchSpec
from isotropy.spec import Spec
from isotropy.tables.catalogue import TABLES, VERDICTS, TableSpec, read_published


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
    def trajectories(self) -> dict[str, Trajectory]:
        """All trajectories of mickus2024, by name."""
        return self.study.config.mickus2024.trajectories()

    def spec(self, stem: str) -> Spec:
        """The spec of a result.

        Args:
            stem: path of the result below `results/`, without a suffix, such as `embed/polarity/all-MiniLM-L6-v2`.

        Raises:
            LookupError: the study has no such result.
        """
        match stem.split("/"):
            case ["fetch", source]:
                return self._fetch(source)
            case ["prepare", dataset]:
                return self.study.config.datasets[dataset]
            case ["embed", dataset, embedding]:
                return self._embed(dataset, embedding)
            case ["optimize", "mickus2024", setup, seed]:
                return self._optimize(setup, int(seed.removeprefix("seed")))
            case ["tables", paper, table]:
                return self._table(f"{paper}/{table}")
            case ["figures", paper, figure]:
                return FIGURES[f"{paper}/{figure}"]
            case ["claims"]:
                return self._claims()
            case ["index"]:
                return self._page()
        raise LookupError(f"no result {stem}")

    def attempted(self, entry: TableSpec | FigureSpec) -> bool:
        """Whether the study has what a table or figure shows: parts of a paper may be left out of the configuration."""
        return entry.needs is None or entry.needs in {run.group for run in self.trajectories.values()}

    def _fetch(self, name: str) -> FetchSpec:
        """Mirror and trust are named only where they can make a difference."""
        source, sources = self.study.registry.sources[name], self.study.config.sources
        usable = source.usable(sources.order, mirror=sources.mirror is not None)
        mirror = sources.mirror if any(o.type == "mirror" for o in usable) else None
        return FetchSpec(
            id=name,
            source=source,
            order=sources.order,
            mirror=None if mirror is None else os.path.relpath(self.project / mirror, self.folder),
            trust_on_first_use=sources.trust_on_first_use and any(not source.pins(origin) for origin in source.origins),
        )

    def _embed(self, dataset: str, embedding: str) -> EmbedSpec | LookUpSpec:
        source = self.study.registry.sources[embedding]
        if source.kind == "vectors":
            return LookUpSpec(dataset=dataset, vectors=embedding)
        if source.encoder is None:
            raise LookupError(f"{embedding} is a {source.kind}: it makes no embeddings")
        compute = self.study.config.compute.model_dump()
        return EmbedSpec(dataset=dataset, model=embedding, encoder=source.encoder, **compute)

    def _optimize(self, name: str, seed: int) -> OptimizeSpec:
        run = self.trajectories[name]
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
            device=self.study.config.compute.device,
            **run.setup.model_dump(),
        )

    def _table(self, name: str) -> TableSpec:
        """With the numbers that its paper prints, if it shows them."""
        entry = TABLES[name]
        if entry.published is None:
            return entry
        published = read_published(self.project / "published" / f"{name.split('/')[0]}.csv")
        return entry.model_copy(update={"published": published})

    def _claims(self) -> ClaimsSpec:
        """Every claim of the papers, with the published numbers that they refer to."""
        return ClaimsSpec(
            study=self.study.config.study,
            claims=read_claims(self.project / "published"),
            attempted=[name for name, entry in TABLES.items() if self.attempted(entry)],
        )

    def _page(self) -> PageSpec:
        return PageSpec(
            study=self.study.config.study,
            papers=PAPERS,
            figures=[entry for entry in FIGURES.values() if self.attempted(entry)],
            tables=[VERDICTS, *(entry for entry in TABLES.values() if self.attempted(entry))],
        )
