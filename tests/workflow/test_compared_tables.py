"""Tables of a study on a GPU are compared with those of the CPU: what the comparison finds, in
disturbed copies of the finished smoke study. The study itself runs in `tests/gpu`."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.conftest import Workflow
from tests.gpu import test_study
from tests.gpu.tables import (
    ANY,
    NUMBERS_OF_TRAINING,
    PRESENT,
    RULES,
    compare,
    disagreements,
    find_tables,
    tolerance,
)


@pytest.fixture(scope="module")
def tables(smoke: Workflow) -> dict[str, Path]:
    return find_tables(smoke.folder / "results")


def disturbed(name: str, table: pd.DataFrame, factor: float) -> tuple[pd.DataFrame, set[str]]:
    """Disturb the largest number of each column by `factor` times its tolerance, and name the
    columns in which that can be seen."""
    table, seen = table.copy(), set()
    for column in table.columns[[dtype.kind == "f" for dtype in table.dtypes]]:
        allowed = tolerance(name, column, is_number=True)
        row = table[column].abs().replace(np.inf, np.nan).argmax() if table[column].any() else -1
        largest = table[column].iloc[row] if len(table) else np.nan
        if np.isfinite(largest) and largest != 0 and 0 < allowed < PRESENT:
            table.iloc[row, table.columns.get_loc(column)] = largest * (1 + factor * allowed)
            seen.add(column)
    return table, seen


def columns_found(name: str, before: Path, after: Path) -> set[str]:
    return {re.split(", |:", line)[1].strip() for line in compare(name, before, after)}


def test_numbers_within_and_beyond_their_tolerance(tables: dict[str, Path], tmp_path: Path) -> None:
    n_columns = 0
    for name, path in tables.items():
        table = pd.read_parquet(path)
        for factor in (0.9, 1.1):
            changed, seen = disturbed(name, table, factor)
            changed.to_parquet(tmp_path / "changed.parquet")
            expected = seen if factor > 1 else set()
            assert columns_found(name, path, tmp_path / "changed.parquet") == expected, name
        n_columns += len(seen)
    assert n_columns > 500


def test_missing_numbers_changed_words_and_whole_numbers(
    tables: dict[str, Path], tmp_path: Path
) -> None:
    """Also of trainings, except in columns that are not compared."""
    for name, path in tables.items():
        table = pd.read_parquet(path)
        if table.empty:
            continue
        changed, expected = table.copy(), set()
        for i, column in enumerate(table.columns):
            kind = table.dtypes.iloc[i].kind
            value = table.iloc[0, i]
            if kind == "f":
                changed.iloc[0, i] = 0.5 if np.isnan(value) else np.nan
            elif kind in "iu":
                changed.iloc[0, i] = value + 1
            else:
                changed.iloc[0, i] = not value if kind == "b" else f"{value} "
            if tolerance(name, column, is_number=kind == "f") != ANY:
                expected.add(column)
        changed.to_parquet(tmp_path / "changed.parquet")
        assert columns_found(name, path, tmp_path / "changed.parquet") == expected, name


def test_missing_rows_columns_and_tables(tables: dict[str, Path], tmp_path: Path) -> None:
    copies = [tmp_path / "a", tmp_path / "b"]
    for copy in copies:
        for name in ("mickus2024/trajectories", "rudman2024/runs", "cai2021/layers"):
            target = copy / "tables" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            for suffix in (".csv", ".parquet"):
                shutil.copyfile(tables[name].with_suffix(suffix), target.with_suffix(suffix))
    assert disagreements(*copies) == []
    (copies[1] / "tables/cai2021/layers.csv").unlink()
    trajectories = copies[1] / "tables/mickus2024/trajectories.parquet"
    table = pd.read_parquet(trajectories)
    table.drop(index=5).to_parquet(trajectories)
    runs = copies[1] / "tables/rudman2024/runs.parquet"
    pd.read_parquet(runs).drop(columns="silhouette_last").to_parquet(runs)
    assert disagreements(*copies) == [
        "cai2021/layers: only in one run",
        f"mickus2024/trajectories: {len(table)} and {len(table) - 1} rows",
        "rudman2024/runs, silhouette_last: deviation inf, allowed 0",
    ]
    table.iloc[::-1].to_parquet(trajectories)
    assert "mickus2024/trajectories, step: deviation" in "\n".join(disagreements(*copies))


def test_each_rule_names_columns(tables: dict[str, Path]) -> None:
    columns = [(name, column) for name, path in tables.items() for column in pd.read_parquet(path)]
    for rule in (*RULES, *NUMBERS_OF_TRAINING):
        assert any(
            re.fullmatch(rule.tables, name) and re.fullmatch(rule.columns, column)
            for name, column in columns
        ), rule


def test_packages_that_the_study_needs_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert test_study.missing_packages() == []
    monkeypatch.setattr(test_study, "_is_installed", lambda name: name != "snakemake")
    assert re.fullmatch(r"snakemake==[\d.]+", " ".join(test_study.missing_packages()))


def test_devices_of_a_study(smoke: Workflow) -> None:
    assert len(test_study.devices(smoke.folder)) == 1
