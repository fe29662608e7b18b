"""Tables as Parquet."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow
import pyarrow.parquet


def write_parquet(path: Path, table: pd.DataFrame, mark: str) -> None:
    """Parquet with the mark of its record, without pandas' own metadata, which would name its
    version.
    """
    arrow = pyarrow.Table.from_pandas(table, preserve_index=False).replace_schema_metadata(
        {"record": mark}
    )
    pyarrow.parquet.write_table(arrow, path)
