"""Resolve addresses of results: of a file, of rows of a result table, or of a claim."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

from isotropy.errors import IsotropyError, suggest
from isotropy.files import RESULTS, record_path
from replication.provenance.audit import require_intact

CLAIMS = RESULTS / "claims.parquet"
KEYS = ("setup", "seed", "dataset")
"""Columns that specs have as fields, with the same names and values."""


class ResolvedAddress(NamedTuple):
    """A result that an address names, and the rows of it."""

    path: str
    cells: list[dict[str, Any]] = []
    """The selected rows: all columns, or the columns of the conditions and the columns named."""
    keys: dict[str, Any] = {}
    """Columns of KEYS that have the same value in all these rows, with that value."""


def resolve_address(root: Path, address: str) -> ResolvedAddress:
    """Resolve an address.

    Args:
        root: the folder of the run.
        address: `PATH`; or `PATH#…`, with a list of conditions `COLUMN=VALUE` and names of columns
            to read, separated by commas; or the id of a claim, alone or after
            `results/claims.csv#`, which leads to the table that contains its number.

    Raises:
        IsotropyError: there is no such file, column, row or claim.
    """
    path, _, query = address.partition("#")
    has_claims = (root / CLAIMS).exists() or (root / record_path(CLAIMS)).exists()
    if not query and not (root / path).exists() and has_claims and "/" not in path:
        return _resolve_claim(root, path, {})
    if not query:
        return ResolvedAddress(Path(path).as_posix())
    # A comma with a blank after it belongs to a value, as in the setup "normal, zeta 0".
    parts = [part.partition("=") for part in re.split(r",(?! )", query)]
    conditions = {name: value for name, equals, value in parts if equals}
    columns = [name for name, equals, _ in parts if not equals]
    if Path(path).with_suffix(".parquet") == CLAIMS and len(columns) == 1:
        return _resolve_claim(root, columns[0], conditions)
    return _resolve_rows(root, path, conditions, columns)


def _resolve_rows(
    root: Path, path: str, conditions: dict[str, str], columns: list[str]
) -> ResolvedAddress:
    table = _read_table(root, path)
    for name in [*conditions, *columns]:
        if name not in table.columns:
            raise IsotropyError(f"{path} has no column {name!r}: {suggest(name, table.columns)}")
    for name, value in conditions.items():
        matching = table[table[name].astype(str) == value]
        if matching.empty:
            values = ", ".join(map(str, table[name].unique()[:10]))
            raise IsotropyError(f"{path} has no row with {name} = {value}; there are {values}")
        table = matching
    keys = {k: table[k].iloc[0] for k in KEYS if k in table.columns and table[k].nunique() == 1}
    cells = table[[*conditions, *columns]] if columns else table
    # Specs have seeds as numbers; a table with rows for the mean has them as text.
    if not str(keys.get("seed", 0)).isdigit():
        del keys["seed"]
    parsed = {k: int(v) if k == "seed" else v for k, v in keys.items()}
    return ResolvedAddress(Path(path).as_posix(), _rows(cells), parsed)


def _resolve_claim(root: Path, name: str, conditions: dict[str, str]) -> ResolvedAddress:
    claims = _read_table(root, CLAIMS.as_posix())
    matching = claims[claims["id"] == name]
    if matching.empty:
        raise IsotropyError(
            f"there is no file or claim {name!r}: {suggest(name, claims['id'].unique())}"
        )
    for column, value in conditions.items():
        if column not in claims.columns or not (matching[column].astype(str) == value).any():
            raise IsotropyError(f"claim {name} has no {column} = {value}")
        matching = matching[matching[column].astype(str) == value]
    row = matching.iloc[0]
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
    cells = _rows(matching[columns])
    keys = {"setup": row["setup"]} if row["setup"] and matching["setup"].nunique() == 1 else {}
    return ResolvedAddress(f"results/tables/{row['table']}.parquet", cells, keys)


def _rows(table: Any) -> list[dict[str, Any]]:
    """Return the rows of a table, with None for missing values."""
    rows: list[dict[str, Any]] = table.astype(object).where(table.notna(), None).to_dict("records")
    return rows


def _read_table(root: Path, path: str) -> Any:
    """Read a table; for `.csv` and `.md`, the Parquet file of the same name."""
    import pandas as pd

    file = (root / path).with_suffix(".parquet")
    require_intact(root, [Path(path).with_suffix(".parquet")], upstream=False)
    if not file.is_file():
        raise IsotropyError(f"{path} is not a table of results: there is no {file}")
    try:
        return pd.read_parquet(file, dtype_backend="numpy_nullable")  # whole numbers stay whole
    except (OSError, ValueError) as error:
        raise IsotropyError(f"{file} cannot be read: {error}") from error
