"""Read the inputs of similarity jobs: token clouds, and items with classes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from replication.prepare.table import read_items, targets, text_rows
from replication.similarity.spec import SimilaritySpec, TuningSpec
from replication.similarity.token_cloud import SentenceCloud, token_cloud, word_cloud
from replication.sources.formats import read_vectors
from replication.sources.spec import read_fetched


def read_cloud(spec: SimilaritySpec | TuningSpec, inputs: dict[str, Path]) -> SentenceCloud:
    """Read the cloud of a data set: its tokens in a layer, or a vocabulary of word vectors.

    Args:
        spec: the spec of the job.
        inputs: input paths by name: `dataset`, and either `tokens` or both `texts` and
            `vectors_source`.
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
    texts: Path, items: Path, max_items: int | None
) -> tuple[list[list[str]], np.ndarray, int]:
    """Read items with classes.

    Args:
        texts: the table of texts.
        items: the table of items.
        max_items: maximum number of items; a larger table is sampled with a fixed seed. None: all.

    Returns:
        One list with the first text of each item and, for pairs, another with the second; the
        class of each item; and the number of items before sampling.
    """
    strings = list(pd.read_parquet(texts)["text"])
    table, dataset = read_items(items)
    n_all = len(table)
    if max_items is not None and max_items < n_all:
        chosen = np.random.default_rng(0).choice(n_all, max_items, replace=False)
        table = table.iloc[np.sort(chosen)].reset_index(drop=True)
    return (
        [[strings[i] for i in column] for column in text_rows(table).T],
        targets(table, dataset),
        n_all,
    )
