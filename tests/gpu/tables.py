"""Compare the tables of two runs of a study, of which one computed on a GPU: each column within a
tolerance that follows from how its numbers come about.

The tolerances were tried on two runs on the CPU, in one of which embeddings and starts of
trajectories were disturbed by 5e-7 and 2e-7 of each coordinate, and dropout masks were others. No
whole number, text or truth value changed; numbers from embeddings did by up to 7e-6, scores of
trajectories by 5e-7, their correlations by 2e-4; those of trainings see below.
"""

from __future__ import annotations

import math
import re
import sys
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from replication.provenance.array_difference import TOLERANCE, largest_differences

ANY = math.inf  # not compared
PRESENT = sys.float_info.max  # any number where the other run has one


class Rule(NamedTuple):
    """The tolerance of some columns: patterns of whole names, and the largest relative deviation,
    as `replication.provenance.array_difference` defines it."""

    tables: str
    columns: str
    tolerance: float


TRAINED = r"rudman2024/(activations|cosreg|layers|points|runs|steps|table1)|rajaee2021/cls_layers"
DECIDED = r"rudman2024/(averages|directions|post_processing)|rajaee2021/(finetuning|class.*)"
RULES = [
    # Verdicts follow from the tables compared here; ids of records depend on the device.
    Rule(
        "claims|scorecard",
        "record|runs|(stand_in_)?word|judged|reason|missing_case|interval_method|overall|ours"
        "|amount|n_.*|failure_bound|obtained|sd|low|high|p|needed",
        ANY,
    ),
    # A GPU draws other dropout masks: each training is another one. The mean of many numbers is
    # near, a share of 60 items within several; differences, signs of directions, single coordinates
    # and scores of few items are not.
    Rule(".*", "learned|all_learned|reported|too_short|not_learned", ANY),
    Rule(
        TRAINED,
        r"performance.*|accuracy|final_loss|(sentence_)?(isoscore.*|mean_cosine|mean_norm)"
        "|sentence_mean_cosine_last|(sentence_)?log10_isotropy",
        0.5,
    ),
    Rule(TRAINED, "strength|zeta|chance|learning_rate|label", TOLERANCE),
    # Differences that are missing where a model has not learned its task
    Rule(DECIDED, "zeta|chance|.*published.*", TOLERANCE),
    # Classifiers of fixed vectors: an item near the boundary changes its class.
    Rule("rajaee2021/(table3|convergence)", "loss", 0.01),
    Rule("rajaee2021/(table3|convergence)", "accuracy|score|best.*|last.*", 0.2),
    Rule("rajaee2021/(table3|convergence)", "f1|matthews", PRESENT),
    # Scores of trajectories: 2e-5, as in `test_gpu.py`, of scores of about 0.1. A correlation
    # enlarges the error by the ratio of scores to their changes.
    Rule("mickus2024/.*", "error_bound", PRESENT),
    Rule("mickus2024/.*", "loss|(isoscore|silhouette)(_first|_last)?", 5e-4),
    Rule("mickus2024/.*", "accuracy.*", 0.03),
    Rule(
        "mickus2024/.*",
        "pearson_r.*|spearman_rho.*|.*_change|(isoscore|silhouette)_sd_.*"
        "|difference_from_published",
        0.02,
    ),
    Rule("mickus2024/appendix_b", ".*equation.*|.*triplet_objective.*", 1e-3),
]
"""The first that fits. Without one, numbers agree within `TOLERANCE`, as those of one job that is
made again elsewhere; whole numbers, texts and truth values are equal."""
NUMBERS_OF_TRAINING = [Rule(TRAINED, ".*", PRESENT), Rule(DECIDED, ".*", ANY)]
"""The same, for numbers only."""


def disagreements(before: Path, after: Path) -> list[str]:
    """List what differs between the tables of two runs by more than its tolerance.

    Args:
        before: folder of the results of the first run.
        after: the same of the second.
    """
    x, y = find_tables(before), find_tables(after)
    result = [f"{name}: only in one run" for name in sorted(x.keys() ^ y.keys())]
    for name in sorted(x.keys() & y.keys()):
        result += compare(name, x[name], y[name])
    return result


def compare(name: str, before: Path, after: Path) -> list[str]:
    """List the differences of two Parquet files with the table of this name."""
    x, y = pd.read_parquet(before), pd.read_parquet(after)
    if len(x) != len(y):
        return [f"{name}: {len(x)} and {len(y)} rows"]
    result = []
    for column, deviation in (largest_differences(before, after) or {}).items():
        both = column in x and column in y
        is_number = both and x[column].dtype.kind == y[column].dtype.kind == "f"
        allowed = tolerance(name, column, is_number=is_number) if both else 0.0
        if deviation > allowed:
            result.append(f"{name}, {column}: deviation {deviation:.2g}, allowed {allowed:.2g}")
    return result


def tolerance(table: str, column: str, *, is_number: bool) -> float:
    """Return the largest deviation of a column; `is_number` excludes whole numbers."""
    for rule in [*RULES, *(NUMBERS_OF_TRAINING if is_number else [])]:
        if re.fullmatch(rule.tables, table) and re.fullmatch(rule.columns, column):
            return rule.tolerance
    return TOLERANCE if is_number else 0.0


def find_tables(results: Path) -> dict[str, Path]:
    """Find the tables of a run, each a CSV file beside a Parquet file, which keeps the types of its
    columns: path below `results/tables/`, or `results/` -> Parquet file."""
    folders = results / "tables", results
    return {
        path.relative_to(folder).with_suffix("").as_posix(): path.with_suffix(".parquet")
        for folder, pattern in zip(folders, ("*/*.csv", "*.csv"), strict=True)
        for path in folder.glob(pattern)
    }
