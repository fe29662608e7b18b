"""Where results lie that others are made from: paths relative to the folder of a run."""

from __future__ import annotations

from isotropy.files import RESULTS

OF_ALL = ("claims", "scorecard")
"""Tables that are about all papers together."""


def fetched(name: str) -> str:
    """Folder of a fetched source."""
    return f"{RESULTS}/fetch/{name}"


def prepared(dataset: str, table: str) -> str:
    """A table of a prepared data set: `texts` or `items`."""
    return f"{RESULTS}/prepare/{dataset}.{table}.parquet"


def embedded(dataset: str, embedding: str) -> str:
    """Embeddings of a data set's texts."""
    return f"{RESULTS}/embed/{dataset}/{embedding}.safetensors"


def token_vectors(dataset: str, model: str) -> str:
    """Folder of the token vectors of a data set's texts."""
    return f"{RESULTS}/embed/{dataset}/tokens/{model}"


def shard_stems(dataset: str, model: str, n: int) -> list[str]:
    """The shards of token vectors, below the results and without suffixes; none where one job makes
    them all.
    """
    return [f"embed/{dataset}/shards/{model}/{k}-of-{n}" for k in range(1, n + 1)] if n > 1 else []


def table_file(name: str) -> str:
    """Parquet file of a table, by its id or one of OF_ALL."""
    return f"{RESULTS}/{name}.parquet" if name in OF_ALL else f"{RESULTS}/tables/{name}.parquet"


def figure_file(name: str) -> str:
    """The picture of a figure that pages show."""
    return f"{RESULTS}/figures/{name}.png"


def note_file(name: str) -> str:
    """What a figure shows, in words."""
    return f"{RESULTS}/figures/{name}.txt"


def sides(datasets: dict[str, str]) -> dict[str, list[str]]:
    """Texts and items of a task's data sets, by role."""
    return {
        f"{role}_{table}": [prepared(dataset, table)]
        for role, dataset in datasets.items()
        for table in ("texts", "items")
    }
