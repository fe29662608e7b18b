"""All streaming metrics: merged parts are the whole, and a reset stream is a new one."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isotropy import metrics
from isotropy.metrics import (
    StreamingCovariance,
    StreamingIsoScore,
    StreamingMeanCosine,
    StreamingPartition,
    StreamingUnbiasedIsoScore,
)

D = 6
X = np.random.default_rng(0).normal(size=(90, D)) * np.linspace(0.5, 3, D) + 2
SECOND = X.T @ X
STREAMS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "StreamingCovariance": (lambda: StreamingCovariance(D), lambda s: s.covariance().numpy()),
    "StreamingIsoScore": (lambda: StreamingIsoScore(D), lambda s: s.compute()),
    "StreamingUnbiasedIsoScore": (
        lambda: StreamingUnbiasedIsoScore(D),
        lambda s: [s.compute(), s.compute_unbiased()],
    ),
    "StreamingMeanCosine": (lambda: StreamingMeanCosine(D), lambda s: s.compute()),
    "StreamingPartition": (
        lambda: StreamingPartition(SECOND, signs="both", scale=[1.0, 0.1]),
        lambda s: [*s.compute_each(log=True), *np.ravel(s.compute_ranges(log=True))],
    ),
}


def test_every_stream_is_tested() -> None:
    public = {name for name in metrics.__all__ if name.startswith("Streaming")}
    assert public == set(STREAMS)
    for name in public:
        methods = dict(inspect.getmembers(getattr(metrics, name), inspect.isfunction))
        assert {"update", "merge", "reset"} <= set(methods), name


@pytest.mark.parametrize("exponent", [-1000, -520, 520, 1000])
def test_scale_of_the_vectors_changes_no_cosine(exponent: int) -> None:
    """Their squares would be 0 or infinite."""
    stream = StreamingMeanCosine(D)
    for rows in (X[:40], X[40:]):
        stream.update(rows * 2.0**exponent)
    assert stream.compute() == pytest.approx(metrics.mean_cosine(X), rel=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_each_vector_counts_whatever_its_length(dtype: Any) -> None:
    """Also beside much longer ones, in one batch or in several; zero vectors count as cosine 0."""
    largest = np.finfo(dtype).max / 1e3
    lengths = np.array([largest, 1, 1e-30, np.finfo(dtype).tiny * 1e3] * 22 + [0, 0])
    rows = (X / np.abs(X).max()).astype(dtype)
    expected = metrics.mean_cosine(rows * (lengths > 0)[:, None].astype(dtype))
    rows *= lengths[:, None].astype(dtype)
    whole, parts = StreamingMeanCosine(D), StreamingMeanCosine(D)
    whole.update(rows)
    for row in rows:
        parts.update(row[None])
    for value in (metrics.mean_cosine(rows), whole.compute(), parts.compute()):
        assert value == pytest.approx(expected, rel=1e-5)


def test_overflow_of_squares_is_named() -> None:
    stream = StreamingIsoScore(D)
    stream.update(X * 1e200)
    with pytest.raises(ValueError, match="squares of the coordinates overflow"):
        stream.compute()


@pytest.mark.parametrize("name", STREAMS)
@settings(max_examples=10)
@given(cuts=st.lists(st.integers(0, 90), max_size=4), order=st.randoms(use_true_random=False))
def test_merged_parts_are_the_whole(name: str, cuts: list[int], order: Any) -> None:
    """Also of parts without vectors."""
    new, value = STREAMS[name]
    whole, merged, parts = new(), new(), []
    whole.update(X)
    for begin, end in pairwise([0, *sorted(cuts), 90]):
        parts.append(new())
        if end > begin:
            parts[-1].update(X[begin:end])
    order.shuffle(parts)
    for part in parts:
        merged.merge(part)
    np.testing.assert_allclose(value(merged), value(whole), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", STREAMS)
def test_a_reset_stream_is_a_new_one(name: str) -> None:
    new, value = STREAMS[name]
    used, fresh = new(), new()
    used.update(X[:40])
    used.reset()
    with pytest.raises(ValueError, match="has seen"):
        value(used)
    for stream in (used, fresh):
        stream.update(X[40:])
    np.testing.assert_array_equal(value(used), value(fresh))


def test_streams_of_other_vectors_are_not_merged() -> None:
    for stream in (StreamingMeanCosine, StreamingCovariance, StreamingUnbiasedIsoScore):
        with pytest.raises(ValueError, match="does not fit"):
            stream(D).merge(stream(4))  # type: ignore[arg-type]
    first = StreamingPartition(SECOND)
    for other in (StreamingPartition(np.eye(D)), StreamingPartition(SECOND, scale=2.0)):
        with pytest.raises(ValueError, match="same second moment"):
            first.merge(other)
