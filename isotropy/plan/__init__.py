"""The plan: spec and inputs that a configuration gives each result. Rules hand them to jobs, the
audit compares records.

One module per group of stages; `paths` says where results lie that others are made from.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from isotropy.config import Study
from isotropy.figures.catalogue import FIGURES, FigureSpec
from isotropy.files import RESULTS
from isotropy.finetune.spec import Training
from isotropy.finetune.study import Rudman2024
from isotropy.finetune.study import Run as FinetuneRun
from isotropy.geometry.study import Cai2021
from isotropy.optimize.study import Trajectory
from isotropy.plan import data, geometry, report, similarity, training
from isotropy.plan.paths import shard_stems, table_file
from isotropy.similarity.study import FineTuning, Measurement, Rajaee2021
from isotropy.spec import Spec
from isotropy.tables.catalogue import TABLES, TableSpec

STAGES = {
    **dict.fromkeys(("fetch", "prepare", "embed"), data),
    **dict.fromkeys(("optimize", "finetune"), training),
    "geometry": geometry,
    "similarity": similarity,
    **dict.fromkeys(("tables", "figures", "claims", "index"), report),
}
"""The module that knows the results of a stage, by the first part of their path."""


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

    @property
    def rudman2024(self) -> Rudman2024:
        """What the study chooses of Rudman & Eickhoff 2024.

        Raises:
            LookupError: the study leaves it out.
        """
        if self.study.config.rudman2024 is None:
            raise LookupError("the study leaves rudman2024 out")
        return self.study.config.rudman2024

    def fine_tuning(self, paper: str) -> Rudman2024 | FineTuning:
        """What the study chooses of a paper's fine-tuning.

        Raises:
            LookupError: the study leaves it out.
        """
        chosen = (
            self.rudman2024
            if paper == "rudman2024"
            else self.rajaee2021.finetuning
            if paper == "rajaee2021"
            else None
        )
        if chosen is None:
            raise LookupError(f"the study has no fine-tuning of {paper}")
        return chosen

    @cached_property
    def fine_tuned(self) -> dict[tuple[str, str], FinetuneRun]:
        """All fine-tuned models, by paper and name, without their seeds."""
        found: dict[tuple[str, str], FinetuneRun] = {}
        for paper in ("rudman2024", "rajaee2021"):
            try:
                found |= {
                    (paper, name): run for name, run in self.fine_tuning(paper).runs().items()
                }
            except LookupError:
                continue
        return found

    def run(self, paper: str, name: str) -> FinetuneRun:
        """A fine-tuned model, without its seed.

        Raises:
            LookupError: the study has no such run.
        """
        if (paper, name) not in self.fine_tuned:
            raise LookupError(f"the study has no fine-tuned model {name!r} of {paper}")
        return self.fine_tuned[paper, name]

    def training(self, paper: str, run: str) -> Training:
        """How a model is trained.

        Raises:
            LookupError: the study has no such run.
        """
        chosen = self.fine_tuning(paper)
        return chosen.tasks[self.run(paper, run).task].trained(chosen.training)

    @cached_property
    def _parts(self) -> set[str]:
        """Parts of papers that the study has."""
        parts: set[str] = {run.group for run in self.trajectories.values()}
        parts |= {
            name
            for name in ("rudman2024", "rajaee2021", "cai2021")
            if getattr(self.study.config, name) is not None
        }
        if self.study.config.rajaee2021 is not None:
            parts |= {f"rajaee2021-{part}" for part in self.rajaee2021.parts()}
        return parts

    @property
    def clouds(self) -> list[str]:
        """Point clouds of Figure 4 of rudman2024, by name."""
        return (
            [] if self.study.config.rudman2024 is None else list(self.rudman2024.stability.clouds)
        )

    @property
    def rajaee2021(self) -> Rajaee2021:
        """What the study chooses of Rajaee & Pilehvar 2021.

        Raises:
            LookupError: the study leaves it out.
        """
        if self.study.config.rajaee2021 is None:
            raise LookupError("the study leaves rajaee2021 out")
        return self.study.config.rajaee2021

    @property
    def cai2021(self) -> Cai2021:
        """What the study chooses of Cai et al. 2021.

        Raises:
            LookupError: the study leaves it out.
        """
        if self.study.config.cai2021 is None:
            raise LookupError("the study leaves cai2021 out")
        return self.study.config.cai2021

    @cached_property
    def measured(self) -> dict[str, Measurement]:
        """All measurements of rajaee2021, by the end of their path."""
        return {} if self.study.config.rajaee2021 is None else self.rajaee2021.measured()

    def spec(self, stem: str) -> Spec:
        """The spec of a result.

        Args:
            stem: path of the result below `results/`, without a suffix, such as
                `embed/polarity/all-MiniLM-L6-v2`.

        Raises:
            LookupError: the study has no such result.
        """
        path = stem.split("/")
        found: Spec | None = STAGES[path[0]].spec(self, path) if path[0] in STAGES else None
        if found is None:
            raise LookupError(f"no result {stem}")
        return found

    def inputs(self, stem: str) -> dict[str, list[str]]:
        """The inputs of a result, by the names that its rule gives them: paths relative to the
        folder of the run.

        Raises:
            LookupError: the study has no such result.
        """
        path = stem.split("/")
        found: dict[str, list[str]] | None = (
            STAGES[path[0]].inputs(self, path) if path[0] in STAGES else None
        )
        if found is None:
            raise LookupError(f"no result {stem}")
        return found

    def stems(self, wanted: str = "index") -> list[str]:
        """All that a result is made from, itself included: what is needed before what needs it."""
        found: dict[str, None] = {}
        waiting = [(wanted, False)]
        while waiting:
            stem, ready = waiting.pop()
            if ready:
                found[stem] = None
            elif stem not in found:
                waiting.append((stem, True))
                needed = {
                    _stem(path): None for paths in self.inputs(stem).values() for path in paths
                }
                waiting += [(one, False) for one in self._shards(stem) + list(needed)]
        return list(found)

    def _shards(self, stem: str) -> list[str]:
        """Shards of token vectors that are read beside the inputs."""
        match stem.split("/"):
            case ["embed", dataset, "tokens", model]:
                return shard_stems(dataset, model, self.study.config.compute.shards)
        return []

    def table_files(self) -> list[str]:
        """Parquet files of all tables."""
        return [table_file(name) for name, entry in TABLES.items() if self.attempted(entry)]

    def figure_files(self) -> list[str]:
        """One file of each figure."""
        return [
            f"{RESULTS}/figures/{name}.png"
            for name, entry in FIGURES.items()
            if self.attempted(entry)
        ]

    def attempted(self, entry: TableSpec | FigureSpec) -> bool:
        """Whether the study has what a table or figure shows: parts of a paper may be left out of
        the configuration.
        """
        return entry.needs is None or entry.needs in self._parts


def _stem(path: str) -> str:
    """The result that a file belongs to."""
    folder, _, name = path.removeprefix(f"{RESULTS}/").rpartition("/")
    return f"{folder}/{name.split('.')[0]}".lstrip("/")
