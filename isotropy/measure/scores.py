"""Metrics of a point cloud by name: of passes over all rows, and of rows in memory."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
import torch

from isotropy.errors import IsotropyError
from isotropy.measure.clouds import PointCloud, of_array
from isotropy.metrics.contextuality import (
    cosine_contributions,
    explainable_variance,
    intra_sentence_similarity,
    self_similarity,
)
from isotropy.metrics.cosines import StreamingMeanCosine, type_cosines
from isotropy.metrics.dimension import lid_mle, two_nn
from isotropy.metrics.isoscores import StreamingIsoScore
from isotropy.metrics.partition import StreamingPartition
from isotropy.metrics.silhouettes import silhouette
from isotropy.metrics.validation import sample_rows

ROWS_OF_PAIRS = 10_000
"""Rows that metrics of all pairs see, unless --sample says otherwise."""
BYTES_IN_MEMORY = 2**29
"""Of rows that the other metrics see."""
NEIGHBOURS = 100
"""Of the local dimension (Cai et al. 2021)."""
MIN_CONTEXTS = 5
"""Occurrences of a word of which self-similarity and explainable variance are taken."""


class Groups(NamedTuple):
    """What is known of each row besides its vector, shape (n,); None: nothing.

    Attributes:
        labels: its class.
        types: its word or word piece.
        sentences: its sentence.
    """

    labels: Any = None
    types: Any = None
    sentences: Any = None

    def of(self, chosen: np.ndarray) -> Groups:
        """The same of some rows."""
        return Groups(*(None if group is None else group[chosen] for group in self))


class Metric(NamedTuple):
    """A metric by name.

    Attributes:
        summary: what it is, for the help.
        cost: "pass": over all rows, none kept; "rows": of rows in memory; "pairs": of all pairs.
        needs: the field of `Groups` without which it has no meaning; "": none.
        measure: gives columns of a cloud in memory, shape (n, d); None: measured in a pass.
    """

    summary: str
    cost: Literal["pass", "rows", "pairs"]
    needs: str = ""
    measure: Callable[[np.ndarray, Groups], dict[str, float]] | None = None


def _type_cosines(X: np.ndarray, groups: Groups) -> dict[str, float]:
    found = type_cosines(X, groups.types)
    return {"s_inter": found.s_inter, "s_intra": found.s_intra}


def _frequent(X: np.ndarray, types: Any) -> tuple[np.ndarray, np.ndarray]:
    """The rows of types with at least MIN_CONTEXTS of them."""
    _, codes, counts = np.unique(types, return_inverse=True, return_counts=True)
    kept = counts[codes] >= MIN_CONTEXTS
    if not kept.any():
        raise ValueError(f"no type has {MIN_CONTEXTS} rows")
    return X[kept], codes[kept]


def _self_similarity(X: np.ndarray, groups: Groups) -> dict[str, float]:
    return {"self_similarity": float(self_similarity(*_frequent(X, groups.types)).values.mean())}


def _explainable_variance(X: np.ndarray, groups: Groups) -> dict[str, float]:
    found = explainable_variance(*_frequent(X, groups.types))._asdict()
    return {
        f"explainable_variance_{name}": float(np.nanmean(values)) for name, values in found.items()
    }


def _intra_sentence(X: np.ndarray, groups: Groups) -> dict[str, float]:
    """As published, and that of the same rows shuffled, without which it has no scale."""
    _, codes, counts = np.unique(groups.sentences, return_inverse=True, return_counts=True)
    kept = counts[codes] > 1
    if not kept.any():
        raise ValueError("no sentence has two rows")
    rows, sentences = X[kept], codes[kept]
    shuffled = rows[np.random.default_rng(0).permutation(len(rows))]
    return {
        "intra_sentence_similarity": float(intra_sentence_similarity(rows, sentences)[0].mean()),
        "intra_sentence_null": float(intra_sentence_similarity(shuffled, sentences)[0].mean()),
    }


def _largest_contribution(X: np.ndarray, _: Groups) -> dict[str, float]:
    contributions = cosine_contributions(X)
    return {"largest_contribution": float(contributions.max() / contributions.sum())}


METRICS: dict[str, Metric] = {
    "isoscore": Metric("IsoScore: 1 isotropic, 0 in one direction", "pass"),
    "mean_cosine": Metric("mean cosine over all pairs", "pass"),
    "partition_isotropy": Metric("log10 of I(W), by the partition function", "pass"),
    "two_nn": Metric(
        "intrinsic dimension by TwoNN", "pairs", "", lambda X, _: {"two_nn": two_nn(X)}
    ),
    "lid_mle": Metric(
        f"local intrinsic dimension, {NEIGHBOURS} neighbours",
        "pairs",
        "",
        lambda X, _: {"lid_mle": lid_mle(X, NEIGHBOURS)},
    ),
    "largest_contribution": Metric(
        "share of the mean cosine that one dimension makes", "rows", "", _largest_contribution
    ),
    "silhouette": Metric(
        "mean silhouette of the labels",
        "pairs",
        "labels",
        lambda X, groups: {"silhouette": float(silhouette(X, groups.labels))},
    ),
    "type_cosines": Metric(
        "S_inter and S_intra: mean cosine between and within types", "rows", "types", _type_cosines
    ),
    "self_similarity": Metric(
        f"mean cosine within types of {MIN_CONTEXTS} rows or more",
        "rows",
        "types",
        _self_similarity,
    ),
    "explainable_variance": Metric(
        "share of a type's first component, three estimates", "rows", "types", _explainable_variance
    ),
    "intra_sentence_similarity": Metric(
        "mean cosine with the sentence's mean, and of shuffled rows",
        "rows",
        "sentences",
        _intra_sentence,
    ),
}
"""All metrics, in the order of their columns."""


class Scores(NamedTuple):
    """What is measured of a cloud.

    Attributes:
        columns: those that have a value.
        notes: sentences for the user.
    """

    columns: dict[str, float]
    notes: list[str]


def measure_cloud(
    cloud: PointCloud,
    groups: Groups,
    metrics: Sequence[str],
    *,
    required: bool,
    sample: int | None,
    seed: int,
) -> Scores:
    """Measure a cloud.

    Args:
        cloud: the rows.
        groups: what is known of them.
        metrics: names in METRICS.
        required: a metric that has no value is an error; else a note.
        sample: rows that all metrics see, drawn without replacement; None: all, and for metrics of
            pairs ROWS_OF_PAIRS.
        seed: of the draws.

    Raises:
        IsotropyError: a required metric has no value.
    """
    if sample is not None and sample < cloud.n:
        chosen = sample_rows(cloud.n, sample, seed).numpy()
        groups = groups.of(chosen)
        cloud = of_array(cloud.input, cloud.layer, cloud.rows(chosen))
    scores = Scores({}, [])
    keep = partial(_keep, scores, cloud.title, required)
    _in_passes(cloud, metrics, keep)
    in_memory: dict[int, tuple[np.ndarray, Groups]] = {}
    for name in metrics:
        metric = METRICS[name]
        if metric.measure is None:
            continue
        size = min(cloud.n, _most_rows(metric.cost, cloud.d, sample))
        if size not in in_memory:
            chosen = sample_rows(cloud.n, size, seed).numpy()
            in_memory[size] = cloud.rows(chosen), groups.of(chosen)
            if size < cloud.n:
                rows = f"on {size:,} of {cloud.n:,} rows"
                scores.notes.append(f"metrics of {metric.cost}: {rows}")
        keep(name, partial(metric.measure, *in_memory[size]))
    return Scores(scores.columns, list(dict.fromkeys(scores.notes)))


def _keep(
    scores: Scores, title: str, required: bool, name: str, measured: Callable[[], dict[str, float]]
) -> None:
    """Add what a metric gives, what it warns of, or why it has no value."""
    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            scores.columns.update(measured())
        scores.notes.extend(str(warning.message) for warning in said)
    except ValueError as error:
        if required:
            raise IsotropyError(f"{title}: {name}: {error}") from None
        scores.notes.append(f"{name} not measured: {error}")


def _most_rows(cost: str, d: int, sample: int | None) -> int:
    if cost == "pairs" and sample is None:
        return ROWS_OF_PAIRS
    return max(BYTES_IN_MEMORY // (4 * d), ROWS_OF_PAIRS, sample or 0)


def _in_passes(
    cloud: PointCloud,
    metrics: Sequence[str],
    keep: Callable[[str, Callable[[], dict[str, float]]], None],
) -> None:
    """Metrics of one pass over the rows, and of a second for I(W)."""
    wanted = [name for name in metrics if METRICS[name].cost == "pass"]
    if not wanted:
        return
    moments, cosine = StreamingIsoScore(cloud.d), StreamingMeanCosine(cloud.d)
    for block in _shown(cloud, "IsoScore, cosine"):
        if {"isoscore", "partition_isotropy"} & set(wanted):
            moments.update(block)
        if "mean_cosine" in wanted:
            cosine.update(block)
    if "isoscore" in wanted:
        keep("isoscore", lambda: {"isoscore": moments.compute()})
    if "mean_cosine" in wanted:
        keep("mean_cosine", lambda: {"mean_cosine": cosine.compute()})
    if "partition_isotropy" in wanted:
        keep(
            "partition_isotropy",
            lambda: {"log10_isotropy": log10_isotropy(cloud, moments)},
        )


def second_moment(moments: StreamingIsoScore) -> torch.Tensor:
    """W'W of all rows of a pass, shape (d, d)."""
    return moments.scatter + moments.n * torch.outer(moments.mean, moments.mean)


def root_mean_square(moments: StreamingIsoScore) -> float:
    """Root of the mean squared length of the rows of a pass."""
    return math.sqrt(float(second_moment(moments).trace()) / int(moments.n))


def log10_isotropy(cloud: PointCloud, moments: StreamingIsoScore, scale: float = 1.0) -> float:
    """log10 of I(W), in a second pass over a cloud, each vector times `scale`."""
    stream = StreamingPartition(second_moment(moments), scale=scale)
    for block in _shown(cloud, "I(W)"):
        stream.update(block)
    return stream.compute(log=True) / math.log(10)


def _shown(cloud: PointCloud, what: str) -> Iterator[np.ndarray]:
    """The blocks of a cloud, with a progress bar on a terminal."""
    from tqdm import tqdm

    about = f"{cloud.layer} {what}".strip()
    with tqdm(
        total=cloud.n, unit="row", unit_scale=True, leave=False, desc=about,
        disable=not sys.stderr.isatty() or cloud.n * cloud.d < 10**7,
    ) as bar:  # fmt: skip
        for block in cloud.blocks():
            yield block
            bar.update(len(block))
