"""The numbers that a paper prints, beside ours."""

from __future__ import annotations

import pandas as pd


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
