"""Metrics of a point cloud, by name: over all rows in passes, or on rows in memory."""

from __future__ import annotations

import math
import sys
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from functools import partial
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
import torch

from isotropy.errors import IsotropyError
from isotropy.metrics.contextuality import (
    cosine_contributions,
    explainable_variance,
    intra_sentence_similarity,
    self_similarity,
)
from isotropy.metrics.cosines import StreamingMeanCosine, type_cosines
from isotropy.metrics.dimension import lid_mle, two_nn
from isotropy.metrics.isoscores import StreamingIsoScore, standard_error
from isotropy.metrics.matmul import worker_threads
from isotropy.metrics.partition import StreamingPartition
from isotropy.metrics.silhouettes import silhouette
from isotropy.metrics.unbiased import StreamingUnbiasedIsoScore, jackknife_influences
from isotropy.metrics.validation import sample_rows
from isotropy.read.clouds import PointCloud, cloud_from_array

T = TypeVar("T")

MAX_ROWS_OF_PAIRS = 10_000
"""Rows that are sampled for metrics of all pairs, unless --sample is given."""
BYTES_IN_MEMORY = 2**29
"""Memory for the rows of all other metrics that need rows in memory."""
NEIGHBOURS = 100
"""Neighbours for the local intrinsic dimension (Cai et al. 2021)."""
MIN_CONTEXTS = 5
"""Fewest occurrences of a word for its self-similarity and explainable variance."""


class Groups(NamedTuple):
    """The groups that each row belongs to, shape (n,) each; None where they are not known.

    Attributes:
        labels: class of each row.
        types: word or word piece of each row.
        sentences: sentence of each row.
    """

    labels: Any = None
    types: Any = None
    sentences: Any = None

    def select(self, chosen: np.ndarray) -> Groups:
        """The groups of some rows."""
        return Groups(*(None if group is None else group[chosen] for group in self))


class Metric(NamedTuple):
    """A metric by name.

    Attributes:
        summary: what it measures, for the help.
        cost: "pass": in a pass over all rows; "rows": on rows in memory; "pairs": on all pairs of
            rows in memory.
        needs: the field of `Groups` that it needs; "": none.
        measure: computes columns from rows in memory, shape (n, d); None: computed in a pass.
    """

    summary: str
    cost: Literal["pass", "rows", "pairs"]
    needs: str = ""
    measure: Callable[[np.ndarray, Groups], dict[str, float]] | None = None


def _type_cosines(X: np.ndarray, groups: Groups) -> dict[str, float]:
    cosines = type_cosines(X, groups.types)
    return {"s_inter": cosines.s_inter, "s_intra": cosines.s_intra}


def _select_frequent(X: np.ndarray, types: Any) -> tuple[np.ndarray, np.ndarray]:
    """Rows of types that occur at least MIN_CONTEXTS times, and the codes of their types."""
    _, codes, counts = np.unique(types, return_inverse=True, return_counts=True)
    kept = counts[codes] >= MIN_CONTEXTS
    if not kept.any():
        raise ValueError(f"no type has {MIN_CONTEXTS} rows")
    return X[kept], codes[kept]


def _self_similarity(X: np.ndarray, groups: Groups) -> dict[str, float]:
    return {
        "self_similarity": float(self_similarity(*_select_frequent(X, groups.types)).values.mean())
    }


def _explainable_variance(X: np.ndarray, groups: Groups) -> dict[str, float]:
    estimates = explainable_variance(*_select_frequent(X, groups.types))._asdict()
    return {
        f"explainable_variance_{name}": float(np.nanmean(values))
        for name, values in estimates.items()
    }


def _intra_sentence(X: np.ndarray, groups: Groups) -> dict[str, float]:
    """Intra-sentence similarity as published, and its null value: that of the rows shuffled."""
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
    total = float(contributions.sum())
    if total == 0:
        raise ValueError("the mean cosine is 0: there is nothing to have a share of")
    return {"largest_contribution": float(contributions.max()) / total}


METRICS: dict[str, Metric] = {
    "isoscore": Metric(
        "IsoScore: 1 isotropic, 0 in one direction; without bias; standard errors", "pass"
    ),
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
        "largest share of the mean cosine from one dimension", "rows", "", _largest_contribution
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
        "variance of a type that its first component explains, three estimates",
        "rows",
        "types",
        _explainable_variance,
    ),
    "intra_sentence_similarity": Metric(
        "mean cosine of rows with their sentence's mean; the same of shuffled rows",
        "rows",
        "sentences",
        _intra_sentence,
    ),
}
"""All metrics, in the order of their columns."""


class Effects(NamedTuple):
    """What the standard errors of a cloud were computed from.

    Attributes:
        influences: of each row on a score, shape (n,), by the score's column.
        groups: sentence of each row, whose rows may depend on each other; None: rows are
            independent.
    """

    influences: dict[str, torch.Tensor]
    groups: Any = None


class Scores(NamedTuple):
    """The scores of a cloud.

    Attributes:
        columns: value of each column; metrics without a value have none.
        notes: sentences for the user.
        effects: for the errors of differences of scores.
    """

    columns: dict[str, float]
    notes: list[str]
    effects: Effects


def sample_cloud(
    cloud: PointCloud, groups: Groups, sample: int | None, seed: int
) -> tuple[PointCloud, Groups]:
    """Draw rows without replacement, at most as many as `sample`; None: all rows."""
    if sample is None or sample >= cloud.n:
        return cloud, groups
    chosen = sample_rows(cloud.n, sample, seed).numpy()
    rows = cloud_from_array(cloud.input, cloud.layer, cloud.rows(chosen))
    return rows, groups.select(chosen)


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
        groups: the groups of the rows.
        metrics: names in METRICS.
        required: whether a metric that has no value is an error; if not, there is a note.
        sample: number of rows that were asked for (`sample_cloud`); None: metrics of pairs read at
            most MAX_ROWS_OF_PAIRS.
        seed: random seed for sampling.

    Raises:
        IsotropyError: a required metric has no value.
    """
    scores = Scores({}, [], Effects({}, groups.sentences))
    keep = partial(_add_scores, scores, cloud.title, required)
    _measure_passes(cloud, scores.effects, metrics, keep)
    samples: dict[int, tuple[np.ndarray, Groups]] = {}
    for name in metrics:
        metric = METRICS[name]
        if metric.measure is None:
            continue
        size = min(cloud.n, _max_rows(metric.cost, cloud.d, sample))
        if size not in samples:
            chosen = sample_rows(cloud.n, size, seed).numpy()
            samples[size] = cloud.rows(chosen), groups.select(chosen)
            if size < cloud.n:
                rows = f"on {size:,} of {cloud.n:,} rows"
                scores.notes.append(f"metrics of {metric.cost}: {rows}")
        keep(name, partial(metric.measure, *samples[size]))
    return scores._replace(notes=list(dict.fromkeys(scores.notes)))


def _add_scores(
    scores: Scores, title: str, required: bool, name: str, measured: Callable[[], dict[str, float]]
) -> None:
    """Compute a metric; add its columns and warnings, or a note on why it has no value."""
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            scores.columns.update(measured())
        scores.notes.extend(str(warning.message) for warning in caught)
    except ValueError as error:
        if required:
            raise IsotropyError(f"{title}: {name}: {error}") from None
        scores.notes.append(f"{name} not measured: {error}")


def _max_rows(cost: str, d: int, sample: int | None) -> int:
    if cost == "pairs" and sample is None:
        return MAX_ROWS_OF_PAIRS
    return max(BYTES_IN_MEMORY // (4 * d), MAX_ROWS_OF_PAIRS, sample or 0)


def _measure_passes(
    cloud: PointCloud,
    effects: Effects,
    metrics: Sequence[str],
    keep: Callable[[str, Callable[[], dict[str, float]]], None],
) -> None:
    """Compute the metrics of one pass over the rows; I(W) and the error of IsoScore in a second."""
    requested = [name for name in metrics if METRICS[name].cost == "pass"]
    if not requested:
        return
    moments, cosine = StreamingUnbiasedIsoScore(cloud.d), StreamingMeanCosine(cloud.d)
    with_moments = {"isoscore", "partition_isotropy"} & set(requested)
    streams = [moments] * bool(with_moments) + [cosine] * ("mean_cosine" in requested)

    read_streams(cloud, "IsoScore, cosine", streams)
    if "isoscore" in requested:
        keep("isoscore", lambda: _isoscore(cloud, moments, effects))
    if "mean_cosine" in requested:
        keep("mean_cosine", lambda: {"mean_cosine": cosine.compute()})
    if "partition_isotropy" in requested:
        keep("partition_isotropy", lambda: {"log10_isotropy": log10_isotropy(cloud, moments)})


def read_streams(cloud: PointCloud, task: str, streams: Sequence[Any]) -> None:
    """Add all rows of a cloud to streams of metrics that are made from a dimension."""

    def read(block: np.ndarray) -> list[Any]:
        parts: list[Any] = [type(stream)(cloud.d) for stream in streams]
        for part in parts:
            part.update(block)
        return parts

    for parts in _map_blocks(cloud, task, read):
        for stream, part in zip(streams, parts, strict=True):
            stream.merge(part)


def _isoscore(
    cloud: PointCloud, moments: StreamingUnbiasedIsoScore, effects: Effects
) -> dict[str, float]:
    """IsoScore, with and without bias, and standard errors; rows of one sentence may depend on each
    other. The influences are added to the effects.
    """
    with worker_threads(1):
        columns = {"isoscore": moments.compute()}
    try:
        values, left_out = torch.cat(
            list(_map_blocks(cloud, "error of IsoScore", moments.effects)), dim=1
        )
        columns["isoscore_unbiased"] = moments.compute_unbiased(left_out)
        with worker_threads(1):
            effects.influences["isoscore_unbiased"] = jackknife_influences(left_out)
    except ValueError as error:
        warnings.warn(f"isoscore_unbiased not measured: {error}", stacklevel=1)
        values = influences(cloud, moments)
    effects.influences["isoscore"] = values
    try:
        with worker_threads(1):
            for name, each in effects.influences.items():
                columns[f"{name}_error"] = standard_error(each, effects.groups)
    except ValueError as error:
        warnings.warn(f"isoscore_error not measured: sentences: {error}", stacklevel=1)
    order = ("isoscore", "isoscore_error", "isoscore_unbiased", "isoscore_unbiased_error")
    return {name: columns[name] for name in order if name in columns}


def influences(cloud: PointCloud, moments: StreamingIsoScore) -> torch.Tensor:
    """Influence of each row on IsoScore, shape (n,), in a second pass over a cloud."""
    return torch.cat(list(_map_blocks(cloud, "error of IsoScore", moments.influences)))


def second_moment(moments: StreamingIsoScore) -> torch.Tensor:
    """W'W of all rows of a pass, shape (d, d)."""
    moments.covariance()  # its errors
    return moments.scatter + moments.n * torch.outer(moments.mean, moments.mean)


def root_mean_square(moments: StreamingIsoScore) -> float:
    """Root of the mean squared length of the rows of a pass."""
    return math.sqrt(float(second_moment(moments).trace()) / int(moments.n))


def log10_isotropy(cloud: PointCloud, moments: StreamingIsoScore, scale: float = 1.0) -> float:
    """log10 of I(W), in a second pass over a cloud, each vector times `scale`."""
    with worker_threads(1):
        total = StreamingPartition(second_moment(moments), scale=scale)
        empty = copy(total)

    def read(block: np.ndarray) -> StreamingPartition:
        part = copy(empty)
        part.update(block)
        return part

    for part in _map_blocks(cloud, "I(W)", read):
        total.merge(part)
    return total.compute(log=True) / math.log(10)


def _map_blocks(cloud: PointCloud, task: str, function: Callable[[np.ndarray], T]) -> Iterator[T]:
    """Yield the results of a function on the blocks of a cloud, in order. Blocks are computed in
    worker threads with one compute thread each, so that results do not depend on their number.
    """
    n, pending = torch.get_num_threads(), deque[Any]()
    with worker_threads(n) as pool:
        for block in _with_progress(cloud, task):
            pending.append(pool.submit(function, block))
            if len(pending) > n:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


def _with_progress(cloud: PointCloud, task: str) -> Iterator[np.ndarray]:
    """The blocks of a cloud, with a progress bar on a terminal."""
    from tqdm import tqdm

    description = f"{cloud.layer} {task}".strip()
    with tqdm(
        total=cloud.n, unit="row", unit_scale=True, leave=False, desc=description,
        disable=not sys.stderr.isatty() or cloud.n * cloud.d < 10**7,
    ) as bar:  # fmt: skip
        for block in cloud.blocks():
            yield block
            bar.update(len(block))
