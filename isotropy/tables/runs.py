"""Trajectories as tables read them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from isotropy.optimize.spec import Run

Runs = Sequence[tuple[Run, pd.DataFrame]]
"""Facts about each trajectory, and its rows."""


def read_runs(facts: Sequence[Path], tables: Sequence[Path]) -> Runs:
    """Trajectories with the facts about them."""
    return [(Run.parse(f.read_text("utf8")), pd.read_parquet(t)) for f, t in zip(facts, tables, strict=True)]
