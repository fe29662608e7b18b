"""What the papers of a study ask for: their results, and the token vectors that they read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from isotropy.errors import IsotropyError
from replication.context import Context, Results, TokenLayers
from replication.papers.registry import Paper, PaperPlan, paper
from replication.plan.config import Study


@dataclass(frozen=True)
class Parts:
    """What the papers of a study ask for.

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
        """What surrounds the papers."""
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
        found: dict[tuple[str, str], TokenLayers] = {}
        for _, plan in self.attempted.values():
            for one in plan.tokens:
                key = (one.dataset, one.model)
                known = found.setdefault(key, one)
                if known.window != one.window:
                    raise IsotropyError(
                        f"config: {one.dataset} with {one.model}: expected the same window in "
                        f"all papers, got {known.window} and {one.window}"
                    )
                layers = sorted({*known.layers, *one.layers})
                found[key] = known._replace(layers=layers)
        return found
