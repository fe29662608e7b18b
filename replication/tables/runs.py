"""Read runs for tables: the facts about each run, and its rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path

import pandas as pd

from replication.spec import Spec
from replication.tables.spec import RunKind

FACTS: dict[RunKind, str] = {
    "trajectory": "replication.optimize.spec:TrajectoryFacts",
    "finetuned": "replication.finetune.spec:FinetuneFacts",
    "stability": "replication.geometry.spec:StabilityFacts",
    "layer": "replication.geometry.spec:LayerFacts",
    "vectors": "replication.geometry.spec:VectorsFacts",
    "contexts": "replication.geometry.spec:ContextsFacts",
    "static_words": "replication.geometry.spec:StaticWordsFacts",
    "similarity": "replication.similarity.spec:SimilarityFacts",
    "tuning": "replication.similarity.spec:TuningFacts",
    "classified": "replication.similarity.spec:ClassificationFacts",
}
"""Class that holds the facts about a run of each kind, as module:class; loaded by name."""


def read_runs(
    kind: RunKind, facts: Sequence[Path], tables: Sequence[Path]
) -> list[tuple[Spec, pd.DataFrame]]:
    """Runs with the facts about them.

    Args:
        kind: kind of the runs (a key of `FACTS`).
        facts: a JSON file per run.
        tables: a Parquet file per run, in the same order.
    """
    module, _, name = FACTS[kind].partition(":")
    model: type[Spec] = getattr(import_module(module), name)
    pairs = zip(facts, tables, strict=True)
    return [(model.parse(f.read_text("utf8")), pd.read_parquet(t)) for f, t in pairs]


def fields(facts: Spec, *names: str) -> dict[str, object]:
    """The named fields of the facts about a run, in this order."""
    return {name: getattr(facts, name) for name in names}


def long_table(parts: Iterable[tuple[dict[str, object], pd.DataFrame]]) -> pd.DataFrame:
    """One long table of the rows of several runs, the facts about each run in front of its rows."""
    return pd.concat(
        [pd.DataFrame([facts]).merge(rows, how="cross") for facts, rows in parts], ignore_index=True
    )


def join_deviations(*texts: str) -> str:
    """Join deviations, each once; semicolons separate them, in the arguments too."""
    return "; ".join(dict.fromkeys(d for text in texts for d in text.split("; ") if d))


def deviate(table: pd.DataFrame, rows: pd.Series, reason: str) -> pd.DataFrame:
    """Add a deviation to some rows, and turn originals among them into stand-ins.

    Args:
        table: a table with the columns `status` and `deviations`.
        rows: whether each row deviates.
        reason: the deviation, in words.
    """
    deviations, demoted = table["deviations"], rows & (table["status"] == "original")
    extended = deviations.where(deviations == "", deviations + "; ") + reason
    return table.assign(
        status=table["status"].mask(demoted, "stand-in"), deviations=deviations.mask(rows, extended)
    )


def printed(rows: pd.DataFrame, published: pd.DataFrame, **keys: pd.Series | str) -> pd.Series:
    """The printed value of each row; of several the last, NaN where there is none.

    Args:
        rows: rows of a table.
        published: numbers of `published.csv`.
        keys: column of `published` -> what it is in each row, or in all of them.
    """
    wanted = pd.DataFrame(keys, index=rows.index).astype(str)
    values = published.drop_duplicates([*keys], keep="last")[[*keys, "value"]]
    return wanted.merge(values, how="left")["value"].set_axis(rows.index)
