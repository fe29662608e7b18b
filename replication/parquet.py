"""Tables as Parquet."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow
import pyarrow.parquet


def write_parquet(path: Path, table: pd.DataFrame, mark: str) -> None:
    """Write a table as Parquet, with the mark of its record, and without pandas' metadata, which
    would contain its version.
    """
    arrow = pyarrow.Table.from_pandas(table, preserve_index=False).replace_schema_metadata(
        {"record": mark}
    )
    pyarrow.parquet.write_table(arrow, path)
