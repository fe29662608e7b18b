"""Addresses: find the rows of a result table, or the claim, that an address names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

from isotropy.errors import IsotropyError, suggest
from isotropy.files import RESULTS

CLAIMS = RESULTS / "claims.parquet"
KEYS = ("setup", "seed", "dataset")
"""Columns whose names and values are also those of specs."""


class Place(NamedTuple):
    """A result, and what in it is meant."""

    path: str
    cells: list[dict[str, Any]] = []
    """The rows that were asked for: all columns, or the conditions and the column that was
    named."""
    keys: dict[str, Any] = {}
    """Values of KEYS that all these rows share."""


def locate(root: Path, address: str) -> Place:
    """Find what an address names.

    Args:
        root: the folder of the run.
        address: `PATH`; `PATH#CONDITION,…` with conditions `COLUMN=VALUE`, and the name of a column
            to read; or the id of a claim, alone or after `results/claims.csv#`, which leads to the
            table that its number stands in.

    Raises:
        IsotropyError: no such file, column, row or claim.
    """
    path, _, query = address.partition("#")
    if not query and not (root / path).exists() and (root / CLAIMS).is_file() and "/" not in path:
        return _claim(root, path, {})
    if not query:
        return Place(Path(path).as_posix())
    # A comma with a blank after it belongs to a value, as in the setup "normal, zeta 0".
    parts = [part.partition("=") for part in re.split(r",(?! )", query)]
    conditions = {name: value for name, equals, value in parts if equals}
    columns = [name for name, equals, _ in parts if not equals]
    if Path(path).with_suffix(".parquet") == CLAIMS and len(columns) == 1:
        return _claim(root, columns[0], conditions)
    return _rows(root, path, conditions, columns)


def _rows(root: Path, path: str, conditions: dict[str, str], columns: list[str]) -> Place:
    table = _read(root, path)
    for name in [*conditions, *columns]:
        if name not in table.columns:
            raise IsotropyError(f"{path} has no column {name!r}: {suggest(name, table.columns)}")
    for name, value in conditions.items():
        chosen = table[table[name].astype(str) == value]
        if chosen.empty:
            values = ", ".join(map(str, table[name].unique()[:10]))
            raise IsotropyError(f"{path} has no row with {name} = {value}; there are {values}")
        table = chosen
    keys = {k: table[k].iloc[0] for k in KEYS if k in table.columns and table[k].nunique() == 1}
    shown = table[[*conditions, *columns]] if columns else table
    # A seed may be text in a table that has rows for the mean, and is a number in specs.
    numbers = {k: int(v) if k == "seed" and str(v).isdigit() else v for k, v in keys.items()}
    known = {k: v for k, v in numbers.items() if k != "seed" or isinstance(v, int)}
    return Place(
        Path(path).as_posix(),
        shown.astype(object).where(shown.notna(), None).to_dict("records"),
        known,
    )


def _claim(root: Path, name: str, conditions: dict[str, str]) -> Place:
    claims = _read(root, CLAIMS.as_posix())
    chosen = claims[claims["id"] == name]
    if chosen.empty:
        raise IsotropyError(
            f"no file, and no claim, is called {name!r}: {suggest(name, claims['id'].unique())}"
        )
    for column, value in conditions.items():
        if column not in claims.columns or not (chosen[column].astype(str) == value).any():
            raise IsotropyError(f"claim {name} has no {column} = {value}")
        chosen = chosen[chosen[column].astype(str) == value]
    row = chosen.iloc[0]
    if not row["record"]:
        raise IsotropyError(f"claim {name} has no number: {row['word']}, {row['reason']}")
    columns = [
        "id",
        "statement",
        "word",
        "status",
        "setup",
        "published",
        "side",
        "bound",
        "tolerance",
        "obtained",
        "low",
        "high",
        "unit",
        "n_units",
        "table",
        "column",
    ]
    cells = chosen[columns].astype(object).where(chosen[columns].notna(), None).to_dict("records")
    keys = {"setup": row["setup"]} if row["setup"] and chosen["setup"].nunique() == 1 else {}
    return Place(f"results/tables/{row['table']}.parquet", cells, keys)


def _read(root: Path, path: str) -> Any:
    """A table; `.csv` and `.md` stand for the Parquet file beside them."""
    import pandas as pd

    file = (root / path).with_suffix(".parquet")
    if not file.is_file():
        raise IsotropyError(f"{path} is not a table of results: {file} is not there")
    try:
        return pd.read_parquet(file, dtype_backend="numpy_nullable")  # whole numbers stay whole
    except (OSError, ValueError) as error:
        raise IsotropyError(f"{file} cannot be read: {error}") from error
