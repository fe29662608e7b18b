"""What jobs read: clouds, and items with classes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from isotropy.prepare.table import read_items, targets, text_rows
from isotropy.similarity.spec import SimilaritySpec, TuningSpec
from isotropy.similarity.token_cloud import SentenceCloud, token_cloud, word_cloud
from isotropy.sources.fetched import read_fetched
from isotropy.sources.formats import read_vectors


def read_cloud(spec: SimilaritySpec | TuningSpec, inputs: dict[str, Path]) -> SentenceCloud:
    """The cloud of a data set: of tokens in a layer, or of words.

    Args:
        spec: the job's.
        inputs: `items`, and either `tokens` or both `texts` and `vectors_source`.
    """
    items, dataset = read_items(inputs["dataset"])
    if spec.layer is not None:
        return token_cloud(
            items,
            dataset,
            inputs["tokens"],
            spec.layer,
            spec.drop_tokens,
            repeat_texts=spec.repeat_texts,
        )
    source = inputs["vectors_source"]
    texts = list(pd.read_parquet(inputs["texts"])["text"])
    return word_cloud(items, texts, read_vectors(read_fetched(source).content, source))


def read_columns(
    texts: Path, items: Path, n_most: int | None
) -> tuple[list[list[str]], np.ndarray, int]:
    """Items with classes: the first text of each and, for pairs, the second; the classes; and how
    many there are in all.

    Args:
        texts: the table of texts.
        items: the table of items.
        n_most: how many at most; more are drawn, once and for all.
    """
    strings = list(pd.read_parquet(texts)["text"])
    table, dataset = read_items(items)
    n_all = len(table)
    if n_most is not None and n_most < n_all:
        chosen = np.random.default_rng(0).choice(n_all, n_most, replace=False)
        table = table.iloc[np.sort(chosen)].reset_index(drop=True)
    return (
        [[strings[i] for i in column] for column in text_rows(table).T],
        targets(table, dataset),
        n_all,
    )
