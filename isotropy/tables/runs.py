"""Runs as tables read them: trajectories, fine-tuned models, sampled clouds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

from isotropy.finetune.spec import FineTuned
from isotropy.geometry.spec import MeasuredLayer, MeasuredVectors, Sampled
from isotropy.optimize.spec import Run
from isotropy.similarity.spec import Classified, Measured, Tuned
from isotropy.spec import Spec

Runs = Sequence[tuple[Run, pd.DataFrame]]
"""Facts about each trajectory, and its rows."""
FineTunedRuns = Sequence[tuple[FineTuned, pd.DataFrame]]
"""Facts about each fine-tuned model, and one of its tables."""
SampledClouds = Sequence[tuple[Sampled, pd.DataFrame]]
"""Facts about each cloud, and the scores of its samples."""

MeasuredRuns = Sequence[tuple[Measured, pd.DataFrame]]
"""Facts about each data set in each layer, and a row per method and run, or per token."""
TunedRuns = Sequence[tuple[Tuned, pd.DataFrame]]
"""Each choice of numbers, and its trials."""
LayerRuns = Sequence[tuple[MeasuredLayer, pd.DataFrame]]
"""Facts about each layer, and one of its tables."""
VectorRuns = Sequence[tuple[MeasuredVectors, pd.DataFrame]]
"""Facts about static vectors, and a row per seed."""
ClassifiedRuns = Sequence[tuple[Classified, pd.DataFrame]]
"""Facts about each classification on frozen features, and its scores."""

_FACTS: dict[str, type[Spec]] = {
    "finetune": FineTuned,
    "shown": FineTuned,
    "clustered": FineTuned,
    "stability": Sampled,
    "similarity": Measured,
    "pictured": Measured,
    "tuning": Tuned,
    "classification": Classified,
    "layers": MeasuredLayer,
    "vectors": MeasuredVectors,
}


def read_runs(
    group: str, facts: Sequence[Path], tables: Sequence[Path]
) -> list[tuple[Spec, pd.DataFrame]]:
    """Runs of a part of a paper (`TableSpec.runs`), with the facts about them."""
    kind = _FACTS.get(group, Run)
    return [
        (kind.parse(f.read_text("utf8")), pd.read_parquet(t))
        for f, t in zip(facts, tables, strict=True)
    ]


def long_table(parts: Iterable[tuple[dict[str, object], pd.DataFrame]]) -> pd.DataFrame:
    """One long table of the rows of several runs, the facts about each run in front of its rows."""
    return pd.concat(
        [pd.DataFrame([facts]).merge(rows, how="cross") for facts, rows in parts], ignore_index=True
    )
